"""xarray at the edge: coordinates, names and attributes from the DataArrays that came in to the ones that go out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.binding.angles import refuse_degrees
from tensorir.binding.arrays import Array, interval_of, kind_of, leaves_of
from tensorir.binding.known_coordinates import round_of, signed_period
from tensorir.binding.labels import Place, labels_of, xarray_option
from tensorir.binding.quantities import Quantity, quantities
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.types import Dims, Interval
from tensorir.runtime.locations import warn
from tensorir.staggering import Half, around, half_of, halves, partners

__all__ = ["Labels", "stated"]


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

    A result has the name that all arrays have of which it is computed, as in xarray's arithmetic; coordinates are cut
    to its interval, and attributes stay with what is the same quantity. A staggered dim has the midpoints.
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
    names: Mapping[str, Any]
    """Of results, None where those of the arguments differ."""

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
            return Labels(
                tuple(found), own, place, quantities(fencil, given), PERIODS.get({}), told, _names(fencil, own)
            )

    def attach(self, param: Var, array: Array, leaf: str = "") -> Any:
        """A result as a DataArray; `leaf` is what it is called as a member of a tuple: `x[0]`."""
        import xarray as xr

        dims = param.type.dims
        coords: dict[str, Any] = {}
        for source, have in self.sources:
            for name, coordinate in source.coords.variables.items():
                if name in coords or not all(str(d) in dims for d in coordinate.dims):
                    continue
                if all(have[str(d)].covers(dims[str(d)]) for d in coordinate.dims):
                    part = {d: _part(have[str(d)], dims[str(d)]) for d in coordinate.dims}
                    # how a file stored it is not how what is computed is stored
                    coords[str(name)] = _native(coordinate).isel(part).drop_encoding()
        lost: list[str] = []
        for name, interval in self.place.outside(dims).items:
            known = None if name in coords or not interval else self._between(name, dims[name])
            if known is None and name not in coords and interval:
                known, missing = self._going_on(name, dims[name])
                lost += [name] if missing else []
            if known is not None:
                coords[name] = known
            if name not in coords and (interval.start or self._counted(name)):
                # an interval that does not start at 0, or goes on from one that has labels, is kept by its own
                coords[name] = (name, np.arange(interval.start, interval.stop))
        for source, have in self.sources:
            for name, coordinate in source.coords.variables.items():
                wide = {str(d): (have[str(d)], dims[str(d)]) for d in coordinate.dims if str(d) in dims}
                around = len(wide) == coordinate.ndim and all(need.covers(i) for i, need in wide.values())
                if name not in coords and name not in source.dims and around:
                    widths = {d: (i.start - need.start, need.stop - i.stop) for d, (i, need) in wide.items()}
                    coords[str(name)], missing = _widened(coordinate, widths)
                    lost += [str(name)] if missing else []
        _warn_of_lost(lost)
        result = leaf or param.name
        model = self.own.get(result)
        if model is None:
            overlap = [s for s, have in self.sources if set(have.names) & set(dims.names) and "_NB_" not in str(have)]
            model = next(iter(overlap), None)
        found = xr.DataArray(array, dims=dims.names, coords=coords, attrs=self._attrs(result, model))
        found.name = (
            self.own[result].name if result in self.own else self.names.get(result, self.names.get(param.name))
        )  # xarray takes the name of an array of dask for one that is None
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
                variable = _widened(source.coords[other].variable, {other: (before, after)}, self.periods.get(other))
                values = None if variable[1] else np.asarray(variable[0].values)
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

    def _going_on(self, dim: str, interval: Interval) -> tuple[Any, bool]:
        """The labels of a dim beyond those of an argument, and whether some of them are not known."""
        having = [(s, have[dim]) for s, have in self.sources if labels_of(s, dim) is not None]
        if not having:
            return None, False
        source, have = max(having, key=lambda one: len(one[1] & interval))
        variable = source.coords[dim].variable
        if any(interval_of(labels_of(s, dim)) is not None for s, _ in having):
            if dim in self.periods and not have.covers(interval):
                signed_period(dim, self.periods[dim], round_of(variable))
            return None, False
        if variable.dtype.kind not in "iufmMO":
            return None, False
        widths = {dim: (max(0, have.start - interval.start), max(0, interval.stop - have.stop))}
        whole, missing = _widened(variable, widths, self.periods.get(dim))
        start = interval.start - min(have.start, interval.start)
        return whole[start : start + len(interval)], missing

    def _counted(self, dim: str) -> bool:
        """Whether an array's labels along a dim are the points themselves."""
        return any(interval_of(x) is not None for s, _ in self.sources if (x := labels_of(s, dim)) is not None)


def _names(fencil: Fencil, own: Mapping[str, Any]) -> dict[str, Any]:
    """The name that all arguments have of which a result is computed, by the result; coordinates have none to give."""
    read: dict[str, set[str]] = {}
    for c in fencil.closures:
        for name, value in _members(c.output.name, c.value):
            before = read.get(name, set[str]()) if c.region is not None else set[str]()
            read[name] = before.union(*(read.get(v.name, {v.name}) for v in value.free))
    coordinates = {str(name) for leaf in own.values() for name in leaf.coords}
    found: dict[str, Any] = {}
    for output, params in read.items():
        names = {leaf.name for n, leaf in own.items() if n.partition("[")[0] in params and leaf.name not in coordinates}
        found[output] = next(iter(names)) if len(names) == 1 else None
    return found


def _members(name: str, value: Expr) -> Iterator[tuple[str, Expr]]:
    """An expression by name, and where it is made as a tuple its members, as in messages: `x[0]`."""
    yield name, value
    if isinstance(value, Call) and value.op == "make_tuple":
        for k, member in enumerate(value.args):
            yield from _members(f"{name}[{k}]", member)


_OF_CELLS = ("bounds", "c_grid_axis_shift")
"""Attributes of a coordinate that do not hold for the points between."""


def _warn_of_lost(names: Sequence[str]) -> None:
    if names:
        warn(f"the steps of {', '.join(names)} are not equal, and what they are in the halo is not known")


def _widened(variable: Any, widths: Mapping[str, tuple[int, int]], period: float | None = None) -> tuple[Any, bool]:
    """A coordinate with halos by dim, and whether these are not known: it has NaN there."""
    variable, missing = _native(variable).drop_encoding(), False
    for dim in [d for d in variable.dims if any(widths.get(str(d), ()))]:
        before, after = widths[str(dim)]
        numbers = variable.dtype.kind in "iuf"
        around = None if period is None or not numbers else signed_period(str(dim), period, round_of(variable))
        values = _further(variable.values, before, after, around) if variable.ndim == 1 else None
        if values is None:
            missing = True
            variable = _with_missing(variable.to_base_variable(), dim, before, after)
        else:
            variable = type(variable)(variable.dims, values, variable.attrs)
    return variable, missing


def _native(variable: Any) -> Any:
    """A variable in the machine's order of bytes."""
    dtype: Any = variable.dtype
    return variable if getattr(dtype, "isnative", True) else variable.astype(dtype.newbyteorder("="))


def _further(values: Any, before: int, after: int, period: float | None = None) -> Any:
    """A coordinate with the values that go on on both sides: by a period, or by equal steps, None for others."""
    if period is not None and max(before, after) <= len(values):
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
