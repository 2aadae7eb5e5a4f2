"""What moves all operands of an elementwise builtin alike moves its result: shifts, cuts, reads, merges and splits.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> show(Canonical(), "⟪I, 1⟫(x) + exp(⟪I, 1⟫(y))", x={"I": (0, 5)}, y={"I": (0, 5)})
⟪I, 1⟫(x + exp(y))
"""

from __future__ import annotations

from tensorir.ir.build import call
from tensorir.ir.nodes import Call, Expr
from tensorir.lifting.emission.tensors import cut, shifted
from tensorir.lifting.rewrites.padding import cut_of_wider

__all__ = ["OUTSIDE", "cut_outside", "gather_outside", "merge_outside", "shift_outside", "split_outside"]


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
