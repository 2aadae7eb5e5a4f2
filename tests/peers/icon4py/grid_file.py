"""A grid file as ICON has it, of an icosahedral mesh: what icon4py reads of one, and no refinement."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from stencils.meshes import Mesh

__all__ = ["write"]


def write(mesh: Mesh, path: Path, level: int, root: int) -> None:
    """Write the mesh; edges' normals lead from their right to their left cell, so all orientations are 1."""
    import netCDF4

    size, g, tables, radius = mesh.sizes, mesh.geometry, mesh.tables, mesh.surface.radius
    unit = {name: _unit(getattr(g, f"{name}_position")) for name in ("vertex", "edge", "cell")}

    def arc(a: Any, b: Any) -> Any:
        return radius * np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(-1))

    def counted_from_one(table: Any) -> Any:
        return np.where(table >= 0, table + 1, -1).T.astype(np.int32)

    cells, ends = tables["E2C"][:, ::-1], tables["E2V"]
    to_cells = [arc(unit["cell"][cells[:, k]], unit["edge"]) for k in (0, 1)]
    to_ends = [arc(unit["vertex"][ends[:, k]], unit["edge"]) for k in (0, 1)]
    variables: dict[str, tuple[tuple[str, ...], Any]] = {
        "neighbor_cell_index": (("nv", "cell"), counted_from_one(tables["C2C"])),
        "edge_of_cell": (("nv", "cell"), counted_from_one(tables["C2E"])),
        "vertex_of_cell": (("nv", "cell"), counted_from_one(tables["C2V"])),
        "vertices_of_vertex": (("ne", "vertex"), counted_from_one(tables["V2V"])),
        "edges_of_vertex": (("ne", "vertex"), counted_from_one(tables["V2E"])),
        "cells_of_vertex": (("ne", "vertex"), counted_from_one(tables["V2C"])),
        "adjacent_cell_of_edge": (("nc", "edge"), counted_from_one(cells)),
        "edge_vertices": (("nc", "edge"), counted_from_one(ends)),
        "orientation_of_normal": (("nv", "cell"), -mesh.signs["C2E"].T),
        "edge_system_orientation": (("edge",), np.ones(size["Edge"])),
        "edge_orientation": (("ne", "vertex"), mesh.signs["V2E"].T.astype(np.int32)),
        "cell_area": (("cell",), g.cell_area),
        "dual_area": (("vertex",), g.vertex_area),
        "edge_length": (("edge",), arc(unit["vertex"][ends[:, 0]], unit["vertex"][ends[:, 1]])),
        "dual_edge_length": (("edge",), sum(to_cells)),
        "edge_cell_distance": (("nc", "edge"), np.stack(to_cells)),
        "edge_vert_distance": (("nc", "edge"), np.stack(to_ends)),
    }
    for name, letter in (("vertex", "v"), ("edge", "e"), ("cell", "c")):
        x, y, z = unit[name].T
        variables[f"{letter}lon"] = (name,), np.arctan2(y, x)
        variables[f"{letter}lat"] = (name,), np.arcsin(np.clip(z, -1.0, 1.0))
        variables[f"refin_{letter}_ctrl"] = (name,), np.zeros(len(x), np.int32)
        place = {"vertex": "cartesian_{}_vertices", "edge": "edge_middle_cartesian_{}"}
        for axis, values in zip("xyz", (x, y, z), strict=True):
            variables[place.get(name, "cell_circumcenter_cartesian_{}").format(axis)] = (name,), values
    with netCDF4.Dataset(path, "w") as file:
        fixed = {"nv": 3, "ne": 6, "nc": 2, "no": 4, "cell_grf": 14, "edge_grf": 24, "vert_grf": 13, "max_chdom": 1}
        for name, extent in {**{n.lower(): k for n, k in size.items()}, **fixed}.items():
            file.createDimension(name, extent)
        for name, (dims, values) in variables.items():
            kind = "i4" if np.asarray(values).dtype.kind == "i" else "f8"
            file.createVariable(name, kind, dims)[:] = values
        file.setncatts(
            {
                "uuidOfHGrid": str(uuid.UUID(int=level * 100 + root)), "grid_level": np.int32(level),
                "grid_root": np.int32(root), "sphere_radius": radius, "title": "an icosahedral mesh",
            }
        )  # fmt: skip


def _unit(places: Any) -> Any:
    return places / np.linalg.norm(places, axis=1, keepdims=True)
