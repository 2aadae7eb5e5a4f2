"""Data types of TIR: a code, a width in bits, a number of lanes.

`bool` is the unsigned integer of one bit, `void` the handle of no bits, as in TVM. `DataType.parse` and
`str` speak the notation of TVMScript; `numpy` gives the array type that holds elements (`ml_dtypes` for the narrow
floats).

>>> DataType.parse("float32x4")
DataType(code='float', bits=32, lanes=4)
>>> str(DataType.parse("uint1")), str(VOID), DataType.parse("bfloat16").numpy
('bool', 'void', dtype(bfloat16))
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

_NARROW = {
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float4_e2m1fn": 4,
}
_SPELLING = re.compile(
    r"(?P<code>int|uint|float|bfloat|handle|bool|void|custom\[\w+\]|e\dm\d_float8|"
    + "|".join(sorted(_NARROW, key=len, reverse=True))
    + r")(?P<bits>[0-9]{1,4})?(?:x(?P<scalable>vscalex)?(?P<lanes>[0-9]{1,5}))?"
)
_WIDTHS = {
    "int": (1, 2, 4, 8, 16, 32, 64, 128),
    "uint": (1, 2, 4, 8, 16, 32, 64, 128),
    "float": (8, 16, 32, 64, 128),
    "bfloat": (16,),
}
_OLD_NAMES = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}


@dataclass(frozen=True, slots=True)
class DataType:
    """The type of one value: `lanes` elements of `bits` bits, read as `code` says.

    `code` is "int", "uint", "float", "bfloat", "handle", or the whole name of a narrow float ("float8_e4m3fn").
    Negative `lanes` count lanes of a scalable vector (`float32xvscalex4` has -4).
    """

    code: str
    bits: int
    lanes: int = 1

    @staticmethod
    def parse(text: str) -> DataType:
        """The type that `text` spells; ValueError where it spells none."""
        return _parse(text)

    @property
    def element(self) -> DataType:
        """The type of one lane."""
        return self if self.lanes == 1 else DataType(self.code, self.bits)

    def with_lanes(self, lanes: int) -> DataType:
        """The vector (or scalar) of `lanes` such elements."""
        return self if lanes == self.lanes else DataType(self.code, self.bits, lanes)

    @property
    def is_int(self) -> bool:
        return self.code == "int"

    @property
    def is_uint(self) -> bool:
        """Unsigned and wider than a bool."""
        return self.code == "uint" and self.bits > 1

    @property
    def is_bool(self) -> bool:
        return self.code == "uint" and self.bits == 1

    @property
    def is_integer(self) -> bool:
        """An integer in TIR's sense: Int or UInt, bool included."""
        return self.code in ("int", "uint")

    @property
    def is_float(self) -> bool:
        """Any floating-point format, bfloat16 and the narrow ones included."""
        return self.code.startswith(("float", "bfloat"))

    @property
    def is_handle(self) -> bool:
        return self.code == "handle" and self.bits > 0

    @property
    def is_void(self) -> bool:
        return self.code == "handle" and self.bits == 0

    @property
    def bytes(self) -> int:
        """The bytes of a value, with all of its lanes."""
        return -(-self.bits * self.lanes // 8)

    @property
    def is_scalar(self) -> bool:
        return self.lanes == 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one element; TypeError for handles and for formats that NumPy and ml_dtypes lack."""
        return _numpy(self.code, self.bits)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.code == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        assert self.code == "uint", self
        return 0, (1 << self.bits) - 1

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest number of a type; those of a float are finite."""
        if self.is_integer:
            return self.range
        finfo: Any = ml_dtypes.finfo  # ml_dtypes states no types for its own formats
        largest = float(finfo(self.numpy).max)
        return -largest, largest

    def __str__(self) -> str:
        return _spell(self)


@lru_cache(maxsize=1024)
def _parse(text: str) -> DataType:
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} names no data type")
    code, bits, lanes = match["code"], int(match["bits"] or 0), int(match["lanes"] or 1)
    code = _OLD_NAMES.get(code, code)
    if match["scalable"]:
        lanes = -lanes
    if code == "bool":
        return DataType("uint", 1, lanes)
    if code == "void":
        return VOID
    if code == "handle":
        return DataType("handle", bits or 64, lanes)
    if code in _NARROW:
        return DataType(code, _NARROW[code], lanes)
    bits = bits or 32
    if bits not in _WIDTHS.get(code, (bits,)):
        raise ValueError(f"{text[:60]!r} names no data type")
    return DataType(code, bits, lanes)


@lru_cache(maxsize=1024)
def _spell(dtype: DataType) -> str:
    match dtype:
        case DataType("uint", 1):
            name = "bool"
        case DataType("handle", 0):
            return "void"
        case DataType("handle", 64):
            name = "handle"
        case DataType(code, _) if code in _NARROW or code.startswith("custom"):
            name = code
        case DataType(code, bits):
            name = f"{code}{bits}"
    if dtype.lanes < 0:
        return f"{name}xvscalex{-dtype.lanes}"
    return name if dtype.lanes == 1 else f"{name}x{dtype.lanes}"


@lru_cache(maxsize=256)
def _numpy(code: str, bits: int) -> np.dtype[Any]:
    if code == "uint" and bits == 1:
        return np.dtype(np.bool_)
    if code == "bfloat" and bits == 16:
        return np.dtype(ml_dtypes.bfloat16)
    name = code if code in _NARROW else f"{code}{bits}"
    if code in _NARROW or (code in ("int", "uint") and bits in (2, 4)):
        if (scalar := getattr(ml_dtypes, name, None)) is not None:
            return np.dtype(scalar)
    elif code in ("int", "uint", "float") and bits in (8, 16, 32, 64) and name != "float8":
        return np.dtype(name)
    raise TypeError(f"arrays hold no elements of type {name}")


BOOL = DataType("uint", 1)
INT8, INT16, INT32, INT64 = (DataType("int", bits) for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DataType("uint", bits) for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (DataType("float", bits) for bits in (16, 32, 64))
BFLOAT16 = DataType("bfloat", 16)
HANDLE = DataType("handle", 64)
VOID = DataType("handle", 0)


def other_bytes(given: DataType, wanted: DataType) -> str:
    """Why a value of one type cannot be read as another one, bit for bit; empty where it can.

    >>> other_bytes(FLOAT32, INT64)
    'T.reinterpret keeps the bytes: float32 has 4, and int64 has 8.'
    """
    if "handle" in (given.code, wanted.code) or given.bytes == wanted.bytes:
        return ""
    return f"T.reinterpret keeps the bytes: {given} has {given.bytes}, and {wanted} has {wanted.bytes}."
