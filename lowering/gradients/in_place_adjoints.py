"""Adjoints in place, and derivatives that leave alone what does not count.

Reads that hand their operand on, so that a cotangent is added to where it stands.

The transpose of a read puts what comes back into zeros of the buffer's size and adds the two: every number that is
read costs a pass over the buffer. `take` gives, beside what it reads, the buffer itself; a program that goes on with
that one uses every state of a buffer once, and the transpose is one update in place. `threaded` runs a jaxpr so.

>>> import jax, jax.numpy as jnp
>>> take.bind(jnp.arange(4.0), jnp.int32(2), place=WrittenWindow((1,)))[0]
Array([2.], dtype=float32)
>>> def product(x):
...     a, x = take.bind(x, jnp.int32(0), place=WrittenWindow((1,)))
...     b, x = take.bind(x, jnp.int32(2), place=WrittenWindow((1,)))
...     return (a * b)[0]
>>> jax.grad(product)(jnp.array([2.0, 3.0, 5.0]))
Array([5., 0., 2.], dtype=float32)

Derivatives that leave alone what does not count.

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
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive
from jax.interpreters import ad, batching, mlir

from lowering.tracing import axes_of, varying, with_batch

# Where a read stands


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """A slice that starts at indices, one per axis."""

    sizes: tuple[int, ...]

    def read(self, x: jax.Array, *indices: jax.Array) -> jax.Array:
        return lax.dynamic_slice(x, indices, self.sizes, allow_negative_indices=False)

    def added(self, x: jax.Array, update: jax.Array, *indices: jax.Array) -> jax.Array:
        return _written(x, lax.add(self.read(x, *indices), update), *indices)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A slice without strides, from a known start."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    def read(self, x: jax.Array) -> jax.Array:
        return lax.slice(x, self.start, self.stop)

    def added(self, x: jax.Array, update: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice(x, lax.add(self.read(x), update), self.start)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Slices at an array of indices."""

    numbers: lax.GatherDimensionNumbers
    sizes: tuple[int, ...]
    mode: lax.GatherScatterMode

    def read(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        return lax.gather(x, indices, self.numbers, self.sizes, mode=self.mode)

    def added(self, x: jax.Array, update: jax.Array, indices: jax.Array) -> jax.Array:
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=self.numbers.offset_dims,
            inserted_window_dims=self.numbers.collapsed_slice_dims,
            scatter_dims_to_operand_dims=self.numbers.start_index_map,
            operand_batching_dims=self.numbers.operand_batching_dims,
            scatter_indices_batching_dims=self.numbers.start_indices_batching_dims,
        )
        return lax.scatter_add(x, indices, update, numbers, mode=self.mode)


Place = WrittenWindow | Fixed | Gathered


def _place(eqn: JaxprEqn) -> Place | None:
    """The place of an equation that reads a part of its first operand."""
    params = eqn.params
    match eqn.primitive.name:
        case "dynamic_slice":
            return WrittenWindow(params["slice_sizes"])
        case "slice" if params["strides"] is None:
            return Fixed(params["start_indices"], params["limit_indices"])
        case "gather" if params["mode"] in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS):
            return Gathered(params["dimension_numbers"], params["slice_sizes"], params["mode"])
        case _:
            return None


def threaded(
    closed: ClosedJaxpr, handed: Callable[[JaxprEqn], Sequence[tuple[int, int]]], *args: Any
) -> tuple[list[Any], list[Any]]:
    """The results of a jaxpr, and its arguments as their last readers hand them on.

    `handed`: which operands of an equation are among its results, as pairs of places.
    """
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def value(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    for eqn in jaxpr.eqns:
        operands = [value(v) for v in eqn.invars]
        place = _place(eqn)
        if place is not None and not isinstance(eqn.invars[0], Literal):
            found, env[eqn.invars[0]] = take.bind(*operands, place=place)
            env[eqn.outvars[0]] = found
        elif eqn.primitive.name == "dynamic_update_slice":
            env[eqn.outvars[0]] = put.bind(*operands)
        else:
            with eqn.ctx.manager:
                results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
            env.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results], strict=True))
            for operand, result in handed(eqn):
                if not isinstance(eqn.invars[operand], Literal):
                    env[eqn.invars[operand]] = results[result]
    return [value(v) for v in jaxpr.outvars], [env[v] for v in jaxpr.invars]


def still(x: Any) -> ad.Zero:
    """The tangent of what does not move."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


# take: a read, and its operand

take = Primitive("take")
take.multiple_results = True


def _taken(x: jax.Array, *indices: jax.Array, place: Place) -> list[jax.Array]:
    return [place.read(x, *indices), x]


_taken_jit = jax.jit(_taken, static_argnames="place")


def _taken_apart(x: jax.Array, *indices: jax.Array, place: Place) -> list[jax.Array]:
    # out of line: a read that is fused into several kernels would run again after the buffer is written, on a copy
    with set_xla_metadata(inlineable="false"):
        return _taken_jit(x, *indices, place=place)


def _take_shapes(x: Any, *indices: Any, place: Place) -> list[Any]:
    value = jax.eval_shape(place.read, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, *indices)))
    return [x.update(shape=value.shape, weak_type=False), x]


def _take_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, place: Place) -> tuple[Any, Any]:
    out = take.bind(*primals, place=place)
    if isinstance(tangents[0], ad.Zero):
        return out, [still(o) for o in out]
    return out, take.bind(tangents[0], *primals[1:], place=place)


def _take_transpose(cotangents: Sequence[Any], x: Any, *indices: Any, place: Place) -> list[Any]:
    value, whole = cotangents
    none = [None] * len(indices)
    if isinstance(value, ad.Zero):
        return [whole, *none]
    return [place.added(ad.instantiate_zeros(whole), value, *indices), *none]


def _take_batched(args: Sequence[Any], axes: Sequence[Any], *, place: Place) -> tuple[Any, Any]:
    x, *indices = args
    axis, *others = axes
    if axis is None or any(a is not None for a in others) or isinstance(place, Gathered):
        return [jax.vmap(place.read, axes)(*args), x], (0, axis)
    # a batched slice at one index stays a slice; the rule of lax makes it a gather
    size = x.shape[axis]
    match place:
        case WrittenWindow(sizes):
            whole = WrittenWindow((*sizes[:axis], size, *sizes[axis:]))
            indices = [*indices[:axis], lax.full((), 0, indices[0].dtype), *indices[axis:]]
        case Fixed(start, stop):
            whole = Fixed((*start[:axis], 0, *start[axis:]), (*stop[:axis], size, *stop[axis:]))
    return take.bind(x, *indices, place=whole), (axis, axis)


take.def_impl(lambda *operands, place: _taken_jit(*operands, place=place))
take.def_abstract_eval(_take_shapes)
mlir.register_lowering(take, mlir.lower_fun(_taken, multiple_results=True))
mlir.register_lowering(take, mlir.lower_fun(_taken_apart, multiple_results=True), platform="cpu")
ad.primitive_jvps[take] = _take_jvp
ad.primitive_transposes[take] = _take_transpose
batching.primitive_batchers[take] = _take_batched


# put: a slice written; its transpose reads what comes back there, and only then puts zeros

put = Primitive("put")


def _written(x: jax.Array, update: jax.Array, *indices: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(x, update, indices, allow_negative_indices=False)


def _put_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    out = put.bind(*primals)
    if all(isinstance(t, ad.Zero) for t in tangents[:2]):
        return out, still(out)
    return out, put.bind(*(ad.instantiate_zeros(t) for t in tangents[:2]), *primals[2:])


def _put_transpose(cotangent: Any, x: Any, update: Any, *indices: Any) -> list[Any]:
    none = [None] * len(indices)
    places = [ad.is_undefined_primal(x), ad.is_undefined_primal(update)]
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(a.aval) if linear else None for a, linear in zip((x, update), places, strict=True)] + none
    shape = update.aval.shape if places[1] else update.shape
    value, rest = take.bind(cotangent, *indices, place=WrittenWindow(tuple(shape)))
    rest = _written(rest, lax.full_like(value, 0), *indices)
    return [rest if places[0] else None, value if places[1] else None, *none]


def _put_batched(args: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, Any]:
    x, update, *indices = args
    if any(a is not None for a in axes[2:]):
        return jax.vmap(_written, axes)(*args), 0
    size = next(a.shape[k] for a, k in zip(args, axes, strict=True) if k is not None)
    axis = axes[0] if axes[0] is not None else x.ndim
    x, update = (with_batch(a, old, axis, size) for a, old in ((x, axes[0]), (update, axes[1])))
    return put.bind(x, update, *indices[:axis], lax.full((), 0, indices[0].dtype), *indices[axis:]), axis


put.def_impl(_written)
put.def_abstract_eval(lambda x, update, *indices: x)
mlir.register_lowering(put, mlir.lower_fun(_written, multiple_results=False))
ad.primitive_jvps[put] = _put_jvp
ad.primitive_transposes[put] = _put_transpose
batching.primitive_batchers[put] = _put_batched

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


# Sums of products, such as contractions and convolutions: the same for each of their products.

paired = Primitive("paired")


@cache
def bilinear(function: Function) -> Function:
    """A function that is linear in each of its two operands, in whose derivatives 0 times an infinity is 0.

    >>> import jax.numpy as jnp
    >>> dot = bilinear(lax.dot)
    >>> jax.grad(lambda v: (dot(jnp.array([[jnp.inf, 1.0], [2.0, 3.0]]), v) * jnp.array([0.0, 1.0])).sum())(jnp.ones(2))
    Array([2., 3.], dtype=float32)
    """
    return smooth(function, lambda t, x, y: _pair(t, y, function), lambda t, x, y: _pair(t, x, _swapped(function)))


def _pair(t: Any, x: Any, function: Function) -> Any:
    return paired.bind(*varying((t, x), axes_of(t, x)), function=function)


def _paired(t: jax.Array, x: jax.Array, *, function: Function) -> jax.Array:
    return lax.cond(lax.bitwise_and(_all_finite(t), _all_finite(x)), function, partial(_sum_of_terms, function), t, x)


def _all_finite(x: jax.Array) -> jax.Array:
    return lax.reduce(lax.is_finite(x), True, lax.bitwise_and, tuple(range(x.ndim)))


def _sum_of_terms(function: Function, t: jax.Array, x: jax.Array) -> jax.Array:
    """The sum of the products of which both factors are not 0: those that are not finite are counted, and by sign."""
    (t, t_sign, t_counts, t_beyond), (x, x_sign, x_counts, x_beyond) = _parts(t), _parts(x)
    total, rest = function(t, x), lax.sub(t_counts, t_beyond)
    count = lax.add(function(t_beyond, x_counts), function(rest, x_beyond))
    sign = lax.add(
        function(lax.mul(t_beyond, t_sign), x_sign), function(lax.mul(rest, t_sign), lax.mul(x_beyond, x_sign))
    )
    beyond = lax.select(lax.eq(lax.abs(sign), count), lax.mul(sign, _full(sign, np.inf)), _full(sign, np.nan))
    return lax.select(lax.gt(count, _full(count, 0)), beyond, total)


def _parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The finite elements; the signs of numbers; 1 where an element is not 0; 1 where it is not finite."""
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
    def transposed(cotangent: jax.Array, x: jax.Array) -> jax.Array:
        # a value rather than a shape: within `jax.shard_map` it varies over the axes that the other operand does
        t = varying(lax.full(shape, 0, element), axes_of(cotangent, x))
        return jax.vjp(lambda t: function(t, x), t)[1](cotangent)[0]

    return transposed


@cache
def _mapped(function: Function, axes: tuple[int | None, int | None]) -> Function:
    return jax.vmap(function, axes)


def _paired_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, function: Function) -> tuple[Any, Any]:
    (t, x), (dt, dx) = primals, tangents
    out = _pair(t, x, function)
    found = [] if isinstance(dt, ad.Zero) else [_pair(dt, x, function)]
    if not isinstance(dx, ad.Zero):
        found.append(_pair(dx, t, _swapped(function)))
    return out, reduce(lax.add, found) if found else still(out)


def _paired_transpose(cotangent: Any, t: Any, x: Any, *, function: Function) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(t.aval), None]
    return [_pair(cotangent, x, _transposed(function, t.aval.shape, t.aval.dtype)), None]


def _paired_shape(t: Any, x: Any, *, function: Function) -> Any:
    out = jax.eval_shape(function, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (t, x)))
    return t.update(shape=out.shape, dtype=out.dtype, weak_type=False)


def _paired_batched(args: Sequence[Any], axes: Sequence[Any], *, function: Function) -> tuple[Any, Any]:
    (t, x), (a, b) = args, axes
    return _pair(t, x, _mapped(function, (a, b))), 0


_paired_jit = jax.jit(_paired, static_argnames="function")
paired.def_impl(_paired_jit)
paired.def_abstract_eval(_paired_shape)
mlir.register_lowering(paired, mlir.lower_fun(_paired, multiple_results=False))
ad.primitive_jvps[paired] = _paired_jvp
ad.primitive_transposes[paired] = _paired_transpose
batching.primitive_batchers[paired] = _paired_batched
