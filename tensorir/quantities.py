"""What results are, as far as it follows from what the caller's DataArrays say: their units, and whose values they are.

A shift, a part, a choice between values of one unit keep it; a sum has the unit of any operand that is known to have
one, and operands of two units are refused (A32). What changes units (products, functions) has none here, rather than a
wrong one. A result is the *same quantity* as a parameter where it is made of its values with weights that add up to 1:
a part, a mean, a step of diffusion; a difference is not, though its unit is the same.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← 0.5 × ⟪I, 1⟫(h) + 0.5 × h; }")
>>> quantities(f, {"h": "m"})
{'out': Quantity(unit='m', source='h', weight=1.0)}
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - h; }")
>>> quantities(f, {"h": "m"})["out"].same_as
''
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.arrays import refuse
from tensorir.builtins import ALL, TABLE
from tensorir.caches import RecentCache, WeakCache
from tensorir.ir import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.walk import postorder

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
_Key = tuple[tuple[str, str], ...]
FOUND: WeakCache[RecentCache[_Key, dict[str, Quantity]]] = WeakCache("units of programs")
"""Of each fencil what was found, by the units of its parameters."""


def quantities(fencil: Fencil, given: Mapping[str, str]) -> dict[str, Quantity]:
    """What outputs are, from the units of parameters by name ("" for one that says none).

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
    known = {name: Quantity(unit, name, 1.0) for name, unit in given.items()}
    written: set[str] = set()
    for closure in fencil.closures:
        name, value = closure.output.name, _value(closure.value, known)
        if name in known and (name in written or closure.region is not None):
            # written in part, or again: what it was, if that is the same
            value = _one("update", [known[name], value])
        known[name] = value
        written.add(name)
    return {p.name: known[p.name] for p in fencil.outputs if p.name in known}


def _value(root: Expr, known: Mapping[str, Quantity]) -> Quantity:
    """What an expression is; parameters of applied functions stand for their arguments, by their unique names."""
    bound: dict[str, Expr | None] = {}
    for node in postorder(root):
        if isinstance(node, Apply) and isinstance(node.function, Lambda):
            for p, a in zip(node.function.params, node.args, strict=True):
                bound[p.name] = a if bound.get(p.name, a) is a else None  # of two calls it is neither's
    found: dict[int, Quantity] = {}
    waiting: list[Expr] = [root]
    while waiting:
        node = waiting[-1]
        needed = [n for n in _needs(node, bound) if id(n) not in found]
        if needed:
            waiting += needed
            continue
        waiting.pop()
        match node:
            case Apply(Lambda() as f):
                found[id(node)] = found[id(f.results[0])] if len(f.results) == 1 else UNKNOWN
            case Var(name) if name in bound:
                argument = bound[name]
                found[id(node)] = UNKNOWN if argument is None else found[id(argument)]
            case _:
                found[id(node)] = _of(node, found, known)
    return found[id(root)]


def _needs(node: Expr, bound: Mapping[str, Expr | None]) -> tuple[Expr, ...]:
    match node:
        case Apply(Lambda() as f):
            return f.results
        case Var(name):
            argument = bound.get(name)
            return () if argument is None else (argument,)
        case Call():
            return node.args
        case _:
            return ()


def _of(node: Expr, found: Mapping[int, Quantity], known: Mapping[str, Quantity]) -> Quantity:

    def of(nodes: Sequence[Expr]) -> list[Quantity]:
        return [found[id(n)] for n in nodes]

    match node:
        case Var(name):
            return known.get(name, UNKNOWN)
        case Literal(value) if not isinstance(value, bool):
            return Quantity(weight=float(value))
        case Call("make_tuple" | "tuple_get"):
            return UNKNOWN
        case Call("plus", (a, b)):
            return _sum("plus", of([a, b]), 1.0)
        case Call("minus", (a, b)):
            return _sum("minus", of([a, b]), -1.0)
        case Call("neg", (a,)):
            return replace(found[id(a)], weight=-found[id(a)].weight)
        case Call("cast", (a,)):
            return found[id(a)]
        case Call("multiplies", (a, b)):
            return _scaled(*of([a, b])) if _is_number(found[id(a)]) else _scaled(*of([b, a]))
        case Call("divides", (a, Literal(value))) if value:
            return _scaled(Quantity(weight=1.0 / value), found[id(a)])
        case Call("if", (_, *branches)):
            return _one("if", of(branches))
        case Call(op, args) if TABLE[op].homogeneous:
            one = _one(op, of(args[TABLE[op].moved or ALL]))
            return one if TABLE[op].moves or TABLE[op].chooses else Quantity(one.unit)
        case Call("reduce", (Operator(op), _, *args)) if TABLE[op].homogeneous and TABLE[op].associative:
            return Quantity(_one(op, of(args)).unit)
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
    """A product: with a literal the same unit; what has the weight 0 keeps it whatever it is multiplied with."""
    if _is_number(factor):
        return replace(value, weight=factor.weight * value.weight) if value.source else Quantity(value.unit)
    for a, b in ((factor, value), (value, factor)):
        if a.source and not a.weight and not b.unit and not b.source:
            return Quantity("", a.source, 0.0)
    return UNKNOWN
