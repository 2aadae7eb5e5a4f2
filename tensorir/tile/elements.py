"""The element types: their names, widths, tags, and the NumPy type that holds one element.

>>> ELEMENTS["f8E4M3FN"].bits, ELEMENTS["f8E4M3FN"].precision, ELEMENTS["f8E4M3FN"].largest
(8, 4, 448.0)
>>> ELEMENTS["i8"].range
(-128, 127)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["ELEMENTS", "Element"]


@dataclass(frozen=True, slots=True)
class Element:
    """A numeric element type.

    `precision` counts the bits of a significand with its leading one, `emin` and `emax` are the exponents of the
    smallest and the largest normal number; integers have zeros there. A float has infinities, or saturates.
    """

    name: str
    bits: int
    tag: int
    since: tuple[int, int] = (13, 1)
    precision: int = 0
    emin: int = 0
    emax: int = 0
    infinite: bool = False
    storage: Any = None
    """The NumPy type that holds one element in a tile; of i4 and tf32 a wider one."""

    @property
    def is_float(self) -> bool:
        return self.precision > 0

    @property
    def is_integer(self) -> bool:
        return self.precision == 0

    @property
    def bytes(self) -> int:
        """What one element takes in memory; 4-bit elements are packed in pairs, and take half of that."""
        return 4 if self.name == "tf32" else (self.bits + 7) // 8

    @property
    def width(self) -> int:
        """The bits between two elements in memory."""
        return 4 if self.bits == 4 else 8 * self.bytes

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.storage)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of a signed integer."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def largest(self) -> float:
        """The largest finite number of a float."""
        if self.name == "f8E4M3FN":
            return 448.0
        if self.name == "f8E8M0FNU":
            return 2.0**127
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _integer(name: str, bits: int, tag: int, storage: Any, since: tuple[int, int] = (13, 1)) -> Element:
    return Element(name, bits, tag, since, storage=storage)


ELEMENTS: dict[str, Element] = {
    e.name: e
    for e in (
        _integer("i1", 1, 0, np.bool_),
        _integer("i8", 8, 1, np.int8),
        _integer("i16", 16, 2, np.int16),
        _integer("i32", 32, 3, np.int32),
        _integer("i64", 64, 4, np.int64),
        Element("f16", 16, 5, (13, 1), 11, -14, 15, True, np.float16),
        Element("bf16", 16, 6, (13, 1), 8, -126, 127, True, ml_dtypes.bfloat16),
        Element("f32", 32, 7, (13, 1), 24, -126, 127, True, np.float32),
        Element("tf32", 19, 8, (13, 1), 11, -126, 127, True, np.float32),
        Element("f64", 64, 9, (13, 1), 53, -1022, 1023, True, np.float64),
        Element("f8E4M3FN", 8, 10, (13, 1), 4, -6, 8, False, ml_dtypes.float8_e4m3fn),
        Element("f8E5M2", 8, 11, (13, 1), 3, -14, 15, False, ml_dtypes.float8_e5m2),
        Element("f8E8M0FNU", 8, 18, (13, 2), 1, -127, 127, False, ml_dtypes.float8_e8m0fnu),
        Element("f4E2M1FN", 4, 19, (13, 3), 2, 0, 2, False, ml_dtypes.float4_e2m1fn),
        _integer("i4", 4, 22, np.int8, (13, 3)),
    )
}
"""By name. `infinite` says that a conversion may give an infinity; f8E5M2 has some, and saturates."""
