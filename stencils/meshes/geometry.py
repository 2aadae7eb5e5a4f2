"""Measures of a mesh: positions, lengths, areas, directions.

Each quantity is a property that is computed when it is first asked for; the table `QUANTITIES` has its dims and units,
and from both an xarray.Dataset is made. Two dual meshes are known. The *Voronoi* dual joins the circumcentres of the
cells: its edges are perpendicular to those of the mesh, as finite differences want. The *median* dual goes from
centroid through the middle of an edge to centroid: its faces make the Green-Gauss gradient exact for linear fields.

>>> from stencils.meshes import rectangle
>>> g = rectangle(4, 4, width=4.0, height=4.0).geometry
>>> float(g.cell_area.sum()), float(g.vertex_area.sum()), float(g.median_area.sum())
(16.0, 16.0, 16.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stencils.meshes.surfaces import Floats, Plane, Sphere


@dataclass(frozen=True, slots=True)
class Quantity:
    """The name, dims and units of a property of `Geometry`, and whether it needs longitudes."""

    name: str
    dims: tuple[str, ...]
    units: str
    spherical: bool = False

    @property
    def long_name(self) -> str:
        """The first line of the property's docstring, without its full stop."""
        return (getattr(Geometry, self.name).__doc__ or "").splitlines()[0].rstrip(".")


QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity("vertex_position", ("Vertex", "xyz"), "m"),
        Quantity("vertex_lon", ("Vertex",), "degrees_east", spherical=True),
        Quantity("vertex_lat", ("Vertex",), "degrees_north", spherical=True),
        Quantity("vertex_area", ("Vertex",), "m2"),
        Quantity("median_area", ("Vertex",), "m2"),
        Quantity("edge_position", ("Edge", "xyz"), "m"),
        Quantity("edge_lon", ("Edge",), "degrees_east", spherical=True),
        Quantity("edge_lat", ("Edge",), "degrees_north", spherical=True),
        Quantity("edge_length", ("Edge",), "m"),
        Quantity("dual_edge_length", ("Edge",), "m"),
        Quantity("edge_tangent", ("Edge", "xyz"), "1"),
        Quantity("edge_normal", ("Edge", "xyz"), "1"),
        Quantity("edge_normal_east", ("Edge",), "1"),
        Quantity("edge_normal_north", ("Edge",), "1"),
        Quantity("edge_on_boundary", ("Edge",), "1"),
        Quantity("median_face", ("Edge", "xyz"), "m"),
        Quantity("median_face_east", ("Edge",), "m"),
        Quantity("median_face_north", ("Edge",), "m"),
        Quantity("cell_position", ("Cell", "xyz"), "m"),
        Quantity("cell_lon", ("Cell",), "degrees_east", spherical=True),
        Quantity("cell_lat", ("Cell",), "degrees_north", spherical=True),
        Quantity("cell_area", ("Cell",), "m2"),
    )
}
"""The measures of a mesh by their names, which are properties of `Geometry`."""


@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """The measures of one mesh, as read-only float64 arrays with one entry per vertex, edge or cell."""

    points: Floats
    surface: Sphere | Plane
    tables: Mapping[str, NDArray[np.int32]]

    @property
    def vertex_position(self) -> Floats:
        """Position of the vertices, Cartesian."""
        return self.points

    @cached_property
    def vertex_lon(self) -> Floats:
        """Longitude of the vertices, from -180 to 180."""
        return self._longitude(self.vertex_position)

    @cached_property
    def vertex_lat(self) -> Floats:
        """Latitude of the vertices."""
        return self._latitude(self.vertex_position)

    @cached_property
    def vertex_area(self) -> Floats:
        """Area of the Voronoi dual cell around each vertex."""
        return self._dual_area(self._circumcentres)

    @cached_property
    def median_area(self) -> Floats:
        """Area of the median dual cell around each vertex."""
        return self._dual_area(self._centroids)

    @cached_property
    def edge_position(self) -> Floats:
        """Position of the midpoints of the edges, Cartesian."""
        return _frozen(self.surface.midpoint(*self._ends))

    @cached_property
    def edge_lon(self) -> Floats:
        """Longitude of the midpoints of the edges, from -180 to 180."""
        return self._longitude(self.edge_position)

    @cached_property
    def edge_lat(self) -> Floats:
        """Latitude of the midpoints of the edges."""
        return self._latitude(self.edge_position)

    @cached_property
    def edge_length(self) -> Floats:
        """Length of the edges."""
        return _frozen(self.surface.distance(*self._ends))

    @cached_property
    def dual_edge_length(self) -> Floats:
        """Distance of the circumcentres of the two cells of an edge, negative where they have changed sides.

        At a boundary it is the distance from the only cell's circumcentre to the middle of the edge.
        """
        left, right = self._sides(self._circumcentres)
        across = np.einsum("ei,ei->e", right - left, self.edge_normal)
        return _frozen(np.copysign(self.surface.distance(left, right), across))

    @cached_property
    def edge_tangent(self) -> Floats:
        """Unit vector along the edge, from its first to its second vertex, at its midpoint."""
        start, stop = self._ends
        return _frozen((stop - start) / np.linalg.norm(stop - start, axis=-1, keepdims=True))

    @cached_property
    def edge_normal(self) -> Floats:
        """Unit vector across the edge, from its first (left) to its second (right) cell, at its midpoint."""
        return _frozen(np.cross(self.edge_tangent, self.surface.up(self.edge_position)))

    @cached_property
    def edge_normal_east(self) -> Floats:
        """Eastward component of the edge normal."""
        return self._eastward(self.edge_normal)

    @cached_property
    def edge_normal_north(self) -> Floats:
        """Northward component of the edge normal."""
        return self._northward(self.edge_normal)

    @cached_property
    def edge_on_boundary(self) -> NDArray[np.bool_]:
        """True where an edge has one cell only."""
        return _frozen(self.tables["E2C"][:, 1] < 0)

    @cached_property
    def median_face(self) -> Floats:
        """Face of the median dual mesh that an edge crosses, as its normal times its length.

        It points from the edge's first to its second vertex. At a boundary it ends in the middle of the edge.
        """
        left, right = self._sides(self._centroids)
        middle = self.edge_position
        return _frozen(self.surface.face(right, middle) + self.surface.face(middle, left))

    @cached_property
    def median_face_east(self) -> Floats:
        """Eastward component of the median dual face."""
        return self._eastward(self.median_face)

    @cached_property
    def median_face_north(self) -> Floats:
        """Northward component of the median dual face."""
        return self._northward(self.median_face)

    @cached_property
    def cell_position(self) -> Floats:
        """Position of the circumcentres of the cells, Cartesian."""
        return _frozen(self._circumcentres)

    @cached_property
    def cell_lon(self) -> Floats:
        """Longitude of the circumcentres of the cells, from -180 to 180."""
        return self._longitude(self.cell_position)

    @cached_property
    def cell_lat(self) -> Floats:
        """Latitude of the circumcentres of the cells."""
        return self._latitude(self.cell_position)

    @cached_property
    def cell_area(self) -> Floats:
        """Area of the cells."""
        return _frozen(self.surface.area(*self._corners))

    # The rest serves the properties above.

    @cached_property
    def _corners(self) -> tuple[Floats, Floats, Floats]:
        """The corners of every cell, each in the periodic image next to the first corner."""
        a, b, c = (self.points[column] for column in self.tables["C2V"].T)
        return a, self.surface.near(a, b), self.surface.near(a, c)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        start, stop = (self.points[column] for column in self.tables["E2V"].T)
        return start, self.surface.near(start, stop)

    @cached_property
    def _circumcentres(self) -> Floats:
        return self.surface.circumcentre(*self._corners)

    @cached_property
    def _centroids(self) -> Floats:
        return self.surface.centroid(*self._corners)

    def _sides(self, centres: Floats) -> tuple[Floats, Floats]:
        """Centres of the left and right cell of every edge; the edge's own midpoint where there is no cell."""
        left, right = self.tables["E2C"].T
        middle = self.edge_position
        beyond = self.surface.near(middle, centres[right])
        return self.surface.near(middle, centres[left]), np.where((right < 0)[:, None], middle, beyond)

    def _dual_area(self, centres: Floats) -> Floats:
        """Per vertex, the parts of its cells between the vertex, the middles of two edges, and the cell's centre."""
        total = np.zeros(len(self.points))
        corners = self._corners
        for k in range(3):
            here, following, previous = corners[k], corners[(k + 1) % 3], corners[(k + 2) % 3]
            part = self.surface.area(here, self.surface.midpoint(here, following), centres)
            part = part + self.surface.area(here, centres, self.surface.midpoint(here, previous))
            total += np.bincount(self.tables["C2V"][:, k], weights=part, minlength=len(total))
        return _frozen(total)

    def _eastward(self, vectors: Floats) -> Floats:
        return _frozen(np.einsum("ei,ei->e", vectors, self.surface.east(self.edge_position)))

    def _northward(self, vectors: Floats) -> Floats:
        middle = self.edge_position
        north = np.cross(self.surface.up(middle), self.surface.east(middle))
        return _frozen(np.einsum("ei,ei->e", vectors, north))

    def _longitude(self, positions: Floats) -> Floats:
        self._require_sphere()
        return _frozen(np.degrees(np.arctan2(positions[:, 1], positions[:, 0])))

    def _latitude(self, positions: Floats) -> Floats:
        self._require_sphere()
        return _frozen(np.degrees(np.arctan2(positions[:, 2], np.hypot(positions[:, 0], positions[:, 1]))))

    def _require_sphere(self) -> None:
        if isinstance(self.surface, Plane):
            raise ValueError("a mesh on a plane has no longitudes and latitudes: use the positions.")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array as contiguous memory of its own that nobody can write to."""
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array
