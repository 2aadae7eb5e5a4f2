"""What a region must be: names defined once and before they are used, maps that fit their buffers, types that meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tensorir.integers.affine import Affine
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Buffer,
    Check,
    Condition,
    For,
    If,
    Index,
    Let,
    Node,
    Read,
    Region,
    While,
    Write,
)
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span


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
