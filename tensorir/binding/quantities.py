"""Quantities: the units of results, and the parameter that each has the values of, from the units of arguments.

A shift, a part, a choice between values of one unit keep it; a sum has the unit of any operand that is known to have
one, and operands of two units are refused (A32), in comparisons and in the functions of scans too. Products and
quotients of values with units have theirs, in the words of UDUNITS (`K m-1`), unless a number such as 9.81 or an angle
is among their factors. Functions have an unknown unit, rather than a wrong one; equal unknown units cancel in
quotients: a mean has the unit of its values whatever that of its weights is. A result is the *same quantity* as a
parameter where it is made of its values with weights that add up to 1: a part, a mean, a step of diffusion; a
difference is not, though its unit is the same.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← 0.5 × ⟪I, 1⟫(h) + 0.5 × h; }")
>>> found = quantities(f, {"h": "m"})["out"]
>>> found.unit, found.same_as
('m', 'h')
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - h; }")
>>> quantities(f, {"h": "m"})["out"].same_as
''
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from tensorir.binding.units import in_radians, is_degrees, is_same, powers_of, product, udunits
from tensorir.ir.builtins import ALL, TABLE, Control
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import Element, Scalar
from tensorir.runtime.errors import refuse
from tensorir.runtime.memory import RecentCache, WeakCache

# Abstract interpretation of calls that take functions (scans, folds, loops, branches), over any domain with a join.
#
# The carry is the least fixed point of carry = join(initial value, step(carry)).

V = TypeVar("V")


def of_functions(
    node: Call, operands: Sequence[Any], apply: Applier[V], joined: Callable[[V, V], V], begun: Callable[[V], V],
    counter: V,
) -> V | None:  # fmt: skip
    """The abstract value of a fold, scan, loop, branch, block, or tuple builtin; None for every other call.

    `apply` runs a function operand on abstract values, `joined` is the join of two values, `begun` maps the initial
    value of a carry to the carry before the first step, and `counter` is the value of a loop's counter.
    """
    values: list[Any] = list(operands)
    match TABLE[node.op].control:
        case Control.FOLD:
            f, init, *xs = values
            return _settled([begun(init)], lambda state: [apply(f, *state, *xs)], joined)[0]
        case Control.LOOP:
            condition, step, *carried = values
            settled = _settled([begun(c) for c in carried], lambda state: apply.each(step, counter, *state), joined)
            apply(condition, counter, *settled)
            return settled[_result(node)]
        case Control.BRANCHES:
            f, g, _, *xs = values
            first, second = (apply.each(h, *xs)[_result(node)] for h in (f, g))
            return joined(first, second)
        case Control.BLOCKS:
            f, *xs = values
            return apply.each(f, *xs)[_result(node)]
        case _ if node.op == "make_tuple":
            return cast("V", tuple(values))  # the value of a tuple is a tuple of values
        case _ if node.op == "tuple_get":
            (members,) = values
            return cast("V", members[_result(node)]) if isinstance(members, tuple) else counter
        case _:
            return None


def _result(node: Call) -> int:
    """The index of the result, among several of a function or a tuple, that a call returns."""
    return int(node.static[0])


def _settled(state: list[V], step: Callable[[list[V]], Sequence[V]], joined: Callable[[V, V], V]) -> list[V]:
    """The fixed point of state = joined(state, step(state)), carry by carry, from an initial state."""
    while True:
        next_state = [joined(a, b) for a, b in zip(state, step(state), strict=True)]
        if repr(next_state) == repr(state):  # compared as text, in which NaN equals NaN
            return state
        state = next_state


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity: unit, weight and source of a value, as far as they are known."""

    unit: str = ""
    """The UDUNITS text; "" for an unknown unit."""
    source: str = ""
    """The parameter that it is a weighted sum of points of; "" where it is no such sum."""
    weight: float = 0.0
    """The sum of the weights; for a literal (without a source) its value."""
    pure: bool = True
    """False once it was scaled by a literal that may be a constant with a unit, such as 9.81."""
    derived: bool = False
    """True if the unit was computed as a product or quotient of units, and not stated by an argument."""
    factor: int = 0
    """The id (`_number_of`) of an unknown unit that is a factor of this one; 0: none, `SEVERAL`: more than one."""
    beside: str = ""
    """The known unit that multiplies the unknown one: unit = `factor` × `beside`."""
    points: int = 1
    """The number of values that were added up."""

    @property
    def same_as(self) -> str:
        """The parameter that this is the same quantity as: the source, if the weights add up to 1; else ""."""
        return self.source if abs(self.weight - 1.0) < 1e-9 else ""


UNKNOWN = Quantity()
SEVERAL = -1
_Known = Quantity | tuple["_Known", ...]
"""The quantity of a scalar value, or of each member of a tuple."""
_Key = tuple[tuple[str, str], ...]
FOUND: WeakCache[RecentCache[_Key, dict[str, Quantity]]] = WeakCache("units of programs")
"""The result of `quantities` by fencil, and then by the units of its parameters."""


def quantities(fencil: Fencil, units: Mapping[str, str]) -> dict[str, Quantity]:
    """The quantity of each output by name, from `units` of the parameters by name ("" for a DataArray without units).

    Members of tuples are called `x[0]`, among the parameters and the outputs.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<(float, float), I[0:4]>, h: tensor<float, I[0:4]>) { y ← (-h, h × h); }")
    >>> {name: found.unit for name, found in quantities(f, {"h": "m"}).items()}
    {'y[0]': 'm', 'y[1]': 'm2'}

    Raises A32 where values of two units are added, compared by size, or put into one.
    """
    known = FOUND.of(fencil, lambda _: RecentCache("units of one program", 4))
    return known.of(tuple(sorted(units.items())), lambda: _quantities(fencil, units))


def units_of(fencil: Fencil, units: Mapping[str, str]) -> dict[str, str]:
    """The units of outputs, as far as they follow from those of parameters by name.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - 4.0 × h; }")
    >>> units_of(f, {"h": "m"})
    {'out': 'm'}
    """
    return {n: q.unit for n, q in quantities(fencil, units).items() if q.unit}


def _quantities(fencil: Fencil, units: Mapping[str, str]) -> dict[str, Quantity]:
    """`quantities` computed: closure by closure, an output written in part being joined with its earlier value."""
    known: dict[str, _Known] = {
        p.name: quantity for p in fencil.params if (quantity := _stated(p.type.element, p.name, units)) is not None
    }
    for closure in fencil.closures:
        env = {v: known.get(v.name, Quantity(factor=_number_of(v.name))) for v in closure.value.free}
        name, value = closure.output.name, evaluate(closure.value, env, _value)
        if name in known and closure.region is not None:  # the rest keeps what it had
            value = _each(lambda pair: _one("update", pair), [known[name], value])
        known[name] = value
    return {n: q for p in fencil.outputs if p.name in known for n, q in _leaves(p.name, p.type.element, known[p.name])}


def _stated(element: Element, name: str, units: Mapping[str, str]) -> _Known | None:
    """The quantity of a parameter, or of each member of its tuple; None for an argument that is no DataArray."""
    if isinstance(element, Scalar):
        unit = units.get(name)
        return None if unit is None else Quantity(unit, name, 1.0, factor=0 if unit else _number_of(name))
    members = [_stated(m, f"{name}[{k}]", units) for k, m in enumerate(element.members)]
    return None if all(m is None for m in members) else tuple(UNKNOWN if m is None else m for m in members)


def _leaves(name: str, element: Element, quantity: _Known) -> Iterator[tuple[str, Quantity]]:
    """The quantities of the leaves of an output of a type, each with its name: `x[0][1]`."""
    if isinstance(element, Scalar):
        yield name, quantity if isinstance(quantity, Quantity) else UNKNOWN
        return
    for k, member in enumerate(element.members):
        yield from _leaves(f"{name}[{k}]", member, _member(quantity, k))


def _member(known: _Known, k: int) -> _Known:
    return known[k] if isinstance(known, tuple) and k < len(known) else UNKNOWN


def _each(rule: Callable[[list[Quantity]], Quantity], values: Sequence[_Known]) -> _Known:
    """`rule` applied to the quantities of several values, member by member if any of them is a tuple."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each(rule, [_member(v, k) for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Quantity)])


def _value(node: Expr, operands: Sequence[Any], apply: Applier[_Known]) -> _Known:
    """The transfer rule of the analysis: the quantity of a node from those of its operands (`apply` runs functions)."""
    match node:
        case Literal(value):
            return UNKNOWN if isinstance(value, bool) else Quantity(weight=float(value))
        case Operator(op):
            return _each(lambda values: _of(op, values), operands)
        case Call("divides", (_, Literal(value))) if value:
            return _each(lambda one: _scaled(Quantity(weight=1.0 / value), one[0]), operands[:1])
        case Call("reduce", (Operator("plus"), Literal(), x)) if isinstance(summed := operands[-1], Quantity):
            (dim,) = set(x.tensor.dims.names) - set(node.tensor.dims.names)
            return replace(_alike_in("plus", [summed]), points=summed.points * len(x.tensor.dims[dim]))
        case Call() if (quantity := of_functions(node, operands, apply, _joined, _begun, UNKNOWN)) is not None:
            return quantity
        case Call(op) if not any(isinstance(o, Bound) for o in operands):
            return _each(lambda values: _of(op, values, node.static), operands)
        case _:
            return UNKNOWN


def _joined(a: _Known, b: _Known) -> _Known:
    """The join of two quantities, for a value that is the one or the other at run time; raises A32 for two units."""
    return _each(lambda both: _alike_in("what is carried", both), [a, b])


def _begun(value: _Known) -> _Known:
    """The carry before the first step: the unit of its initial value, without source and weight."""
    return _each(lambda one: _alike_in("", one), [value])


def _of(op: str, values: list[Quantity], static: Any = ()) -> Quantity:
    """The quantity of a builtin's result.

    One without a unit gets the id of an unknown unit, made from the operands'.
    """
    result = _of_operands(op, values)
    if result.unit or result.source or result.factor or _is_number(result):
        return result
    if any(v.factor == SEVERAL for v in values):
        return replace(result, factor=SEVERAL)
    return replace(result, factor=_number_of(op, static, *((v.unit, v.factor, v.beside, v.weight) for v in values)))


def _number_of(*facts: Any) -> int:
    """The id of an unknown unit: equal for equal `facts` (builtin and units of operands), and never 0."""
    return hash(facts) & 0xFFFFFFFFFFFF or 1


def _of_operands(op: str, values: list[Quantity]) -> Quantity:
    """The quantity of a builtin's result by its kind: sum, product, quotient, choice or move, homogeneous.

    It is unknown for other builtins. Raises A32 where a builtin needs equal units.
    """
    row = TABLE[op]
    match op, values:
        case _ if row.linear == ((0, 1),):
            return _sum(op, values, -1.0 if op == "minus" else 1.0)
        case "neg", [a]:
            return replace(a, weight=-a.weight)
        case "cast", [a]:
            return a
        case "multiplies", [a, b]:
            return _scaled(*(values if _is_number(a) else (b, a)))
        case "divides", [a, b]:
            return _product(a, b, -1)
        case "if", [_, *branches]:
            return _one(op, branches)
        case _ if row.dimensionless:
            _unit(op, values)
            return UNKNOWN
        case _ if row.homogeneous and (row.moves or row.chooses):
            return _one(op, values[row.moved or ALL])
        case _ if row.homogeneous:
            return _alike_in(op, values)
        case _:
            return UNKNOWN


def _unit(op: str, values: Sequence[Quantity]) -> str:
    """The common unit of values, "" if none has one; raises A32 where two stated units differ.

    A stated unit precedes a derived one; where a derived unit differs, the result is "" and no error.
    """
    with_unit = [v for v in values if v.unit]
    units = list(dict.fromkeys(v.unit for v in with_unit if not v.derived)) or [v.unit for v in with_unit]
    different = [v for v in with_unit if not is_same(v.unit, units[0])]
    if not different:
        return units[0] if units else ""
    if any(v.derived for v in with_unit):
        # a number among its factors may have a unit that nobody states: what was derived is no reason to refuse
        powers = [powers_of(unit) for unit in (units[0], *(v.unit for v in different))]
        return units[0] if powers[0] is not None and all(p == powers[0] for p in powers) else ""
    names = " and ".join(f"'{v.source}' in {v.unit}" if v.source else v.unit for v in with_unit)
    install = "" if udunits() else "; of two spellings of one unit, pip install cf-units knows that they are"
    message = f"{names} meet in {op}, which needs equal units."
    raise refuse("A32", message, f"convert one of them, or leave units out: x.drop_attrs(){install}.")


def _alike_in(op: str, values: Sequence[Quantity]) -> Quantity:
    """The quantity of a value in the common unit of several (raises A32), without source and weight."""
    with_unit = [v for v in values if v.unit]
    pure, derived = all(v.pure for v in values), bool(with_unit) and all(v.derived for v in with_unit)
    unit = _unit(op, values)
    unknown = {(v.factor, v.beside) for v in values if v.factor and not unit}
    factor, beside = (
        next(iter(unknown)) if len(unknown) == 1 else (SEVERAL if unknown or (with_unit and not unit) else 0, "")
    )
    points = {v.points for v in values}
    return Quantity(
        unit, pure=pure, derived=derived, factor=factor, beside=beside, points=points.pop() if len(points) == 1 else 1
    )


def _one(op: str, values: Sequence[Quantity]) -> Quantity:
    """The quantity of a choice among values: their unit, and source and weight where these are equal in all."""
    quantity, first = _alike_in(op, values), values[0] if values else UNKNOWN
    equal_sources = first.source and all(v.source == first.source and v.weight == first.weight for v in values)
    return replace(quantity, source=first.source, weight=first.weight) if equal_sources else quantity


def _sum(op: str, values: Sequence[Quantity], sign: float) -> Quantity:
    """The quantity of a + sign × b: the common unit, and of two values of one source the sum of the weights."""
    a, b = values
    quantity = _alike_in(op, values)
    if a.source and a.source == b.source:
        return replace(quantity, source=a.source, weight=a.weight + sign * b.weight)
    return quantity


def _is_number(value: Quantity) -> bool:
    return not value.unit and not value.source and value.weight != 0.0


def _scaled(factor: Quantity, value: Quantity) -> Quantity:
    """The quantity of factor × value.

    A literal factor keeps the unit; π/180 turns degrees into radians; 1/n after a sum of n points is a mean, which
    stays `pure`. Any other factor gives a product of units, and a value of weight 0 (a difference) keeps its source
    when it is multiplied by one without unit.
    """
    if _is_number(factor):
        unit = "radians" if is_degrees(value.unit) and in_radians(factor.weight) else value.unit
        mean = value.points > 1 and abs(factor.weight * value.points - 1.0) < 1e-9
        pure = value.pure and (mean or _is_share(factor.weight))
        weight = factor.weight * value.weight if value.source else 0.0
        return replace(value, unit=unit, weight=weight, pure=pure, points=1 if mean else value.points)
    scaled = _product(factor, value, 1)
    for a, b in ((factor, value), (value, factor)):
        if a.source and not a.weight and not b.unit and not b.source:
            return replace(scaled, source=a.source)
    return scaled


def _is_share(number: float) -> bool:
    """True for integers up to 16 and their reciprocals: coefficients of differences and means, without unit."""
    return any(x and abs(x) <= 16 and round(x) == x for x in (number, 1 / number if number else 0.0))


def _product(a: Quantity, b: Quantity, power: int) -> Quantity:
    """The quantity of a × b, or of a / b with the power -1; unknown where one of them has no unit or is not `pure`.

    A quotient of two values with the same unknown factor has none: Σ w x / Σ w has the unit of x.
    """
    if not (a.pure and b.pure) or SEVERAL in (a.factor, b.factor):
        return UNKNOWN
    first, second = ("1" if _is_share(q.weight) and _is_number(q) else q.unit for q in (a, b))
    points = a.points if b.points == 1 else b.points if a.points == 1 else 1
    if first and second:
        unit = product(first, second, power) or ""
        return Quantity(unit, derived={first: a.derived, second: b.derived}.get(unit, True), points=points)
    if power == -1 and a.factor and a.factor == b.factor:
        return Quantity(_beside(a.beside, b.beside, -1), derived=a.derived or bool(b.beside))
    if b.factor and first and power == 1:
        return Quantity(factor=b.factor, beside=_beside(first, b.beside, 1), derived=a.derived, points=points)
    if a.factor and second:
        return Quantity(factor=a.factor, beside=_beside(a.beside, second, power), derived=True, points=points)
    return UNKNOWN


def _beside(a: str, b: str, power: int) -> str:
    """The unit a × b (a / b with the power -1) of two `beside` units, "" being none."""
    return a if not b else b if not a and power == 1 else product(a or "1", b, power) or ""
