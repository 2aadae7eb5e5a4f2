"""Derivatives that leave alone what does not count.

Where a program chooses, all elements are computed and some are selected, and what comes back to the others is exactly
0; but 0 times the infinite slope that 1 / x has there is not a number. Here a product of a tangent and a slope is 0
where the tangent is, going forward as going back, so elements that nobody reads have no part in gradients, of any
order. Where the slope is infinite and the element does count, a cotangent of 0 gives 0 as well.

>>> import jax.numpy as jnp
>>> root = smooth(lax.sqrt)
>>> jax.grad(lambda x: jnp.where(x > 0, root(x), x).sum())(jnp.array([4.0, 0.0, -1.0]))
Array([0.25, 1.  , 1.  ], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import jax
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from lowering.batch_dims import with_batch
from lowering.gradients.in_place_adjoints import still
from lowering.manual_axes import axes_of, varying

__all__ = ["over", "smooth", "times"]

Function = Callable[..., jax.Array]
Rule = Callable[..., jax.Array]
"""From the tangent of one operand, and the operands, to what it adds to the tangent of the result."""


def smooth(function: Function, *rules: Rule) -> Function:
    """An elementwise function whose slopes are multiplied so; `rules` has one for each operand, if they are given."""
    return _smooth(function, rules)


@cache
def _smooth(function: Function, rules: tuple[Rule, ...]) -> Function:
    @jax.custom_jvp
    def value(*xs: jax.Array) -> jax.Array:
        return function(*xs)

    def jvp(xs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = value(*xs)
        found: list[Any] = []
        for k, t in enumerate(tangents):
            if not isinstance(t, SymbolicZero):
                found.append(rules[k](t, *xs) if rules else times(t, _smooth(_slope(function, k), ())(*xs)))
        return out, reduce(lax.add, found) if found else lax.full_like(out, 0)

    value.defjvp(jvp, symbolic_zeros=True)
    return value


@cache
def _slope(function: Function, k: int) -> Function:
    """The derivative along the k-th operand."""

    def slope(*xs: jax.Array) -> jax.Array:
        def along(x: jax.Array) -> jax.Array:
            return function(*xs[:k], x, *xs[k + 1 :])

        return jax.jvp(along, (xs[k],), (lax.full_like(xs[k], 1),))[1]

    return slope


def times(t: jax.Array, slope: jax.Array) -> jax.Array:
    """t × slope, and 0 where t is; linear in t."""
    return _bound(t, slope, inverse=False)


def over(t: jax.Array, x: jax.Array) -> jax.Array:
    """t / x, and 0 where t is; linear in t."""
    return _bound(t, x, inverse=True)


scaled = Primitive("scaled")


def _bound(t: Any, x: Any, *, inverse: bool) -> Any:
    """The primitive, on operands that vary over the same axes of a mesh: the transpose adds up over them."""
    return scaled.bind(*varying((t, x), axes_of(t, x)), inverse=inverse)


def _scaled(t: jax.Array, x: jax.Array, *, inverse: bool) -> jax.Array:
    return lax.select(lax.eq(t, lax.full_like(t, 0)), t, lax.div(t, x) if inverse else lax.mul(t, x))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, inverse: bool) -> tuple[Any, Any]:
    (t, x), (dt, dx) = primals, tangents
    out = _bound(t, x, inverse=inverse)
    found: list[Any] = []
    if not isinstance(dt, ad.Zero):
        found.append(_bound(dt, x, inverse=inverse))
    if not isinstance(dx, ad.Zero):
        # the slope of a slope is no more finite than that
        dx = lax.select(lax.eq(t, lax.full_like(t, 0)), lax.full_like(dx, 0), dx)
        found.append(lax.neg(times(dx, over(out, x))) if inverse else times(dx, t))
    return out, reduce(lax.add, found) if found else still(out)


def _transpose(cotangent: Any, t: Any, x: Any, *, inverse: bool) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(t.aval), None]
    return [_bound(cotangent, x, inverse=inverse), None]


def _batched(args: Sequence[Any], axes: Sequence[Any], *, inverse: bool) -> tuple[Any, Any]:
    (t, x), (a, b) = args, axes
    axis = a if a is not None else b
    size = t.shape[a] if a is not None else x.shape[b]
    t, x = with_batch(t, a, axis, size), with_batch(x, b, axis, size)
    return scaled.bind(t, x, inverse=inverse), axis


_scaled_jit = jax.jit(_scaled, static_argnames="inverse")
scaled.def_impl(_scaled_jit)
scaled.def_abstract_eval(lambda t, x, *, inverse: t)
mlir.register_lowering(scaled, mlir.lower_fun(_scaled, multiple_results=False))
ad.primitive_jvps[scaled] = _jvp
ad.primitive_transposes[scaled] = _transpose
batching.primitive_batchers[scaled] = _batched
