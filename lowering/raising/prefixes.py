"""Scans by an operation whose order is free, as XLA's cumulative operation: in parallel, where columns are few.

A kernel runs a scan level by level, and a GPU waits for its memory at each; with many columns it has others to go on
with. CPUs run such a scan faster as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax

from lowering.context import Context
from lowering.elementwise import SCALAR
from lowering.raising.reductions import monoid
from lowering.values import Dense, Value, cut, dense, elementwise, presence
from tensorir.ir.nodes import Call, Expr, Lambda
from tensorir.ir.types import Dims

__all__ = ["FEWEST_LEVELS", "MOST_COLUMNS", "prefix"]

MOST_COLUMNS = 1 << 14
"""So many keep a GPU busy."""
FEWEST_LEVELS = 128
"""Shorter scans take as long as two launches."""


def _extremes(function: Callable[..., jax.Array], op: str) -> Callable[..., jax.Array]:
    """A cumulative extreme, differentiated as the scan that it is: JAX's own multiplies tangents by 0."""

    def cumulative(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
        value = jax.custom_jvp(partial(function, axis=axis, reverse=reverse))
        scanned = partial(lax.associative_scan, SCALAR[op], axis=axis, reverse=reverse)
        value.defjvp(lambda primals, tangents: jax.jvp(scanned, primals, tangents))
        return value(x)

    return cumulative


CUMULATIVE: Mapping[str, Callable[..., jax.Array]] = {
    "plus": lax.cumsum, "multiplies": lax.cumprod,
    "max": _extremes(lax.cummax, "max"), "min": _extremes(lax.cummin, "min"),
}  # fmt: skip


def prefix(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A scan of one array by one operation, along the axis where it stands: nothing is turned."""
    f, init, *values = args
    forward, dim = node.static
    interval, state = node.tensor.dims[dim], f.function.type.params[0].dims
    if context.platform != "gpu" or len(interval) < FEWEST_LEVELS or state.size > MOST_COLUMNS:
        return None
    fold = monoid(f.function, 1) if len(values) == 1 and len(init) == 1 else None
    if fold is None or not _is_plain(f.function, fold[1]) or fold[0] not in CUMULATIVE:
        return None
    if any(presence(x) is not None for v in (init, *values) for x in v):
        return None
    (leaf,), op = values[0], fold[0]
    part = dense(cut(leaf, Dims(((dim, interval), *((n, i) for n, i in state.items if n in leaf.dims)))))
    if part.data.dtype.kind not in "fViu":
        return None
    found = CUMULATIVE[op](part.data, axis=part.dims.names.index(dim), reverse=not forward)
    return (elementwise(SCALAR[op], [init[0], Dense(found, part.dims)], node.tensor.dims),)


def _is_plain(function: Any, mapped: Expr | None) -> bool:
    """Whether what is combined with the state is the argument itself."""
    return mapped is None or (isinstance(function, Lambda) and mapped == function.params[1])
