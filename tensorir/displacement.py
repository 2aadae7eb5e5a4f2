"""Coordinates that lie as far from others as a tensor of integers says.

>>> from tensorir.build import var
>>> from tensorir.types import tensor
>>> here = var("here", tensor("int", I=(0, 300)))
>>> print(displaced(here, var("by", tensor("int8", I=(0, 300)))))
here + cast(by, int)
"""

from __future__ import annotations

from tensorir.build import call, literal
from tensorir.ir import Expr
from tensorir.types import INT32, INT64, Scalar

__all__ = ["displaced"]

FAR = 1 << 62
"""A distance that leads outside of every tensor, from wherever."""


def displaced(a: Expr, b: Expr) -> Expr:
    """A position, int32, and a distance of any type of integers, in any order, added in a type that holds their sum."""
    elements = [x.tensor.element for x in (a, b)]
    narrow = all(e == INT32 or (isinstance(e, Scalar) and e.bits < 32) for e in elements)
    return call("plus", *(_as(x, INT32 if narrow else INT64) for x in (a, b)))


def _as(x: Expr, wide: Scalar) -> Expr:
    element = x.tensor.element
    assert isinstance(element, Scalar)
    if element.bits == 64:
        x = call("min", x, literal(FAR, element))
        x = call("max", x, literal(-FAR, element)) if element == INT64 else x
    return x if element == wide else call("cast", x, static=(wide,))
