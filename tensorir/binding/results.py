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
"""The period of each periodic dim, from the boundary conditions of the operator that is being called."""


TURNS: ContextVar[Mapping[str, Collection[Interval]]] = ContextVar("intervals that go round once in their period")
"""By dim the intervals on which the operator that is being called extends a field periodically."""


@contextmanager
def stated(periods: Mapping[str, float], turns: Mapping[str, Collection[Interval]]) -> Generator[None]:
    """Set `PERIODS` and `TURNS` for the labels of the results of the calls within the `with` block."""
    tokens = PERIODS.set(periods), TURNS.set(turns)
    try:
        yield
    finally:
        PERIODS.reset(tokens[0])
        TURNS.reset(tokens[1])


def refuse_other_periods(sources: Iterable[tuple[Any, Dims]]) -> None:
    """Raise V42 where the labels on an interval of `TURNS` do not fit the period in `PERIODS`.

    An operator that is periodic on longitudes 0 to 357 in steps of 3 states the period 360; labels 0 to 350 of the next
    call go round in another one. `sources`: pairs (DataArray, its dims), the first with numeric labels decides.
    """
    periods = PERIODS.get({})
    for dim, parts in TURNS.get({}).items() if periods else ():
        for interval in parts:
            labels_of_sources = (x for source in sources if (x := _labels_on(dim, interval, *source)) is not None)
            labels: Any = next(labels_of_sources, None)
            if labels is not None and (around := round_of(sys.modules["xarray"].Variable(dim, labels))) is not None:
                signed_period(dim, periods[dim], around)


def _labels_on(dim: str, interval: Interval, source: Any, have: Dims) -> Any:
    """The numeric labels of a DataArray on an interval of a dim, or as many labels of its staggered partner.

    `have` are the dims of the DataArray. Labels of a partner that is too short go on if their steps are equal. None
    where the labels are the points themselves, dates or texts, none of which has a numeric period.
    """
    for other in (dim, *partners(dim, have.names)):
        labels = labels_of(source, other) if other in have else None
        if labels is None or labels.dtype.kind not in "iuf" or interval_of(labels) is not None:
            continue
        values: Any = np.asarray(labels)
        if other == dim and have[dim].covers(interval):
            return values[part_of(have[dim], interval)]
        if other != dim and len(interval) <= len(values):
            return values[: len(interval)]
        if other != dim and len(values) > 1 and has_equal_steps(values):
            return values[0] + (values[1] - values[0]) * np.arange(len(interval))
    return None


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of the dims of the DataArrays of a call.

    A result has the common name of the arrays that it is computed from, as in xarray's arithmetic; coordinates are cut
    to its interval, and it has the attributes of an argument that is the same quantity. Staggered dims get midpoints.
    """

    sources: tuple[tuple[Any, Dims], ...]
    arguments: Mapping[str, Any]
    place: Place
    quantities: Mapping[str, Quantity]
    """The quantity (unit, and the parameter that it is the same as) of each result, from the units of the arguments."""
    periods: Mapping[str, float]
    """The period of the labels of periodic dims."""
    halves: Mapping[str, Half]
    """The staggered dims, as coordinates with `c_grid_axis_shift` declare them."""
    names: Mapping[str, Any]
    """The name of each result's DataArray, None where the names of the arguments differ."""
    lost: list[str] = field(default_factory=list[str])
    """The coordinates that got NaN in a halo, since their steps are not equal; `attach` appends to it."""

    @staticmethod
    def of(fencil: Fencil, arguments: Mapping[str, Any], place: Place) -> Labels:
        """The labels of a call whose arrays lie at `place`.

        Raises A43 for degrees and V42 for periods that labels contradict.
        """
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
            quantity_of, names = quantities(fencil, units), _names(fencil, arrays)
            return Labels(tuple(sources), arrays, place, quantity_of, PERIODS.get({}), staggered, names)

    def attach(self, param: Var, array: Array, leaf: str = "") -> Any:
        """The array of a result as a DataArray; `leaf` is its name if it is a member of a tuple: `x[0]`.

        Coordinates come, in this order, from the first argument that covers the result, from others that cover it, from
        midpoints of the staggered partner, from labels that go on into the halo, and from coordinates widened by it.
        Those that cannot go on are NaN in the halo, with a warning, and are recorded in `lost`.
        """
        import xarray as xr

        dims = param.type.dims
        base = self._part_of_first(dims)
        coords: dict[str, Any] = {}
        names_of_base = set[str]() if base is None else {str(n) for n in base.coords}
        for source, have in self.sources[0 if base is None else 1 :]:
            for name, coordinate in source.coords.variables.items():
                if name in names_of_base or name in coords or not all(str(d) in dims for d in coordinate.dims):
                    continue
                if all(have[str(d)].covers(dims[str(d)]) for d in coordinate.dims):
                    slices = {d: part_of(have[str(d)], dims[str(d)]) for d in coordinate.dims}
                    # how a file stored it is not how what is computed is stored
                    coords[str(name)] = native(coordinate).isel(slices).drop_encoding()
        lost: list[str] = []
        for name, interval in self.place.outside(dims).items:
            if name in names_of_base:
                continue
            coordinate_of_dim = None if name in coords or not interval else self._between(name, dims[name])
            if coordinate_of_dim is None and name not in coords and interval:
                coordinate_of_dim, missing = self._going_on(name, dims[name])
                lost += [name] if missing else []
            if coordinate_of_dim is not None:
                coords[name] = coordinate_of_dim
            if name not in coords and (interval.start or self._counted(name)):
                # an interval that does not start at 0, or goes on from one that has labels, is kept by its own
                coords[name] = (name, np.arange(interval.start, interval.stop))
        for source, have in self.sources:
            for name, coordinate in source.coords.variables.items():
                if name in coords or name in names_of_base or name in source.dims:
                    continue
                intervals = {str(d): (have[str(d)], dims[str(d)]) for d in coordinate.dims if str(d) in dims}
                if len(intervals) == coordinate.ndim and all(need.covers(i) for i, need in intervals.values()):
                    halos = {d: (i.start - need.start, need.stop - i.stop) for d, (i, need) in intervals.items()}
                    coords[str(name)], missing = _widened(coordinate, halos)
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
        """The first argument cut to the dims of a result and in their order; None where it does not cover them.

        Cutting existing indexes is faster than building them from labels. None too for lazy or non-native data.
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
        slices = {d: part_of(have[d], i) for d, i in dims.items}
        cut = _cut(source, slices)
        cut = source.isel(slices).drop_encoding() if cut is None else cut
        return cut if cut.dims == dims.names else cut.transpose(*dims.names)

    def attributes_of(self, result: str, dims: Dims) -> tuple[str, str | None]:
        """The argument whose attributes a result has ("" for none), and the unit that replaces theirs (None: keep it).

        A result that is the same quantity as an argument has all its attributes, any other its unit alone, if known.
        With `xarray.set_options(keep_attrs=True)` it has those of the first argument that shares a dim, with the unit
        of the result; with False it has none.
        """
        keep = xarray_option("keep_attrs", "default")
        quantity = self.quantities.get(result, Quantity())
        if keep is False:
            return "", None
        if result in self.arguments:
            return result, None
        if keep == "default":
            return quantity.same_as if quantity.same_as in self.arguments else "", quantity.unit
        sharing = (n for n, (_, have) in zip(self.arguments, self.sources, strict=True) if "_NB_" not in str(have)
                  if set(have.names) & set(dims.names))  # fmt: skip
        return next(sharing, ""), quantity.unit

    def _between(self, dim: str, interval: Interval) -> tuple[str, Any, dict[str, Any]] | None:
        """The coordinate of a staggered dim on an interval, as (dim, midpoints, attributes).

        Midpoints are those of the labels of its staggered partner, which go on by a period or equal steps where the
        interval is longer. None where no argument has such labels, or they are points themselves or texts.
        """
        with halves((), self.halves):
            candidates = [
                (source, have, partner, around(dim, interval, partner))
                for source, have in self.sources
                for partner in partners(dim, have.names)
            ]
            half = half_of(dim)
        for source, have, partner, points in candidates:
            labels = labels_of(source, partner)
            if labels is None or interval_of(labels) is not None or not len(points):
                continue
            before, after = max(0, have[partner].start - points.start), max(0, points.stop - have[partner].stop)
            values: Any = np.asarray(labels)
            if before or after:
                period = self.periods.get(partner, self.periods.get(dim))
                variable = _widened(source.coords[partner].variable, {partner: (before, after)}, period)
                values = None if variable[1] else np.asarray(variable[0].values)
            if values is None or values.dtype.kind not in "iufmMO":
                continue
            offset = points.start - have[partner].start + before
            low, high = values[offset : offset + len(points) - 1], values[offset + 1 : offset + len(points)]
            try:
                middle = low + (high - low) / 2
            except TypeError:  # objects that are no dates
                continue
            attrs = {k: v for k, v in source.coords[partner].attrs.items() if k not in _OF_CELLS}
            return (
                dim,
                middle,
                {**attrs, "c_grid_axis_shift": half.shift}
                if half and "axis" in attrs and dim in self.halves
                else attrs,
            )
        return None

    def _going_on(self, dim: str, interval: Interval) -> tuple[Any, bool]:
        """The labels of a dim on an interval that goes on beyond an argument, and True if the halo has NaN.

        The argument that has most of the interval is taken. (None, False) where no argument has labels, and for labels
        that are the points themselves (V42 if a period contradicts them) or texts.
        """
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
        widened, missing = _widened(variable, widths, self.periods.get(dim))
        start = interval.start - min(have.start, interval.start)
        return widened[start : start + len(interval)], missing

    def _counted(self, dim: str) -> bool:
        """True if an array's labels along a dim are the points themselves."""
        return any(interval_of(x) is not None for s, _ in self.sources if (x := labels_of(s, dim)) is not None)


def _names(fencil: Fencil, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """By result (`x`, `x[0]`) the name that all DataArrays have from which it is computed; None where they differ.

    Names of coordinates do not count. `arrays` are the DataArrays by argument.
    """
    params_by_value: dict[str, set[str]] = {}
    for c in fencil.closures:
        for name, value in _members(c.output.name, c.value):
            params_before = params_by_value.get(name, set[str]()) if c.region is not None else set[str]()
            params_by_value[name] = params_before.union(*(params_by_value.get(v.name, {v.name}) for v in value.free))
    coordinates = {str(name) for leaf in arrays.values() for name in leaf.coords}
    name_of_result: dict[str, Any] = {}
    for output, params in params_by_value.items():
        names = {leaf.name for n, leaf in arrays.items() if n.partition("[")[0] in params} - coordinates
        name_of_result[output] = next(iter(names)) if len(names) == 1 else None
    return name_of_result


def _members(name: str, value: Expr) -> Iterator[tuple[str, Expr]]:
    """An expression with its name, then the members of a `make_tuple`, nested ones too, with theirs: `x[0]`."""
    yield name, value
    if isinstance(value, Call) and value.op == "make_tuple":
        for k, member in enumerate(value.args):
            yield from _members(f"{name}[{k}]", member)


_OF_CELLS = ("bounds", "c_grid_axis_shift")
"""Attributes of a coordinate that its midpoints do not inherit."""


def _widened(variable: Any, widths: Mapping[str, tuple[int, int]], period: float | None = None) -> tuple[Any, bool]:
    """A coordinate variable with halos of `widths[dim]` = (before, after) points, and True if these hold NaN.

    The values of one dim go on by `period` or by equal steps (`_further`); other coordinates are padded with NaN.
    """
    variable, missing = native(variable).drop_encoding(), False
    for dim in [d for d in variable.dims if any(widths.get(str(d), ()))]:
        before, after = widths[str(dim)]
        numbers = variable.dtype.kind in "iuf"
        signed = None if period is None or not numbers else signed_period(str(dim), period, round_of(variable))
        values = _further(variable.values, before, after, signed) if variable.ndim == 1 else None
        if values is None:
            missing = True
            variable = _with_missing(variable.to_base_variable(), dim, before, after)
        else:
            variable = type(variable)(variable.dims, values, variable.attrs)
    return variable, missing


def _further(values: Any, before: int, after: int, period: float | None = None) -> Any:
    """Values extended by `before` and `after` points: periodically with a `period`, by equal steps without.

    None where the values have neither.
    """
    if period is not None and max(before, after) <= len(values):
        parts = [values[len(values) - before :] - period, values, values[:after] + period]
        label_dtype = np.int64 if period == int(period) else np.float64
        return np.concatenate(parts).astype(values.dtype if values.dtype.kind == "f" else label_dtype)
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
    """A variable padded along a dim by `before` and `after` points of NaN, NaT, or None for objects."""
    padded = variable.pad({dim: (before, after)})
    if padded.dtype.kind == "O":
        for halo in (slice(0, before), slice(before + variable.sizes[dim], None)):
            padded[{dim: halo}] = None
    return padded


def _cut(array: Any, part: Mapping[Any, slice]) -> Any:
    """`array.isel(part)` without encodings, in a third of the time; None where a coordinate is not of the usual kind.

    `part` has a slice for every dim. Coordinates must be NumPy arrays, or have a one-dimensional `PandasIndex`.
    """
    from xarray import DataArray
    from xarray.indexes import PandasIndex

    is_uncut = all(s == slice(0, n) for s, n in zip([part[d] for d in array.dims], array.shape, strict=True))
    coordinates: dict[Any, Any] = {}
    indexes: dict[Any, Any] = {}
    for name, v in array._coords.items():
        index, data = array._indexes.get(name), v._data
        if index is None and type(data) is np.ndarray:
            data = data[tuple([part[d] for d in v._dims]) or ...]
        elif type(index) is not PandasIndex or v._dims != (name,):
            return None
        else:
            indexes[name] = index if is_uncut else index.isel({name: part[name]})
            data = data if is_uncut else type(data)(indexes[name].index, data.dtype)
        coordinates[name] = variable_of(v, v._dims, data, v._attrs)
    cut = array.variable._data[tuple([part[d] for d in array.dims]) or ...]
    variable = variable_of(None, array.dims, cut, {})
    return DataArray(variable, coordinates, name=array.name, indexes=indexes, fastpath=True)


def variable_of(model: Any, dims: tuple[Any, ...], data: Any, attrs: Mapping[Any, Any] | None) -> Any:
    """An xarray variable of the class of `model` (Variable for None) with a copy of `attrs`, and no encoding.

    It bypasses the constructor, which would check and convert `data`.
    """
    kind = sys.modules["xarray"].Variable if model is None else model.__class__
    variable: Any = object.__new__(kind)
    variable._dims, variable._data, variable._attrs, variable._encoding = dims, data, dict(attrs or ()), None
    return variable


def with_units(array: Any, units: str | None) -> dict[str, Any]:
    """A copy of the attributes of an array ({} for None), its units replaced: removed for "", kept for `units=None`."""
    attrs: dict[str, Any] = {} if array is None else dict(array.attrs)
    if units is not None:
        attrs.pop("units", None)
        if units:
            attrs["units"] = units
    return attrs


def part_of(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
