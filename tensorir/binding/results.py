"""DataArrays of results: names, coordinates and attributes, from the DataArrays that came in.

Coordinates that an interval cuts are cut with it, and those of a halo go on by equal steps or by a period.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.binding.angles import refuse_degrees
from tensorir.binding.arrays import Array, interval_of, is_array, kind_of, leaves_of, native
from tensorir.binding.coordinates import has_equal_steps, round_of, signed_period
from tensorir.binding.labels import Place, labels_of, xarray_option
from tensorir.binding.quantities import Quantity, quantities
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.staggering import Half, around, half_of, halves, partners
from tensorir.runtime.locations import warn

PERIODS: ContextVar[Mapping[str, float]] = ContextVar("periods of the coordinates of a call's dims")
"""What boundary conditions of the operator that is called say."""


TURNS: ContextVar[Mapping[str, Collection[Interval]]] = ContextVar("intervals that go round once in their period")
"""Those on which the operator that is called extends a field by a period."""


@contextmanager
def stated(periods: Mapping[str, float], turns: Mapping[str, Collection[Interval]]) -> Generator[None]:
    """Periods and what goes round in them, for the labels of the results of a call."""
    tokens = PERIODS.set(periods), TURNS.set(turns)
    try:
        yield
    finally:
        PERIODS.reset(tokens[0])
        TURNS.reset(tokens[1])


def refuse_other_periods(sources: Iterable[tuple[Any, Dims]]) -> None:
    """Raise V42 where labels that go round in a period make another one, those of the staggered dim beside too."""
    periods = PERIODS.get({})
    for dim, parts in TURNS.get({}).items() if periods else ():
        for part in parts:
            known = (x for source in sources if (x := _labels_on(dim, part, *source)) is not None)
            labels: Any = next(known, None)
            if labels is not None and (around := round_of(sys.modules["xarray"].Variable(dim, labels))) is not None:
                signed_period(dim, periods[dim], around)


def _labels_on(dim: str, part: Interval, source: Any, have: Dims) -> Any:
    """The labels of a DataArray on an interval of a dim, or as many of the staggered dim beside.

    There are none where labels are the points themselves, or dates and texts, which go round in no number.
    """
    for other in (dim, *partners(dim, have.names)):
        labels = labels_of(source, other) if other in have else None
        if labels is None or labels.dtype.kind not in "iuf" or interval_of(labels) is not None:
            continue
        values: Any = np.asarray(labels)
        if other == dim and have[dim].covers(part):
            return values[part_of(have[dim], part)]
        if other != dim and len(part) <= len(values):
            return values[: len(part)]
        if other != dim and len(values) > 1 and has_equal_steps(values):
            return values[0] + (values[1] - values[0]) * np.arange(len(part))
    return None


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of the dims of the DataArrays of a call.

    A result has the name that all arrays have of which it is computed, as in xarray's arithmetic; coordinates are cut
    to its interval, and attributes stay with what is the same quantity. A staggered dim has the midpoints.
    """

    sources: tuple[tuple[Any, Dims], ...]
    arguments: Mapping[str, Any]
    place: Place
    quantities: Mapping[str, Quantity]
    """What results are, as far as the units of the arguments say it."""
    periods: Mapping[str, float]
    """By how much the coordinates of periodic dims go on."""
    halves: Mapping[str, Half]
    """The staggered dims that coordinates tell."""
    names: Mapping[str, Any]
    """Of results, None where those of the arguments differ."""
    lost: list[str] = field(default_factory=list[str])
    """The coordinates that were asked for where they are not known."""

    @staticmethod
    def of(fencil: Fencil, arguments: Mapping[str, Any], place: Place) -> Labels:
        """The labels of a call; intervals are those of its place."""
        sources: list[tuple[Any, Dims]] = []
        arrays: dict[str, Any] = {}
        for p in fencil.params:
            if p.name not in arguments:
                continue
            for name, _, leaf in leaves_of(arguments[p.name], p.type.element, p.name):
                if kind_of(leaf) == "xarray" and hasattr(leaf, "coords"):
                    sources.append((leaf, place.intervals[name]))
                    arrays[name] = leaf
        stated_units = ((n, leaf.attrs.get("units")) for n, leaf in arrays.items())
        units = {n: unit if isinstance(unit, str) else "" for n, unit in stated_units}
        refuse_degrees(fencil, units)
        with halves(arrays.values()) as staggered:
            refuse_other_periods(sources)
            known, names = quantities(fencil, units), _names(fencil, arrays)
            return Labels(tuple(sources), arrays, place, known, PERIODS.get({}), staggered, names)

    def attach(self, param: Var, array: Array, leaf: str = "") -> Any:
        """A result as a DataArray; `leaf` is what it is called as a member of a tuple: `x[0]`."""
        import xarray as xr

        dims = param.type.dims
        base = self._part_of_first(dims)
        coords: dict[str, Any] = {}
        known_names = set[str]() if base is None else {str(n) for n in base.coords}
        for source, have in self.sources[0 if base is None else 1 :]:
            for name, coordinate in source.coords.variables.items():
                if name in known_names or name in coords or not all(str(d) in dims for d in coordinate.dims):
                    continue
                if all(have[str(d)].covers(dims[str(d)]) for d in coordinate.dims):
                    part = {d: part_of(have[str(d)], dims[str(d)]) for d in coordinate.dims}
                    # how a file stored it is not how what is computed is stored
                    coords[str(name)] = native(coordinate).isel(part).drop_encoding()
        lost: list[str] = []
        for name, interval in self.place.outside(dims).items:
            if name in known_names:
                continue
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
                if name in coords or name in known_names or name in source.dims:
                    continue
                wide = {str(d): (have[str(d)], dims[str(d)]) for d in coordinate.dims if str(d) in dims}
                if len(wide) == coordinate.ndim and all(need.covers(i) for i, need in wide.values()):
                    widths = {d: (i.start - need.start, need.stop - i.stop) for d, (i, need) in wide.items()}
                    coords[str(name)], missing = _widened(coordinate, widths)
                    lost += [str(name)] if missing else []
        if lost:
            warn(f"the steps of {', '.join(lost)} are not equal, and what they are in the halo is not known")
        self.lost.extend(lost)
        result = leaf or param.name
        source, units = self.attributes_of(result, dims)
        attrs = with_units(self.arguments.get(source), units)
        if base is None:
            labelled = xr.DataArray(array, dims=dims.names, coords=coords, attrs=attrs)
        else:
            labelled = base.assign_coords(coords) if coords else base
            labelled.data, labelled.attrs = array, attrs
        name = self.names.get(result, self.names.get(param.name))
        # xarray takes the name of an array of dask for one that is None
        labelled.name = self.arguments[result].name if result in self.arguments else name
        return labelled

    def _part_of_first(self, dims: Dims) -> Any:
        """The part of the first argument on the points of a result, where it has all of them, in the dims' order.

        Its indexes are parts of those that there are, which takes less than to make them of labels.
        """
        if not self.sources:
            return None
        source, have = self.sources[0]
        held = source.variable._data
        if {str(d) for d in source.dims} != set(dims.names) or not (is_array(held) or hasattr(held, "aval")):
            return None
        native = all(getattr(v.dtype, "isnative", True) for v in source._coords.values())
        if not native or not all(have[d].covers(i) for d, i in dims.items):
            return None
        part = {d: part_of(have[d], i) for d, i in dims.items}
        cut = _cut(source, part)
        cut = source.isel(part).drop_encoding() if cut is None else cut
        return cut if cut.dims == dims.names else cut.transpose(*dims.names)

    def attributes_of(self, result: str, dims: Dims) -> tuple[str, str | None]:
        """The argument whose attributes a result has, "" for none, and the units in the place of theirs, None for none.

        All attributes hold where a result is the same quantity as an argument, and otherwise the unit, where it is
        known. With `xarray.set_options(keep_attrs=True)` those of the first argument on its dims are kept but for a
        unit that does not follow, and with False none.
        """
        keep = xarray_option("keep_attrs", "default")
        quantity = self.quantities.get(result, Quantity())
        if keep is False:
            return "", None
        if result in self.arguments:
            return result, None
        if keep == "default":
            return quantity.same_as if quantity.same_as in self.arguments else "", quantity.unit
        beside = (n for n, (_, have) in zip(self.arguments, self.sources, strict=True) if "_NB_" not in str(have)
                  if set(have.names) & set(dims.names))  # fmt: skip
        return next(beside, ""), quantity.unit

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
                period = self.periods.get(other, self.periods.get(dim))
                variable = _widened(source.coords[other].variable, {other: (before, after)}, period)
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
        """True if an array's labels along a dim are the points themselves."""
        return any(interval_of(x) is not None for s, _ in self.sources if (x := labels_of(s, dim)) is not None)


def _names(fencil: Fencil, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The name that all arguments have of which a result is computed, by the result; coordinates have none to give."""
    read: dict[str, set[str]] = {}
    for c in fencil.closures:
        for name, value in _members(c.output.name, c.value):
            before = read.get(name, set[str]()) if c.region is not None else set[str]()
            read[name] = before.union(*(read.get(v.name, {v.name}) for v in value.free))
    coordinates = {str(name) for leaf in arrays.values() for name in leaf.coords}
    common: dict[str, Any] = {}
    for output, params in read.items():
        names = {leaf.name for n, leaf in arrays.items() if n.partition("[")[0] in params} - coordinates
        common[output] = next(iter(names)) if len(names) == 1 else None
    return common


def _members(name: str, value: Expr) -> Iterator[tuple[str, Expr]]:
    """An expression by name, and where it is made as a tuple its members, as in messages: `x[0]`."""
    yield name, value
    if isinstance(value, Call) and value.op == "make_tuple":
        for k, member in enumerate(value.args):
            yield from _members(f"{name}[{k}]", member)


_OF_CELLS = ("bounds", "c_grid_axis_shift")
"""Attributes of a coordinate that do not hold for the points between."""


def _widened(variable: Any, widths: Mapping[str, tuple[int, int]], period: float | None = None) -> tuple[Any, bool]:
    """A coordinate with halos by dim, and whether these are not known: it has NaN there."""
    variable, missing = native(variable).drop_encoding(), False
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
    floats = values.dtype.kind == "f"
    if not (has_equal_steps(values) if floats else bool(np.all(steps == steps[0]))):
        return None
    step: Any = (values[-1] - values[0]) / (len(values) - 1) if floats else steps[0]
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


def _cut(array: Any, part: Mapping[Any, slice]) -> Any:
    """A part of a DataArray with nothing but arrays of NumPy and plain indexes among its coordinates; None of others.

    What `isel` gives in three times as long, without encodings.
    """
    from xarray import DataArray
    from xarray.indexes import PandasIndex

    whole = all(s == slice(0, n) for s, n in zip([part[d] for d in array.dims], array.shape, strict=True))
    coordinates: dict[Any, Any] = {}
    indexes: dict[Any, Any] = {}
    for name, v in array._coords.items():
        index, data = array._indexes.get(name), v._data
        if index is None and type(data) is np.ndarray:
            data = data[tuple([part[d] for d in v._dims]) or ...]
        elif type(index) is not PandasIndex or v._dims != (name,):
            return None
        else:
            indexes[name] = index if whole else index.isel({name: part[name]})
            data = data if whole else type(data)(indexes[name].index, data.dtype)
        coordinates[name] = variable_of(v, v._dims, data, v._attrs)
    held = array.variable._data[tuple([part[d] for d in array.dims]) or ...]
    variable = variable_of(None, array.dims, held, {})
    return DataArray(variable, coordinates, name=array.name, indexes=indexes, fastpath=True)


def variable_of(model: Any, dims: tuple[Any, ...], data: Any, attrs: Mapping[Any, Any] | None) -> Any:
    """A variable as another one is (of an index, or not), with attributes of its own and data that nobody looks at."""
    kind = sys.modules["xarray"].Variable if model is None else model.__class__
    variable: Any = object.__new__(kind)
    variable._dims, variable._data, variable._attrs, variable._encoding = dims, data, dict(attrs or ()), None
    return variable


def with_units(array: Any, units: str | None) -> dict[str, Any]:
    """The attributes of an array, if there is one, with these units in the place of its own; with them for None."""
    attrs: dict[str, Any] = {} if array is None else dict(array.attrs)
    if units is not None:
        attrs.pop("units", None)
        if units:
            attrs["units"] = units
    return attrs


def part_of(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
