"""Which axes of a mesh arrays vary over within `jax.shard_map`: what a loop carries varies over the same in all rounds.

JAX tells arrays that are the same on all devices from those that are not, and casts the ones to the others where they
meet, but not what a loop begins with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.core import ShapedArray
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = ["axes_of", "left_to_xla", "repeated", "scanned", "shaped", "varying"]


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


def left_to_xla(x: Any, mesh: Mesh | None = None) -> Any:
    """An array whose type names axes of a mesh (`AxisType.Explicit`) as one whose placement XLA knows alone.

    Of a tracer, whose type has no devices, `mesh` says which they are. Cotangents get the type of the array.
    """
    placed = jax.typeof(x).sharding
    if AxisType.Explicit not in placed.mesh.axis_types:
        return x
    own: Any = x.sharding.mesh if mesh is None else mesh
    spec = placed.spec if set(placed.mesh.axis_names) <= set(own.axis_names) else PartitionSpec()
    return jax.device_put(x, NamedSharding(Mesh(own.devices, own.axis_names), spec))


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
