"""Z3 on whole numbers and truth values, and decisions compared at the ends of conditions.

What Z3 says of whole numbers and truth values: whether elements can differ where conditions lead.

Numbers without bound are asked first, with wrapping as a remainder, where products are ones by numbers; then vectors of
bits. How much is asked is bounded by Z3's own count of its steps, so that an answer does not depend on the machine.

>>> from tensorir.equality.reals.decisions import Decisions
>>> from tensorir.ir.types import INT32
>>> d = Decisions()
>>> x, z = d.input(0, (0,), INT32), d.input(0, (1,), INT32)
>>> both, one = d.make("bit_and", INT32, (x, z)), d.make("bit_xor", INT32, (x, z))
>>> solver = Solver()
>>> found = solver.excludes((), d.make("plus", INT32, (one, d.make("plus", INT32, (both, both)))), one)
>>> found = solver.excludes((), d.make("plus", INT32, (one, both)), d.make("bit_or", INT32, (x, z)))
>>> found or solver.lacking
True
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from math import inf, isfinite, nan
from typing import Any, Protocol, cast

from tensorir.equality.reals.decisions import Decisions, Node, asks, half, possible
from tensorir.equality.reals.formulas import ONE, Condition, Formal, Formula, integer, literal
from tensorir.equality.reals.tensors import Unsupported
from tensorir.integers.intervals import combined, hull
from tensorir.ir.types import BOOL, Scalar

# Z3 has no types of its own that say enough.


STEPS = 3_000_000
"""The steps of Z3 for all that is asked of two programs: most answers take less than a tenth of it."""
Path = Sequence[tuple[Node, bool]]
"""Conditions, and whether they hold."""
Model = Mapping[tuple[int, tuple[int, ...]], int]
"""Values of elements of inputs: the number of an input, and the place."""


class _Nonlinear(Exception):
    """A number that is no sum of multiples."""


@dataclass(slots=True)
class Solver:
    """Questions to Z3 and its answers; `lacking`: one was asked, and z3-solver is not installed."""

    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """What the elements of inputs lie between, by the number of the input."""
    lacking: bool = False
    models: list[Model] = field(default_factory=list[Model])
    """Inputs that may tell programs apart."""
    answers: dict[str, bool] = field(default_factory=dict[str, bool])
    context: Any = None
    spent: int = 0

    def excludes(self, path: Path, a: Node, b: Node) -> bool:
        """True if no input leads along a path to elements that differ; of floats all are taken to differ."""
        whole = not a.element.is_float and a.element == b.element
        if not whole and not any(x.element.is_integer for c, _ in path for x in c.args):
            return False
        if find_spec("z3") is None:
            self.lacking = True
            return False
        import z3

        self.context = self.context or z3.Context()
        for meaning in (_Whole(z3, self.context), _Bits(z3, self.context)):
            terms = _Terms(meaning)
            try:
                told = [terms.of(c) if holds else z3.Not(terms.of(c)) for c, holds in path]
                told += [meaning.differ(terms.of(a), terms.of(b))] if whole else []
            except _Nonlinear:
                continue
            told += self._limited(terms)
            conditions: Any = z3.And(*told, *meaning.bounds)
            key = conditions.sexpr()
            if key not in self.answers:
                question = z3.Solver(ctx=self.context)
                question.set("rlimit", max(STEPS - self.spent, 1))
                question.add(conditions)
                found = question.check()
                self.spent = question.statistics().get_key_value("rlimit count")
                if found == z3.unknown:
                    continue
                if found == z3.sat:
                    self.models.append(terms.values(question.model()))
                self.answers[key] = found == z3.unsat
            return self.answers[key]
        return False

    def _limited(self, terms: _Terms) -> list[Any]:
        """Limits of the elements of inputs that a question is about."""
        found: list[Any] = []
        for node, x in terms.constants:
            low, high = self.limits.get(node.own[0], (-inf, inf)) if node.op == "x" else (-inf, inf)
            for bound, below in ((low, True), (high, False)):
                if isfinite(bound) and node.element.holds(int(bound)):
                    end = terms.meaning.number(int(bound), node.element)
                    sides = (x, end) if below else (end, x)
                    found.append(terms.meaning.z3.Not(terms.meaning.compute("less", BOOL, node.element, sides)))
        return found


class _Meaning(Protocol):
    """Whole numbers as terms of Z3; truth values are Z3's own."""

    z3: Any
    context: Any
    bounds: list[Any]

    def number(self, value: int, element: Scalar) -> Any: ...
    def constant(self, name: str, element: Scalar) -> Any: ...
    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        """An operation on operands of a kind; None where it has no meaning."""
        ...

    def differ(self, x: Any, y: Any) -> Any: ...
    def value(self, model: Any, x: Any, element: Scalar) -> int: ...


@dataclass(slots=True)
class _Terms:
    """Nodes as terms; what has no meaning is a constant of its own."""

    meaning: _Meaning
    known: dict[int, Any] = field(default_factory=dict[int, Any])
    constants: list[tuple[Node, Any]] = field(default_factory=list[tuple[Node, Any]])

    def of(self, node: Node) -> Any:
        """A node as a term, once."""
        if id(node) not in self.known:
            found = self._made(node)
            self.known[id(node)] = self._unknown(node) if found is None else found
        return self.known[id(node)]

    def _made(self, node: Node) -> Any:
        z3, context = self.meaning.z3, self.meaning.context
        if node.op == "number" and not node.element.is_float:
            truth = node.element == BOOL
            return z3.BoolVal(bool(node.own), context) if truth else self.meaning.number(node.own, node.element)
        if node.own is not None or any(a.element.is_float for a in (node, *node.args)):
            return None
        args = [self.of(a) for a in node.args]
        return self.meaning.compute(node.op, node.element, node.args[0].element, args)

    def _unknown(self, node: Node) -> Any:
        name = f"v{len(self.constants)}"
        truth = node.element == BOOL
        made = self.meaning.z3.Bool(name, self.meaning.context) if truth else self.meaning.constant(name, node.element)
        self.constants.append((node, made))
        return made

    def values(self, model: Any) -> Model:
        """The elements of inputs in an answer."""
        return {node.own: self._value(model, x, node.element) for node, x in self.constants if node.op == "x"}

    def _value(self, model: Any, x: Any, element: Scalar) -> int:
        if element == BOOL:
            return int(bool(model.eval(x, model_completion=True)))
        return self.meaning.value(model, x, element)


@dataclass(slots=True)
class _Bits:
    """Numbers as vectors of bits."""

    z3: Any
    context: Any
    bounds: list[Any] = field(default_factory=list[Any])

    def number(self, value: int, element: Scalar) -> Any:
        return self.z3.BitVecVal(value, element.bits, self.context)

    def constant(self, name: str, element: Scalar) -> Any:
        return self.z3.BitVec(name, element.bits, self.context)

    def differ(self, x: Any, y: Any) -> Any:
        return x != y

    def value(self, model: Any, x: Any, element: Scalar) -> int:
        found = model.eval(x, model_completion=True)
        return found.as_signed_long() if element.kind == "int" else found.as_long()

    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        z3, signed, bits = self.z3, kind.kind == "int", kind.bits
        zero, one = (self.number(k, kind) for k in (0, 1))
        match op, args:
            case "if", (condition, x, y):
                return z3.If(condition, x, y)
            case "eq", (x, y):
                return x == y
            case "less", (x, y) if kind.is_integer:
                return x < y if signed else z3.ULT(x, y)
            case "plus", (x, y):
                return x + y
            case "minus", (x, y):
                return x - y
            case "multiplies", (x, y):
                return x * y
            case "neg", (x,):
                return -x
            case "bit_and", (x, y):
                return x & y
            case "bit_or", (x, y):
                return x | y
            case "bit_xor", (x, y):
                return x ^ y
            case "bit_not", (x,):
                return ~x
            case "shift_left", (x, y):
                return x << y
            case "shift_right", (x, y):
                return x >> y if signed else z3.LShR(x, y)
            case "divides", (x, y):
                # of a quotient by 0 Z3 has the sign
                return z3.If(y == zero, ~zero, x / y if signed else z3.UDiv(x, y))
            case "rem", (x, y):
                return z3.SRem(x, y) if signed else z3.URem(x, y)
            case "floordiv", (x, y):
                down = z3.And(z3.SRem(x, y) != zero, (x < zero) != (y < zero))
                found = x / y - z3.If(down, one, zero) if signed else z3.UDiv(x, y)
                return z3.If(y == zero, ~zero, found)
            case "mod", (x, y):
                return x % y if signed else z3.URem(x, y)
            case "abs", (x,):
                return z3.If(x < zero, -x, x) if signed else x
            case "sign", (x,):
                return z3.If(x == zero, zero, z3.If(x < zero, ~zero, one) if signed else one)
            case "popcount", (x,):
                parts = [z3.ZeroExt(bits - 1, z3.Extract(k, k, x)) for k in range(bits)]
                return z3.Sum(*parts)
            case "clz", (x,):
                found = self.number(bits, kind)
                for k in range(bits):
                    found = z3.If(z3.Extract(k, k, x) == 1, self.number(bits - 1 - k, kind), found)
                return found
            case "cast", (x,) if kind == BOOL and element.is_integer:
                return z3.If(x, self.number(1, element), self.number(0, element))
            case "cast", (x,) if element == BOOL:
                return x != zero
            case (("cast" | "bitcast"), (x,)) if element.is_integer:
                more = element.bits - bits
                wider = (z3.SignExt if signed else z3.ZeroExt)(more, x) if more > 0 else x
                return z3.Extract(element.bits - 1, 0, x) if more < 0 else wider
            case _:
                return None


@dataclass(frozen=True, slots=True)
class _Between:
    """A whole number, and two that it lies between."""

    term: Any
    low: int
    high: int


@dataclass(slots=True)
class _Whole:
    """Numbers without bound, as far as they are sums of multiples, and floors of these."""

    z3: Any
    context: Any
    bounds: list[Any] = field(default_factory=list[Any])

    def number(self, value: int, element: Scalar) -> Any:
        return _Between(self.z3.IntVal(value, self.context), value, value)

    def constant(self, name: str, element: Scalar) -> Any:
        made = self.z3.Int(name, self.context)
        low, high = element.range.start, element.range.stop - 1
        self.bounds += [made >= low, made <= high]
        return _Between(made, low, high)

    def differ(self, x: Any, y: Any) -> Any:
        return x.term != y.term if isinstance(x, _Between) else x != y

    def value(self, model: Any, x: Any, element: Scalar) -> int:
        return model.eval(x.term, model_completion=True).as_long()

    def _wrapped(self, x: _Between, element: Scalar) -> _Between:
        low, high = element.range.start, element.range.stop - 1
        if low <= x.low and x.high <= high:
            return x
        return _Between((x.term - low) % (1 << element.bits) + low, low, high)

    def _if(self, condition: Any, x: _Between, y: _Between) -> _Between:
        return _Between(self.z3.If(condition, x.term, y.term), *hull((x.low, x.high), (y.low, y.high)))

    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        z3 = self.z3
        if op in ("multiplies", "bit_and") and args[0].low == args[0].high:
            args = args[::-1]
        match op, args:
            case "if", (condition, _Between() as x, _Between() as y):
                return self._if(condition, x, y)
            case "if", _:
                return z3.If(*args)
            case "eq", (x, y) if kind == BOOL:
                return x == y
            case "eq", (x, y):
                return x.term == y.term
            case "less", (x, y):
                return x.term < y.term
            case "cast", (x,) if kind == BOOL and element.is_integer:
                return self._if(x, self.number(1, element), self.number(0, element))
            case "cast", (x,) if element == BOOL:
                return x.term != 0
            case (("cast" | "bitcast"), (x,)) if element.is_integer:
                return self._wrapped(x, element)
            case "plus", (x, y):
                term = x.term + y.term
            case "minus", (x, y):
                term = x.term - y.term
            case "neg", (x,):
                term = x.term * -1
            case "multiplies", (x, _Between(_, by, top)) if by == top:
                term = x.term * by
            case "shift_left", (x, _Between(_, by, top)) if by == top and 0 <= by < element.bits:
                term = x.term * (1 << by)
            case "shift_right", (x, _Between(_, by, top)) if by == top and 0 <= by < element.bits:
                term = x.term / (1 << by)
            case "floordiv", (x, _Between(_, by, top)) if by == top > 0:
                term = x.term / by
            case "divides", (x, _Between(_, by, top)) if by == top > 0:
                term = z3.If(x.term < 0, x.term * -1 / by * -1, x.term / by)
            case "mod", (x, _Between(_, by, top)) if by == top > 0:
                term = x.term % by
            case "bit_and", (x, _Between(_, mask, top)) if mask == top > 0 and not mask & (mask + 1):
                term = x.term % (mask + 1)
            case "abs", (x,):
                term = z3.If(x.term < 0, x.term * -1, x.term)
            case _:
                raise _Nonlinear
        ends = combined(op, *((x.low, x.high) for x in args))
        assert ends is not None
        return self._wrapped(_Between(term, *ends), element)


# Elements that are decisions, compared at the ends of all conditions that can hold at once.
#
# A comparison of floats is one of a polynomial, whose first factor is 1, with a number, so that conditions on one
# polynomial are an interval of it; where that is one point, the polynomial is that number in what is compared.

MOST_ENDS = 4096
"""Ends that are compared at most."""
Number = Fraction | float


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a polynomial: between two numbers, which may be left out, and without some."""

    low: Number = -inf
    high: Number = inf
    no_low: bool = False
    no_high: bool = False
    without: frozenset[Fraction] = frozenset()
    whole: bool = False

    @property
    def empty(self) -> bool:
        single = self.low == self.high
        return self.low > self.high or (single and (self.no_low or self.no_high or self.low in self.without))

    @property
    def only(self) -> Fraction | None:
        return self.low if self.low == self.high and isinstance(self.low, Fraction) else None

    def bounds(self, f: Formula) -> list[tuple[Formula, bool]]:
        """Bounds of a polynomial that has these values: not negative, or strictly positive."""
        low = [(f - Formula.number(self.low), self.no_low)] if isfinite(self.low) else []
        return [*low, (Formula.number(self.high) - f, self.no_high)] if isfinite(self.high) else low

    def above(self, value: Fraction, strictly: bool) -> Range:
        if strictly and self.whole:
            value, strictly = value + 1, False
        if value < self.low or (value == self.low and (self.no_low or not strictly)):
            return self
        return replace(self, low=value, no_low=strictly)

    def below(self, value: Fraction, strictly: bool) -> Range:
        if strictly and self.whole:
            value, strictly = value - 1, False
        if value > self.high or (value == self.high and (self.no_high or not strictly)):
            return self
        return replace(self, high=value, no_high=strictly)

    def apart(self, value: Fraction) -> Range:
        found = replace(self, without=self.without | {value})
        if self.low == value:
            found = found.above(value, True)
        return found.below(value, True) if self.high == value else found


Ranges = Mapping[Formula, Range]


@dataclass(slots=True)
class Ends:
    """Comparisons of the elements of two programs, and the formulas of nodes."""

    decisions: Decisions
    exact: bool = False
    """Whether elements have to be the same in every bit: of floats nothing is known but which node they are."""
    solver: Solver = field(default_factory=Solver)
    formulas: dict[int, tuple[Formula, frozenset[Condition]]] = field(
        default_factory=dict[int, tuple[Formula, frozenset[Condition]]]
    )
    compared: int = 0

    def equal(self, f: Node, g: Node) -> bool:
        """True if two elements have one formula, and are defined alike, wherever conditions lead."""
        waiting: list[tuple[Node, Node, Path, Ranges, frozenset[Condition], frozenset[Condition]]]
        waiting = [(f, g, (), {}, frozenset(), frozenset())]
        while waiting:
            a, b, path, ranges, here, there = waiting.pop()
            if a is b and here == there:
                continue
            asked = [n for n in map(asks, (a, b)) if n is not None]
            if not asked:
                if not self._same(a, b, path, ranges, here, there):
                    return False
                continue
            first = min(asked, key=lambda n: n.serial)
            whole = frozenset[Condition]() if self.exact else self._defined(first)
            here, there = (d | whole if asks(n) is first else d for n, d in ((a, here), (b, there)))
            for holds in (True, False):
                new = self._where(first, holds, ranges)
                if new is not None:
                    x, y = (half(n, first, self.decisions, holds) for n in (a, b))
                    waiting.append((x, y, (*path, (first, holds)), new, here, there))
        return True

    def _same(
        self, a: Node, b: Node, path: Path, ranges: Ranges, here: frozenset[Condition], there: frozenset[Condition]
    ) -> bool:
        self.compared += 1
        if self.compared > MOST_ENDS:
            raise Unsupported("many conditions")
        if self.exact and (a is b or _has_floats(a) or _has_floats(b)):
            return a is b or self.solver.excludes(path, a, b)
        (x, defined), (y, elsewhere) = self.of(a), self.of(b)
        if here | defined != there | elsewhere:
            return False
        if x == y:
            return True
        rest = x - y
        for polynomial, interval in ranges.items():
            if interval.only is not None:
                rest = _where_equal(rest, polynomial, interval.only)
        if not rest.terms or self.solver.excludes(path, a, b):
            return True
        # what may be neither positive nor negative is 0, or this end is none
        known = [bound for polynomial, interval in ranges.items() for bound in interval.bounds(polynomial)]
        return not any(possible([*known, (sign, True)]) for sign in (rest, -rest))

    def of(self, node: Node) -> tuple[Formula, frozenset[Condition]]:
        """The formula of a node without choices, and where it is defined."""
        if id(node) not in self.formulas:
            domain = Formal()
            parts = [self.of(a) for a in node.args]
            made = _formula(domain, node, [f for f, _ in parts])
            self.formulas[id(node)] = made, frozenset(domain.conditions).union(*(d for _, d in parts))
        return self.formulas[id(node)]

    def _defined(self, condition: Node) -> frozenset[Condition]:
        return frozenset[Condition]().union(*(self.of(a)[1] for a in condition.args))

    def _where(self, condition: Node, holds: bool, ranges: Ranges) -> Ranges | None:
        """Limits under a condition, or its negation, too; None where that cannot be."""
        exact = self.exact and _has_floats(condition)
        if exact and not holds:
            return ranges  # of what is not smaller nothing is known: one of both may be NaN
        if condition.op not in ("less", "eq"):
            key, op, value, up, whole = self._opaque(condition), "eq", Fraction(1), True, True
        else:
            op = condition.op
            key, value, up, whole = _of_nodes(condition) if exact else self._apart(condition)
        if key is None:
            # a number alone: 0 < value, or 0 = value
            truth = (value > 0) if op == "less" else value == 0
            return ranges if truth == holds else None
        interval = ranges.get(key, Range(whole=whole))
        if op == "eq":
            interval = interval.above(value, False).below(value, False) if holds else interval.apart(value)
        elif up == holds:
            interval = interval.above(value, holds)
        else:
            interval = interval.below(value, holds)
        return None if interval.empty else {**ranges, key: interval}

    def _opaque(self, condition: Node) -> Formula:
        """A condition that is no comparison, as a number that is 1 where it holds."""
        return Formula.atom("holds", condition.serial if self.exact else self.of(condition)[0])

    def _apart(self, condition: Node) -> tuple[Formula | None, Fraction, bool, bool]:
        """A comparison as one of a polynomial with a number: x < y where it is larger (or smaller), and not floats."""
        (x, _), (y, _) = map(self.of, condition.args)
        if condition.args[0].element.is_integer:
            if (c := y.constant) is not None and x.constant is None:
                return Formula.atom("whole number", x), c, False, True
            if (c := x.constant) is not None and y.constant is None:
                return Formula.atom("whole number", y), c, True, True
            one, other = sorted((x, y), key=_order)
            return Formula.atom("difference", one, other), Fraction(0), (one, other) == (x, y), True
        apart = y - x
        constant = dict(apart.terms).get(ONE, Fraction(0))
        rest = apart - Formula.number(constant)
        if not rest.terms:
            return None, constant, True, False
        factor = min(rest.terms, key=lambda t: _order(t[0]))[1]
        return rest * Formula.number(1 / factor), -constant / factor, factor > 0, False


def _of_nodes(condition: Node) -> tuple[Formula, Fraction, bool, bool]:
    """A comparison that holds of floats of which nothing is known but which nodes they are."""
    x, y = condition.args
    for a, b, up in ((x, y, True), (y, x, False)):
        value = float.fromhex(a.own) if a.op == "number" else nan
        if isfinite(value):
            return Formula.atom("node", b.serial), Fraction(value), up, False
    one, other = sorted((x, y), key=lambda n: n.serial)
    return Formula.atom("nodes", one.serial, other.serial), Fraction(0), one is x, False


def _has_floats(node: Node) -> bool:
    return node.element.is_float or any(map(_has_floats, node.args))


def _order(x: object) -> str:
    """A part of a formula as text that does not depend on the order of sets."""
    match x:
        case Formula(terms):
            return _order(terms)
        case frozenset():
            return "{" + ",".join(sorted(map(_order, cast("frozenset[object]", x)))) + "}"
        case tuple():
            return "(" + ",".join(map(_order, cast("tuple[object, ...]", x))) + ")"
        case _:
            return repr(x)


def _where_equal(f: Formula, polynomial: Formula, value: Fraction) -> Formula:
    """A formula where a polynomial is a number: an element of an input in it is put in terms of the rest."""
    for monomial, factor in polynomial.terms:
        if len(monomial) == 1 and next(iter(monomial))[1] == 1:
            ((atom, _),) = monomial
            if atom[0] == "difference":
                return _replaced(f, atom[1], atom[2])
            others = [a for m, _ in polynomial.terms if m != monomial for a, _ in m]
            if atom[0] in ("x", "whole number") and atom not in others:
                rest = polynomial - Formula.of({monomial: factor})
                new = (Formula.number(value) - rest) * Formula.number(1 / factor)
                return _replaced(f, atom[1] if atom[0] == "whole number" else Formula.atom(*atom), new)
    return f


def _replaced(f: Formula, old: Formula, new: Formula) -> Formula:
    """A formula with an element of an input replaced in what is no function of it."""
    ((monomial, factor),) = old.terms if len(old.terms) == 1 else ((ONE, Fraction(1)),)
    if len(monomial) != 1 or factor != 1:
        return f
    ((atom, power),) = monomial
    if atom[0] != "x" or power != 1:
        return f
    total = Formula.number(0)
    for m, c in f.terms:
        exponent = dict(m).get(atom, 0)
        if exponent.denominator != 1 or exponent < 0:
            return f
        part = Formula.of({frozenset((a, e) for a, e in m if a != atom): c})
        for _ in range(int(exponent)):
            part = part * new
        total = total + part
    return total


def _formula(domain: Formal, node: Node, args: list[Formula]) -> Formula:
    match node.op:
        case "number" if node.element.is_float:
            return literal(float.fromhex(node.own), node.element)
        case "number":
            return Formula.number(node.own)
        case "x":
            return Formula.atom("x", *node.own)
        case "cast" if node.element.is_float and node.args[0].element.is_float:
            return args[0]
        case "cast" if node.element.is_float and node.args[0].element.is_integer:
            return Formula.atom("float", args[0])
        case "bitcast" | "isnan" | "isinf" | "isfinite" if any(a.element.is_float for a in node.args):
            raise Unsupported("bits of floats have no meaning over the reals")
        case op:
            kinds = {a.element for a in node.args}
            if kinds == {node.element} and node.own is None and node.element.is_float:
                return domain.one(op, args)
            if kinds == {node.element} and node.own is None and node.element.is_integer:
                return integer(op, node.element, tuple(args))
            return Formula.atom(op, str(node.element), str(node.own), *(str(a.element) for a in node.args), *args)
