"""The syntax tree of the notation: what was written, before types, names and sizes.

Nine kinds of expression, types whose bounds are affine in size parameters, closures and programs. Nodes are frozen;
equality ignores spans and works at any depth. The names that a program mentions are its dims, and the size parameters
of its bounds.

>>> a = Call("plus", (Name("x"), Number(1.0, FLOAT64)))
>>> a == Call("plus", (Name("x"), Number(1.0, FLOAT64))), a == Name("x")
(True, False)
>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.parser import parse_programs
>>> (program,) = parse_programs(Source("p", "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n+1]>) { out ← x }"))
>>> inventory(program)
Inventory(dims=('I',), sizes=('n',))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import FLOAT64, Element, Scalar
from tensorir.nodes import occurrences
from tensorir.runtime.errors import NOWHERE, Span

__all__ = [
    "FLOAT64", "Apply", "Binding", "Call", "Closure", "Expression", "Inventory", "Lambda", "Let", "Name",
    "Number", "Offset", "Operator", "Param", "Program", "Range", "Results", "Shift", "TensorType", "inventory",
    "inventory_of", "same", "walk",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Range:
    """A named interval, `I[0:n]`."""

    dim: str
    start: Affine
    stop: Affine
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TensorType:
    """`tensor<float, I[0:n]>`"""

    element: Element
    ranges: tuple[Range, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a fencil or of a function; only a function's may lack its type."""

    name: str
    type: TensorType | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Offset:
    """A part of a shift: a dim, a table or an abstract offset, and how far; a table may stand alone."""

    name: str
    distance: Affine | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class Node:
    """The base of expressions of the notation: children, the fields besides them, and structural equality."""

    __slots__ = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def own(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and same(self, other)

    def __hash__(self) -> int:
        return hash((type(self), self.own()))


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    """A literal of an element type."""

    value: bool | int | float
    element: Scalar
    span: Span = field(default=NOWHERE, repr=False)

    def own(self) -> Any:
        return self.element, self.value.hex() if isinstance(self.value, float) else self.value


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable, a name bound by `let`, or an elementwise builtin that stands for a function."""

    name: str
    span: Span = field(default=NOWHERE, repr=False)

    def own(self) -> Any:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Operator(Node):
    """An elementwise builtin as a function, `+`; of given types, `operator(+, T, T)`, or of types that follow."""

    op: str
    types: tuple[TensorType, ...] | None = None
    span: Span = field(default=NOWHERE, repr=False)

    def own(self) -> Any:
        return self.op, self.types


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Node):
    """`λ(x: T) → e`; of several results the body is `Results`, or a `let` around them."""

    params: tuple[Param, ...]
    body: Expression
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.body,)

    def own(self) -> Any:
        return self.params


@dataclass(frozen=True, slots=True, eq=False)
class Results(Node):
    """`{e, f}`, what a function of several results ends with."""

    values: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.values

    def own(self) -> Any:
        return len(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Node):
    """`f(x, y)`, of a function that is no builtin."""

    function: Expression
    args: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.function, *self.args)

    def own(self) -> Any:
        return len(self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A builtin with its operands and static parameters, however it was spelled."""

    op: str
    args: tuple[Expression, ...]
    static: tuple[Any, ...] = ()
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.args

    def own(self) -> Any:
        return self.op, self.static, len(self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Shift(Node):
    """`⟪I, 1, V2E, 0⟫(x)`; the last part is applied first."""

    offsets: tuple[Offset, ...]
    operand: Expression
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def own(self) -> Any:
        return self.offsets


@dataclass(frozen=True, slots=True, eq=False)
class Let(Node):
    """`let name = value; body`: every use of the name in the body is the same node."""

    name: str
    value: Expression
    body: Expression
    span: Span = field(default=NOWHERE, repr=False)
    """Of the name."""

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.value, self.body

    def own(self) -> Any:
        return self.name


Expression = Number | Name | Operator | Lambda | Results | Apply | Call | Shift | Let


@dataclass(frozen=True, slots=True)
class Binding:
    """`let name = value;` in front of a closure, for it and for those behind it."""

    name: str
    value: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    """Of the name."""


@dataclass(frozen=True, slots=True)
class Closure:
    """`out ← e` or `out[I[0:n]] ← e`"""

    output: str
    region: tuple[Range, ...] | None
    value: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    """Of what stands left of the arrow."""
    before: tuple[Binding, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the bindings in front, and the value."""
        return (*(b.value for b in self.before), self.value)


@dataclass(frozen=True, slots=True)
class Program:
    """A fencil as it was written, with the abstract offsets that the text or the caller declared."""

    name: str
    params: tuple[Param, ...]
    closures: tuple[Closure, ...]
    offsets: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def same(a: Node, b: Node) -> bool:
    """True if two trees are equal except for spans; iterative, so that depth is not limited."""
    stack: list[tuple[Node, Node]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if type(x) is not type(y) or x.own() != y.own() or len(x.children) != len(y.children):
            return False
        stack.extend(zip(x.children, y.children, strict=True))
    return True


def walk(*roots: Expression) -> Iterator[Expression]:
    """Every node, parents before children, from left to right."""
    return occurrences(roots, lambda node: node.children)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Names in the order in which they first appear."""

    dims: tuple[str, ...]
    sizes: tuple[str, ...]


def inventory(program: Program) -> Inventory:
    """The dims and sizes that a program mentions, in order of appearance."""
    types = [p.type for p in program.params if p.type is not None]
    regions = [r for closure in program.closures for r in closure.region or ()]
    return inventory_of(types, regions, [e for closure in program.closures for e in closure.expressions])


def inventory_of(types: list[TensorType], regions: list[Range], values: list[Expression]) -> Inventory:
    """The dims and sizes that types, regions and expressions mention, in order of appearance."""
    dims: dict[str, None] = {}
    sizes: dict[str, None] = {}
    for tensor_type in types:
        _add_type(tensor_type, dims, sizes)
    for node in walk(*values):
        match node:
            case Lambda(params):
                for p in params:
                    if p.type is not None:
                        _add_type(p.type, dims, sizes)
            case Operator(_, given) if given is not None:
                for tensor_type in given:
                    _add_type(tensor_type, dims, sizes)
            case Call(op, _, static) if static:
                dims.update(dict.fromkeys(_new_dims(op, static)))
                for value in static:
                    _add_sizes(value, sizes)
            case Shift(offsets):
                for offset in offsets:
                    _add_sizes(offset.distance, sizes)
            case _:
                pass
    for r in regions:
        _add_sizes((r,), sizes)
    return Inventory(tuple(dims), tuple(sizes))


def _add_type(kind: TensorType, dims: dict[str, None], sizes: dict[str, None]) -> None:
    dims.update(dict.fromkeys(r.dim for r in kind.ranges))
    _add_sizes(kind.ranges, sizes)


def _add_sizes(value: Any, sizes: dict[str, None]) -> None:
    """Adds the sizes in a bound, or in intervals, to `sizes`; other values have none."""
    match value:
        case Affine():
            sizes.update(dict.fromkeys(value.coefficients))
        case (Range(), *_):
            for r in value:
                _add_sizes(r.start, sizes)
                _add_sizes(r.stop, sizes)
        case _:
            pass


def _new_dims(op: str, static: tuple[Any, ...]) -> Iterator[str]:
    """The dims that a builtin with these static parameters creates."""
    if op not in ("add_dim", "rename", "split_dim", "merge_dims"):
        return
    for slot, value in zip(TABLE[op].static_slots, static, strict=True):
        if slot == "dim":
            yield value
        elif slot == "pairs":
            yield from (new for _, new in value)
