"""How far sums of coordinates reach, and what reads of a tensor within that need of it.

>>> from tensorir.text import parse_expr
>>> hull_of(parse_expr("2 × pos(i, add_dim(i, 0, 3, 0)) + 1", []))
Interval(1, 6)
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.build import call
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import Interval
from tensorir.lifting.rewrites.padding import restricted

__all__ = ["hull_of", "read_inside", "read_of_less_padding"]


def hull_of(index: Expr) -> Interval | None:
    """The least interval around the values of a sum of coordinates."""
    match index:
        case Literal(value):
            return Interval(int(value), int(value) + 1)
        case Call("pos", (base,), (dim,)):
            return base.tensor.dims[dim]
        case Call("plus" | "minus" | "multiplies" as op, (a, b)):
            return _of_operation(op, [hull_of(a), hull_of(b)], isinstance(a, Literal) or isinstance(b, Literal))
        case _:
            return None


def _of_operation(op: str, parts: Sequence[Interval | None], by_number: bool) -> Interval | None:
    a, b = parts
    if a is None or b is None or not a or not b:
        return None
    match op:
        case "plus":
            return Interval(a.start + b.start, a.stop + b.stop - 1)
        case "minus":
            return Interval(a.start - b.stop + 1, a.stop - b.start)
        case _ if by_number:
            corners = [p * q for p in (a.start, a.stop - 1) for q in (b.start, b.stop - 1)]
            return Interval(min(corners), max(corners) + 1)
        case _:
            return None


def read_inside(e: Call) -> Expr | None:
    """A read of zeros outside, at places that are all inside, is one of the nearest element.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "gather(I, zero)(x, 2 × pos(i, add_dim(i, 0, 3, 0)) + 1)", x={"I": (0, 7)})
    gather(I, clamp)(x, 2 × pos(i, add_dim(i, 0, 3, 0)) + 1)
    """
    x, *indices = e.args
    dims, mode = e.static
    hulls = [(x.tensor.dims[d], hull_of(i)) for d, i in zip(dims, indices, strict=True)]
    if mode != "zero" or not all(hull is not None and interval.covers(hull) for interval, hull in hulls):
        return None
    return call("gather", x, *indices, static=(dims, "clamp"), span=e.span)


def read_of_less_padding(e: Call) -> Expr | None:
    """Windows need no more padding than they reach.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> padded = "update(add_dim(I, -4, 12, 0.0), x)"
    >>> t = "pos(i, add_dim(i, 0, 6, false)) + pos(r, add_dim(r, 0, 3, false))"
    >>> show(Canonical(), f"gather(I, clamp)({padded}, {t})", x={"I": (1, 7)})
    gather(I, clamp)(
      update(add_dim(I, 0, 8, 0.0), x),
      pos(i, add_dim(i, 0, 6, false)) + pos(r, add_dim(r, 0, 3, false))
    )
    """
    x, *indices = e.args
    dims, mode = e.static
    if mode != "clamp":
        return None
    hulls = {d: hull_of(i) for d, i in zip(dims, indices, strict=True)}
    reach = {d: i for d, i in hulls.items() if i and i != x.tensor.dims[d] and x.tensor.dims[d].covers(i)}
    less = restricted(x, reach) if reach else None
    return None if less is None else call("gather", less, *indices, static=e.static, span=e.span)
