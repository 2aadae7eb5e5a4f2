"""Triangulations: icosahedral meshes of the sphere; rectangles, channels and tori."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stencils.meshes.connectivity import connect
from stencils.meshes.mesh import Mesh
from stencils.meshes.surfaces import Plane, Sphere

# Icosahedral meshes: twenty triangles around the sphere, cut into smaller ones.
#
# Every vertex has six neighbours, but for the twelve corners of the icosahedron, which have five; their last
# neighbour is -1 in the tables. Such meshes go back to Sadourny, Arakawa and Mintz (Mon. Weather Rev. 96, 1968);
# cutting the edges into `root` parts first, and then into halves, is what ICON calls an RnBk grid (Zängl et al., Q.
# J. R. Meteorol. Soc. 141, 2015).

EARTH_RADIUS = 6.37122e6
"""Radius of the Earth in metres, the value of the shallow-water tests of Williamson et al. (1992)."""

_LARGEST = 20_000_000  # cells; a mesh of this size takes several gigabytes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def icosahedral(level: int, root: int = 1, radius: float = EARTH_RADIUS) -> Mesh:
    """The icosahedron with its edges cut into `root` parts, and then `level` times into halves.

    There are 20·root²·4^level cells, half as many edges again, and 10·root²·4^level + 2 vertices. Vertices 0 and 11 are
    the poles; vertices of a coarser level keep their numbers, and the four children of a cell stand together.

    >>> icosahedral(0), icosahedral(3), icosahedral(1, root=3)
    (Mesh(Vertex=12, Edge=30, Cell=20), Mesh(Vertex=642, Edge=1920, Cell=1280), Mesh(Vertex=362, Edge=1080, Cell=720))
    >>> sphere = icosahedral(3, radius=1.0)
    >>> bool(np.isclose(sphere.geometry.cell_area.sum(), 4 * np.pi))
    True
    """
    if level < 0 or root < 1:
        raise ValueError(f"level must be at least 0 and root at least 1, but they are {level} and {root}.")
    if not 0 < radius < np.inf:
        raise ValueError(f"the radius must be positive and finite, but is {radius}.")
    if level > 20 or 20 * root**2 * 4**level > _LARGEST:
        raise ValueError(f"level {level} with root {root} has more than {_LARGEST:,} cells.")
    points, triangles = _icosahedron()
    for parts in [root] * (root > 1) + [2] * level:
        points, triangles = _cut(points, triangles, parts)
    return Mesh.of_triangles(radius * points, triangles, Sphere(radius))


def _icosahedron() -> tuple[Floats, Ints]:
    """Twelve points of the unit sphere, two at the poles and two rings of five between, and twenty triangles."""
    ring = np.arange(5)
    following = (ring + 1) % 5
    latitude = np.arctan(0.5) * np.repeat([1, -1], 5)
    longitude = np.radians(np.concatenate([72 * ring, 72 * ring + 36]))
    rings = np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=1
    )
    points = np.concatenate([[[0, 0, 1]], rings, [[0, 0, -1]]])
    upper, lower = 1 + ring, 6 + ring
    north, south = np.zeros(5, dtype=int), np.full(5, 11)
    rows = [
        (north, upper, 1 + following),
        (upper, lower, 1 + following),
        (lower, 6 + following, 1 + following),
        (south, 6 + following, lower),
    ]
    return points, np.concatenate([np.stack(row, axis=1) for row in rows])


def _cut(points: Floats, triangles: Ints, parts: int) -> tuple[Floats, Ints]:
    """Each edge in `parts` pieces, each triangle in their square: old vertices first, then edges', then cells' points.

    Points lie evenly on the chord or the flat triangle, and are then drawn onto the sphere.
    """
    tables = connect(triangles)
    ends, edges = np.sort(tables["E2V"], axis=1), tables["C2E"]

    steps = np.arange(1, parts) / parts
    on_edges = points[ends[:, 0], None] * (1 - steps)[:, None] + points[ends[:, 1], None] * steps[:, None]

    rows, columns = np.array([(r, s) for r in range(parts + 1) for s in range(parts + 1 - r)]).T
    weights = np.stack([parts - rows - columns, columns, rows], axis=1)
    inside = (weights > 0).all(axis=1)
    in_cells = np.einsum("wk,ckx->cwx", weights[inside] / parts, points[triangles])

    number = np.empty((len(triangles), len(rows)), dtype=np.int64)
    for k in range(3):
        following, opposite = (k + 1) % 3, (k + 2) % 3
        number[:, weights[:, k] == parts] = triangles[:, k, None]
        on_edge = np.flatnonzero((weights[:, opposite] == 0) & (weights[:, k] > 0) & (weights[:, following] > 0))
        turned = (triangles[:, k] > triangles[:, following])[:, None]
        step = np.where(turned, weights[on_edge, k], weights[on_edge, following])
        number[:, on_edge] = len(points) + edges[:, k, None] * (parts - 1) + step - 1
    first_inside = len(points) + on_edges.shape[0] * on_edges.shape[1]
    number[:, inside] = first_inside + np.arange(in_cells.shape[0] * in_cells.shape[1]).reshape(in_cells.shape[:2])

    starts = np.cumsum([0, *range(parts + 1, 0, -1)])
    local = []
    for low, high in pairwise(starts):
        length = high - low - 1  # triangles with their base on this row
        local += [(low + s, low + s + 1, high + s) for s in range(length)]
        local += [(low + s + 1, high + s + 1, high + s) for s in range(length - 1)]
    children = number[:, np.array(local)].reshape(-1, 3)

    everything = np.concatenate([points, on_edges.reshape(-1, 3), in_cells.reshape(-1, 3)])
    return everything / np.linalg.norm(everything, axis=1, keepdims=True), children


# Structured triangulations: a rectangle, a channel or a torus, cut into triangles.


def rectangle(
    nx: int,
    ny: int,
    width: float = 1.0,
    height: float = 1.0,
    periodic: tuple[bool, bool] = (False, False),
    staggered: bool = False,
) -> Mesh:
    """A rectangle of nx times ny boxes, each cut into two triangles; width and height in metres.

    Vertices are numbered row by row, cells box by box, lower before upper. Along a periodic direction the last vertex
    is the first one. Boxes are cut from lower left to upper right; with `staggered` every second row of vertices is
    moved by half a box, and the triangles are isosceles (equilateral for boxes √3/2 times as high as wide), which wants
    a periodic x and, if y is periodic too, an even number of rows.

    >>> rectangle(3, 2)
    Mesh(Vertex=12, Edge=23, Cell=12)
    >>> rectangle(4, 4, periodic=(True, True)).tables["V2V"].shape
    (16, 6)
    """
    for name, count, wraps in (("nx", nx, periodic[0]), ("ny", ny, periodic[1])):
        if count < (least := 3 if wraps else 1):
            raise ValueError(f"{name} must be at least {least}, but is {count}.")
    if not (0 < width < np.inf and 0 < height < np.inf):
        raise ValueError(f"width and height must be positive and finite, but are {width} and {height}.")
    if staggered and not periodic[0]:
        raise ValueError("a staggered rectangle must be periodic along x.")
    if staggered and periodic[1] and ny % 2:
        raise ValueError(f"a staggered torus needs an even number of rows, but ny is {ny}.")

    columns, rows = nx + (not periodic[0]), ny + (not periodic[1])
    i, j = np.meshgrid(np.arange(columns), np.arange(rows))
    offset = np.where(j % 2, 0.5, 0.0) if staggered else 0.0
    points = np.stack([(i + offset) * (width / nx), j * (height / ny)], axis=-1).reshape(-1, 2)

    i, j = np.meshgrid(np.arange(nx), np.arange(ny))
    here, there = j * columns, (j + 1) % rows * columns
    corners = [row + step % columns for row in (here, there) for step in (i, i + 1)]
    low_left, low_right, up_left, up_right = corners
    falling = staggered & (j % 2 == 0)  # these boxes are cut from upper left to lower right
    lower = np.stack([low_left, low_right, np.where(falling, up_left, up_right)], axis=-1)
    upper = np.stack([np.where(falling, low_right, low_left), up_right, up_left], axis=-1)
    triangles = np.stack([lower, upper], axis=2).reshape(-1, 3)

    period = (width if periodic[0] else None, height if periodic[1] else None)
    return Mesh.of_triangles(points, triangles, Plane(period))
