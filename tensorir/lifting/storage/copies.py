"""Storage of the program's own: which copies of it can be one, and which iterations need copies of their own.

A buffer whose every element has one value, whoever writes it and how often, needs no order between its writers and
readers: a cache of an input, for example. A buffer that every iteration of a loop (or every thread) fills before it
reads it gets a dim for that loop, so that iterations do not meet in it.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from tensorir.integers.affine import Affine, number, quotient, variable
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.inverse import inverse
from tensorir.lifting.accesses.overlap import box_of, overlap
from tensorir.lifting.accesses.sets import domain, integer_set, text
from tensorir.lifting.accesses.space import Space, boxed, hull_of, in_order
from tensorir.lifting.accesses.touched import places
from tensorir.lifting.emission.stores import place_of
from tensorir.lifting.nests.linear import Ranges, affine_of
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, buffers_of, index_names, rebuilt
from tensorir.lifting.storage.filled import Writers, filled_first, writers_of
from tensorir.lifting.storage.periods import periods
from tensorir.runtime.memory import remembered

__all__ = ["Moves", "changed", "expanded", "moved", "read_elsewhere", "settled_values"]

MOST_ELEMENTS = 1 << 26
"""A buffer gets no copies beyond this size: iterations then share it, one after the other."""


# Values that do not depend on who writes them


def settled_values(statements: Sequence[Leaf]) -> frozenset[Buffer]:
    """The program's own buffers whose every element is only ever written with one value."""
    writers: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written:
            writers.setdefault(buffer, []).append(leaf)
    known: dict[Buffer, bool] = {}

    def stable(buffer: Buffer) -> bool:
        if buffer not in writers:
            return True
        if buffer not in known:
            known[buffer] = False  # while it is looked at: what follows from itself is not settled
            known[buffer] = not buffer.argument and len(writers[buffer]) == 1 and of_its_place(writers[buffer][0])
        return known[buffer]

    def of_its_place(leaf: Leaf) -> bool:
        node = leaf.node
        if not isinstance(node, Store) or node.buffer.loops or node.buffer in leaf.read:
            return False
        if not all(stable(b) for b in leaf.read):
            return False
        space = whole_space(leaf)
        place = place_of(space)
        back = None if place is not None else inverse([affine_of(t) for t in space.location], space.dims)
        told = place.dims if place is not None else back.names if back is not None else None
        return told is not None and not ((index_names(space.value) - told) & space.dims.keys())

    return frozenset(b for b in writers if stable(b))


def whole_space(leaf: Leaf) -> Space:
    """The iterations of a store as a box, with no loop outside."""
    node = leaf.node
    assert isinstance(node, Store)
    return _whole_space(node, leaf.loops)


@remembered("facts of nests", limit=1024)
def _whole_space(node: Store, loops: tuple[Loop, ...]) -> Space:
    dims, guards = hull_of(loops, ranges_of(loops))
    make = in_order if node.buffer.exact else boxed
    return make(dims, node.indices, node.value, (*guards, *node.guards), {})


# Copies


def expanded(nodes: Sequence[Node], among: Set[Buffer] | None = None) -> tuple[Node, ...]:
    """The nodes with copies of their own for what threads, blocks and iterations keep to themselves.

    Only those `among` some get copies, where they are told.
    """
    statements = leaves(nodes)
    settled, writers = settled_values(statements), writers_of(statements)
    by_buffer: dict[Buffer, list[Leaf]] = {}
    kept_as_they_are: set[Buffer] = set(settled)
    for leaf in statements:
        for buffer in leaf.written | leaf.read:
            by_buffer.setdefault(buffer, []).append(leaf)
            fixed = buffer.argument or buffer.loops or buffer.value is not None
            if fixed or (among is not None and buffer not in among):
                kept_as_they_are.add(buffer)
    wanted: dict[Buffer, list[str]] = {}
    own: dict[Buffer, list[str]] = {}
    for buffer, touching in by_buffer.items():
        if buffer in kept_as_they_are:
            continue
        if any(isinstance(leaf.node, While | External) for leaf in touching):
            continue
        names: list[str] = [n for n in buffer.private if all(n in leaf.names for leaf in touching)]
        # iterations that never touch one element need no copies
        names = [n for n in names if _meet(buffer, touching, [n])]
        own[buffer] = [n for n in _own_iterations(buffer, touching, writers) if n not in names]
        if names or own[buffer]:
            wanted[buffer] = [*names, *own[buffer]]
    alike = periods(statements, wanted, settled)
    copies: dict[Buffer, _Copied] = {}
    for buffer, names in wanted.items():
        touching, ranges = by_buffer[buffer], ranges_of(by_buffer[buffer][0].loops)
        shared = (_shared(buffer, touching, n, ranges[n], alike[buffer, n]) for n in names)
        found = _Copied(buffer, tuple(shared))
        kept_apart = tuple(x.name if x.period == 1 and x.name in own[buffer] else "" for x in found.loops if x.apart)
        shape = (*found.sizes, *buffer.shape)
        if prod(shape) <= MOST_ELEMENTS or buffer.private:
            copies[buffer] = replace(found, buffer=replace(buffer, shape=shape, private=(), copies=kept_apart))
    moves = {b: (c.buffer, c.places) for b, c in copies.items()}
    return moved(nodes, moves, {b: c.first for b, c in copies.items()})


@dataclass(frozen=True, slots=True)
class _Shared:
    """A loop for which a buffer has copies: from `low` on, `period` iterations share one, or all do, where it is 0."""

    name: str
    low: int
    size: int
    period: int
    apart: bool
    """Whether there is more than one copy."""

    @property
    def place(self) -> Term:
        """The index of the copy of an iteration."""
        index: Term = Index(self.name, INT32)
        if self.period > 1:
            return Op("floordiv", (index, Number(self.period, INT32)), INT32)
        return Op("minus", (index, Number(self.low, INT32)), INT32) if self.low else index

    @property
    def first(self) -> Term:
        """That an iteration is the first of those that share a copy."""
        index: Term = Index(self.name, INT32)
        if not self.period:
            return Op("eq", (index, Number(self.low, INT32)), BOOL)
        return Op("eq", (Op("mod", (index, Number(self.period, INT32)), INT32), Number(0, INT32)), BOOL)


def _shared(buffer: Buffer, touching: Sequence[Leaf], name: str, span: tuple[int, int], period: int) -> _Shared:
    low, high = span
    if not period:
        return _Shared(name, low, 1, period, apart=False)
    # what has an index for the copy needs no other one
    wanted = quotient(variable(name), period, {name: span})
    found = [(indices, ranges_of(leaf.loops)) for leaf in touching for _, indices in places(leaf, buffer)]
    told = period > 1 and any(_tells([(p[k], ranges) for p, ranges in found], wanted) for k in range(len(buffer.shape)))
    return _Shared(name, low, (high - low) // period + 1, period, apart=not told)


def _tells(indices: Sequence[tuple[Affine | None, Ranges]], wanted: Affine) -> bool:
    """Whether each value of a sum has as many indices of its own: `2 × (t // 4) + k` where k is below 2."""
    ((atom, _),) = wanted.terms
    size = 0 if indices[0][0] is None else indices[0][0].coefficient(atom)
    return size > 0 and all(
        a is not None and quotient(_known(a, ranges), size, ranges) == wanted for a, ranges in indices
    )


def _known(a: Affine, ranges: Ranges) -> Affine:
    """A sum without the variables of loops of one iteration."""
    return a.replaced({n: number(ranges[n][0]) for n in a.names if ranges[n][0] == ranges[n][1]}, ranges)


@dataclass(frozen=True, slots=True)
class _Copied:
    """A buffer with copies, and the loops that it has them for."""

    buffer: Buffer
    loops: tuple[_Shared, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(x.size for x in self.loops if x.apart)

    @property
    def places(self) -> tuple[Term, ...]:
        """The indices of the copy of an iteration."""
        return tuple(x.place for x in self.loops if x.apart)

    @property
    def first(self) -> tuple[Term, ...]:
        """That an iteration is the first of those that share a copy."""
        return tuple(x.first for x in self.loops if x.period != 1)


def _meet(buffer: Buffer, touching: Sequence[Leaf], names: Sequence[str]) -> bool:
    """Whether two different values of some loops touch one element, and one of them writes it."""
    apart = " or ".join(f"{n}_a != {n}_b" for n in names)
    boxes = [box_of(leaf, ranges_of(leaf.loops)) for leaf in touching]
    ways = [list(places(leaf, buffer)) for leaf in touching]
    for p, a in enumerate(touching):
        for q in range(p, len(touching)):
            b, first, second = touching[q], boxes[p], boxes[q]
            for write_a, x in ways[p]:
                for write_b, y in ways[q]:
                    if not (write_a or write_b):
                        continue
                    known = None if first is None or second is None else overlap(x, y, first, second, names)
                    if known is not None:
                        if known.forward | known.backward:
                            return True
                        continue
                    variables = [*(f"{n}_a" for n in a.names), *(f"{n}_b" for n in b.names)]
                    da, db = domain(a, ranges_of(a.loops), (), "_a"), domain(b, ranges_of(b.loops), (), "_b")
                    constraints = [*da.constraints, *db.constraints, f"({apart})"]
                    for i, j in zip(x, y, strict=True):
                        if i is not None and j is not None:
                            constraints.append(f"{text(i, da.names)} = {text(j, db.names)}")
                    if not integer_set(variables, constraints).is_empty():
                        return True
    return False


def _own_iterations(buffer: Buffer, touching: Sequence[Leaf], writers: Writers) -> list[str]:
    """The loops around all accesses of which every iteration fills the buffer before it reads it.

    Only those are told in which iterations meet, since the others need no copies.
    """
    shared: list[Loop] = []
    for level, loop in enumerate(touching[0].loops):
        if all(len(leaf.loops) > level and leaf.loops[level] is loop for leaf in touching):
            shared.append(loop)
        else:
            break
    deepest = 0
    for depth in range(len(shared), 0, -1):
        if filled_first(buffer, touching, depth, writers):
            deepest = depth
            break
    return [loop.name for loop in shared[:deepest] if _meet(buffer, touching, [loop.name])]


Moves = Mapping[Buffer, tuple[Buffer, tuple[Term, ...]]]
"""What stands in the place of buffers, and at which first indices their elements are there."""


def moved(
    nodes: Sequence[Node], moves: Moves, under: Mapping[Buffer, tuple[Term, ...]] | None = None
) -> tuple[Node, ...]:
    """The nodes with other buffers in the place of some, with further dims, stored to under further conditions."""
    guards = under or {}

    def inner(node: Node) -> Node:
        if isinstance(node, Store) and guards.get(node.buffer):
            node = replace(node, guards=(*guards[node.buffer], *node.guards))
        return changed(
            node, lambda t: _moved(t, moves), inner, lambda b: moves[b][0] if b in moves else b,
            lambda b: moves[b][1] if b in moves else (),
        )  # fmt: skip

    return tuple(map(inner, nodes)) if moves else tuple(nodes)


def read_elsewhere(nodes: Sequence[Node], moves: Moves) -> tuple[Node, ...]:
    """The nodes with what they read of some buffers read from others, with further dims."""

    def inner(node: Node) -> Node:
        return changed(node, lambda t: _moved(t, moves), inner, lambda b: b, lambda _: ())

    return tuple(map(inner, nodes))


def _moved(term: Term, moves: Moves) -> Term:
    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in moves:
            new, place = moves[t.buffer]
            return Load(new, (*place, *t.indices), t.span)
        return None

    return rebuilt(term, rule) if buffers_of(term) & moves.keys() else term


def changed(
    node: Node, over: Callable[[Term], Term], inner: Callable[[Node], Node], target: Callable[[Buffer], Buffer],
    prefix: Callable[[Buffer], tuple[Term, ...]],
) -> Node:  # fmt: skip
    """A node with its terms and buffers changed."""
    match node:
        case Loop():
            return replace(node, low=over(node.low), extent=over(node.extent), body=tuple(map(inner, node.body)))
        case Store(buffer, indices, value, guards):
            places, held = (*prefix(buffer), *map(over, indices)), tuple(map(over, guards))
            return replace(node, buffer=target(buffer), indices=places, value=over(value), guards=held)
        case While(condition, body, guards, span, most):
            return While(over(condition), tuple(map(inner, body)), tuple(map(over, guards)), span, most)
        case Check(condition, _, guards):
            return replace(node, condition=over(condition), guards=tuple(map(over, guards)))
        case External():
            return replace(node, guards=tuple(map(over, node.guards)))
