"""xarray at the edge: coordinates, names and attributes of arguments and of results.

The coordinates of a call's arguments, which `ti.coord(h, "lat")` reads as fields.

They are those of the DataArrays among the arguments; a `ti.Field` has none. What several arguments have alike is one
coordinate, the one of the most points.

>>> import xarray as xr
>>> h = xr.DataArray([1.0, 2.0], dims="lat", coords={"lat": ("lat", [50.0, 52.5], {"units": "degrees_north"})})
>>> (lat,) = Coordinates({"h": h, "u": h[1:]}).named("lat")
>>> lat.owners, lat.type, lat.units, lat.even
(('h', 'u'), tensor<float, lat[0:2]>, 'degrees_north', True)
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.binding.arrays import Array, interval_of, is_array, kind_of, leaves_of, refuse_packed
from tensorir.binding.labels import DATED, Place, calendar_of, labels_of, operands_of, placed, xarray_option
from tensorir.binding.quantities import Quantity, quantities, refuse_degrees
from tensorir.binding.units import is_same
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.staggering import Half, around, half_of, halves, partners
from tensorir.ir.types import TensorType, scalar_of
from tensorir.runtime.errors import refuse
from tensorir.runtime.locations import warn


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """A coordinate of arguments."""

    name: str
    value: Any
    """A DataArray or a Field."""
    dims: Dims
    """Its intervals, where those of its argument are told by labels too."""
    units: str = ""
    even: bool = False
    """Whether its steps are equal, so that it is known beyond its ends."""
    round: Round | None = None
    """How it goes round where its dim is periodic."""
    owners: tuple[str, ...] = ()
    """The arguments that have it, as messages call them."""
    arrays: tuple[Any, ...] = ()
    """The DataArrays that these are."""
    index: int = 0
    """Which it is of those of its name."""

    @property
    def type(self) -> TensorType | None:
        """The type of the field that it is; None for dates, texts and the like."""
        element = scalar_of(self.value.dtype)
        return None if element is None else TensorType(element, self.dims)

    def course(self, dim: str) -> Course:
        """The course along a periodic dim of its own."""
        numbers = _numbers(self)
        if dim not in self.dims or not _in_memory(numbers) or self.value.dtype.kind not in "iuf":
            return Course(None, False, False)
        rows: Any = np.moveaxis(np.asarray(numbers), list(map(str, self.value.dims)).index(dim), -1)
        return Course.through(rows.reshape(-1, rows.shape[-1]).astype(np.float64))

    @property
    def key(self) -> Hashable:
        """The key of a trace."""
        falls = self.round is not None and self.round.span < 0
        return self.name, self.owners, str(self.value.dtype), self.dims, self.dims.names, self.units, self.even, falls


AROUND = " around "
"""Between the name of a coordinate of several dims and a periodic dim along which its course was asked for."""


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a coordinate of several dims along a periodic one: where all its rows end, and may go on."""

    round: Round | None
    """Of rows that all rise, or all fall; the largest span, and the smallest turn."""
    closes: bool
    """True if from the last to the first it is no further than two of the largest steps, as of latitudes and areas."""
    known: bool = True
    """False where nobody can look at its numbers."""

    @property
    def key(self) -> Hashable:
        return self.closes, self.known, None if self.round is None else self.round.span < 0

    @staticmethod
    def through(rows: Any) -> Course:
        """The course of rows of numbers, less those that hold NaN."""
        rows = rows[~np.isnan(rows).any(axis=1)]
        if not rows.size or rows.shape[1] < 2:
            return Course(None, bool(rows.size))
        steps, spans = np.diff(rows, axis=1), rows[:, -1] - rows[:, 0]
        largest = np.abs(steps).max(axis=1)
        closes = bool(np.all(np.abs(spans) <= 2.0 * largest))
        if not (np.all(steps > 0) or np.all(steps < 0)):
            return Course(None, closes)
        sign = float(np.sign(spans[0]))
        turn = float((np.abs(spans) + 2.0 * largest).min())
        return Course(Round(sign * float(np.abs(spans).max()), sign * turn, False), closes)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of the arguments of one call, looked at when they are asked for."""

    arguments: Mapping[str, Any]
    place: Mapping[int, Dims] = field(default_factory=dict[int, Dims])
    """The intervals of arrays, by their identity, where a buffer for the result has a part in them."""

    def named(self, name: str) -> tuple[Coordinate, ...]:
        """The coordinates of a name: one, or several where arguments differ in it."""
        return tuple(replace(one, index=k) for k, one in enumerate(distinct(self._own(name))))

    def names(self, array: Any = None) -> list[str]:
        """The names that there are: of one argument where it is a DataArray, or of all."""
        if getattr(array, "coords", None) is not None:
            return [str(n) for n in array.coords]
        every = (str(n) for o in operands_of(self.arguments) for n in getattr(o.value, "coords", ()))
        return list(dict.fromkeys(every))

    def taken(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Coordinate]:
        """Coordinates by parameter, from the name of each and which of this name it is."""
        return {parameter: self.named(name)[index] for parameter, (name, index) in which.items()}

    def values(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        """Their arrays by parameter."""
        found = {p: c.value for p, c in self.taken(which).items()}
        return {p: v.data if kind_of(v) == "field" else v for p, v in found.items()}

    def key(self, names: Collection[str]) -> Hashable:
        """The key of a trace that asks for these names."""
        return tuple((n, tuple(c.key for c in self.named(n))) for n in sorted(names) if AROUND not in n) + tuple(
            (n, tuple(c.course(dim).key for c in self.named(own)))
            for n in sorted(names) if AROUND in n for own, _, dim in (n.partition(AROUND),)
        )  # fmt: skip

    def _own(self, name: str) -> Iterator[Coordinate]:
        operands = operands_of(self.arguments)
        own, _, units = name.partition(DATED)
        having = [o for o in operands if own in getattr(o.value, "coords", ())]
        where = placed(operands) if having else {}
        for o in having:
            at, value = self.place.get(id(o.value), where[o.name]), o.value.coords[own]
            refuse_packed(value, own)
            yield coordinate_of(in_units(value, units).rename(name) if units else value, at, (o.name,), (o.value,))


_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_EPOCH = "seconds since 1970-01-01"


def in_units(dates: Any, units: str) -> Any:
    """A DataArray of dates (of NumPy, or of a calendar of cftime) as numbers in CF units, `days since 2000-01-01`.

    Raises V37 for units of another form, and for a coordinate that holds no dates.

    >>> import xarray as xr
    >>> time = xr.DataArray(np.array(["2000-01-01", "2000-01-02T12"], "datetime64[ns]"), dims="time", name="time")
    >>> in_units(time, "days since 2000-01-01").values
    array([0. , 1.5])
    """
    unit, origin = _parted(units)
    values: Any = np.asarray(dates.values)
    calendar = calendar_of(values.reshape(-1)[:1])
    if values.dtype.kind != "M" and not calendar:
        raise refuse("V37", f"'{dates.name}' holds {values.dtype}, and no dates.", "leave units= out.")
    numbers = (_seconds(values, calendar) - _start(origin, calendar)) / _SECONDS[unit]
    return dates.drop_vars(list(dates.coords)).copy(data=numbers).drop_attrs().assign_attrs(units=f"{unit}s")


def _parted(units: str) -> tuple[str, str]:
    """The unit, and the date since which it counts."""
    unit, _, origin = units.partition(" since ")
    unit = unit.strip().lower().removesuffix("s")
    if unit not in _SECONDS or not origin:
        raise refuse("V37", f"'{units}' are no units of time since a date.", 'write units="days since 2000-01-01".')
    return unit, origin


def _seconds(dates: Any, calendar: str) -> Any:
    """Dates as seconds since 1970."""
    if dates.dtype.kind == "M":
        return (dates - np.datetime64(0, "s")) / np.timedelta64(1, "us") / 1e6
    return np.asarray(importlib.import_module("cftime").date2num(dates, _EPOCH, calendar), np.float64)


def _start(origin: str, calendar: str) -> float:
    """A date as seconds since 1970, in a calendar of cftime or NumPy's."""
    try:
        if not calendar:
            return float(_seconds(np.datetime64(origin.strip(), "us"), ""))
        cftime = importlib.import_module("cftime")
        return float(cftime.date2num(cftime.num2date(0, f"seconds since {origin}", calendar), _EPOCH, calendar))
    except ValueError as problem:
        raise refuse("V37", f"'{origin}' is no date: {problem}.", "write it as 2000-01-01.") from None


def distinct(coordinates: Iterable[Coordinate]) -> list[Coordinate]:
    """Coordinates without those that are parts of others, which have their owners."""
    found: list[Coordinate] = []
    for new in coordinates:
        same = next((k for k, old in enumerate(found) if _agree(old, new)), None)
        if same is None:
            found.append(new)
        else:
            wide, other = sorted((found[same], new), key=lambda c: -int(np.prod(c.dims.shape)))
            owners, arrays = found[same].owners + new.owners, found[same].arrays + new.arrays
            found[same] = replace(wide, units=wide.units or other.units, owners=owners, arrays=arrays)
    return found


def coordinate_of(value: Any, dims: Dims, owners: tuple[str, ...] = (), arrays: tuple[Any, ...] = ()) -> Coordinate:
    """A coordinate of a DataArray that stands on `dims`."""
    own = Dims(tuple((str(d), dims[str(d)]) for d in value.dims))
    units = str(value.attrs.get("units", ""))
    even, around = even_step(value.variable), round_of(value.variable)
    return Coordinate(str(value.name), value, own, units, even, around, owners, arrays)


def even_step(variable: Any) -> bool:
    """True if a coordinate has equal steps, as far as single precision, in which files hold coordinates, can say."""
    if variable.ndim != 1 or variable.dtype.kind not in "iuf" or not _in_memory(variable._data):
        return False
    values: Any = np.asarray(variable.values)
    return len(values) > 1 and _has_equal_steps(values)


def _has_equal_steps(values: Any) -> bool:
    steps: Any = np.diff(values)
    return bool(np.all(np.abs(steps - steps[0]) <= rounding_of(values)))


@dataclass(frozen=True, slots=True)
class Round:
    """From the first label to the last, and on to the first again; both are negative where labels fall."""

    span: float
    turn: float
    """With the step from the last to the first: of equal steps one more, of others two of the largest at most."""
    even: bool


def round_of(variable: Any) -> Round | None:
    """The period of labels; None for those that neither rise nor fall throughout, and for values that are no numbers.

    >>> import xarray as xr
    >>> round_of(xr.Variable("lon", [270.0, 180.0, 90.0, 0.0]))
    Round(span=-270.0, turn=-360.0, even=True)
    """
    if variable.ndim != 1 or variable.dtype.kind not in "iuf" or not _in_memory(variable._data):
        return None
    values: Any = np.asarray(variable.values)
    if len(values) < 2:
        return Round(0.0, np.inf, False)
    steps: Any = np.diff(values.astype(np.float64))
    if not (np.all(steps > 0) or np.all(steps < 0)):
        return None
    span, even = float(values[-1]) - float(values[0]), _has_equal_steps(values)
    step = span / len(steps) if even else 2.0 * float(steps[np.abs(steps).argmax()])
    # rounded: what is compiled for labels depends on them
    return Round(float(f"{span:.9g}"), float(f"{span + step:.9g}"), even)


def signed_period(dim: str, period: float, around: Round | None) -> float:
    """The period of a dim as its labels go on by it, negative where they fall; raises V42 for labels of another one."""
    period = abs(period)
    says = f"the period of {dim} is {period:.9g}"
    if around is None:
        message = f"{says}, and its labels neither rise nor fall throughout"
        raise refuse("V42", f"{message}.", f"bring them in order: x.sortby('{dim}').")
    span, turn = abs(around.span), abs(around.turn)
    slack = 0.05 * (turn - span)  # of labels that are written with a few digits
    if not (abs(period - turn) <= slack if around.even else span < period <= turn):
        again = f"{dim} has its first point twice: x.isel({dim}=slice(None, -1))"
        theirs = f"say that of the labels: ti.boundary.periodic({turn:.9g})" if around.even else "both have one unit"
        kind = f"its labels go round in {turn:.9g}" if around.even else f"its labels span {span:.9g}"
        raise refuse("V42", f"{says}, and {kind}.", f"{again if abs(period - span) <= slack else theirs}.")
    return -period if around.span < 0 else period


def rounding_of(values: Any) -> Any:
    """The rounding up to which steps of a coordinate are called equal."""
    return 4.0 * np.finfo("float32").eps * np.abs(values).max() if values.dtype.kind == "f" else 0


def _in_memory(data: Any) -> bool:
    """True if numbers are NumPy's, or a file's that is read when it is looked at."""
    return is_array(data) or data.__class__.__module__.partition(".")[0] in ("xarray", "pandas")


def _agree(a: Coordinate, b: Coordinate) -> bool:
    """True if two coordinates are the same on the points that both have."""
    if (a.name, a.dims.names, a.value.dtype) != (b.name, b.dims.names, b.value.dtype):
        return False
    if a.units and b.units and not is_same(a.units, b.units):
        return False
    x, y = (_numbers(c) for c in (a, b))
    if x is y:
        return True
    if not (_in_memory(x) and _in_memory(y)):
        return False
    cuts = [(i & b.dims[d], i, b.dims[d]) for d, i in a.dims.items]
    ours = tuple(slice(c.start - i.start, c.stop - i.start) for c, i, _ in cuts)
    theirs = tuple(slice(c.start - j.start, c.stop - j.start) for c, _, j in cuts)
    left, right = np.asarray(x)[ours], np.asarray(y)[theirs]
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def _numbers(coordinate: Coordinate) -> Any:
    value = coordinate.value
    return value.variable._data if kind_of(value) == "xarray" else value.data


# xarray at the edge: coordinates, names and attributes from the DataArrays that came in to the ones that go out.

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
            if labels is not None and (around := round_of(_index(dim, labels))) is not None:
                signed_period(dim, periods[dim], around)


def _index(dim: str, labels: Any) -> Any:
    from xarray import Variable

    return Variable(dim, labels)


def _labels_on(dim: str, part: Interval, source: Any, have: Dims) -> Any:
    """The labels of a DataArray on an interval of a dim, or as many of the staggered dim beside.

    There are none where labels are the points themselves, or dates and texts, which go round in no number.
    """
    for own in (dim, *partners(dim, have.names)):
        labels = labels_of(source, own) if own in have else None
        if labels is None or labels.dtype.kind not in "iuf" or interval_of(labels) is not None:
            continue
        values: Any = np.asarray(labels)
        if own == dim and have[dim].covers(part):
            return values[part_of(have[dim], part)]
        if own != dim and len(part) <= len(values):
            return values[: len(part)]
        if own != dim and len(values) > 1 and _has_equal_steps(values):
            return values[0] + (values[1] - values[0]) * np.arange(len(part))
    return None


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of the dims of the DataArrays of a call.

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
    lost: list[str] = field(default_factory=list[str])
    """The coordinates that were asked for where they are not known."""

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
            refuse_other_periods(found)
            return Labels(
                tuple(found), own, place, quantities(fencil, given), PERIODS.get({}), told, _names(fencil, own)
            )

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
                    coords[str(name)] = _native(coordinate).isel(part).drop_encoding()
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
        _warn_of_lost(lost)
        self.lost.extend(lost)
        result = leaf or param.name
        source, units = self.attributes_of(result, dims)
        attrs = with_units(self.own.get(source), units)
        if base is None:
            labelled = xr.DataArray(array, dims=dims.names, coords=coords, attrs=attrs)
        else:
            labelled = base.assign_coords(coords) if coords else base
            labelled.data, labelled.attrs = array, attrs
        labelled.name = (
            self.own[result].name if result in self.own else self.names.get(result, self.names.get(param.name))
        )  # xarray takes the name of an array of dask for one that is None
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
        if result in self.own:
            return result, None
        if keep == "default":
            return quantity.same_as if quantity.same_as in self.own else "", quantity.unit
        beside = (n for n, (_, have) in zip(self.own, self.sources, strict=True) if "_NB_" not in str(have)
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
    own = variable_of(None, array.dims, held, {})
    return DataArray(own, coordinates, name=array.name, indexes=indexes, fastpath=True)


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


def _units_of(array: Any) -> str:
    unit = array.attrs.get("units") if hasattr(array, "attrs") else None
    return unit if isinstance(unit, str) else ""


def part_of(have: Interval, need: Interval) -> slice:
    return slice(need.start - have.start, need.stop - have.start)
