"""Whiles of iterations that do not meet run abreast: one while, each of whose rounds is one of every iteration.

`for i: x = A[i]; while p(x): x = f(x); B[i] = x` becomes a while over all i at once, in whose rounds those iterations
do something for which p still holds. What an iteration keeps to itself gets a dim for it.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod

from tensorir.integers.affine import Affine
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import domain, integer_set, text
from tensorir.lifting.emission.stores import holding
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Moves, Node, Store, While, leaves, moved, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, buffers_of, index_names
from tensorir.lifting.storage.aliases import filled_first

MOST_ELEMENTS = 1 << 24
"""What iterations keep to themselves gets no dim beyond this size: they then run one after the other."""

FALSE = Number(False, BOOL)


def abreast(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with one while in the place of those that the iterations of a loop have."""
    nodes = tuple(nodes)
    if not any(_waits(node) for node in nodes):
        return nodes
    return tuple(_Program(list(_flat(nodes))).nodes(nodes, ()))


def _waits(node: Node) -> bool:
    """True if a while stands in a loop."""
    return isinstance(node, Loop) and any(isinstance(leaf.node, While) for leaf in leaves((node,)))


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement, or the condition of a while, and the whiles that it is in, from the outside in."""

    leaf: Leaf
    whiles: tuple[While, ...]
    around: tuple[tuple[Loop, ...], ...]
    """The loops around each of the whiles."""


def _flat(
    nodes: Sequence[Node], loops: tuple[Loop, ...] = (), place: tuple[int, ...] = (),
    whiles: tuple[While, ...] = (), around: tuple[tuple[Loop, ...], ...] = (), under: tuple[Term, ...] = (),
) -> Iterator[_Part]:  # fmt: skip
    """The statements of a tree in the order of the text, those inside of whiles too, with all their guards."""
    for leaf in leaves(nodes, loops, place):
        node, guards = leaf.node, (*under, *leaf.node.guards)
        match node:
            case While(condition, body):
                yield _Part(Leaf(Check(condition, "", guards, node.span), leaf.loops, leaf.place), whiles, around)
                yield from _flat(body, leaf.loops, leaf.place, (*whiles, node), (*around, leaf.loops), guards)
            case _:
                yield _Part(Leaf(replace(node, guards=guards), leaf.loops, leaf.place), whiles, around)


class _Meeting(Exception):
    """Iterations that have to run one after the other."""


@dataclass(slots=True)
class _Program:
    """What the parts of a program touch, and what is made of it."""

    parts: list[_Part]
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {b.name for part in self.parts for b in part.leaf.written | part.leaf.read}

    def nodes(self, nodes: Sequence[Node], outer: tuple[Loop, ...]) -> Iterator[Node]:
        """The nodes inside of some loops that run step by step."""
        for node in nodes:
            match node:
                case Loop(body=body) if _waits(node):
                    try:
                        made = _Abreast(self).loop(node, outer)
                    except _Meeting:
                        made = [replace(node, body=tuple(self.nodes(body, (*outer, node))))]
                    yield from made
                case While(body=body):
                    yield replace(node, body=tuple(self.nodes(body, outer)))
                case _:
                    yield node

    def fresh(self, name: str) -> str:
        found, k = name, 1
        while found in self.names:
            found, k = f"{name}_{k}", k + 1
        self.names.add(found)
        return found

    def inside(self, loop: Loop) -> list[_Part]:
        return [part for part in self.parts if any(x is loop for x in part.leaf.loops)]


@dataclass(slots=True)
class _Abreast:
    """The iterations of some loops, all taking their rounds together."""

    program: _Program
    copies: dict[Buffer, list[Loop]] = field(default_factory=dict[Buffer, list[Loop]])
    sources: dict[Loop, Loop] = field(default_factory=dict[Loop, Loop])
    """Of loops whose statements got a condition, the loop of the program."""

    def loop(self, loop: Loop, outer: tuple[Loop, ...]) -> list[Node]:
        """The nodes in the place of a loop; raises where its iterations meet."""
        self._apart(loop)
        made = self._spread((loop,), loop.body, outer)
        copies = self._copies()
        return list(moved(made, copies))

    # Which iterations meet

    def _apart(self, loop: Loop) -> None:
        """Find what each iteration of a loop keeps to itself; raises where iterations meet in anything else."""
        parts = self.program.inside(loop)
        if any(isinstance(part.leaf.node, External) for part in parts):
            raise _Meeting
        touching: dict[Buffer, list[_Part]] = {}
        for part in parts:
            for buffer in part.leaf.written | part.leaf.read:
                touching.setdefault(buffer, []).append(part)
        written = {b for part in parts for b in part.leaf.written}
        if any(b.memory is not None for b in touching):
            raise _Meeting
        for buffer in sorted(written, key=lambda b: b.name):
            if _meet(buffer, [part.leaf for part in touching[buffer]], loop):
                if not self._own(buffer, touching[buffer], loop):
                    raise _Meeting
                self.copies.setdefault(buffer, []).append(loop)

    def _own(self, buffer: Buffer, touching: Sequence[_Part], loop: Loop) -> bool:
        """True if every iteration of a loop fills a buffer before it reads it, and nobody reads it after the loop."""
        if buffer.argument or buffer.value is not None or buffer.loops:
            return False
        (here,) = {part.leaf.place[0] for part in touching}
        inside = {id(part) for part in touching}
        others = [p for p in self.program.parts if buffer in p.leaf.written | p.leaf.read and id(p) not in inside]
        later = [p for p in others if p.leaf.place[0] > here]
        if any(p.leaf.place[0] == here for p in others) or not self._filled(buffer, later, 0):
            return False
        if loop.name in buffer.private:
            return True
        shared = [loops[0] for loops in zip(*(p.leaf.loops for p in touching), strict=False) if len(set(loops)) == 1]
        # what each iteration of a loop inside fills, each iteration of this one does
        return any(self._filled(buffer, touching, k) for k in range(len(shared), shared.index(loop), -1))

    def _filled(self, buffer: Buffer, touching: Sequence[_Part], depth: int) -> bool:
        written = {b for part in self.program.parts for b in part.leaf.written if not b.loops}
        return all(_filled(buffer, part, touching, depth, written) for part in touching)

    # What runs in their place

    def _spread(self, around: tuple[Loop, ...], nodes: Sequence[Node], outer: tuple[Loop, ...]) -> list[Node]:
        """Nodes for all iterations of some loops that do not meet."""
        found: list[Node] = []
        together: list[Node] = []
        for node in nodes:
            if not (_waits(node) or isinstance(node, While)):
                together.append(node)
                continue
            if together:
                found.append(_nested(around, together))
                together = []
            match node:
                case While():
                    found += self._while(node, around, outer)
                case Loop(body=body):
                    found += self._inner(node, body, around, outer)
                case _:
                    raise AssertionError(node)
        return [*found, _nested(around, together)] if together else found

    def _inner(self, node: Loop, body: Sequence[Node], around: tuple[Loop, ...], outer: tuple[Loop, ...]) -> list[Node]:
        """A loop inside: its iterations too run abreast, or all others take each of them together."""
        before = {b: list(loops) for b, loops in self.copies.items()}
        try:
            self._apart(self.sources.get(node, node))
        except _Meeting:
            self.copies = before
            if (index_names(node.low) | index_names(node.extent)) & {loop.name for loop in around}:
                raise
            return [replace(node, body=tuple(self._spread(around, body, outer)))]
        return self._spread((*around, node), body, outer)

    def _while(self, node: While, around: tuple[Loop, ...], outer: tuple[Loop, ...]) -> list[Node]:
        span = node.span
        ranges = ranges_of((*outer, *around))
        shape = tuple(ranges[loop.name][1] - ranges[loop.name][0] + 1 for loop in around)
        if prod(shape) > MOST_ELEMENTS or prod(shape) <= 1:
            raise _Meeting
        active = Buffer(self.program.fresh("active"), BOOL, shape, span=span)
        going = Buffer(self.program.fresh("going"), BOOL, (), span=span)
        place = tuple(_place(loop, ranges[loop.name][0]) for loop in around)
        on, some = Load(active, place), Load(going, ())

        def asked(under: Term | None) -> list[Node]:
            holds = node.condition if under is None else Op("if", (under, node.condition, FALSE), BOOL)
            either = Store(going, (), Op("or", (some, on), BOOL), (), span)
            return [
                _nested(around, [Store(active, place, holds, (), span)]),
                Store(going, (), FALSE, (), span),
                _nested(around, [either]),
            ]

        body = self._spread(around, [self._guarded(inner, on) for inner in node.body], outer)
        return [*asked(holding(node.guards)), While(some, (*body, *asked(on)), (), span, node.most)]

    def _guarded(self, node: Node, condition: Term) -> Node:
        match node:
            case Loop(body=body):
                made = replace(node, body=tuple(self._guarded(inner, condition) for inner in body))
                self.sources[made] = self.sources.get(node, node)
                return made
            case _:
                return replace(node, guards=(condition, *node.guards))

    def _copies(self) -> Moves:
        """Of what each iteration keeps to itself a buffer with a dim per loop, and the place in it."""
        made: dict[Buffer, tuple[Buffer, tuple[Term, ...]]] = {}
        for buffer, loops in self.copies.items():
            around = next(p.leaf.loops for p in self.program.inside(loops[-1]) if buffer in p.leaf.written)
            ranges = ranges_of(around)
            shape = (*(ranges[loop.name][1] - ranges[loop.name][0] + 1 for loop in loops), *buffer.shape)
            if prod(shape) > MOST_ELEMENTS:
                raise _Meeting
            private = tuple(n for n in buffer.private if n not in {loop.name for loop in loops})
            place = tuple(_place(loop, ranges[loop.name][0]) for loop in loops)
            made[buffer] = replace(buffer, shape=shape, private=private), place
        return made


def _filled(buffer: Buffer, reader: _Part, touching: Sequence[_Part], depth: int, changing: Set[Buffer]) -> bool:
    """True if a part finds in a buffer what was written before in the same iteration of the outer loops.

    That was outside of all whiles, or in the same round of one that both are in: no while is sure to have a round.
    """
    leaf = reader.leaf
    if buffer not in leaf.read:
        return True
    names = set(leaf.names[:depth])
    # conditions that are the same for a whole iteration are the same for reader and writer
    firm = {g for g in leaf.node.guards if index_names(g) <= names and not buffers_of(g) & changing}
    found = Leaf(Check(_all(leaf.reads), "", leaf.node.guards), leaf.loops, leaf.place)
    for k in range(len(reader.whiles) + 1):
        path = reader.whiles[:k]
        level = len(reader.around[k - 1]) if k else depth
        writers = [_only_writing(part.leaf, buffer, firm) for part in touching if part.whiles == path]
        if filled_first(buffer, [*(w for w in writers if w is not None), found], level):
            return True
    return False


def _only_writing(leaf: Leaf, buffer: Buffer, firm: Set[Term]) -> Leaf | None:
    """What a store writes where some conditions hold, and not what it reads; None where the buffer decides."""
    node = leaf.node
    if not isinstance(node, Store) or node.buffer is not buffer:
        return None
    guards = tuple(g for g in node.guards if g not in firm)
    if any(buffer in buffers_of(g) for g in guards):
        return None
    return Leaf(replace(node, value=Number(0, buffer.element), guards=guards), leaf.loops, leaf.place)


def _all(reads: Iterable[Term]) -> Term:
    return Op("and", tuple(reads), BOOL)


def _place(loop: Loop, low: int) -> Term:
    index = Index(loop.name, INT32)
    return Op("minus", (index, Number(low, INT32)), INT32) if low else index


def _nested(around: tuple[Loop, ...], nodes: Sequence[Node]) -> Loop:
    """Nodes inside of loops like these."""
    made = tuple(nodes)
    for loop in reversed(around):
        made = (replace(loop, body=made),)
    (found,) = made
    assert isinstance(found, Loop)
    return found


def _meet(buffer: Buffer, touching: Sequence[Leaf], loop: Loop) -> bool:
    """True if two iterations of a loop touch one element, and one of them writes it."""
    depth = next(k for k, x in enumerate(touching[0].loops) if x is loop)
    for k, a in enumerate(touching):
        for b in touching[k:]:
            first, second = domain(a, ranges_of(a.loops), (), "_a"), domain(b, ranges_of(b.loops), (), "_b")
            names = [*(f"{n}_a" for n in a.names), *(f"{n}_b" for n in b.names)]
            whole = [*first.constraints, *second.constraints, f"{loop.name}_a != {loop.name}_b"]
            whole += [f"{n}_a = {n}_b" for n in a.names[:depth]]
            for write, x in _places(a, buffer):
                for other, y in _places(b, buffer):
                    same = [
                        f"{text(i, first.names)} = {text(j, second.names)}"
                        for i, j in zip(x, y, strict=True)
                        if i is not None and j is not None
                    ]
                    if (write or other) and not integer_set(names, [*whole, *same]).is_empty():
                        return True
    return False


def _places(leaf: Leaf, buffer: Buffer) -> Iterator[tuple[bool, tuple[Affine | None, ...]]]:
    """Accesses of a buffer: whether they write, and their indices where they are sums."""
    ranges = ranges_of(leaf.loops)
    if isinstance(leaf.node, Store) and leaf.node.buffer is buffer:
        yield True, tuple(linear(i, ranges) for i in leaf.node.indices)
    for place in {load.indices: None for load in leaf.reads if load.buffer is buffer}:
        yield False, tuple(linear(i, ranges) for i in place)
