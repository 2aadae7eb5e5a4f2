"""What the devices read of a mesh and nobody writes: tables in local numbers, coordinates, lists of what is sent.

Fields that are bound are among it, with their halo from the start: they are dealt out once, and never sent.

They are arrays with a part for each device, so that a device holds its own and no program has them as constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from lowering.distribution.mesh_halos import lists_of
from lowering.neighbours import Prepared, prepare
from tensorir.distribution.local_numbers import LocalTable
from tensorir.distribution.local_program import Localised
from tensorir.distribution.mesh_exchange import MeshExchange

__all__ = ["Fixed"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Arrays by name, one for each leaf, device by device along an axis."""

    arrays: Mapping[str, tuple[Array, ...]]
    axes: Mapping[str, int]
    """The axis, where it is not the first."""
    structures: Mapping[str, Any]
    """Of each table, what its arrays are of it as it is read."""

    @classmethod
    def of(cls, local: Localised, plan: MeshExchange | None, held: Mapping[str, tuple[Array, ...]]) -> Fixed:
        """What a local program and its exchange read, and the fields that are held; nothing without a mesh."""
        if local.mesh is None or plan is None:
            return cls({}, {}, {})
        found = lists_of(plan)
        for dim, place in local.positions.items():
            if (numbers := local.mesh.numbers.get(dim)) is not None:
                points, whole = numbers.points(numbers.extent), numbers.part.interval
                found[place.name] = np.where(points < 0, whole.stop, points + whole.start).astype(np.int32).reshape(-1)
        structures: dict[str, Any] = {}
        for table in local.tables:
            name = table.param.name
            found[name] = table.array.reshape(-1, *table.array.shape[2:])
            leaves, structures[name] = jax.tree_util.tree_flatten(_prepared(table))
            found.update({_leaf(name, k): leaf for k, leaf in enumerate(leaves)})
        arrays: dict[str, tuple[Array, ...]] = {name: (array,) for name, array in found.items()}
        axes: dict[str, int] = {}
        for view in local.views:
            if view.field.name in held:
                name, dims = view.param.name, view.param.type.dims
                (dim,) = (d for d in dims if d in local.mesh.numbers)
                axes[name] = dims.names.index(dim)
                points = local.mesh.numbers[dim].points(len(dims[dim])).reshape(-1)
                first = view.field.type.dims[dim].start - local.mesh.numbers[dim].part.interval.start
                at = np.clip(points - first, 0, len(view.field.type.dims[dim]) - 1)
                arrays[name] = tuple(np.take(a, at, axes[name]) for a in held[view.field.name])
        return cls(arrays, axes, structures)

    def spec(self, name: str, axis: str) -> PartitionSpec:
        """Where the parts of an array lie, whose devices are those along an axis of the mesh."""
        return PartitionSpec(*(None,) * self.axes.get(name, 0), axis)

    def prepared(self, fields: Mapping[str, tuple[Any, ...]]) -> dict[str, Prepared]:
        """The tables of one device, from its parts of the arrays."""
        return {
            name: jax.tree_util.tree_unflatten(s, [fields[_leaf(name, k)][0] for k in range(s.num_leaves)])
            for name, s in self.structures.items()
        }


def _leaf(table: str, k: int) -> str:
    return f"{table} as it is read, {k}"


def _prepared(table: LocalTable) -> Prepared:
    """A table as all devices read it, of the arrays of each device in a row."""
    each, inside = [prepare(rows, table.read) for rows in table.array], table.read
    slots = range(len(each[0].columns))
    masks = [[p.masks[j] for p in each] for j in slots]
    readers = _padded([p.readers for p in each], len(inside))
    by_slot = tuple(_padded([p.readers_by_slot[j] for p in each], len(inside)) for j in slots)
    if not all(p.readers for p in each):
        readers, by_slot = (), ((),) * len(slots)
    elif not all(any(p.readers_by_slot) for p in each):
        by_slot = ((),) * len(slots)
    return Prepared(
        tuple(np.concatenate([p.columns[j] for p in each]) for j in slots),
        tuple(
            None if all(m is None for m in some)
            else np.concatenate([np.ones(len(each[0].columns[0]), bool) if m is None else m for m in some])
            for some in masks
        ),
        readers, by_slot, inside,
    )  # fmt: skip


def _padded(each: Sequence[Sequence[Array]], extent: int) -> tuple[Array, ...]:
    """The readers of all devices by rank, -1 where one has fewer ranks than another."""
    nobody = np.full(extent, -1, np.int32)
    most = max(map(len, each))
    return tuple(np.concatenate([some[k] if k < len(some) else nobody for some in each]) for k in range(most))
