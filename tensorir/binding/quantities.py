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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.binding.arrays import refuse
from tensorir.builtins import ALL, TABLE
from tensorir.caches import RecentCache, WeakCache
from tensorir.ir import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.types import Element, Scalar
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
        name, value = closure.output.name, _value(closure.value, known)
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


def _value(root: Expr, known: Mapping[str, _Known]) -> _Known:
    """What an expression is; parameters of applied functions stand for their arguments, by their unique names."""
    bound: dict[str, Expr | None] = {}
    for node in postorder(root):
        if isinstance(node, Apply) and isinstance(node.function, Lambda):
            for p, a in zip(node.function.params, node.args, strict=True):
                bound[p.name] = a if bound.get(p.name, a) is a else None  # of two calls it is neither's
    found: dict[int, _Known] = {}
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


def _of(node: Expr, found: Mapping[int, _Known], known: Mapping[str, _Known]) -> _Known:

    def each(rule: Callable[[list[Quantity]], Quantity], *nodes: Expr) -> _Known:
        return _each(rule, [found[id(n)] for n in nodes])

    match node:
        case Var(name):
            return known.get(name, UNKNOWN)
        case Literal(value) if not isinstance(value, bool):
            return Quantity(weight=float(value))
        case Call("make_tuple", args):
            return tuple(found[id(a)] for a in args)
        case Call("tuple_get", (a,)):
            return _member(found[id(a)], node.static[0])
        case Call("plus", (a, b)):
            return each(lambda both: _sum("plus", both, 1.0), a, b)
        case Call("minus", (a, b)):
            return each(lambda both: _sum("minus", both, -1.0), a, b)
        case Call("neg", (a,)):
            return each(lambda one: replace(one[0], weight=-one[0].weight), a)
        case Call("cast", (a,)):
            return found[id(a)]
        case Call("multiplies", (a, b)):
            return each(lambda both: _scaled(*(both if _is_number(both[0]) else both[::-1])), a, b)
        case Call("divides", (a, Literal(value))) if value:
            return each(lambda one: _scaled(Quantity(weight=1.0 / value), one[0]), a)
        case Call("if", (_, *branches)):
            return each(lambda ways: _one("if", ways), *branches)
        case Call(op, args) if TABLE[op].homogeneous and (TABLE[op].moves or TABLE[op].chooses):
            return each(lambda alike: _one(op, alike), *args[TABLE[op].moved or ALL])
        case Call(op, args) if TABLE[op].homogeneous:
            return each(lambda alike: Quantity(_one(op, alike).unit), *args)
        case Call("reduce", (Operator(op), _, *args)) if TABLE[op].homogeneous and TABLE[op].associative:
            return each(lambda alike: Quantity(_one(op, alike).unit), *args)
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
