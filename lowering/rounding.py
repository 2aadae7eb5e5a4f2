"""Arithmetic that is rounded where the program says so: with `numerics="exact"`, and on the way to a whole number.

XLA contracts x × y + z to one rounding, multiplies by 1/c where the program divides by c, and joins the constants of
(x × c) × d; no option of a program stops it (JAX 0.10.2). `AS_WRITTEN` has the operations that it leaves as they are:
a product is selected by its own bits, which no contraction looks through, and what stands behind a barrier is not
rewritten together with what it is used in. The values are those of the plain operations.

What leads to a whole number is computed as it is written in every program (`tensorir.analysis.annotations`).

>>> x = jax.numpy.float32(1.1)
>>> square = lax.mul(x, x)
>>> float(jax.jit(lambda x, y: lax.sub(AS_WRITTEN["multiplies"](x, x), y))(x, square))  # 1.4e-08 where it is contracted
0.0
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from lowering.gradients.safe_derivatives import over, smooth, times

__all__ = ["AS_WRITTEN", "FINITE_AS_WRITTEN"]

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
    # XLA takes x + 0 for x, which it is not where x is -0
    return lambda x, y: lax.optimization_barrier(operation(*lax.optimization_barrier((x, y))))


_sum = _apart(lax.add)


def _added(x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum; of one element XLA's CPU emitter takes x + 0 for x, too, unless the second operand is no constant."""
    return _sum(x, lax.select(lax.ne(x, x), x, y) if x.size == 1 else y)


_plus = smooth(_added, lambda t, x, y: t, lambda t, x, y: t)
_times = smooth(_multiplied, lambda t, x, y: times(t, y), lambda t, x, y: times(t, x))
_over = smooth(_divided, lambda t, x, y: over(t, y), lambda t, x, y: lax.neg(times(t, _over(_over(x, y), y))))

AS_WRITTEN: dict[str, Binary] = {
    "plus": lambda x, y: _plus(x, y) if x.size == 1 else _sum(x, y),
    "minus": _apart(lax.sub),
    "multiplies": _times,
    "divides": _over,
}
"""The operations of floats that round, by builtin."""

FINITE_AS_WRITTEN: dict[str, Binary] = {**AS_WRITTEN, "multiplies": _multiplied, "divides": _divided}
"""The same where derivatives are finite in any case."""
