"""Elements as decisions: what is computed at the ends of the conditions that inputs decide, each element a node.

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

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.reals.integers import INTEGERS, TESTS
from tensorir.equality.reals.tensors import Array, Leaf
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, DTYPES, Scalar

__all__ = ["Decisions", "Node"]

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
    """What is computed of numbers alone, where that is no matter of rounding."""
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
    """What a node is where a condition holds, or does not, which it asks first or not at all."""
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
