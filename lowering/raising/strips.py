"""The inner folds of pools that are kept (`tensorir.passes.reductions`): `reduce_window` over one axis, not the last one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
from jax import lax

from lowering.array_provenance import Window
from lowering.context import Context
from lowering.elementwise import SCALAR
from lowering.reduction import MONOIDS, identity_of
from lowering.values import Dense, Slots, Value
from tensorir.ir.nodes import Call
from tensorir.ir.types import Dims

__all__ = ["strip"]


def strip(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """An inner fold of a pool by max or min, of whose windows it is known what they are of."""
    (value,) = args
    fold = context.provenance.fold_of(value[0]) if len(value) == 1 else None
    if fold is None or fold[0] not in ("max", "min") or not isinstance(leaf := fold[2], Slots) or leaf.dim != fold[1]:
        return None
    known = context.provenance.window(leaf)
    if known is None or known[0].present is not None or len(known[1]) != 1:
        return None
    source, (window,) = known
    found = _places(source, window, leaf)
    axis = source.dims.names.index(window.source)
    if found is None or axis == len(source.dims) - 1:
        return None
    first, points, dims = found
    if first or dims.items != value[0].dims.items:
        return None
    return (Dense(_folded(source.data, fold[0], axis, points, window), dims),)


def _places(source: Dense, window: Window, leaf: Slots) -> tuple[int, int, Dims] | None:
    """Where the first window begins, how many points each has, and the dims of the fold; None if it goes backwards."""
    one = leaf.leaves[0]
    if window.stride < 1 or window.dilation < 1 or not isinstance(one, Dense) or one.present is not None:
        return None
    dims = Dims(
        tuple((window.outer, one.dims[window.outer]) if n == window.source else (n, i) for n, i in source.dims.items)
    )
    if one.dims.items != dims.items:
        return None
    first = window.stride * dims[window.outer].start + window.dilation * leaf.start + window.constant
    return first - source.dims[window.source].start, len(leaf.leaves), dims


def _folded(x: jax.Array, op: str, axis: int, points: int, window: Window) -> jax.Array:
    """All windows along an axis; differentiated as the fold of slices that it is."""
    length = x.shape[axis] - window.dilation * (points - 1)
    sizes, strides, dilations = (
        [n if d == axis else 1 for d in range(x.ndim)] for n in (points, window.stride, window.dilation)
    )

    def slices(x: jax.Array) -> jax.Array:
        starts = (window.dilation * k for k in range(points))
        return reduce(SCALAR[op], [lax.slice_in_dim(x, a, a + length, window.stride, axis) for a in starts])

    @jax.custom_jvp
    def folded(x: jax.Array) -> jax.Array:
        start = identity_of(op, x.dtype)
        return lax.reduce_window(x, start, MONOIDS[op], sizes, strides, "VALID", window_dilation=dilations)

    folded.defjvp(lambda primals, tangents: jax.jvp(slices, primals, tangents))
    return folded(x)
