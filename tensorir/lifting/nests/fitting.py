"""Sums of indices as terms of an element type, whose numbers wrap around.

`i - 3`, for i from 0 on, is no number of a uint32: it stays an operation on one, and is computed as such. Without
bounds, the indices of a source (int32 and int64) are taken to keep to their type.

>>> from tensorir.integers.affine import number, variable
>>> from tensorir.lifting.nests.terms import show
>>> from tensorir.ir.types import INT32, Scalar
>>> narrow = Scalar("int8", "int", 8)
>>> i = variable("i")
>>> fitting(i.times(20), narrow, {"i": (0, 7)})
>>> show(fitting(i.times(20), INT32, {"i": (0, 7)})), show(fitting(number(200), narrow, {}))
('i*20', '-56')
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.integers.affine import Affine
from tensorir.ir.types import Scalar
from tensorir.lifting.nests.terms import Linear, Number, Term

__all__ = ["fits", "fitting"]


def fits(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Whether a sum is a number of an element type wherever its variables are."""
    spread = affine.range(ranges)
    if spread is None:
        return element.bits >= 32 and element.range.start < 0
    return spread[0] in element.range and spread[1] in element.range


def fitting(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> Term | None:
    """The term of a sum, and of a number what it wraps around to; None where others might wrap around."""
    if affine.is_number:
        low = element.range.start
        return Number((affine.constant - low) % (element.range.stop - low) + low, element)
    return Linear(affine, element) if fits(affine, element, ranges) else None
