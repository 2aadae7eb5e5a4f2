"""Comparisons of coordinates with numbers, in one form.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> show(Canonical(), "if 3 > pos(I, x) then x else 0.0", x={"I": (0, 5)})
if pos(I, x) < 3 then x else 0.0
"""

from __future__ import annotations

from operator import ge, gt, le, lt

from tensorir.integers.affine import Affine, number, quotient
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.emission.tensors import filled, position, spread, sum_of
from tensorir.lifting.rewrites.coordinates import sum_of_coordinates

__all__ = ["COMPARED", "bound_of_rows", "known_bound", "last_coordinate", "small_first"]

COMPARED = {"less": lt, "greater": gt, "less_equal": le, "greater_equal": ge}
"""What comparisons are of numbers."""

_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def small_first(e: Call) -> Expr | None:
    """Comparisons have a number on the right, or the sign that opens to the right."""
    x, y = e.args
    one_number = isinstance(x, Literal) != isinstance(y, Literal)
    wrong = isinstance(x, Literal) if one_number else e.op in ("greater", "greater_equal")
    return call(_MIRRORED[e.op], y, x, span=e.span) if wrong else None


def last_coordinate(e: Call) -> Expr | None:
    """A coordinate that is the last one is one from the last one on."""
    match e.args:
        case (Call("pos", (base,), (dim,)) as x, Literal(value) as last) if value == base.tensor.dims[dim].stop - 1:
            return call("greater_equal", x, last, span=e.span)
        case _:
            return None


def known_bound(e: Call) -> Expr | None:
    """A bound that a sum of coordinates keeps everywhere, or nowhere, is true or false.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "3 × pos(I, add_dim(I, 0, 4, false)) + pos(J, add_dim(J, 0, 3, false))"
    >>> show(Canonical(), f"if {t} < 12 then x else 0.0", x={"I": (0, 4), "J": (0, 3)})
    x
    """
    match e.args:
        case (x, Literal(value)) if (total := sum_of_coordinates(x)) is not None and not total.is_number:
            pass
        case _:
            return None
    dims = dict(e.tensor.dims.items)
    span = total.range({d: (i.start, i.stop - 1) for d, i in dims.items()}) if e.tensor.dims.size else None
    if span is None:
        return None
    holds = {COMPARED[e.op](bound, value) for bound in span}
    return filled(holds.pop(), BOOL, dims) if len(holds) == 1 else None


def bound_of_rows(e: Call) -> Expr | None:
    """A bound of places that is the start of a row is one of rows.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "6 × pos(I, add_dim(I, 0, 4, false)) + pos(J, add_dim(J, 0, 3, false))"
    >>> show(Canonical(), f"if {t} ≥ 12 then x else y", x={"I": (0, 4)}, y={"J": (0, 3)})
    if add_dim(J, 0, 3, pos(I, add_dim(I, 0, 4, false)) ≥ 2) then x else y
    """
    match e:
        case Call("less" | "greater_equal", (x, Literal(value))) if (total := sum_of_coordinates(x)) is not None:
            pass
        case _:
            return None
    dims = dict(e.tensor.dims.items)
    ranges = {d: (i.start, i.stop - 1) for d, i in dims.items()}
    bound, moving = int(value) - total.constant, Affine(total.terms)
    for by in sorted({abs(c) for _, c in total.terms if abs(c) > 1}, reverse=True):
        rows = quotient(moving, by, ranges)
        if not bound % by and rows.is_linear and len(rows.names) < len(total.names):
            new = rows.minus(number(rows.constant))
            place = sum_of(new, {n: position(n, dims[n]) for n in sorted(new.names)})
            limit = literal(bound // by - rows.constant, INT32)
            return spread(call(e.op, place, limit, span=e.span), dims)
    return None
