"""The state of JAX: traces, axes of batches, manual axes of a mesh."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax._src import core as _core
from jax.core import ShapedArray, Tracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tensorir.runtime.errors import refuse

# What JAX is doing at the moment: the one file that looks behind its public face.

_SWITCHES: Any = jax.config
"""JAX declares its switches at run time."""


def concrete(x: Any) -> bool:
    """True if an array's numbers can be looked at."""
    return not isinstance(x, Tracer)


def inside_trace(arrays: list[Any]) -> bool:
    """True if somebody else's trace is under way, be it of these arrays or around the call."""
    return any(isinstance(a, Tracer) for a in arrays) or tracing()


def tracing() -> bool:
    """True if a trace is under way around the call."""
    return not _core.trace_state_clean()


def inside_jit() -> bool:
    """True if what is traced around the call will be compiled whole."""
    return bool(_core.unsafe_am_i_under_a_jit())


def x64() -> bool:
    """True if 64-bit types are kept in this scope."""
    return bool(_SWITCHES.jax_enable_x64)


def for_an_operator() -> bool:
    """True if an operator of a JAX array, such as `*`, asks the caller's `__jax_array__` for the other operand."""
    return sys._getframe(2).f_code.co_name.startswith("_operator_")


def op_by_op() -> bool:
    """True if every operation runs by itself, as under `jax.disable_jit`."""
    return bool(_SWITCHES.jax_disable_jit)


def refuse_narrow(name: str) -> None:
    """Raise A15 where 64-bit types are not kept: what needs them would be narrowed."""
    if not x64():
        message = f"'{name}' computes with 64-bit numbers, and this transformation does not keep them."
        raise refuse("A15", message, "put it inside of `with jax.enable_x64(True):`, or cast the program to float32.")


# Where arrays have the axis of a batch, in the rules of our own primitives for `jax.vmap`.


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


# Which axes of a mesh arrays vary over within `jax.shard_map`: what a loop carries varies over the same in all
# rounds.
#
# JAX tells arrays that are the same on all devices from those that are not, and casts the ones to the others where
# they meet, but not what a loop begins with.


def axes_of(*trees: Any) -> frozenset[str]:
    """The axes over which some of the arrays, or of their abstract values, vary."""
    leaves = jax.tree_util.tree_leaves(trees)
    return frozenset[str]().union(*(_axes(x) for x in leaves))


def _axes(x: Any) -> frozenset[str]:
    kind = x if isinstance(x, ShapedArray) else jax.typeof(x)
    return kind.manual_axis_type.varying


def shaped(shape: tuple[int, ...], element: Any, like: Any) -> jax.ShapeDtypeStruct:
    """The shape and type of an array that varies over the axes over which another one, or its abstract value, does."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return jax.ShapeDtypeStruct(shape, element)
    kind: Any = like if isinstance(like, ShapedArray) else jax.typeof(like)
    sharding = kind.sharding if kind.shape == shape else None
    return jax.ShapeDtypeStruct(shape, element, sharding=sharding, manual_axis_type=kind.manual_axis_type)


def varying(tree: Any, axes: frozenset[str]) -> Any:
    """The arrays as such that vary over axes."""

    def one(x: Any) -> Any:
        lacking = axes - _axes(x)
        return lax.pcast(x, tuple(sorted(lacking)), to="varying") if lacking else x

    return jax.tree_util.tree_map(one, tree) if axes else tree


def names_axes(x: Any) -> bool:
    """True if the type of an array names axes of a mesh (`AxisType.Explicit`)."""
    return AxisType.Explicit in jax.typeof(x).sharding.mesh.axis_types


def left_to_xla(x: Any, mesh: Mesh | None = None) -> Any:
    """An array whose type names axes of a mesh as one whose placement XLA knows alone.

    Of a tracer, whose type has no devices, `mesh` says which they are. Cotangents get the type of the array.
    """
    if not names_axes(x):
        return x
    placed = jax.typeof(x).sharding
    known_mesh: Any = x.sharding.mesh if mesh is None else mesh
    spec = placed.spec if set(placed.mesh.axis_names) <= set(known_mesh.axis_names) else PartitionSpec()
    return jax.device_put(x, NamedSharding(Mesh(known_mesh.devices, known_mesh.axis_names), spec))


def scanned(body: Callable[[Any, Any], Any], start: Any, xs: Any, length: int, reverse: bool = False) -> Any:
    """`lax.scan`, where what is carried varies over the axes over which any of it does in any round."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return lax.scan(body, start, xs, length=length, reverse=reverse)
    first = jax.tree_util.tree_map(lambda x: lax.index_in_dim(x, 0, keepdims=False), xs)
    axes, before = axes_of(start, xs), None
    while axes != before:
        before = axes
        closed, (after, _) = jax.make_jaxpr(body, return_shape=True)(varying(start, axes), first)
        axes |= axes_of(closed.out_avals[: len(jax.tree_util.tree_leaves(after))])

    def step(carry: Any, x: Any) -> Any:
        after, out = body(carry, x)
        return varying(after, axes), out

    return lax.scan(step, varying(start, axes), xs, length=length, reverse=reverse)


def repeated(count: int, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`lax.fori_loop` from 0, where what is carried varies over the axes over which any of it does in any round."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return lax.fori_loop(0, count, step, start)
    rounds = lax.iota("int32", count)
    return scanned(lambda carry, i: (step(i, carry), None), start, rounds, count)[0]
