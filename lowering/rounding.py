"""Arithmetic that is rounded where the program says so, for `numerics="exact"`.

XLA contracts x × y + z to one rounding, multiplies by 1/c where the program divides by c, and joins the constants of
(x × c) × d; no option of a program stops it (JAX 0.10.2). `AS_WRITTEN` has the operations that it leaves as they are:
a product is selected by its own bits, which no contraction looks through, and what stands behind a barrier is not
rewritten together with what it is used in. The values are those of the plain operations.

>>> x = jax.numpy.float32(1.1)
>>> apart = jax.jit(lambda x: lax.sub(AS_WRITTEN["multiplies"](x, x), lax.mul(x, x)))
>>> float(apart(x))
0.0
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

__all__ = ["AS_WRITTEN"]

Binary = Callable[[jax.Array, jax.Array], jax.Array]


def _selected(product: jax.Array) -> jax.Array:
    """The product, which is never a NaN that signals; no compiler knows that."""
    info = jax.numpy.finfo(product.dtype)
    bits = np.dtype(f"u{product.dtype.itemsize}")
    signals = (2**info.nexp - 1 << info.nmant) + 1
    found = lax.bitcast_convert_type(product, bits)
    return lax.select(lax.ne(found, lax.full_like(found, signals)), product, lax.full_like(product, 0))


def _multiplied(x: jax.Array, y: jax.Array) -> jax.Array:
    return _selected(lax.mul(x, y)) if x.dtype.itemsize > 1 else lax.mul(x, y)


def _divided(x: jax.Array, y: jax.Array) -> jax.Array:
    return lax.optimization_barrier(lax.div(x, lax.optimization_barrier(y)))


def _apart(operation: Binary) -> Binary:
    return lambda x, y: lax.optimization_barrier(operation(x, y))


AS_WRITTEN: dict[str, Binary] = {
    "plus": _apart(lax.add),
    "minus": _apart(lax.sub),
    "multiplies": _multiplied,
    "divides": _divided,
}
"""The operations of floats that round, by builtin."""
