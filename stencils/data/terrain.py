"""Real terrain and bathymetry, from the sample data that matplotlib installs.

Both are DataArrays of elevations above sea level with the dims (J, I), J going north and I east, and with the
coordinates `lat` and `lon` on them, so that programs written in I and J take them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stencils.cli.terminal import needed
from stencils.meshes import EARTH_RADIUS

if TYPE_CHECKING:
    import xarray


def jacksboro_fault(dims: tuple[str, str] = ("J", "I")) -> xarray.DataArray:
    """Elevation in m around the Jacksboro fault in Tennessee, 344 rows by 403 columns, three arc seconds apart.

    >>> hills = jacksboro_fault()
    >>> hills.shape, float(hills.min()), float(hills.max())
    ((344, 403), 236.0, 1076.0)
    >>> [round(float(end), 3) for end in (hills.lon[0], hills.lon[-1], hills.lat[0], hills.lat[-1])]
    [-84.413, -84.078, 36.447, 36.733]
    """
    sample = _sample("jacksboro_fault_dem.npz", ("elevation", "xmin", "ymin", "xmax", "ymax"))
    elevation = sample["elevation"][::-1]  # the file begins in the north
    rows, columns = elevation.shape
    lon = _middles(float(sample["xmin"]), float(sample["xmax"]), columns)
    south, north = sorted((float(sample["ymin"]), float(sample["ymax"])))
    lat = _middles(south, north, rows)
    return _elevation(
        elevation, lon, lat, dims, "Terrain around the Jacksboro fault, Tennessee", "jacksboro_fault_dem.npz"
    )


def topobathy(dims: tuple[str, str] = ("J", "I")) -> xarray.DataArray:
    """Elevation in m, negative below the sea, around Vancouver Island: 91 rows by 120 columns.

    >>> coast = topobathy()
    >>> coast.shape, round(float((coast < 0).mean()), 2)
    ((91, 120), 0.44)
    """
    sample = _sample("topobathy.npz", ("topo", "longitude", "latitude"))
    lon, lat = sample["longitude"].astype(float), sample["latitude"].astype(float)
    return _elevation(sample["topo"], lon, lat, dims, "Terrain and bathymetry around Vancouver Island", "topobathy.npz")


def spacing(field: xarray.DataArray, radius: float = EARTH_RADIUS) -> tuple[float, float]:
    """The mean distances dx and dy in m between the points of a field with coordinates `lon` and `lat`.

    >>> dx, dy = spacing(jacksboro_fault())
    >>> round(dx, 1), round(dy, 1)
    (74.4, 92.7)
    """
    if missing := [name for name in ("lon", "lat") if name not in field.coords]:
        raise ValueError(f"the field has no coordinate {missing[0]!r} to take distances from.")
    lon, lat = np.radians(field.lon.values), np.radians(field.lat.values)
    if lon.size < 2 or lat.size < 2:
        raise ValueError("a distance between points needs two longitudes and two latitudes.")
    dlon, dlat = (lon[-1] - lon[0]) / (lon.size - 1), (lat[-1] - lat[0]) / (lat.size - 1)
    return float(abs(radius * np.cos(lat.mean()) * dlon)), float(abs(radius * dlat))


def _middles(low: float, high: float, count: int) -> np.ndarray:
    """The middles of equal pixels between two outer edges."""
    return low + (np.arange(count) + 0.5) * ((high - low) / count)


def _elevation(
    values: np.ndarray, lon: np.ndarray, lat: np.ndarray, dims: tuple[str, str], title: str, file: str
) -> xarray.DataArray:
    """Elevations in metres as a DataArray on the dims `dims` (rows by latitude, columns by longitude), degrees as
    coordinates.
    """
    import xarray

    row, column = dims
    coords = {
        "lat": (row, lat, {"units": "degrees_north", "standard_name": "latitude", "long_name": "Latitude"}),
        "lon": (column, lon, {"units": "degrees_east", "standard_name": "longitude", "long_name": "Longitude"}),
    }
    attrs = {"units": "m", "standard_name": "surface_altitude", "long_name": title, "source": f"matplotlib, {file}"}
    return xarray.DataArray(np.array(values, dtype=np.float64, order="C"), coords, dims, "elevation", attrs)


def _sample(name: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """The arrays `keys` of one of matplotlib's sample files; raises ValueError where it is not installed."""
    needed("matplotlib", "plot", "the sample data of matplotlib")
    from matplotlib.cbook import get_sample_data

    try:
        with np.load(get_sample_data(name, asfileobj=False)) as file:
            return {key: file[key] for key in keys}
    except (OSError, KeyError) as problem:
        raise ValueError(f"this installation of matplotlib lacks its sample data {name!r}: {problem}") from problem
