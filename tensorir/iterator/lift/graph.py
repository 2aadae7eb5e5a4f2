"""The graph of a program: tensors with known dims and elements whose intervals are not known yet.

The values of iterator IR become these nodes when a program is evaluated once: lifts and derefs leave nothing, a shift
is a node. Equal nodes are one node, so the graph is as large as what is computed and not as large as its text. The
intervals follow from what is stored (`needs`), and then the graph is tensor IR (`emit`).

>>> g = Graph()
>>> x = g.input("x", FLOAT64, ("I", "K"))
>>> a = g.shift(g.op("plus", x, g.constant(1.0, FLOAT64)), "I", 2)
>>> a.op, a.static, a.dims, a is g.shift(g.op("plus", x, g.constant(1.0, FLOAT64)), "I", 2)
('shift', ('I', 2), ('I', 'K'), True)
>>> elementwise(g, "power", [g.input("n", INT32, ()), g.constant(2, INT32)]).op
'multiplies'
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir import nodes
from tensorir.integers.sets import ALWAYS, Box, Region
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, DTYPES, FLOAT64, INT32, Scalar, scalar_of
from tensorir.iterator.nodes import ARITHMETIC

_TO_BOOL = {"eq", "not_eq", "less", "less_equal", "greater", "greater_equal", "isfinite", "isinf", "isnan"}
_DECIDES: Mapping[str, Callable[..., Any]] = {
    "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "not": operator.not_,
}  # fmt: skip
_NO_CARRY: frozenset[Node] = frozenset()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """A tensor of the graph: an operation, its operands, what is static, its element and the names of its dims."""

    op: str
    args: tuple[Node, ...]
    static: tuple[Any, ...]
    element: Scalar
    dims: tuple[str, ...]
    carries: frozenset[Node]
    """The carried values of folds that it depends on."""
    label: str = ""

    def __repr__(self) -> str:
        return f"<{self.op}{self.static or ''} on {', '.join(self.dims) or 'no dims'}>"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A neighbour table: where it leads from and to, its local dim, and its entries; -1 is no neighbour."""

    name: str
    domain: tuple[str, ...]
    """The dims of its rows."""
    local: str
    codomain: str
    entries: np.ndarray[Any, Any]
    """Rows first, slots last."""
    origin: tuple[int, ...]
    """The coordinates of the first row."""
    holes: bool
    """Whether it holds -1."""
    ends: dict[Any, tuple[int, int] | None] = field(default_factory=dict[Any, "tuple[int, int] | None"])

    @property
    def slots(self) -> int:
        return self.entries.shape[-1]

    def rows(self, box: Box) -> tuple[tuple[int, int], ...]:
        """The intervals of its rows that a box needs, those that exist."""
        result: list[tuple[int, int]] = []
        for dim, first, extent in zip(self.domain, self.origin, self.entries.shape, strict=False):
            start, stop = box.get(dim, (first, first + extent))
            result.append((max(start, first), max(min(stop, first + extent), max(start, first))))
        return tuple(result)

    def at(self, rows: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        return self.entries[tuple(slice(a - o, b - o) for (a, b), o in zip(rows, self.origin, strict=True))]

    def targets(self, box: Box) -> tuple[int, int] | None:
        """The interval of what the rows of a box lead to, None where they lead nowhere."""
        rows = self.rows(box)
        if rows not in self.ends:
            entries = self.at(rows)
            present = entries[entries >= 0]
            self.ends[rows] = (int(present.min()), int(present.max()) + 1) if present.size else None
        return self.ends[rows]


@dataclass(frozen=True, slots=True, eq=False)
class StridedTable(Table):
    """A table that no array holds: the neighbours of a row lie one after the other, behind those of the row before.

    >>> StridedTable("E2V", ("Edge",), "E2VDim", "Corner", np.empty((0, 2), np.int32), (0,), False).at(((3, 5),))
    array([[6, 7],
           [8, 9]], dtype=int32)
    """

    def rows(self, box: Box) -> tuple[tuple[int, int], ...]:
        return tuple((max(start, 0), max(stop, 0)) for start, stop in (box.get(d, (0, ALWAYS)) for d in self.domain))

    def at(self, rows: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        ((start, stop),) = rows
        return np.arange(start * self.slots, stop * self.slots, dtype=np.int32).reshape(stop - start, self.slots)


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """The body of a reduction or scan: what is carried, and what it becomes."""

    carried: tuple[Node, ...]
    results: tuple[Node, ...]
    dim: str
    forward: bool = True
    column: tuple[int, int] | None = None
    """The interval of a scan that its domain fixes."""


def union(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The dims of all nodes, each once, in the order in which they first come."""
    return tuple(dict.fromkeys(d for n in nodes for d in n.dims))


def postorder(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node once, operands first; bodies of folds are seen by their free variables."""
    return nodes.postorder(roots, lambda node: node.args)


def _known_truth(name: str, args: Sequence[Node]) -> bool | Node | None:
    """The value of a condition on known whole numbers and truth values: static arguments choose among branches so."""
    if name in _DECIDES and all(a.op == "constant" and not a.element.is_float for a in args):
        if name == "not" and args[0].element != BOOL:
            return None
        return bool(_DECIDES[name](*(a.static[1] for a in args)))
    if name in ("and", "or") and args[0].element == BOOL:
        for known, other in (args, reversed(args)):
            if known.op == "constant" and bool(known.static[1]) == (name == "and"):
                return other
    return None


class Graph:
    """The maker of nodes, which makes none twice."""

    def __init__(self) -> None:
        self._known: dict[Any, Node] = {}
        self.made: int = 0

    def node(
        self, op: str, args: tuple[Node, ...], static: tuple[Any, ...], element: Scalar, dims: tuple[str, ...]
    ) -> Node:
        """The node of an operation, one object for equal operands and statics; it carries what its operands carry."""
        key = (op, tuple(map(id, args)), static, element, dims)
        known = self._known.get(key)
        if known is None:
            carries = _NO_CARRY
            for a in args:
                carries = carries | a.carries if a.carries else carries
            known = self._known[key] = Node(op, args, static, element, dims, carries)
            self.made += 1
        return known

    # Leaves

    def input(self, name: str, element: Scalar, dims: tuple[str, ...]) -> Node:
        """The node of a parameter."""
        return self.node("input", (), (name,), element, dims)

    def constant(self, value: Any, element: Scalar) -> Node:
        exact = value.hex() if isinstance(value, float) else value
        key = self.node("constant", (), (exact, value), element, ())
        return key

    def index(self, dim: str) -> Node:
        """The coordinate along a dim."""
        return self.node("index", (), (dim,), INT32, (dim,))

    def carried(self, element: Scalar) -> Node:
        """A value that a fold carries: like no other node."""
        place: list[Node] = []
        node = Node("carried", (), (len(self._known), id(place)), element, (), _NO_CARRY)
        object.__setattr__(node, "carries", frozenset((node,)))
        self._known["carried", len(self._known)] = node
        return node

    # Elementwise

    def op(self, name: str, *args: Node) -> Node:
        """An elementwise builtin of the tensor IR; operands of several types become one type, as in C."""
        assert TABLE[name].elementwise, name
        first = 1 if name == "if" else 0
        values = args[first:]
        if any(a.element != values[0].element for a in values):
            element = scalar_of(np.result_type(*(DTYPES[a.element] for a in values)))
            assert element is not None
            values = tuple(self.cast(a, element) for a in values)
        args = (*args[:first], *values)
        known = _known_truth(name, values)
        if known is not None:
            return known if isinstance(known, Node) else self.constant(known, BOOL)
        return self.node(name, args, (), BOOL if name in _TO_BOOL else values[0].element, union(args))

    def cast(self, x: Node, element: Scalar) -> Node:
        return x if x.element == element else self.node("cast", (x,), (element,), element, x.dims)

    def can_deref(self, x: Node) -> Node:
        return self.node("can_deref", (x,), (), BOOL, x.dims)

    # Access

    def shift(self, x: Node, dim: str, by: int) -> Node:
        """x[p + by]; shifts along one dim become one."""
        if by == 0 or dim not in x.dims:
            return x
        if x.op == "shift" and x.static[0] == dim:
            return self.shift(x.args[0], dim, x.static[1] + by)
        return self.node("shift", (x,), (dim, by), x.element, x.dims)

    def restagger(self, x: Node, old: str, new: str, by: int) -> Node:
        """x[old: p + by] at new: p."""
        if old not in x.dims:
            return x
        return self.node("restagger", (x,), (old, new, by), x.element, tuple(new if d == old else d for d in x.dims))

    def neighbour(self, x: Node, table: Table, slot: int) -> Node:
        dims = tuple(dict.fromkeys((*table.domain, *(d for d in x.dims if d != table.codomain))))
        return self.node("neighbour", (x,), (table, slot), x.element, dims)

    def neighbours(self, x: Node, table: Table) -> Node:
        """All neighbours, along a local dim that the operand does not have yet."""
        local = table.local
        while local in x.dims:
            local += "'"
        dims = dict.fromkeys((*table.domain, *(d for d in x.dims if d != table.codomain), local))
        return self.node("neighbours", (x,), (table, local), x.element, tuple(dims))

    def slot(self, x: Node, local: str, k: int) -> Node:
        """One slot along a local dim."""
        if x.op == "neighbours" and x.static[1] == local:
            return self.neighbour(x.args[0], x.static[0], k)
        if local not in x.dims:
            return x
        if x.op in TABLE and TABLE[x.op].elementwise:
            args = tuple(self.slot(a, local, k) for a in x.args)
            return self.node(x.op, args, x.static, x.element, union(args))
        return self.node("slot", (x,), (local, k), x.element, tuple(d for d in x.dims if d != local))

    def gather(self, x: Node, dim: str, by: Node) -> Node:
        """x[p + by[p]] along a dim."""
        if dim not in x.dims:
            return x
        if x.op == "index":
            return self.op("plus", x, self.cast(by, INT32))
        return self.node("gather", (x, by), (dim,), x.element, tuple(dict.fromkeys((*x.dims, *by.dims))))

    # Domains

    def broadcast(self, x: Node, dims: Iterable[str]) -> Node:
        wanted = tuple(dict.fromkeys((*x.dims, *dims)))
        return x if wanted == x.dims else self.node("broadcast", (x,), (), x.element, wanted)

    def concat_where(self, region: Region, a: Node, b: Node) -> Node:
        """a on a region, b elsewhere."""
        if a is b:
            return a
        if a.element != b.element:
            element = scalar_of(np.result_type(DTYPES[a.element], DTYPES[b.element]))
            assert element is not None
            a, b = self.cast(a, element), self.cast(b, element)
        dims = tuple(dict.fromkeys((*a.dims, *b.dims, *region.dims)))
        return self.node("concat_where", (a, b), (region,), a.element, dims)

    def update(self, old: Node, new: Node, box: Box) -> Node:
        """old, and new on a box."""
        return self.node("update", (old, new), (tuple(box.items()),), old.element, old.dims)

    # Folds

    def reduce(self, fold: Fold, init: Node, free: tuple[Node, ...]) -> Node:
        dims = tuple(d for d in union((init, *free)) if d != fold.dim)
        return self.node("reduce", (init, *free), (fold,), fold.results[0].element, dims)

    def scan(self, fold: Fold, inits: tuple[Node, ...], free: tuple[Node, ...]) -> tuple[Node, ...]:
        dims = tuple(dict.fromkeys((*(d for d in union((*inits, *free)) if d != fold.dim), fold.dim)))
        scan = self.node("scan", (*inits, *free), (fold,), FLOAT64, dims)
        return tuple(self.node("scanned", (scan,), (k,), c.element, dims) for k, c in enumerate(fold.carried))


# Elementwise builtins of iterator IR whose meaning is a composition of the tensor IR's.

_BITS = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor", "not": "bit_not"}
_LONGEST_PRODUCT = 8


def elementwise(g: Graph, name: str, args: list[Any]) -> Node:
    """An elementwise builtin of iterator IR on nodes."""
    core = ARITHMETIC[name].core
    match core:
        case "power":
            return _power(g, *args)
        case "gamma":
            return _gamma(g, *args)
        case "and" | "or" | "xor" | "not" if any(a.element != BOOL for a in args):
            return g.op(_BITS[core], *args)
        case "abs" | "neg" if args[0].element == BOOL:
            return args[0]
        case "isfinite" | "isinf" | "isnan" | "sqrt" | "exp" | "log" if not args[0].element.is_float:
            return g.op(core, g.cast(args[0], FLOAT64))
        case "floor" | "ceil" | "trunc" if not args[0].element.is_float:
            return args[0]
        case _:
            return g.op(core, *args)


def _power(g: Graph, x: Node, n: Node) -> Node:
    """Whole exponents that are written are products; those of whole numbers are powers of floats, rounded."""
    if n.op == "constant" and float(n.static[1]).is_integer() and abs(n.static[1]) <= _LONGEST_PRODUCT:
        count = int(n.static[1])
        if count >= 0 or x.element.is_float:
            if not x.element.is_float and n.element.is_float:
                x = g.cast(x, n.element)
            product = _product(g, x, abs(count))
            return product if count >= 0 else g.op("divides", g.constant(1.0, x.element), product)
    if x.element.is_float:
        return g.op("power", x, g.cast(n, x.element))
    if n.element.is_float:
        return g.op("power", g.cast(x, n.element), n)
    power = g.op("power", g.cast(x, FLOAT64), g.cast(n, FLOAT64))
    return g.cast(g.op("round", power), x.element)


def _product(g: Graph, x: Node, count: int) -> Node:
    """x to the power of a whole `count` ≥ 0, by repeated squaring."""
    if count == 0:
        one = g.constant(1.0 if x.element.is_float else 1, x.element)
        return g.broadcast(one, x.dims)
    half = x if count == 1 else _product(g, x, count // 2)
    if count == 1:
        return half
    square = g.op("multiplies", half, half)
    return g.op("multiplies", square, x) if count % 2 else square


def _gamma(g: Graph, x: Node) -> Node:
    """The exponential of its logarithm, with the sign that it has between the poles."""
    if not x.element.is_float:
        x = g.cast(x, FLOAT64)
    zero, one, two = (g.constant(v, x.element) for v in (0.0, 1.0, 2.0))
    odd = g.op("not_eq", g.op("mod", g.op("floor", x), two), zero)
    negative = g.op("and", g.op("less", x, zero), odd)
    size = g.op("exp", g.op("lgamma", x))
    return g.op("multiplies", g.op("if", negative, g.op("neg", one), one), size)
