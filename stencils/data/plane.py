"""Analytic fields on a plane, and names and units of what is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

# Names and units for results that can carry them.

Values = Any
"""A number, a NumPy array or a DataArray; what comes out is of the kind that went in."""


def labelled(values: Values, name: str, units: str, long_name: str) -> Values:
    """The same values; a DataArray gets the name and, as its only attributes, the units and the long name."""
    if hasattr(values, "attrs"):
        values = values.rename(name)
        values.attrs = {"units": units, "long_name": long_name}
    return values


# Analytic fields on a plane, with x along the dim I and y along J, in metres.


def nodes(n: int, m: int, width: float = 1.0, height: float = 1.0) -> tuple[xarray.DataArray, xarray.DataArray]:
    """x (I) and y (J) of n times m points in metres, the first and last of which lie on the edges.

    >>> x, y = nodes(3, 2)
    >>> x.values.tolist(), y.values.tolist()
    ([0.0, 0.5, 1.0], [0.0, 1.0])
    """
    return _axis("x", "I", np.linspace(0.0, width, n)), _axis("y", "J", np.linspace(0.0, height, m))


def centres(n: int, m: int, width: float = 1.0, height: float = 1.0) -> tuple[xarray.DataArray, xarray.DataArray]:
    """x (I) and y (J) of the middles of n times m equal boxes in metres.

    >>> x, y = centres(2, 4)
    >>> x.values.tolist(), y.values.tolist()
    ([0.25, 0.75], [0.125, 0.375, 0.625, 0.875])
    """
    x, y = (np.arange(n) + 0.5) * (width / n), (np.arange(m) + 0.5) * (height / m)
    return _axis("x", "I", x), _axis("y", "J", y)


def gaussian(
    x: Values, y: Values, centre: tuple[float, float] = (0.5, 0.5), width: float = 0.1, height: float = 1.0
) -> Values:
    """A round hill, height · exp(-r²/width²), in units of its height.

    >>> float(gaussian(0.5, 0.5, height=3.0))
    3.0
    """
    squares = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
    return labelled(height * np.exp(-squares / width**2), "hill", "1", "Gaussian hill")


def rotating_wind(
    x: Values, y: Values, centre: tuple[float, float] = (0.5, 0.5), angular_velocity: float = 2 * np.pi
) -> tuple[Values, Values]:
    """u and v in m/s of a rigid rotation around the centre, counterclockwise, with its angular velocity in 1/s.

    >>> u, v = rotating_wind(0.5, 0.6, angular_velocity=2.0)
    >>> round(float(u), 12), round(float(v), 12)
    (-0.2, 0.0)
    """
    u = -angular_velocity * (y - centre[1]) + 0.0 * x
    v = angular_velocity * (x - centre[0]) + 0.0 * y
    return labelled(u, "u", "m s-1", "Wind along x"), labelled(v, "v", "m s-1", "Wind along y")


def heat_mode(
    x: Values,
    y: Values,
    size: tuple[float, float] = (1.0, 1.0),
    mode: tuple[int, int] = (1, 1),
    diffusivity: float = 1.0,
    time: float = 0.0,
) -> Values:
    """A solution in K of the heat equation, zero on the edges: sin(kx) sin(ly) exp(-diffusivity·(k² + l²)·time).

    Here k = mode π / size; `size` is in metres, the diffusivity in m²/s, the time in s.

    >>> float(heat_mode(0.5, 0.5))
    1.0
    """
    k, l = (number * np.pi / length for number, length in zip(mode, size, strict=True))
    decay = np.exp(-diffusivity * (k**2 + l**2) * time)
    return labelled(decay * np.sin(k * x) * np.sin(l * y), "temperature", "K", "Decaying heat mode")


def seiche(
    x: Values,
    y: Values,
    size: tuple[float, float],
    mode: tuple[int, int] = (1, 0),
    amplitude: float = 1.0,
    depth: float = 1.0,
    gravity: float = 9.80616,
    time: float = 0.0,
) -> Values:
    """The surface in m of a standing gravity wave in a closed basin: amplitude · cos(kx) cos(ly) cos(ωt).

    Here k = mode π / size and ω² = gravity · depth · (k² + l²); it solves the linear equations without rotation.

    >>> float(seiche(0.0, 0.0, size=(10.0, 10.0)))
    1.0
    """
    k, l = (number * np.pi / length for number, length in zip(mode, size, strict=True))
    frequency = np.sqrt(gravity * depth * (k**2 + l**2))
    surface = amplitude * np.cos(frequency * time) * np.cos(k * x) * np.cos(l * y)
    return labelled(surface, "eta", "m", "Standing wave in a basin")


def _axis(name: str, dim: str, values: np.ndarray) -> xarray.DataArray:
    import xarray

    return xarray.DataArray(values, dims=dim, name=name, attrs={"units": "m", "long_name": f"{name} position"})
