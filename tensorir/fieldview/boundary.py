"""Boundary conditions in any number of dims: functions on tensors, made of concat, subset, shifts, pos and add_dim.

A condition says what stands in the halo of one side of one dim. `extend` puts halos around a field; `with_boundary`
keeps its domain and renews its outermost points from those inside, for time stepping. Dims are extended one after the
other, in the order in which they are given, so that a corner follows from the conditions of both dims: the later one
sees the halo of the earlier one.

>>> import numpy as np
>>> from tensorir.ir.dimensions import dims
>>> import tensorir as ti
>>> (I,) = dims("I")
>>> x = ti.as_field({I: (0, 3)}, np.array([1.0, 2.0, 4.0]))
>>> [extend(x, {I: (1, 2)}, bc).data.tolist() for bc in (periodic(), neumann(), extrapolate())]
[[4.0, 1.0, 2.0, 4.0, 1.0, 2.0], [1.0, 1.0, 2.0, 4.0, 4.0, 4.0], [0.0, 1.0, 2.0, 4.0, 6.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

from tensorir.binding.arrays import is_tuple
from tensorir.fieldview.array_types import Widths
from tensorir.fieldview.operator import FieldOperator, field_operator
from tensorir.fieldview.trace import current
from tensorir.fieldview.traced import Traced, binary, make, unify, wrap
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.dimensions import Dimension
from tensorir.runtime.errors import article, refuse
from tensorir.runtime.locations import here

__all__ = ["BoundaryCondition", "dirichlet", "extrapolate", "neumann", "periodic"]

Halo = Callable[[Traced, str, int, bool], Traced]
"""The rule (field, dim, width, low) -> field on the halo of `width` points; `low` is True for the side before."""


@dataclass(frozen=True)
class BoundaryCondition:
    """A boundary condition: the rule for the values in the halo of one side of a dim."""

    name: str
    halo: Halo
    needs: int
    """How many points of the field it reads along the dim, at least."""
    period: float | None = None
    """The period of the coordinate of a periodic dim; None where it is not stated."""

    def __repr__(self) -> str:
        return f"<{self.name} boundary condition>"


Sides: TypeAlias = BoundaryCondition | tuple[BoundaryCondition, BoundaryCondition]
Conditions: TypeAlias = Sides | Mapping[Dimension, Sides] | Mapping[str, Sides]
"""One condition for all sides, a pair (before, after), or either by dim."""


def periodic(period: float | None = None) -> BoundaryCondition:
    """The field goes on at its other end.

    `period` is by how much the coordinate of the dim goes on where the field does: 360.0 for a longitude in degrees,
    whether it rises or falls. It need not be said where steps are equal; labels that go round in another period are
    refused (V42). A halo is at most as wide as the field's interval.
    """

    def halo(x: Traced, dim: str, width: int, low: bool) -> Traced:
        i = x.type.dims[dim]
        part = Interval(i.stop - width, i.stop) if low else Interval(i.start, i.start + width)
        return _moved(_part(x, dim, part), dim, -len(i) if low else len(i))

    # users who check no types give other things
    if not isinstance(period, Real | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse("V42", f"{period!r} is no period.", "write ti.boundary.periodic(360.0).", at=here())
    return BoundaryCondition("periodic", halo, 0, None if period is None else float(period))


def dirichlet(value: Any) -> BoundaryCondition:
    """A value: a number, a field without the dim or on the halo, or a function of the position.

    A function gets the coordinates in the halo by dim, as fields of int32, and returns the value there:
    `dirichlet(lambda at: ti.sin(0.1 * ti.astype(at[I], ti.float64)))`. What it uses from outside, such as the time,
    is an argument of the operator around it. Element type and units are the field's (A32).
    """

    def halo(x: Traced, dim: str, width: int, low: bool) -> Traced:
        """The points below or above, with the prescribed value, or a function of their positions."""
        i = x.type.dims[dim]
        part = Interval(i.start - width, i.start) if low else Interval(i.stop, i.stop + width)
        place = x.type.dims.with_interval(dim, part)
        prescribed = value(_positions(x, place)) if callable(value) else value
        _, piece = unify(x, prescribed)
        return _on(piece, place)

    return BoundaryCondition("Dirichlet", halo, 0)


def neumann(slope: Any = 0.0) -> BoundaryCondition:
    """A slope outwards, per point: the outermost value goes on, by `slope` more at each point away from it.

    `slope` is a number, or a field on the field's other dims, of its element type and units (A32).
    """

    def value(edge: Traced, inner: Traced, k: int) -> Traced:
        return edge if isinstance(slope, float) and slope == 0.0 else binary("plus", edge, slope * k)

    def halo(x: Traced, dim: str, width: int, low: bool) -> Traced:
        return _layers(x, dim, width, low, value)

    return BoundaryCondition("Neumann", halo, 1)


def extrapolate() -> BoundaryCondition:
    """Linear extrapolation of the two outermost values.

    Of floats; the field's interval has two points at least.
    """

    def value(edge: Traced, inner: Traced, k: int) -> Traced:
        return binary("plus", edge, binary("multiplies", float(k), binary("minus", edge, inner)))

    def halo(x: Traced, dim: str, width: int, low: bool) -> Traced:
        return _layers(x, dim, width, low, value)

    return BoundaryCondition("linear", halo, 2)


F = TypeVar("F")
"""A field of whatever kind."""


def extend(x: F, widths: Widths, bc: Conditions) -> F:
    """The field with halos: `extend(x, {I: (2, 2), J: 1}, periodic())`.

    `widths` are points before and after, or one number for both. `bc` is one condition for all sides, a pair (before,
    after), or either by dim. In an operator it is part of it; elsewhere it runs, and gives the kind that comes in.
    Coordinates of a DataArray go on by the period, or where their steps are equal; others are NaN in the halo, which a
    warning says.
    The result has the dims, element type and units of `x`. Raises V30 for a halo wider than a condition can say.
    """
    if not isinstance(x, Traced):
        return _operator(widths, bc, extend)(x)
    turns = current().turns
    for dim in map(str, widths):
        if _sides(bc, dim)[0].period is not None:
            turns.setdefault(dim, set()).add(_interval(x, dim))
    return _with_halos(x, widths, bc)


def with_boundary(x: F, widths: Widths, bc: Conditions) -> F:
    """The field on its own domain, its outermost points renewed from those inside by the conditions.

    `widths` and `bc` are as of `extend`. The result has the dims, intervals, element type and units of `x`. Raises V30
    where nothing is left inside.
    """
    if not isinstance(x, Traced):
        return _operator(widths, bc, with_boundary)(x)
    inner: dict[str, Interval] = {}
    for key, width in widths.items():
        dim = str(key)
        before, after = _both(width)
        interval = _interval(x, dim)
        if before + after >= len(interval):
            left = f"a boundary of {before} and {after} points leaves nothing of {dim}{interval}."
            raise refuse("V30", left, "make it narrower.", at=here())
        inner[dim] = Interval(interval.start + before, interval.stop - after)
    rest: Any = make("subset", x, static=(Dims(tuple(inner.items())),))
    return _with_halos(rest, widths, bc)


def _with_halos(x: Any, widths: Widths, bc: Conditions) -> Any:
    """The field with the halos of `extend`; records stated periods in the trace, and raises V31 for two of one dim."""
    field = x
    for key, width in widths.items():
        dim = str(key)
        before, after = _both(width)
        low, high = _sides(bc, dim)
        if low.period is not None:
            stated = current().periods.setdefault(dim, low.period)
            if stated != low.period:
                message = f"the period of {dim} is {stated} before, and {low.period} here."
                raise refuse("V31", message, "a dim has one period.", at=here())
        field = _extended(field, dim, before, after, low, high)
    return field


def _operator(widths: Mapping[Any, Any], bc: Any, function: Callable[..., Any]) -> FieldOperator:
    """`extend` or `with_boundary` (`function`) as a field operator of x, for calls outside of operators.

    Raises V30 for widths that are no mapping, and for x that is no field.
    """
    if not hasattr(widths, "items"):
        message = f"widths are {article(type(widths).__name__)}, and they are numbers of points by dim."
        raise refuse("V30", message, "write ti.extend(x, {I: 1}, ti.boundary.periodic()).")

    def boundary(x: Any) -> Any:
        if not isinstance(x, Traced):
            message = f"x is {article(type(x).__name__)}, and not a field."
            raise refuse("V30", message, "write ti.extend(x, {I: 1}, ti.boundary.periodic()).")
        return function(x, widths, bc)

    return field_operator(boundary)


def _both(width: Any) -> tuple[int, int]:
    """The widths (before, after) of a number or a pair; raises V30 for anything else."""
    match width:
        case Integral():
            return int(width), int(width)
        case (Integral() as before, Integral() as after):
            return int(before), int(after)
        case _:
            message = f"{width!r} is no width of a halo."
            raise refuse("V30", message, "write {I: 1}, or {I: (1, 2)} for two sides.", at=here())


def _points(count: int) -> str:
    return f"{count} point{'s' if count != 1 else ''}"


def _sides(bc: Any, dim: str) -> tuple[BoundaryCondition, BoundaryCondition]:
    """The conditions (before, after) of a dim from a condition, a pair, or a mapping by dim; raises V31 for others."""
    if hasattr(bc, "items"):
        condition: Any = next((c for d, c in bc.items() if str(d) == dim), None)
        if condition is None:
            hint = f"give one: {{{dim}: ti.boundary.periodic()}}."
            raise refuse("V31", f"there is no boundary condition for {dim}.", hint, at=here())
        bc = condition
    sides: list[Any] = list(bc) if is_tuple(bc) else [bc, bc]
    if len(sides) != 2:
        message = f"there are {len(sides)} boundary conditions for {dim}."
        raise refuse("V31", message, "write one for both sides, or a pair (before, after).", at=here())
    low, high = sides
    for side in (low, high):
        if not isinstance(side, BoundaryCondition):
            kinds = "use one of ti.boundary: periodic(), dirichlet(0.0), neumann() or extrapolate()."
            raise refuse("V31", f"{type(side).__name__} is no boundary condition.", kinds, at=here())
    if (low.name == "periodic") != (high.name == "periodic"):
        message = f"one side of {dim} is periodic and the other is not."
        raise refuse("V31", message, "a dim is periodic as a whole.", at=here())
    if low.period != high.period:
        message = f"the period of {dim} is {low.period} at one side and {high.period} at the other"
        raise refuse("V31", f"{message}.", "a dim has one period.", at=here())
    return low, high


def _interval(x: Traced, dim: str) -> Interval:
    """The interval of a field along a dim, which the trace records as named; raises V32 if it lacks the dim."""
    current().named.add(dim)
    interval = x.type.dims.get(dim)
    if interval is None:
        message = f"there is no dim {dim} to put a boundary on, only {x.type.dims}."
        raise refuse("V32", message, "name a dim of the field.", at=here())
    return interval


def _extended(x: Traced, dim: str, before: int, after: int, low: BoundaryCondition, high: BoundaryCondition) -> Traced:
    """The field with halos of `before` and `after` points along a dim; raises V30 where the interval is too short."""
    interval = _interval(x, dim)
    for width, side in ((before, low), (after, high)):
        if width < 0:
            raise refuse("V30", f"a halo has no {width} points.", "widths are 0 or more.", at=here())
        needed = width if side.name == "periodic" else side.needs
        if width and len(interval) < needed:
            need = f"a {side.name} halo of {_points(width)} needs {_points(needed)} of {dim}"
            raise refuse("V30", f"{need}, and there are {len(interval)}.", "make it narrower.", at=here())
    parts = [x]
    if before:
        parts.insert(0, low.halo(x, dim, before, True))
    if after:
        parts.append(high.halo(x, dim, after, False))
    return make("concat", *parts) if len(parts) > 1 else x


def _part(x: Traced, dim: str, part: Interval) -> Traced:
    return make("subset", x, static=(Dims(((dim, part),)),))


def _moved(x: Traced, dim: str, distance: int) -> Traced:
    """The field `distance` points further along a dim."""
    return make("cartesian_shift", x, static=(dim, -distance))


def _layers(x: Traced, dim: str, width: int, low: bool, value: Callable[[Traced, Traced, int], Traced]) -> Traced:
    """A halo of `width` layers, layer k being value(outermost point, the next one inside, k)."""
    i = x.type.dims[dim]
    at = i.start if low else i.stop - 1
    step = 1 if low else -1
    edge = _part(x, dim, Interval(at, at + 1))
    inner = edge if len(i) < 2 else _moved(_part(x, dim, Interval(at + step, at + step + 1)), dim, -step)
    layers = [_moved(value(edge, inner, k), dim, -step * k) for k in range(1, width + 1)]
    return layers[0] if width == 1 else make("concat", *(reversed(layers) if low else layers))


class _Positions(dict[str, Any]):
    """Coordinates by dim; a key is a Dimension or its name."""

    def __getitem__(self, dim: Dimension | str) -> Any:
        return super().__getitem__(str(dim))


def _positions(x: Traced, place: Dims) -> _Positions:
    """The integer coordinates of each dim on `place`, as fields of that dim."""
    positions = _Positions()
    for name, interval in place.items:
        line = make("add_dim", wrap(0), static=(name, interval.start, interval.stop))
        positions[name] = make("pos", line, static=(name,))
    return positions


def _on(piece: Traced, place: Dims) -> Traced:
    """A field on the dims `place`: broadcast along dims that it lacks, cut along others."""
    for name, interval in place.items:
        have = piece.type.dims.get(name)
        if have is None:
            piece = make("add_dim", piece, static=(name, interval.start, interval.stop))
        elif have != interval:
            piece = _part(piece, name, interval)
    return piece
