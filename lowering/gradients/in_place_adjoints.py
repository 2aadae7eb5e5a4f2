"""Adjoints in place: reads that hand their operand on, so that a cotangent is added to where it stands.

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive
from jax.interpreters import ad, batching, mlir

from lowering.tracing import with_batch

# Where a read stands


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """A slice that starts at indices, one per axis."""

    sizes: tuple[int, ...]

    def read(self, x: jax.Array, *indices: jax.Array) -> jax.Array:
        """The window of x that starts at the indices."""
        return lax.dynamic_slice(x, indices, self.sizes, allow_negative_indices=False)

    def added(self, x: jax.Array, update: jax.Array, *indices: jax.Array) -> jax.Array:
        """x with `update` added to the window that starts at the indices."""
        return _written(x, lax.add(self.read(x, *indices), update), *indices)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A slice without strides, from a known start."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    def read(self, x: jax.Array) -> jax.Array:
        """The slice of x."""
        return lax.slice(x, self.start, self.stop)

    def added(self, x: jax.Array, update: jax.Array) -> jax.Array:
        """x with `update` added to the slice."""
        return lax.dynamic_update_slice(x, lax.add(self.read(x), update), self.start)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Slices at an array of indices."""

    numbers: lax.GatherDimensionNumbers
    sizes: tuple[int, ...]
    mode: lax.GatherScatterMode

    def read(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """The slices of x at the rows of `indices`."""
        return lax.gather(x, indices, self.numbers, self.sizes, mode=self.mode)

    def added(self, x: jax.Array, update: jax.Array, indices: jax.Array) -> jax.Array:
        """x with `update` added to the slices at `indices`; equal indices add up."""
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
    """The slice that an equation reads of its first operand; None for equations that do not read a part.

    A gather counts only in modes in which out-of-range indices are clamped or excluded.
    """
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

    Reads of a part become `take`, in-place updates `put`, and later equations use the buffer that a `take` hands on.
    `handed`: for other equations, pairs (operand, result) of places where a result is the operand handed on.
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
            window, env[eqn.invars[0]] = take.bind(*operands, place=place)
            env[eqn.outvars[0]] = window
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
    """A symbolic zero tangent for an array that does not depend on the inputs."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


# take: a read, and its operand

take = Primitive("take")
take.multiple_results = True


def _taken(x: jax.Array, *indices: jax.Array, place: Place) -> list[jax.Array]:
    """The block read, and the operand handed on."""
    return [place.read(x, *indices), x]


_taken_jit = jax.jit(_taken, static_argnames="place")


def _taken_apart(x: jax.Array, *indices: jax.Array, place: Place) -> list[jax.Array]:
    """`_taken` as a call that XLA does not inline."""
    # out of line: a read that is fused into several kernels would run again after the buffer is written, on a copy
    with set_xla_metadata(inlineable="false"):
        return _taken_jit(x, *indices, place=place)


def _take_shapes(x: Any, *indices: Any, place: Place) -> list[Any]:
    """Abstract results of `take`: the block read, and the operand."""
    value = jax.eval_shape(place.read, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, *indices)))
    return [x.update(shape=value.shape, weak_type=False), x]


def _take_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, place: Place) -> tuple[Any, Any]:
    """JVP of `take`: the same read of the operand's tangent; indices have none."""
    out = take.bind(*primals, place=place)
    if isinstance(tangents[0], ad.Zero):
        return out, [still(o) for o in out]
    return out, take.bind(tangents[0], *primals[1:], place=place)


def _take_transpose(cotangents: Sequence[Any], x: Any, *indices: Any, place: Place) -> list[Any]:
    """Transpose of `take`: the block's cotangent is added, in place, to that of the operand handed on."""
    block, buffer = cotangents
    no_index_cotangents = [None] * len(indices)
    if isinstance(block, ad.Zero):
        return [buffer, *no_index_cotangents]
    return [place.added(ad.instantiate_zeros(buffer), block, *indices), *no_index_cotangents]


def _take_batched(args: Sequence[Any], axes: Sequence[Any], *, place: Place) -> tuple[Any, Any]:
    """Batching of `take`: a slice gets the batch axis whole and stays one slice; otherwise the read is mapped."""
    x, *indices = args
    axis, *index_axes = axes
    if axis is None or any(a is not None for a in index_axes) or isinstance(place, Gathered):
        return [jax.vmap(place.read, axes)(*args), x], (0, axis)
    # a batched slice at one index stays a slice; the rule of lax makes it a gather
    size = x.shape[axis]
    match place:
        case WrittenWindow(sizes):
            batched_place = WrittenWindow((*sizes[:axis], size, *sizes[axis:]))
            indices = [*indices[:axis], lax.full((), 0, indices[0].dtype), *indices[axis:]]
        case Fixed(start, stop):
            batched_place = Fixed((*start[:axis], 0, *start[axis:]), (*stop[:axis], size, *stop[axis:]))
    return take.bind(x, *indices, place=batched_place), (axis, axis)


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
    """JVP of `put`: the same write of tangents."""
    out = put.bind(*primals)
    if all(isinstance(t, ad.Zero) for t in tangents[:2]):
        return out, still(out)
    return out, put.bind(*(ad.instantiate_zeros(t) for t in tangents[:2]), *primals[2:])


def _put_transpose(cotangent: Any, x: Any, update: Any, *indices: Any) -> list[Any]:
    """Transpose of `put`: `take` reads the update's cotangent, then zeros are written there for the operand's."""
    no_index_cotangents = [None] * len(indices)
    moves = [ad.is_undefined_primal(x), ad.is_undefined_primal(update)]
    if isinstance(cotangent, ad.Zero):
        return [
            ad.Zero(a.aval) if linear else None for a, linear in zip((x, update), moves, strict=True)
        ] + no_index_cotangents
    shape = update.aval.shape if moves[1] else update.shape
    update_cotangent, operand_cotangent = take.bind(cotangent, *indices, place=WrittenWindow(tuple(shape)))
    operand_cotangent = _written(operand_cotangent, lax.full_like(update_cotangent, 0), *indices)
    return [operand_cotangent if moves[0] else None, update_cotangent if moves[1] else None, *no_index_cotangents]


def _put_batched(args: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, Any]:
    """Batching of `put`: operand and update share a batch axis, written whole; batched indices are mapped by lax."""
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
