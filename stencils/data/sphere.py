"""Analytic fields on the sphere, from longitudes and latitudes in degrees.

Winds, the cosine bell, the balanced height and the wave are those of the shallow-water test set of Williamson, Drake,
Hack, Jakob and Swarztrauber (J. Comput. Phys. 102, 1992); the slotted cylinder is that of Lauritzen, Skamarock, Prather
and Taylor (Geosci. Model Dev. 5, 2012). Angles are degrees, lengths metres, times seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stencils.data.plane import Values, labelled
from stencils.meshes import EARTH_RADIUS

if TYPE_CHECKING:
    import xarray

GRAVITY = 9.80616
"""Gravity in m/s²."""

ROTATION = 7.292e-5
"""Angular velocity of the Earth in 1/s."""

TWELVE_DAYS = 2 * np.pi * EARTH_RADIUS / (12 * 86400)
"""The speed in m/s that goes once around the equator in twelve days."""


def longitudes_latitudes(n: int, m: int) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Longitudes (I) from -180 on, and latitudes (J) that keep half a step from the poles, in degrees.

    >>> lon, lat = longitudes_latitudes(4, 2)
    >>> lon.values.tolist(), lat.values.tolist()
    ([-180.0, -90.0, 0.0, 90.0], [-45.0, 45.0])
    """
    import xarray

    longitudes, latitudes = -180.0 + np.arange(n) * (360.0 / n), -90.0 + (np.arange(m) + 0.5) * (180.0 / m)
    return (
        xarray.DataArray(longitudes, dims="I", name="lon", attrs={"units": "degrees_east", "long_name": "Longitude"}),
        xarray.DataArray(latitudes, dims="J", name="lat", attrs={"units": "degrees_north", "long_name": "Latitude"}),
    )


def angular_distance(lon: Values, lat: Values, centre: tuple[float, float]) -> Values:
    """The angle in degrees between each point and the centre (longitude, latitude), exact for small ones too.

    >>> round(float(angular_distance(90.0, 0.0, (0.0, 0.0))), 9)
    90.0
    """
    dlon, dlat = np.radians(lon - centre[0]), np.radians(lat - centre[1])
    across = np.cos(np.radians(lat)) * np.cos(np.radians(centre[1])) * np.sin(dlon / 2) ** 2
    angle = 2 * np.arcsin(np.minimum(np.sqrt(np.sin(dlat / 2) ** 2 + across), 1.0))
    return labelled(np.degrees(angle), "distance", "degrees", "Angular distance")


def gaussian_hill(
    lon: Values, lat: Values, centre: tuple[float, float] = (0.0, 0.0), width: float = 20.0, height: float = 1.0
) -> Values:
    """A round hill, height · exp(-(angle/width)²), with its width in degrees.

    >>> float(gaussian_hill(0.0, 0.0, height=3.0))
    3.0
    """
    hill = height * np.exp(-((angular_distance(lon, lat, centre) / width) ** 2))
    return labelled(hill, "hill", "1", "Gaussian hill")


def cosine_bell(
    lon: Values,
    lat: Values,
    centre: tuple[float, float] = (-90.0, 0.0),
    radius: float = np.degrees(1 / 3),
    height: float = 1000.0,
) -> Values:
    """A bell, height/2 · (1 + cos(π·angle/radius)) within its radius in degrees and 0 outside, in m (test 1).

    >>> float(cosine_bell(-90.0, 0.0)), float(cosine_bell(90.0, 0.0))
    (1000.0, 0.0)
    """
    angle = angular_distance(lon, lat, centre)
    bell = (angle < radius) * (height / 2) * (1 + np.cos(np.pi * angle / radius))
    return labelled(bell, "bell", "m", "Cosine bell")


def slotted_cylinder(
    lon: Values, lat: Values, centre: tuple[float, float] = (0.0, 0.0), radius: float = np.degrees(0.5)
) -> Values:
    """1 in a disc of this radius in degrees, 0 outside and in a slot that is open to the north, a third of it wide.

    >>> [float(slotted_cylinder(0.0, lat)) for lat in (-20.0, 0.0, 40.0)]
    [1.0, 0.0, 0.0]
    """
    inside = angular_distance(lon, lat, centre) <= radius
    east = (lon - centre[0] + 180.0) % 360.0 - 180.0
    slot = (np.abs(east) < radius / 6) & (lat - centre[1] > -5 / 12 * radius)
    return labelled(1.0 * (inside & ~slot), "tracer", "1", "Slotted cylinder")


def solid_body_wind(lon: Values, lat: Values, speed: float = TWELVE_DAYS, tilt: float = 0.0) -> tuple[Values, Values]:
    """Eastward and northward wind in m/s of a rigid rotation whose axis is tilted by this angle in degrees (test 1).

    >>> u, v = solid_body_wind(0.0, 60.0, speed=10.0)
    >>> round(float(u), 12), round(float(v), 12)
    (5.0, 0.0)
    """
    lon, lat, tilt = np.radians(lon), np.radians(lat), np.radians(tilt)
    u = speed * (np.cos(lat) * np.cos(tilt) + np.cos(lon) * np.sin(lat) * np.sin(tilt))
    v = -speed * np.sin(lon) * np.sin(tilt) + 0.0 * lat
    return labelled(u, "u", "m s-1", "Eastward wind"), labelled(v, "v", "m s-1", "Northward wind")


def rotated(lon: Values, lat: Values, angle: float, tilt: float = 0.0) -> tuple[Values, Values]:
    """Points after a rigid rotation by this angle around the axis of `solid_body_wind`, in degrees.

    A field that this wind carries for a time t is, exactly, its first state at the points rotated by -speed·t/radius.

    >>> lon, lat = rotated(10.0, 20.0, angle=30.0)
    >>> round(float(lon), 12), round(float(lat), 12)
    (40.0, 20.0)
    """
    lon, lat, angle, tilt = np.radians(lon), np.radians(lat), np.radians(angle), np.radians(tilt)
    x, y, z = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0.0 * lon
    along = np.cos(tilt) * z - np.sin(tilt) * x  # height above the plane of rotation
    out = np.cos(tilt) * x + np.sin(tilt) * z  # towards longitude 0 in that plane
    out, y = out * np.cos(angle) - y * np.sin(angle), out * np.sin(angle) + y * np.cos(angle)
    x, z = np.cos(tilt) * out - np.sin(tilt) * along, np.sin(tilt) * out + np.cos(tilt) * along
    return (
        labelled(np.degrees(np.arctan2(y, x)), "lon", "degrees_east", "Longitude"),
        labelled(np.degrees(np.arctan2(z, np.hypot(x, y))), "lat", "degrees_north", "Latitude"),
    )


def geostrophic_height(
    lon: Values,
    lat: Values,
    speed: float = TWELVE_DAYS,
    tilt: float = 0.0,
    height: float = 2.94e4 / GRAVITY,
    radius: float = EARTH_RADIUS,
) -> Values:
    """The height in m that balances `solid_body_wind` where the Earth turns around the same axis (test 2).

    >>> round(float(geostrophic_height(0.0, 0.0)), 3)
    2998.115
    """
    lon, lat, tilt = np.radians(lon), np.radians(lat), np.radians(tilt)
    sine = np.sin(lat) * np.cos(tilt) - np.cos(lon) * np.cos(lat) * np.sin(tilt)
    fall = (radius * ROTATION * speed + speed**2 / 2) / GRAVITY
    return labelled(height - fall * sine**2, "h", "m", "Height in balance with a rotation")


def rossby_haurwitz(
    lon: Values,
    lat: Values,
    wavenumber: int = 4,
    rate: float = 7.848e-6,
    height: float = 8000.0,
    radius: float = EARTH_RADIUS,
) -> tuple[Values, Values, Values]:
    """Height in m, eastward and northward wind in m/s of a Rossby-Haurwitz wave (test 6).

    `rate` is in 1/s both the zonal flow's and the wave's strength, `height` the one at the poles.

    >>> h, u, v = rossby_haurwitz(0.0, 90.0)
    >>> round(float(h), 9), round(float(u), 9), round(float(v), 9)
    (8000.0, 0.0, -0.0)
    """
    lon, lat = np.radians(lon), np.radians(lat)
    number, sine, cosine = wavenumber, np.sin(lat), np.cos(lat)
    squared, power = cosine**2, cosine ** (wavenumber - 1)

    wave = number * sine**2 - squared
    u = radius * rate * (cosine + power * wave * np.cos(number * lon))
    v = -radius * rate * number * power * sine * np.sin(number * lon)

    in_first = (number + 1) * squared**2 + (2 * number**2 - number - 2) * squared - 2 * number**2
    constant = rate / 2 * (2 * ROTATION + rate) * squared + rate**2 / 4 * power**2 * in_first
    in_second = (number**2 + 2 * number + 2) - (number + 1) ** 2 * squared
    once = 2 * (ROTATION + rate) * rate / ((number + 1) * (number + 2)) * cosine * power * in_second
    twice = rate**2 / 4 * squared * power**2 * ((number + 1) * squared - (number + 2))
    waves = constant + once * np.cos(number * lon) + twice * np.cos(2 * number * lon)
    h = height + radius**2 / GRAVITY * waves
    return (
        labelled(h, "h", "m", "Height of a Rossby-Haurwitz wave"),
        labelled(u, "u", "m s-1", "Eastward wind"),
        labelled(v, "v", "m s-1", "Northward wind"),
    )


def sectoral_harmonic(lon: Values, lat: Values, order: int = 3) -> Values:
    """cos(lat)^order · cos(order·lon): its Laplacian on a sphere is -order·(order + 1)/radius² times itself.

    >>> round(float(sectoral_harmonic(60.0, 0.0)), 12)
    -1.0
    """
    lon, lat = np.radians(lon), np.radians(lat)
    return labelled(np.cos(lat) ** order * np.cos(order * lon), "harmonic", "1", "Sectoral harmonic")
