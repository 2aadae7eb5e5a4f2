"""`argreduce` as two reductions, or as one of pairs where NaN need not be kept.

Both are less than `lax.argmax` in every case (`python -m tests.benchmarks.forms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context
from lowering.folds import MOST_UNROLLED
from lowering.raising.pair_reductions import best_of
from lowering.raising.reductions import literal_of
from lowering.reduction import identity_of, reduced
from lowering.values import Dense, Leaf, Value, aligned, cut, presence
from tensorir.ir.nodes import Call, Lambda
from tensorir.ir.rewrite import Bound
from tensorir.ir.static_parameters import ArgReduce
from tensorir.ir.types import Dims, Interval, bcast

__all__ = ["argument_reduction"]


def argument_reduction(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """The element and its index as two reductions; None where it is folded level by level."""
    *init, (a,), (k,) = args
    dim = node.static.dim
    if any(presence(leaf) is not None for leaf in (*(leaf for (leaf,) in init), a, k)):
        return None
    if not isinstance(a, Dense) or not isinstance(k, Dense) or dim not in a.dims or any(d != dim for d in k.dims):
        return None
    interval = bcast([node.args[2].tensor, node.args[3].tensor])[dim]
    if len(interval) <= MOST_UNROLLED:
        return None
    state = node.tensor.dims
    row = Dims(((dim, interval),))
    whole = cut(a, Dims((*row.items, *((n, state[n]) for n in a.dims.names if n != dim))))
    assert isinstance(whole, Dense)
    rest = whole.dims.without(dim)
    small = _counts(node) and max(abs(interval.start), abs(interval.stop)) < EXACT_IN_FLOAT32
    axis = whole.dims.names.index(dim)
    start = _start(node, interval)
    if context.loose and start is not None and whole.data.dtype.kind in "fV" and axis == whole.data.ndim - 1:
        # along columns each step of it would wait for the one before
        pair = _paired(whole.data, aligned(k, row), axis, node.static, start)
        return tuple(cut(Dense(leaf, rest), state) for leaf in pair[::-1])
    index, value, alone = _found(whole.data, aligned(k, row), axis, node.static, small, context.platform)
    found = Dense(value, rest), Dense(index, rest)
    assert node.definition is not None
    fold = node.definition.body.children[0]
    assert isinstance(fold, Lambda)
    first = tuple(leaf for (leaf,) in init)
    result = context.apply(Bound(fold, {}), first, *((leaf,) for leaf in found))
    if alone is not None:
        # behind a NaN, or among nothing but NaNs, what the fold starts from and what was found do not meet
        apart = found if node.static.replaced else first
        result = tuple(_chosen(Dense(alone, rest), x, y, state) for x, y in zip(apart, result, strict=True))
    return tuple(cut(leaf, state) for leaf in result)


def _chosen(condition: Dense, x: Leaf, y: Leaf, dims: Dims) -> Dense:
    assert isinstance(x, Dense) and isinstance(y, Dense)
    return Dense(lax.select(aligned(condition, dims), aligned(x, dims), aligned(y, dims)), dims)


def _counts(node: Call) -> bool:
    """Whether the indices ascend: they are the coordinate that the fold goes along."""
    index = node.args[3]
    return isinstance(index, Call) and (index.op, index.static) == ("pos", (node.static.dim,))


# Rows


EXACT_IN_FLOAT32 = 2**24
"""Whole numbers below are floats."""


def _found(
    a: jax.Array, k: jax.Array, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """The index and the value of each row, and which rows stand alone, for reasons of NaN; `small` are the indices."""
    place = lax.broadcast_in_dim(k, a.shape, (axis,))
    if a.dtype.kind not in "fV":
        return *_of(a, place, None, axis, kind, small, platform), None
    missing = lax.ne(a, a)
    if not kind.replaced:
        valid = lax.bitwise_not(missing)
        return *_of(a, place, valid, axis, kind, small, platform), lax.bitwise_not(
            lax.reduce(valid, False, lax.bitwise_or, (axis,))
        )
    # only what follows the last NaN counts; a row that ends with one gives that one
    position = lax.broadcasted_iota("int32", a.shape, axis)
    few = a.shape[axis] < EXACT_IN_FLOAT32
    last = _place(position, missing, "max", axis, few, platform)
    last = lax.max(last, lax.full_like(last, -1))
    valid = lax.gt(position, lax.broadcast_in_dim(last, a.shape, [d for d in range(a.ndim) if d != axis]))
    index, value = _of(a, place, valid, axis, kind, small, platform)
    end = a.shape[axis] - 1
    at_end = lax.eq(last, lax.full_like(last, end))
    index = lax.select(at_end, lax.broadcast(lax.index_in_dim(k, end, keepdims=False), index.shape), index)
    value = lax.select(at_end, lax.index_in_dim(a, end, axis, keepdims=False), value)
    return index, value, lax.ge(last, lax.full_like(last, 0))


def _paired(
    a: jax.Array, k: jax.Array, axis: int, kind: ArgReduce, start: tuple[Any, Any]
) -> tuple[jax.Array, jax.Array]:
    """The same in one reduction, in which the order of a row decides what comes of its NaNs."""
    place, least = lax.broadcast_in_dim(k, a.shape, (axis,)), kind.ties in ("old", "least")
    return best_of(a, place, axis, start, largest=kind.largest, least=least, replaced=kind.replaced)


def _start(node: Call, interval: Interval) -> tuple[Any, Any] | None:
    """The index and the value that a fold starts from, where both are numbers and no element ties with them wrongly."""
    value, index = (literal_of(part) for part in node.args[:2])
    ordered = node.static.ties in ("least", "greatest") or (index is not None and index < interval.start)
    return None if index is None or value is None or value != value or not ordered else (index, value)


def _of(
    a: jax.Array, place: jax.Array, valid: jax.Array | None, axis: int, kind: ArgReduce, small: bool, platform: str
) -> tuple[jax.Array, jax.Array]:
    """The index and the value of each row among the elements that are valid."""
    rows = [d for d in range(a.ndim) if d != axis]
    op = "max" if kind.largest else "min"
    nothing = _nothing(a, op)
    if valid is not None:
        a = _apart(lax.select(valid, a, lax.full_like(a, nothing)), platform)
    value = reduced(a, nothing, op, axis, platform, loose=True)
    hit = lax.eq(a, lax.broadcast_in_dim(value, a.shape, rows))
    if valid is not None:
        hit = lax.bitwise_and(hit, valid)
    return _place(place, hit, "min" if kind.ties in ("old", "least") else "max", axis, small, platform), value


def _place(place: jax.Array, hit: jax.Array, op: str, axis: int, small: bool, platform: str) -> jax.Array:
    """The least or the greatest place that is hit.

    Small ones go through floats, whose reductions XLA's CPU backend compiles in a third of the time, and runs faster.
    """
    floats = small and platform == "cpu"
    x = lax.convert_element_type(place, "float32") if floats else place
    nothing = _nothing(x, op)
    found = lax.select(hit, x, lax.full_like(x, nothing))
    if not floats:
        return reduced(found, nothing, op, axis, platform, loose=True)
    found = reduced(_apart(found, platform), nothing, op, axis, platform, loose=True)
    none = lax.full(found.shape, _nothing(place, op), place.dtype)
    return lax.select(lax.is_finite(found), lax.convert_element_type(found, place.dtype), none)


def _apart(x: jax.Array, platform: str) -> jax.Array:
    """The array in memory, on the CPU: its reduction is the library's then."""
    return lax.optimization_barrier(x) if platform == "cpu" else x


def _nothing(x: jax.Array, op: str) -> np.ndarray[Any, Any]:
    return identity_of(op, x.dtype)
