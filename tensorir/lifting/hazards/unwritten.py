"""Reads of what nobody has written, and arguments that are written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import takewhile
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.integers.sets import isl
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.overlap import reads_under
from tensorir.lifting.accesses.sets import condition_text, conjuncts, decided, domain, integer_set, text
from tensorir.lifting.hazards.touches import Touch, Touches, Visible, first_missing, visible_iterations, written_before
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of, written
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Load,
    Number,
    Op,
    Term,
    always,
    buffers_of,
    index_names,
    loads,
    walk,
)
from tensorir.runtime.errors import NOWHERE, Span

# islpy has no types of its own that say enough.


def with_unseen_checked(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a check before each store that may have no effect, of every index in it that data tell."""
    return tuple(_checked(nodes, (), _Uses(_all(nodes))))


def told_by_data(nodes: Sequence[Node]) -> bool:
    """True if data tell any index of the nodes."""
    for leaf in leaves(nodes):
        stored = leaf.node.indices if isinstance(leaf.node, Store) else ()
        asked = loads(leaf.node.condition) if isinstance(leaf.node, While) else ()
        if any(loads(i) for i in (*stored, *(i for r in (*leaf.reads, *asked) for i in r.indices))):
            return True
        if isinstance(leaf.node, While) and told_by_data(leaf.node.body):
            return True
    return False


def _all(nodes: Sequence[Node]) -> list[Leaf]:
    """The bottom of a tree, that of each `while` in its place."""
    found: list[Leaf] = []
    for leaf in leaves(nodes):
        if isinstance(leaf.node, While):
            found += [Leaf(x.node, (*leaf.loops, *x.loops), (*leaf.place, *x.place)) for x in _all(leaf.node.body)]
        else:
            found.append(leaf)
    return found


def _checked(nodes: Sequence[Node], loops: tuple[Loop, ...], uses: _Uses) -> Iterator[Node]:
    for node in nodes:
        match node:
            case Loop(body=body):
                inner = tuple(_checked(body, (*loops, node), uses))
                yield node if len(inner) == len(body) and all(map(_same, inner, body)) else replace(node, body=inner)
            case While(body=body):
                inner = tuple(_checked(body, loops, uses))
                stores = [leaf.node for leaf in _all(body) if isinstance(leaf.node, Store)]
                again = list(_of_condition(node, loops)) if not any(map(uses.seen, stores)) else []
                yield from (replace(check, guards=(*node.guards, *check.guards)) for check in again)
                yield replace(node, body=(*inner, *again))
            case Store():
                checks = list(_checks(node, loops))
                if checks:
                    seen = uses.seen(node)
                    yield from (check for buffer, check in checks if not seen or buffer in uses.alike)
                yield node
            case _:
                yield node


def _same(a: Node, b: Node) -> bool:
    return a is b


def _checks(node: Store, loops: tuple[Loop, ...]) -> Iterator[tuple[Buffer | None, Check]]:
    """Conditions on the data-dependent indices of a store, and the buffers that these are read from."""
    told: set[tuple[Buffer, tuple[Term, ...]]] = set()
    places: list[tuple[Term, tuple[Term, ...]]] = [(g, node.guards[:k]) for k, g in enumerate(node.guards)]
    places += [(term, node.guards) for term in (node.value, *node.indices)]
    for term, before in places:
        for load, conditions in reads_under(term):
            if (load.buffer, load.indices) not in told:
                told |= {(load.buffer, load.indices)} if not conditions else set()
                same = load.buffer is node.buffer and load.indices == node.indices
                for check in _of(load.buffer, load.indices, loops, (*before, *conditions), load.span):
                    yield None if same else load.buffer, check
    for check in _of(node.buffer, node.indices, loops, node.guards, node.span):
        yield None, check


def _of_condition(node: While, loops: tuple[Loop, ...]) -> Iterator[Check]:
    """Conditions that must hold whenever a condition is evaluated."""
    for load, conditions in reads_under(node.condition):
        yield from _of(load.buffer, load.indices, loops, conditions, load.span)


def _of(
    buffer: Buffer, indices: Sequence[Term], loops: tuple[Loop, ...], guards: tuple[Term, ...], span: Span
) -> Iterator[Check]:
    """Conditions on data-dependent indices."""
    ranges = ranges_of(loops)
    for index, extent in zip(indices, buffer.shape, strict=True):
        if linear(index, ranges) is None:
            message = f"an index leaves the {extent} elements of {buffer.name!r}."
            yield Check(_inside(index, extent), message, guards, span)


def _inside(index: Term, extent: int) -> Term:
    if extent - 1 not in index.element.range:
        index = Op("cast", (index,), INT64)
    bounds = (Op(op, (index, Number(n, index.element)), BOOL) for op, n in (("greater_equal", 0), ("less", extent)))
    return Op("and", tuple(bounds), BOOL)


MOST_STEPS = 8
"""Through how many stores a value is followed."""


@dataclass(frozen=True)
class _Uses:
    """Who writes and who reads each buffer."""

    statements: Sequence[Leaf]

    @cached_property
    def alike(self) -> frozenset[Buffer]:
        """Buffers in which elements are alike along some dim, so that it may not matter which of them is read."""
        return frozenset(
            leaf.node.buffer
            for leaf in self.statements
            if isinstance(leaf.node, Store)
            and not set().union(*map(index_names, leaf.node.indices)) <= index_names(leaf.node.value)
        )

    def seen(self, store: Store, above: frozenset[Store] = frozenset()) -> bool:
        """True if all that a store writes is sure to come to an argument, which the program gives back."""
        here = next(leaf for leaf in self.statements if leaf.node is store)
        if store in above or len(above) == MOST_STEPS:
            return False
        buffer = store.buffer
        over = [w for w in self.statements if buffer.root in {b.root for b in w.written} and not _hands_on(w, buffer)]
        if buffer.argument:
            return not any(_written_over(here, w) for w in over)
        readers = [r for r in self.statements if isinstance(r.node, Store) and buffer in r.read]
        return any(
            here.place < r.place
            and _reads_all(here, r)
            and not any(here.place < w.place < r.place for w in over)
            and isinstance(r.node, Store)
            and self.seen(r.node, above | {store})
            for r in readers
        )


def _hands_on(leaf: Leaf, buffer: Buffer) -> bool:
    """True if a store makes its element of what the element held."""
    node = leaf.node
    if not isinstance(node, Store):
        return False
    return any(isinstance(t, Load) and t.buffer is buffer and t.indices == node.indices for t in walk(node.value))


def _shared(a: Leaf, b: Leaf) -> int:
    """The number of common loops of both."""
    pairs = takewhile(lambda pair: pair[0] is pair[1], zip(a.loops, b.loops, strict=False))
    return len(list(pairs))


def _written_over(a: Leaf, b: Leaf) -> bool:
    """True if `b` may write an element after `a` did."""
    loops = _shared(a, b)
    around = takewhile(lambda pair: pair[0] == pair[1], zip(a.place, b.place, strict=False))
    if not isinstance(a.node, Store) or not isinstance(b.node, Store) or (a is not b and len(list(around)) > loops):
        return True  # a `while` is around both
    first, second = domain(a, ranges_of(a.loops), (), "_a"), domain(b, ranges_of(b.loops), (), "_b")
    names = [*(f"{n}_a" for n in a.names), *(f"{n}_b" for n in b.names)]
    pairs = zip(_sums(a, a.node.indices), _sums(b, b.node.indices), strict=False)
    same = [f"{text(i, first.names)} = {text(j, second.names)}" for i, j in pairs if i is not None and j is not None]
    if a is b and len(same) < len(a.node.indices):
        return False  # what goes to a place that data tell is looked at in every iteration
    every = [*first.constraints, *second.constraints, *same]
    equal = [f"{n}_a = {n}_b" for n in a.names[:loops]]
    orders = [[*equal[:k], f"{n}_a < {n}_b"] for k, n in enumerate(a.names[:loops])]
    orders += [equal] if a.place < b.place else []
    return any(not integer_set(names, [*every, *order]).is_empty() for order in orders)


def _reads_all(w: Leaf, r: Leaf) -> bool:
    """True if a statement reads every element that a store writes, in each iteration of the loops around both."""
    node, reader = w.node, r.node
    assert isinstance(node, Store) and isinstance(reader, Store)
    writing, reading = domain(w, ranges_of(w.loops), (), "_w"), domain(r, ranges_of(r.loops), (), "_r")
    if not reading.exact:
        return False
    elements = [f"e{k}" for k in range(len(node.indices))]
    names = [*(f"{n}_w" for n in w.names), *elements]
    stored = zip(elements, _sums(w, node.indices), strict=True)
    place = [f"{e} = {text(p, writing.names)}" for e, p in stored if p is not None]
    inside = [f"0 <= {e} < {size}" for e, size in zip(elements, node.buffer.shape, strict=True)]
    missing = integer_set(names, [*writing.constraints, *place, *inside])
    together = [f"{n}_w = {n}_r" for n in w.names[: _shared(w, r)]]
    for load in (t for term in (reader.value, *reader.indices) for t in always(term).values()):
        sums = _sums(r, load.indices) if isinstance(load, Load) and load.buffer is node.buffer else [None]
        if None not in sums:
            read = [f"{e} = {text(p, reading.names)}" for e, p in zip(elements, sums, strict=True) if p is not None]
            whole = [*names, *(f"{n}_r" for n in r.names)]
            found = integer_set(whole, [*reading.constraints, *together, *read])
            missing = missing.subtract(found.project_out(isl().dim_type.set, len(names), len(r.names)))
    return bool(missing.is_empty())


def _sums(leaf: Leaf, indices: Sequence[Term]) -> list[Affine | None]:
    ranges = ranges_of(leaf.loops)
    return [linear(i, ranges) for i in indices]


# Arguments that a program fills: nothing that a caller put there is read, or left.
#
# `B[0] = a; for i in range(n - 1): B[i + 1] = ...` fills B, of n elements, though no statement does.


def filled_arguments(nodes: Sequence[Node], touches: Touches, arguments: Iterable[Buffer]) -> frozenset[Buffer]:
    """Those of some arguments whose elements are all written, each before it is read."""
    statements = leaves(nodes)
    return frozenset(b for b in arguments if _is_filled(b, statements, touches))


def is_written_whole(buffer: Buffer, nodes: Sequence[Node], touches: Touches) -> bool:
    """True if every element of a buffer is written in the end, whatever data say."""
    writers = [leaf for leaf in leaves(nodes) if buffer in leaf.written]
    if any(isinstance(leaf.node, External) and not leaf.node.guards for leaf in writers):
        return True  # a function of whole buffers
    seen = [t for leaf in writers for t in touches.of(leaf, "_a")]
    writes = [t for t in seen if t.write and t.exact and t.buffer is buffer]
    return all(_is_written(r, writes) for r in _of_all(buffer, touches))


def _is_filled(buffer: Buffer, statements: Sequence[Leaf], touches: Touches) -> bool:
    around = [leaf for leaf in statements if any(b.root is buffer.root for b in leaf.written | leaf.read)]
    if buffer.memory is not None or not all(_is_plain(leaf, buffer) for leaf in around):
        return False
    seen = [t for leaf in around for t in touches.of(leaf, "_a") if t.buffer is buffer]
    writes = [t for t in seen if t.write and t.exact]
    reads = [*(t for t in seen if not t.write), *_of_all(buffer, touches)]
    return all(_is_written(r, writes) for r in reads)


def _is_plain(leaf: Leaf, buffer: Buffer) -> bool:
    """True if a statement touches the memory of a buffer by its name only, and reads it at sums of indices."""
    others = any(b.root is buffer.root and b is not buffer for b in leaf.written | leaf.read)
    ranges = ranges_of(leaf.loops)
    told = all(linear(i, ranges) is not None for load in leaf.reads if load.buffer is buffer for i in load.indices)
    return isinstance(leaf.node, Store) and not others and told


def _of_all(buffer: Buffer, touches: Touches) -> Iterable[Touch]:
    """A read of every element behind all statements."""
    loops = tuple(Loop(f"place_{k}", Number(0, INT32), Number(n, INT32), ()) for k, n in enumerate(buffer.shape))
    place = tuple(Index(loop.name, INT32) for loop in loops)
    read = Store(Buffer("read", buffer.element, ()), (), Load(buffer, place))
    return [t for t in touches.of(Leaf(read, loops, (1 << 62,)), "_a") if not t.write]


def _is_written(r: Touch, writes: Sequence[Touch]) -> bool:
    """True if all that is read was written before, as far as that can be decided."""
    return first_missing(r, writes) == []


# Reads of the program's own storage of which only data tell whether anything was written there: checked by a flag.
#
# For every element of such a buffer a flag tells whether it has been written; each read asks for it. What is proven
# to be written before it is read, by stores of which no data decide, needs none; most storage is of that kind.


@dataclass(frozen=True, slots=True)
class Doubt:
    """A buffer, and a read of it that may come before any store."""

    buffer: Buffer
    span: Span

    def __str__(self) -> str:
        line = f"line {self.span.line}: " if self.span is not NOWHERE else ""
        what = f"data tell whether {self.buffer.name!r} is written before it is read"
        return f"{line}{what}; a call checks that, and within a trace anything may be read."


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement, and for each `while` around it, from the outside in, how many loops are around that."""

    leaf: Leaf
    whiles: tuple[tuple[While, int], ...]


# Which reads


def doubts_of_reads(nodes: Sequence[Node], touches: Touches) -> list[Doubt]:
    """The buffers of the source of which not every read is proven to find what a store left."""
    users: dict[Buffer, list[_Statement]] = {}
    every = list(_statements(nodes, (), (), ()))
    for s in every:
        for buffer in s.leaf.written | {load.buffer for load in s.leaf.reads}:
            if buffer.declared and buffer.memory is None:
                users.setdefault(buffer, []).append(s)
    visible = cache(lambda: visible_iterations(leaves(nodes), touches))
    found: list[Doubt] = []
    for buffer, statements in users.items():
        if any(isinstance(s.leaf.node, External) for s in statements) or _unwritten_is_plain(
            buffer, statements, touches
        ):
            continue
        for s in statements:
            reads = _reads(s.leaf, buffer, touches)
            if not all(_is_covered(r, s, statements, every, touches, visible) for r in reads):
                span = next(load.span for load in s.leaf.reads if load.buffer is buffer)
                found.append(Doubt(buffer, span))
                break
    return found


def _statements(
    nodes: Sequence[Node], loops: tuple[Loop, ...], place: tuple[int, ...], whiles: tuple[tuple[While, int], ...]
) -> Iterator[_Statement]:
    """The leaves of a tree, in the order of the text; a `while` is its condition, and then its body."""
    for leaf in leaves(nodes, loops, place):
        node = leaf.node
        if isinstance(node, While):
            asked = Check(node.condition, "", node.guards, node.span)
            yield _Statement(Leaf(asked, leaf.loops, leaf.place), whiles)
            yield from _statements(node.body, leaf.loops, leaf.place, (*whiles, (node, len(leaf.loops))))
        else:
            yield _Statement(leaf, whiles)


def _unwritten_is_plain(buffer: Buffer, statements: Sequence[_Statement], touches: Touches) -> bool:
    """True if no data decide over any access of a buffer: then all that is wrong with them is proven."""
    for s in statements:
        here = [t for t in touches.value_by_value(s.leaf, "_a") if t.buffer is buffer]
        known = sum(load.buffer is buffer for load in s.leaf.reads) + (buffer in s.leaf.written) <= len(here)
        if s.whiles or isinstance(s.leaf.node, Check) or not known or not all(t.exact for t in here):
            return False
    return True


def _reads(leaf: Leaf, buffer: Buffer, touches: Touches) -> Iterator[Touch]:
    """The reads of a buffer in a statement: of all of it where no sum says which element."""
    yield from (t for t in touches.of(leaf, "_a") if t.buffer is buffer and not t.write)
    ranges = ranges_of(leaf.loops)
    if any(linear(i, ranges) is None for load in leaf.reads if load.buffer is buffer for i in load.indices):
        loops = tuple(Loop(f"place_{k}", Number(0, INT32), Number(n, INT32), ()) for k, n in enumerate(buffer.shape))
        every = Load(buffer, tuple(Index(loop.name, INT32) for loop in loops))
        read = Store(Buffer("read", buffer.element, ()), (), every, leaf.node.guards)
        yield from (t for t in touches.of(Leaf(read, (*leaf.loops, *loops), leaf.place), "_a") if t.buffer is buffer)


def _is_covered(
    r: Touch, reader: _Statement, statements: Sequence[_Statement], every: Sequence[_Statement], touches: Touches,
    visible: Callable[[], Visible | None],
) -> bool:  # fmt: skip
    """True if all that is read, or may be seen of it where threads have storage of their own, was written before."""
    left = _uncovered(r, reader, statements, every, touches)
    if left is None or left.is_empty():
        return left is not None
    decides = reader.whiles or r.guards < len(r.leaf.node.guards)
    if not r.buffer.private or decides or r.leaf.loops != reader.leaf.loops:
        return False
    seen = visible()
    return seen is not None and bool(left.intersect(seen[r.leaf.place]).is_empty())


def _uncovered(
    r: Touch, reader: _Statement, statements: Sequence[_Statement], every: Sequence[_Statement], touches: Touches
) -> Any | None:
    """The iterations of a read before which nothing is known to be written, whatever data say; None where undecided."""
    left: Any | None = integer_set(r.names, r.constraints)
    for s in statements:
        inside = len(s.whiles)
        if not isinstance(s.leaf.node, Store) or s.whiles != reader.whiles[:inside]:
            continue  # nobody knows how often a `while` runs
        first = s.whiles[-1][1] if s.whiles else 0
        for w in touches.value_by_value(s.leaf, "_a"):
            if not w.write or w.buffer is not r.buffer:
                continue
            if not w.exact:
                if not _holds_with(w, s, r, reader, every):
                    continue
                first = len(s.leaf.loops)  # in the same iteration
            for part in written_before(w, r, first):
                if left is None or left.is_empty():
                    return left
                left = decided(partial(left.subtract, part))
    return left


def _holds_with(w: Touch, writer: _Statement, r: Touch, reader: _Statement, every: Sequence[_Statement]) -> bool:
    """True if the conditions of data under which a store is made are among those of a read in the same iteration."""
    ranges = ranges_of(w.leaf.loops)
    shared = [a for a, _ in takewhile(lambda p: p[0] is p[1], zip(w.leaf.loops, r.leaf.loops, strict=False))]
    stored = {b.root for s in every if _is_between(writer, s, reader, shared) for b in s.leaf.written}
    common = {loop.name for loop in shared}
    around = {part for c in r.conditions for part in conjuncts(c)}
    for guard in w.leaf.node.guards:
        for part in conjuncts(guard):
            if condition_text(settled(part, ranges), w.domain.names) is not None:
                continue
            changes = any(b.root in stored and not b.loops for b in buffers_of(part))
            if part not in around or changes or not index_names(part) <= common:
                return False
    return True


def _is_between(w: _Statement, s: _Statement, r: _Statement, shared: Sequence[Loop]) -> bool:
    """True if a statement may run between two others in one iteration of the loops that these share."""
    if w.leaf.place <= s.leaf.place < r.leaf.place:
        return True
    again = {loop for each in (w, r) for loop in each.leaf.loops if loop not in shared}
    return not again.isdisjoint(s.leaf.loops) or any(one in s.whiles for one in r.whiles[len(w.whiles) :])


# Flags


def with_writes_flagged(nodes: Sequence[Node], doubts: Sequence[Doubt]) -> tuple[Node, ...]:
    """The nodes with a flag per element of doubtful buffers, which stores raise and reads ask for."""
    flags = {d.buffer: replace(d.buffer, element=BOOL) for d in doubts}
    users: dict[Buffer, Leaf] = {}
    for s in _statements(nodes, (), (), ()):
        for buffer in s.leaf.written | {load.buffer for load in s.leaf.reads}:
            users.setdefault(buffer, s.leaf)
    starts = [_start(buffer, flag, users[buffer]) for buffer, flag in flags.items()]
    return tuple(_begun(tuple(_flagged(nodes, flags)), frozenset(), starts)) if flags else tuple(nodes)


@dataclass(frozen=True, slots=True)
class _Start:
    """The statement that clears all flags of a buffer, and the loops each iteration of which allocates it anew."""

    flag: Buffer
    loops: frozenset[str]
    lowered: Node


def _start(buffer: Buffer, flag: Buffer, user: Leaf) -> _Start:
    axes = [f"element_{k}" for k in range(len(flag.shape))]
    node: Node = Store(flag, tuple(Index(a, INT32) for a in axes), Number(False, BOOL), (), flag.span)
    for axis, size in zip(reversed(axes), reversed(flag.shape), strict=True):
        node = Loop(axis, Number(0, INT32), Number(size, INT32), (node,), span=flag.span)
    for loop in reversed(user.loops):
        if loop.name in flag.private and loop.name not in flag.apart:
            node = replace(loop, body=(node,))
    return _Start(flag, frozenset(buffer.apart) & frozenset(user.names), node)


def _begun(nodes: Sequence[Node], around: frozenset[str], starts: Sequence[_Start]) -> Iterator[Node]:
    """The nodes with all flags of a buffer lowered where it is allocated."""
    yield from (s.lowered for s in starts if s.loops <= around)
    rest = [s for s in starts if not s.loops <= around]
    for node in nodes:
        inside = [s for s in rest if isinstance(node, Loop | While) and s.flag in written((node,))]
        match node:
            case Loop(name, body=body) if inside:
                yield replace(node, body=tuple(_begun(body, around | {name}, inside)))
            case While(body=body) if inside:
                yield replace(node, body=tuple(_begun(body, around, inside)))
            case _:
                yield node


def _flagged(nodes: Sequence[Node], flags: Mapping[Buffer, Buffer]) -> Iterator[Node]:
    for node in nodes:
        match node:
            case Loop(body=body):
                yield replace(node, body=tuple(_flagged(body, flags)))
            case While(condition, body, guards, span):
                yield from _asked(((condition, guards), *_of_guards(guards)), span, flags)
                again = _asked(((condition, ()),), span, flags)
                yield replace(node, body=(*_flagged(body, flags), *again))
            case Store(buffer, indices, value, guards, span):
                terms = ((t, guards) for t in (*indices, value))
                yield from _asked((*_of_guards(guards), *terms), span, flags)
                if buffer in flags:
                    # before the store, which may change what its guards read
                    yield Store(flags[buffer], indices, Number(True, BOOL), guards, span)
                yield node
            case Check(condition, _, guards, span):
                yield from _asked((*_of_guards(guards), (condition, guards)), span, flags)
                yield node
            case External():
                yield node


def _of_guards(guards: tuple[Term, ...]) -> Iterator[tuple[Term, tuple[Term, ...]]]:
    yield from ((guard, guards[:k]) for k, guard in enumerate(guards))


def _asked(
    terms: Iterable[tuple[Term, tuple[Term, ...]]], span: Span, flags: Mapping[Buffer, Buffer]
) -> Iterator[Check]:
    """That what terms read, each under conditions, has been written; of one place this is said once."""
    told: set[tuple[Load, tuple[Term, ...]]] = set()
    for term, around in terms:
        for load, conditions in reads_under(term):
            key = load, (*around, *conditions)
            if load.buffer in flags and key not in told:
                told.add(key)
                message = f"an element of {load.buffer.name!r} is read, and nothing has written it."
                place = load.span if load.span is not NOWHERE else span
                yield Check(Load(flags[load.buffer], load.indices, place), message, (*around, *conditions), place)
