"""Storage that holds parts of other storage, in places that no sum tells: what is read there is read from there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, Quotient, Ranges, variable
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.space import hull_of, sum_of
from tensorir.lifting.nests.linear import affine_of, settled
from tensorir.lifting.nests.nest import Check, Leaf, Loop, Node, Store, changed, leaves, ranges_of
from tensorir.lifting.nests.terms import (
    Buffer,
    Linear,
    Load,
    Op,
    Term,
    buffers_of,
    index_names,
    loads,
    rebuilt,
    values,
    walk,
)
from tensorir.lifting.nests.unknowns import Parts

# What passes over storage have in common: which is the program's own, sums in terms of others, nodes left out.


def own(statements: Sequence[Leaf]) -> set[Buffer]:
    """The storage of a program's own that has no copies for iterations yet, and no other names."""
    every = {b for leaf in statements for b in leaf.written | leaf.read}
    named = {b.memory for b in every}
    plain = (b for b in every if not (b.argument or b.loops or b.copies or b.memory) and b.value is None)
    return {b for b in plain if b not in named}


def without(node: Node, gone: Collection[Store]) -> Node | None:
    """A node without some stores; None where nothing is left."""
    if isinstance(node, Loop):
        body = tuple(kept for inner in node.body if (kept := without(inner, gone)) is not None)
        return replace(node, body=body) if body else None
    return None if isinstance(node, Store) and node in gone else node


# What was stored where something is read, told by counting: no sum says which iteration filled a place.
#
# A tile that is filled as `S[t // w, t % w]`, where its width `w` differs from block to block, is read at `S[y, x]`:
# each place of each copy is looked up, and the iteration that filled it. Where terms of that store, such as the place
# that it copied from, are sums of the reader's variables in every iteration that reads, the reader can say what they
# are.


MOST_COUNTED = 1 << 18
"""How many iterations of a statement, and how many elements of all copies of a buffer, are looked at one by one."""
MOST_VISITED = 1 << 10
"""In how many parts of a statement, each under conditions of its own, a read is searched for."""


def stored_with(wanted: Sequence[Term], w: Leaf, r: Leaf, load: Load) -> tuple[Term, ...] | None:
    """Terms of a store at the time it filled the element that is read, in the same iteration of the loops around both.

    None where they are no sums of what the reader counts, and of what its indices are sums of, where it may read what
    was not filled, or where iterations that ran between the two may have filled it otherwise. The store runs before the
    reader, and no guard of it reads.
    """
    assert isinstance(w.node, Store)
    buffer, told = w.node.buffer, len(load.indices)
    common = [x for x, y in zip(w.loops, r.loops, strict=False) if x is y]
    if any(x is not y for x, y in zip(common, w.loops, strict=False)):
        return None
    filled = _points(w, (*w.node.indices, *wanted), ((),))
    if filled is None:
        return None
    there, here = ranges_of(w.loops), ranges_of(r.loops)
    names = dict.fromkeys((*(x.name for x in common), *buffer.private))
    if any(n not in there or there[n] != here.get(n) for n in names):
        return None
    # what the store does not depend on is the same in all copies
    copies = {n: there[n] for n in names if n in filled.variables}
    parts = Parts(dict(ranges_of(r.loops)))
    columns = _columns(wanted, w, r, load, copies, parts)
    every = list(dict.fromkeys(a for way in columns for a in way))
    needed = _points(r, (*load.indices, *(parts.term_of(a, INT64) for a in every)), _ways(r, load))
    if needed is None:
        return None
    found = _filling(filled, needed, copies, buffer.shape)
    # iterations in lockstep fill before any of them reads
    together = {x.name for x in common if x.lockstep and x.name not in buffer.private}
    last = _filling(filled, filled, {n: s for n, s in copies.items() if n not in together}, buffer.shape)
    if found is None or last is None:
        return None
    had, counted = filled.terms[told:], dict(zip(every, needed.terms[told:], strict=True))
    if any((h != h[last]).any() for h in had):
        return None
    sums = [s for h in had if (s := _simplest(h[found], columns, counted)) is not None]
    return tuple(settled(parts.term_of(s, INT32), here) for s in sums) if len(sums) == len(had) else None


@dataclass(frozen=True, slots=True)
class _Points:
    """Values of a statement's variables, and of some terms, in its iterations, one after the other."""

    variables: Mapping[str, Any]
    terms: tuple[Any, ...]


def _points(leaf: Leaf, terms: Sequence[Term], ways: Sequence[Sequence[Term]]) -> _Points | None:
    """The iterations in which conditions hold, in one of some ways; None where data tell, or there are too many."""
    dims, guards = hull_of(leaf.loops, ranges_of(leaf.loops))
    always = [g for g in (*guards, *leaf.node.guards) if not loads(g)]
    chosen = [[c for c in way if not loads(c)] for way in ways]
    used = set[str]().union(*map(index_names, (*always, *terms, *(c for way in chosen for c in way))))
    spans = [(n, i) for n, i in dims.items() if n in used]
    sizes = tuple(len(i) for _, i in spans)
    if not all(dims.values()) or not used <= dims.keys() or prod(sizes) > MOST_COUNTED:
        return None
    axes = np.ix_(*(np.arange(i.start, i.stop) for _, i in spans))
    grid = {n: np.broadcast_to(a, sizes) for (n, _), a in zip(spans, axes, strict=True)}
    held, known, *some = (_counted(each, grid, sizes) for each in (always, terms, *chosen))
    if held is None or known is None:
        return None
    everywhere = np.ones(sizes, bool)
    in_some = [np.logical_and.reduce([everywhere, *(way or ())]) for way in some]
    at = np.logical_and.reduce([np.logical_or.reduce(in_some), *held])
    return _Points({n: a[at] for n, a in grid.items()}, tuple(k[at].astype(np.int64) for k in known))


def _counted(terms: Sequence[Term], grid: Mapping[str, Any], sizes: tuple[int, ...]) -> list[Any] | None:
    """Terms at every point of a grid; None where data tell one."""
    found = [values(t, grid) for t in terms]
    return None if any(f is None for f in found) else [np.broadcast_to(f, sizes) for f in found if f is not None]


def _filling(
    filled: _Points, needed: _Points, copies: Mapping[str, tuple[int, int]], shape: Sequence[int]
) -> Any | None:
    """The last iteration that filled the place of each that needs one; None where one has none."""
    sizes = (*(high - low + 1 for low, high in copies.values()), *shape)
    if prod(sizes) > MOST_COUNTED:
        return None
    places: list[tuple[Any, ...]] = []
    for p in (filled, needed):
        copy = (p.variables[n] - low for n, (low, _) in copies.items())
        place = (*copy, *p.terms[: len(shape)])
        if any(a.size and not 0 <= a.min() <= a.max() < size for a, size in zip(place, sizes, strict=True)):
            return None
        places.append(place)
    last = np.full(sizes, -1)
    last[places[0]] = np.arange(len(places[0][0]))
    found = last[places[1]]
    return None if (found < 0).any() else found


def _ways(r: Leaf, load: Load) -> tuple[tuple[Term, ...], ...]:
    """The conditions of choices under which a statement reads something, for each of the reads."""
    match r.node:
        case Store(_, indices, value, guards):
            terms = (*indices, value, *guards)
        case Check(condition, _, guards):
            terms = (condition, *guards)
        case node:
            terms = node.guards
    pending: list[tuple[Term, tuple[Term, ...]]] = [(t, ()) for t in terms]
    found: dict[tuple[Term, ...], None] = {}
    seen = set[tuple[int, tuple[Term, ...]]]()
    while pending:
        term, way = pending.pop()
        if (id(term), way) in seen:
            continue
        seen.add((id(term), way))
        if len(seen) > MOST_VISITED:
            return ((),)
        match term:
            case Load(_, indices):
                found |= {way: None} if term == load else {}
                pending += [(i, way) for i in indices]
            case Op("if", (condition, a, b)):
                other = Op("not", (condition,), BOOL)
                pending += [(condition, way), (a, (*way, condition)), (b, (*way, other))]
            case Op(_, args):
                pending += [(t, way) for t in args]
            case _:
                pass
    return tuple(found)


def _simplest(value: Any, ways: Sequence[Sequence[Affine]], counted: Mapping[Affine, Any]) -> Affine | None:
    """A value as the sum, in one of some ways, that divides least often; None where it is none in any."""
    sums = [s for way in ways if (s := sum_of(value, {a: counted[a] for a in way})) is not None]
    return min(sums, key=_divisions, default=None)


def _divisions(a: Affine) -> int:
    return sum(1 + _divisions(atom.inner) for atom, _ in a.terms if isinstance(atom, Quotient))


def _columns(
    wanted: Sequence[Term], w: Leaf, r: Leaf, load: Load, copies: Mapping[str, Any], parts: Parts
) -> list[list[Affine]]:
    """Columns that sums may be combined of, in several ways.

    Quotients in the statement of the variables that tell the indices, and these; the indices before that; what indices
    that are no sums are made of; what the store divides of the variables of the loops around both.
    """
    ranges, there = ranges_of(r.loops), ranges_of(w.loops)
    names = {*copies, *(n for i in load.indices for n in index_names(i))}
    indices = [a for i in load.indices if (a := parts.sum_of(settled(i, ranges))) is not None and a.names]
    stored = r.node.indices if isinstance(r.node, Store) else ()

    def divided(terms: Iterable[Term], ranges: Ranges, names: Set[str]) -> list[Affine]:
        sums = (t.affine for term in terms for t in walk(settled(term, ranges)) if isinstance(t, Linear))
        return [a for s in sums for t, _ in s.terms if (a := Affine(((t, 1),))).names <= names]

    own = [*divided((*stored, *load.indices, *r.node.guards), ranges, names), *map(variable, sorted(names))]
    told = [*indices, *own]
    more = [*told, *(Affine(((t, 1),)) for a in indices for t, _ in a.terms)]
    every = [*more, *divided(wanted, there, copies.keys())]
    # of columns that are sums of each other where the statement reads, the first ones tell the sum: or each alone
    ways = own, told, more, every, *([a] for a in every)
    return [list(dict.fromkeys(way)) for way in ways]


# Storage that holds parts of other storage, in places that no sum tells: what is read there is read from there.
#
# `S[q(t)] = A[p(t)]` makes what is read of S an element of A, and where it is the one at `y + o`, whatever iteration
# t stored it, it is read there. A tile that begins and ends within rows, in shared memory, is of another size in
# every block, and no sum says which elements it holds: these are counted, block by block.


def read_through(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes without storage of which it is counted what it holds of other storage."""
    nodes = tuple(nodes)
    while (new := _without_one(nodes)) is not None:
        nodes = new
    return nodes


def _without_one(nodes: tuple[Node, ...]) -> tuple[Node, ...] | None:
    """The nodes without one such storage; None where there is none."""
    statements = leaves(nodes)
    touching: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written | leaf.read:
            touching.setdefault(buffer, []).append(leaf)
    bounding = {b for leaf in statements for x in leaf.loops for b in buffers_of(x.low) | buffers_of(x.extent)}
    mine = own(statements) - bounding
    for leaf in statements:
        node = leaf.node
        if not isinstance(node, Store) or node.buffer not in mine or not _may_move(leaf, node, statements):
            continue
        readers = [x for x in touching[node.buffer] if x is not leaf]
        if not all(_only_reads(x, node.buffer) and leaf.place < x.place for x in readers):
            continue
        source = _source(leaf, node)
        if source is not None and (instead := _instead(source, leaf, readers)) is not None:
            return _with(nodes, node, instead)
    return None


def _only_reads(leaf: Leaf, buffer: Buffer) -> bool:
    return isinstance(leaf.node, Store | Check) and buffer not in leaf.written


def _may_move(leaf: Leaf, node: Store, statements: Sequence[Leaf]) -> bool:
    """True if a statement stores the same if it runs before the outermost loop around it."""
    if node.atomic or node.buffer in leaf.read or any(loads(t) for t in (*node.indices, *node.guards)):
        return False
    inside = {b.root for b in leaf.read}
    return not any(b.private or b.loops for b in leaf.read) and not any(
        x.place[0] >= leaf.place[0] and any(b.root in inside for b in x.written) for x in statements
    )


def _source(leaf: Leaf, node: Store) -> Load | None:
    """The element that a statement copies in each of its iterations; None where it does not, or sums say all of it."""
    ranges = ranges_of(leaf.loops)
    sums = [affine_of(settled(i, ranges)) for i in node.indices]
    gaps = any(a is not None and _has_gaps(a, ranges) for a in sums)
    match node.value:
        case Load(_, indices) if not any(loads(i) for i in indices):
            places = [*sums, *(affine_of(settled(i, ranges)) for i in indices)]
            told = not gaps and all(a is not None and a.is_linear for a in places)
            return None if told else node.value
        case _:
            return None


def _has_gaps(index: Affine, ranges: Ranges) -> bool:
    """True if a sum leaves out numbers between those that it is: `6 × i + j` where j is below 5."""
    reach = 0
    for atom, factor in sorted(index.terms, key=lambda t: abs(t[1])):
        low, high = ranges[atom] if isinstance(atom, str) else (0, 1)
        if high > low and abs(factor) > reach + 1:
            return True
        reach += abs(factor) * (high - low)
    return False


def _instead(source: Load, w: Leaf, readers: Sequence[Leaf]) -> dict[tuple[Node, Load], Load] | None:
    """The reads in the place of those of a statement's stores; None if one of them has no such source."""
    assert isinstance(w.node, Store)
    # a statement may read one place many times
    places = {(x, t): t for x in readers for t in x.reads if t.buffer is w.node.buffer}
    instead: dict[tuple[Node, Load], Load] = {}
    for (x, _), load in places.items():
        if any(loads(i) for i in load.indices):
            return None
        found = stored_with(source.indices, w, x, load)
        if found is None:
            return None
        instead[x.node, load] = Load(source.buffer, found, load.span)
    return instead


def _with(nodes: Sequence[Node], gone: Store, read: Mapping[tuple[Node, Load], Load]) -> tuple[Node, ...]:
    """The nodes without a statement, and with other reads."""

    def inner(n: Node) -> Node:
        def over(t: Term) -> Term:
            return rebuilt(t, lambda x: read.get((n, x)) if isinstance(x, Load) else None)

        return changed(n, over, inner, lambda b: b, lambda b: ())

    return tuple(inner(kept) for node in nodes if (kept := without(node, (gone,))) is not None)
