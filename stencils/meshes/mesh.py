"""One mesh: points on a surface, its neighbour tables and its geometry, and its Dataset by the UGRID conventions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stencils.meshes.connectivity import connect, dims
from stencils.meshes.geometry import QUANTITIES, Geometry
from stencils.meshes.surfaces import Plane, Sphere
from tensorir.runtime.errors import did_you_mean

if TYPE_CHECKING:
    import xarray

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
        places = _locate(geometry, place, name, dim)
        variables |= places
        described[f"{place}_coordinates"] = " ".join(places)
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


def _locate(geometry: Geometry, place: str, name: str, dim: str) -> dict[str, Any]:
    """The coordinate variables of the points of one `place` of a UGRID mesh ("node", "edge", "face"), on the dim `dim`.

    `name` is the prefix of the geometry's attributes. Degrees on a sphere, metres on a plane.
    """
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
            name: _orient(self.tables[name], self.tables[f"E2{name[0]}"][:, 0].astype(np.int64))
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


def _orient(edges: NDArray[np.int32], owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """+1 where the row's own number is the first that the edge names, -1 where it is the second, 0 for no edge."""
    sign = np.where(edges < 0, 0.0, np.where(owner[edges] == np.arange(len(edges))[:, None], 1.0, -1.0))
    sign.flags.writeable = False
    return sign
