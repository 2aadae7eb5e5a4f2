"""States of a loop that runs step by step, kept for each of its iterations: what only reads them runs all at once.

    for t in range(n):                                 for t in range(n):
        m = max(m, x[t])                       →           m = max(m, x[t]); after[t] = m
        for i in range(k): y[t, i] = f(y[t, i], m)     y[t, i] = f(y[t, i], after[t])

The statements of a cycle of flow, with those that they read from, stay in the loop. The others are in one component
with them only because a later iteration writes over what they read; they read what was kept. That pays where what is
kept is less than what they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tensorir.ir.types import INT32
from tensorir.lifting.accesses.components import components
from tensorir.lifting.accesses.dependence import Dependence
from tensorir.lifting.nests.linear import Ranges, linear
from tensorir.lifting.nests.nest import Leaf, Loop, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, buffers_of, rebuilt

__all__ = ["with_histories"]

LEAST_SAVING = 4
"""How many iterations leave the loop, at least, for each element that is kept."""

MOST_ELEMENTS = 1 << 26
"""Nothing is kept that has more elements."""


def with_histories(
    members: Sequence[Leaf], found: Sequence[Dependence], depth: int, outer: Ranges
) -> tuple[list[Leaf], list[Leaf]] | None:
    """The statements that a loop hands its states on by, and those that only read these; None where all belong to it.

    `found` are the dependences among the members, `depth` is the level of the loop around all of them.
    """
    if not all(isinstance(m.node, Store) and not m.node.atomic for m in members):
        return None
    core = _core(len(members), found, depth)
    rest = [k for k in range(len(members)) if k not in core]
    if not core or not rest:
        return None
    kept: dict[tuple[Buffer, bool], _Kept] = {}
    for buffer in {d.buffer: None for d in found if d.kind == "anti" and d.source not in core and d.sink in core}:
        writers = [k for k in sorted(core) if buffer in members[k].written]
        if len(writers) != 1:
            return None
        for k in rest:
            if buffer in members[k].read:
                before = k < writers[0]
                made = kept.get((buffer, before)) or _kept(members[writers[0]], depth, outer, before)
                if made is None or not made.covers(members[k], depth, outer):
                    return None
                kept[buffer, before] = made
    cost = sum(_iterations(made.leaf, outer) for made in kept.values())
    if cost * LEAST_SAVING > max(_iterations(members[k], outer) for k in rest):
        return None
    inside: list[Leaf] = []
    for k in sorted(core):
        own = [(before, made.leaf) for (buffer, before), made in kept.items() if buffer in members[k].written]
        inside += [*(leaf for before, leaf in own if before), members[k], *(leaf for before, leaf in own if not before)]
    written = {buffer: k for buffer, _ in kept for k in core if buffer in members[k].written}
    loop, outside = members[0].loops[depth], list[Leaf]()
    for k in rest:
        read = members[k].read & written.keys()
        outside.append(_reading(members[k], {b: kept[b, k < written[b]] for b in read}, loop))
    return inside, outside


def _core(count: int, found: Sequence[Dependence], depth: int) -> set[int]:
    """The statements in cycles of what is handed on, and all that these depend on."""
    edges = {(d.source, d.sink) for d in found if d.kind != "anti"}
    carried = {d.source for d in found if d.kind != "anti" and d.source == d.sink and depth in d.levels}
    core = {k for part in components(count, edges) if len(part) > 1 or part[0] in carried for k in part}
    before: dict[int, list[int]] = {}
    for source, sink in edges:
        before.setdefault(sink, []).append(source)
    pending = list(core)
    while pending:
        for k in before.get(pending.pop(), ()):
            if k not in core:
                core.add(k)
                pending.append(k)
    return core


class _Kept:
    """What a buffer holds in each iteration of a loop, before or after its one writer: a buffer, and who fills it."""

    def __init__(self, buffer: Buffer, leaf: Leaf, writer: Store, low: int) -> None:
        self.buffer, self.leaf, self.writer, self.low = buffer, leaf, writer, low

    def covers(self, reader: Leaf, depth: int, outer: Ranges) -> bool:
        """Whether a statement reads, in each iteration, only what was kept in it."""
        shared = reader.names[: depth + 1]
        if any(self.writer.buffer in buffers_of(t) for loop in reader.loops for t in (loop.low, loop.extent)):
            return False
        here, there = ranges_of(reader.loops, outer), ranges_of(self.leaf.loops, outer)
        for load in reader.reads:
            if load.buffer is not self.writer.buffer:
                continue
            for read, write in zip(load.indices, self.writer.indices, strict=True):
                a, b = linear(read, here), linear(write, there)
                if a is None or b is None:
                    return False
                if not b.names.isdisjoint(shared):
                    if a != b:
                        return False
                    continue
                x, y = a.range(here), b.range(there)
                if x is None or y is None or not y[0] <= x[0] <= x[1] <= y[1]:
                    return False
        return True


def _kept(writer: Leaf, depth: int, outer: Ranges, before: bool) -> _Kept | None:
    """A buffer for each iteration's contents of what a statement writes; None where it does not write a whole box."""
    node, shared = writer.node, writer.loops[: depth + 1]
    assert isinstance(node, Store)
    if node.guards:
        return None
    loop, ranges = shared[-1], ranges_of(writer.loops, outer)
    places = [linear(index, ranges) for index in node.indices]
    terms = [term for place in places if place is not None for term in place.terms]
    used = [name for name, _ in terms]
    if None in places or any(abs(c) != 1 for _, c in terms) or len(set(used)) != len(used):
        return None
    if any(place is not None and (len(place.terms) > 1 or not place.is_linear) for place in places):
        return None
    inner = [loop for loop in writer.loops[depth + 1 :] if loop.name in used]
    bounds = [linear(t, ranges) for x in inner for t in (x.low, x.extent)]
    if not all(b is not None and b.is_number for b in bounds):
        return None
    low, high = ranges[loop.name]
    shape = (high - low + 1, *node.buffer.shape)
    if prod(shape) > MOST_ELEMENTS:
        return None
    made = Buffer(f"{node.buffer.name}_{'before' if before else 'after'}", node.buffer.element, shape, span=node.span)
    store = Store(made, (_round(loop, low), *node.indices), Load(node.buffer, node.indices, node.span), (), node.span)
    return _Kept(made, Leaf(store, (*shared, *inner), writer.place), node, low)


def _round(loop: Loop, low: int) -> Term:
    """The number of an iteration, from 0."""
    index = Index(loop.name, INT32)
    return Op("minus", (index, Number(low, INT32)), INT32) if low else index


def _reading(leaf: Leaf, kept: dict[Buffer, _Kept], loop: Loop) -> Leaf:
    """A statement that reads what was kept."""
    node = leaf.node
    assert isinstance(node, Store)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and (found := kept.get(t.buffer)) is not None:
            return Load(found.buffer, (_round(loop, found.low), *t.indices), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    indices, guards = tuple(map(over, node.indices)), tuple(map(over, node.guards))
    return Leaf(replace(node, indices=indices, value=over(node.value), guards=guards), leaf.loops, leaf.place)


def _iterations(leaf: Leaf, outer: Ranges) -> int:
    ranges = ranges_of(leaf.loops, outer)
    return prod(high - low + 1 for low, high in (ranges[n] for n in leaf.names))
