"""xarray at the edge: coordinates, names and attributes from the DataArrays that came in to the ones that go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.arrays import Array, intervals_of, kind_of, leaves_of, starts_of
from tensorir.ir import Fencil, Var
from tensorir.types import Dims, Interval

__all__ = ["Labels"]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the DataArrays of a call say of their dims.

    The first array that shares dims with a result gives it name and attributes; coordinates are cut to its interval.
    """

    sources: tuple[tuple[Any, Dims], ...]
    own: Mapping[str, Any]

    @staticmethod
    def of(fencil: Fencil, arguments: Mapping[str, Any]) -> Labels:
        """The labels of a call; intervals are those of coordinates, or start where the parameter does."""
        found: list[tuple[Any, Dims]] = []
        own: dict[str, Any] = {}
        for p in fencil.params:
            if p.name not in arguments:
                continue
            for _, _, leaf in leaves_of(arguments[p.name], p.type.element, p.name):
                if kind_of(leaf) == "xarray" and hasattr(leaf, "coords"):
                    found.append((leaf, intervals_of(leaf, starts_of(p.type.dims))))
                    own.setdefault(p.name, leaf)
        return Labels(tuple(found), own)

    def attach(self, param: Var, array: Array) -> Any:
        """A result as a DataArray."""
        import xarray as xr

        dims = param.type.dims
        coords: dict[str, Any] = {}
        for source, have in self.sources:
            for name, coordinate in source.coords.items():
                if name in coords or not all(str(d) in dims for d in coordinate.dims):
                    continue
                if all(have[str(d)].covers(dims[str(d)]) for d in coordinate.dims):
                    part = {d: _part(have[str(d)], dims[str(d)]) for d in coordinate.dims}
                    coords[str(name)] = coordinate.isel(part).variable
        for name, interval in dims.items:
            if name not in coords and interval.start:
                # an interval that does not start at 0 is kept by a coordinate of its own
                coords[name] = (name, np.arange(interval.start, interval.stop))
        model = self.own.get(param.name)
        if model is None:
            overlap = [s for s, have in self.sources if set(have.names) & set(dims.names) and "_NB_" not in str(have)]
            model = next(iter(overlap), None)
        return xr.DataArray(
            array, dims=dims.names, coords=coords,
            name=None if model is None else model.name, attrs={} if model is None else dict(model.attrs),
        )  # fmt: skip


def _part(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
