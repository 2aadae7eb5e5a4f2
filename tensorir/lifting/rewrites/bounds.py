"""Comparisons of coordinates, choices, and reads of less padding.

What moves all operands of an elementwise builtin alike moves its result: shifts, cuts, reads, merges and splits.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> show(Canonical(), "⟪I, 1⟫(x) + exp(⟪I, 1⟫(y))", x={"I": (0, 5)}, y={"I": (0, 5)})
⟪I, 1⟫(x + exp(y))

Comparisons of coordinates with numbers, in one form.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> show(Canonical(), "if 3 > pos(I, x) then x else 0.0", x={"I": (0, 5)})
if pos(I, x) < 3 then x else 0.0

Choices by one truth value stand outside; one that leaves something as it is, or chooses a truth, says just that.

>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> from tensorir.passes.base import show
>>> from tensorir.ir.types import BOOL, TensorType
>>> show(Canonical(), "update(x, if c then y × 2.0 else subset(x, I[1:4]))",
...      c=TensorType(BOOL), x={"I": (0, 6)}, y={"I": (1, 4)})
if c then update(x, y × 2.0) else x
>>> show(Canonical(), "if c then y < 0.0 else false", c=TensorType(BOOL), y={"I": (1, 4)})
c ∧ y < 0.0

How far sums of coordinates reach, and what reads of a tensor within that need of it.

>>> from tensorir.text import parse_expr
>>> hull_of(parse_expr("2 × pos(i, add_dim(i, 0, 3, 0)) + 1", []))
Interval(1, 6)
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge, gt, le, lt

from tensorir.integers.affine import Affine, number, quotient
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import BOOL, INT32, Interval
from tensorir.lifting.emission.tensors import (
    constant_of,
    cut,
    filled,
    position,
    renamed,
    shifted,
    spread,
    sum_of,
    sum_of_coordinates,
)
from tensorir.lifting.rewrites.padding import cut_of_wider, restricted


def shift_outside(e: Call) -> Expr | None:
    """What shifts all that has a dim by one distance shifts the whole."""
    having = [a for a in e.args if a.tensor.dims]
    for dim, by in _shifts(having[0]) if having else ():
        if all((dim, by) in _shifts(a) for a in having if dim in a.tensor.dims):
            args = [_unshifted(a, dim) if dim in a.tensor.dims else a for a in e.args]
            return shifted(call(e.op, *args, static=e.static, span=e.span), dim, by)
    return None


def _shifts(x: Expr) -> list[tuple[str, int]]:
    """The distances of the shifts that a tensor starts with."""
    found: list[tuple[str, int]] = []
    while isinstance(x, Call) and x.op == "cartesian_shift":
        found.append((x.static[0], x.static[1]))
        x = x.args[0]
    return found


def _unshifted(x: Expr, dim: str) -> Expr:
    assert isinstance(x, Call) and x.op == "cartesian_shift"
    if x.static[0] == dim:
        return x.args[0]
    return shifted(_unshifted(x.args[0], dim), *x.static)


def gather_outside(e: Call) -> Expr | None:
    """What reads all that has dims at the same places reads the whole there, where that computes no more."""
    having = [a for a in e.args if a.tensor.dims]
    if len(having) < 2:
        return None
    match having[0]:
        case Call("gather", (first, *indices), (dims, "clamp") as static):
            pass
        case _:
            return None
    for a in having:
        if not isinstance(a, Call) or a.op != "gather" or a.static != static or list(a.args[1:]) != indices:
            return None
        if any(a.args[0].tensor.dims[d] != first.tensor.dims[d] for d in dims):
            return None  # the nearest element is another one
        if set(a.args[0].tensor.dims) != set(first.tensor.dims):
            return None  # a product of a contraction stays one
    args = [a.args[0] if isinstance(a, Call) and a.tensor.dims else a for a in e.args]
    whole = call(e.op, *args, static=e.static, span=e.span)
    more = whole.tensor.dims.size > e.tensor.dims.size
    return None if more else call("gather", whole, *indices, static=static, span=e.span)


def merge_outside(e: Call) -> Expr | None:
    """What merges two dims of all that has dims merges those of the result."""
    having = [a for a in e.args if a.tensor.dims]
    match having:
        case [Call("merge_dims", (first,), static), *_]:
            kept = [(d, first.tensor.dims[d]) for d in static[:2]]
        case _:
            return None
    inner = {id(a): a.args[0] for a in having if isinstance(a, Call) and a.op == "merge_dims" and a.static == static}
    if any(id(a) not in inner or any(inner[id(a)].tensor.dims[d] != i for d, i in kept) for a in having):
        return None
    args = [inner.get(id(a), a) for a in e.args]
    return call("merge_dims", call(e.op, *args, static=e.static, span=e.span), static=static, span=e.span)


def cut_outside(e: Call) -> Expr | None:
    """Operands that end where all of them end together are cut by that; operands cut alike make a result that is cut.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "subset(x, I[0:3]) + subset(⟪I, 1⟫(x), I[0:3]) + ⟪I, 2⟫(x)", x={"I": (0, 5)})
    x + ⟪I, 1⟫(x) + ⟪I, 2⟫(x)
    """
    inner = [a.args[0] if isinstance(a, Call) and a.op == "subset" else a for a in e.args]
    if sum(1 for a in e.args if a.tensor.dims) < 2 or all(a is b for a, b in zip(inner, e.args, strict=True)):
        return None
    new = call(e.op, *inner, static=e.static, span=e.span)
    if new.type == e.type:
        return new
    if any(a is b for a, b in zip(inner, e.args, strict=True) if b.tensor.dims):
        return None
    found = cut(new, dict(e.tensor.dims.items))
    return found if found.type == e.type else None


def split_outside(e: Call) -> Expr | None:
    """What splits a dim of the one operand that has dims splits that of the result; a choice is taken by the parts."""
    if e.op == "if":
        return None  # `split_of_choice` goes the other way
    match [a for a in e.args if a.tensor.dims]:
        case [Call("split_dim", (x,), static) as split]:
            args = [x if a is split else a for a in e.args]
            return call("split_dim", call(e.op, *args, static=e.static, span=e.span), static=static, span=e.span)
        case _:
            return None


OUTSIDE = (cut_of_wider, cut_outside, shift_outside, gather_outside, merge_outside, split_outside)
"""Rules that look at every elementwise builtin."""

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


THERE = frozenset(["add_dim", "cartesian_shift", "merge_dims", "pos", "rename", "split_dim", "subset", "tuple_get"])
"""What has every element that its operand has, besides what is done element by element."""


def choice_of_truth(e: Call) -> Expr | None:
    """A choice between a condition and the truth value that decides it is both conditions, or either."""
    c, x, y = e.args
    if e.tensor.element != BOOL:
        return None
    for one, other, truth, op in ((y, x, False, "and"), (x, y, True, "or")):
        known = constant_of(one)
        if known is not None and known.value is truth and _is_there(other):
            return call(op, c, other, span=e.span)
    return None


def choice_of_the_same(e: Call) -> Expr | None:
    """A choice between two that are one is that.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "if x > 0.0 then exp(x) else exp(x)", x={"I": (0, 6)})
    exp(x)
    """
    _, x, y = e.args
    return x if (x is y or x == y) and x.tensor == e.tensor else None


def choice_in_a_choice(e: Call) -> Expr | None:
    """A choice in a choice whose other sides are one is a choice by both conditions.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "if x > 0.0 then (if x < 9.0 then x else y) else y", x={"I": (0, 6)}, y={"I": (0, 6)})
    if x > 0.0 ∧ x < 9.0 then x else y
    """
    c, x, y = e.args
    match x:
        case Call("if", (d, inner, other)) if (other is y or other == y) and _is_there(d):
            return call("if", call("and", c, d), inner, y, span=e.span)
        case _:
            return None


def _is_there(e: Expr) -> bool:
    """True if nothing in an expression may be absent that its variables have."""
    return all(
        n.op in THERE or TABLE[n.op].elementwise or (n.op == "gather" and n.static[-1] in ("clamp", "zero"))
        for n in postorder(e)
        if isinstance(n, Call)
    )


def choice_of_renamed(e: Call) -> Expr | None:
    """A choice under other names is one of parts under other names."""
    match e.args[0]:
        case Call("if", (c, x, y)) as choice if not c.tensor.dims and not choice.label:
            names = dict(e.static[0])
            return call("if", c, renamed(x, names), renamed(y, names), span=e.span)
        case _:
            return None


def choice_of_updates(e: Call) -> Expr | None:
    """An update by something, or by what is there already, is an update or none."""
    whole, part = e.args
    match part:
        case Call("if", (c, x, y)) if not c.tensor.dims and (_is_part(x, whole) or _is_part(y, whole)):
            dims = dict(part.tensor.dims.items)
            branches = [
                whole if _is_part(b, whole) else call("update", whole, spread(cut(b, dims), dims)) for b in (x, y)
            ]
            return call("if", c, *branches, span=e.span)
        case _:
            return None


def update_of_itself(e: Call) -> Expr | None:
    """What is put where it stands changes nothing."""
    whole, part = e.args
    return whole if _is_part(part, whole) else None


def _is_part(x: Expr, whole: Expr) -> bool:
    """True if an expression is the whole, or a part of it where it stands."""
    while isinstance(x, Call) and x.op == "subset":
        (x,) = x.args
    return x is whole or x == whole


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
