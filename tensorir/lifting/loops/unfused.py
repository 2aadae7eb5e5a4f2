"""Loops as they were before they were fused, split, or made longer than data ask for.

Loops that end where conditions end all that they do: what runs in no other iteration needs no others.

`for n in range(2): if n < 1: …` is `for n in range(1): …`. A schedule that splits a loop of one iteration in two leaves
such loops, and so does one that rounds the number of threads up.

>>> n, b = Index("n", INT32), Buffer("B", INT32, (2,))
>>> store = Store(b, (n,), n, (Op("less", (n, Number(1, INT32)), BOOL),))
>>> (loop,) = with_loops_shortened([Loop("n", Number(0, INT32), Number(2, INT32), (store,))])
>>> loop.low.value, loop.extent.value
(0, 1)

Loops that were fused: one loop of whose variable quotients and remainders are used is a nest of loops.

    for t in range(6): B[t // 3, t % 3] = …   →   for t_1 in range(2): for t_2 in range(3): B[t_1, t_2] = …

The iterations come in the same order. What is stored and read at sums of the parts is told apart by each of them then,
and a copy of storage that only one of the parts needs has none for the others.

>>> from tensorir.lifting.nests.terms import Buffer, Index, Number, Op, show
>>> t, b = Index("t", INT32), Buffer("B", INT32, (2, 3))
>>> place = tuple(Op(op, (t, Number(3, INT32)), INT32) for op in ("floordiv", "mod"))
>>> (loop,) = unfused([Loop("t", Number(0, INT32), Number(6, INT32), (Store(b, place, t),))])
>>> inner = loop.body[0]
>>> loop.name, loop.extent.value, loop.title, inner.name, inner.extent.value, inner.title
('t_1', 2, 't // 3', 't_2', 3, 't % 3')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from math import prod

from tensorir.integers.affine import Affine, Quotient, Ranges, number, variable
from tensorir.integers.dims import Interval
from tensorir.ir.build import fresh
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import conjuncts, domain, integer_set, text
from tensorir.lifting.accesses.space import bounds_of_guard
from tensorir.lifting.emission.stores import holding
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import (
    Check,
    External,
    Leaf,
    Loop,
    Moves,
    Node,
    Store,
    While,
    changed,
    leaves,
    moved,
    names_of_loops,
    ranges_of,
    written,
)
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    buffers_of,
    index_names,
    rebuilt,
    walk,
)
from tensorir.lifting.storage.aliases import filled_first

Guards = tuple[Term, ...]


def with_loops_shortened(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, each loop without the first and last iterations in which nothing inside of it does anything."""
    names = names_of_loops(nodes)
    # what threads keep to themselves is as long as all of them
    single = {n for n, count in names.items() if count == 1}
    return tuple(_shorter(node, single)[0] for node in nodes)


def _shorter(node: Node, single: Set[str]) -> tuple[Node, list[Guards]]:
    """A node, and under which conditions each statement inside of it runs."""
    match node:
        case Loop(name, low, extent, body):
            parts = [_shorter(n, single) for n in body]
            guards = [g for _, inner in parts for g in inner]
            new = tuple(n for n, _ in parts)
            node = node if all(a is b for a, b in zip(new, body, strict=True)) else replace(node, body=new)
            match low, extent:
                case Number(int() as first), Number(int() as count) if guards and count > 1 and name in single:
                    whole = Interval(first, first + count)
                    needed = reduce(lambda a, b: a | b, (_running(name, whole, g) for g in guards))
                    if needed and needed != whole:
                        cut = Number(needed.start, low.element), Number(len(needed), extent.element)
                        node = replace(node, low=cut[0], extent=cut[1])
                case _:
                    pass
            return node, guards
        case While(body=body, guards=guards):
            new = tuple(_shorter(n, single)[0] for n in body)
            same = all(a is b for a, b in zip(new, body, strict=True))
            return node if same else replace(node, body=new), [guards]
        case _:
            return node, [node.guards]


def _running(name: str, whole: Interval, guards: Guards) -> Interval:
    """The iterations of a loop in which conditions on its variable alone hold."""
    ranges = {name: (whole.start, whole.stop - 1)}
    for guard in guards:
        if name not in index_names(guard):
            continue
        for part in conjuncts(guard):
            if index_names(part) == {name} and (found := bounds_of_guard(settled(part, ranges))) is not None:
                _, bound, upper = found
                limit = Interval(whole.start, bound + 1) if upper else Interval(bound, whole.stop)
                whole = whole & limit if limit.start < limit.stop else Interval(whole.start, whole.start)
    return whole


def unfused(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, every loop whose variable is divided by numbers that divide each other as a nest of loops."""
    names = names_of_loops(nodes)
    sizes = _fused(nodes, {n for n, count in names.items() if count == 1})
    return tuple(map(_Fusions(set(names), sizes).node, nodes)) if sizes else tuple(nodes)


def _fused(nodes: Sequence[Node], single: Set[str]) -> dict[str, tuple[int, ...]]:
    """Extents of the parts of fused loops, by name."""
    found: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        if isinstance(node, Loop) and node.name in single and (sizes := _sizes(node)):
            found[node.name] = sizes
        if isinstance(node, Loop | While):
            found |= _fused(node.body, single)
    return found


@dataclass(slots=True)
class _Fusions:
    """State while nodes are taken apart, from the outside in."""

    taken: set[str]
    """The names of all loops."""
    sizes: Mapping[str, tuple[int, ...]]
    """How long the parts of those are that are several."""
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    """The sums that variables of loops became."""
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The loops that they became."""
    lasting: dict[Buffer, tuple[str, ...]] = field(default_factory=dict[Buffer, tuple[str, ...]])
    """The loops of values that live for one iteration of them, as they were."""

    def node(self, node: Node) -> Node:
        if isinstance(node, Loop) and node.name in self.sizes:
            return self._nest(node, self.sizes[node.name])
        new = changed(node, self._term, self.node, lambda b: b, lambda _: ())
        if isinstance(node, Store) and isinstance(new, Store) and node.buffer in self.lasting:
            return replace(new, indices=self._places(node.buffer, node.indices))
        return new

    def _nest(self, loop: Loop, sizes: Sequence[int]) -> Node:
        """A loop as loops of some sizes, the outermost first."""
        names = tuple(fresh(loop.name, self.taken) for _ in sizes)
        total, count, titles = number(0), 1, list[str]()
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            total = variable(name).times(count).plus(total)
            titles.append(_title(loop, count, size))
            count *= size
        touched = written(loop.body).union(*map(buffers_of, _terms_of(loop.body)))
        for buffer in touched | {b.root for b in touched}:
            self._share_out(buffer, loop.name, names, sizes)
        element = loop.extent.element
        self.values[loop.name], self.parts[loop.name] = Linear(total, element), names
        body = tuple(map(self.node, loop.body))
        del self.values[loop.name], self.parts[loop.name]
        for name, size, title in zip(reversed(names), reversed(sizes), titles, strict=True):
            bounds = Number(0, element), Number(size, element)
            body = (replace(loop, name=name, low=bounds[0], extent=bounds[1], body=body, title=title),)
        return body[0]

    def _share_out(self, buffer: Buffer, name: str, names: tuple[str, ...], sizes: Sequence[int]) -> None:
        """Storage that each iteration of a loop has for itself is that of each iteration of its parts."""

        def instead(loops: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(n for old in loops for n in (names if old == name else (old,)))

        buffer.private = instead(buffer.private)
        if name in buffer.loops:
            self.lasting.setdefault(buffer, buffer.loops)
            k = buffer.loops.index(name)
            buffer.shape = (*buffer.shape[:k], *sizes, *buffer.shape[k + 1 :])
            buffer.loops = instead(buffer.loops)

    def _term(self, term: Term) -> Term:
        return rebuilt(term, self._rule) if self.values else term

    def _rule(self, term: Term) -> Term | None:
        match term:
            case Index(name, element) if name in self.values:
                return Linear(self.values[name].affine, element)
            case Linear(affine, element) if affine.names & self.values.keys():
                return Linear(affine.replaced({n: v.affine for n, v in self.values.items()}, {}), element)
            case Load(buffer, indices) if buffer in self.lasting:
                return replace(term, indices=self._places(buffer, indices))
            case _:
                return None

    def _places(self, buffer: Buffer, indices: Sequence[Term]) -> tuple[Term, ...]:
        """The indices of an access to values of one iteration, one per part of a loop."""
        names = [n for old in self.lasting[buffer] for n in self.parts.get(old, (old,))]
        rest = indices[len(self.lasting[buffer]) :]
        return (*(Index(n, INT32) for n in names), *map(self._term, rest))


def _title(loop: Loop, by: int, size: int) -> str:
    """The title of a part of a loop, in the source's words: a digit of its variable."""
    assert isinstance(loop.extent, Number)
    shown, whole = loop.title or loop.name, by * size
    digit = shown if whole == loop.extent.value else f"{shown} % {whole}"
    return digit if by == 1 else f"{digit} // {by}"


def _sizes(loop: Loop) -> tuple[int, ...]:
    """Extents of the loops that a loop is fused of, the outermost first; none if it is one loop."""
    match loop.low, loop.extent:
        case Number(0), Number(int() as count) if not loop.lockstep:
            pass
        case _:
            return ()
    divisors = _divisors(loop, {loop.name: (0, count - 1)})
    chain = [count, *sorted(divisors, reverse=True), 1]
    if not divisors or any(a % b for a, b in pairwise(chain)) or chain[0] == chain[1]:
        return ()
    return tuple(a // b for a, b in pairwise(chain))


def _divisors(loop: Loop, ranges: Ranges) -> set[int]:
    """Divisors of the variable of a loop; none if a sum of it is divided, too."""
    found: set[int] = set()
    seen: set[int] = set()
    for term in _terms_of(loop.body):
        for t in walk(term):
            if id(t) in seen:
                continue
            seen.add(id(t))
            for quotient in _quotients(t, loop.name, ranges):
                if quotient.inner != variable(loop.name):
                    return set()
                found.add(quotient.by)
    return found


def _quotients(term: Term, name: str, ranges: Ranges) -> list[Quotient]:
    """The quotients of a variable, or of sums of it alone, that a term adds."""
    match term:
        case Linear(affine):
            total = affine
        case Op("floordiv" | "mod") if index_names(term) == {name}:
            total = linear(term, ranges)
        case _:
            return []
    parts = () if total is None else total.terms
    return [q for q, _ in parts if isinstance(q, Quotient) and q.inner.names == frozenset((name,))]


def _terms_of(nodes: Sequence[Node]) -> Iterator[Term]:
    for node in nodes:
        match node:
            case Loop(_, low, extent, body):
                yield from (low, extent)
                yield from _terms_of(body)
            case While(condition, body, guards):
                yield from (condition, *guards)
                yield from _terms_of(body)
            case Store(_, indices, value, guards):
                yield from (*indices, value, *guards)
            case Check(condition, _, guards):
                yield from (condition, *guards)
            case External(guards=guards):
                yield from guards


# islpy has no types of its own that say enough.


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
    """Accesses of the parts of a program, and its rewriting."""

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
    found = Leaf(Check(Op("and", tuple(leaf.reads), BOOL), "", leaf.node.guards), leaf.loops, leaf.place)
    for k in range(len(reader.whiles) + 1):
        path = reader.whiles[:k]
        level = len(reader.around[k - 1]) if k else depth
        writers = [_only_writing(part.leaf, buffer, firm) for part in touching if part.whiles == path]
        if filled_first(buffer, [*(w for w in writers if w is not None), found], level):
            return True
    return False


def _only_writing(leaf: Leaf, buffer: Buffer, firm: Set[Term]) -> Leaf | None:
    """A store's value under conditions, without its own read; None where the buffer decides."""
    node = leaf.node
    if not isinstance(node, Store) or node.buffer is not buffer:
        return None
    guards = tuple(g for g in node.guards if g not in firm)
    if any(buffer in buffers_of(g) for g in guards):
        return None
    return Leaf(replace(node, value=Number(0, buffer.element), guards=guards), leaf.loops, leaf.place)


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
