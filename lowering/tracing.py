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
    """An array with its batch axis moved from `old` to `axis` of the result, -1 being the last.

    If `old` is None, the array is unbatched, and is broadcast to `size` members.

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
    """The mesh axes over which at least one array, or abstract value, of the pytrees varies within `shard_map`."""
    leaves = jax.tree_util.tree_leaves(trees)
    return frozenset[str]().union(*(_axes(x) for x in leaves))


def _axes(x: Any) -> frozenset[str]:
    kind = x if isinstance(x, ShapedArray) else jax.typeof(x)
    return kind.manual_axis_type.varying


def shaped(shape: tuple[int, ...], element: Any, like: Any) -> jax.ShapeDtypeStruct:
    """A shape and type that varies over the same mesh axes as `like`, an array or an abstract value."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return jax.ShapeDtypeStruct(shape, element)
    kind: Any = like if isinstance(like, ShapedArray) else jax.typeof(like)
    sharding = kind.sharding if kind.shape == shape else None
    return jax.ShapeDtypeStruct(shape, element, sharding=sharding, manual_axis_type=kind.manual_axis_type)


def varying(tree: Any, axes: frozenset[str]) -> Any:
    """The pytree with arrays cast to vary over all `axes` of a mesh, in addition to those over which they vary
    already.
    """

    def one(x: Any) -> Any:
        """One array, cast to the axes that it lacks."""
        lacking = axes - _axes(x)
        return lax.pcast(x, tuple(sorted(lacking)), to="varying") if lacking else x

    return jax.tree_util.tree_map(one, tree) if axes else tree


def names_axes(x: Any) -> bool:
    """True if the type of an array names axes of a mesh (`AxisType.Explicit`)."""
    return AxisType.Explicit in jax.typeof(x).sharding.mesh.axis_types


def left_to_xla(x: Any, mesh: Mesh | None = None) -> Any:
    """An array without mesh axes in its type (`AxisType.Explicit`), so that XLA decides its placement; others
    unchanged.

    `mesh`: the devices of a tracer, whose type has none. Cotangents are converted back.
    """
    if not names_axes(x):
        return x
    typed_sharding = jax.typeof(x).sharding
    known_mesh: Any = x.sharding.mesh if mesh is None else mesh
    spec = typed_sharding.spec if set(typed_sharding.mesh.axis_names) <= set(known_mesh.axis_names) else PartitionSpec()
    return jax.device_put(x, NamedSharding(Mesh(known_mesh.devices, known_mesh.axis_names), spec))


def scanned(body: Callable[[Any, Any], Any], start: Any, xs: Any, length: int, reverse: bool = False) -> Any:
    """`lax.scan`; within `shard_map` the carry is cast to vary over the union of mesh axes of all rounds, so that
    types match.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return lax.scan(body, start, xs, length=length, reverse=reverse)
    first_level = jax.tree_util.tree_map(lambda x: lax.index_in_dim(x, 0, keepdims=False), xs)
    axes, axes_before = axes_of(start, xs), None
    while axes != axes_before:
        axes_before = axes
        closed, (carry_after, _) = jax.make_jaxpr(body, return_shape=True)(varying(start, axes), first_level)
        axes |= axes_of(closed.out_avals[: len(jax.tree_util.tree_leaves(carry_after))])

    def step(carry: Any, x: Any) -> Any:
        """The body, with its carry cast."""
        carry_after, out = body(carry, x)
        return varying(carry_after, axes), out

    return lax.scan(step, varying(start, axes), xs, length=length, reverse=reverse)


def repeated(count: int, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`lax.fori_loop(0, count, step, start)` with `step(i, carry) -> carry`.

    Within `shard_map` the carry is cast to vary over the union of mesh axes of all rounds first, so that its types
    match.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return lax.fori_loop(0, count, step, start)
    rounds = lax.iota("int32", count)
    return scanned(lambda carry, i: (step(i, carry), None), start, rounds, count)[0]
