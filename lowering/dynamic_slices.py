"""Indirect access at one index per dim: slices that start where the index says, read and written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from lowering.values import Dense, Leaf, aligned, dense
from tensorir.ir.types import Dims, Interval

__all__ = ["at_one", "put_at_one", "zero_based"]

CLIP = lax.GatherScatterMode.CLIP


def zero_based(index: jax.Array, inside: Interval, mode: Any = CLIP) -> jax.Array:
    """An index counted from the start of its interval; what lies outside is brought in before it could wrap."""
    if not inside.start:
        return index
    if mode == CLIP:
        first, last = lax.full_like(index, inside.start), lax.full_like(index, max(inside.start, inside.stop - 1))
        index = lax.clamp(first, index, last)
    return lax.sub(index, lax.full_like(index, inside.start))


def at_one(x: Dense, indices: dict[str, Dense], inside: Dims) -> Dense:
    """x at one index per indexed dim, brought into its interval."""
    zero = lax.full((), 0, "int32")
    starts = [zero_based(indices[n].data, inside[n]) if n in indices else zero for n in x.dims.names]
    widest = max((s.dtype for s in starts), key=lambda t: t.itemsize)
    starts = [lax.convert_element_type(s, widest) for s in starts]
    sizes = [1 if n in indices else len(i) for n, i in x.dims.items]
    data = lax.dynamic_slice(x.data, starts, sizes, allow_negative_indices=False)
    dims = x.dims.without(*indices)
    return Dense(lax.reshape(data, dims.shape), dims)


def put_at_one(
    base: Dense, indices: Sequence[Leaf], update: Dense, ok: Leaf | None, order: Dims, part: Dims, names: Sequence[str]
) -> Dense:
    """One update at one index per indexed dim: a slice that is written in place."""
    operand = aligned(base, part)
    given = dict(zip(names, indices, strict=True))
    zero = lax.full((), 0, "int32")
    starts = [zero_based(dense(given[n]).data, part[n]) if n in given else zero for n in part.names]
    widest = max((s.dtype for s in starts), key=lambda t: t.itemsize)
    starts = [lax.convert_element_type(s, widest) for s in starts]
    sizes = [1 if n in given else len(i) for n, i in part.items]
    rest = Dims(tuple((n, i) for n, i in part.items if n not in given))
    value = lax.reshape(aligned(Dense(update.data, update.dims), rest), sizes)
    if ok is not None:
        before = lax.dynamic_slice(operand, starts, sizes, allow_negative_indices=False)
        value = lax.select(lax.broadcast_in_dim(aligned(dense(ok), Dims()), sizes, ()), value, before)
    return Dense(lax.dynamic_update_slice(operand, value, starts, allow_negative_indices=False), part)
