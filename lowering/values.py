"""What an expression becomes while it is lowered: arrays with named axes, one per scalar leaf of its element.

A `Dense` leaf is one array on its own dims, which may be fewer and wider than those of the type: broadcasting and
cutting happen where an operation needs them. A `Slots` leaf keeps the neighbours of a partial shift apart, one leaf
per slot, so that reductions over them unroll into one gather per neighbour (`docs/lowering.md`, "Neighbour tables").
The `present` leaf of bools says where the value is not absent; None is everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import Any

import jax
from jax import lax

from tensorir.ir.types import Dims, Interval

__all__ = ["Dense", "Leaf", "Slots", "Value", "aligned", "cut", "elementwise", "joined_dims", "select_slot"]


@partial(jax.tree_util.register_dataclass, data_fields=["data", "present"], meta_fields=["dims"])
@dataclass(frozen=True, slots=True)
class Dense:
    """One array; its axes are the dims, in their order."""

    data: Any
    dims: Dims
    present: Dense | None = None


@partial(jax.tree_util.register_dataclass, data_fields=["leaves"], meta_fields=["dim", "start"])
@dataclass(frozen=True, slots=True)
class Slots:
    """A leaf for every point of a neighbour dim, from `start` up."""

    dim: str
    start: int
    leaves: tuple[Leaf, ...]

    @property
    def dims(self) -> Dims:
        interval = Interval(self.start, self.start + len(self.leaves))
        return Dims((*self.leaves[0].dims.items, (self.dim, interval)))


Leaf = Dense | Slots
Value = tuple[Leaf, ...]
"""The leaves of a tensor, from left to right of its element."""


def joined_dims(operands: Sequence[Dims], need: Dims) -> Dims:
    """The dims that operands have, at the intervals of `need`, in the order of the operand that has the most."""
    first = max(operands, key=len, default=Dims())
    names = dict.fromkeys([*first.names, *(n for o in operands for n in o.names)])
    return Dims(tuple((n, need[n]) for n in names))


def cut(leaf: Leaf, need: Dims) -> Leaf:
    """The leaf on the intervals of `need`; dims that `need` lacks stay whole. A static slice, or nothing."""
    match leaf:
        case Slots(dim, start, leaves):
            interval = need.get(dim)
            if interval is not None:
                leaves = leaves[interval.start - start : interval.stop - start]
                start = interval.start
            return Slots(dim, start, tuple(cut(x, need) for x in leaves))
        case Dense(data, dims, present):
            new = dims.replaced(need)
            if new.items == dims.items:
                return leaf
            # of an empty interval it does not matter where it stands
            starts = [a.start - b.start if a else 0 for (_, a), (_, b) in zip(new.items, dims.items, strict=True)]
            data = lax.slice(data, starts, [s + len(i) for s, (_, i) in zip(starts, new.items, strict=True)])
            return Dense(data, new, None if present is None else dense(cut(present, need)))


def aligned(leaf: Dense, dims: Dims, broadcast: bool = True) -> jax.Array:
    """The data of a leaf cut to `dims`, its axes in their order; dims that it lacks are broadcast, or of size one."""
    leaf = dense(cut(leaf, dims))
    order = [n for n in dims.names if n in leaf.dims]
    axes = [leaf.dims.names.index(n) for n in order]
    data = leaf.data if axes == sorted(axes) else lax.transpose(leaf.data, axes)
    if len(order) == len(dims):
        return data
    shape = tuple(len(i) if broadcast or n in leaf.dims else 1 for n, i in dims.items)
    return lax.broadcast_in_dim(data, shape, [dims.names.index(n) for n in order])


def dense(leaf: Leaf) -> Dense:
    """The leaf as one array: slots are stacked along a last axis."""
    if isinstance(leaf, Dense):
        return leaf
    parts = [dense(x) for x in leaf.leaves]
    # a slot that holds the same everywhere may lack dims that others have
    have: dict[str, Interval] = {}
    for p in parts:
        have.update((n, have.get(n, i) & i) for n, i in p.dims.items)
    common = joined_dims([p.dims for p in parts], Dims(tuple(have.items())))
    axis = len(common)
    stacked = [lax.expand_dims(aligned(p, common), (axis,)) for p in parts]
    data = lax.concatenate(stacked, axis)
    dims = Dims((*common.items, (leaf.dim, Interval(leaf.start, leaf.start + len(parts)))))
    present = None
    if any(p.present is not None for p in parts):
        masks = tuple(p.present or everywhere() for p in parts)
        present = dense(Slots(leaf.dim, leaf.start, masks))
    return Dense(data, dims, present)


def everywhere() -> Dense:
    """Present at every point."""
    return Dense(lax.full((), True), Dims())


def select_slot(leaf: Leaf, dim: str, point: int) -> Leaf:
    """The leaf at one point of a dim, which goes away; the leaf itself where it lacks the dim."""
    match leaf:
        case Slots(d, start, leaves) if d == dim:
            return leaves[point - start]
        case Slots(d, start, leaves):
            return Slots(d, start, tuple(select_slot(x, dim, point) for x in leaves))
        case Dense(data, dims, present):
            # the mask may have the dim where the data are the same at all of its points
            inner = None if present is None else dense(select_slot(present, dim, point))
            if dim not in dims:
                return leaf if inner is present else Dense(data, dims, inner)
            axis = dims.names.index(dim)
            if len(dims[dim]) == 1:
                data = lax.squeeze(data, [axis])
            else:
                data = lax.index_in_dim(data, point - dims[dim].start, axis, keepdims=False)
            return Dense(data, dims.without(dim), inner)


def per_slot(operands: Sequence[Leaf], combine: Callable[[Sequence[Dense]], Leaf]) -> Leaf:
    """Combine leaf by leaf, where all operands are; where one keeps neighbours apart, so does the result."""
    for operand in operands:
        if isinstance(operand, Slots):
            common = reduce(and_, (i for o in operands if (i := _interval(o, operand.dim)) is not None))
            points = range(common.start, common.stop)
            parts = [per_slot([select_slot(o, operand.dim, p) for o in operands], combine) for p in points]
            return Slots(operand.dim, common.start, tuple(parts))
    return combine([o for o in operands if isinstance(o, Dense)])


def _interval(leaf: Leaf, dim: str) -> Interval | None:
    """Where a leaf is along a dim; None where it lacks it."""
    match leaf:
        case Slots(d, start, leaves):
            return Interval(start, start + len(leaves)) if d == dim else _interval(leaves[0], dim)
        case Dense(_, dims):
            return next((i for name, i in dims.items if name == dim), None)


def elementwise(function: Callable[..., jax.Array], operands: Sequence[Leaf], need: Dims, guard: bool = False) -> Leaf:
    """A function of scalars applied at every point of the operands' common dims.

    The result is absent where any operand is. With `guard`, the gradient that reaches an operand where the result is
    absent is zero even if the derivative there is infinite: a select on each operand, which XLA removes going forward.
    """

    def combine(leaves: Sequence[Dense]) -> Leaf:
        need_here = Dims(tuple((n, need[n]) for n in dict.fromkeys(n for x in leaves for n in x.dims.names)))
        dims = joined_dims([x.dims for x in leaves], need_here)
        present = both([x.present for x in leaves], need)
        arrays = [aligned(x, dims) for x in leaves]
        if guard and present is not None:
            dims = joined_dims([dims, present.dims], need)
            arrays = [aligned(Dense(a, joined_dims([x.dims for x in leaves], need_here)), dims) for a in arrays]
            mask = aligned(present, dims)
            arrays = [guarded(mask, a) for a in arrays]
        return Dense(function(*arrays), dims, present)

    return per_slot(operands, combine)


def guarded(mask: jax.Array, array: jax.Array) -> jax.Array:
    """The array itself, with no gradient where the mask is false."""
    return lax.select(mask, array, lax.stop_gradient(array))


def both(masks: Sequence[Dense | None], need: Dims) -> Dense | None:
    """Present where all are."""
    result: Dense | None = None
    for mask in {id(m.data): m for m in masks if m is not None}.values():
        result = mask if result is None else dense(elementwise(lax.bitwise_and, [result, mask], need))
    return result


def with_present(leaf: Leaf, present: Leaf | None, need: Dims) -> Leaf:
    """The leaf, absent also where `present` is false."""
    if present is None:
        return leaf

    def combine(leaves: Sequence[Dense]) -> Leaf:
        value, mask = leaves
        return replace(value, present=both([value.present, mask], need))

    return per_slot([leaf, present], combine)


def presence(leaf: Leaf) -> Leaf | None:
    """The mask of a leaf as a leaf of bools, None where it is present everywhere."""
    match leaf:
        case Dense(_, _, present):
            return present
        case Slots(dim, start, leaves):
            masks = [presence(x) for x in leaves]
            if all(m is None for m in masks):
                return None
            return Slots(dim, start, tuple(m or everywhere() for m in masks))


def mapped(function: Callable[[Dense], Dense], leaf: Leaf) -> Leaf:
    """A function of the dims (such as a shift) applied to value and mask alike."""
    match leaf:
        case Slots(dim, start, leaves):
            return Slots(dim, start, tuple(mapped(function, x) for x in leaves))
        case Dense(data, dims, present):
            value = function(Dense(data, dims))
            return value if present is None else replace(value, present=function(present))
