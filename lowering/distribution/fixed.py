"""What the devices read of a mesh besides fields: tables in local numbers, coordinates, and lists of what is sent.

They are arrays with a part for each device, so that a device holds its own and no program has them as constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lowering.distribution.mesh_halos import lists_of
from lowering.neighbours import Prepared, prepare
from tensorir.distribution.local_numbers import LocalTable
from tensorir.distribution.local_program import Localised
from tensorir.distribution.mesh_exchange import MeshExchange

__all__ = ["Fixed"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Arrays by name, device by device along their first axis."""

    arrays: Mapping[str, Array]
    structures: Mapping[str, Any]
    """Of each table, what its arrays are of it as it is read."""

    @classmethod
    def of(cls, local: Localised, plan: MeshExchange | None) -> Fixed:
        """What a local program and its exchange read; nothing where no dim is of a mesh."""
        if local.mesh is None or plan is None:
            return cls({}, {})
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
        return cls(found, structures)

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
