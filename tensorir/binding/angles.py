"""Angles in degrees, as the units of DataArrays say, where functions take radians.

An expression is degrees times a factor where it is made of a parameter in degrees by moves, sums, choices and products
with literals, in the functions of scans and loops too; with π/180 it is an angle in radians. Others are refused as
angles, and not converted: `np.deg2rad` of a DataArray leaves "degrees" in its attributes, and would be converted twice.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, J[0:4]>, lat: tensor<float, J[0:4]>) { y ← sin((lat - 90.0) × 3.14159 / 90.0); }")
>>> taken_in_degrees(f.closures, {"lat"})
[]
>>> f = ti.parse("f(y: tensor<float, J[0:4]>, lat: tensor<float, J[0:4]>) { y ← sin(2.0 × lat); }")
>>> [(call.op, param) for call, param in taken_in_degrees(f.closures, {"lat"})]
[('sin', 'lat')]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorir.binding.arrays import is_tuple
from tensorir.binding.quantities import of_functions
from tensorir.binding.units import in_radians, is_degrees
from tensorir.ir.builtins import ALL, TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import Element, Scalar
from tensorir.runtime.errors import refuse
from tensorir.runtime.memory import RecentCache, WeakCache


def in_degrees(name: str, value: Any) -> Iterator[str]:
    """The names of the DataArrays in degrees in an argument, members of tuples as `name[0]`."""
    if is_tuple(value):
        for k, member in enumerate(value):
            yield from in_degrees(f"{name}[{k}]", member)
    elif getattr(value, "attrs", None) and is_degrees(value.attrs.get("units")):
        yield name


@dataclass(frozen=True, slots=True)
class Angle:
    """An angle: its factor of degrees (None: it has none, NaN: not known) and the parameter that has them; of a
    literal, its number.
    """

    factor: float | None = None
    param: str = ""
    number: float | None = None


_KnownAngle = Angle | tuple["_KnownAngle", ...]
"""What is known of a value: of a tuple what is of each member."""


def taken_in_degrees(closures: Iterable[Closure], params: Collection[str]) -> list[tuple[Call, str]]:
    """The functions of angles that get degrees, each with the parameter that these come from.

    `params` are those in degrees; of a tuple, members are called `x[0]`.
    """
    wrong: dict[int, tuple[Call, str]] = {}

    def rule(node: Expr, operands: Sequence[Any], apply: Applier[_KnownAngle]) -> _KnownAngle:
        if isinstance(node, Call) and TABLE[node.op].of_angle:
            angle: Angle = operands[0]
            if angle.factor is not None and not in_radians(angle.factor):
                wrong[id(node)] = node, angle.param
        return _angle_value(node, operands, apply)

    written: dict[Any, _KnownAngle] = {}
    for closure in closures:
        free = closure.value.free
        env = {v: written.get(v, _stated_angles(v.type.element, v.name, params)) for v in free}
        value = evaluate(closure.value, env, rule)
        out = closure.output
        old = written.get(
            out, _stated_angles(out.type.element, out.name, params) if closure.region is not None else None
        )
        written[out] = value if old is None else _joined_angles(old, value)
    return list(wrong.values())


def _stated_angles(element: Element, name: str, params: Collection[str]) -> _KnownAngle:
    if isinstance(element, Scalar):
        return Angle(1.0, name) if name in params else Angle()
    return tuple(_stated_angles(m, f"{name}[{k}]", params) for k, m in enumerate(element.members))


def refuse_degrees(fencil: Fencil, units: Mapping[str, str]) -> None:
    """Raise A43 where a program takes sines of parameters in degrees.

    `units` are those of parameters, by name.
    """
    params = frozenset(n for n, unit in units.items() if is_degrees(unit))
    if not params:
        return
    known = CALLS.of(fencil, lambda _: RecentCache("sines of angles", 4))
    for op, name in known.of(params, lambda: [(c.op, p) for c, p in taken_in_degrees(fencil.closures, params)]):
        message = f"'{name}' is in {units[name]}, and {op} takes radians."
        raise refuse("A43", message, f'multiply it by π/180, or say what it is: {name}.assign_attrs(units="radians").')


CALLS: WeakCache[RecentCache[frozenset[str], list[tuple[str, str]]]] = WeakCache("sines of angles in degrees")
"""Of each program what was found, by the parameters in degrees."""


def _angle_value(node: Expr, operands: Sequence[Any], apply: Applier[_KnownAngle]) -> _KnownAngle:
    match node:
        case Literal(value):
            return Angle(number=None if isinstance(value, bool) else float(value))
        case Operator(op):
            return _each_angle(lambda values: _angle_of(op, values), operands)
        case Call() if (
            angle := of_functions(node, operands, apply, _joined_angles, _begun_with_angles, Angle())
        ) is not None:
            return angle
        case Call(op) if not any(isinstance(o, Bound) for o in operands):
            return _each_angle(lambda values: _angle_of(op, values), operands)
        case _:
            return Angle()


def _begun_with_angles(value: _KnownAngle) -> _KnownAngle:
    """The carry at the start, which is no literal."""
    return _each_angle(lambda one: replace(one[0], number=None), [value])


def _joined_angles(a: _KnownAngle, b: _KnownAngle) -> _KnownAngle:
    """A value that is the one or the other."""
    return _each_angle(_alike, [a, b])


def _each_angle(rule: Callable[[list[Angle]], Angle], values: Sequence[_KnownAngle]) -> _KnownAngle:
    """The angles by a rule for values, of tuples member by member."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each_angle(rule, [v[k] if isinstance(v, tuple) else v for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Angle)])


def _alike(values: Sequence[Angle]) -> Angle:
    """One of several values, or their sum: numbers are taken for the same kind."""
    angles = [a for a in values if a.factor is not None]
    if not angles:
        return Angle()
    first = angles[0]
    same = len({abs(a.factor or 0.0) for a in angles}) == 1
    return Angle(first.factor if same else math.nan, first.param)


def _angle_of(op: str, operands: Sequence[Angle]) -> Angle:
    """A builtin of values."""
    row = TABLE[op]
    match op, list(operands):
        case _ if row.linear == ((0, 1),):
            return _alike(operands)
        case (_, [a]) if row.relocates or op == "cast":
            return a
        case ("neg", [a]):
            return replace(a, number=None if a.number is None else -a.number)
        case ("multiplies", [a, b]):
            return _times(a, b)
        case ("divides", [a, Angle(None, _, number)]):
            return _times(a, Angle(number=1 / number if number else None))
        case ("if", [_, *branches]):
            return _alike(branches)
        case _ if row.homogeneous and (row.moves or row.chooses):
            return _alike(operands[row.moved or ALL])
        case _:
            return Angle()


def _times(a: Angle, b: Angle) -> Angle:
    """A product with a number; one of two angles is none."""
    match a, b:
        case Angle(None, _, float(x)), Angle(None, _, float(y)):
            return Angle(number=x * y)
        case (Angle(float(factor), param), Angle(None, _, number)) | (
            Angle(None, _, number),
            Angle(float(factor), param),
        ):
            return Angle(factor * (math.nan if number is None else number), param)
        case _:
            return Angle()
