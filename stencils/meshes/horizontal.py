"""Which coordinate of a file is which, and in what unit: what CF's attributes say, and nothing that they do not.

Latitudes and longitudes are known by units alone (CF 4.1 and 4.2), or by `standard_name` or `axis` beside a unit of
angle; coordinates of a plane by a unit of length. What says too little, or two things, is refused.

>>> import xarray as xr
>>> north = xr.DataArray([60.0], dims="n", name="a", attrs={"units": "degrees_north"})
>>> east = xr.DataArray([180.0], dims="n", name="b", attrs={"units": "degree", "axis": "X"})
>>> horizontal("'grid.nc'", north, east)[::2]
((array([3.14159265]), array([1.04719755])), True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.binding.arrays import refuse

__all__ = ["decoded", "horizontal", "in_radians", "number"]

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

    found = decode_cf_variable(variable.name, variable.variable.to_base_variable(), decode_times=False)
    return np.asarray(found.values, float)


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
    found = [_meaning(file, c) for c in pair]
    if found[0][1] is not found[1][1]:
        raise _refused(file, b, f"and '{a.name}' are an angle and a length")
    first, second = (axis for axis, *_ in found)
    spherical = found[0][1] is ANGLES
    if first is None and second is None:
        if spherical:
            names = " and ".join(f"'{c.name}'" for c in pair)
            told = f"{file} does not say which of {names} is the longitude"
            hint = f"say it: data['{a.name}'].attrs['standard_name'] = 'longitude'."
            raise refuse("F08", f"{told}.", hint)
        first = "X"  # UGRID has x in front of y
    if first == second:
        raise _refused(file, b, f"is the axis {second}, and so is '{a.name}'")
    swapped = first == "Y" or second == "X"
    values = [decoded(c) * scale for c, (_, _, scale) in zip(pair, found, strict=True)]
    order = (1, 0) if swapped else (0, 1)
    x, y = (values[k] for k in order)
    return (x, y), (str(pair[order[0]].name), str(pair[order[1]].name)), spherical


def in_radians(file: str, angle: Any) -> Floats:
    """A longitude or a latitude, which is in radians where it has no unit."""
    return decoded(angle) * (_meaning(file, angle)[2] if "units" in angle.attrs else 1.0)


def _meaning(file: str, coordinate: Any) -> tuple[str | None, Mapping[str, float], float]:
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
            raise _refused(file, coordinate, f"is {coordinate.attrs['standard_name']} in {coordinate.attrs['units']}")
        units = name[1]
    if len(axes) > 1:
        raise _refused(file, coordinate, f"is said to be both axis {' and axis '.join(sorted(axes))}")
    if unit not in units:
        raise _refused(file, coordinate, f"has the unit '{unit}', which is not known here" if unit else "has no units")
    return next(iter(axes), None), units, units[unit]


def _refused(file: str, coordinate: Any, told: str) -> Exception:
    hint = f"say what it is: data['{coordinate.name}'].attrs['units'] = 'degrees_east', 'degrees_north' or 'm'."
    return refuse("F08", f"'{coordinate.name}' of {file} {told}.", hint)
