"""Inputs of every library program, small and irregular, on which it is compared with its reference."""

from __future__ import annotations

import numpy as np

from stencils import meshes


def sample(name, seed=0):
    """The inputs of a program by name, as NumPy arrays and floats."""
    rng = np.random.default_rng(seed)
    return SAMPLES[name](rng)


def _field(rng):
    return {"inp": rng.normal(size=(9, 8))}


def _hdiff(rng):
    return {"inp": rng.normal(size=(9, 8, 3)), "coeff": rng.uniform(0.0, 1 / 32, (9, 8, 3))}


def _terrain_filter(rng):
    return {"inp": rng.uniform(200.0, 1000.0, (9, 8)), "strength": 1 / 64}


def _advection(rng):
    u, v = rng.normal(size=(2, 9, 8))
    return {"inp": rng.normal(size=(9, 8)), "u": u, "v": v, "dt": 0.1, "dx": 1.0, "dy": 0.8}


def _tridiagonal(rng):
    a, c, d = rng.normal(size=(3, 3, 2, 6))
    return {"a": a, "b": rng.uniform(3.0, 4.0, (3, 2, 6)) + np.abs(a) + np.abs(c), "c": c, "d": d}


def _vertical_advection(rng):
    names = ("utens_stage", "u_stage", "u_pos", "utens")
    fields = dict(zip(names, rng.normal(size=(4, 4, 3, 7)), strict=True))
    return fields | {"wcon": 3.0 * rng.normal(size=(5, 3, 8)), "dtr_stage": 3 / 20}


def _heat(rng):
    return {"u": rng.normal(size=(9, 8)), "diffusivity": 0.2, "dt": 0.1, "dx": 0.5, "dy": 0.4}


def _shallow_water(rng):
    depth = rng.uniform(50.0, 100.0, (6, 5))
    depth[0, 0], depth[3, 2:4] = 0.0, -20.0
    fields = {
        "eta": rng.normal(size=(6, 5)),
        "u": rng.normal(size=(7, 5)),
        "v": rng.normal(size=(6, 6)),
        "depth": depth,
    }
    return fields | {"coriolis": 1e-2, "gravity": 9.81, "dt": 1.5, "dx": 100.0, "dy": 80.0}


def _nabla(rng):
    mesh = meshes.icosahedral(1, radius=1.0)
    g = mesh.geometry
    faces = {"S_MXX": g.median_face_east, "S_MYY": g.median_face_north}
    return {"pp": rng.normal(size=42), **faces, "sign": mesh.signs["V2E"], "vol": g.median_area} | _tables(mesh)


def _mesh_laplacian(rng):
    mesh = meshes.icosahedral(1, radius=1.0)
    measures = {name: getattr(mesh.geometry, name) for name in ("edge_length", "dual_edge_length", "vertex_area")}
    return {"inp": rng.normal(size=(42, 3)), "sign": mesh.signs["V2E"]} | measures | _tables(mesh)


def _tables(mesh):
    return {"E2V": mesh.tables["E2V"], "V2E": mesh.tables["V2E"]}


def _neighbour_max(rng):
    return {"inp": rng.normal(size=42), "V2V": meshes.icosahedral(1).tables["V2V"]}


SAMPLES = {
    "advection_third_order": _advection,
    "advection_upwind": _advection,
    "biharmonic": _field,
    "hdiff": _hdiff,
    "heat": _heat,
    "laplacian": _field,
    "mesh_laplacian": _mesh_laplacian,
    "nabla": _nabla,
    "neighbour_max": _neighbour_max,
    "shallow_water": _shallow_water,
    "terrain_filter": _terrain_filter,
    "tridiagonal": _tridiagonal,
    "vertical_advection": _vertical_advection,
}
