"""The coordinates of a call's arguments, which `ti.coord(h, "lat")` reads as fields.

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
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.binding.arrays import is_array, kind_of, refuse_packed
from tensorir.binding.labels import DATED, calendar_of, operands_of, placed
from tensorir.binding.units import is_same
from tensorir.integers.dims import Dims
from tensorir.ir.types import TensorType, scalar_of
from tensorir.runtime.errors import refuse


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """A coordinate of arguments."""

    name: str
    value: Any
    """A DataArray or a Field."""
    dims: Dims
    """Its dims in the coordinates of the call, aligned by label with those of other arguments."""
    units: str = ""
    even: bool = False
    """True if its steps are equal, so that it can be extrapolated beyond its ends."""
    round: Round | None = None
    """Its span and period if it rises or falls throughout, for periodic dims; otherwise None."""
    owners: tuple[str, ...] = ()
    """The arguments that have it, by their name in messages."""
    arrays: tuple[Any, ...] = ()
    """The DataArrays of these owners."""
    index: int = 0
    """Its number among the different coordinates of its name."""

    @property
    def type(self) -> TensorType | None:
        """Its tensor type; None for dates, texts and other values without an element type."""
        element = scalar_of(self.value.dtype)
        return None if element is None else TensorType(element, self.dims)

    def course(self, dim: str) -> Course:
        """The course of its rows along one of its dims; without a period if the values are no numbers in memory."""
        numbers = _numbers(self)
        if dim not in self.dims or not _in_memory(numbers) or self.value.dtype.kind not in "iuf":
            return Course(None, False, False)
        rows: Any = np.moveaxis(np.asarray(numbers), list(map(str, self.value.dims)).index(dim), -1)
        return Course.through(rows.reshape(-1, rows.shape[-1]).astype(np.float64))

    @property
    def key(self) -> Hashable:
        """The part of a trace's cache key for this coordinate."""
        falls = self.round is not None and self.round.span < 0
        return self.name, self.owners, str(self.value.dtype), self.dims, self.dims.names, self.units, self.even, falls


AROUND = " around "
"""The separator in keys `lat around I`, for the course of a coordinate of several dims along a periodic dim."""


@dataclass(frozen=True, slots=True)
class Course:
    """A coordinate of several dims along a periodic dim: its rows are monotonic with a period, or closed."""

    round: Round | None
    """The largest span and smallest turn of the rows, if all rise or all fall; otherwise None."""
    closes: bool
    """True if in each row last and first value differ by two largest steps at most, as latitudes and areas do."""
    known: bool = True
    """False if its numbers are not in memory (traced, or on another device)."""

    @property
    def key(self) -> Hashable:
        return self.closes, self.known, None if self.round is None else self.round.span < 0

    @staticmethod
    def through(rows: Any) -> Course:
        """The course of a two-dimensional array of rows; those that hold NaN do not count."""
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
    """The coordinates of the arguments of one call, computed on request."""

    arguments: Mapping[str, Any]
    place: Mapping[int, Dims] = field(default_factory=dict[int, Dims])
    """The dims of arrays by `id(array)`, where the buffer of a result takes part in their alignment."""

    def named(self, name: str) -> tuple[Coordinate, ...]:
        """The coordinates of a name: one, or several numbered ones where arguments have different values."""
        return tuple(replace(one, index=k) for k, one in enumerate(distinct(self._of_arguments(name))))

    def names(self, array: Any = None) -> list[str]:
        """The names of the coordinates of `array` if it is a DataArray, otherwise of all arguments."""
        if getattr(array, "coords", None) is not None:
            return [str(n) for n in array.coords]
        every = (str(n) for o in operands_of(self.arguments) for n in getattr(o.value, "coords", ()))
        return list(dict.fromkeys(every))

    def taken(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Coordinate]:
        """The coordinate of each parameter, which `which` gives as (name, index among those of the name)."""
        return {parameter: self.named(name)[index] for parameter, (name, index) in which.items()}

    def values(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        """The array or DataArray of the coordinate of each parameter; `which` as in `taken`."""
        coordinates = {p: c.value for p, c in self.taken(which).items()}
        return {p: v.data if kind_of(v) == "field" else v for p, v in coordinates.items()}

    def key(self, names: Collection[str]) -> Hashable:
        """The part of a trace's cache key for the coordinates, and the courses `name around dim`, that it reads."""
        return tuple((n, tuple(c.key for c in self.named(n))) for n in sorted(names) if AROUND not in n) + tuple(
            (n, tuple(c.course(dim).key for c in self.named(base)))
            for n in sorted(names) if AROUND in n for base, _, dim in (n.partition(AROUND),)
        )  # fmt: skip

    def _of_arguments(self, name: str) -> Iterator[Coordinate]:
        """The coordinate `name` of each argument that has it; `time as days since ...` gives dates as numbers."""
        operands = operands_of(self.arguments)
        base, _, units = name.partition(DATED)
        having = [o for o in operands if base in getattr(o.value, "coords", ())]
        dims_of_operand = placed(operands) if having else {}
        for o in having:
            dims, value = self.place.get(id(o.value), dims_of_operand[o.name]), o.value.coords[base]
            refuse_packed(value, base)
            yield coordinate_of(in_units(value, units).rename(name) if units else value, dims, (o.name,), (o.value,))


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
    """The unit in the singular and the date of "days since 2000-01-01"; raises V37 for other texts."""
    unit, _, origin = units.partition(" since ")
    unit = unit.strip().lower().removesuffix("s")
    if unit not in _SECONDS or not origin:
        raise refuse("V37", f"'{units}' are no units of time since a date.", 'write units="days since 2000-01-01".')
    return unit, origin


def _seconds(dates: Any, calendar: str) -> Any:
    """Dates of NumPy (calendar "") or of a calendar of cftime as float seconds since 1970."""
    if dates.dtype.kind == "M":
        return (dates - np.datetime64(0, "s")) / np.timedelta64(1, "us") / 1e6
    return np.asarray(importlib.import_module("cftime").date2num(dates, _EPOCH, calendar), np.float64)


def _start(origin: str, calendar: str) -> float:
    """The text of a date as seconds since 1970, in a calendar of cftime or NumPy's (""); raises V37 if it is none."""
    try:
        if not calendar:
            return float(_seconds(np.datetime64(origin.strip(), "us"), ""))
        cftime = importlib.import_module("cftime")
        if re.fullmatch(r"\d+(-\d+)?", origin.strip()):  # a year, or a month, begins at its first day
            origin = origin.strip() + "-01" * (2 - origin.count("-"))
        return float(cftime.date2num(cftime.num2date(0, f"seconds since {origin}", calendar), _EPOCH, calendar))
    except ValueError as problem:
        raise refuse("V37", f"'{origin}' is no date: {problem}.", "write it as 2000-01-01.") from None


def distinct(coordinates: Iterable[Coordinate]) -> list[Coordinate]:
    """Coordinates merged where they agree on common points: the larger one remains, with the owners of both."""
    merged: list[Coordinate] = []
    for new in coordinates:
        agreeing = next((k for k, old in enumerate(merged) if _agree(old, new)), None)
        if agreeing is None:
            merged.append(new)
        else:
            larger, smaller = sorted((merged[agreeing], new), key=lambda c: -int(np.prod(c.dims.shape)))
            owners, arrays = merged[agreeing].owners + new.owners, merged[agreeing].arrays + new.arrays
            merged[agreeing] = replace(larger, units=larger.units or smaller.units, owners=owners, arrays=arrays)
    return merged


def coordinate_of(value: Any, dims: Dims, owners: tuple[str, ...] = (), arrays: tuple[Any, ...] = ()) -> Coordinate:
    """The coordinate `value` of an argument on `dims`, with its steps and its period."""
    along = Dims(tuple((str(d), dims[str(d)]) for d in value.dims))
    units = str(value.attrs.get("units", ""))
    even, around = even_step(value.variable), round_of(value.variable)
    return Coordinate(str(value.name), value, along, units, even, around, owners, arrays)


def even_step(variable: Any) -> bool:
    """True if a variable is a numeric, one-dimensional coordinate with equal steps within the rounding of float32."""
    if variable.ndim != 1 or variable.dtype.kind not in "iuf" or not _in_memory(variable._data):
        return False
    values: Any = np.asarray(variable.values)
    return len(values) > 1 and has_equal_steps(values)


def has_equal_steps(values: Any) -> bool:
    """True if the steps of values are equal within `rounding_of` them."""
    steps: Any = np.diff(values)
    return bool(np.all(np.abs(steps - steps[0]) <= rounding_of(values)))


@dataclass(frozen=True, slots=True)
class Round:
    """The extent of periodic labels; both numbers are negative where labels fall."""

    span: float
    """Last label less first."""
    turn: float
    """The span plus the step from the last point round to the first: with equal steps one, otherwise two largest."""
    even: bool
    """True if all steps are equal."""


def round_of(variable: Any) -> Round | None:
    """The span and period of labels; None if they neither rise nor fall throughout, or are no numbers.

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
    span, even = float(values[-1]) - float(values[0]), has_equal_steps(values)
    step = span / len(steps) if even else 2.0 * float(steps[np.abs(steps).argmax()])
    # rounded: what is compiled for labels depends on them
    return Round(float(f"{span:.9g}"), float(f"{span + step:.9g}"), even)


def signed_period(dim: str, period: float, around: Round | None) -> float:
    """The period with the sign of the steps of the labels `around`; raises V42 where the two contradict each other.

    With equal steps the period must be the turn within rounding, otherwise lie between the span and the turn.
    """
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
        described = f"its labels go round in {turn:.9g}" if around.even else f"its labels span {span:.9g}"
        raise refuse("V42", f"{says}, and {described}.", f"{again if abs(period - span) <= slack else theirs}.")
    return -period if around.span < 0 else period


def rounding_of(values: Any) -> Any:
    """The difference up to which steps of values count as equal: four float32 roundings, 0 for integers."""
    return 4.0 * np.finfo("float32").eps * np.abs(values).max() if values.dtype.kind == "f" else 0


def _in_memory(data: Any) -> bool:
    """True if data are NumPy's, or wrapped by xarray or pandas, so that their numbers can be read."""
    return is_array(data) or data.__class__.__module__.partition(".")[0] in ("xarray", "pandas")


def _agree(a: Coordinate, b: Coordinate) -> bool:
    """True if two coordinates have the same name, dims, dtype, unit, and values on their common points."""
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
