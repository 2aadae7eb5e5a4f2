"""One mesh: points on a surface, its neighbour tables from the corners of triangles, and its UGRID Dataset.

From the corners of triangles to every neighbour table.

Each triangle has three *half-edges*, number 3·cell + k from corner k to corner k + 1, counterclockwise. The two
half-edges of an edge are opposite to each other; the half-edge after h around its first vertex is the opposite of the
one before h in its cell. Everything here follows from these two arrays, without a loop over elements.

>>> tables = connect([[0, 1, 2], [1, 3, 2]])
>>> tables["E2V"].tolist()
[[0, 1], [2, 0], [1, 2], [1, 3], [3, 2]]
>>> tables["E2C"].tolist()
[[0, -1], [0, -1], [0, 1], [1, -1], [1, -1]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stencils.meshes.geometry import QUANTITIES, Geometry, Plane, Sphere
from tensorir.runtime.errors import did_you_mean

if TYPE_CHECKING:
    import xarray

ELEMENTS = {"V": "Vertex", "E": "Edge", "C": "Cell"}

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


def dims(table: str) -> tuple[str, str]:
    """The dims of a table by its name: where it is read from, and the tagged dim of what it points to.

    >>> dims("V2E"), dims("E2C2V")
    (('Vertex', '_NB_Edge'), ('Edge', '_NB_Vertex'))
    """
    return ELEMENTS[table[0]], f"_NB_{ELEMENTS[table[-1]]}"


class Unoriented(ValueError):
    """Triangles that do not all turn the same way."""


def connect(triangles: ArrayLike, edges: ArrayLike | None = None) -> dict[str, Table]:
    """All neighbour tables of a triangulation, from the three vertices of every cell (counterclockwise).

    Edges are numbered by their vertices in ascending order, or as `edges`, their two vertices, has them, in its
    direction (a boundary edge always with its cell on the left). An edge leads from E2V[e, 0] to E2V[e, 1] with E2C[e,
    0] on its left and E2C[e, 1], or -1 at a boundary, on its right. C2E[c, k] joins C2V[c, k] and C2V[c, k + 1], and
    C2C[c, k] is the cell behind it. V2E, V2V and V2C go counterclockwise around the vertex from the edge of the lowest
    number, at a boundary from the boundary; V2V[v, k] is at the other end of V2E[v, k], and V2C[v, k] lies between
    V2E[v, k] and V2E[v, k + 1]. E2C2V has the two ends, then what is opposite on the left and on the right; E2C2E the
    other two edges of the left, then of the right cell.
    """
    cells = _checked(triangles)
    first = cells.ravel()
    second = np.roll(cells, -1, axis=1).ravel()
    edge, left, right = _pair_half_edges(first, second)
    if edges is not None:
        edge, left, right = _numbered(np.asarray(edges), first, second, edge, left, right)
    opposite = np.full(first.size, -1)
    paired = right >= 0
    opposite[left[paired]], opposite[right[paired]] = right[paired], left[paired]

    e2v = np.stack([first[left], second[left]], axis=1)
    around = _around_vertices(first, edge, opposite)
    v2e, v2c = _fans(around, edge, opposite)
    ends = e2v[v2e]
    other = np.where(ends[..., 0] == np.arange(len(v2e))[:, None], ends[..., 1], ends[..., 0])

    sides = np.stack([left, right], axis=1)
    diamond = np.stack([_where(sides, edge[_after(sides)]), _where(sides, edge[_before(sides)])], axis=2)
    tables = {
        "V2V": np.where(v2e >= 0, other, -1),
        "V2E": v2e,
        "V2C": v2c,
        "E2V": e2v,
        "E2C": _cell(sides),
        "E2C2V": np.concatenate([e2v, _where(sides, first[_before(sides)])], axis=1),
        "E2C2E": diamond.reshape(-1, 4),
        "C2V": cells,
        "C2E": edge.reshape(-1, 3),
        "C2C": _cell(opposite).reshape(-1, 3),
    }
    return {name: np.ascontiguousarray(table, dtype=np.int32) for name, table in tables.items()}


def _checked(triangles: ArrayLike) -> Ints:
    cells = np.asarray(triangles)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.shape[0] == 0 or not np.issubdtype(cells.dtype, np.integer):
        raise ValueError(f"triangles must be integers of shape (cells, 3), not {cells.dtype} of shape {cells.shape}.")
    cells = cells.astype(np.int64)
    if cells.min() < 0:
        raise ValueError("triangles hold a negative vertex number.")
    if (cells == np.roll(cells, -1, axis=1)).any():
        raise ValueError("a triangle has the same vertex twice.")
    used = np.unique(cells)
    if used[-1] >= used.size:
        unused = int(np.argmax(used != np.arange(used.size)))
        raise ValueError(f"vertex {unused} belongs to no triangle.")
    return cells


def _pair_half_edges(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """The edge of every half-edge, and the half-edges on the left and on the right of every edge (-1: none)."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    _, edge = np.unique(low * (int(high.max()) + 1) + high, return_inverse=True)
    forward = first < second
    count = int(edge.max()) + 1
    for direction in (forward, ~forward):
        if (np.bincount(edge[direction], minlength=count) > 1).any():
            told = "two triangles run along one edge in the same direction: orient all counterclockwise."
            raise Unoriented(told)
    left, right = np.full(count, -1), np.full(count, -1)
    left[edge[forward]] = np.flatnonzero(forward)
    right[edge[~forward]] = np.flatnonzero(~forward)
    turned = left < 0  # a boundary edge runs with its only cell on the left
    return edge, np.where(turned, right, left), np.where(turned, -1, right)


def _numbered(
    edges: Ints, first: Ints, second: Ints, edge: Ints, left: Ints, right: Ints
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The same edges with the numbers and directions of a list of their vertices."""
    if edges.shape != (len(left), 2):
        raise ValueError(f"the triangles have {len(left)} edges, but the edges have the shape {edges.shape}.")
    count = int(first.max()) + 1
    own, given = (
        np.minimum(a, b) * count + np.maximum(a, b) for a, b in ((first[left], second[left]), edges.astype(np.int64).T)
    )
    place = np.searchsorted(own, given).clip(max=len(own) - 1)
    if (wrong := np.flatnonzero(own[place] != given)).size:
        a, b = edges[wrong[0]]
        raise ValueError(f"edge {wrong[0]} joins vertices {a} and {b}, which no triangle does.")
    number = np.full(len(own), -1)
    number[place] = np.arange(len(own))
    if (number < 0).any():
        a, b = divmod(int(own[np.argmin(number)]), count)
        raise ValueError(f"the side from vertex {a} to {b} of a triangle is no edge.")
    left, right = left[place], right[place]
    turned = (first[left] != edges[:, 0]) & (right >= 0)
    return number[edge], np.where(turned, right, left), np.where(turned, left, right)


def _around_vertices(first: Ints, edge: Ints, opposite: Ints) -> Ints:
    """The outgoing half-edges of every vertex in counterclockwise order, padded with -1."""
    following = opposite[_before(np.arange(first.size))]
    boundary_first = np.where(opposite < 0, -1, edge)
    order = np.lexsort((boundary_first, first))
    start = order[np.searchsorted(first[order], np.arange(int(first.max()) + 1))]
    degree = int(np.bincount(first).max())
    columns = [start]
    while len(columns) < degree:
        last = columns[-1]
        step = np.where(last >= 0, following[last], -1)
        columns.append(np.where(step == start, -1, step))
    around = np.stack(columns, axis=1)
    if (around >= 0).sum() != first.size:
        lost = np.flatnonzero((around >= 0).sum(axis=1) != np.bincount(first))
        raise ValueError(f"the triangles at vertex {int(lost[0])} are not one fan.")
    return around


def _fans(around: Ints, edge: Ints, opposite: Ints) -> tuple[Ints, Ints]:
    """V2E and V2C; at a boundary the edge that closes the fan stands behind the last cell's first edge."""
    v2c = _cell(around)
    v2e = _where(around, edge[around])
    ends = np.flatnonzero(opposite[around[:, 0]] < 0)
    cells = (around[ends] >= 0).sum(axis=1)
    closing = edge[_before(around[ends, cells - 1])]
    if cells.size and cells.max() == v2e.shape[1]:
        v2e = np.pad(v2e, ((0, 0), (0, 1)), constant_values=-1)
    v2e[ends, cells] = closing
    return v2e, v2c


def _before(half_edge: Ints) -> Ints:
    """The half-edge that leads to where this one starts, in the same cell."""
    return half_edge // 3 * 3 + (half_edge + 2) % 3


def _after(half_edge: Ints) -> Ints:
    return half_edge // 3 * 3 + (half_edge + 1) % 3


def _cell(half_edge: Ints) -> Ints:
    return _where(half_edge, half_edge // 3)


def _where(half_edge: Ints, values: Ints) -> Ints:
    return np.where(half_edge >= 0, values, -1)


# A mesh as a Dataset of the UGRID conventions, which other programs read and draw.
#
# The dims are Vertex, Edge and Cell, so fields on the mesh can be put beside it.

TABLES = {
    "face_node_connectivity": "C2V",
    "edge_node_connectivity": "E2V",
    "face_edge_connectivity": "C2E",
    "face_face_connectivity": "C2C",
    "edge_face_connectivity": "E2C",
}
"""UGRID's names of the tables that it knows."""
PLACES = {"node": ("vertex", "Vertex"), "edge": ("edge", "Edge"), "face": ("cell", "Cell")}


def to_ugrid(tables: Mapping[str, Any], geometry: Geometry) -> xarray.Dataset:
    """Tables and the places of vertices, edges and cells, described by the variable `mesh`."""
    import xarray

    surface = geometry.surface
    described: dict[str, Any] = {"cf_role": "mesh_topology", "topology_dimension": 2, "long_name": "Triangular mesh"}
    variables: dict[str, Any] = {}
    for place, (name, dim) in PLACES.items():
        own = _places(geometry, place, name, dim)
        variables |= own
        described[f"{place}_coordinates"] = " ".join(own)
        described[f"{place}_dimension"] = dim
    for role, name in TABLES.items():
        table = tables[name]
        attrs = {"cf_role": role, "start_index": 0, "_FillValue": np.int32(-1)}
        columns = {2: "Two", 3: "Three"}[table.shape[1]]
        variables[f"mesh_{role}"] = xarray.Variable((PLACES[role.partition("_")[0]][1], columns), table, attrs)
        described[role] = f"mesh_{role}"
    if isinstance(surface, Sphere):
        crs = {"grid_mapping_name": "latitude_longitude", "earth_radius": surface.radius}
        variables["crs"] = xarray.Variable((), np.int32(0), crs)
    else:
        described |= {n: p for n, p in zip(("x_period", "y_period"), surface.period, strict=True) if p is not None}
    variables["mesh"] = xarray.Variable((), np.int32(0), described)
    return xarray.Dataset(variables, attrs={"Conventions": "CF-1.11 UGRID-1.0"})


def _places(geometry: Geometry, place: str, name: str, dim: str) -> dict[str, Any]:
    import xarray

    if isinstance(geometry.surface, Sphere):
        kinds = {"lon": ("longitude", "degrees_east"), "lat": ("latitude", "degrees_north")}
        values = {k: getattr(geometry, f"{name}_{k}") for k in kinds}
    else:
        kinds = {"x": ("projection_x_coordinate", "m"), "y": ("projection_y_coordinate", "m")}
        values = dict(zip(kinds, getattr(geometry, f"{name}_position").T, strict=False))
    return {
        f"mesh_{place}_{k}": xarray.Variable((dim,), values[k], {"standard_name": standard, "units": units})
        for k, (standard, units) in kinds.items()
    }


# One mesh: points on a surface, and the tables that say who is next to whom.


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """A triangulation of a sphere or of a part of a plane; all arrays are read-only.

    `points` are float64 (Vertex, 3) in metres. `tables` are int32 by name, V2E as (Vertex, neighbours), with -1 for a
    neighbour that is missing. `signs` has float64 arrays beside V2E and C2E: for V2E +1 where the edge leaves the
    vertex, -1 where it arrives; for C2E +1 where the edge's normal leaves the cell, -1 where it enters; 0 where nothing
    is. So a sum over neighbours of sign times flux is a divergence.

    >>> square = Mesh.of_triangles([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 3, 2]], Plane())
    >>> square
    Mesh(Vertex=4, Edge=5, Cell=2)
    >>> square.geometry.cell_area
    array([0.5, 0.5])
    >>> square.tables["C2C"].tolist()
    [[-1, 1, -1], [-1, -1, 0]]
    """

    points: NDArray[np.float64]
    surface: Sphere | Plane
    tables: Mapping[str, NDArray[np.int32]]

    @classmethod
    def of_triangles(
        cls, points: ArrayLike, triangles: ArrayLike, surface: Sphere | Plane, edges: ArrayLike | None = None
    ) -> Mesh:
        """The mesh of these points (Vertex, 2 or 3, metres) and triangles (Cell, 3, counterclockwise).

        `edges` (Edge, 2) has numbers and directions of edges, which else follow from their vertices.
        """
        tables = connect(triangles, edges)
        points = np.array(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] not in (2, 3):
            raise ValueError(f"points must have the shape (vertices, 2 or 3), but have {points.shape}.")
        if len(points) != len(tables["V2E"]):
            raise ValueError(f"there are {len(points)} points, but the triangles use {len(tables['V2E'])}.")
        if not np.isfinite(points).all():
            raise ValueError("a point has a coordinate that is not finite.")
        points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
        for array in (points, *tables.values()):
            array.flags.writeable = False
        return cls(points, surface, MappingProxyType(tables))

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of vertices, edges and cells, by the names of their dims."""
        return {"Vertex": len(self.points), "Edge": len(self.tables["E2V"]), "Cell": len(self.tables["C2V"])}

    @cached_property
    def geometry(self) -> Geometry:
        """Everything that can be measured, as NumPy arrays, each computed at its first use."""
        return Geometry(self.points, self.surface, self.tables)

    @cached_property
    def signs(self) -> Mapping[str, NDArray[np.float64]]:
        """Orientation of the edges seen from the vertex (V2E) and from the cell (C2E)."""
        seen = {
            name: _orientation(self.tables[name], self.tables[f"E2{name[0]}"][:, 0].astype(np.int64))
            for name in ("V2E", "C2E")
        }
        return MappingProxyType(seen)

    def table(self, name: str) -> xarray.DataArray:
        """A neighbour table with named dims: V2E has (Vertex, _NB_Edge)."""
        import xarray

        if name not in self.tables:
            raise ValueError(f"a mesh has no table {name!r}: {did_you_mean(name, self.tables)}")
        return xarray.DataArray(self.tables[name], dims=dims(name), name=name)

    def sign(self, name: str) -> xarray.DataArray:
        """The signs beside a table as a field on its neighbours: for V2E (Vertex, _NB_0).

        In an operator it meets `f(V2E)` slot by slot: `ti.neighbor_sum(f(V2E) * sign, axis=V2EDim)`.
        """
        import xarray

        if name not in self.signs:
            raise ValueError(f"a mesh has no signs for {name!r}: {did_you_mean(name, self.signs)}")
        return xarray.DataArray(self.signs[name], dims=(dims(name)[0], "_NB_0"), name=f"{name}_sign")

    def dataset(self, *names: str) -> xarray.Dataset:
        """Measures, and tables where they are named, with dims, units and long names.

        Without names: every measure that this surface has. Two tables with one neighbour dim of different lengths, such
        as V2E and C2E, cannot be in one Dataset: take them with `table`.

        >>> from stencils.meshes import icosahedral
        >>> data = icosahedral(1).dataset("vertex_lon", "cell_area", "V2E")
        >>> dict(data.sizes)
        {'Vertex': 42, 'Cell': 80, '_NB_Edge': 6}
        >>> data.cell_area.units
        'm2'
        """
        import xarray

        spherical = isinstance(self.surface, Sphere)
        names = names or tuple(name for name, q in QUANTITIES.items() if spherical or not q.spherical)
        variables = {}
        for name in names:
            if name in self.tables:
                variables[name] = self.table(name)
            elif quantity := QUANTITIES.get(name):
                attrs = {"units": quantity.units, "long_name": quantity.long_name}
                variables[name] = xarray.Variable(quantity.dims, getattr(self.geometry, name), attrs)
            else:
                raise ValueError(f"a mesh has no {name!r}: {did_you_mean(name, [*QUANTITIES, *self.tables])}")
        coords = {"xyz": ["x", "y", "z"]} if any("xyz" in v.dims for v in variables.values()) else {}
        return xarray.Dataset(variables, coords)

    def to_ugrid(self) -> xarray.Dataset:
        """The mesh by the UGRID conventions: tables, places of vertices, edges and cells, the variable `mesh`.

        `stencils.meshes.read` gives the same mesh of it again.

        >>> from stencils.meshes import icosahedral
        >>> icosahedral(1).to_ugrid()["mesh"].attrs["face_node_connectivity"]
        'mesh_face_node_connectivity'
        """

        return to_ugrid(self.tables, self.geometry)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"


def _orientation(edges: NDArray[np.int32], owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """+1 where the row's own number is the first that the edge names, -1 where it is the second, 0 for no edge."""
    own = np.arange(len(edges))[:, None]
    sign = np.where(edges < 0, 0.0, np.where(owner[edges] == own, 1.0, -1.0))
    sign.flags.writeable = False
    return sign
