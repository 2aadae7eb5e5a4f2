"""xarray at the edge: coordinates, names and attributes from the DataArrays that came in to the ones that go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.arrays import Array, interval_of, kind_of, leaves_of
from tensorir.ir import Fencil, Var
from tensorir.labels import Place, labels_of
from tensorir.types import Dims, Interval

__all__ = ["Labels"]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the DataArrays of a call say of their dims.

    The first array that shares dims with a result gives it name and attributes; coordinates are cut to its interval.
    """

    sources: tuple[tuple[Any, Dims], ...]
    own: Mapping[str, Any]
    place: Place

    @staticmethod
    def of(fencil: Fencil, arguments: Mapping[str, Any], place: Place) -> Labels:
        """The labels of a call; intervals are those of its place."""
        found: list[tuple[Any, Dims]] = []
        own: dict[str, Any] = {}
        for p in fencil.params:
            if p.name not in arguments:
                continue
            for name, _, leaf in leaves_of(arguments[p.name], p.type.element, p.name):
                if kind_of(leaf) == "xarray" and hasattr(leaf, "coords"):
                    found.append((leaf, place.intervals[name]))
                    own.setdefault(p.name, leaf)
        return Labels(tuple(found), own, place)

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
        for name, interval in self.place.outside(dims).items:
            if name not in coords and (interval.start or self._counted(name)):
                # an interval that does not start at 0, or goes on from one that has labels, is kept by its own
                coords[name] = (name, np.arange(interval.start, interval.stop))
        model = self.own.get(param.name)
        if model is None:
            overlap = [s for s, have in self.sources if set(have.names) & set(dims.names) and "_NB_" not in str(have)]
            model = next(iter(overlap), None)
        return xr.DataArray(
            array, dims=dims.names, coords=coords,
            name=None if model is None else model.name, attrs={} if model is None else dict(model.attrs),
        )  # fmt: skip

    def _counted(self, dim: str) -> bool:
        """Whether an array's labels along a dim are the points themselves."""
        return any(interval_of(x) is not None for s, _ in self.sources if (x := labels_of(s, dim)) is not None)


def _part(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
