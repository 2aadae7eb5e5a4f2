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
from functools import cache, partial, reduce
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from lowering.gradients.in_place_adjoints import still
from lowering.tracing import axes_of, varying, with_batch

Function = Callable[..., jax.Array]
Rule = Callable[..., jax.Array]
"""From the tangent of one operand, and the operands, to what it adds to the tangent of the result."""


def smooth(function: Function, *rules: Rule) -> Function:
    """An elementwise function in whose derivatives 0 times an infinite slope is 0.

    `rules` has, per operand, the function from (its tangent, all operands) to its summand of the result's tangent;
    without rules the slopes are JAX's derivatives.
    """
    return _smooth(function, rules)


@cache
def _smooth(function: Function, rules: tuple[Rule, ...]) -> Function:
    """The function with a JVP that sums, per moving operand, its rule or `times(tangent, slope)`; cached."""

    @jax.custom_jvp
    def value(*xs: jax.Array) -> jax.Array:
        return function(*xs)

    def jvp(xs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The value, and the sum of the tangents' contributions; symbolic zeros are left out."""
        out = value(*xs)
        terms: list[Any] = []
        for k, t in enumerate(tangents):
            if not isinstance(t, SymbolicZero):
                terms.append(rules[k](t, *xs) if rules else times(t, _smooth(_slope(function, k), ())(*xs)))
        return out, reduce(lax.add, terms) if terms else lax.full_like(out, 0)

    value.defjvp(jvp, symbolic_zeros=True)
    return value


@cache
def _slope(function: Function, k: int) -> Function:
    """The derivative of a function along its k-th operand, as a function of all operands."""

    def slope(*xs: jax.Array) -> jax.Array:
        """The tangent of the function for a tangent of 1 in the k-th operand."""

        def along(x: jax.Array) -> jax.Array:
            return function(*xs[:k], x, *xs[k + 1 :])

        return jax.jvp(along, (xs[k],), (lax.full_like(xs[k], 1),))[1]

    return slope


def times(t: jax.Array, slope: jax.Array) -> jax.Array:
    """t × slope, and 0 where t is; linear in t."""
    return _scaled_varying(t, slope, inverse=False)


def over(t: jax.Array, x: jax.Array) -> jax.Array:
    """t / x, and 0 where t is; linear in t."""
    return _scaled_varying(t, x, inverse=True)


scaled = Primitive("scaled")


def _scaled_varying(t: Any, x: Any, *, inverse: bool) -> Any:
    """The primitive `scaled` on operands cast to vary over the same axes of a mesh, over which its transpose adds
    up.
    """
    return scaled.bind(*varying((t, x), axes_of(t, x)), inverse=inverse)


def _scaled(t: jax.Array, x: jax.Array, *, inverse: bool) -> jax.Array:
    """t × x, or t / x if `inverse`; 0 where t is 0."""
    return lax.select(lax.eq(t, lax.full_like(t, 0)), t, lax.div(t, x) if inverse else lax.mul(t, x))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, inverse: bool) -> tuple[Any, Any]:
    """JVP of `scaled`: it is linear in t, and differentiable in x, again with 0 where the tangent is."""
    (t, x), (dt, dx) = primals, tangents
    out = _scaled_varying(t, x, inverse=inverse)
    terms: list[Any] = []
    if not isinstance(dt, ad.Zero):
        terms.append(_scaled_varying(dt, x, inverse=inverse))
    if not isinstance(dx, ad.Zero):
        # the slope of a slope is no more finite than that
        dx = lax.select(lax.eq(t, lax.full_like(t, 0)), lax.full_like(dx, 0), dx)
        terms.append(lax.neg(times(dx, over(out, x))) if inverse else times(dx, t))
    return out, reduce(lax.add, terms) if terms else still(out)


def _transpose(cotangent: Any, t: Any, x: Any, *, inverse: bool) -> list[Any]:
    """Transpose of `scaled` in its first operand: the same product of the cotangent."""
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(t.aval), None]
    return [_scaled_varying(cotangent, x, inverse=inverse), None]


def _batched(args: Sequence[Any], axes: Sequence[Any], *, inverse: bool) -> tuple[Any, Any]:
    """Batching of `scaled`: both operands get the batch at the axis at which one has it."""
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


# Sums of products, such as contractions and convolutions: the same for each of their products.

paired = Primitive("paired")


@cache
def bilinear(function: Function) -> Function:
    """A function that is linear in each of two operands, with derivatives in which 0 times an infinity is 0.

    >>> import jax.numpy as jnp
    >>> dot = bilinear(lax.dot)
    >>> jax.grad(lambda v: (dot(jnp.array([[jnp.inf, 1.0], [2.0, 3.0]]), v) * jnp.array([0.0, 1.0])).sum())(jnp.ones(2))
    Array([2., 3.], dtype=float32)
    """
    return smooth(
        function,
        lambda t, x, y: _paired_varying(t, y, function),
        lambda t, x, y: _paired_varying(t, x, _swapped(function)),
    )


def _paired_varying(t: Any, x: Any, function: Function) -> Any:
    return paired.bind(*varying((t, x), axes_of(t, x)), function=function)


def _paired(t: jax.Array, x: jax.Array, *, function: Function) -> jax.Array:
    """`function(t, x)`, in whose sums of products 0 times an infinity is 0; `_sum_of_terms` runs if any element is
    not finite.
    """
    finite = [lax.reduce(lax.is_finite(v), True, lax.bitwise_and, tuple(range(v.ndim))) for v in (t, x)]
    return lax.cond(lax.bitwise_and(*finite), function, partial(_sum_of_terms, function), t, x)


def _sum_of_terms(function: Function, t: jax.Array, x: jax.Array) -> jax.Array:
    """The bilinear function of t and x, without the products of a 0: infinite if all infinite products agree in
    sign, else NaN.

    Non-finite elements are replaced by 0; how many of their products there are in each sum, and of which signs, is
    computed by the same function of masks.
    """
    (t, t_sign, t_nonzero, t_infinite), (x, x_sign, x_nonzero, x_infinite) = _split_non_finite(t), _split_non_finite(x)
    total, t_finite_nonzero = function(t, x), lax.sub(t_nonzero, t_infinite)
    count = lax.add(function(t_infinite, x_nonzero), function(t_finite_nonzero, x_infinite))
    sign = lax.add(
        function(lax.mul(t_infinite, t_sign), x_sign),
        function(lax.mul(t_finite_nonzero, t_sign), lax.mul(x_infinite, x_sign)),
    )
    non_finite_sum = lax.select(lax.eq(lax.abs(sign), count), lax.mul(sign, _full(sign, np.inf)), _full(sign, np.nan))
    return lax.select(lax.gt(count, _full(count, 0)), non_finite_sum, total)


def _split_non_finite(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Four arrays: x with 0 for elements that are not finite; signs (0 for NaN); 1 where x is not 0; 1 where it is
    not finite.
    """
    finite, zero, one = lax.is_finite(x), _full(x, 0), _full(x, 1)
    sign = lax.select(lax.ne(x, x), zero, lax.sign(x))
    return (
        lax.select(finite, x, zero), sign, lax.select(lax.eq(x, zero), zero, one), lax.select(finite, zero, one),
    )  # fmt: skip


_full = lax.full_like


@cache
def _swapped(function: Function) -> Function:
    return lambda y, x: function(x, y)


@cache
def _transposed(function: Function, shape: tuple[int, ...], element: Any) -> Function:
    """(cotangent, x) → t, the transpose of a bilinear function in its first operand, of that shape and element type."""

    def transposed(cotangent: jax.Array, x: jax.Array) -> jax.Array:
        # a value rather than a shape: within `jax.shard_map` it varies over the axes that the other operand does
        t = varying(lax.full(shape, 0, element), axes_of(cotangent, x))
        return jax.vjp(lambda t: function(t, x), t)[1](cotangent)[0]

    return transposed


@cache
def _mapped(function: Function, axes: tuple[int | None, int | None]) -> Function:
    return jax.vmap(function, axes)


def _paired_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, function: Function) -> tuple[Any, Any]:
    """JVP of `paired`: the tangent of each operand in its place, by the same primitive."""
    (t, x), (dt, dx) = primals, tangents
    out = _paired_varying(t, x, function)
    terms = [] if isinstance(dt, ad.Zero) else [_paired_varying(dt, x, function)]
    if not isinstance(dx, ad.Zero):
        terms.append(_paired_varying(dx, t, _swapped(function)))
    return out, reduce(lax.add, terms) if terms else still(out)


def _paired_transpose(cotangent: Any, t: Any, x: Any, *, function: Function) -> list[Any]:
    """Transpose of `paired` in its first operand: `paired` of the transposed function."""
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(t.aval), None]
    return [_paired_varying(cotangent, x, _transposed(function, t.aval.shape, t.aval.dtype)), None]


def _paired_shape(t: Any, x: Any, *, function: Function) -> Any:
    """The abstract result of `paired`, with t's sharding and axes of a mesh."""
    out = jax.eval_shape(function, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (t, x)))
    return t.update(shape=out.shape, dtype=out.dtype, weak_type=False)


def _paired_batched(args: Sequence[Any], axes: Sequence[Any], *, function: Function) -> tuple[Any, Any]:
    """Batching of `paired`: the function itself is mapped."""
    (t, x), (a, b) = args, axes
    return _paired_varying(t, x, _mapped(function, (a, b))), 0


_paired_jit = jax.jit(_paired, static_argnames="function")
paired.def_impl(_paired_jit)
paired.def_abstract_eval(_paired_shape)
mlir.register_lowering(paired, mlir.lower_fun(_paired, multiple_results=False))
ad.primitive_jvps[paired] = _paired_jvp
ad.primitive_transposes[paired] = _paired_transpose
batching.primitive_batchers[paired] = _paired_batched
