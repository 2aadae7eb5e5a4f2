"""Physical quantities: units of results, and angles in degrees.

Angles in degrees, as the units of DataArrays say, where functions take radians.

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

What results are, as far as it follows from what the caller's DataArrays say: their units, and whose values they are.

A shift, a part, a choice between values of one unit keep it; a sum has the unit of any operand that is known to have
one, and operands of two units are refused (A32), in comparisons and in the functions of scans too. Products and
quotients of values with units have theirs, in the words of UDUNITS (`K m-1`), unless a number such as 9.81 or an angle
is among their factors; functions have none here, rather than a wrong one, which is one and the same where it follows
from the same units: a mean has the unit of its values whatever that of its weights is. A result is the *same quantity*
as a parameter where it is made of its values with weights that add up to 1: a part, a mean, a step of diffusion; a
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

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from tensorir.binding.arrays import is_tuple
from tensorir.binding.units import is_degrees, is_same, powers_of, product, udunits, written
from tensorir.ir.builtins import ALL, TABLE, Control
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import Element, Scalar
from tensorir.runtime.errors import refuse
from tensorir.runtime.memory import RecentCache, WeakCache

# What calls that take functions give, in any domain in which two values can be joined: scans, folds, loops, choices.
#
# What is carried from step to step is a fixed point: what it begins as, joined with what a step makes of it.

V = TypeVar("V")


def of_functions(
    node: Call, operands: Sequence[Any], apply: Applier[V], joined: Callable[[V, V], V], begun: Callable[[V], V],
    counter: V,
) -> V | None:  # fmt: skip
    """The value of a call whose function operands are applied, or that makes or takes tuples; None of every other.

    `joined` is a value that is the one or the other, `begun` what is carried before the first step, from what it is
    given, and `counter` the value of a loop's counter.
    """
    given: list[Any] = list(operands)
    match TABLE[node.op].control:
        case Control.FOLD:
            f, init, *xs = given
            return _settled([begun(init)], lambda state: [apply(f, *state, *xs)], joined)[0]
        case Control.LOOP:
            condition, step, *carried = given
            found = _settled([begun(c) for c in carried], lambda state: apply.each(step, counter, *state), joined)
            apply(condition, counter, *found)
            return found[_result(node)]
        case Control.BRANCHES:
            f, g, _, *xs = given
            first, second = (apply.each(h, *xs)[_result(node)] for h in (f, g))
            return joined(first, second)
        case Control.BLOCKS:
            f, *xs = given
            return apply.each(f, *xs)[_result(node)]
        case _ if node.op == "make_tuple":
            return cast("V", tuple(given))  # the value of a tuple is a tuple of values
        case _ if node.op == "tuple_get":
            (members,) = given
            return cast("V", members[_result(node)]) if isinstance(members, tuple) else counter
        case _:
            return None


def _result(node: Call) -> int:
    """The one of several results of functions that a call gives."""
    return int(node.static[0])


def _settled(state: list[V], step: Callable[[list[V]], Sequence[V]], joined: Callable[[V, V], V]) -> list[V]:
    while True:
        further = [joined(a, b) for a, b in zip(state, step(state), strict=True)]
        if repr(further) == repr(state):  # of which NaN is NaN
            return state
        state = further


MULTIPLES = 1e-5
"""How far a factor may be from a whole multiple: π is written with five digits and more."""


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
        env = {v: written.get(v, _given_angles(v.type.element, v.name, params)) for v in free}
        value = evaluate(closure.value, env, rule)
        out = closure.output
        old = written.get(
            out, _given_angles(out.type.element, out.name, params) if closure.region is not None else None
        )
        written[out] = value if old is None else _joined_angles(old, value)
    return list(wrong.values())


def _given_angles(element: Element, name: str, params: Collection[str]) -> _KnownAngle:
    if isinstance(element, Scalar):
        return Angle(1.0, name) if name in params else Angle()
    return tuple(_given_angles(m, f"{name}[{k}]", params) for k, m in enumerate(element.members))


def refuse_degrees(fencil: Fencil, units: Mapping[str, str]) -> None:
    """Raise A43 where a program takes sines of parameters in degrees.

    `units` are those of parameters, by name.
    """
    params = frozenset(n for n, unit in units.items() if is_degrees(unit))
    if not params:
        return
    found = CALLS.of(fencil, lambda _: RecentCache("sines of angles", 4))
    for op, name in found.of(params, lambda: [(c.op, p) for c, p in taken_in_degrees(fencil.closures, params)]):
        message = f"'{name}' is in {units[name]}, and {op} takes radians."
        raise refuse("A43", message, f'multiply it by π/180, or say what it is: {name}.assign_attrs(units="radians").')


CALLS: WeakCache[RecentCache[frozenset[str], list[tuple[str, str]]]] = WeakCache("sines of angles in degrees")
"""Of each program what was found, by the parameters in degrees."""


# What values are


def _angle_value(node: Expr, operands: Sequence[Any], apply: Applier[_KnownAngle]) -> _KnownAngle:
    match node:
        case Literal(value):
            return Angle(number=None if isinstance(value, bool) else float(value))
        case Operator(op):
            return _each_angle(lambda values: _angle_of(op, values), operands)
        case Call() if (
            found := of_functions(node, operands, apply, _joined_angles, _begun_with_angles, Angle())
        ) is not None:
            return found
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


def in_radians(factor: float) -> bool:
    """True if degrees times a factor are a multiple, or a part, of an angle in radians."""
    if not math.isfinite(factor) or not factor:
        return False
    multiple = factor * 180 / math.pi
    if not 1e-300 < abs(multiple) < 1e300:
        return False
    return any(round(y) and abs(y / round(y) - 1) < MULTIPLES for y in (multiple, 1 / multiple))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity: unit, weight and source of a value, as far as they are known."""

    unit: str = ""
    """"" where it is not known."""
    source: str = ""
    """The parameter of whose values it is a weighted sum, "" where it is none."""
    weight: float = 0.0
    """What the weights add up to; of a literal (without a source) its value."""
    pure: bool = True
    """False once it was scaled by a number that may be one of a constant with units, such as 9.81."""
    derived: bool = False
    """True where the unit is that of a product or a quotient of units."""
    factor: int = 0
    """The unit that nobody states, by number, of which this has one: weights have it. 0: none, `SEVERAL`: more."""
    beside: str = ""
    """The unit beside that factor."""
    points: int = 1
    """The number of values that were added up."""

    @property
    def same_as(self) -> str:
        """The parameter that this is the same quantity as."""
        return self.source if abs(self.weight - 1.0) < 1e-9 else ""


def without_pint(value: Any) -> tuple[Any, Any]:
    """An argument with the units of pint's arrays as attributes, and pint's registry; None where there is none."""
    if is_tuple(value):
        members = [without_pint(v) for v in value]
        make = getattr(type(value), "_make", tuple)
        return make(v for v, _ in members), next((r for _, r in members if r is not None), None)
    if getattr(value, "data_vars", None) is not None:
        members = {n: without_pint(v) for n, v in value.data_vars.items()}
        registry = next((r for _, r in members.values() if r is not None), None)
        return (value if registry is None else value.assign({n: v for n, (v, _) in members.items()})), registry
    data = getattr(getattr(value, "variable", None), "_data", None)
    registry = getattr(data, "_REGISTRY", None)
    if data is None or registry is None:
        return value, None
    if registry.Quantity(0.0, data.units).to_base_units().magnitude:
        name = value.name or "x"
        message = (
            f"'{name}' is held by pint in {data.units}, a scale with an offset, whose differences have another unit"
        )
        raise refuse("A33", f"{message}.", f"convert it: {name}.pint.to('K').")
    powers = {f"{registry.Unit(n):~}": p for n, p in data.units._units.items()}
    units = written({n: int(p) for n, p in powers.items()}) if all(int(p) == p for p in powers.values()) else ""
    return value.copy(data=data.magnitude).assign_attrs(units=units or f"{data.units:~}" or "1"), registry


def with_pint(result: Any, registry: Any) -> Any:
    """A result with its units as pint's; one whose unit is not known is as it was."""
    if is_tuple(result):
        return getattr(type(result), "_make", tuple)(with_pint(v, registry) for v in result)
    if getattr(result, "data_vars", None) is not None:
        return result.assign({n: with_pint(v, registry) for n, v in result.data_vars.items()})
    units = getattr(result, "attrs", {}).get("units")
    if units is None:
        return result
    powers = powers_of(units)
    text = units if powers is None else " * ".join(f"{n} ** {p}" for n, p in powers.items())
    try:
        quantity = registry.Quantity(result.data, text)
    except (AttributeError, ValueError):  # a unit that the registry does not have
        return result
    rest = {n: v for n, v in result.attrs.items() if n != "units"}
    return result.copy(data=quantity).drop_attrs(deep=False).assign_attrs(rest)


UNKNOWN = Quantity()
SEVERAL = -1
_Known = Quantity | tuple["_Known", ...]
"""What is known of a value: of a tuple what is of each member."""
_Key = tuple[tuple[str, str], ...]
FOUND: WeakCache[RecentCache[_Key, dict[str, Quantity]]] = WeakCache("units of programs")
"""Of each fencil what was found, by the units of its parameters."""


def quantities(fencil: Fencil, given: Mapping[str, str]) -> dict[str, Quantity]:
    """The quantities of outputs, from the units of parameters by name ("" for one that says none).

    Members of tuples are called `x[0]`, among the parameters and the outputs.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<(float, float), I[0:4]>, h: tensor<float, I[0:4]>) { y ← (-h, h × h); }")
    >>> {name: found.unit for name, found in quantities(f, {"h": "m"}).items()}
    {'y[0]': 'm', 'y[1]': 'm2'}

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
        env = {v: known.get(v.name, Quantity(factor=_number_of(v.name))) for v in closure.value.free}
        name, value = closure.output.name, evaluate(closure.value, env, _value)
        if name in known and (name in written or closure.region is not None):
            # written in part, or again: what it was, if that is the same
            value = _each(lambda both: _one("update", both), [known[name], value])
        known[name] = value
        written.add(name)
    return {n: q for p in fencil.outputs if p.name in known for n, q in _leaves(p.name, p.type.element, known[p.name])}


def _given(element: Element, name: str, given: Mapping[str, str]) -> _Known | None:
    """The quantity of a parameter, None where nothing says that it has names."""
    if isinstance(element, Scalar):
        unit = given.get(name)
        return None if unit is None else Quantity(unit, name, 1.0, factor=0 if unit else _number_of(name))
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
    """The quantities by a rule for values, of tuples member by member."""
    count = max((len(v) for v in values if isinstance(v, tuple)), default=None)
    if count is not None:
        return tuple(_each(rule, [_member(v, k) for v in values]) for k in range(count))
    return rule([v for v in values if isinstance(v, Quantity)])


def _value(node: Expr, operands: Sequence[Any], apply: Applier[_Known]) -> _Known:
    """The quantity of a literal, a call, or an operator applied to operands."""
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
        case Call() if (found := of_functions(node, operands, apply, _joined, _begun, UNKNOWN)) is not None:
            return found
        case Call(op) if not any(isinstance(o, Bound) for o in operands):
            return _each(lambda values: _of(op, values, node.static), operands)
        case _:
            return UNKNOWN


def _joined(a: _Known, b: _Known) -> _Known:
    """A value that is the one or the other."""
    return _each(lambda both: _alike_in("what is carried", both), [a, b])


def _begun(value: _Known) -> _Known:
    """The carry at the start, which has a unit; its weights are those of no step."""
    return _each(lambda one: _alike_in("", one), [value])


def _of(op: str, values: list[Quantity], static: Any = ()) -> Quantity:
    """A builtin of values; the unit of one without any depends on those of the values."""
    result = _of_operands(op, values)
    if result.unit or result.source or result.factor or _is_number(result):
        return result
    if any(v.factor == SEVERAL for v in values):
        return replace(result, factor=SEVERAL)
    return replace(result, factor=_number_of(op, static, *((v.unit, v.factor, v.beside, v.weight) for v in values)))


def _number_of(*facts: Any) -> int:
    """The number of a unit that nobody states, by what it follows from."""
    return hash(facts) & 0xFFFFFFFFFFFF or 1


def _of_operands(op: str, values: list[Quantity]) -> Quantity:
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
    having = [v for v in values if v.unit]
    units = list(dict.fromkeys(v.unit for v in having if not v.derived)) or [v.unit for v in having]
    others = [v for v in having if not is_same(v.unit, units[0])]
    if not others:
        return units[0] if units else ""
    if any(v.derived for v in having):
        # a number among its factors may have a unit that nobody states: what was derived is no reason to refuse
        powers = [powers_of(unit) for unit in (units[0], *(v.unit for v in others))]
        return units[0] if powers[0] is not None and all(p == powers[0] for p in powers) else ""
    names = " and ".join(f"'{v.source}' in {v.unit}" if v.source else v.unit for v in having)
    install = "" if udunits() else "; of two spellings of one unit, pip install cf-units knows that they are"
    message = f"{names} meet in {op}, which needs equal units."
    raise refuse("A32", message, f"convert one of them, or leave units out: x.drop_attrs(){install}.")


def _alike_in(op: str, values: Sequence[Quantity]) -> Quantity:
    """A value in the one unit of several."""
    having = [v for v in values if v.unit]
    pure, derived = all(v.pure for v in values), bool(having) and all(v.derived for v in having)
    unit = _unit(op, values)
    factors = {(v.factor, v.beside) for v in values if v.factor and not unit}
    factor, beside = (
        next(iter(factors)) if len(factors) == 1 else (SEVERAL if factors or (having and not unit) else 0, "")
    )
    points = {v.points for v in values}
    return Quantity(
        unit, pure=pure, derived=derived, factor=factor, beside=beside, points=points.pop() if len(points) == 1 else 1
    )


def _one(op: str, values: Sequence[Quantity]) -> Quantity:
    """The quantity of one of several values."""
    found, first = _alike_in(op, values), values[0] if values else UNKNOWN
    alike = first.source and all(v.source == first.source and v.weight == first.weight for v in values)
    return replace(found, source=first.source, weight=first.weight) if alike else found


def _sum(op: str, values: Sequence[Quantity], sign: float) -> Quantity:
    a, b = values
    found = _alike_in(op, values)
    if a.source and a.source == b.source:
        return replace(found, source=a.source, weight=a.weight + sign * b.weight)
    return found


def _is_number(value: Quantity) -> bool:
    return not value.unit and not value.source and value.weight != 0.0


def _scaled(factor: Quantity, value: Quantity) -> Quantity:
    """A product: with a literal the same unit, but with that which converts degrees radians.

    What has the weight 0 keeps its unit whatever it is multiplied with.
    """
    if _is_number(factor):
        unit = "radians" if is_degrees(value.unit) and in_radians(factor.weight) else value.unit
        mean = value.points > 1 and abs(factor.weight * value.points - 1.0) < 1e-9
        pure = value.pure and (mean or _is_share(factor.weight))
        weight = factor.weight * value.weight if value.source else 0.0
        return replace(value, unit=unit, weight=weight, pure=pure, points=1 if mean else value.points)
    made = _product(factor, value, 1)
    for a, b in ((factor, value), (value, factor)):
        if a.source and not a.weight and not b.unit and not b.source:
            return replace(made, source=a.source)
    return made


def _is_share(number: float) -> bool:
    """True for small whole numbers and their reciprocals, as differences and means have them."""
    return any(x and abs(x) <= 16 and round(x) == x for x in (number, 1 / number if number else 0.0))


def _product(a: Quantity, b: Quantity, power: int) -> Quantity:
    """The product of two values, or with the power -1 their quotient; without a unit where one of them has none.

    A unit that nobody states is in neither where both have it: a mean with weights has the unit of what is weighed.
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
    """The unit beside one that nobody states."""
    return a if not b else b if not a and power == 1 else product(a or "1", b, power) or ""
