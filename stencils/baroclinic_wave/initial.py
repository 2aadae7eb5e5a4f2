"""A zonal jet in balance, and the perturbation that grows into a baroclinic wave.

Jablonowski and Williamson, Q. J. R. Meteorol. Soc. 132 (2006), equations 2 to 10; in their test levels are fractions of
the surface pressure, 1000 hPa.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stencils.data.sphere import GRAVITY, ROTATION
from stencils.meshes import EARTH_RADIUS

Floats = NDArray[np.float64]

U0 = 35.0
ETA0 = 0.252
TROPOPAUSE = 0.2
GAS = 287.0
LAPSE = 0.005


def zonal_wind(lat: ArrayLike, eta: ArrayLike) -> Floats:
    """Eastward wind in m/s at latitudes in degrees and levels eta, broadcast.

    >>> float(zonal_wind(45.0, 0.252))
    35.0
    """
    return U0 * np.cos(_turned(eta)) ** 1.5 * np.sin(2 * np.radians(lat)) ** 2


def temperature(lat: ArrayLike, eta: ArrayLike) -> Floats:
    """Temperature in K that balances the wind.

    >>> round(float(temperature(90.0, 1.0)), 1) < 288 < round(float(temperature(0.0, 1.0)), 1)
    True
    """
    eta = np.asarray(eta, np.float64)
    mean = 288.0 * eta ** (GAS * LAPSE / GRAVITY) + 4.8e5 * np.maximum(TROPOPAUSE - eta, 0.0) ** 5
    turned = _turned(eta)
    factor = 0.75 * eta * np.pi * U0 / GAS * np.sin(turned) * np.sqrt(np.cos(turned))
    return mean + factor * _bracket(lat, 2.0 * U0 * np.cos(turned) ** 1.5)


def surface_geopotential(lat: ArrayLike) -> Floats:
    """Geopotential of the ground in m²/s² under which the surface pressure is 1000 hPa everywhere."""
    wind = U0 * np.cos(_turned(1.0)) ** 1.5
    return wind * _bracket(lat, wind)


def perturbation(lon: ArrayLike, lat: ArrayLike) -> Floats:
    """Eastward wind in m/s of the perturbation: a Gaussian hill of 1 m/s around 20° E, 40° N.

    >>> round(float(perturbation(20.0, 40.0)), 6)
    1.0
    """
    lon, lat = np.radians(lon), np.radians(lat)
    lon0, lat0 = np.radians(20.0), np.radians(40.0)
    cosine = np.sin(lat0) * np.sin(lat) + np.cos(lat0) * np.cos(lat) * np.cos(lon - lon0)
    return np.exp(-((np.arccos(np.clip(cosine, -1.0, 1.0)) * 10.0) ** 2))


def _turned(eta: ArrayLike) -> Floats:
    return (np.asarray(eta, np.float64) - ETA0) * np.pi / 2


def _bracket(lat: ArrayLike, wind: Floats) -> Floats:
    s, c = np.sin(np.radians(lat)), np.cos(np.radians(lat))
    relative = -2.0 * s**6 * (c**2 + 1.0 / 3.0) + 10.0 / 63.0
    planetary = 1.6 * c**3 * (s**2 + 2.0 / 3.0) - np.pi / 4.0
    return relative * wind + planetary * EARTH_RADIUS * ROTATION
