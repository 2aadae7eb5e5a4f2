"""The nodes of the region IR, on one page.

Values are variables of the tensor IR (`tensorir.ir.nodes.Var`), each defined once: by a `Read`, a `Let`, an `Atomic`,
or as what a loop carries. A loop's variable is a dim of access maps and, in expressions, an int32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from tensorir.integers.affine import Affine
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import Scalar
from tensorir.runtime.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory with named dims, each from 0; an argument, or storage that holds zeros before it is written."""

    name: str
    element: Scalar
    dims: tuple[tuple[str, int], ...]
    argument: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(extent for _, extent in self.dims)


@dataclass(frozen=True, slots=True)
class Bound:
    """That a sum is not negative, or, with `equal`, that it is zero."""

    affine: Affine
    equal: bool = False


Index = Affine | Var
"""Where along a dim of a buffer: a sum of loop variables and dims of the value, or a value."""

Condition = Bound | Var
"""What must hold: of indices, or a bool value."""


class Rule(Enum):
    """In which order a source runs the iterations of a loop; the value is the word for it."""

    IN_ORDER = "in order"
    INDEPENDENT = "independent"
    LOCKSTEP = "lockstep"


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """`result ← buffer[at] where ... otherwise ...`: the elements that all conditions allow."""

    result: Var
    buffer: Buffer
    at: tuple[Index, ...]
    where: tuple[Condition, ...] = ()
    otherwise: Expr | None = None
    """What is there where a condition does not hold; zero unless it is given."""
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """`buffer[at] ← value where ...`; each dim of the value stands in the map."""

    buffer: Buffer
    at: tuple[Index, ...]
    value: Expr
    where: tuple[Condition, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Atomic:
    """`buffer[at]` becomes itself combined with the value by a builtin, in one step; `result` is what was there."""

    result: Var | None
    buffer: Buffer
    at: tuple[Index, ...]
    op: str
    value: Expr
    where: tuple[Condition, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    """`result` is the value of an expression of the tensor IR."""

    result: Var
    value: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A value that goes from one iteration to the next: `inside` begins as `first`, becomes `next`, and leaves as
    `result`."""

    inside: Var
    first: Expr
    next: Expr
    result: Var


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """The body for start <= dim < stop."""

    dim: str
    start: Index
    stop: Index
    body: tuple[Node, ...]
    rule: Rule = Rule.IN_ORDER
    carried: tuple[Carried, ...] = ()
    title: str = ""
    """The name in the source."""
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """A value that leaves a choice: one of the first body, or one of the other."""

    result: Var
    value: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """One body or the other one, and the values that leave it."""

    conditions: tuple[Condition, ...]
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()
    joined: tuple[Joined, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """`before` and then, as long as the condition that it computes holds, the body."""

    before: tuple[Node, ...]
    condition: Expr
    body: tuple[Node, ...]
    carried: tuple[Carried, ...] = ()
    span: Span = NOWHERE
    most: int | None = None
    """The most rounds, where something bounds them."""
    title: str = ""
    """Under which what is decided of it is told."""
    reason: str = "runs until its condition fails"


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """An error with the message where a value is false."""

    condition: Expr
    message: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What stands before, in any iteration of the loops around that run at once, happens before what follows."""

    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class External:
    """A known function of whole buffers."""

    name: str
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    span: Span = NOWHERE
    make: Callable[..., tuple[Expr, ...]] | None = None
    """What becomes of the buffers that it writes, of tensors for those that it reads, with the dims of the first."""


Node = Read | Write | Atomic | Let | For | If | While | Check | Order | External


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A program: its memory and what is done to it."""

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]


def nested(node: Node) -> tuple[tuple[Node, ...], ...]:
    """The bodies of a node.

    >>> nested(Order())
    ()
    """
    match node:
        case For(body=body):
            return (body,)
        case If(_, body, otherwise):
            return (body, otherwise)
        case While(before, _, body):
            return (before, body)
        case _:
            return ()


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node, in the order of the text."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        for body in reversed(nested(node)):
            stack += reversed(body)
