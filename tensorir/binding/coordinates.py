"""xarray at the edge: coordinates, names and attributes from the DataArrays that came in to the ones that go out."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.binding.angles import refuse_degrees
from tensorir.binding.arrays import Array, interval_of, kind_of, leaves_of
from tensorir.binding.labels import Place, labels_of, xarray_option
from tensorir.binding.quantities import Quantity, quantities
from tensorir.ir import Fencil, Var
from tensorir.staggering import Half, around, half_of, halves, partners
from tensorir.types import Dims, Interval

__all__ = ["Labels", "extended", "stated"]


PERIODS: ContextVar[Mapping[str, float]] = ContextVar("periods of the coordinates of a call's dims")
"""What boundary conditions of the operator that is called say."""


@contextmanager
def stated(periods: Mapping[str, float]) -> Generator[None]:
    """Periods, for the labels of the results of a call."""
    token = PERIODS.set(periods)
    try:
        yield
    finally:
        PERIODS.reset(token)


@dataclass(frozen=True, slots=True)
class Labels:
    """What the DataArrays of a call say of their dims.

    The first array that shares dims with a result gives it its name; coordinates are cut to its interval, and
    attributes stay with what is the same quantity. A staggered dim has the midpoints.
    """

    sources: tuple[tuple[Any, Dims], ...]
    own: Mapping[str, Any]
    place: Place
    quantities: Mapping[str, Quantity]
    """What results are, as far as the units of the arguments say it."""
    periods: Mapping[str, float]
    """By how much the coordinates of periodic dims go on."""
    halves: Mapping[str, Half]
    """The staggered dims that coordinates tell."""

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
                    own[name] = leaf
        given = {n: _units_of(leaf) for n, leaf in own.items()}
        refuse_degrees(fencil, given)
        with halves(own.values()) as told:
            return Labels(tuple(found), own, place, quantities(fencil, given), PERIODS.get({}), told)

    def attach(self, param: Var, array: Array, leaf: str = "") -> Any:
        """A result as a DataArray; `leaf` is what it is called as a member of a tuple: `x[0]`."""
        import xarray as xr

        dims = param.type.dims
        coords: dict[str, Any] = {}
        for source, have in self.sources:
            for name, coordinate in source.coords.items():
                if name in coords or not all(str(d) in dims for d in coordinate.dims):
                    continue
                if all(have[str(d)].covers(dims[str(d)]) for d in coordinate.dims):
                    part = {d: _part(have[str(d)], dims[str(d)]) for d in coordinate.dims}
                    # how a file stored it is not how what is computed is stored
                    coords[str(name)] = coordinate.isel(part).variable.drop_encoding()
        for name, interval in self.place.outside(dims).items:
            between = None if name in coords else self._between(name, dims[name])
            if between is not None:
                coords[name] = between
            if name not in coords and (interval.start or self._counted(name)):
                # an interval that does not start at 0, or goes on from one that has labels, is kept by its own
                coords[name] = (name, np.arange(interval.start, interval.stop))
        result = leaf or param.name
        model = self.own.get(result)
        if model is None:
            overlap = [s for s, have in self.sources if set(have.names) & set(dims.names) and "_NB_" not in str(have)]
            model = next(iter(overlap), None)
        name = None if model is None else model.name
        found = xr.DataArray(array, dims=dims.names, coords=coords, attrs=self._attrs(result, model))
        found.name = name  # xarray takes the name of an array of dask for one that is None
        return found

    def _attrs(self, result: str, model: Any) -> dict[str, Any]:
        """All attributes where a result is the same quantity as an argument, and otherwise the unit, where it is known.

        With `xarray.set_options(keep_attrs=True)` those of the model are kept but for a unit that does not follow, and
        with False none.
        """

        keep = xarray_option("keep_attrs", "default")
        quantity = self.quantities.get(result, Quantity())
        source = self.own.get(result, self.own.get(quantity.same_as)) if keep == "default" else model if keep else None
        attrs: dict[str, Any] = {} if source is None else dict(source.attrs)
        if keep is False:
            return {}
        if result not in self.own:
            attrs.pop("units", None)
            if quantity.unit:
                attrs["units"] = quantity.unit
        return attrs

    def _between(self, dim: str, interval: Interval) -> tuple[str, Any, dict[str, Any]] | None:
        """The coordinate of a staggered dim: midpoints of that of the dim half way, where its labels are no points."""
        with halves((), self.halves):
            beside = [
                (source, have, other, around(dim, interval, other))
                for source, have in self.sources
                for other in partners(dim, have.names)
            ]
            half = half_of(dim)
        for source, have, other, need in beside:
            labels = labels_of(source, other)
            if labels is None or interval_of(labels) is not None or not len(need):
                continue
            before, after = max(0, have[other].start - need.start), max(0, need.stop - have[other].stop)
            values: Any = np.asarray(labels)
            if before or after:
                values = _further(values, before, after, self.periods.get(other))
            if values is None or values.dtype.kind not in "iufmMO":
                continue
            first = need.start - have[other].start + before
            low, high = values[first : first + len(need) - 1], values[first + 1 : first + len(need)]
            try:
                middle = low + (high - low) / 2
            except TypeError:  # objects that are no dates
                continue
            attrs = {k: v for k, v in source.coords[other].attrs.items() if k not in _OF_CELLS}
            return (
                dim,
                middle,
                {**attrs, "c_grid_axis_shift": half.shift}
                if half and "axis" in attrs and dim in self.halves
                else attrs,
            )
        return None

    def _counted(self, dim: str) -> bool:
        """Whether an array's labels along a dim are the points themselves."""
        return any(interval_of(x) is not None for s, _ in self.sources if (x := labels_of(s, dim)) is not None)


_OF_CELLS = ("bounds", "c_grid_axis_shift")
"""Attributes of a coordinate that do not hold for the points between."""


def extended(
    array: Any, result: Any, widths: Mapping[str, tuple[int, int]], periods: Mapping[str, float | None]
) -> Any:
    """A result with halos around an array, with all coordinates of the array: where their steps are equal they go on.

    The coordinate of a periodic dim goes on by its period, where that is said. Others are NaN (NaT, None) in the halo,
    which a warning says.
    """
    lost: list[str] = []
    coords: dict[str, Any] = {}
    for name, coordinate in array.coords.items():
        variable, missing = coordinate.variable.drop_encoding(), False
        for dim in [d for d in coordinate.dims if str(d) in widths]:
            before, after = widths[str(dim)]
            period = periods.get(str(name))
            values = _further(variable.values, before, after, period) if variable.ndim == 1 else None
            if values is None:
                missing = True
                variable = _with_missing(variable.to_base_variable(), dim, before, after)
            else:
                variable = type(variable)(variable.dims, values, variable.attrs)
        lost += [str(name)] if missing else []
        coords[str(name)] = variable
    if lost:
        told = f"the steps of {', '.join(lost)} are not equal, and what they are in the halo is not known"
        warnings.warn(told, stacklevel=3)
    indexed = [n for n in lost if n in result.dims]  # an index of nothing would be no index
    plain = result.drop_vars([n for n in result.coords if n in coords])
    found = plain.assign_coords({n: v for n, v in coords.items() if n not in indexed})
    import xarray as xr

    own = xr.Coordinates({n: (coords[n].dims, coords[n].values, coords[n].attrs) for n in indexed}, indexes={})
    return found.assign_coords(own) if indexed else found


def _further(values: Any, before: int, after: int, period: float | None = None) -> Any:
    """A coordinate with the values that go on on both sides: by a period, or by equal steps, None for others."""
    if period is not None and max(before, after) <= len(values) and values.dtype.kind in "iuf":
        around = [values[len(values) - before :] - period, values, values[:after] + period]
        whole = np.int64 if period == int(period) else np.float64
        return np.concatenate(around).astype(values.dtype if values.dtype.kind == "f" else whole)
    if len(values) < 2 or values.dtype.kind not in "iufmMO":
        return None
    try:
        steps: Any = np.diff(values)
    except TypeError:  # objects that are no dates
        return None
    # as far as single precision, in which files hold coordinates, can say
    rounding: Any = 4.0 * np.finfo("float32").eps * np.abs(values).max() if values.dtype.kind == "f" else None
    even = steps == steps[0] if rounding is None else np.abs(steps - steps[0]) <= rounding
    if not bool(np.all(even)):
        return None
    step: Any = (values[-1] - values[0]) / (len(values) - 1) if values.dtype.kind == "f" else steps[0]
    low: list[Any] = [values[0] - k * step for k in range(before, 0, -1)]
    high: list[Any] = [values[-1] + k * step for k in range(1, after + 1)]
    return np.concatenate([np.asarray(low, values.dtype), values, np.asarray(high, values.dtype)])


def _with_missing(variable: Any, dim: Any, before: int, after: int) -> Any:
    """A variable with a halo of NaN, NaT, or None among objects."""
    padded = variable.pad({dim: (before, after)})
    if padded.dtype.kind == "O":
        for halo in (slice(0, before), slice(before + variable.sizes[dim], None)):
            padded[{dim: halo}] = None
    return padded


def _units_of(array: Any) -> str:
    unit = array.attrs.get("units") if hasattr(array, "attrs") else None
    return unit if isinstance(unit, str) else ""


def _part(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
