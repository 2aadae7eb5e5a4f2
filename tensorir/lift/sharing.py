"""Equal terms of a statement become one object, so that what a text repeats is worked on once.

>>> from tensorir.lift.terms import Index, Op
>>> from tensorir.types import INT32
>>> a, b = (Op("plus", (Index("i", INT32), Index("j", INT32)), INT32) for _ in range(2))
>>> table = Shared()
>>> table.of(a) is table.of(b)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorir.lift.nest import Node
from tensorir.lift.storage import changed
from tensorir.lift.terms import Index, Linear, Load, Number, Op, Term, rebuilt

__all__ = ["Shared", "with_shared_terms"]


@dataclass(slots=True)
class Shared:
    """The terms that were seen; two reads of one element at different places of the text stay two."""

    table: dict[object, Term] = field(default_factory=dict[object, Term])
    done: dict[int, Term] = field(default_factory=dict[int, Term])
    kept: list[Term] = field(default_factory=list[Term])

    def of(self, term: Term) -> Term:
        """The term, its parts the ones that were seen first."""
        self.kept.append(term)
        return rebuilt(term, lambda t: self.table.setdefault(_key(t), t), self.done)


def _key(t: Term) -> object:
    match t:
        case Number():
            return t.key
        case Index(name, element):
            return name, element
        case Linear(affine, element):
            return affine, element
        case Load(buffer, indices, span):
            return id(buffer), tuple([id(i) for i in indices]), span
        case Op(op, args, element):
            return op, tuple([id(a) for a in args]), element


def with_shared_terms(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, each with one object for each of its terms: between two statements a read may change its meaning."""

    def over(node: Node) -> Node:
        return changed(node, Shared().of, over, lambda b: b, lambda b: ())

    return tuple(map(over, nodes))
