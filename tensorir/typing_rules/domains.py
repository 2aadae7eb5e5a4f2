"""Rules of what changes dims and their intervals."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tensorir.types import INT32, Complaint, Dims, Interval, TensorType
from tensorir.typing_rules.operands import Operands, Static, interval_of, tensors_of


def subset(static: Static, args: Operands) -> TensorType:
    (intervals,) = static
    (x,) = tensors_of(args)
    result = x.dims
    for dim, interval in intervals.items:
        have = interval_of(x, dim, 0)
        if not have.covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{have}.", help=f"subset to a part of {dim}{have}.", at=0
            )
        result = result.with_interval(dim, interval)
    return x.on(result)


def concat(static: Static, args: Operands) -> TensorType:
    types = tensors_of(args)
    if len(types) < 2:
        raise Complaint("T06", "concat needs at least two operands.", help="write concat(a, b).")
    first = types[0]
    for index, t in enumerate(types):
        if t.element != first.element:
            raise Complaint(
                "T01",
                f"the operands have different element types: {first.element} and {t.element}.",
                help="cast one of them.",
                at=index,
            )
        if set(t.dims.names) != set(first.dims.names):
            raise Complaint(
                "T23",
                f"the operands have different dims: {first.dims} and {t.dims}.",
                help="add_dim gives a tensor a dim that it lacks.",
                at=index,
            )
    differing = [d for d in first.dims if any(t.dims[d] != first.dims[d] for t in types)]
    if len(differing) != 1:
        raise Complaint(
            "T23",
            "concat joins along the one dim in which its operands differ, and "
            + (f"these differ in {', '.join(differing)}." if differing else "these do not differ."),
            help="subset them to the same intervals of all other dims.",
            at=1,
        )
    (dim,) = differing
    order = sorted(range(len(types)), key=lambda k: (types[k].dims[dim].start, types[k].dims[dim].stop))
    for a, b in pairwise(order):
        left, right = types[a].dims[dim], types[b].dims[dim]
        if left.stop != right.start:
            raise Complaint(
                "T22",
                f"{dim}{left} and {dim}{right} {'overlap' if left.stop > right.start else 'leave a gap'}, so "
                "they cannot be joined.",
                help="intervals must follow one another: I[0:3], I[3:5].",
                at=b,
            )
    whole = Interval(types[order[0]].dims[dim].start, types[order[-1]].dims[dim].stop)
    return first.on(first.dims.with_interval(dim, whole))


def pos(static: Static, args: Operands) -> TensorType:
    (dim,) = static
    (x,) = tensors_of(args)
    interval = interval_of(x, dim, 0)
    if not all(end in INT32.range for end in (interval.start, interval.stop - 1) if interval):
        raise Complaint(
            "T43",
            f"coordinates are int32, and {dim}{interval} has some that it cannot hold.",
            help=f"rename {dim} on an interval that begins at 0, and add the distance as int64.",
            at=0,
        )
    return TensorType(INT32, Dims(((dim, interval),)))


def add_dim(static: Static, args: Operands) -> TensorType:
    dim, start, stop = static
    (x,) = tensors_of(args)
    if dim in x.dims:
        raise Complaint("T24", f"there is a dim {dim} already: {x.dims}.", help="choose another name.", at=0)
    if stop < start:
        raise Complaint("T31", f"{dim}[{start}:{stop}] stops before it starts.", help="the smaller bound comes first.")
    return x.on(Dims((*x.dims.items, (dim, Interval(start, stop)))))


def update(static: Static, args: Operands) -> TensorType:
    x, part = tensors_of(args)
    if x.element != part.element:
        raise Complaint(
            "T01",
            f"the operands have different element types: {x.element} and {part.element}.",
            help="cast one of them.",
            at=1,
        )
    for dim, interval in part.dims.items:
        have = x.dims.get(dim)
        if have is None:
            hint = f"reduce the second operand over {dim}, or add {dim} to the first."
            raise Complaint("T25", f"there is no dim {dim} to update, only {x.dims}.", help=hint, at=1)
        if not have.covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{have}.", help="subset the second operand.", at=1
            )
    return x


def _fresh(dims: Iterable[str]) -> None:
    seen: set[str] = set()
    for dim in dims:
        if dim in seen:
            raise Complaint("T26", f"two dims would be named {dim}.", help="choose other names.", at=0)
        seen.add(dim)


def rename(static: Static, args: Operands) -> TensorType:
    (pairs,) = static
    (x,) = tensors_of(args)
    for old, _ in pairs:
        interval_of(x, old, 0)
    new = dict(pairs)
    if len(new) != len(pairs):
        raise Complaint("T26", "a dim is renamed twice.", help="name each dim once.")
    items = tuple((new.get(d, d), i) for d, i in x.dims.items)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def split_dim(static: Static, args: Operands) -> TensorType:
    dim, outer, inner, n = static
    (x,) = tensors_of(args)
    interval = interval_of(x, dim, 0)
    if n < 1 or interval.start % n or interval.stop % n:
        raise Complaint(
            "T32",
            f"{dim}{interval} cannot be split by {n}: both ends must be multiples of it.",
            help="subset it, or choose another size.",
            at=0,
        )
    split = ((outer, Interval(interval.start // n, interval.stop // n)), (inner, Interval(0, n)))
    items = tuple(new for d, i in x.dims.items for new in (split if d == dim else ((d, i),)))
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def merge_dims(static: Static, args: Operands) -> TensorType:
    outer, inner, dim = static
    (x,) = tensors_of(args)
    a, b = interval_of(x, outer, 0), interval_of(x, inner, 0)
    if outer == inner:
        raise Complaint("T26", f"{outer} cannot be merged with itself.", help="name two dims.", at=0)
    if b.start != 0:
        raise Complaint("T32", f"the inner dim must start at 0, and it is {inner}{b}.", help="shift it first.", at=0)
    merged = (dim, Interval(a.start * b.stop, a.stop * b.stop))
    items = tuple(merged if d == outer else (d, i) for d, i in x.dims.items if d != inner)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))
