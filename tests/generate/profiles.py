"""What a generated program may use: element types, builtins, and the values of its data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, Scalar

__all__ = ["EVERY", "EXACT", "OP_BY_OP", "SLOPES", "SMOOTH", "WHOLE", "Profile"]

TRANSCENDENTAL = frozenset(name for name, row in TABLE.items() if row.transcendental)
COMPARISONS = frozenset(
    ["eq", "not_eq", "less", "less_equal", "greater", "greater_equal", "isfinite", "isinf", "isnan"]
)
ROUNDINGS = frozenset(["floordiv", "mod", "rem", "floor", "ceil", "trunc", "round", "sign", "bitcast", "cast"])
WELL_CONDITIONED = frozenset(["sin", "cos", "tanh", "arctan", "erf", "arcsinh"])
"""Transcendental functions whose slope is 1.2 at most."""


@dataclass(frozen=True, repr=False)
class Profile:
    """One kind of program."""

    name: str
    elements: tuple[Scalar, ...]
    """The element types that are computed with."""
    without: frozenset[str]
    """Builtins that are not applied to floats."""
    values: str
    """What the data is like: "special" (NaN, infinities, extremes), "whole" (small integers), "gentle" (0.5 to 2)."""
    shown: bool = False
    """Whether the program may print."""
    few: bool = False
    """Whether intervals have few different extents: XLA compiles every operation once per shape and type."""

    long: bool = False
    """Whether some intervals have room for many blocks."""

    def __repr__(self) -> str:
        return self.name

    def allows(self, op: str, element: Scalar) -> bool:
        return not (element.is_float and op in self.without)


NARROW = tuple(SCALARS[name] for name in ("int8", "int16", "uint8", "uint16", "uint32", "uint64"))
SMALL_FLOATS = tuple(SCALARS[name] for name in ("float16", "bfloat16"))
COMMON = (FLOAT64, INT32, BOOL, FLOAT32, INT64)

EVERY = Profile("EVERY", (*COMMON, *NARROW, *SMALL_FLOATS), frozenset(), "special", True)
"""Everything that the notation can say."""

LONG = replace(EVERY, name="LONG", long=True)
"""The same with intervals that several blocks lie in."""

EXACT = Profile("EXACT", (*COMMON, *NARROW, *SMALL_FLOATS), TRANSCENDENTAL, "special", True)
"""What the lowering computes bit for bit, op by op."""

OP_BY_OP = replace(
    EXACT,
    name="OP_BY_OP",
    elements=(*COMMON[:4], *(SCALARS[name] for name in ("int8", "uint16", "bfloat16"))),
    few=True,
)
"""The same with fewer types and shapes, so that many programs run in little time."""

WHOLE = Profile(
    "WHOLE", (FLOAT64, INT32, BOOL, INT64), TRANSCENDENTAL | {"divides", "floordiv", "sqrt", "bitcast"}, "whole"
)
"""What XLA's rewrites leave as it is: floats are small whole numbers."""

SMOOTH = Profile(
    "SMOOTH", (FLOAT64,), (TRANSCENDENTAL - WELL_CONDITIONED) | COMPARISONS | ROUNDINGS | {"divides", "sqrt"}, "gentle"
)
"""What moves little when its data does."""

SLOPES = Profile("SLOPES", (FLOAT64,), (TRANSCENDENTAL | COMPARISONS | ROUNDINGS) - {"log", "rsqrt", "log1p"}, "gentle")
"""What has slopes without bound where no data is."""
