"""Meshes in files of other programs: UGRID, grids of ICON, MPAS.

What is read is what a mesh is made of (points, triangles, edges); tables and geometry follow from these as for every
other mesh, with the numbers of vertices, edges and cells, and the direction of edges, that the file has. Latitudes and
longitudes are known by units alone (CF 4.1 and 4.2), or by `standard_name` or `axis` beside a unit of angle;
coordinates of a plane by a unit of length. What says too little, or two things, is refused.

>>> from stencils.meshes import rectangle
>>> mesh = rectangle(3, 2)
>>> read(mesh.to_ugrid()).tables["E2C2V"].tolist() == mesh.tables["E2C2V"].tolist()
True
>>> import xarray as xr
>>> north = xr.DataArray([60.0], dims="n", name="a", attrs={"units": "degrees_north"})
>>> east = xr.DataArray([180.0], dims="n", name="b", attrs={"units": "degree", "axis": "X"})
>>> horizontal("'grid.nc'", north, east)[::2]
((array([3.14159265]), array([1.04719755])), True)
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stencils.cli.terminal import needed
from stencils.meshes.connectivity import Unoriented
from stencils.meshes.mesh import Mesh
from stencils.meshes.surfaces import Plane, Sphere
from stencils.meshes.triangulations import EARTH_RADIUS
from tensorir.runtime.errors import refuse

if TYPE_CHECKING:
    import xarray

Floats = NDArray[np.float64]

DEGREE = math.pi / 180
ANGLES = {
    **dict.fromkeys(("degree", "degrees", "deg", "arc_degree", "arc_degrees", "°"), DEGREE),
    **dict.fromkeys(("radian", "radians", "rad"), 1.0),
}
"""Units of angles in radians, in lower case."""
SUFFIXES = {"X": ("_east", "_e", "e"), "Y": ("_north", "_n", "n")}
"""What follows `degree` and `degrees` of longitudes and latitudes."""
LENGTHS = {
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), 1.0),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), 1e3),
}
"""Units of lengths in metres."""
STANDARD = {
    "longitude": ("X", ANGLES), "latitude": ("Y", ANGLES),
    "projection_x_coordinate": ("X", LENGTHS), "projection_y_coordinate": ("Y", LENGTHS),
}  # fmt: skip
"""The axis and the units of standard names."""


def decoded(variable: Any) -> Floats:
    """The numbers of a variable, unpacked if it is not yet."""
    from xarray.conventions import decode_cf_variable

    unpacked = decode_cf_variable(variable.name, variable.variable.to_base_variable(), decode_times=False)
    return np.asarray(unpacked.values, float)


def number(value: Any) -> float:
    """An attribute that is a number, or an array of one; raises F08 for any other."""
    try:
        return float(np.asarray(value).item())
    except ValueError:
        raise refuse("F08", f"an attribute is {value!r}, where a mesh needs one number.", "correct the file.") from None


def horizontal(file: str, a: Any, b: Any) -> tuple[tuple[Floats, Floats], tuple[str, str], bool]:
    """Two coordinates as x and y, their names, and whether they are longitude and latitude.

    Those are in radians, others in metres. Raises F08 where attributes do not say which is which, or in what unit.
    """
    pair = (a, b)
    meanings = [_read_meaning(file, c) for c in pair]
    if meanings[0][1] is not meanings[1][1]:
        raise _refuse(file, b, f"and '{a.name}' are an angle and a length")
    first, second = (axis for axis, *_ in meanings)
    spherical = meanings[0][1] is ANGLES
    if first is None and second is None:
        if spherical:
            names = " and ".join(f"'{c.name}'" for c in pair)
            message = f"{file} does not say which of {names} is the longitude"
            raise refuse("F08", f"{message}.", f"say it: data['{a.name}'].attrs['standard_name'] = 'longitude'.")
        first = "X"  # UGRID has x in front of y
    if first == second:
        raise _refuse(file, b, f"is the axis {second}, and so is '{a.name}'")
    swapped = first == "Y" or second == "X"
    values = [decoded(c) * scale for c, (_, _, scale) in zip(pair, meanings, strict=True)]
    order = (1, 0) if swapped else (0, 1)
    x, y = (values[k] for k in order)
    return (x, y), (str(pair[order[0]].name), str(pair[order[1]].name)), spherical


def in_radians(file: str, angle: Any) -> Floats:
    """A longitude or a latitude, which is in radians where it has no unit."""
    return decoded(angle) * (_read_meaning(file, angle)[2] if "units" in angle.attrs else 1.0)


def _read_meaning(file: str, coordinate: Any) -> tuple[str | None, Mapping[str, float], float]:
    """The axis of a coordinate, if anything says it, the units of its kind, and its own in radians or metres."""
    unit = str(coordinate.attrs.get("units", "")).strip().lower()
    axes = {str(coordinate.attrs["axis"]).upper()} if "axis" in coordinate.attrs else set[str]()
    for axis, suffixes in SUFFIXES.items():
        if unit.removeprefix("degrees").removeprefix("degree") in suffixes:
            axes.add(axis)
            unit = "degree"
    units = ANGLES if unit in ANGLES else LENGTHS
    if name := STANDARD.get(str(coordinate.attrs.get("standard_name"))):
        axes.add(name[0])
        if unit in units and units is not name[1]:
            raise _refuse(file, coordinate, f"is {coordinate.attrs['standard_name']} in {coordinate.attrs['units']}")
        units = name[1]
    if len(axes) > 1:
        raise _refuse(file, coordinate, f"is said to be both axis {' and axis '.join(sorted(axes))}")
    if unit not in units:
        raise _refuse(file, coordinate, f"has the unit '{unit}', which is not known here" if unit else "has no units")
    return next(iter(axes), None), units, units[unit]


def _refuse(file: str, coordinate: Any, why: str) -> Exception:
    hint = f"say what it is: data['{coordinate.name}'].attrs['units'] = 'degrees_east', 'degrees_north' or 'm'."
    return refuse("F08", f"'{coordinate.name}' of {file} {why}.", hint)


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """A Dataset as it is stored, and what it is called in messages."""

    data: Any
    name: str
    convention: str

    def __getitem__(self, variable: str) -> Any:
        """A variable of the file; raises F08 where a mesh of its convention needs it and it is missing."""
        if variable not in self.data.variables:
            message = f"{self.name} has no '{variable}', which a mesh of {self.convention} needs"
            raise refuse("F08", f"{message}.", "read the file of the grid: that of fields alone has no mesh.")
        return self.data[variable]

    def attribute(self, name: str, default: Any) -> Any:
        """A global attribute; texts of Fortran without the blanks behind."""
        value = self.data.attrs.get(name, default)
        return value.strip() if isinstance(value, str) else value

    def numbers(self, variable: str, first: int, dim: str | None = None) -> Ints:
        """A table counted from 0, -1 for what is missing; `dim` is that of the elements that its rows are of."""
        array = self[variable]
        if dim is not None and array.dims[-1] == dim and array.dims[0] != dim:
            array = array.transpose()
        values = np.asarray(array.values)
        fill = array.attrs.get("_FillValue", array.encoding.get("_FillValue"))
        missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        if fill is not None:
            missing |= values == fill
        counted = np.where(missing, 0, values).astype(np.int64) - first
        return np.where(missing | (counted < 0), -1, counted)


def read(source: str | os.PathLike[str] | xarray.Dataset, radius: float | None = None) -> Mesh:
    """The mesh of a file, or of a Dataset, of the conventions UGRID, ICON or MPAS.

    Triangles of ICON and UGRID are its cells. MPAS has polygons; their centres are the vertices of this mesh, and the
    triangles between three centres, which MPAS calls vertices, its cells: a field on MPAS's cells is one on Vertex.
    Vertices, edges and cells have the file's numbers, and an edge its direction, but that at a boundary it has its cell
    on the left. Triangles are turned counterclockwise. Where MPAS is cut out of a larger mesh, what belongs to no whole
    triangle is left out, with a warning. `radius` in metres takes the place of the file's.

    Raises F08 for a file that lacks what a mesh is made of, or does not say which coordinate is which in what unit,
    F09 for cells that are no triangles.
    """
    import xarray

    if isinstance(source, xarray.Dataset):
        return _read_mesh(source, "the Dataset", radius)
    if not Path(source).exists():
        raise refuse("F01", f"there is no file '{source}'.")
    needed("netCDF4", "cli", "files in NetCDF")
    try:
        with xarray.open_dataset(source, engine="netcdf4", mask_and_scale=False, decode_times=False) as data:
            return _read_mesh(data, f"'{source}'", radius)
    except OSError as problem:
        raise refuse("F02", f"'{source}' cannot be read as NetCDF: {str(problem).splitlines()[0]}.") from None


def _read_mesh(data: Any, name: str, radius: float | None) -> Mesh:
    """The mesh of a Dataset by the convention of its variables; raises F08 where it follows none. `radius` in metres
    replaces that of the file.
    """
    for convention, (hints, reader) in CONVENTIONS.items():
        if any(map(data.variables.__contains__, hints)) or (convention == "UGRID" and _find_topology(data) is not None):
            return reader(Source(data, name, convention), radius)
    message = (
        f"{name} has no mesh: no variable with cf_role 'mesh_topology' (UGRID), no 'vertex_of_cell' (ICON), and no "
    )
    raise refuse("F08", f"{message}'cellsOnVertex' (MPAS).", "read the file of the grid.")


def _find_topology(data: Any) -> Any:
    """The variable of a Dataset that describes a mesh of UGRID, None if there is none."""
    topologies = [v for v in data.variables.values() if v.attrs.get("cf_role") == "mesh_topology"]
    return topologies[0] if topologies else None


def _read_ugrid(source: Source, radius: float | None) -> Mesh:
    """A mesh by UGRID's conventions: tables and coordinates that the topology variable names, of faces with three
    corners.

    Longitudes and latitudes are on a sphere (its radius from a grid mapping, else the Earth's), other coordinates on a
    plane. Raises F08 for a missing attribute, F09 for a mesh that is not of two dimensions.
    """
    mesh = _find_topology(source.data)
    assert mesh is not None
    if number(mesh.attrs.get("topology_dimension", 2)) != 2:
        raise refuse("F09", f"{source.name} has a mesh of {mesh.attrs['topology_dimension']} dimensions, not of 2.")
    role = "face_node_connectivity"
    names = {key: str(mesh.attrs[key]).split() for key in ("node_coordinates", role) if key in mesh.attrs}
    for key in ("node_coordinates", role):
        if key not in names:
            raise refuse("F08", f"{source.name} says no '{key}' of its mesh, which one of UGRID needs.")
    if len(names["node_coordinates"]) < 2:
        message = f"{source.name} names '{mesh.attrs['node_coordinates']}' as 'node_coordinates' of its mesh"
        raise refuse("F08", f"{message}, and two are needed.", "name both: 'lon lat'.")
    corners = source[names[role][0]]
    faces = str(mesh.attrs.get("face_dimension", corners.dims[0]))
    cells = source.numbers(names[role][0], int(number(corners.attrs.get("start_index", 0))), faces)
    edges = None
    if edge_table := mesh.attrs.get("edge_node_connectivity"):
        first = int(number(source[edge_table].attrs.get("start_index", 0)))
        edges = source.numbers(edge_table, first, mesh.attrs.get("edge_dimension", source[edge_table].dims[0]))
    (x, y), called, spherical = horizontal(source.name, *(source[name] for name in names["node_coordinates"][:2]))
    if spherical:
        mappings = [v.attrs["earth_radius"] for v in source.data.variables.values() if "earth_radius" in v.attrs]
        surface = Sphere(radius or number(mappings[0] if mappings else EARTH_RADIUS))
        return _build(source, _place_on_sphere(source, x, y, called[1], surface.radius), cells, edges, surface)
    period = tuple(number(mesh.attrs[k]) if k in mesh.attrs else None for k in ("x_period", "y_period"))
    return _build(source, np.stack([x, y], axis=-1), cells, edges, Plane((period[0], period[1])))


def _read_icon(source: Source, radius: float | None) -> Mesh:
    """A mesh of ICON's grid generator: tables in Fortran's order and numbers, points in radians, or in metres on a
    plane torus.
    """
    of_cells, of_edges = source["vertex_of_cell"], source["edge_vertices"]
    # Fortran's order: the table's columns come first in the file
    cells = source.numbers("vertex_of_cell", 1, str(of_cells.dims[-1]))
    edges = source.numbers("edge_vertices", 1, str(of_edges.dims[-1]))
    if int(number(source.attribute("grid_geometry", 1))) == 2:  # a plane torus
        points = [decoded(source[f"cartesian_{c}_vertices"]) for c in "xy"]
        width, height = (source.attribute(k, None) for k in ("domain_length", "domain_height"))
        period = (None if width is None else number(width), None if height is None else number(height))
        return _build(source, np.stack(points, axis=-1), cells, edges, Plane(period))
    stated = source.attribute("sphere_radius", source.attribute("semi_major_axis", EARTH_RADIUS))
    surface = Sphere(radius or number(stated))
    lon, lat = (in_radians(source.name, source[name]) for name in ("vlon", "vlat"))
    points = _place_on_sphere(source, lon, lat, "vlat", surface.radius)
    return _build(source, points, cells, edges, surface)


def _read_mpas(source: Source, radius: float | None) -> Mesh:
    """A mesh of MPAS: its dual triangulation, whose vertices are the centres of MPAS's cells; points in metres.

    Triangles and edges that a regional mesh cut through are left out with a warning.
    """
    cells, edges = source.numbers("cellsOnVertex", 1), source.numbers("cellsOnEdge", 1)
    cells, edges = _keep_whole(source, cells, edges)
    position = [decoded(source[f"{c}Cell"]) for c in "xyz"]
    if str(source.attribute("on_a_sphere", "YES")).upper() == "YES":
        stated = number(source.attribute("sphere_radius", EARTH_RADIUS)) or EARTH_RADIUS
        surface = Sphere(radius or stated)
        points = np.stack(position, axis=-1)
        points *= surface.radius / np.linalg.norm(points, axis=-1, keepdims=True)
        return _build(source, points, cells, edges, surface)
    wraps = str(source.attribute("is_periodic", "NO")).upper() == "YES"
    width, height = (number(source.attribute(k, 0)) if wraps else 0.0 for k in ("x_period", "y_period"))
    return _build(source, np.stack(position[:2], axis=-1), cells, edges, Plane((width or None, height or None)))


def _keep_whole(source: Source, cells: Ints, edges: Ints) -> tuple[Ints, Ints]:
    """The triangles that have three corners, and the edges of these."""
    whole = (cells >= 0).all(axis=1)
    kept = cells[whole]
    count = int(max(cells.max(), edges.max())) + 1
    sides = np.sort(np.stack([kept, np.roll(kept, -1, axis=1)], axis=-1).reshape(-1, 2), axis=1)
    ends = np.sort(edges, axis=1)
    used = np.isin(ends[:, 0] * count + ends[:, 1], sides[:, 0] * count + sides[:, 1]) & (edges >= 0).all(axis=1)
    if not (whole.all() and used.all()):
        left_out = f"{int((~whole).sum())} triangles and {int((~used).sum())} edges"
        warnings.warn(f"{source.name} is cut out of a larger mesh, and {left_out} are left out", stacklevel=5)
    return kept, edges[used]


CONVENTIONS: dict[str, tuple[tuple[str, ...], Callable[[Source, float | None], Mesh]]] = {
    "UGRID": ((), _read_ugrid),
    "ICON": (("vertex_of_cell", "edge_of_cell", "clon_vertices"), _read_icon),
    "MPAS": (("cellsOnVertex", "verticesOnCell", "cellsOnCell"), _read_mpas),
}
"""How a convention is known: by variables that only it has (UGRID by a `cf_role`)."""


def _place_on_sphere(source: Source, lon: Floats, lat: Floats, latitude: str, radius: float) -> Floats:
    """Points of longitudes and latitudes in radians; raises F09 for a latitude beyond the poles."""
    most = float(np.abs(lat).max(initial=0.0))
    if most > np.pi / 2 + 1e-4:
        message = f"'{latitude}' of {source.name} goes to {np.degrees(most):.6g} degrees, and latitudes end at 90"
        raise refuse("F09", f"{message}.", f"correct its units: data['{latitude}'].attrs['units'] = 'degrees_north'.")
    return radius * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def _build(source: Source, points: Floats, cells: Ints, edges: Ints | None, surface: Sphere | Plane) -> Mesh:
    """The mesh of points and cells, corners counterclockwise; `cells` may have columns of -1 beside three corners.

    Raises F09 for cells that are no triangles, numbers beyond the points, and triangles that overlap.
    """
    corners = (cells >= 0).sum(axis=1)
    if (corners != 3).any():
        k = int(np.flatnonzero(corners != 3)[0])
        message = f"cell {k} of {source.name} has {corners[k]} corners, and meshes here are of triangles"
        raise refuse("F09", f"{message}.", "cut its polygons into triangles first.")
    triangles = np.take_along_axis(cells, np.argsort(cells < 0, axis=1, kind="stable"), axis=1)[:, :3]
    if triangles.max() >= len(points):
        message = f"a cell of {source.name} has corner {triangles.max()}, and there are {len(points)} points."
        raise refuse("F09", message)
    a = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))[triangles]
    clockwise = surface.area(a[:, 0], surface.near(a[:, 0], a[:, 1]), surface.near(a[:, 0], a[:, 2])) < 0
    triangles = np.where(clockwise[:, None], triangles[:, [0, 2, 1]], triangles)
    try:
        return Mesh.of_triangles(points, triangles, surface, edges)
    except Unoriented:
        kind = "a sphere" if isinstance(surface, Sphere) else "a plane"
        message = f"triangles of {source.name} lie over each other on {kind}"
        raise refuse("F09", f"{message}.", "see the units of its coordinates, and its tables.") from None
    except ValueError as problem:
        raise refuse("F09", f"{source.name} is no triangulation: {problem}") from None
