"""Elements as decisions: what is computed at the ends of conditions, and polynomials that exclude each other.

Whether polynomials can all be positive at once, as far as sums of multiples of them tell (Fourier and Motzkin).

Monomials are taken for variables of their own; those that are never negative are known not to be, and where there are
products, products of few polynomials are among what is summed up.

>>> x, y, z = (Formula.atom(n) for n in "xyz")
>>> possible([(y - x, True), (z - y, True)]), possible([(y - x, True), (z - y, False), (x - z, False)])
(True, False)

Elements as decisions: what is computed at the ends of the conditions that inputs decide, each element a node.

A node is an operation on nodes, and there is one of each. What is computed of a choice is a choice of what is computed,
and choices ask for their conditions in one order (Bryant, 1986), so that nested choices, conjunctions and negations of
conditions have one form. Elements are the same in every bit that are one node. Elsewhere both are followed down to the
ends of all conditions that can hold at once, where formulas are compared.

>>> from tensorir.ir.types import FLOAT64
>>> d = Decisions()
>>> x, y = d.input(0, (0,), FLOAT64), d.input(0, (1,), FLOAT64)
>>> a, b = d.make("less", BOOL, (x, y)), d.make("less", BOOL, (y, x))
>>> one = d.choose(a, d.choose(b, x, y), y)
>>> one is d.choose(d.choose(a, b, d.false), x, y)
True
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tensorir.equality.reals.formulas import ONE, Formula, Monomial, is_nonnegative
from tensorir.equality.reals.tensors import INTEGERS, TESTS, Array, Leaf, Unsupported
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, DTYPES, Scalar

MOST_ROWS = 128
"""Inequalities on the way: beyond that it is taken to be possible."""
MOST_FACTORS = 8
"""How many polynomials are multiplied with each other, of as many terms at most."""
ZERO = Fraction(0)
Row = tuple[frozenset[tuple[Monomial, Fraction]], bool]


def possible(polynomials: Sequence[tuple[Formula, bool]]) -> bool:
    """True if polynomials can be positive, or, where that is not asked strictly, not negative, all at once."""
    given = list(polynomials)
    if len(given) <= MOST_FACTORS and any(len(m) > 1 for f, _ in given for m, _ in f.terms):
        pairs = combinations_with_replacement([(f, strict) for f, strict in given if len(f.terms) <= MOST_FACTORS], 2)
        given += [(f * g, one and other) for (f, one), (g, other) in pairs]
    rows = {_row(dict(f.terms), strict) for f, strict in given}
    monomials = {m for terms, _ in rows for m, _ in terms} - {ONE}
    rows |= {(frozenset([(m, Fraction(1))]), False) for m in monomials if is_nonnegative(m)}
    while rows and len(rows) <= MOST_ROWS:
        numbers = {r for r in rows if all(m == ONE for m, _ in r[0])}
        if any((value := sum(c for _, c in terms)) < 0 or (strict and not value) for terms, strict in numbers):
            return False
        rows -= numbers
        signs: dict[Monomial, list[int]] = {}
        for terms, _ in rows:
            for m, c in terms:
                signs.setdefault(m, [0, 0])[c > 0] += 1
        signs.pop(ONE, None)
        if not signs:
            return True
        which = min(signs, key=lambda m: (signs[m][0] * signs[m][1], sorted(map(repr, m))))
        rows = {r for r in rows if which not in dict(r[0])} | set(_without(which, rows))
    return True


def _without(m: Monomial, rows: Iterable[Row]) -> Iterable[Row]:
    """The sums of rows in which a monomial cancels."""
    told = [(dict(terms), strict) for terms, strict in rows]
    for below, one in told:
        for above, other in told:
            a, b = below.get(m, ZERO), above.get(m, ZERO)
            if a < 0 < b:
                terms = {k: b * below.get(k, ZERO) - a * above.get(k, ZERO) for k in {*below, *above} - {m}}
                yield _row(terms, one or other)


def _row(terms: dict[Monomial, Fraction], strict: bool) -> Row:
    size = max((abs(c) for m, c in terms.items() if m != ONE and c), default=Fraction(1))
    return frozenset((m, c / size) for m, c in terms.items() if c), strict


MOST_NODES = 30_000
"""Nodes of both programs: beyond that numbers at random points are faster."""


@dataclass(slots=True, eq=False)
class Node:
    """An operation on nodes, an input's element ("x"), or a number; `own` is what else distinguishes it."""

    op: str
    element: Scalar
    args: tuple[Node, ...]
    own: Any
    serial: int


@dataclass(slots=True)
class Decisions:
    """All nodes; `ordered`: without NaN and the sign of zeros, where extremes are choices too."""

    ordered: bool = False
    nodes: dict[Any, Node] = field(default_factory=dict[Any, Node])
    known: dict[Any, Node] = field(default_factory=dict[Any, Node])
    at_once: bool = False
    in_order: bool = True

    def _node(self, op: str, element: Scalar, args: tuple[Node, ...] = (), own: Any = None) -> Node:
        key = op, element, own, *map(id, args)
        found = self.nodes.get(key)
        if found is None:
            if len(self.nodes) > MOST_NODES:
                raise Unsupported("many elements and conditions")
            found = self.nodes[key] = Node(op, element, args, own, len(self.nodes))
        return found

    def number(self, value: Any, element: Scalar) -> Node:
        """A number; floats are told apart by their bits."""
        exact = np.asarray(value).astype(DTYPES[element])
        return self._node("number", element, (), float(exact).hex() if element.is_float else int(exact))

    @property
    def false(self) -> Node:
        return self.number(False, BOOL)

    @property
    def true(self) -> Node:
        return self.number(True, BOOL)

    def input(self, array: int, at: tuple[int, ...], element: Scalar) -> Node:
        return self._node("x", element, (), (array, at))

    def choose(self, condition: Node, first: Node, second: Node) -> Node:
        """The first where the condition holds, else the second."""
        if condition.op == "number":
            return first if condition.own else second
        if first is second:
            return first
        if first is self.true and second is self.false:
            return condition
        key = "choose", id(condition), id(first), id(second)
        if key not in self.known:
            asked = min((a for a in map(asks, (condition, first, second)) if a is not None), key=lambda a: a.serial)
            parts = [
                self.choose(*(half(n, asked, self, holds) for n in (condition, first, second)))
                for holds in (True, False)
            ]
            self.known[key] = self._choice(asked, *parts)
        return self.known[key]

    def _choice(self, asked: Node, first: Node, second: Node) -> Node:
        if first is second:
            return first
        if first is self.true and second is self.false:
            return asked
        return self._node("if", first.element, (asked, first, second))

    def make(self, op: str, element: Scalar, args: tuple[Node, ...], own: Any = None) -> Node:
        """An operation; of choices it is a choice of operations."""
        match op, args:
            case "if", (condition, first, second):
                return self.choose(condition, first, second)
            case "and", (x, y):
                return self.choose(x, y, self.false)
            case "or", (x, y):
                return self.choose(x, self.true, y)
            case "xor", (x, y):
                return self.choose(x, self.make("not", BOOL, (y,)), y)
            case "not", (x,):
                return self.choose(x, self.false, self.true)
            case _:
                pass
        key = op, element, own, *map(id, args)
        if key not in self.known:
            asked = [a for a in map(asks, args) if a is not None]
            if asked:
                first = min(asked, key=lambda a: a.serial)
                parts = [
                    self.make(op, element, tuple([half(n, first, self, holds) for n in args]), own)
                    for holds in (True, False)
                ]
                self.known[key] = self.choose(first, *parts)
            else:
                self.known[key] = self._end(op, element, args, own)
        return self.known[key]

    def _end(self, op: str, element: Scalar, args: tuple[Node, ...], own: Any) -> Node:
        """An operation on what no condition decides any more."""
        if all(a.op == "number" for a in args) and (found := _computed(op, element, args)) is not None:
            return self.number(found, element)
        ordered = self.ordered or (bool(args) and args[0].element.is_integer)
        match op, args:
            case "greater", (x, y):
                return self._end("less", BOOL, (y, x), own)
            case "greater_equal", (x, y):
                return self._end("less_equal", BOOL, (y, x), own)
            case "less_equal", (x, y) if ordered:
                return self.make("not", BOOL, (self._end("less", BOOL, (y, x), own),))
            case "not_eq", (x, y):
                return self.make("not", BOOL, (self._end("eq", BOOL, (x, y), own),))
            case (("less" | "eq"), (x, y)) if x is y and ordered:
                return self.false if op == "less" else self.true
            case (("max" | "min"), (x, y)) if ordered:
                low, high = (y, x) if op == "max" else (x, y)
                return self.choose(self._end("less", BOOL, (x, y), own), low, high)
            case "abs", (x,) if self.ordered and x.element.is_float:
                negative = self._end("less", BOOL, (x, self.number(0, x.element)), own)
                return self.choose(negative, self._end("neg", element, (x,), own), x)
            case _:
                pass
        if TABLE[op].commutative:
            args = tuple(sorted(args, key=lambda a: a.serial))
        return self._node(op, element, args, own)

    # The domain of an evaluation

    def literal(self, value: Any, element: Scalar) -> Leaf:
        """A literal of a float type."""
        return Leaf((np.array(self.number(value, element), object),))

    def whole(self, x: Array) -> Leaf:
        """Integers as numbers."""
        raise Unsupported("integers as floats of no known type")

    def own(self, op: str, element: Scalar, leaves: Sequence[tuple[Leaf, Scalar]], static: Any = None) -> Leaf | None:
        """An elementwise operation of whatever type, None where it is one of integers that no input decides."""
        floats = element.is_float or any(kind.is_float for _, kind in leaves)
        if not floats and all(leaf.parts[0].dtype != object for leaf, _ in leaves):
            return None
        given = [self._nodes(leaf.parts[0], kind) for leaf, kind in leaves]
        return Leaf((_each(lambda *xs: self.make(op, element, xs, static), *given),))

    def _nodes(self, x: Array, element: Scalar) -> Array:
        return _each(lambda v: v if isinstance(v, Node) else self.number(v, element), x.astype(object))

    def compute(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives a float of floats."""
        found = self.own(op, element, [(a, element) for a in args])
        assert found is not None
        return found

    def integers(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives an integer of integers."""
        found = self.own(op, element, [(a, element) for a in args])
        if found is None:
            known = INTEGERS[op](element, *(a.parts[0] for a in args))
            return Leaf((np.asarray(known, DTYPES[element]),))
        return found

    def total(self, x: Leaf, axis: int, element: Scalar) -> Leaf:
        """A sum along an axis, in the order of its elements."""
        raise Unsupported("a sum that is taken at once")

    def rounded(self, x: Leaf, element: Scalar) -> Leaf:
        """A number as one of a narrower type."""
        raise Unsupported("a conversion of no known type")

    def decided(self, x: Leaf) -> Array:
        """The numbers that decide what has no meaning as a choice: an index, the end of a loop."""
        array = x.parts[0]
        if array.dtype != object:
            return array
        found = [v.own if isinstance(v, Node) and v.op == "number" else v for v in array.reshape(-1)]
        if any(isinstance(v, Node | str) for v in found):
            raise Unsupported("inputs decide an index")
        return np.array(found).reshape(array.shape)

    def inputs(self, array: int, shape: tuple[int, ...], element: Scalar) -> Leaf:
        """An input whose elements are nodes of their own."""
        if int(np.prod(shape)) > MOST_NODES:
            raise Unsupported("many elements")
        found = np.empty(shape, object)
        for at in np.ndindex(shape):
            found[at] = self.input(array, at, element)
        return Leaf((found,))

    def numbers(self, x: Array, element: Scalar) -> Leaf:
        """An array of known floats."""
        return Leaf((self._nodes(x, element),))


def _computed(op: str, element: Scalar, args: tuple[Node, ...]) -> Any:
    """The value of an operation on numbers alone, where rounding has no part in it."""
    values = [np.asarray(float.fromhex(a.own) if a.element.is_float else a.own).astype(DTYPES[a.element]) for a in args]
    if op in TESTS:
        return bool(TESTS[op](*values))
    if op in ("max", "min") and not any(np.isnan(v) for v in values if v.dtype.kind == "f") and values[0] != values[1]:
        return max(values) if op == "max" else min(values)
    if element.is_integer and op in INTEGERS and all(a.element == element for a in args):
        return np.asarray(INTEGERS[op](element, *values))
    if op == "cast" and (element.is_float or not args[0].element.is_float):
        return values[0]
    return None


def asks(node: Node) -> Node | None:
    """The condition that a node asks first; a condition asks for itself."""
    if node.op == "if":
        return node.args[0]
    return node if node.element == BOOL and node.op != "number" else None


def half(node: Node, asked: Node, of: Decisions, holds: bool) -> Node:
    """The node under a condition, or its negation, which it asks first or not at all."""
    if node is asked:
        return of.true if holds else of.false
    return node.args[1 if holds else 2] if node.op == "if" and node.args[0] is asked else node


def _each(f: Callable[..., Node], *arrays: Array) -> Array:
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if int(np.prod(shape)) > MOST_NODES:
        raise Unsupported("many elements")
    found = np.empty(shape, object)
    for at in np.ndindex(shape):
        found[at] = f(*(np.broadcast_to(a, shape)[at] for a in arrays))
    return found
