"""Which dims of files are which dims of a program: as `--rename` says, or as the attributes of coordinates say.

A program's I, J, K or X, Y, Z, T that an array lacks is the array's axis X, Y, Z, T by the CF conventions (`axis`,
`standard_name`, units of degrees; dates are T), where exactly one dim that the program does not know is that axis.
Results have the names of the files again.

>>> import numpy as np
>>> import xarray as xr
>>> north = {"lat": ("lat", [50.0, 51.0], {"units": "degrees_north"})}
>>> names = Names.of({"h": ("J", "time")}, {"h": xr.DataArray(np.ones((2, 3)), dims=("lat", "time"), coords=north)}, ())
>>> names.pairs, names.told
({'lat': 'J'}, ('lat is J: it is the axis Y by its attributes.',))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stencils.extras import needed
from tensorir.binding.arrays import kind_of, refuse
from tensorir.runtime.errors import did_you_mean

__all__ = ["Names"]

AXES = {"I": "X", "J": "Y", "K": "Z", "X": "X", "Y": "Y", "Z": "Z", "T": "T"}
"""The axes of a program's dims."""
COORDINATES = {"X": "longitude", "Y": "latitude", "Z": "vertical", "T": "time"}
"""The coordinates of CF that say an axis where no attribute `axis` does."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a program's dims by those of the files."""

    pairs: Mapping[str, str]
    told: tuple[str, ...] = ()
    """What was found without being said, a sentence each."""

    @staticmethod
    def of(dims: Mapping[str, Sequence[str]], arrays: Mapping[str, Any], given: Sequence[str]) -> Names:
        """The names for the dims of each parameter and the arrays that are passed, with options such as `lat=J`.

        Raises C13 for options that say nothing, C14 for a dim that no dim of an array is.
        """
        known = list(dict.fromkeys(d for names in dims.values() for d in names))
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray" and n in dims}
        pairs = _given(given, known, labelled)
        told: list[str] = []
        for name, array in labelled.items():
            have = [pairs.get(str(d), str(d)) for d in array.dims]
            for dim in [d for d in dims[name] if d not in have]:
                free = [str(d) for d in array.dims if str(d) not in known and str(d) not in pairs]
                axis = AXES.get(dim.upper())
                found = [d for d in free if axis in _axes_of(array, d)] if axis else []
                if len(found) != 1:
                    raise _missing(name, dim, array, free)
                pairs[found[0]] = dim
                told.append(f"{found[0]} is {dim}: it is the axis {axis} by its attributes.")
        return Names(pairs, tuple(told))

    def inside(self, array: Any) -> Any:
        """An array with the dims of the program."""
        own = {d: n for d, n in self.pairs.items() if d in getattr(array, "dims", ())}
        return array.rename(own) if own else array

    def outside(self, result: Any) -> Any:
        """A result with the dims of the files, members of tuples too."""
        if isinstance(result, tuple):
            return tuple(self.outside(member) for member in result)
        back: dict[str, str] = {}
        for dim, name in self.pairs.items():
            if name in getattr(result, "dims", ()) and name not in back:
                back[name] = dim
        return result.rename(back) if back else result


def _given(given: Sequence[str], known: Sequence[str], arrays: Mapping[str, Any]) -> dict[str, str]:
    have = list(dict.fromkeys(str(d) for a in arrays.values() for d in a.dims))
    pairs: dict[str, str] = {}
    for text in given:
        dim, _, name = text.partition("=")
        if not dim or not name:
            raise refuse("C13", f"'--rename {text}' does not say which dim is which.", "write --rename latitude=J.")
        if name not in known:
            raise refuse("C13", f"the program has no dim '{name}'.", did_you_mean(name, known))
        if dim not in have:
            raise refuse("C13", f"no input has a dim '{dim}'.", did_you_mean(dim, have))
        pairs[dim] = name
    return pairs


def _missing(name: str, dim: str, array: Any, free: Sequence[str]) -> Exception:
    have = " and ".join(map(str, array.dims)) or "none"
    hint = f"say which it is: --rename {free[0]}={dim}." if free else "give an array that has it."
    return refuse("C14", f"'{name}' needs the dim {dim}, and the dims of its array are {have}.", hint)


def _axes_of(array: Any, dim: str) -> set[str]:
    """The axes that the coordinates along a dim say it is."""
    needed("cf_xarray", "cli", "axes by their attributes")
    import cf_xarray  # noqa: F401  # puts `cf` on arrays

    along = {str(n) for n, c in array.coords.items() if c.dims == (dim,)}
    found = {a for a, n in COORDINATES.items() if along & {*array.cf.axes.get(a, ()), *array.cf.coordinates.get(n, ())}}
    if any(array.coords[n].dtype.kind == "M" for n in along):
        found.add("T")
    return found
