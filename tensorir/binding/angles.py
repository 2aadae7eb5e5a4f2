"""Angles in degrees, as the units of DataArrays say, where functions take radians.

An expression is degrees times a factor where it is made of a parameter in degrees by moves, sums, choices and products
with literals; with π/180 it is an angle in radians. Others are refused as angles, and not converted: `np.deg2rad` of a
DataArray leaves "degrees" in its attributes, and would be converted twice.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, J[0:4]>, lat: tensor<float, J[0:4]>) { y ← (lat - 90.0) × 3.14159265 / 180.0; }")
>>> round(degrees(f.closures[0].value, {"lat"}, {}) * 180)
3
>>> in_radians(1.0), in_radians(math.pi / 180), in_radians(-math.pi / 90), in_radians(1.3), in_radians(math.nan)
(False, True, True, False, False)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.binding.arrays import is_tuple, refuse
from tensorir.builtins import ALL, TABLE
from tensorir.caches import RecentCache, WeakCache
from tensorir.ir import Call, Expr, Fencil, Literal, Operator, Var
from tensorir.walk import postorder, values

__all__ = ["DEGREES", "Angle", "degrees", "in_degrees", "in_radians", "refuse_degrees"]

DEGREES = frozenset({
    "°", "deg", "degree", "degrees", "arc_degree", "arc_degrees",
    *(f"{word}{joined}{side}" for word in ("degree", "degrees") for joined in ("_", "") for side in "NESW"),
    *(f"{word}_{side}" for word in ("degree", "degrees") for side in ("north", "east", "south", "west", "true")),
})  # fmt: skip
"""What CF conventions and UDUNITS call an angle in degrees."""
MULTIPLES = 1e-5
"""How far a factor may be from a whole multiple: π is written with five digits and more."""


def in_degrees(name: str, value: Any) -> Iterator[str]:
    """The names of the DataArrays in degrees in an argument, members of tuples as `name_0`."""
    if is_tuple(value):
        for k, member in enumerate(value):
            yield from in_degrees(f"{name}_{k}", member)
    elif getattr(value, "attrs", None) and str(value.attrs.get("units", "")).strip() in DEGREES:
        yield name


@dataclass(frozen=True, slots=True)
class Angle:
    """What is known of an expression: by what it multiplies degrees (None: it has none), and which number it is."""

    of: Expr
    factor: float | None = None
    number: float | None = None


def degrees(root: Expr, params: Collection[str], known: dict[int, Angle]) -> float | None:
    """What an expression multiplies degrees by: None where it has none, NaN where it is not known.

    `known` has what was found before, by identity.
    """
    waiting = [root]
    while waiting:
        node = waiting[-1]
        needed = [a for a in node.args if id(a) not in known] if isinstance(node, Call) else []
        if needed:
            waiting += needed
            continue
        waiting.pop()
        match node:
            case Literal(value) if not isinstance(value, bool):
                known[id(node)] = Angle(node, number=float(value))
            case Var(name):
                known[id(node)] = Angle(node, 1.0 if name in params else None)
            case Call(op, args):
                operands = [known[id(a)] for a in args]
                known[id(node)] = Angle(node, _factor(op, args, operands), _number(op, [o.number for o in operands]))
            case _:
                known[id(node)] = Angle(node)
    return known[id(root)].factor


def refuse_degrees(fencil: Fencil, units: Mapping[str, str]) -> None:
    """Raise A43 where a program takes sines of parameters in degrees.

    `units` are those of parameters, by name.
    """
    params = frozenset(n for n, unit in units.items() if unit.strip() in DEGREES)
    if not params:
        return
    for op, name in CALLS.of(fencil, lambda _: RecentCache("sines of angles", 4)).of(
        params, lambda: _wrong(fencil, params)
    ):
        told = f"'{name}' is in {units[name]}, and {op} takes radians."
        hint = f'multiply it by π/180, or say what it is: {name}.assign_attrs(units="radians").'
        raise refuse("A43", told, hint)


CALLS: WeakCache[RecentCache[frozenset[str], list[tuple[str, str]]]] = WeakCache("sines of angles in degrees")
"""Of each program what was found, by the parameters in degrees."""


def _wrong(fencil: Fencil, params: frozenset[str]) -> list[tuple[str, str]]:
    known: dict[int, Angle] = {}
    found: list[tuple[str, str]] = []
    for node in postorder(*values(fencil.closures)):
        if isinstance(node, Call) and TABLE[node.op].of_angle:
            factor = degrees(node.args[0], params, known)
            if factor is not None and not in_radians(factor):
                name = next(v.name for v in sorted(node.args[0].free, key=lambda v: v.name) if v.name in params)
                found.append((node.op, name))
    return found


def _number(op: str, values: list[float | None]) -> float | None:
    match op, values:
        case ("cast" | "add_dim", [a]):
            return a
        case ("neg", [float(a)]):
            return -a
        case ("multiplies", [float(a), float(b)]):
            return a * b
        case ("divides", [float(a), float(b)]) if b:
            return a / b
        case _:
            return None


def _factor(op: str, args: tuple[Expr, ...], operands: Sequence[Angle]) -> float | None:
    def alike(some: Sequence[Angle]) -> float | None:
        """The factor of one of several values, or of their sum: numbers are taken for the same kind."""
        factors = {abs(a.factor) for a in some if a.factor is not None}
        return None if not factors else factors.pop() if len(factors) == 1 else math.nan

    match op, args:
        case ("plus" | "minus", _) | ("neg" | "cast", _):
            return alike(operands)
        case ("multiplies", _):
            a, b = operands
            if (a.factor is None) == (b.factor is None):
                return None
            angle, other = (a, b) if b.factor is None else (b, a)
            assert angle.factor is not None
            return angle.factor * (math.nan if other.number is None else other.number)
        case ("divides", _):
            a, b = operands
            if a.factor is None or b.factor is not None:
                return None
            return a.factor / b.number if b.number else math.nan
        case ("if", _):
            return alike(operands[1:])
        case ("reduce", (Operator(inner), *_)) if TABLE[inner].homogeneous and TABLE[inner].associative:
            return alike(operands[2:])
        case _ if TABLE[op].homogeneous and (TABLE[op].moves or TABLE[op].chooses):
            return alike(operands[TABLE[op].moved or ALL])
        case _:
            return None


def in_radians(factor: float) -> bool:
    """Whether degrees times a factor are a multiple, or a part, of an angle in radians."""
    if not math.isfinite(factor) or not factor:
        return False
    multiple = factor * 180 / math.pi
    return any(round(y) and abs(y / round(y) - 1) < MULTIPLES for y in (multiple, 1 / multiple))
