"""Where arrays have the axis of a batch, in the rules of our own primitives for `jax.vmap`."""

from __future__ import annotations

from typing import Any

from jax import lax

__all__ = ["with_batch"]


def with_batch(x: Any, old: int | None, axis: int, size: int) -> Any:
    """An array with its batch at an axis of the result, -1 being the last; `old` is None where all of it is alike.

    >>> with_batch(lax.iota("int32", 2), None, -1, 3)
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    if old is None:
        axis %= x.ndim + 1
        shape = (*x.shape[:axis], size, *x.shape[axis:])
        return lax.broadcast_in_dim(x, shape, tuple(k for k in range(len(shape)) if k != axis))
    axis %= x.ndim
    order = [k for k in range(x.ndim) if k != old]
    return lax.transpose(x, [*order[:axis], old, *order[axis:]])
