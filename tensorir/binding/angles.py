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
    """A value as factor × degrees of a parameter: `factor` is None for a value without degrees, NaN if unknown.

    `param` names the parameter in degrees; `number` is the value of a literal, None for every other expression.
    """

    factor: float | None = None
    param: str = ""
    number: float | None = None


_KnownAngle = Angle | tuple["_KnownAngle", ...]
"""The angle of a scalar value, or of each member of a tuple."""


def taken_in_degrees(closures: Iterable[Closure], params: Collection[str]) -> list[tuple[Call, str]]:
    """The calls of sin, cos and the like on an argument in degrees, each with the parameter it comes from.

    `params` are the parameters in degrees, `x[0]` for the member of a tuple.
    """
    calls: dict[int, tuple[Call, str]] = {}

    def rule(node: Expr, operands: Sequence[Any], apply: Applier[_KnownAngle]) -> _KnownAngle:
        if isinstance(node, Call) and TABLE[node.op].of_angle:
            angle: Angle = operands[0]
            if angle.factor is not None and not in_radians(angle.factor):
                calls[id(node)] = node, angle.param
        return _angle_value(node, operands, apply)

    written: dict[Any, _KnownAngle] = {}
    for closure in closures:
        free = closure.value.free
        env = {v: written.get(v, _stated_angles(v.type.element, v.name, params)) for v in free}
        value = evaluate(closure.value, env, rule)
        out = closure.output
        if closure.region is not None:  # the rest keeps what it had
            angle_before = written.get(out, _stated_angles(out.type.element, out.name, params))
            value = _joined_angles(angle_before, value)
        written[out] = value
    return list(calls.values())


def _stated_angles(element: Element, name: str, params: Collection[str]) -> _KnownAngle:
    """The angle of a parameter (factor 1 if it is among `params` in degrees), or of each member of its tuple."""
    if isinstance(element, Scalar):
        return Angle(1.0, name) if name in params else Angle()
    return tuple(_stated_angles(m, f"{name}[{k}]", params) for k, m in enumerate(element.members))


def refuse_degrees(fencil: Fencil, units: Mapping[str, str]) -> None:
    """Raise A43 where a program takes sin, cos and the like of a parameter in degrees.

    `units` are the units of parameters, by name. Calls are cached in `CALLS`.
    """
    params = frozenset(n for n, unit in units.items() if is_degrees(unit))
    if not params:
        return
    cache = CALLS.of(fencil, lambda _: RecentCache("sines of angles", 4))
    for op, name in cache.of(params, lambda: [(c.op, p) for c, p in taken_in_degrees(fencil.closures, params)]):
        message = f"'{name}' is in {units[name]}, and {op} takes radians."
        raise refuse("A43", message, f'multiply it by π/180, or say what it is: {name}.assign_attrs(units="radians").')


CALLS: WeakCache[RecentCache[frozenset[str], list[tuple[str, str]]]] = WeakCache("sines of angles in degrees")
"""By fencil, and then by the parameters in degrees, the builtins that take degrees, each with the parameter."""


def _angle_value(node: Expr, operands: Sequence[Any], apply: Applier[_KnownAngle]) -> _KnownAngle:
    """The transfer rule of the analysis: the angle of a node from those of its operands (`apply` runs functions)."""
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
    """The angle of a carry before the first step: like its initial value, but no literal number."""
    return _each_angle(lambda one: replace(one[0], number=None), [value])


def _joined_angles(a: _KnownAngle, b: _KnownAngle) -> _KnownAngle:
    """The join of two angles, for a value that is the one or the other at run time."""
    return _each_angle(_alike, [a, b])


def _each_angle(rule: Callable[[list[Angle]], Angle], values: Sequence[_KnownAngle]) -> _KnownAngle:
    """`rule` applied to the angles of several values, member by member if any of them is a tuple."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each_angle(rule, [v[k] if isinstance(v, tuple) else v for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Angle)])


def _alike(values: Sequence[Angle]) -> Angle:
    """The angle of one of several values, or of their sum: that of the values in degrees, NaN if their factors differ.

    Values without degrees, such as literals, do not change it.
    """
    angles = [a for a in values if a.factor is not None]
    if not angles:
        return Angle()
    first = angles[0]
    equal_factors = len({abs(a.factor or 0.0) for a in angles}) == 1
    return Angle(first.factor if equal_factors else math.nan, first.param)


def _angle_of(op: str, operands: Sequence[Angle]) -> Angle:
    """The angle of a builtin's result from those of its operands; no degrees for a builtin that is not homogeneous."""
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
    """The angle of a product: factors are multiplied, unknown (NaN) unless the other is a literal.

    The product of two angles is no angle.
    """
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
