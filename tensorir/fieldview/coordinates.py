"""Coordinates as fields: `ti.coord(h, "lat")`, in operators and outside of them.

In an operator a coordinate is a parameter of its program, whose values a call takes from the coordinates of its
arguments.

>>> import tensorir as ti
>>> import xarray as xr
>>> h = xr.DataArray([1.0, 1.0], dims="lat", coords={"lat": ("lat", [0.0, 60.0], {"units": "degrees_north"})}, name="h")
>>> @ti.field_operator
... def area(h):
...     return h * ti.cos(ti.radians(ti.coord(h, "lat")))
>>> area(h).round(6).values.tolist()
[1.0, 0.5]
>>> print(area.fencil(h))
area(out: tensor<float, lat[0:2]>, h: tensor<float, lat[0:2]>, lat: tensor<float, lat[0:2]>) {
  out ← h × cos(lat × 0.017453292519943295);
}
"""

from __future__ import annotations

import re
from typing import Any, NoReturn, cast

import numpy as np

from tensorir.binding.arrays import kind_of
from tensorir.binding.coordinates import AROUND, Coordinate, Coordinates, in_units, signed_period
from tensorir.binding.labels import DATED, calendar_of
from tensorir.binding.units import is_degrees
from tensorir.fieldview.array_types import Value
from tensorir.fieldview.boundary import extend, extrapolate, periodic
from tensorir.fieldview.folds import sum
from tensorir.fieldview.trace import Tracing, current
from tensorir.fieldview.traced import Traced, binary, make
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build
from tensorir.ir.dimensions import Dimension, Offset
from tensorir.ir.staggering import around, partners
from tensorir.ir.types import FLOAT64
from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.runtime.locations import here, warn


def coord(x: Value, name: str | Dimension, /, *, units: str | None = None) -> Value:
    """A coordinate of a field, as a field on the dims that it has: an index, one of several dims, a cell measure.

    In an operator `x` is an argument, or what was computed of arguments, whose coordinates are looked at then; beyond
    the ends of the argument an index goes on with its steps where they are equal, or by the period of the boundary. A
    staggered dim has the midpoints: `ti.coord(flux, "lonHalf")`. Of a DataArray outside it is `x.coords[name]`, and of
    a Field what the DataArrays had that went into a time loop or a transformation. Units in degrees are seen by
    functions of angles. Dates become numbers in `units` of CF conventions: `ti.coord(t, "time", units="days since
    2000-01-01")`. Raises V37 for a coordinate that there is not, and V38 for one that differs or ends too early.
    """
    return cast("Value", _coordinate(x, str(name), units))


def _coordinate(x: Any, name: str, units: str | None = None) -> Any:
    """`coord` for a traced field, a DataArray, or a Field (which has the coordinates of the enclosing call)."""
    key = name if units is None else f"{name}{DATED}{units}"
    if isinstance(x, Traced):
        return _traced(x, key)
    if hasattr(x, "coords"):
        if name not in x.coords:
            raise refuse("V37", *_missing(f"'{x.name}'" if getattr(x, "name", None) else "the array", name, x.coords))
        return x.coords[name] if units is None else in_units(x.coords[name], units)
    if kind_of(x) != "field":
        raise refuse("V37", f"{type(x).__name__} has no coordinates.", "pass a DataArray.")
    fitting = [c for c in Coordinates({}).named(key) if set(c.dims) <= set(x.dims)]
    if len(fitting) == 1 and kind_of(fitting[0].value) == "field":
        return fitting[0].value
    if fitting:
        raise refuse("V38", *_several("the arrays that went in", name))
    raise refuse("V37", *_missing("the field", name, Coordinates({}).names(), True))


def _traced(x: Traced, name: str) -> Traced:
    """The coordinate of a traced field: of an argument on its dims, else midpoints of the staggered partner's index.

    Raises V28, V37 or V38 (see `coord`). Names that are looked up are recorded in the trace.
    """
    trace = current()
    trace.looked.add(name)
    array = trace.arguments.get(id(x.expr), (None, None))[1]
    coordinate = _fitting(x, trace, name, array)
    if coordinate is not None:
        return _on(x, trace, coordinate)
    for between in partners(name, trace.coordinates.names()) if name in x.dims else ():
        trace.looked.add(between)
        coordinate = next((c for c in trace.coordinates.named(between) if c.dims.names == (between,)), None)
        if coordinate is not None and between not in x.dims:
            return _between(x, trace, name, coordinate)
    for candidate in trace.coordinates.named(name):
        _elsewhere(x, trace, candidate)
    who = f"'{_name(trace, array)}'" if array is not None else "the field"
    base = name.partition(DATED)[0]
    raise refuse("V37", *_missing(who, base, trace.coordinates.names(array), kind_of(array) == "field"), at=here())


def _fitting(x: Traced, trace: Tracing, name: str, array: Any) -> Coordinate | None:
    """The coordinate on the dims of `x`: that of `array`, which `x` stands for, or the only one of all arguments.

    None without any; raises V38 for several.
    """
    candidates = [c for c in trace.coordinates.named(name) if set(c.dims) <= set(x.dims)]
    fitting = [c for c in candidates if any(a is array for a in c.arrays)] or candidates
    if len(fitting) > 1:
        owners = [f"'{c.owners[0]}'" for c in fitting if c.owners]
        raise refuse("V38", *_several(" and ".join(owners) or "the arrays that went in", name), at=here())
    return fitting[0] if fitting else None


def _name(trace: Tracing, array: Any) -> str:
    """The name of an argument in messages."""
    return next((n for n, v in trace.coordinates.arguments.items() if v is array), getattr(array, "name", None) or "it")


def _missing(who: str, name: str, known: Any, bare: bool = False) -> tuple[str, str]:
    """Message and hint for a coordinate that does not exist.

    `known` are the existing names, `bare` says it is a Field.
    """
    names = [str(n) for n in known]
    have = f"it has {', '.join(names)}" if names else "it has none"
    near = did_you_mean(name, names) if names else ""
    hint = near if near.endswith("?") else "x.assign_coords(...) gives it one; or pass the array as an argument."
    if bare and not names:
        hint = "a Field has those of DataArrays that go into ti.iterate, ti.jit or ti.grad; or pass it as an argument."
    return f"{who} has no coordinate '{name}'; {have}.", hint


def _several(who: str, name: str) -> tuple[str, str]:
    return f"{who} have different coordinates '{name}'.", "pass the one that is meant as an argument of its own."


def _elsewhere(x: Traced, trace: Tracing, coordinate: Coordinate) -> NoReturn:
    """Raise V28 or V37 for a coordinate on dims that the field does not have."""
    name, missing = coordinate.name, [d for d in coordinate.dims if d not in x.dims]
    for dim in missing:
        if dim in trace.scanned:
            message = f"inside of a scan along {dim} a field has one level of it, and '{name}' varies along it."
            raise refuse("V28", message, f"pass it as a field of its own: f(x, ti.coord(x, '{name}')).", at=here())
    between = partners(name, x.dims)
    help = f"ti.coord(x, '{between[0]}') lies between." if between else "take it of a field on its dims."
    message = f"the coordinate '{name}' is on {coordinate.dims}, and this field is on {x.type.dims}."
    raise refuse("V37", message, help, at=here())


def _field(trace: Tracing, coordinate: Coordinate) -> Traced:
    """A coordinate as a parameter of the trace, added at its first use.

    Raises V37 for dates, texts and other objects.
    """
    kind = coordinate.type
    if kind is None:
        calendar = calendar_of(np.ravel(coordinate.value)[:1])
        holds = f"{coordinate.value.dtype}, which is no element type"
        if calendar and coordinate.value.dtype.kind == "O":
            holds = f"dates of the calendar {calendar}, which are no numbers"
        hint = f'take it as numbers: ti.coord(x, "{coordinate.name}", units="days since 2000-01-01").'
        dates = coordinate.value.dtype.kind == "m" or calendar
        message = f"the coordinate '{coordinate.name}' holds {holds}."
        raise refuse("V37", message, hint if dates else "pass an array of numbers.", at=here())
    trace.named.update(coordinate.dims.names)
    key = coordinate.name, coordinate.index
    if key not in trace.fields:
        variable = build.var(trace.fresh(_parameter(coordinate.name)), kind)
        trace.fields[key] = variable
        if is_degrees(coordinate.units):
            trace.degrees.add(variable.name)
    return Traced(trace.fields[key])


def _parameter(name: str) -> str:
    """The name of a coordinate's parameter: an identifier, and not `out`, which is the result."""
    word = re.sub(r"\W", "_", name.partition(DATED)[0])
    return f"c_{word}" if not word.isidentifier() or word == "out" else word


def _on(x: Traced, trace: Tracing, coordinate: Coordinate) -> Traced:
    """A coordinate as a field on the points of `x` at least, as far as it goes on beyond its ends.

    An index goes on by its steps or its period, others along periodic dims; elsewhere a warning says that they end.
    """
    field = _field(trace, coordinate)
    base = coordinate.name.partition(DATED)[0]
    if coordinate.dims.names == (base,):
        needed = x.type.dims.get(base)
        return field if needed is None else _reaching(field, trace, coordinate, needed)
    for dim, have in coordinate.dims.items:
        needed = x.type.dims[dim]
        if have.covers(needed):
            continue
        if _period(trace, dim) is None:
            warn(
                f"'{base}' is known on {dim}{have}, and this field is on {dim}{needed}: what reads it beyond has no "
                "points there. Take it of the field without its halo, or extend it: "
                f"ti.extend(ti.coord(x, '{base}'), ...)"
            )
            continue
        field = _going_round(field, trace, coordinate, dim, needed)
    return field


def _period(trace: Tracing, dim: str) -> float | None:
    """The period of a dim or of its staggered partner; None for dims that are not periodic."""
    named = (dim, *partners(dim, trace.periods))
    return next((trace.periods[d] for d in named if d in trace.periods), None)


def _going_round(field: Traced, trace: Tracing, coordinate: Coordinate, dim: str, needed: Interval) -> Traced:
    """A coordinate that is no index, extended along a periodic dim to the interval `needed`.

    The halo has the values of the other end plus a period where all rows rise or fall by it, as longitudes do; it has
    them unchanged where last and first value are near each other, as those of latitudes and areas. Raises V38 for
    others.
    """
    period, course = _period(trace, dim), coordinate.course(dim)
    trace.looked.add(f"{coordinate.name}{AROUND}{dim}")
    assert period is not None
    by: Any = 0.0
    if course.round is not None and not course.closes:
        by = signed_period(dim, period, course.round)
    elif not course.closes and (course.known or not is_degrees(coordinate.units)):
        message = f"'{coordinate.name}' is known on {dim}{coordinate.dims[dim]}, and how it goes on along {dim} is not"
        raise refuse("V38", f"{message}.", "pass it as an argument that has the halo.", at=here())
    elif not course.closes:
        # nobody can look at its values within a loop: from the last point to the first an angle goes by whole periods
        rises = binary("divides", binary("minus", *_ends(field, dim, coordinate.dims[dim])), period)
        by = binary("multiplies", make("round", rises), period)
    return _round(field, dim, coordinate.dims[dim], needed, by)


def _ends(field: Traced, dim: str, have: Interval) -> tuple[Traced, Traced]:
    """The last point of a field along a dim with the interval `have`, and the first, both without the dim."""
    ends = Interval(have.stop - 1, have.stop), Interval(have.start, have.start + 1)
    last, first = (cast("Any", sum(make("subset", field, static=(Dims(((dim, end),)),)), dim)) for end in ends)
    return last, first


def _round(field: Traced, dim: str, have: Interval, needed: Interval, by: Any) -> Traced:
    """A field extended periodically from `have` to `needed`, `by` being subtracted before and added after."""
    before, after = max(0, have.start - needed.start), max(0, needed.stop - have.stop)
    unchanged = isinstance(by, float) and not by
    as_float = field if field.element.is_float or unchanged else make("cast", field, static=(FLOAT64,))
    extended = extend(as_float, {dim: (before, after)}, periodic())
    if unchanged:
        return extended
    ends = Interval(have.start - before, have.start), Interval(have.stop, have.stop + after)
    moved = [
        _moved(extended, dim, end, change)
        for end, change in zip(
            ends, (binary("multiplies", -1.0, by) if isinstance(by, Traced) else -by, by), strict=True
        )
        if end
    ]
    inner = make("subset", extended, static=(Dims(((dim, have),)),))
    return make("concat", *([moved[0], inner, *moved[1:]] if before else [inner, *moved]))


def _reaching(field: Traced, trace: Tracing, coordinate: Coordinate, needed: Interval) -> Traced:
    """An index extended to the interval `needed`: by its period, otherwise by equal steps (V38 without)."""
    dim = coordinate.dims.names[0]
    have = coordinate.dims[dim]
    if have.covers(needed):
        return field
    if (period := _period(trace, dim)) is not None:
        return _round(field, dim, have, needed, signed_period(dim, period, coordinate.round))
    if not coordinate.even:
        message = f"'{dim}' is known on {dim}{have}, this field is on {dim}{needed}, and its steps are not equal."
        hint = f"a periodic boundary says how it goes on, ti.boundary.periodic(360.0); or extend '{dim}' too."
        raise refuse("V38", message, hint, at=here())
    before, after = max(0, have.start - needed.start), max(0, needed.stop - have.stop)
    return extend(field, {dim: (before, after)}, extrapolate())


def _moved(field: Traced, dim: str, part: Interval, by: Any) -> Traced:
    """The field on the interval `part` of a dim, plus `by`."""
    return binary("plus", make("subset", field, static=(Dims(((dim, part),)),)), by)


def _between(x: Traced, trace: Tracing, name: str, index: Coordinate) -> Traced:
    """The midpoints of an index of the partner dim, on the points of the staggered dim `name` of `x`."""
    field = _reaching(_field(trace, index), trace, index, around(name, x.type.dims[name], index.name))
    if not field.element.is_float:
        field = make("cast", field, static=(FLOAT64,))
    before, after = field(Offset(Dimension(name), -0.5)), field(Offset(Dimension(name), 0.5))
    return binary("multiplies", 0.5, binary("plus", before, after))
