"""Terms that several statements compute, once; and a place for each thread.

Equal terms of a statement become one object, so that what a text repeats is worked on once.

>>> from tensorir.lifting.nests.terms import Index, Op
>>> from tensorir.ir.types import INT32
>>> a, b = (Op("plus", (Index("i", INT32), Index("j", INT32)), INT32) for _ in range(2))
>>> table = Shared()
>>> table.of(a) is table.of(b)
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensorir.ir.types import INT32
from tensorir.lifting.nests.linear import Ranges, linear
from tensorir.lifting.nests.nest import Loop, Node, While, changed, leaves, moved, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, Term, rebuilt

# Threads that take turns together: what each of them keeps to itself has a place of its own in one buffer.
#
#     while more:                              while more:
#       for t in threads: x = f(t)      →        for t in threads: x[t] = f(t)
#       for t in threads: B[t] = x               for t in threads: B[t] = x[t]
#
# Where threads stand in no while, `copies` gives them places only if they would meet.


def with_threads_apart(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a dim for every loop inside of a while of which each iteration has a copy of a buffer."""
    found: dict[Buffer, dict[str, int]] = {}
    for buffer, loop in _private(nodes):
        low, high = ranges_of((loop,))[loop.name]
        found.setdefault(buffer, {})[loop.name] = high - low + 1
    copies: dict[Buffer, tuple[Buffer, tuple[Term, ...]]] = {}
    for buffer, extents in found.items():
        names = [n for n in buffer.private if n in extents]
        shape = (*(extents[n] for n in names), *buffer.shape)
        rest = tuple(n for n in buffer.private if n not in extents)
        copies[buffer] = replace(buffer, shape=shape, private=rest), tuple(Index(n, INT32) for n in names)
    return moved(nodes, copies)


def _private(nodes: Sequence[Node], inside: bool = False) -> Iterator[tuple[Buffer, Loop]]:
    """What is private to iterations of loops that stand inside of a while."""
    for leaf in leaves(nodes):
        if isinstance(leaf.node, While):
            yield from _private(leaf.node.body, inside=True)
        if inside:
            touched = leaf.written | leaf.read
            yield from ((b, loop) for b in touched for loop in leaf.loops if loop.name in b.private)


@dataclass(slots=True)
class Shared:
    """The terms that were seen; two reads that may leave their buffer stay two, since each has a place in the text."""

    ranges: Ranges = field(default_factory=dict[str, tuple[int, int]])
    table: dict[object, Term] = field(default_factory=dict[object, Term])
    done: dict[int, Term] = field(default_factory=dict[int, Term])
    kept: list[Term] = field(default_factory=list[Term])
    sums: dict[int, Term] = field(default_factory=dict[int, Term])
    """The indices that were looked at in normal form; the table keeps them alive."""

    def of(self, term: Term) -> Term:
        """The term, its parts the ones that were seen first."""
        self.kept.append(term)
        return rebuilt(term, self._first, self.done)

    def _first(self, t: Term) -> Term:
        first = self.table.setdefault(_key(t), t)
        if first is not t and isinstance(t, Load) and isinstance(first, Load) and first.span != t.span:
            return first if self._inside(t) else self.table.setdefault((_key(t), t.span), t)
        return first

    def _inside(self, load: Load) -> bool:
        """True if a read of an argument stays inside of it, whatever the conditions around it are."""
        if not load.buffer.argument:
            return False
        for index, extent in zip(load.indices, load.buffer.shape, strict=True):
            found = linear(index, self.ranges, self.sums)
            spread = None if found is None else found.range(self.ranges)
            if spread is None or spread[0] < 0 or spread[1] >= extent:
                return False
        return True


def _key(t: Term) -> object:
    match t:
        case Number():
            return t.key
        case Index(name, element):
            return name, element
        case Linear(affine, element):
            return affine, element
        case Load(buffer, indices):
            return id(buffer), tuple([id(i) for i in indices])
        case Op(op, args, element):
            return op, tuple([id(a) for a in args]), element


def with_shared_terms(nodes: Sequence[Node], loops: tuple[Loop, ...] = ()) -> tuple[Node, ...]:
    """The nodes, each with one object for each of its terms: between two statements a read may change its meaning."""

    def over(node: Node) -> Node:
        inner = (*loops, node) if isinstance(node, Loop) else loops
        shared = Shared(ranges_of(loops))
        return changed(node, shared.of, lambda n: with_shared_terms((n,), inner)[0], lambda b: b, lambda b: ())

    return tuple(map(over, nodes))
