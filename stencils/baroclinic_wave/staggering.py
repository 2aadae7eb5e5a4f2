"""Velocities at the faces of Voronoi cells: the tangential velocity, and the signs of the circulation around triangles.

Masses are at vertices of the triangulation, in the middle of their Voronoi cells; the velocity at an edge is the one
along it, from its first vertex to its second, which is normal to the face between the two; vorticities are in
triangles. The vector at a vertex is fitted to the velocities of its edges, which is exact for a uniform flow, and the
tangential velocity at an edge is the mean of its two vertices'.

>>> from stencils.meshes import icosahedral
>>> mesh = icosahedral(3)
>>> edges, weights = tangential(mesh)
>>> axis = np.array([0.3, 0.5, 0.8])
>>> wind = np.cross(axis, mesh.geometry.edge_position / mesh.surface.radius)  # a rotation around the axis
>>> along, left = ((wind * d).sum(-1) for d in (mesh.geometry.edge_tangent, -mesh.geometry.edge_normal))
>>> float(abs((weights * along[edges]).sum(1) - left).max()) < 0.01
True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stencils.meshes import Mesh

Floats = NDArray[np.float64]


def tangential(mesh: Mesh) -> tuple[NDArray[np.int32], Floats]:
    """The edges around both vertices of an edge, and the weights of their velocities in its tangential one: (Edge, 12).

    The tangential velocity is positive to the left of the edge. Entries that a pentagon lacks are -1, their weights 0.
    """
    around = mesh.tables["V2E"][mesh.tables["E2V"]]  # Edge, 2, 6
    fit = _fits(mesh)[mesh.tables["E2V"]]  # Edge, 2, 6, 3
    left = -mesh.geometry.edge_normal
    weights = 0.5 * np.einsum("ek,esnk->esn", left, fit)
    return around.reshape(len(around), -1), weights.reshape(len(around), -1)


def _fits(mesh: Mesh) -> Floats:
    """Per vertex and edge of it, the vector that the edge's velocity adds to the fitted one, in the tangent plane."""
    edges = mesh.tables["V2E"]
    up = mesh.surface.up(mesh.points)
    along = mesh.geometry.edge_tangent[edges]
    along = along - np.einsum("vnk,vk->vn", along, up)[..., None] * up[:, None]
    along = np.where((edges < 0)[..., None], 0.0, along)
    normal = np.einsum("vni,vnj->vij", along, along) + np.einsum("vi,vj->vij", up, up)
    return np.einsum("vij,vnj->vni", np.linalg.inv(normal), along)
