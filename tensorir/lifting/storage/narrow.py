"""Integers of two or four bits, held in bytes: what computes them computes a byte, and wraps it.

XLA has such types in name, and stops the process where it cannot compute them. A byte that holds one is always in its
range, so reads, comparisons and conversions need nothing; what may leave the range is shifted up and down again.

>>> from tensorir.lifting.nests.terms import show
>>> from tensorir.ir.types import INT32
>>> a = Buffer("A", NARROW["int4"], (3,))
>>> x = Load(a, (Number(0, INT32),))
>>> held = Narrowed()
>>> show(held.term(Op("plus", (x, x), x.element)))
'shift_right(shift_left(plus(A[0], A[0]), 4), 4)'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensorir.ir.types import SCALARS, Scalar
from tensorir.lifting.nests.nest import Check, External, Loop, Node, Store, While, changed
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, rebuilt
from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["NARROW", "Narrowed", "holder"]

NARROW = {f"{kind}{bits}": Scalar(f"{kind}{bits}", kind, bits) for kind in ("int", "uint") for bits in (2, 4)}
"""The integers that no tensor has as its elements, by name."""

_STAY = frozenset(("if", "min", "max", "bit_and", "bit_or", "bit_xor", "rem", "mod", "popcount", "clz"))
"""What gives no number outside of the range of numbers inside of it."""


def holder(element: Scalar) -> Scalar:
    """What holds an element: a byte, or the element itself."""
    return SCALARS[f"{element.kind}8"] if element.name in NARROW else element


@dataclass(slots=True)
class Narrowed:
    """The nodes of a program, its narrow integers held in bytes; each buffer of them becomes one of bytes."""

    buffers: dict[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    terms: dict[int, Term] = field(default_factory=dict[int, Term])
    kept: list[Term] = field(default_factory=list[Term])

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer of what holds its elements."""
        if buffer.element.name not in NARROW:
            return buffer
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = replace(buffer, element=holder(buffer.element))
        return found

    def nodes(self, nodes: Sequence[Node]) -> list[Node]:
        return [self._node(node) for node in nodes]

    def _node(self, node: Node) -> Node:
        match node:
            case External(name, reads, writes, span=span):
                if any(b.root.element.name in NARROW for b in (*reads, *writes)):
                    message = f"{name!r} takes a buffer of {next(b.element for b in (*reads, *writes))}."
                    raise DiagnosticError(Diagnostic("TL01", message, span, (), "give it a buffer of int8."))
            case Loop() | Store() | While() | Check():
                pass
        return changed(node, self.term, self._node, self.buffer, lambda b: ())

    def term(self, term: Term) -> Term:
        """The term of bytes."""
        self.kept.append(term)
        return rebuilt(term, self._rule, self.terms)

    def _rule(self, term: Term) -> Term | None:
        match term:
            case Number(value, element) if element.name in NARROW:
                return Number(value, holder(element))
            case Load(buffer, indices, span) if buffer.element.name in NARROW:
                return Load(self.buffer(buffer), indices, span)
            case Op("popcount" | "clz" as op, (x,), element) if element.name in NARROW:
                return _counted(op, x, element)
            case Op(op, args, element) if element.name in NARROW:
                held = holder(element)
                if op == "bitcast":
                    op = "cast"
                made = Op(op, args, held)
                return made if op in _STAY else _wrapped(made, element)
            case _:
                return None


def _wrapped(x: Term, element: Scalar) -> Term:
    """The number of an element that a byte's lowest bits say."""
    by = Number(8 - element.bits, x.element)
    return Op("shift_right", (Op("shift_left", (x, by), x.element), by), x.element)


def _counted(op: str, x: Term, element: Scalar) -> Term:
    """The bits that are set, or the zeros before the first, among the lowest of a byte."""
    byte = SCALARS["uint8"]
    bits = Op("bit_and", (Op("cast", (x,), byte), Number((1 << element.bits) - 1, byte)), byte)
    found = Op(op, (bits,), byte)
    if op == "clz":
        found = Op("minus", (found, Number(8 - element.bits, byte)), byte)
    return Op("cast", (found,), holder(element))
