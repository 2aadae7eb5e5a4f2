"""Where a translation stands: what values are, which nodes were made, and what is known of loop variables."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensorir.ir.build import literal
from tensorir.ir.nodes import Expr, Literal, Var
from tensorir.ir.types import BOOL, Dims, TensorType
from tensorir.lifting.emission.tensors import cut
from tensorir.lifting.region.nodes import Let, Node
from tensorir.runtime.errors import Span
from tensorir.tile.lift.values import Axes, Memory, Number, Pointers, Value, scalar_of
from tensorir.tile.nodes import Operation
from tensorir.tile.nodes import Value as Name
from tensorir.tile.types import Element

__all__ = ["Context", "Exit", "FlatMemory", "Translate"]


class FlatMemory(Exception):
    """Memory that must be one row of elements, since not all of its accesses name its dims."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Exit:
    """One way in which a region ends: when (None: always), and with which values."""

    when: Number | None
    values: tuple[Value, ...]


Exits = dict[str, Exit]
"""How a region may end, by the name of the operation that ends it."""


@dataclass(slots=True)
class Context:
    """One kernel at one launch."""

    grid: tuple[int, int, int]
    memories: dict[str, Memory]
    values: dict[Name, Value] = field(default_factory=dict[Name, Value])
    nodes: list[Node] = field(default_factory=list[Node])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    count: int = 0
    inline: bool = False
    """Whether values are expressions of their own, as in the body of a fold, and no nodes."""
    wide: bool = False
    """Whether addresses are computed in 64 bits."""
    exact: bool = False
    """Whether what rounds once in the kernel rounds once."""
    undefined: bool = False
    """Whether what the kernel leaves undefined is looked for when it runs."""
    fill: int | None = None
    """Which value stands in the place of padding that the kernel leaves unspecified; zero where none does."""
    padded: Span | None = None
    """Where the first padding is that is unspecified."""
    used: frozenset[Name] = frozenset()
    """The values that some operation asks for."""
    notes: list[str] = field(default_factory=list[str])

    # Values

    def number(self, name: Name) -> Number:
        found = self.values[name]
        assert isinstance(found, Number)
        return found

    def numbers(self, names: Sequence[Name]) -> list[Number]:
        return [self.number(n) for n in names]

    def pointers(self, name: Name) -> Pointers:
        found = self.values[name]
        assert isinstance(found, Pointers)
        return found

    def define(self, op: Operation, *values: Value) -> None:
        self.values.update(zip(op.results, values, strict=True))

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def named(self, e: Expr, span: Span) -> Expr:
        """The expression as a variable: what is used twice is computed once."""
        if self.inline or isinstance(e, Literal | Var):
            return e
        result = Var(self.fresh("v"), e.tensor)
        self.nodes.append(Let(result, e, span))
        return result

    def variable(self, e: Expr, span: Span) -> Var:
        """The expression as a variable, whatever it is."""
        found = self.named(e, span)
        if not isinstance(found, Var):
            result = Var(self.fresh("v"), found.tensor)
            self.nodes.append(Let(result, found, span))
            return result
        return found

    def made(self, e: Expr, axes: Axes, element: Element, span: Span) -> Number:
        """A tile of numbers with a computed expression."""
        e = self.named(cut(e, {}), span)
        bounds = () if isinstance(e, Literal) and e.element == BOOL and e.value else None
        return Number(axes, element, scalar_of(element, span), e, None, bounds)

    def zero(self, like: Value) -> Expr:
        """Zeros of the type of a value."""
        n = like.offset if isinstance(like, Pointers) else like
        assert isinstance(n, Number)
        return literal(False if n.scalar == BOOL else 0, n.scalar)

    def inside(self, axes: Axes, element: Element, span: Span, prefix: str = "c") -> Var:
        """A variable for what a loop carries, on all axes of its tile."""
        template = Number(axes, element, scalar_of(element, span), None)
        return Var(self.fresh(prefix), TensorType(template.scalar, Dims(tuple(template.dims.items()))))

    @contextmanager
    def body(self) -> Generator[list[Node]]:
        """A list that takes the nodes that are made within."""
        outer, self.nodes = self.nodes, list[Node]()
        try:
            yield self.nodes
        finally:
            self.nodes = outer


Translate = Callable[[Context, Operation], None]
