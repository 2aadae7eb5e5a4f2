"""Statements that are one: the same store on adjacent boxes of iterations is one store on their union.

A loop that was cut into parts (its first iterations, its body, its rest) leaves one statement per part, or one
recurrence. Two of them join where their boxes differ in one dim, in which they are adjacent, and no statement has to
run between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

from tensorir.lifting.accesses.components import components
from tensorir.lifting.accesses.dependence import Dependence, common_loops, dependences, touch
from tensorir.lifting.nests.nest import Leaf, Store
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.storage.parts import Part, one_of_both, part_of, recurrence_of

__all__ = ["joined"]

Members = tuple[int, ...]
"""Statements by position."""


def joined(statements: Sequence[Leaf], found: Sequence[Dependence]) -> tuple[list[Leaf], list[Dependence]]:
    """The statements with parts of one joined, and the dependences between them."""
    statements, found = list(statements), list(found)
    while True:
        pair = _pair(statements, found)
        if pair is None:
            return statements, found
        statements, found = _with(statements, found, *pair)


def _with(
    statements: list[Leaf], found: list[Dependence], old: Members, new: list[Leaf]
) -> tuple[list[Leaf], list[Dependence]]:
    """The statements with new ones where the first of the old ones stands."""
    at, *_ = old
    others = [k for k in range(len(statements)) if k not in old]
    place = {k: n + len(new) * (k > at) for n, k in enumerate(others)}

    def ends(k: int, buffer: Buffer, writes: bool) -> list[int]:
        if k in place:
            return [place[k]]
        return [at + n for n, leaf in enumerate(new) if buffer in (leaf.written if writes else leaf.read)]

    kept = dict.fromkeys(
        replace(d, source=source, sink=sink)
        for d in found
        if {d.source, d.sink} <= place.keys()
        or (not {d.source, d.sink} <= set(old) and _meet(statements[d.source], statements[d.sink]))
        for source in ends(d.source, d.buffer, d.kind != "anti")
        for sink in ends(d.sink, d.buffer, d.kind != "flow")
    )
    within = (replace(d, source=at + d.source, sink=at + d.sink) for d in dependences(new, (), {}))
    made = [*(statements[k] for k in others if k < at), *new, *(statements[k] for k in others if k > at)]
    return made, _without_circles(made, [*kept, *within])


def _without_circles(statements: Sequence[Leaf], found: Sequence[Dependence]) -> list[Dependence]:
    """The dependences, of those that close a circle only the ones between statements that meet."""
    parts = components(len(statements), {(d.source, d.sink) for d in found})
    part = {k: n for n, members in enumerate(parts) for k in members}
    return [
        d
        for d in found
        if d.source == d.sink or part[d.source] != part[d.sink] or _meet(statements[d.source], statements[d.sink])
    ]


def _meet(a: Leaf, b: Leaf) -> bool:
    """Whether a dependence between two statements is one: those that share no loop are taken to have one."""
    return common_loops(a, b) > 0 or touch(a, b)


def _pair(statements: Sequence[Leaf], found: Sequence[Dependence]) -> tuple[Members, list[Leaf]] | None:
    """Statements of two parts that join, and what they become."""
    edges = {(d.source, d.sink) for d in found}
    several = [group for group in _alike(statements, found, edges) if len(group) > 1]
    if not several:
        return None

    @cache
    def meet(a: int, b: int) -> bool:
        return _meet(statements[a], statements[b])

    for group in several:
        parts = {m: part for m in group if (part := _part(statements, m, edges)) is not None}
        for a, b in combinations(parts, 2):
            new = one_of_both(parts[a], parts[b])
            if new is not None:
                direct = parts[a].kind is not None
                if not _between(a, b, edges, meet, direct) and not _between(b, a, edges, meet, False):
                    return tuple(sorted((*a, *b))), new
    return None


def _alike(statements: Sequence[Leaf], found: Sequence[Dependence], edges: set[tuple[int, int]]) -> list[list[Members]]:
    """Statements that wait for no other one, and recurrences, by what they write."""
    # what is kept for one iteration ties a statement to those that read it
    ties = {(d.sink, d.source) for d in found if d.kind == "flow" and d.buffer.loops}
    alone = [m for m in components(len(statements), edges) if len(m) == 1]
    together = [m for m in components(len(statements), edges | ties) if len(m) > 1]
    groups: dict[frozenset[Buffer], list[Members]] = {}
    for members in sorted((*alone, *together)):
        leaves = [statements[k] for k in members]
        if all(isinstance(leaf.node, Store) and leaf.loops for leaf in leaves):
            written = {b for leaf in leaves for b in leaf.written}
            lasting = frozenset(b for b in written if not b.loops)
            groups.setdefault(lasting or frozenset(written), []).append(tuple(members))
    return list(groups.values())


def _part(statements: Sequence[Leaf], members: Members, edges: set[tuple[int, int]]) -> Part | None:
    if len(members) == 1:
        (k,) = members
        return part_of(statements[k], (k, k) in edges)
    leaves = [statements[k] for k in members]
    others = {b for k, leaf in enumerate(statements) if k not in members for b in leaf.read | leaf.written}
    return recurrence_of(leaves, {b for leaf in leaves for b in leaf.written if b.copies} - others)


def _between(
    a: Members, b: Members, edges: set[tuple[int, int]], meet: Callable[[int, int], bool], direct: bool
) -> bool:
    """Whether something must run after a and before b; `direct` allows that b itself must run after a."""
    pending, seen = list(a), set(a)
    while pending:
        k = pending.pop()
        for s, t in edges:
            if s != k or t in seen or (direct and s in a and t in b) or not meet(s, t):
                continue
            if t in b:
                return True
            seen.add(t)
            pending.append(t)
    return False
