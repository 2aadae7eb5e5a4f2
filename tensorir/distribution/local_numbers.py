"""Points and tables of a mesh in the numbers of each device: its own points, and after them its halo.

The halo is ordered so that what most fields need comes first: rings of neighbours from the inside out, where chains of
shifts read them. So what a field, a table or an intermediate value needs is the first so many points on every device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.distribution.mesh_needs import MOST_MARKED, MeshNeeds, Shift, distinct, entries, mesh_needs
from tensorir.distribution.subdomains import Keys, Subdomains, mesh_dim, subdomains_of
from tensorir.ir.build import var
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.types import INT32, Dims, Interval, TensorType

__all__ = ["LocalMesh", "LocalNumbers", "LocalTable", "local_mesh"]

Tables = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class LocalNumbers:
    """A dim of a mesh as each device counts it."""

    part: Subdomains
    keys: Keys
    """The points of all devices, halos included."""
    at: NDArray[np.int64]
    """Where each of them stands on its device."""
    extent: int

    @cached_property
    def _marked(self) -> NDArray[np.int32] | None:
        """By device and point, where it stands; None where there are too many."""
        bound = self.part.parts * self.part.extent
        if bound > MOST_MARKED:
            return None
        found = np.full(bound, -1, np.int32)
        found[self.keys] = self.at
        return found

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """Where points stand on their devices, -1 for those that a device lacks."""
        if self._marked is not None:
            return self._marked[keys].astype(np.int64)
        nearest = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[nearest] == keys, self.at[nearest], -1)

    def within(self, keys: Keys) -> Interval:
        """The first places, as many as points need on the device where they need most; own points are all there."""
        return Interval(0, max(self.part.size, int(self.places(keys).max(initial=-1)) + 1))

    def halo(self, keys: Keys) -> Keys:
        """Those of some points that other devices have."""
        device, point = np.divmod(keys, self.part.extent)
        return keys[self.part.owners[point] != device]

    def points(self, stop: int) -> NDArray[np.int64]:
        """Devices by the first places: the point there, from the interval's start; -1 where none is."""
        found = np.full((self.part.parts, self.extent), -1, np.int64)
        device, point = np.divmod(self.keys, self.part.extent)
        found[device, self.at] = point
        return found[:, :stop]


def _numbers(part: Subdomains, needs: Sequence[Keys]) -> LocalNumbers:
    """The own points of devices, and then those that they need of others, in the order of how many need them."""
    every = distinct(np.concatenate([part.owned, *needs]), part.parts * part.extent)
    device, point = np.divmod(every, part.extent)
    owner = part.owners[point]
    away = owner != device
    readers = np.zeros_like(every)
    for some in needs:
        readers[np.searchsorted(every, some)] += 1
    order = np.lexsort((point, owner * away, -readers * away, away, device))
    counts = np.bincount(device[order], minlength=part.parts)
    first = np.cumsum(counts) - counts
    position = np.empty_like(every)
    position[order] = np.arange(len(every)) - np.repeat(first, counts)
    own = np.asarray(part.counts)[device]
    at = np.where(away, position - own + part.size, position)
    return LocalNumbers(part, every, at, int(at.max()) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class LocalTable:
    """A table in local numbers."""

    param: Var
    """In the local program; its first dim is of the mesh."""
    name: str
    """Of the table in the whole program."""
    array: NDArray[np.int32]
    """Devices by rows by further dims by slots: places of the source, -1 where a neighbour is missing."""
    read: Interval
    """The places that it may lead to."""


@dataclass(frozen=True, slots=True)
class LocalMesh:
    """The dims of a mesh on the devices along an axis, and what is read there."""

    numbers: Mapping[str, LocalNumbers]
    needs: MeshNeeds
    tables: Tables

    @property
    def axis(self) -> str:
        return next(iter(self.numbers.values())).part.axis

    @property
    def parts(self) -> int:
        return next(iter(self.numbers.values())).part.parts

    def whole(self, dim: str) -> Interval:
        """All places of a device, its halo included."""
        return Interval(0, self.numbers[dim].extent)

    def read(self, field: Var, dim: str) -> Keys:
        """The points of a field that devices read."""
        return self.needs.fields.get(field, self.numbers[dim].part.owned)

    def interval(self, field: Var, dim: str) -> Interval:
        """The places of a field that are read."""
        return self.numbers[dim].within(self.read(field, dim))

    def shift(self, node: Call) -> Shift | None:
        """What a shift reads; None where it leads to a dim that lies whole on every device."""
        return self.needs.shifts.get(id(node))

    def extents(self, shift: Shift) -> tuple[int, int]:
        """How many rows of its table a shift has, and how many places of the source it reads at most."""
        rows = self.numbers[shift.dim].within(shift.rows)
        return rows.stop, self.numbers[shift.source].within(shift.read).stop

    def table(self, shift: Shift, name: str) -> LocalTable:
        """The table of a shift in local numbers; what nobody reads there leads to the outer halo, which few read."""
        rows, read = self.extents(shift)
        own, to = self.numbers[shift.dim], self.numbers[shift.source]
        whole, dims = shift.table, shift.table.tensor.dims
        global_rows = entries(whole, self.tables[whole.name], shift.dim)
        points = own.points(rows)
        at = np.clip(points + own.part.interval.start - dims[shift.dim].start, 0, len(dims[shift.dim]) - 1)
        found = global_rows[at]
        device = np.arange(own.part.parts).reshape(-1, *(1,) * (found.ndim - 1))
        place = to.places(device * to.part.extent + np.maximum(found - to.part.interval.start, 0))
        spread: NDArray[np.int64] = read - 1 - np.arange(found[0].size, dtype=np.int64).reshape(found.shape[1:]) % read
        local = np.where((place >= 0) & (place < read), place, spread)
        real = (points >= 0).reshape(*points.shape, *(1,) * (found.ndim - 2))
        local = np.where(real, np.where(found == -1, -1, local), spread)
        others = [(n, i) for n, i in dims.items if n != shift.dim and not n.startswith("_NB_")]
        tag = [(n, i) for n, i in dims.items if n.startswith("_NB_")]
        kind = TensorType(INT32, Dims(((shift.dim, Interval(0, rows)), *others, *tag)))
        return LocalTable(var(name, kind, whole.span), whole.name, local.astype(np.int32), Interval(0, read))


def local_mesh(results: Sequence[Expr], parts: Mapping[str, Any], tables: Tables) -> LocalMesh | None:
    """The local numbers of a mesh for the results of a program; None where no dim is of a mesh."""
    mesh = subdomains_of(parts)
    if not mesh:
        return None
    needs = mesh_needs(results, mesh, tables)
    wanted: dict[str, dict[int, Keys]] = {d: {} for d in mesh}
    for field, keys in needs.fields.items():
        if (dim := mesh_dim(field.type, mesh)) is not None:
            wanted[dim][id(keys)] = keys
    for shift in needs.shifts.values():
        wanted[shift.dim][id(shift.rows)] = shift.rows
        wanted[shift.source][id(shift.read)] = shift.read
    return LocalMesh({d: _numbers(p, list(wanted[d].values())) for d, p in mesh.items()}, needs, tables)
