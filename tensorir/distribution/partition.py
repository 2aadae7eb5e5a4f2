"""The division of dims among devices: an interval into blocks, the points of a mesh by their owners.

An interval in blocks has one for each device along an axis of a mesh of devices.

>>> d = Decomposition("I", "px", Interval(0, 10), 4)
>>> d.size, [str(d.block(k)) for k in range(4)], d.owner(9)
(3, ['[0:3]', '[3:6]', '[6:9]', '[9:10]'], 3)

A dim of an unstructured mesh has its points dealt out to devices by a vector of owners.

>>> import numpy as np
>>> d = Subdomains("Vertex", "px", Interval(0, 5), 2, np.array([1, 0, 1, 1, 0]))
>>> d.size, [points.tolist() for points in d.each]
(3, [[1, 4], [0, 2, 3]])

Owners are found by coordinates, by METIS, or given. The points of one dim, the vertices, are parted; edges and cells
belong to a part of one of their vertices.

>>> from stencils import meshes
>>> p = partition(meshes.icosahedral(2), 4)
>>> p
Partition(4 parts; Vertex 40 to 41, Edge 114 to 125, Cell 77 to 85)
>>> round(p.cut("E2V"), 2)
0.19
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorir.integers.dims import Interval
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import article, counted, did_you_mean, refuse


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A dim whose points are dealt out to the devices along a mesh axis.

    All blocks have `size` points but those at the end, which have fewer, or none: arrays are padded there, and what
    the padding holds is read by nobody. So a block begins at the same multiple everywhere, and a halo of full blocks
    has one width on all devices.
    """

    dim: str
    axis: str
    interval: Interval
    """All points along the dim that a parameter has, or that are folded."""
    parts: int

    @property
    def size(self) -> int:
        """The points of a full block."""
        return -(-len(self.interval) // self.parts)

    @property
    def padded(self) -> Interval:
        """The interval with the padding of the last blocks."""
        return Interval(self.interval.start, self.interval.start + self.parts * self.size)

    @property
    def even(self) -> bool:
        """True if no block is padded."""
        return self.padded == self.interval

    def start(self, part: int) -> int:
        """The start of a block."""
        return self.interval.start + part * self.size

    def block(self, part: int) -> Interval:
        """The points of a block."""
        start = self.start(part)
        return Interval(start, start + self.size) & self.interval

    def own(self, points: Interval) -> NDArray[np.bool_]:
        """A mask over the padded places of all devices in order: True where the place holds one of `points`."""
        points_of_places = np.arange(self.padded.start, self.padded.stop)
        return (points_of_places >= points.start) & (points_of_places < points.stop)

    def common(self, points: Interval) -> Interval:
        """The local interval that holds some of `points` on every device, so that code without conditions on the device
        may use it.
        """
        start, stop = max(0, points.start - self.start(0)), min(self.size, points.stop - self.start(self.parts - 1))
        return Interval(start, max(start, stop))

    def blocks(self) -> Iterator[Interval]:
        """All blocks, in the order of the devices."""
        return (self.block(part) for part in range(self.parts))

    def owner(self, point: int) -> int:
        """The device that has a point."""
        return (point - self.interval.start) // self.size


Keys = NDArray[np.int64]
"""Points of all devices in ascending order: the device times the extent of the dim, and the point from its start."""


@dataclass(frozen=True, eq=False)
class Subdomains:
    """A dim whose points are dealt out to the devices along a mesh axis by their owners.

    A device has its own points first, in the order of the whole, padded to as many as the device with the most has.
    """

    dim: str
    axis: str
    interval: Interval
    parts: int
    owners: NDArray[np.int32]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """By device, how many points it has."""
        return tuple(int(n) for n in np.bincount(self.owners, minlength=self.parts))

    @property
    def size(self) -> int:
        """The points of the device with the most."""
        return max(self.counts)

    @property
    def padded(self) -> Interval:
        """The interval with the padding of all devices."""
        return Interval(self.interval.start, self.interval.start + self.parts * self.size)

    @property
    def extent(self) -> int:
        return len(self.interval)

    @cached_property
    def each(self) -> tuple[NDArray[np.int64], ...]:
        """By device, its points in ascending order, counted from the start of the interval."""
        order = np.argsort(self.owners, kind="stable")
        return tuple(np.split(order, np.cumsum(self.counts)[:-1]))

    def own(self, points: Interval) -> NDArray[np.bool_]:
        """A mask over the padded places of all devices in order: True where the place holds one of `points`."""
        is_point = np.arange(self.size) < np.array(self.counts)[:, None]
        points_of_places = self.dealt + self.interval.start
        return (is_point & (points_of_places >= points.start) & (points_of_places < points.stop)).reshape(-1)

    def common(self, points: Interval) -> Interval:
        """The local interval that holds some of `points` on every device; empty unless these are all points of the
        interval.
        """
        return Interval(0, min(self.counts) if points == self.interval else 0)

    @cached_property
    def owned(self) -> Keys:
        """The points that devices have."""
        return np.concatenate([k * self.extent + points for k, points in enumerate(self.each)])

    @cached_property
    def dealt(self) -> NDArray[np.int64]:
        """Devices by places: the point there, the device's first one in the padding."""
        return np.stack([np.pad(p, (0, self.size - len(p)), constant_values=p[0]) for p in self.each])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """By point, its position among the padded places of all devices: device × size + place."""
        places = np.empty(self.extent, np.int64)
        for device, points in enumerate(self.each):
            places[points] = device * self.size + np.arange(len(points))
        return places

    def __str__(self) -> str:
        return f"{self.dim}{self.interval} along '{self.axis}' in {self.parts} parts of {_range(self.counts)}"


def _range(counts: Sequence[int]) -> str:
    few, many = min(counts), max(counts)
    return str(few) if few == many else f"{few} to {many}"


Part = Decomposition | Subdomains


def subdomains_of(parts: Mapping[str, Part]) -> dict[str, Subdomains]:
    """The dims of a mesh."""
    return {d: p for d, p in parts.items() if isinstance(p, Subdomains)}


def blocks_of(parts: Mapping[str, Part]) -> dict[str, Decomposition]:
    """The dims that are parted into blocks."""
    return {d: p for d, p in parts.items() if isinstance(p, Decomposition)}


def mesh_dim(kind: Any, parts: Mapping[str, Subdomains]) -> str | None:
    """The dim of an unstructured mesh that a tensor type has (at most one), None for other types."""
    return next((d for d in kind.dims if d in parts), None) if isinstance(kind, TensorType) else None


Owners = NDArray[np.int32]
"""By point, the device that has it."""

_ELEMENTS = {"V": "Vertex", "E": "Edge", "C": "Cell"}
_HINT = 'give by="coordinates", by="metis", or the owner of each vertex.'


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """The owners of the points of all dims of a mesh."""

    owners: Mapping[str, Owners]
    parts: int
    tables: Mapping[str, NDArray[Any]]
    """The tables that the mesh has, by name."""

    def cut(self, table: str) -> float:
        """The share of the rows of a table whose entries are not all of one part: for E2V of edges that are cut."""
        owners = self.owners[_ELEMENTS[table[-1]]][self.tables[table]]
        owners = np.where(np.asarray(self.tables[table]) < 0, owners[:, :1], owners)
        return float((owners != owners[:, :1]).any(axis=1).mean())

    def __repr__(self) -> str:
        counts = [f"{d} {_range(np.bincount(o, minlength=self.parts).tolist())}" for d, o in self.owners.items()]
        return f"Partition({self.parts} parts; {', '.join(counts)})"


def partition(mesh: Any, n: int, by: Any = "coordinates") -> Partition:
    """Partitions a mesh into `n` parts, for `ti.distribute(..., partition=...)`.

    `mesh` is one of `stencils.meshes`, or has their attributes: `points` (Vertex, coordinates) and `tables` by name,
    E2V and C2V as (rows, neighbours). `by` is one of

    - "coordinates": recursive bisection across the longest axis,
    - "metis": the graph partitioner, which needs pymetis (`pip install 'tensorir[metis]'`),
    - the owner of each vertex, from 0 up to n, or a dict of owners by dim.

    Edges and cells without owners go to the owner of one of their vertices. Raises D11 for invalid owners, D12 if METIS
    is missing, D14 for an invalid mesh or number of parts.
    """
    points: Any = getattr(mesh, "points", None)
    tables: Any = getattr(mesh, "tables", None)
    if points is None or not isinstance(tables, Mapping):
        message = f"{article(type(mesh).__name__)} is no mesh of points and neighbours."
        raise refuse("D14", message, "use one of stencils.meshes, or give ti.distribute the owners of points by dim.")
    parts: Any = n
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or not 1 <= parts <= len(points):
        message = f"a mesh of {len(points)} vertices has from 1 to {len(points)} parts, and {n!r} are asked for."
        raise refuse("D14", message, "make as many parts as there are devices along the axis.")
    known = {str(name): np.asarray(table) for name, table in cast("Mapping[Any, Any]", tables).items()}
    sizes = {"Vertex": len(points), **{_ELEMENTS[t[0]]: len(a) for t, a in known.items() if t in ("E2V", "C2V")}}
    if isinstance(by, str) and by == "coordinates":
        assigned = {"Vertex": _bisected(np.asarray(points, np.float64), int(n))}
    elif isinstance(by, str) and by == "metis":
        assigned = {"Vertex": _by_metis(known, len(points), int(n))}
    elif isinstance(by, str):
        raise refuse("D14", f"there is no way to part a mesh by '{by}'.", _HINT)
    else:
        given_owners = cast("Mapping[Any, Any]", by) if isinstance(by, Mapping) else {"Vertex": by}
        owners_of = {str(d): owners for d, owners in given_owners.items()}
        for dim in owners_of:
            if dim not in sizes:
                raise refuse("D14", f"the mesh has no {dim}.", did_you_mean(dim, sizes))
        assigned = {d: checked_owners(d, owners, sizes[d], int(n)) for d, owners in owners_of.items()}
        if "Vertex" not in assigned:
            raise refuse("D14", f"the owners of {', '.join(assigned)} are given, and not those of Vertex.", _HINT)
    owners = {d: assigned[d] if d in assigned else _inherited(assigned["Vertex"], known[f"{d[0]}2V"]) for d in sizes}
    for dim in owners.keys() - assigned.keys():
        checked_owners(dim, owners[dim], sizes[dim], int(n))
    return Partition(MappingProxyType(owners), int(n), MappingProxyType(known))


def checked_owners(dim: str, owners: Any, size: int, parts: int) -> Owners:
    """The owners of the points of a dim as int32.

    Raises D11 unless there is one integer from 0 to parts - 1 for each of `size` points, and every part has a point.
    """
    vector = np.asarray(owners)
    if vector.ndim != 1 or vector.dtype.kind not in "iu":
        message = f"the owners of {dim} have the shape {vector.shape} and the type {vector.dtype}."
        raise refuse("D11", message, "give one integer for each point.")
    if len(vector) != size:
        raise refuse("D11", f"there are {len(vector)} owners for {size} points of {dim}.", "give one for each point.")
    out_of_range = np.flatnonzero((vector < 0) | (vector >= parts))
    if len(out_of_range):
        k = int(out_of_range[0])
        message = f"{dim} {k} is owned by {int(vector[k])}, and there are parts 0 to {parts - 1}."
        raise refuse("D11", message, "count parts from 0, one for each device.")
    empty = np.flatnonzero(np.bincount(vector, minlength=parts) == 0)
    if len(empty):
        raise refuse("D11", f"part {int(empty[0])} has no point of {dim}.", "make fewer parts, or give it points.")
    return vector.astype(np.int32)


def _bisected(points: NDArray[np.float64], parts: int) -> Owners:
    """Owners by recursive coordinate bisection: each set of points is cut across its longest axis, in proportion to the
    number of parts on each side.
    """
    owners = np.empty(len(points), np.int32)
    pending = [(np.arange(len(points)), 0, parts)]
    while pending:
        members, first, count = pending.pop()
        if count == 1:
            owners[members] = first
            continue
        axis = int(np.ptp(points[members], axis=0).argmax())
        order = members[np.argsort(points[members, axis], kind="stable")]
        half = count // 2
        cut = len(order) * half // count
        pending += [(order[:cut], first, half), (order[cut:], first + half, count - half)]
    return owners


def _by_metis(tables: Mapping[str, NDArray[Any]], size: int, parts: int) -> Owners:
    """Owners of vertices from METIS, on the graph of edges in E2V: few cut edges, balanced parts.

    Raises D12 if pymetis is not installed.
    """
    if find_spec("pymetis") is None:
        message = "METIS parts a mesh through pymetis, which is not installed."
        raise refuse("D12", message, "pip install 'tensorir[metis]', or leave it to by=\"coordinates\".")
    graph: Any = import_module("pymetis")
    ends = tables["E2V"].astype(np.int64)
    source, target = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.argsort(source, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=size))])
    _, owners = graph.part_graph(parts, xadj=starts.tolist(), adjncy=target[order].tolist())
    return checked_owners("Vertex", owners, size, parts)


def _inherited(vertices: Owners, table: NDArray[Any]) -> Owners:
    """Owners of edges or cells: row k takes the owner of its vertex in slot k modulo the number of slots, for balance.

    A missing vertex (-1) is replaced by the one in slot 0.
    """
    slots: Sequence[int] = range(table.shape[1])
    slot_of_row = np.arange(len(table)) % len(slots)
    chosen = table[np.arange(len(table)), slot_of_row]
    return vertices[np.where(chosen < 0, table[:, 0], chosen)]


# From dims and axes of a mesh to decompositions: what a program is parted into, and what is no way to part it.

NO_OWNERS: Mapping[str, Owners] = {}


def partition_of(partition: Any, axes: Mapping[str, str], mesh: Mapping[str, int]) -> Mapping[str, Owners]:
    """The owners of the distributed dims, from a `Partition` or a mapping of vectors by dim.

    Raises D17 if a `Partition` has not one part per device, D11 for invalid owners, D13 if its dims are not distributed
    along exactly one axis.
    """
    if not (owners := owners_by_dim(partition)):
        return {}
    dim_of_axis = {axes[d]: d for d in owners if d in axes}
    if not dim_of_axis:
        message = f"the partition is of {', '.join(owners)}, and {', '.join(axes) or 'no dim'} is to be distributed."
        raise refuse("D13", message, "name the dims of the mesh with the axis that they go along: {'Vertex': 'px'}.")
    if len(dim_of_axis) > 1:
        conflict = " and ".join(f"{d} along '{axis}'" for axis, d in dim_of_axis.items())
        raise refuse("D13", f"one partition is to go {conflict}.", "give all dims of a mesh the same axis.")
    (axis,) = dim_of_axis
    devices = mesh[axis]
    if isinstance(partition, Partition):
        if partition.parts != devices:
            message = f"the partition has {partition.parts} parts, and '{axis}' has {devices} devices."
            raise refuse("D17", message, f"make as many parts as devices: ti.partition(mesh, {devices}).")
        return {d: partition.owners[d] for d in owners if d in axes}
    return {d: checked_owners(d, vector, len(vector), devices) for d, vector in owners.items() if d in axes}


def owners_by_dim(partition: Any) -> dict[str, Any]:
    """The owners by dim of a `Partition` or a mapping of vectors; empty for None; raises D14 for other values."""
    if partition is None:
        return {}
    if not isinstance(partition, (Partition, Mapping)):
        message = f"{article(type(partition).__name__)} is no partition of a mesh."
        raise refuse("D14", message, "make one, ti.partition(mesh, n), or give the owners of points by dim.")
    if isinstance(partition, Partition):
        return dict(partition.owners)
    return by_dim(cast("Mapping[Any, Any]", partition))


def by_dim(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Values by dim, given by dims or by their names: dims of GT4Py have theirs as a value."""
    return {str(getattr(d, "value", d)): value for d, value in mapping.items()}


def check_axes(axes: Mapping[str, str], mesh: Mapping[str, int], together: Collection[str] = ()) -> None:
    """Raises D01 for a mesh axis that does not exist, D05 if a dim in blocks and a dim of a mesh share an axis.

    Dims in `together` are those of one unstructured mesh, which may share an axis.
    """
    dim_of_axis: dict[str, str] = {}
    for dim, axis in axes.items():
        if axis not in mesh:
            message = f"{dim} is to be distributed along '{axis}', and the mesh has no such axis."
            raise refuse("D01", message, did_you_mean(axis, mesh))
        without_owners = [d for d in (dim_of_axis.get(axis, dim), dim) if d not in together]
        if axis in dim_of_axis and len(without_owners) == 1:
            message = f"{dim_of_axis[axis]} and {dim} are both to be distributed along '{axis}'."
            raise refuse("D05", message, f"give the owners of {without_owners[0]} as well.")
        dim_of_axis[axis] = dim


def check_dims(name: str, have: Iterable[str], axes: Iterable[str]) -> None:
    """Raise D02 for a dim that a program lacks."""
    have = tuple(have)
    for dim in axes:
        if dim not in have:
            raise refuse("D02", f"'{name}' has no dim {dim} to distribute.", did_you_mean(dim, have))


def decompositions(
    program: Fencil, axes: Mapping[str, str], mesh: Mapping[str, int], owners: Mapping[str, Owners] = NO_OWNERS
) -> dict[str, Part]:
    """The distribution of each dim in `axes`: blocks of the hull of all its intervals, or subdomains by `owners`.

    `mesh` has the number of devices by axis. Raises D02 for a dim that no parameter has, D03 if there are more devices
    than points, D10 if the owners are not those of the program's points.
    """
    all_dims = dict.fromkeys(d for p in program.params for d in p.type.dims)
    check_dims(program.name, all_dims, axes)
    # what is folded may reach beyond what is stored
    # a fold may reach beyond the stored points
    folds = [n.fold for n in postorder(*values(program.closures)) if isinstance(n, Call) and n.fold is not None]
    parts: dict[str, Part] = {}
    for dim, axis in axes.items():
        hull = Interval(0, 0)
        for interval in [p.type.dims[dim] for p in program.params if dim in p.type.dims]:
            hull |= interval
        for fold in folds:
            hull = hull | fold.interval if fold.dim == dim else hull
        if dim in owners:
            parts[dim] = _by_owners(dim, axis, hull, owners[dim], mesh[axis])
            continue
        if len(hull) < mesh[axis]:
            message = f"{dim}{hull} has {counted(len(hull), 'point')}, and '{axis}' {mesh[axis]} devices."
            raise refuse("D03", message, f"use a mesh with at most {len(hull)} devices along '{axis}'." if hull else "")
        parts[dim] = Decomposition(dim, axis, hull, mesh[axis])
    return parts


def _by_owners(dim: str, axis: str, whole: Interval, owners: Owners, parts: int) -> Subdomains:
    """The subdomains of a dim; raises D10 if its interval `whole` has points beyond those that have owners."""
    all_points = Interval(0, len(owners))
    if all_points | whole != all_points:
        message = f"the partition has {len(owners)} points of {dim}, and the program has {dim}{whole}."
        raise refuse("D10", message, "part the mesh that the program runs on; its points are counted from 0.")
    return Subdomains(dim, axis, all_points, parts, owners)
