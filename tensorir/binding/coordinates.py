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
        return tuple(replace(one, index=k) for k, one in enumerate(distinct(self._of_arguments(name))))

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
        coordinates = {p: c.value for p, c in self.taken(which).items()}
        return {p: v.data if kind_of(v) == "field" else v for p, v in coordinates.items()}

    def key(self, names: Collection[str]) -> Hashable:
        """The key of a trace that asks for these names."""
        return tuple((n, tuple(c.key for c in self.named(n))) for n in sorted(names) if AROUND not in n) + tuple(
            (n, tuple(c.course(dim).key for c in self.named(base)))
            for n in sorted(names) if AROUND in n for base, _, dim in (n.partition(AROUND),)
        )  # fmt: skip

    def _of_arguments(self, name: str) -> Iterator[Coordinate]:
        operands = operands_of(self.arguments)
        base, _, units = name.partition(DATED)
        having = [o for o in operands if base in getattr(o.value, "coords", ())]
        where = placed(operands) if having else {}
        for o in having:
            at, value = self.place.get(id(o.value), where[o.name]), o.value.coords[base]
            refuse_packed(value, base)
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
    merged: list[Coordinate] = []
    for new in coordinates:
        same = next((k for k, old in enumerate(merged) if _agree(old, new)), None)
        if same is None:
            merged.append(new)
        else:
            wide, other = sorted((merged[same], new), key=lambda c: -int(np.prod(c.dims.shape)))
            owners, arrays = merged[same].owners + new.owners, merged[same].arrays + new.arrays
            merged[same] = replace(wide, units=wide.units or other.units, owners=owners, arrays=arrays)
    return merged


def coordinate_of(value: Any, dims: Dims, owners: tuple[str, ...] = (), arrays: tuple[Any, ...] = ()) -> Coordinate:
    """A coordinate of a DataArray that stands on `dims`."""
    along = Dims(tuple((str(d), dims[str(d)]) for d in value.dims))
    units = str(value.attrs.get("units", ""))
    even, around = even_step(value.variable), round_of(value.variable)
    return Coordinate(str(value.name), value, along, units, even, around, owners, arrays)


def even_step(variable: Any) -> bool:
    """True if a coordinate has equal steps, as far as single precision, in which files hold coordinates, can say."""
    if variable.ndim != 1 or variable.dtype.kind not in "iuf" or not _in_memory(variable._data):
        return False
    values: Any = np.asarray(variable.values)
    return len(values) > 1 and has_equal_steps(values)


def has_equal_steps(values: Any) -> bool:
    """True if numbers have equal steps, as far as single precision can say."""
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
    span, even = float(values[-1]) - float(values[0]), has_equal_steps(values)
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
