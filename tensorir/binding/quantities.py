"""What results are, as far as it follows from what the caller's DataArrays say: their units, and whose values they are.

A shift, a part, a choice between values of one unit keep it; a sum has the unit of any operand that is known to have
one, and operands of two units are refused (A32), in comparisons and in the functions of scans too. What changes units
(products, functions) has none here, rather than a wrong one. A result is the *same quantity* as a parameter where it is
made of its values with weights that add up to 1: a part, a mean, a step of diffusion; a difference is not, though its
unit is the same.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← 0.5 × ⟪I, 1⟫(h) + 0.5 × h; }")
>>> quantities(f, {"h": "m"})
{'out': Quantity(unit='m', source='h', weight=1.0)}
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - h; }")
>>> quantities(f, {"h": "m"})["out"].same_as
''
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorir.binding.angles import in_radians, is_degrees
from tensorir.binding.arrays import refuse
from tensorir.binding.carried import of_functions
from tensorir.ir.builtins import ALL, TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import Element, Scalar
from tensorir.runtime.memory import RecentCache, WeakCache

__all__ = ["Quantity", "quantities", "units_of"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is known of a value."""

    unit: str = ""
    """"" where it is not known."""
    source: str = ""
    """The parameter of whose values it is a weighted sum, "" where it is none."""
    weight: float = 0.0
    """What the weights add up to; of a literal (without a source) its value."""

    @property
    def same_as(self) -> str:
        """The parameter that this is the same quantity as."""
        return self.source if abs(self.weight - 1.0) < 1e-9 else ""


UNKNOWN = Quantity()
ALIKE = frozenset({"eq", "not_eq", "less", "less_equal", "greater", "greater_equal", "arctan2"})
"""Builtins whose operands have one unit, and whose result has none."""
_Known = Quantity | tuple["_Known", ...]
"""What is known of a value: of a tuple what is of each member."""
_Key = tuple[tuple[str, str], ...]
FOUND: WeakCache[RecentCache[_Key, dict[str, Quantity]]] = WeakCache("units of programs")
"""Of each fencil what was found, by the units of its parameters."""


def quantities(fencil: Fencil, given: Mapping[str, str]) -> dict[str, Quantity]:
    """What outputs are, from the units of parameters by name ("" for one that says none).

    Members of tuples are called `x[0]`, among the parameters and the outputs.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<(float, float), I[0:4]>, h: tensor<float, I[0:4]>) { y ← (-h, h × h); }")
    >>> {name: found.unit for name, found in quantities(f, {"h": "m"}).items()}
    {'y[0]': 'm', 'y[1]': ''}

    Raises A32 where values of two units are added, compared by size, or put into one.
    """
    known = FOUND.of(fencil, lambda _: RecentCache("units of one program", 4))
    return known.of(tuple(sorted(given.items())), lambda: _quantities(fencil, given))


def units_of(fencil: Fencil, given: Mapping[str, str]) -> dict[str, str]:
    """The units of outputs, as far as they follow from those of parameters by name.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - 4.0 × h; }")
    >>> units_of(f, {"h": "m"})
    {'out': 'm'}
    """
    return {n: q.unit for n, q in quantities(fencil, given).items() if q.unit}


def _quantities(fencil: Fencil, given: Mapping[str, str]) -> dict[str, Quantity]:
    known: dict[str, _Known] = {
        p.name: found for p in fencil.params if (found := _given(p.type.element, p.name, given)) is not None
    }
    written: set[str] = set()
    for closure in fencil.closures:
        env = {v: known.get(v.name, UNKNOWN) for v in closure.value.free}
        name, value = closure.output.name, evaluate(closure.value, env, _value)
        if name in known and (name in written or closure.region is not None):
            # written in part, or again: what it was, if that is the same
            value = _each(lambda both: _one("update", both), [known[name], value])
        known[name] = value
        written.add(name)
    return {n: q for p in fencil.outputs if p.name in known for n, q in _leaves(p.name, p.type.element, known[p.name])}


def _given(element: Element, name: str, given: Mapping[str, str]) -> _Known | None:
    """What a parameter is, None where nothing says that it has names."""
    if isinstance(element, Scalar):
        return Quantity(given[name], name, 1.0) if name in given else None
    members = [_given(m, f"{name}[{k}]", given) for k, m in enumerate(element.members)]
    return None if all(m is None for m in members) else tuple(UNKNOWN if m is None else m for m in members)


def _leaves(name: str, element: Element, known: _Known) -> Iterator[tuple[str, Quantity]]:
    if isinstance(element, Scalar):
        yield name, known if isinstance(known, Quantity) else UNKNOWN
        return
    for k, member in enumerate(element.members):
        yield from _leaves(f"{name}[{k}]", member, _member(known, k))


def _member(known: _Known, k: int) -> _Known:
    return known[k] if isinstance(known, tuple) and k < len(known) else UNKNOWN


def _each(rule: Callable[[list[Quantity]], Quantity], values: Sequence[_Known]) -> _Known:
    """What a rule says of values, of tuples member by member."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each(rule, [_member(v, k) for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Quantity)])


def _value(node: Expr, operands: Sequence[Any], apply: Applier[_Known]) -> _Known:
    """What a literal, a call, or an operator applied to operands is."""
    match node:
        case Literal(value):
            return UNKNOWN if isinstance(value, bool) else Quantity(weight=float(value))
        case Operator(op):
            return _each(lambda values: _of(op, values), operands)
        case Call("make_tuple"):
            return tuple(operands)
        case Call("tuple_get"):
            return _member(operands[0], node.static[0])
        case Call("divides", (_, Literal(value))) if value:
            return _each(lambda one: _scaled(Quantity(weight=1.0 / value), one[0]), operands[:1])
        case Call() if (found := of_functions(node, operands, apply, _joined, _begun, UNKNOWN)) is not None:
            return found
        case Call(op) if not any(isinstance(o, Bound) for o in operands):
            return _each(lambda values: _of(op, values), operands)
        case _:
            return UNKNOWN


def _joined(a: _Known, b: _Known) -> _Known:
    """A value that is the one or the other."""
    return _each(lambda both: Quantity(_unit("what is carried", both)), [a, b])


def _begun(value: _Known) -> _Known:
    """What is carried has a unit; its weights are those of no step."""
    return _each(lambda one: Quantity(one[0].unit), [value])


def _of(op: str, values: list[Quantity]) -> Quantity:
    """A builtin of values."""
    row = TABLE[op]
    match op, values:
        case "plus", [_, _]:
            return _sum(op, values, 1.0)
        case "minus", [_, _]:
            return _sum(op, values, -1.0)
        case "neg", [a]:
            return replace(a, weight=-a.weight)
        case "cast", [a]:
            return a
        case "multiplies", [a, b]:
            return _scaled(*(values if _is_number(a) else (b, a)))
        case "if", [_, *branches]:
            return _one(op, branches)
        case _ if op in ALIKE:
            _unit(op, values)
            return UNKNOWN
        case _ if row.homogeneous and (row.moves or row.chooses):
            return _one(op, values[row.moved or ALL])
        case _ if row.homogeneous:
            return Quantity(_one(op, values).unit)
        case _:
            return UNKNOWN


def _unit(op: str, values: Sequence[Quantity]) -> str:
    units = list(dict.fromkeys(v.unit for v in values if v.unit))
    if len(units) > 1:
        names = " and ".join(f"'{v.source}' in {v.unit}" if v.source else v.unit for v in values if v.unit)
        raise refuse(
            "A32", f"{names} meet in {op}, which needs equal units.",
            "convert one of them, or leave units out: x.drop_attrs().",
        )  # fmt: skip
    return units[0] if units else ""


def _one(op: str, values: Sequence[Quantity]) -> Quantity:
    """What is one of several values."""
    unit, first = _unit(op, values), values[0] if values else UNKNOWN
    alike = all(v.source == first.source and v.weight == first.weight for v in values)
    return Quantity(unit, first.source, first.weight) if first.source and alike else Quantity(unit)


def _sum(op: str, values: Sequence[Quantity], sign: float) -> Quantity:
    a, b = values
    unit = _unit(op, values)
    if a.source and a.source == b.source:
        return Quantity(unit, a.source, a.weight + sign * b.weight)
    return Quantity(unit)


def _is_number(value: Quantity) -> bool:
    return not value.unit and not value.source and value.weight != 0.0


def _scaled(factor: Quantity, value: Quantity) -> Quantity:
    """A product: with a literal the same unit, but with that which converts degrees radians.

    What has the weight 0 keeps its unit whatever it is multiplied with.
    """
    if _is_number(factor):
        unit = "radians" if is_degrees(value.unit) and in_radians(factor.weight) else value.unit
        return replace(value, unit=unit, weight=factor.weight * value.weight) if value.source else Quantity(unit)
    for a, b in ((factor, value), (value, factor)):
        if a.source and not a.weight and not b.unit and not b.source:
            return Quantity("", a.source, 0.0)
    return UNKNOWN
