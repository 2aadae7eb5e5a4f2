"""Windows over what is padded: what is read along several dims, each padded or not, is one read of one padded tensor.

>>> from tensorir.passes.show import show
>>> from tensorir.lift.rewrites.canonical import Canonical
>>> rows = "update(add_dim(I, 0, 7, add_dim(j, 0, 2, 0.0)), gather(J, clamp)(x, pos(j, add_dim(j, 0, 2, 0)) + 1))"
>>> show(Canonical(), f"gather(I, clamp)({rows}, pos(i, add_dim(i, 0, 3, 0)) + 2)", x={"I": (1, 6), "J": (0, 4)})
gather(I, J, clamp)(
  update(add_dim(J, 1, 3, add_dim(I, 0, 7, 0.0)), subset(x, J[1:3])),
  pos(i, add_dim(i, 0, 3, 0)) + 2,
  pos(j, add_dim(j, 0, 2, 0)) + 1
)
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.build import call
from tensorir.ir import Call, Expr, Literal
from tensorir.lift.emission.tensors import constant_of, cut, filled
from tensorir.types import Interval, Scalar

__all__ = ["read_of_part", "read_through_padding"]


def read_of_part(e: Call) -> Expr | None:
    """A read inside of a part is one of the whole.

    >>> from tensorir.passes.show import show
    >>> from tensorir.lift.rewrites.canonical import Canonical
    >>> show(Canonical(), "gather(I, clamp)(subset(x, I[1:6]), pos(i, add_dim(i, 0, 3, 0)) + 2)", x={"I": (0, 7)})
    gather(I, clamp)(x, pos(i, add_dim(i, 0, 3, 0)) + 2)
    """
    dims, mode = e.static
    match e.args:
        case (Call("subset", (x,)) as part, *indices):
            pass
        case _:
            return None
    hulls = {d: _hull(i) for d, i in zip(dims, indices, strict=True)}
    inside = {d for d, i in hulls.items() if i is not None and part.tensor.dims[d].covers(i)}
    kept = {d: i for d, i in part.tensor.dims.items if d not in inside and x.tensor.dims[d] != i}
    if kept.keys() == {d for d, i in part.tensor.dims.items if x.tensor.dims[d] != i}:
        return None
    return call("gather", cut(x, kept), *indices, static=(dims, mode), span=e.span)


def read_through_padding(e: Call) -> Expr | None:
    """A read of what is padded around another read reads along the dims of both."""
    match e.args, e.static:
        case (Call("update", (base, Call("gather", (x, *inside), (dims, "clamp")) as rows)), *around), (outer, "clamp"):
            pass
        case _:
            return None
    number, element = constant_of(base), e.tensor.element
    if number is None or not isinstance(element, Scalar):
        return None
    moved: dict[str, Expr] = {d: i for d, i in zip(dims, inside, strict=True) if not isinstance(i, Literal)}
    fixed = {d: i for d, i in zip(dims, inside, strict=True) if isinstance(i, Literal)}
    own = {d for i in moved.values() for d in i.tensor.dims}
    padded = e.args[0].tensor.dims
    part = rows.tensor.dims
    whole = all(part.get(d) == i for d, i in padded.items if d not in outer)
    apart = not own & (set(outer) | set(x.tensor.dims)) and not set(moved) & (set(outer) | set(padded) | own)
    if not moved or not whole or not apart or any(set(moved) & set(i.tensor.dims) for i in around):
        return None
    found = _below(x, moved, number, fixed)
    if found is None:
        return None
    below, intervals = found
    dims_of_both = {d: i for d, i in padded.items if d not in own} | intervals
    new = call("update", filled(number.value, element, dims_of_both), below)
    chosen: dict[str, Expr] = dict(zip(outer, around, strict=True)) | moved
    every = tuple(d for d in below.tensor.dims.names if d in chosen)
    if len(every) < len(chosen):
        return None
    return call("gather", new, *(chosen[d] for d in every), static=(every, "clamp"), span=e.span)


def _below(
    x: Expr, moved: dict[str, Expr], number: Literal, fixed: dict[str, Literal]
) -> tuple[Expr, dict[str, Interval]] | None:
    """What is read, less padding of the same number, and the intervals of it, or of its padding, that are read."""

    def at_points(y: Expr) -> Expr:
        return call("gather", y, *fixed.values(), static=(tuple(fixed), "clamp")) if fixed else y

    match x:
        case Call("update", (base, part)) if constant_of(base) == number and all(d in part.tensor.dims for d in fixed):
            if any(part.tensor.dims.get(d) != i for d, i in x.tensor.dims.items if d not in moved):
                return None
            return at_points(part), {d: x.tensor.dims[d] for d in moved}
        case _:
            pass
    hulls = {d: _hull(i) for d, i in moved.items()}
    known = {d: i for d, i in hulls.items() if i is not None and x.tensor.dims[d].covers(i)}
    if len(known) < len(hulls):
        return None
    return cut(at_points(x), known), known


def _hull(index: Expr) -> Interval | None:
    """The least interval around the values of a sum of coordinates."""
    match index:
        case Literal(value):
            return Interval(int(value), int(value) + 1)
        case Call("pos", (base,), (dim,)):
            return base.tensor.dims[dim]
        case Call("plus" | "minus" | "multiplies" as op, (a, b)):
            return _of_operation(op, [_hull(a), _hull(b)], isinstance(a, Literal) or isinstance(b, Literal))
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
