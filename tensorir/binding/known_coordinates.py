"""The coordinates of a call's arguments, which `ti.coord(h, "lat")` reads as fields.

They are those of the DataArrays among the arguments; a `ti.Field` has none, so inside of a time loop or a
transformation of labelled arrays they are those that the DataArrays had when they went in (`KNOWN`). What several
arguments have alike is one coordinate, the one of the most points.

>>> import xarray as xr
>>> h = xr.DataArray([1.0, 2.0], dims="lat", coords={"lat": ("lat", [50.0, 52.5], {"units": "degrees_north"})})
>>> (lat,) = Coordinates({"h": h, "u": h[1:]}).named("lat")
>>> lat.owners, lat.type, lat.units, lat.even
(('h', 'u'), tensor<float, lat[0:2]>, 'degrees_north', True)
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.binding.arrays import is_array, kind_of, refuse
from tensorir.binding.labels import operands_of, placed
from tensorir.ir.types import Dims, TensorType, scalar_of

__all__ = [
    "KNOWN",
    "Coordinate",
    "Coordinates",
    "Round",
    "coordinate_of",
    "distinct",
    "even_step",
    "knowing",
    "round_of",
    "signed_period",
]


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

    @property
    def key(self) -> Hashable:
        """What a trace depends on."""
        falls = self.round is not None and self.round.span < 0
        return self.name, self.owners, str(self.value.dtype), self.dims, self.dims.names, self.units, self.even, falls


KNOWN: ContextVar[tuple[Coordinate, ...]] = ContextVar("coordinates of the arrays that went into a loop", default=())
"""What the labelled arrays around had for coordinates, which now are Fields and have none."""


@contextmanager
def knowing(known: Iterable[Coordinate]) -> Generator[None]:
    """Coordinates, as they are found where there are Fields."""
    token = KNOWN.set(tuple(known))
    try:
        yield
    finally:
        KNOWN.reset(token)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of the arguments of one call, looked at when they are asked for."""

    arguments: Mapping[str, Any]
    place: Mapping[int, Dims] = field(default_factory=dict[int, Dims])
    """The intervals of arrays, by their identity, where a buffer for the result has a part in them."""

    def named(self, name: str) -> tuple[Coordinate, ...]:
        """The coordinates of a name: one, or several where arguments differ in it."""
        found = distinct([*self._own(name), *(c for c in KNOWN.get() if c.name == name)])
        return tuple(replace(one, index=k) for k, one in enumerate(found))

    def names(self, array: Any = None) -> list[str]:
        """The names that there are: of one argument where it is a DataArray, or of all."""
        if getattr(array, "coords", None) is not None:
            return [str(n) for n in array.coords]
        own = [str(n) for o in operands_of(self.arguments) for n in getattr(o.value, "coords", ())]
        return list(dict.fromkeys([*own, *(c.name for c in KNOWN.get())]))

    def taken(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Coordinate]:
        """Coordinates by parameter, from the name of each and which of this name it is."""
        return {parameter: self.named(name)[index] for parameter, (name, index) in which.items()}

    def values(self, which: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        """Their arrays by parameter."""
        found = {p: c.value for p, c in self.taken(which).items()}
        return {p: v.data if kind_of(v) == "field" else v for p, v in found.items()}

    def key(self, names: Collection[str]) -> Hashable:
        """What a trace that asks for these names depends on."""
        return tuple((n, tuple(c.key for c in self.named(n))) for n in sorted(names))

    def _own(self, name: str) -> Iterator[Coordinate]:
        operands = operands_of(self.arguments)
        having = [o for o in operands if name in getattr(o.value, "coords", ())]
        where = placed(operands) if having else {}
        for o in having:
            at = self.place.get(id(o.value), where[o.name])
            yield coordinate_of(o.value.coords[name], at, (o.name,), (o.value,))


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
    """Whether a coordinate has equal steps, as far as single precision, in which files hold coordinates, can say."""
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
    """How labels go round; None for those that neither rise nor fall throughout, and for what are no numbers.

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
        told = f"{says}, and its labels neither rise nor fall throughout"
        raise refuse("V42", f"{told}.", f"bring them in order: x.sortby('{dim}').")
    span, turn = abs(around.span), abs(around.turn)
    slack = 0.05 * (turn - span)  # of labels that are written with a few digits
    if not (abs(period - turn) <= slack if around.even else span < period <= turn):
        again = f"{dim} has its first point twice: x.isel({dim}=slice(None, -1))"
        theirs = f"say that of the labels: ti.periodic({turn:.9g})" if around.even else "both have one unit"
        kind = f"its labels go round in {turn:.9g}" if around.even else f"its labels span {span:.9g}"
        raise refuse("V42", f"{says}, and {kind}.", f"{again if abs(period - span) <= slack else theirs}.")
    return -period if around.span < 0 else period


def rounding_of(values: Any) -> Any:
    """How far steps of a coordinate may differ and still be called equal."""
    return 4.0 * np.finfo("float32").eps * np.abs(values).max() if values.dtype.kind == "f" else 0


def _in_memory(data: Any) -> bool:
    """Whether numbers are NumPy's, or a file's that is read when it is looked at."""
    return is_array(data) or data.__class__.__module__.partition(".")[0] in ("xarray", "pandas")


def _agree(a: Coordinate, b: Coordinate) -> bool:
    """Whether two coordinates are the same on the points that both have."""
    if (a.name, a.dims.names, a.value.dtype) != (b.name, b.dims.names, b.value.dtype):
        return False
    if a.units and b.units and a.units != b.units:
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
