"""State of folds and loops between their steps: levels of values, carried leaves, and masks of slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import lax

from lowering.context import Check, Context, conjunction, masks_of
from lowering.values import Dense, Leaf, Slots, Value, aligned, cut, dense, everywhere, presence
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Levels:
    """Values taken apart along a dim: the arrays that have it, its axis in each, and how to put one level together."""

    arrays: list[jax.Array]
    axes: list[int]
    rebuild: Callable[[Sequence[jax.Array]], list[Value]]

    def leading(self) -> list[jax.Array]:
        """The arrays with the dim as their first axis."""
        return [
            lax.transpose(a, [x, *(i for i in range(a.ndim) if i != x)]) if x else a
            for a, x in zip(self.arrays, self.axes, strict=True)
        ]

    def at(self, level: jax.Array) -> list[jax.Array]:
        """One level of each array, by a dynamic index into it."""
        pairs = zip(self.arrays, self.axes, strict=True)
        return [lax.dynamic_index_in_dim(a, level, x, keepdims=False) for a, x in pairs]


def levels_of(values: Sequence[Value], dim: str, interval: Interval) -> Levels:
    """Values split along a dim for a loop over its interval; leaves without the dim are captured and the same at
    each level.
    """
    arrays: list[jax.Array] = []
    axes: list[int] = []
    only = Dims(((dim, interval),))

    def take(leaf: Leaf) -> Callable[[Sequence[jax.Array]], Leaf]:
        """Register the arrays of a leaf that have the dim; returns the function that rebuilds the leaf from one
        level of all arrays.
        """
        if isinstance(leaf, Slots) and leaf.dim == dim:
            leaf = dense(leaf)
        if isinstance(leaf, Slots):
            inner = [take(x) for x in leaf.leaves]
            return lambda level: replace(leaf, leaves=tuple(x(level) for x in inner))
        mask = None if leaf.present is None else take(leaf.present)
        if dim not in leaf.dims:
            return lambda level: replace(leaf, present=None if mask is None else dense(mask(level)))
        leveled = dense(cut(Dense(leaf.data, leaf.dims), only))
        number = len(arrays)
        arrays.append(leveled.data)
        axes.append(leveled.dims.names.index(dim))
        rest = leveled.dims.without(dim)
        return lambda level: Dense(level[number], rest, None if mask is None else dense(mask(level)))

    makers = [[take(leaf) for leaf in value] for value in values]
    return Levels(arrays, axes, lambda level: [tuple(make(level) for make in value) for value in makers])


def settled(value: Value, place: TensorType, masked: Sequence[bool]) -> Value:
    """The value as carried state: every leaf dense on the dims of `place`, with a mask where `masked` says so."""
    result: list[Leaf] = []
    for leaf, mask in zip(value, masked, strict=True):
        d = dense(leaf)
        present = Dense(aligned(d.present or everywhere(), place.dims), place.dims) if mask else None
        result.append(Dense(aligned(d, place.dims), place.dims, present))
    return tuple(result)


def masked_leaves(value: Value) -> list[bool]:
    return [presence(leaf) is not None for leaf in value]


def survey(
    context: Context, start: list[list[bool]], step: Callable[[Context, list[list[bool]]], list[list[bool]]]
) -> tuple[list[list[bool]], list[Check]]:
    """The leaves of carried tensors that may be absent in any round, and the checks of a step.

    Found by abstract evaluation. `start`: masked leaves before the first round. `step(context, masked)`: those after a
    round. Repeated until no mask is added.
    """
    masked = start
    while True:
        inner = context.inner()
        after: list[list[bool]] = []

        def trace(inner: Context = inner, masked: list[list[bool]] = masked, after: Any = after) -> None:
            """The masked leaves after a step, evaluated abstractly."""
            after.extend(step(inner, masked))

        jax.eval_shape(trace)
        joined = [[a or b for a, b in zip(m, f, strict=True)] for m, f in zip(masked, after, strict=True)]
        if joined == masked:
            return masked, inner.checks
        masked = joined


def within_state(mask: Leaf, state: Dims) -> Leaf:
    """A mask folded to the dims of the state: True where all points along other dims are present."""
    return along(mask, state, lax.bitwise_and)


def along(mask: Leaf, place: Dims, combine: Callable[..., jax.Array]) -> Leaf:
    """A mask folded by `combine`, "and" or "or", along all dims that are not in `place`."""
    folded_dims = [n for n in mask.dims.names if n not in place]
    if not folded_dims:
        return mask
    full_mask = dense(mask)
    identity = combine is lax.bitwise_and
    data = lax.reduce(full_mask.data, identity, combine, tuple(full_mask.dims.names.index(n) for n in folded_dims))
    return Dense(data, full_mask.dims.without(*folded_dims))


def counted(slot_values: Sequence[Value], having: Sequence[bool]) -> Leaf | None:
    """The mask of the slots that count: all leaves of all arguments that have the dim are present; None if no mask
    is known.

    `slot_values`: the arguments at a slot. `having`: per argument, whether it has the dim.
    """
    masks = [m for a, has in zip(slot_values, having, strict=True) if has for m in masks_of(a)]
    return conjunction(masks, all_dims(masks))


def all_dims(leaves: Sequence[Leaf]) -> Dims:
    """The dims of all leaves, on the intersection of their intervals."""
    merged: dict[str, Interval] = {}
    for leaf in leaves:
        for n, i in leaf.dims.items:
            merged[n] = merged.get(n, i) & i
    return Dims(tuple(merged.items()))
