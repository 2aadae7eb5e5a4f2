"""Updates at indices in one operation: a scatter with a combiner that XLA has, or a slice written in place.

Without a rule, updates run one by one in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context
from lowering.indirect import CLIP, DROP, Updates, combiner, scattered, touched
from lowering.single import put_at_one
from lowering.values import Dense, Value, dense
from tensorir.ir import Call
from tensorir.types import Dims

__all__ = ["combined", "in_place"]

COMBINERS: dict[str, Callable[..., jax.Array]] = {
    "plus": lax.scatter_add,
    "multiplies": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


def combined(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    kind = combiner(args[0].function)
    if len(args[1]) != 1 or (kind != "last" and kind not in COMBINERS):
        return None

    def put(updates: Updates) -> list[Dense]:
        (columns, _), ((operand,), (values,)) = updates.columns(), updates.arrays()
        order, part, over = updates.order, updates.part, updates.over
        start = lax.concatenate([lax.expand_dims(c, (len(order),)) for c in columns], len(order))
        batch = [n for n in order.names if n not in over]
        count = len(updates.names)
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=(), inserted_window_dims=tuple(range(count)),
            scatter_dims_to_operand_dims=tuple(range(count)),
            operand_batching_dims=tuple(part.names.index(n) for n in batch),
            scatter_indices_batching_dims=tuple(order.names.index(n) for n in batch),
        )  # fmt: skip
        if kind == "last":
            return [Dense(_last_wins(operand, start, values, numbers, order, over), part)]
        return [Dense(COMBINERS[str(kind)](operand, start, values, numbers, mode=DROP), part)]

    return scattered(context, node, args, put)


def in_place(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    function, base, *given, _ = args
    one = all(isinstance(i, Dense) and not i.dims and (i.present is None or not i.present.dims) for (i,) in given)
    if len(base) != 1 or combiner(function.function) != "last" or node.static[1] or not one:
        return None
    if not touched(node)[1].size:
        return None

    def put(updates: Updates) -> list[Dense]:
        base, values, order, part = dense(updates.base[0]), dense(updates.values[0]), updates.order, updates.part
        return [put_at_one(base, updates.indices, values, updates.ok, order, part, updates.names)]

    return scattered(context, node, args, put)


def _last_wins(
    operand: jax.Array, start: jax.Array, values: jax.Array, numbers: Any, order: Dims, over: Any
) -> jax.Array:
    """Where several updates meet, the last: XLA leaves their order open, so the losers are dropped before."""
    shape = values.shape
    count = int(np.prod([len(order[n]) for n in over], dtype=np.int64))
    rank = lax.broadcast_in_dim(
        lax.reshape(lax.iota("int32", count), [len(order[n]) for n in over]), shape, tuple(range(len(over)))
    )
    latest = lax.scatter_max(lax.full(operand.shape, -1, "int32"), start, rank, numbers, mode=DROP)
    back = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims, operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )  # fmt: skip
    winner = lax.eq(lax.gather(latest, start, back, (1,) * operand.ndim, mode=CLIP), rank)
    outside = lax.full_like(start, np.iinfo(start.dtype).max)
    mask = lax.broadcast_in_dim(winner, start.shape, tuple(range(len(shape))))
    return lax.scatter(operand, lax.select(mask, start, outside), values, numbers, mode=DROP)
