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
>>> in_radians(1.0), in_radians(math.pi / 180), in_radians(-math.pi / 90), in_radians(1.3), in_radians(math.nan)
(False, True, True, False, False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorir.binding.arrays import is_tuple, refuse
from tensorir.binding.carried import of_functions
from tensorir.ir.builtins import ALL, TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import Element, Scalar
from tensorir.runtime.memory import RecentCache, WeakCache

__all__ = ["DEGREES", "in_degrees", "in_radians", "is_degrees", "refuse_degrees", "taken_in_degrees"]

DEGREES = frozenset({
    "°", "deg", "degree", "degrees", "arc_degree", "arc_degrees",
    *(f"{word}{joined}{side}" for word in ("degree", "degrees") for joined in ("_", "") for side in "NESW"),
    *(f"{word}_{side}" for word in ("degree", "degrees") for side in ("north", "east", "south", "west", "true")),
})  # fmt: skip
"""What CF conventions and UDUNITS call an angle in degrees."""
MULTIPLES = 1e-5
"""How far a factor may be from a whole multiple: π is written with five digits and more."""


def is_degrees(units: object) -> bool:
    """Whether the units of an array are degrees of an angle."""
    return isinstance(units, str) and units.strip() in DEGREES


def in_degrees(name: str, value: Any) -> Iterator[str]:
    """The names of the DataArrays in degrees in an argument, members of tuples as `name[0]`."""
    if is_tuple(value):
        for k, member in enumerate(value):
            yield from in_degrees(f"{name}[{k}]", member)
    elif getattr(value, "attrs", None) and is_degrees(value.attrs.get("units")):
        yield name


@dataclass(frozen=True, slots=True)
class Angle:
    """What is known of a value: what it multiplies degrees by (None: it has none, NaN: not known), and of which
    parameter they are; of a literal, which number it is."""

    factor: float | None = None
    param: str = ""
    number: float | None = None


_Known = Angle | tuple["_Known", ...]
"""What is known of a value: of a tuple what is of each member."""


def taken_in_degrees(closures: Iterable[Closure], params: Collection[str]) -> list[tuple[Call, str]]:
    """The functions of angles that get degrees, each with the parameter that these come from.

    `params` are those in degrees; of a tuple, members are called `x[0]`.
    """
    wrong: dict[int, tuple[Call, str]] = {}

    def rule(node: Expr, operands: Sequence[Any], apply: Applier[_Known]) -> _Known:
        if isinstance(node, Call) and TABLE[node.op].of_angle:
            angle: Angle = operands[0]
            if angle.factor is not None and not in_radians(angle.factor):
                wrong[id(node)] = node, angle.param
        return _value(node, operands, apply)

    written: dict[Any, _Known] = {}
    for closure in closures:
        free = closure.value.free
        env = {v: written.get(v, _given(v.type.element, v.name, params)) for v in free}
        value = evaluate(closure.value, env, rule)
        out = closure.output
        old = written.get(out, _given(out.type.element, out.name, params) if closure.region is not None else None)
        written[out] = value if old is None else _joined(old, value)
    return list(wrong.values())


def _given(element: Element, name: str, params: Collection[str]) -> _Known:
    if isinstance(element, Scalar):
        return Angle(1.0, name) if name in params else Angle()
    return tuple(_given(m, f"{name}[{k}]", params) for k, m in enumerate(element.members))


def refuse_degrees(fencil: Fencil, units: Mapping[str, str]) -> None:
    """Raise A43 where a program takes sines of parameters in degrees.

    `units` are those of parameters, by name.
    """
    params = frozenset(n for n, unit in units.items() if is_degrees(unit))
    if not params:
        return
    found = CALLS.of(fencil, lambda _: RecentCache("sines of angles", 4))
    for op, name in found.of(params, lambda: [(c.op, p) for c, p in taken_in_degrees(fencil.closures, params)]):
        told = f"'{name}' is in {units[name]}, and {op} takes radians."
        hint = f'multiply it by π/180, or say what it is: {name}.assign_attrs(units="radians").'
        raise refuse("A43", told, hint)


CALLS: WeakCache[RecentCache[frozenset[str], list[tuple[str, str]]]] = WeakCache("sines of angles in degrees")
"""Of each program what was found, by the parameters in degrees."""


# What values are


def _value(node: Expr, operands: Sequence[Any], apply: Applier[_Known]) -> _Known:
    match node:
        case Literal(value):
            return Angle(number=None if isinstance(value, bool) else float(value))
        case Operator(op):
            return _each(lambda values: _of(op, values), operands)
        case Call("make_tuple"):
            return tuple(operands)
        case Call("tuple_get"):
            return operands[0][node.static[0]]
        case Call() if (found := of_functions(node, operands, apply, _joined, _begun, Angle())) is not None:
            return found
        case Call(op) if not any(isinstance(o, Bound) for o in operands):
            return _each(lambda values: _of(op, values), operands)
        case _:
            return Angle()


def _begun(value: _Known) -> _Known:
    """What is carried is no literal."""
    return _each(lambda one: replace(one[0], number=None), [value])


def _joined(a: _Known, b: _Known) -> _Known:
    """A value that is the one or the other."""
    return _each(_alike, [a, b])


def _each(rule: Callable[[list[Angle]], Angle], values: Sequence[_Known]) -> _Known:
    """What a rule says of values, of tuples member by member."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each(rule, [v[k] if isinstance(v, tuple) else v for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Angle)])


def _alike(values: Sequence[Angle]) -> Angle:
    """One of several values, or their sum: numbers are taken for the same kind."""
    angles = [a for a in values if a.factor is not None]
    if not angles:
        return Angle()
    first = angles[0]
    same = len({abs(a.factor or 0.0) for a in angles}) == 1
    return Angle(first.factor if same else math.nan, first.param)


def _of(op: str, operands: Sequence[Angle]) -> Angle:
    """A builtin of values."""
    row = TABLE[op]
    match op, list(operands):
        case ("plus" | "minus", _):
            return _alike(operands)
        case ("cast" | "add_dim", [a]):
            return a
        case ("neg", [a]):
            return replace(a, number=None if a.number is None else -a.number)
        case ("multiplies", [Angle(None, _, float(a)), Angle(None, _, float(b))]):
            return Angle(number=a * b)
        case ("divides", [Angle(None, _, float(a)), Angle(None, _, float(b))]) if b:
            return Angle(number=a / b)
        case ("multiplies", [Angle(float(factor), param), Angle(None, _, number)]) | (
            "multiplies", [Angle(None, _, number), Angle(float(factor), param)]
        ):  # fmt: skip
            return Angle(factor * (math.nan if number is None else number), param)
        case ("divides", [Angle(float(factor), param), Angle(None, _, number)]):
            return Angle(factor / number if number else math.nan, param)
        case ("if", [_, *branches]):
            return _alike(branches)
        case _ if row.homogeneous and (row.moves or row.chooses):
            return _alike(operands[row.moved or ALL])
        case _:
            return Angle()


def in_radians(factor: float) -> bool:
    """Whether degrees times a factor are a multiple, or a part, of an angle in radians."""
    if not math.isfinite(factor) or not factor:
        return False
    multiple = factor * 180 / math.pi
    return any(round(y) and abs(y / round(y) - 1) < MULTIPLES for y in (multiple, 1 / multiple))
