"""The first of a sorted row, without sorting it.

`subset(K[0:k])` of what `sort` gives is `lax.top_k` where the key is float32: 3 to 300 times as fast as the sort; for
other types XLA sorts all the same. Equal keys keep the order in which they stand, in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.array_provenance import Sorted
from lowering.context import Context
from lowering.values import Dense, Value
from tensorir.ir import Call
from tensorir.types import Dims

__all__ = ["first"]


def first(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    if len(args[0]) != 1 or not isinstance(args[0][0], Dense):
        return None
    leaf: Dense = args[0][0]
    known = context.provenance.sorted_by(leaf)
    if known is None or leaf.present is not None:
        return None
    whole, wanted = leaf.dims[known.dim], node.static.intervals.get(known.dim)
    if wanted is None or wanted.start != whole.start or not 0 < len(wanted) < len(whole):
        return None
    key = (*map(id, known.arrays), len(wanted))
    if key not in context.provenance.firsts:
        context.provenance.firsts[key] = _first(known, len(wanted))
    found = context.provenance.firsts[key][known.member]
    dims = leaf.dims.with_interval(known.dim, wanted)
    return (Dense(found, Dims(tuple(dims.items))),)


def _first(known: Sorted, count: int) -> list[jax.Array]:
    """The first of each array along the last axis, in the order of one of them."""

    def by_selection(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        # equal keys of both signs of zero, or of NaN, keep the order in which they stand
        zero, nan = lax.full_like(key, 0), lax.full_like(key, np.nan)
        key = lax.select(lax.eq(key, zero), zero, lax.select(lax.ne(key, key), nan, key))
        _, places = lax.top_k(key, count)
        return [_taken(a, places) for a in arrays]

    def by_sorting(key: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        axis = key.ndim - 1
        ordered = lax.sort([lax.neg(key), *arrays], dimension=axis, is_stable=True, num_keys=1)[1:]
        return [lax.slice_in_dim(a, 0, count, axis=axis) for a in ordered]

    key = known.arrays[known.key]
    key = key if known.descending else lax.neg(key)
    if known.nan_first:
        return by_selection(key, *known.arrays)
    # a NaN stands last in the order, and is what XLA selects first
    missing = lax.reduce(lax.ne(key, key), False, lax.bitwise_or, tuple(range(key.ndim)))
    return lax.cond(missing, by_sorting, by_selection, key, *known.arrays)


def _taken(x: jax.Array, places: jax.Array) -> jax.Array:
    """The elements of each row at some places of it."""
    rows = tuple(range(x.ndim - 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=(x.ndim - 1,), start_index_map=(x.ndim - 1,),
        operand_batching_dims=rows, start_indices_batching_dims=rows,
    )  # fmt: skip
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(x, lax.expand_dims(places, (x.ndim,)), numbers, (1,) * x.ndim, mode=mode)
