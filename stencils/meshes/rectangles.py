"""Structured triangulations: a rectangle, a channel or a torus, cut into triangles."""

from __future__ import annotations

import numpy as np

from stencils.meshes.mesh import Mesh
from stencils.meshes.surfaces import Plane

__all__ = ["rectangle"]


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
