"""The nodes of the region IR, on one page.

Values are variables of the tensor IR (`tensorir.ir.nodes.Var`), each defined once: by a `Read`, a `Let`, an `Atomic`,
or as what a loop carries. A loop's variable is a dim of access maps and, in expressions, an int32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tensorir.integers.affine import Affine, variable
from tensorir.integers.dims import Interval
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span


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

    def holds(self, ranges: Mapping[str, tuple[int, int]]) -> bool | None:
        """True if it holds for all values of its variables, False if for none; None where they differ, or none knows.

        >>> from tensorir.integers.affine import variable
        >>> Bound(variable("i")).holds({"i": (0, 3)}), Bound(variable("i").times(-1)).holds({"i": (0, 3)})
        (True, None)
        """
        found = self.affine.range(ranges)
        if found is None:
            return None
        low, high = found
        if self.equal:
            return True if low == high == 0 else None if low <= 0 <= high else False
        return True if low >= 0 else False if high < 0 else None


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
    """A barrier: statements before it, in any iteration of the parallel loops around it, precede those after it."""

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


def whole_of(dims: Sequence[tuple[str, object]]) -> tuple[Affine, ...]:
    """All of a buffer, along dims of a value."""
    return tuple(variable(n) for n, _ in dims)


def tells_apart(at: Sequence[Index], dims: Mapping[str, Interval]) -> bool:
    """True if places are known to have elements of their own: as numbers of which the dims are digits."""
    digits: set[str] = set()
    for i in at:
        if not isinstance(i, Affine) or not i.is_linear:
            return False
        reach = 1
        for n, c in sorted(((n, c) for n, c in i.terms if n in dims), key=lambda t: abs(t[1])):
            if abs(c) < reach or n in digits:
                return False
            digits.add(str(n))
            reach = abs(c) * len(dims[str(n)])
    return digits == set(dims)


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


def results(node: Node) -> tuple[Var, ...]:
    """The values that a node leaves to those after it."""
    match node:
        case Read(result) | Let(result) | Atomic(Var() as result):
            return (result,)
        case For(carried=carried) | While(carried=carried):
            return tuple(c.result for c in carried)
        case If(joined=joined):
            return tuple(j.result for j in joined)
        case _:
            return ()


def defined(node: Node) -> frozenset[str]:
    """The names of values and loops that a node, or one in it, defines."""
    names: set[str] = set()
    for n in walk((node,)):
        names |= {v.name for v in results(n)}
        if isinstance(n, For | While):
            names |= {c.inside.name for c in n.carried}
        if isinstance(n, For):
            names.add(n.dim)
    return frozenset(names)


def uses(node: Node) -> frozenset[Var]:
    """Every variable that a node, or one in it, asks for; those of sums of indices are int32."""
    variables: set[Var] = set()

    def ask(*parts: Index | Condition | Expr, dims: Iterable[str] = ()) -> None:
        for part in parts:
            if isinstance(part, Affine | Bound):
                affine = part.affine if isinstance(part, Bound) else part
                variables.update(Var(n, TensorType(INT32)) for n in affine.names.difference(dims))
            else:
                variables.update(part.free)

    for n in walk((node,)):
        match n:
            case Read(result, _, at, where, otherwise):
                ask(*at, *where, *(() if otherwise is None else (otherwise,)), dims=result.type.dims.names)
            case Write(_, at, value, where) | Atomic(_, _, at, _, value, where):
                ask(*at, *where, value, dims=value.tensor.dims.names)
            case Let(_, value):
                ask(value)
            case If(conditions, joined=joined):
                ask(*conditions, *(e for j in joined for e in (j.value, j.otherwise)))
            case For(_, start, stop, carried=carried):
                ask(start, stop, *(e for c in carried for e in (c.first, c.next)))
            case While(_, condition, carried=carried):
                ask(condition, *(e for c in carried for e in (c.first, c.next)))
            case Check(condition):
                ask(condition)
            case _:
                pass
    return frozenset(variables)


def check_region(region: Region) -> None:
    """Raise all that is wrong with a region at once.

    TL20: a value or an index that is not defined where it is used, or a name that is defined twice. TL21: an access map
    with another number of indices than its buffer has dims, or in which a dim of the value does not stand. TL22: types
    that do not meet. TL23: an `Atomic` with a builtin that combines no two elements.
    """
    checker = _Checker()
    checker.nodes(region.body, frozenset(), frozenset())
    if checker.found:
        raise DiagnosticError(checker.found)


@dataclass(slots=True)
class _Checker:
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    defined: set[str] = field(default_factory=set[str])

    def say(self, code: str, message: str, span: Span, help: str = "") -> None:
        self.found.append(Diagnostic(code, message, span, help=help))

    def define(self, name: str, span: Span) -> None:
        if name in self.defined:
            self.say("TL20", f"'{name}' is defined twice.", span, "each name stands for one thing: rename one.")
        self.defined.add(name)

    def nodes(self, nodes: Sequence[Node], loops: frozenset[str], known: frozenset[Var]) -> frozenset[Var]:
        """Check nodes where loops and values are known, and return the values that are known behind them."""
        for node in nodes:
            known = known | self.node(node, loops, known)
        return known

    def node(self, node: Node, loops: frozenset[str], known: frozenset[Var]) -> frozenset[Var]:
        match node:
            case Read(result, buffer, at, where, otherwise, span):
                own = frozenset(result.type.dims.names)
                self.own(own, loops, span)
                self.access(buffer, at, own, loops, known, span)
                self.conditions(where, loops | own, known, span)
                if result.type.element != buffer.element:
                    message = f"'{buffer.name}' holds {buffer.element}, and '{result.name}' is {result.type.element}."
                    self.say("TL22", message, span)
                if otherwise is not None:
                    self.value(otherwise, loops, known, span)
                self.define(result.name, span)
                return frozenset({result})
            case Write(buffer, at, value, where, span) | Atomic(_, buffer, at, _, value, where, span):
                self.value(value, loops, known, span)
                own = frozenset(value.tensor.dims.names)
                self.own(own, loops, span)
                self.access(buffer, at, own, loops, known, span)
                self.conditions(where, loops | own, known, span)
                if value.tensor.element != buffer.element:
                    message = f"'{buffer.name}' holds {buffer.element}, and this is {value.tensor.element}."
                    self.say("TL22", message, span, f"convert it: cast(..., {buffer.element}).")
                if isinstance(node, Atomic):
                    if node.op not in COMBINING:
                        self.say("TL23", f"'{node.op}' does not combine.", span, f"one of {', '.join(COMBINING)}.")
                    if node.result is not None:
                        self.define(node.result.name, span)
                        return frozenset({node.result})
            case Let(result, value, span):
                self.value(value, loops, known, span)
                if value.type != result.type:
                    self.say("TL22", f"'{result.name}' is {result.type}, and this is {value.type}.", span)
                self.define(result.name, span)
                return frozenset({result})
            case For(dim, start, stop, body, _, carried, _, span):
                self.define(dim, span)
                for bound in (start, stop):
                    self.index(bound, loops, known, span)
                for c in carried:
                    self.value(c.first, loops, known, span)
                    self.define(c.inside.name, span)
                    self.define(c.result.name, span)
                inside = self.nodes(body, loops | {dim}, known | {c.inside for c in carried})
                for c in carried:
                    self.carried(c.first, c.inside, span)
                    self.value(c.next, loops | {dim}, inside, span)
                    self.carried(c.next, c.inside, span)
                return frozenset(c.result for c in carried)
            case If(where, body, otherwise, joined, span):
                self.conditions(where, loops, known, span)
                sides = self.nodes(body, loops, known), self.nodes(otherwise, loops, known)
                for j in joined:
                    self.define(j.result.name, span)
                    for value, side in zip((j.value, j.otherwise), sides, strict=True):
                        self.value(value, loops, side, span)
                        self.carried(value, j.result, span)
                return frozenset(j.result for j in joined)
            case While(before, condition, body, carried, span):
                for c in carried:
                    self.value(c.first, loops, known, span)
                    self.define(c.inside.name, span)
                    self.define(c.result.name, span)
                inside = self.nodes(before, loops, known | {c.inside for c in carried})
                self.truth(condition, loops, inside, span)
                inside = self.nodes(body, loops, inside)
                for c in carried:
                    self.carried(c.first, c.inside, span)
                    self.value(c.next, loops, inside, span)
                    self.carried(c.next, c.inside, span)
                return frozenset(c.result for c in carried)
            case Check(condition, _, span):
                self.truth(condition, loops, known, span)
            case _:
                pass
        return frozenset()

    def own(self, own: frozenset[str], loops: frozenset[str], span: Span) -> None:
        for name in sorted(own & loops):
            self.say("TL20", f"'{name}' is a loop here, and a dim of the value.", span, "rename the dim.")

    def carried(self, value: Expr, inside: Var, span: Span) -> None:
        if value.type != inside.type:
            self.say("TL22", f"'{inside.name}' is {inside.type}, and this is {value.type}.", span)

    def value(self, e: Expr, loops: Iterable[str], known: frozenset[Var], span: Span) -> None:
        indices = {Var(name, TensorType(INT32)) for name in loops}
        for v in sorted(e.free - known - indices, key=lambda v: v.name):
            self.say("TL20", f"'{v.name}' is not defined here.", span)

    def truth(self, e: Expr, loops: Iterable[str], known: frozenset[Var], span: Span) -> None:
        self.value(e, loops, known, span)
        if e.type != TensorType(BOOL):
            self.say("TL22", f"a condition is one bool, and this is {e.type}.", span)

    def index(self, i: Index, names: frozenset[str], known: frozenset[Var], span: Span) -> None:
        if isinstance(i, Affine):
            for name in sorted(i.names - names):
                self.say("TL20", f"there is no index '{name}' here.", span)
        elif i not in known:
            self.say("TL20", f"'{i.name}' is not defined here.", span)
        elif not isinstance(i.type.element, Scalar) or not i.type.element.is_integer:
            self.say("TL22", f"an index is a whole number, and '{i.name}' is {i.type.element}.", span)

    def access(
        self, buffer: Buffer, at: Sequence[Index], own: frozenset[str], loops: frozenset[str],
        known: frozenset[Var], span: Span,
    ) -> None:  # fmt: skip
        if len(at) != len(buffer.dims):
            dims = f"{len(buffer.dims)} dim{'s' * (len(buffer.dims) != 1)}"
            indices = "is 1 index" if len(at) == 1 else f"are {len(at)} indices"
            self.say("TL21", f"'{buffer.name}' has {dims}, and there {indices}.", span)
        used: set[str] = set()
        for i in at:
            self.index(i, loops | own, known, span)
            used |= i.names if isinstance(i, Affine) else set(i.type.dims.names)
        for name in sorted(own - used):
            self.say("TL21", f"the dim '{name}' of the value stands in no index.", span, "say where it runs.")

    def conditions(self, where: Sequence[Condition], names: frozenset[str], known: frozenset[Var], span: Span) -> None:
        for c in where:
            match c:
                case Bound(affine):
                    self.index(affine, names, known, span)
                case Var():
                    if c not in known:
                        self.say("TL20", f"'{c.name}' is not defined here.", span)
                    elif c.type.element != BOOL:
                        self.say("TL22", f"a condition is a bool, and '{c.name}' is {c.type.element}.", span)


COMBINING = ("plus", "multiplies", "min", "max", "and", "or", "xor", "bit_and", "bit_or", "bit_xor")
