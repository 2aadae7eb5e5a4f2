"""The exchange before a step, within `jax.shard_map`: blocks in, blocks with what surrounds them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.distribution.mesh_halos import with_mesh_halos
from tensorir.distribution.exchange import Exchange, Phase, Piece, Round
from tensorir.distribution.local_program import Localised, View
from tensorir.ir.types import Interval

__all__ = ["with_halos"]

Leaves = tuple[jax.Array, ...]


def with_halos(blocks: Mapping[str, Leaves], local: Localised, plan: Exchange) -> dict[str, Leaves]:
    """The views of the local program, by their names, from the blocks of fields and the lists of a mesh, by theirs."""
    views = {v.param.name: v for v in local.views}
    arrays = {name: blocks[name if v.field.name in plan.held else v.field.name] for name, v in views.items()}
    for phase in plan.phases:
        arrays = _exchanged(arrays, views, phase)
    return arrays if plan.mesh is None else with_mesh_halos(arrays, views, plan.mesh, blocks)


def _exchanged(arrays: Mapping[str, Leaves], views: Mapping[str, View], phase: Phase) -> dict[str, Leaves]:
    """The arrays with what they need along one dim."""
    dim, part = phase.part.dim, phase.part
    received: dict[str, list[tuple[Piece, Leaves]]] = {}
    for one in phase.rounds:
        for piece, leaves in zip(one.pieces, _permuted(arrays, views, one, phase), strict=True):
            received.setdefault(piece.view, []).append((piece, leaves))
    result: dict[str, Leaves] = {}
    for name, leaves in arrays.items():
        dims = views[name].param.type.dims
        if dim not in dims:
            result[name] = leaves
            continue
        axis, got = dims.names.index(dim), received.get(name, [])
        result[name] = tuple(
            _assembled(leaf, [(p, some[k]) for p, some in got], axis, dims[dim], part.size, part.axis)
            for k, leaf in enumerate(leaves)
        )
    return result


def _permuted(arrays: Mapping[str, Leaves], views: Mapping[str, View], one: Round, phase: Phase) -> list[Leaves]:
    """What every device gets in a round, one permute for each element type."""
    dim, mesh_axis = phase.part.dim, phase.part.axis
    sent: list[Leaves] = []
    for piece in one.pieces:
        axis = views[piece.view].param.type.dims.names.index(dim)
        sent.append(tuple(_taken(leaf, piece, axis, mesh_axis) for leaf in arrays[piece.view]))
    if not one.pairs:
        return sent
    flat, structure = jax.tree_util.tree_flatten(sent)
    got: list[Any] = list(flat)
    for dtype in dict.fromkeys(x.dtype for x in flat):
        which = [k for k, x in enumerate(flat) if x.dtype == dtype]
        packed = lax.concatenate([lax.reshape(flat[k], (flat[k].size,)) for k in which], 0)
        packed = lax.ppermute(packed, mesh_axis, one.pairs)
        begin = 0
        for k in which:
            piece = lax.slice_in_dim(packed, begin, begin + flat[k].size)
            got[k] = lax.reshape(piece, flat[k].shape)
            begin += flat[k].size
    return jax.tree_util.tree_unflatten(structure, got)


def _taken(block: jax.Array, piece: Piece, axis: int, mesh_axis: str) -> jax.Array:
    """What a device sends of its block."""
    if piece.fixed:
        return lax.slice_in_dim(block, piece.send[0], piece.send[0] + piece.width, axis=axis)
    # blocks at the end have fewer points, and a slice that would leave the block begins elsewhere
    wide = _padded(block, axis, 0, piece.width)
    return lax.dynamic_slice_in_dim(wide, _here(piece.send, mesh_axis), piece.width, axis)


def _assembled(
    block: jax.Array, got: Sequence[tuple[Piece, jax.Array]], axis: int, box: Interval, size: int, mesh_axis: str
) -> jax.Array:
    """A block, and around it what came, and zeros where nothing did."""
    places = [(-box.start, block)] + [(p.receive[0], x) for p, x in got if p.fixed]
    parts: list[jax.Array] = []
    at = 0
    for start, x in sorted(places, key=lambda place: place[0]):
        if start > at:
            parts.append(_zeros(block, axis, start - at))
        parts.append(x)
        at = start + x.shape[axis]
    if at < len(box):
        parts.append(_zeros(block, axis, len(box) - at))
    whole = lax.concatenate(parts, axis) if len(parts) > 1 else parts[0]
    for piece, x in got:
        if not piece.fixed:
            whole = _put(whole, x, piece, axis, mesh_axis)
    return whole


def _put(whole: jax.Array, x: jax.Array, piece: Piece, axis: int, mesh_axis: str) -> jax.Array:
    """What came at a place, and as much as, each device has for itself."""
    wide = _padded(whole, axis, 0, piece.width)
    start, count = _here(piece.receive, mesh_axis), _here(piece.counts, mesh_axis)
    before = lax.dynamic_slice_in_dim(wide, start, piece.width, axis)
    mine = lax.lt(lax.broadcasted_iota("int32", x.shape, axis), lax.broadcast(count, x.shape))
    wide = lax.dynamic_update_slice_in_dim(wide, lax.select(mine, x, before), start, axis)
    return lax.slice_in_dim(wide, 0, whole.shape[axis], axis=axis)


def _here(values: Sequence[int], mesh_axis: str) -> jax.Array:
    """The value of this device."""
    table = lax.full((len(values),), 0, "int32") + np.asarray(values, np.int32)
    return lax.dynamic_index_in_dim(table, lax.axis_index(mesh_axis), keepdims=False)


def _zeros(like: jax.Array, axis: int, extent: int) -> jax.Array:
    shape = tuple(extent if k == axis else n for k, n in enumerate(like.shape))
    return lax.full(shape, 0, like.dtype)


def _padded(x: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    sides = [(low, high, 0) if k == axis else (0, 0, 0) for k in range(x.ndim)]
    return lax.pad(x, lax.full((), 0, x.dtype), sides)
