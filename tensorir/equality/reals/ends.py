"""Elements that are decisions, compared at the ends of all conditions that can hold at once.

A comparison of floats is one of a polynomial, whose first factor is 1, with a number, so that conditions on one
polynomial are an interval of it; where that is one point, the polynomial is that number in what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, isfinite, nan
from typing import cast

from tensorir.equality.reals.decisions import Decisions, Node, asks, half
from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.reals.elimination import possible
from tensorir.equality.reals.formulas import ONE, Condition, Formal, Formula, integer, literal
from tensorir.equality.reals.solver import Path, Solver

__all__ = ["Ends"]

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
        """What is not negative, or strictly positive, of a polynomial that has these values."""
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
        """Whether two elements have one formula, and are defined alike, wherever conditions lead."""
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
        """What is known where a condition holds too, or does not; None where that cannot be."""
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
        exponent = dict(m).get(atom, Fraction(0))
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
