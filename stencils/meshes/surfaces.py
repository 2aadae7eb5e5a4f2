"""The two surfaces on which meshes lie, a sphere and a plane: what is a distance, a midpoint, an area there.

Points are arrays (..., 3). A triangle is given counterclockwise, seen from where `up` points to; areas are signed, so
that the parts of a triangle add up to the whole wherever its circumcentre lies.

>>> float(Sphere(2.0).distance([2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]) / np.pi)
2.0
>>> Plane((4.0, None)).near([0.5, 0.0, 0.0], [3.5, 1.0, 0.0])
array([-0.5,  1. ,  0. ])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sphere:
    """A sphere around the origin with its radius in metres; lines are great circles."""

    radius: float

    def near(self, origin: ArrayLike, p: ArrayLike) -> Floats:
        """The image of p that is nearest to origin: on a sphere p itself."""
        return np.asarray(p, dtype=float)

    def up(self, p: ArrayLike) -> Floats:
        """Unit vectors (..., 3) away from the centre."""
        return _unit(p)

    def east(self, p: ArrayLike) -> Floats:
        """Unit vectors (..., 3) towards growing longitude; at the poles those of longitude 0."""
        x, y, _ = np.moveaxis(_unit(p), -1, 0)
        longitude = np.arctan2(y, x)
        return np.stack([-np.sin(longitude), np.cos(longitude), np.zeros_like(longitude)], axis=-1)

    def distance(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Length in metres of the great circle from a to b."""
        return 2 * self.radius * np.arcsin(np.linalg.norm(_unit(b) - _unit(a), axis=-1) / 2)

    def midpoint(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Half way on the great circle from a to b."""
        return self.radius * _unit(_unit(a) + _unit(b))

    def centroid(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """The centroid of a triangle: the intersection of its medians."""
        return self.radius * _unit(_unit(a) + _unit(b) + _unit(c))

    def circumcentre(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """The point at equal distances from the three corners."""
        a, b, c = _unit(a), _unit(b), _unit(c)
        return self.radius * _unit(np.cross(b - a, c - a))

    def area(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """Signed area in m² of a triangle of great circles, from its spherical excess.

        The triple product is taken of differences, which keeps all digits for small triangles
        (formula of Van Oosterom and Strackee, IEEE Trans. Biomed. Eng. 30, 1983).
        """
        a, b, c = _unit(a), _unit(b), _unit(c)
        triple = _dot(a, np.cross(b - a, c - a))
        return 2 * self.radius**2 * np.arctan2(triple, 1 + _dot(a, b) + _dot(b, c) + _dot(c, a))

    def face(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """The unit normals of the line from a to b, which point to its right, integrated along it: metres (..., 3)."""
        axis = np.cross(_unit(b), _unit(a))
        length = np.linalg.norm(axis, axis=-1, keepdims=True)
        ratio = np.divide(self.distance(a, b)[..., None], length, out=np.zeros_like(length), where=length > 0)
        return ratio * axis


@dataclass(frozen=True, slots=True)
class Plane:
    """The plane z = 0, with a period in metres along x and along y, or None where it has a boundary."""

    period: tuple[float | None, float | None] = (None, None)

    def near(self, origin: ArrayLike, p: ArrayLike) -> Floats:
        """The periodic image of p that is nearest to origin."""
        origin, p = np.asarray(origin, dtype=float), np.array(p, dtype=float)
        for axis, period in enumerate(self.period):
            if period is not None:
                p[..., axis] -= period * np.round((p[..., axis] - origin[..., axis]) / period)
        return p

    def up(self, p: ArrayLike) -> Floats:
        """Unit vectors (..., 3) along z."""
        return np.broadcast_to(np.array([0.0, 0.0, 1.0]), np.shape(p))

    def east(self, p: ArrayLike) -> Floats:
        """Unit vectors (..., 3) along x."""
        return np.broadcast_to(np.array([1.0, 0.0, 0.0]), np.shape(p))

    def distance(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Length in metres of the straight line from a to b."""
        return np.linalg.norm(np.subtract(b, a), axis=-1)

    def midpoint(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Half way from a to b."""
        return np.add(a, b) / 2

    def centroid(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """The centroid of a triangle: the intersection of its medians."""
        return np.add(np.add(a, b), c) / 3

    def circumcentre(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """The point at equal distances from the three corners."""
        to_b, to_c = np.subtract(b, a), np.subtract(c, a)
        twice = 2 * np.cross(to_b, to_c)[..., 2:]
        offset = _dot(to_b, to_b)[..., None] * to_c - _dot(to_c, to_c)[..., None] * to_b
        return (
            np.asarray(a) + np.stack([offset[..., 1], -offset[..., 0], np.zeros_like(offset[..., 0])], axis=-1) / twice
        )

    def area(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
        """Signed area in m² of a triangle."""
        return np.cross(np.subtract(b, a), np.subtract(c, a))[..., 2] / 2

    def face(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """The unit normals of the line from a to b, which point to its right, integrated along it: metres (..., 3)."""
        x, y, z = np.moveaxis(np.subtract(b, a), -1, 0)
        return np.stack([y, -x, z], axis=-1)


def _unit(p: ArrayLike) -> Floats:
    p = np.asarray(p, dtype=float)
    return p / np.linalg.norm(p, axis=-1, keepdims=True)


def _dot(a: ArrayLike, b: ArrayLike) -> Floats:
    return np.einsum("...i,...i->...", np.asarray(a, float), np.asarray(b, float))
