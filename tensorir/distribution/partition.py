"""Which device has which points of an unstructured mesh: by coordinates, by METIS, or as somebody says.

The points of one dim of a mesh, its vertices, are parted; edges and cells belong to a part of one of their vertices.

>>> from stencils import meshes
>>> p = partition(meshes.icosahedral(2), 4)
>>> p
Partition(4 parts; Vertex 40 to 41, Edge 114 to 125, Cell 77 to 85)
>>> round(p.cut("E2V"), 2)
0.19
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorir.binding.arrays import article, refuse
from tensorir.runtime.errors import did_you_mean

__all__ = ["Owners", "Partition", "checked_owners", "partition"]

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
        found = self.owners[_ELEMENTS[table[-1]]][self.tables[table]]
        found = np.where(np.asarray(self.tables[table]) < 0, found[:, :1], found)
        return float((found != found[:, :1]).any(axis=1).mean())

    def __repr__(self) -> str:
        counts = [f"{d} {_range(np.bincount(o, minlength=self.parts))}" for d, o in self.owners.items()]
        return f"Partition({self.parts} parts; {', '.join(counts)})"


def _range(counts: NDArray[Any]) -> str:
    few, many = int(counts.min()), int(counts.max())
    return str(few) if few == many else f"{few} to {many}"


def partition(mesh: Any, n: int, by: Any = "coordinates") -> Partition:
    """The points of a mesh in n parts, for `ti.distribute(..., partition=...)`.

    `mesh` is one of `stencils.meshes`, or has the like: `points` (Vertex, coordinates) and `tables` by name, E2V and
    C2V as (rows, neighbours). `by` is "coordinates", which halves the mesh across its longest axis again and again;
    "metis", which needs pymetis (`pip install 'tensorir[metis]'`); or the owner of each vertex, from 0 up to n; or a
    dict of these by dim. Edges and cells that it does not name go to the owner of one of their vertices. Raises D11 for
    owners that are none, D12 where METIS is missing, D14 for what is no mesh or no number of parts.
    """
    points: Any = getattr(mesh, "points", None)
    tables: Any = getattr(mesh, "tables", None)
    if points is None or not isinstance(tables, Mapping):
        told = f"{article(type(mesh).__name__)} is no mesh of points and neighbours."
        raise refuse("D14", told, "use one of stencils.meshes, or give ti.distribute the owners of points by dim.")
    parts: Any = n
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or not 1 <= parts <= len(points):
        told = f"a mesh of {len(points)} vertices has from 1 to {len(points)} parts, and {n!r} are asked for."
        raise refuse("D14", told, "make as many parts as there are devices along the axis.")
    known = {str(name): np.asarray(table) for name, table in cast("Mapping[Any, Any]", tables).items()}
    sizes = {"Vertex": len(points), **{_ELEMENTS[t[0]]: len(a) for t, a in known.items() if t in ("E2V", "C2V")}}
    if isinstance(by, str) and by == "coordinates":
        given = {"Vertex": _bisected(np.asarray(points, np.float64), int(n))}
    elif isinstance(by, str) and by == "metis":
        given = {"Vertex": _by_metis(known, len(points), int(n))}
    elif isinstance(by, str):
        raise refuse("D14", f"there is no way to part a mesh by '{by}'.", _HINT)
    else:
        vectors = cast("Mapping[Any, Any]", by) if isinstance(by, Mapping) else {"Vertex": by}
        some = {str(d): owners for d, owners in vectors.items()}
        for dim in some:
            if dim not in sizes:
                raise refuse("D14", f"the mesh has no {dim}.", did_you_mean(dim, sizes))
        given = {d: checked_owners(d, owners, sizes[d], int(n)) for d, owners in some.items()}
        if "Vertex" not in given:
            raise refuse("D14", f"the owners of {', '.join(given)} are given, and not those of Vertex.", _HINT)
    owners = {d: given[d] if d in given else _inherited(given["Vertex"], known[f"{d[0]}2V"]) for d in sizes}
    for dim in owners.keys() - given.keys():
        checked_owners(dim, owners[dim], sizes[dim], int(n))
    return Partition(MappingProxyType(owners), int(n), MappingProxyType(known))


def checked_owners(dim: str, owners: Any, size: int, parts: int) -> Owners:
    """The owners of the points of a dim; raises D11 where they are not one of the parts for each point, all used."""
    found = np.asarray(owners)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        told = f"the owners of {dim} have the shape {found.shape} and the type {found.dtype}."
        raise refuse("D11", told, "give one integer for each point.")
    if len(found) != size:
        raise refuse("D11", f"there are {len(found)} owners for {size} points of {dim}.", "give one for each point.")
    wrong = np.flatnonzero((found < 0) | (found >= parts))
    if len(wrong):
        k = int(wrong[0])
        told = f"{dim} {k} is owned by {int(found[k])}, and there are parts 0 to {parts - 1}."
        raise refuse("D11", told, "count parts from 0, one for each device.")
    empty = np.flatnonzero(np.bincount(found, minlength=parts) == 0)
    if len(empty):
        told = f"part {int(empty[0])} has no point of {dim}."
        raise refuse("D11", told, "make fewer parts, or give it points.")
    return found.astype(np.int32)


def _bisected(points: NDArray[np.float64], parts: int) -> Owners:
    """Recursive bisection: across the axis along which the points reach farthest, into shares of equal weight."""
    owners = np.empty(len(points), np.int32)
    rest = [(np.arange(len(points)), 0, parts)]
    while rest:
        some, first, count = rest.pop()
        if count == 1:
            owners[some] = first
            continue
        axis = int(np.ptp(points[some], axis=0).argmax())
        order = some[np.argsort(points[some, axis], kind="stable")]
        half = count // 2
        at = len(order) * half // count
        rest += [(order[:at], first, half), (order[at:], first + half, count - half)]
    return owners


def _by_metis(tables: Mapping[str, NDArray[Any]], size: int, parts: int) -> Owners:
    """Few cut edges, and nearly as many vertices in each part."""
    if find_spec("pymetis") is None:
        raise refuse(
            "D12", "METIS parts a mesh through pymetis, which is not installed.",
            "pip install 'tensorir[metis]', or leave it to by=\"coordinates\".",
        )  # fmt: skip
    graph: Any = import_module("pymetis")
    ends = tables["E2V"].astype(np.int64)
    source, target = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.argsort(source, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=size))])
    _, found = graph.part_graph(parts, xadj=starts.tolist(), adjncy=target[order].tolist())
    return checked_owners("Vertex", found, size, parts)


def _inherited(vertices: Owners, table: NDArray[Any]) -> Owners:
    """Owners of edges or cells: those of a vertex, the first one and the next in turn, so that no part gets more."""
    slots: Sequence[int] = range(table.shape[1])
    turn = np.arange(len(table)) % len(slots)
    chosen = table[np.arange(len(table)), turn]
    return vertices[np.where(chosen < 0, table[:, 0], chosen)]
