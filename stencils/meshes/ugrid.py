"""A mesh as a Dataset of the UGRID conventions, which other programs read and draw.

The dims are Vertex, Edge and Cell, so fields on the mesh can be put beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stencils.meshes.geometry import Geometry
from stencils.meshes.surfaces import Sphere

if TYPE_CHECKING:
    import xarray

__all__ = ["TABLES", "to_ugrid"]

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
