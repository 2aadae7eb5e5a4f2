"""Lowering of what moves elements without computing: tuples, shifts, subsets, renames, joins, selection by presence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from jax import lax

from lowering.context import Context, conjunction, masks_of
from lowering.values import (
    Dense,
    Leaf,
    Slots,
    Value,
    aligned,
    cut,
    dense,
    elementwise,
    everywhere,
    joined_dims,
    mapped,
    presence,
    select_slot,
    with_present,
)
from tensorir.ir.nodes import Call, Expr
from tensorir.ir.types import Dims, Interval, TupleElement, leaves
from tensorir.ir.typing_of_elements import highest_neighbour

__all__ = ["STRUCTURE"]


def make_tuple(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return tuple(leaf for value in values for leaf in value)


def tuple_get(context: Context, node: Call, values: Sequence[Value]) -> Value:
    (value,), (index,) = values, node.static
    element = node.args[0].tensor.element
    assert isinstance(element, TupleElement)
    members = element.members
    first = sum(len(leaves(m)) for m in members[:index])
    return value[first : first + len(leaves(members[index]))]


def cartesian_shift(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dim, offset = node.static

    def move(x: Dense) -> Dense:
        return replace(x, dims=x.dims.with_interval(dim, x.dims[dim].shifted(offset))) if dim in x.dims else x

    def moved(leaf: Leaf) -> Leaf:
        if isinstance(leaf, Slots) and leaf.dim == dim:
            return replace(leaf, start=leaf.dims[dim].shifted(offset).start)
        return mapped(move, leaf)

    return tuple(map(moved, values[0]))


def shift_apply(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dim = highest_neighbour(node.args[0].tensor.dims)
    assert dim is not None
    return tuple(select_slot(leaf, dim, node.static.neighbour) for leaf in values[0])


def can_deref(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return (conjunction(masks_of(values[0]), node.type.dims) or everywhere(),)


def subset(context: Context, node: Call, values: Sequence[Value]) -> Value:
    return tuple(cut(leaf, node.static.intervals) for leaf in values[0])


def pos(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dims = node.type.dims
    ((_, interval),) = dims.items
    counted = lax.iota("int32", len(interval))
    return (Dense(lax.add(counted, lax.full_like(counted, interval.start)), dims),)


def add_dim(context: Context, node: Call, values: Sequence[Value]) -> Value:
    # leaves may lack dims of their type: broadcasting happens where an operation needs it
    return values[-1]


def rename(context: Context, node: Call, values: Sequence[Value]) -> Value:
    new = dict(node.static.pairs)

    def renamed(leaf: Leaf) -> Leaf:
        if isinstance(leaf, Slots):
            # neighbours stay apart under another name
            return replace(leaf, dim=new.get(leaf.dim, leaf.dim), leaves=tuple(map(renamed, leaf.leaves)))
        dims = Dims(tuple((new.get(n, n), i) for n, i in leaf.dims.items))
        return Dense(leaf.data, dims, None if leaf.present is None else dense(renamed(leaf.present)))

    return tuple(map(renamed, values[0]))


def split_dim(context: Context, node: Call, values: Sequence[Value]) -> Value:
    dim, outer, inner, n = node.static
    whole = node.args[0].tensor.dims

    def split(x: Dense) -> Dense:
        if dim not in x.dims:
            return x
        x = dense(cut(x, Dims(((dim, whole[dim]),))))
        parts = ((outer, node.type.dims[outer]), (inner, Interval(0, n)))
        dims = Dims(tuple(new for d, i in x.dims.items for new in (parts if d == dim else ((d, i),))))
        return Dense(lax.reshape(x.data, dims.shape), dims)

    return tuple(mapped(split, dense(leaf)) for leaf in values[0])


def merge_dims(context: Context, node: Call, values: Sequence[Value]) -> Value:
    outer, inner, dim = node.static
    whole = node.args[0].tensor.dims

    def merge(x: Dense) -> Dense:
        if outer not in x.dims and inner not in x.dims:
            return x
        rest = [d for d in x.dims.names if d not in (outer, inner)]
        pair = Dims(((outer, whole[outer]), (inner, whole[inner]), *((d, x.dims[d]) for d in rest)))
        dims = Dims(((dim, node.type.dims[dim]), *((d, x.dims[d]) for d in rest)))
        return Dense(lax.reshape(aligned(x, pair), dims.shape), dims)

    return tuple(mapped(merge, dense(leaf)) for leaf in values[0])


def concat(context: Context, node: Call, values: Sequence[Value]) -> Value:
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    order = sorted(range(len(types)), key=lambda k: (types[k][dim].start, types[k][dim].stop))
    return tuple(
        _joined([dense(values[k][leaf]) for k in order], [types[k][dim] for k in order], dim, node.type.dims)
        for leaf in range(len(values[0]))
    )


def _joined(parts: Sequence[Dense], intervals: Sequence[Interval], dim: str, need: Dims) -> Dense:
    common = joined_dims([*(p.dims for p in parts), Dims(((dim, need[dim]),))], need)
    axis = common.names.index(dim)
    arrays = [aligned(p, common.with_interval(dim, i)) for p, i in zip(parts, intervals, strict=True)]
    present = None
    if any(p.present is not None for p in parts):
        present = _joined([p.present or everywhere() for p in parts], intervals, dim, need)
    return Dense(lax.concatenate(arrays, axis), common, present)


def update(context: Context, node: Call, values: Sequence[Value]) -> Value:
    need, part = node.tensor.dims, node.args[1].tensor.dims
    own = in_place(context, node, need, part)
    return tuple(updated(dense(x), dense(y), need, part, own) for x, y in zip(*values, strict=True))


def in_place(context: Context, node: Expr, whole: Dims, part: Dims, own: bool = False) -> bool:
    """Whether a part is written by an update of the array: where nothing else is read of it (`own`), and the like."""
    placed = whole.replaced(part)
    if placed.items == whole.items or not part.size:
        return False
    times = whole.size / placed.size
    return context.chooses("in_place_updates", node, own or context.in_place or times > MUCH_LARGER, times)


def updated(x: Dense, y: Dense, need: Dims, part: Dims, in_place: bool) -> Dense:
    """x on `need` with y put onto the intervals `part`, by an update of x or by a loop over the whole."""
    placed = need.replaced(part)
    if placed.items == need.items:
        return y
    if not part.size:
        return x
    whole = joined_dims([x.dims, y.dims, part], need)
    region = Dims(tuple((n, placed[n]) for n in whole.names))
    if not x.dims:
        # one number around the part
        sides = [(region[n].start - i.start, i.stop - region[n].stop, 0) for n, i in whole.items]
        data = lax.pad(aligned(y, region), x.data, sides)
    else:
        put = _put_in_place if in_place else _put_anew
        data = put(aligned(x, whole), aligned(y, region), whole, region)
    present = None
    if x.present is not None or y.present is not None:
        present = updated(x.present or everywhere(), y.present or everywhere(), need, part, in_place)
    return Dense(data, whole, present)


MUCH_LARGER = 8
"""A whole that is so many times larger than the part is updated in place; otherwise it is computed anew."""


def _put_in_place(x: jax.Array, y: jax.Array, whole: Dims, region: Dims) -> jax.Array:
    return lax.dynamic_update_slice(x, y, [region[n].start - whole[n].start for n in whole.names])


def _put_anew(x: jax.Array, y: jax.Array, whole: Dims, region: Dims) -> jax.Array:
    """One fused loop over the whole: XLA's CPU backend updates a copy in place with one thread, which takes longer.

    Measured on 2048 × 2048 points: where one axis is cut, a selection takes 0.6 to 0.95 of joined parts, and where two
    are, parts that are joined axis by axis 0.8 of a selection.
    """
    axes = [k for k, n in enumerate(whole.names) if region[n] != whole[n]]
    if len(axes) == 1:
        sides = [(region[n].start - i.start, i.stop - region[n].stop, 0) for n, i in whole.items]
        return lax.select(_within(whole, region, axes[0]), lax.pad(y, lax.full((), 0, y.dtype), sides), x)
    for axis in reversed(axes):
        name, outer = whole.items[axis]
        # between the parts beside it, the part on this axis and within those outside of it
        part = Dims(tuple((n, region[n] if k < axis else i) for k, (n, i) in enumerate(whole.items)))
        around = dense(cut(Dense(x, whole), part)).data
        first, last = region[name].start - outer.start, region[name].stop - outer.start
        before = lax.slice_in_dim(around, 0, first, axis=axis)
        after = lax.slice_in_dim(around, last, len(outer), axis=axis)
        y = lax.concatenate([p for p in (before, y, after) if p.shape[axis]], axis)
    return y


def _within(whole: Dims, region: Dims, axis: int) -> jax.Array:
    """Whether a point of the whole is inside of the region along one axis."""
    outer, inner = whole.items[axis][1], region.items[axis][1]
    position = lax.broadcasted_iota("int32", whole.shape, axis)
    return lax.bitwise_and(
        lax.ge(position, np.int32(inner.start - outer.start)), lax.lt(position, np.int32(inner.stop - outer.start))
    )


def select(context: Context, node: Call, values: Sequence[Value]) -> Value:
    (condition,), first, second = values
    need = node.type.dims
    return selected((condition,), first, second, need)


def selected(condition: Value, first: Value, second: Value, need: Dims) -> Value:
    """The first value where the condition holds, and the second elsewhere."""
    (decides,) = condition
    return tuple(_selected(decides, a, b, need) for a, b in zip(first, second, strict=True))


def _selected(condition: Leaf, a: Leaf, b: Leaf, need: Dims) -> Leaf:
    def choose(x: Leaf, y: Leaf) -> Leaf:
        return elementwise(lax.select, [_bare(condition), _bare(x), _bare(y)], need)

    chosen = choose(a, b)
    masks = presence(a), presence(b)
    if masks != (None, None):
        chosen = with_present(chosen, choose(masks[0] or everywhere(), masks[1] or everywhere()), need)
    return with_present(chosen, presence(condition), need)


def _bare(leaf: Leaf) -> Leaf:
    """The leaf without its mask."""
    if isinstance(leaf, Dense):
        return replace(leaf, present=None)
    return replace(leaf, leaves=tuple(_bare(x) for x in leaf.leaves))


STRUCTURE: dict[str, Callable[[Context, Call, Sequence[Value]], Value]] = {
    "if": select,
    "make_tuple": make_tuple,
    "tuple_get": tuple_get,
    "cartesian_shift": cartesian_shift,
    "shift_apply": shift_apply,
    "can_deref": can_deref,
    "subset": subset,
    "concat": concat,
    "pos": pos,
    "add_dim": add_dim,
    "update": update,
    "rename": rename,
    "split_dim": split_dim,
    "merge_dims": merge_dims,
}
