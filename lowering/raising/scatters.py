"""Updates at indices in one operation: a scatter with a combiner that XLA has, or a slice written in place.

Without a rule, updates run one by one in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context
from lowering.dynamic_slices import put_at_one
from lowering.indirect import CLIP, DROP, Updates, combiner, one_by_one, scattered, touched
from lowering.values import Dense, Value, dense
from tensorir.ir.nodes import Call
from tensorir.ir.types import Dims

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
        names, order, part, over = updates.names, updates.order, updates.part, updates.over
        told = [updates.ok] if updates.ok is not None else []
        held = {n for leaf in (*updates.indices, *told) for n in leaf.dims.names}
        # dims along which no index changes go along as rows: one by one they take six times as long
        rows = [n for n in part.names if n not in (*names, *over) and n not in held]
        points = order.without(*rows)
        whole = Dims((*points.items, *((n, part[n]) for n in rows)))
        (columns, _), ((operand,), (values,)) = updates.columns(points), updates.arrays(whole)
        start = lax.concatenate([lax.expand_dims(c, (len(points),)) for c in columns], len(points))
        if kind == "last":
            start = _last_wins(start, _numbers(points, part.without(*rows), updates, []), points, updates, rows)
            return [Dense(lax.scatter(operand, start, values, _numbers(points, part, updates, rows), mode=DROP), part)]
        scatter = COMBINERS[str(kind)]
        return [Dense(scatter(operand, start, values, _numbers(points, part, updates, rows), mode=DROP), part)]

    if kind == "multiplies":
        return scattered(context, node, args, lambda updates: _differentiable(context, updates, put))
    return scattered(context, node, args, put)


def _differentiable(context: Context, updates: Updates, put: Callable[[Updates], Sequence[Dense]]) -> Sequence[Dense]:
    """What `put` gives, with the derivative of updates one by one: JAX has none of products that meet."""
    ((operand,), (values,)), part, order = updates.arrays(updates.order), updates.part, updates.order

    def given(operand: jax.Array, values: jax.Array, indices: Any, ok: Any) -> Updates:
        base, value = (Dense(operand, part),), (Dense(values, order),)
        return replace(updates, base=base, values=value, indices=indices, ok=ok)

    @jax.custom_jvp
    def product(operand: jax.Array, values: jax.Array, indices: Any, ok: Any) -> jax.Array:
        (found,) = put(given(operand, values, indices, ok))
        return found.data

    @product.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        operand, values, indices, ok = primals

        def in_order(operand: jax.Array, values: jax.Array) -> jax.Array:
            (found,) = one_by_one(context.inner(), given(operand, values, indices, ok))
            return found.data

        return product(*primals), jax.jvp(in_order, (operand, values), tangents[:2])[1]

    return [Dense(product(operand, values, updates.indices, updates.ok), part)]


def _numbers(points: Dims, part: Dims, updates: Updates, rows: Sequence[str]) -> lax.ScatterDimensionNumbers:
    """How indices on some points put values, with the rows as their last axes, into the part."""
    count = len(updates.names)
    batch = [n for n in points.names if n not in updates.over]
    return lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(points), len(points) + len(rows))),
        inserted_window_dims=tuple(range(count)),
        scatter_dims_to_operand_dims=tuple(range(count)),
        operand_batching_dims=tuple(sorted(part.names.index(n) for n in batch)),
        scatter_indices_batching_dims=tuple(
            points.names.index(n) for n in sorted(batch, key=part.names.index)
        ),
    )  # fmt: skip


def in_place(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    function, base, *given, _ = args
    one = all(isinstance(i, Dense) and not i.dims and (i.present is None or not i.present.dims) for (i,) in given)
    if len(base) != 1 or combiner(function.function) != "last" or node.static.over or not one:
        return None
    if not touched(node)[1].size:
        return None

    def put(updates: Updates) -> list[Dense]:
        base, values, order, part = dense(updates.base[0]), dense(updates.values[0]), updates.order, updates.part
        return [put_at_one(base, updates.indices, values, updates.ok, order, part, updates.names)]

    return scattered(context, node, args, put)


def _last_wins(start: jax.Array, numbers: Any, points: Dims, updates: Updates, rows: Sequence[str]) -> jax.Array:
    """Where several updates meet, the last: XLA leaves their order open, so the losers are sent out of range before."""
    over = updates.over
    count = int(np.prod([len(points[n]) for n in over], dtype=np.int64))
    shape = tuple(len(points[n]) for n in over)
    rank = lax.broadcast_in_dim(lax.reshape(lax.iota("int32", count), shape), points.shape, tuple(range(len(over))))
    operand = updates.part.without(*rows).shape
    latest = lax.scatter_max(lax.full(operand, -1, "int32"), start, rank, numbers, mode=DROP)
    back = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims, operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )  # fmt: skip
    winner = lax.eq(lax.gather(latest, start, back, (1,) * len(operand), mode=CLIP), rank)
    outside = lax.full_like(start, np.iinfo(start.dtype).max)
    mask = lax.broadcast_in_dim(winner, start.shape, tuple(range(len(points))))
    return lax.select(mask, start, outside)
