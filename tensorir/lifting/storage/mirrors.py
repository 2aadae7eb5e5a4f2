"""Storage that holds parts of other storage, in places that no sum tells: what is read there is read from there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, prod
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, Quotient, Ranges, number, variable
from tensorir.integers.dims import Interval
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.space import Space, hull_of, interval_of, spread_where, substituted, sum_of
from tensorir.lifting.nests.bounded import by_multiple
from tensorir.lifting.nests.linear import affine_of, settled, term_of
from tensorir.lifting.nests.nest import Check, Leaf, Loop, Node, Store, changed, leaves, ranges_of
from tensorir.lifting.nests.terms import (
    Buffer,
    Linear,
    Load,
    Number,
    Op,
    Term,
    buffers_of,
    index_names,
    indexed_by_data,
    loads,
    rebuilt,
    sums_in,
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


def with_multiples(term: Term, wholes: Mapping[str, Affine]) -> Term:
    """A term whose sums hold multiples of others, under names for these."""

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(a, element):
                return Linear(reduce(lambda left, one: by_multiple(left, one[1], one[0]), wholes.items(), a), element)
            case _:
                return None

    return rebuilt(term, rule) if wholes else term


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


# Storage that only hands on goes away, and what every iteration fills anew is stored once.
#
# A buffer of the program's own whose every element has one value is read through: a read of it tells the iteration of
# the store that made the element. Where that copied an element of what never changes, the read is one of that
# element. Where it computed something from `i` and `j + r` only, whatever else its place tells, the buffer gets those
# as coordinates, so that what neighbouring iterations computed twice is computed once.

# Coordinates


def by_what_it_needs(leaf: Leaf, node: Store, space: Space) -> tuple[Node, Load] | None:
    """The store with the sums that its value depends on as coordinates, and a read of it; None where it has them."""
    places = [a.names for t in space.location if (a := affine_of(t)) is not None]
    before = space.dims
    space, told = _in_fewer(replace(space, location=()))
    sums = proportional([space.value, *space.guards], space.dims, not indexed_by_data(space.value))
    if sums is None or len(sums) >= len(before):
        return None
    # in the order in which the place names them, whatever that of the loops is
    sums.sort(key=lambda s: next((k for k, names in enumerate(places) if s.names & names), len(places)))
    names = [f"{node.buffer.name}_{k}" for k in range(len(sums))]
    values: dict[str, Affine] = {}
    box: dict[str, Interval] = {}
    for a, name in zip(sums, names, strict=True):
        spread = a.range(space.ranges)
        if spread is None:
            return None
        box[name] = Interval(spread[0], spread[1] + 1)
        values.update({n: number(0) for n in a.names})
        # the sum stands for the variable that it has once
        if (alone := next((n for n, c in a.terms if isinstance(n, str) and c == 1), None)) is not None:
            values[alone] = variable(name)
    doubled = {n: a for n, a in zip(names, sums, strict=True) if all(abs(c) > 1 for _, c in a.terms)}
    space = replace(space, value=with_multiples(space.value, doubled))
    made = substituted(space, values, box, [with_multiples(g, doubled) for g in space.guards])
    guards: list[Term] = []
    for guard in made.guards:
        inside, left = interval_of(guard, box)
        box, guards = (box if inside is None else inside), [*guards, *([] if left is None else [left])]
    shape = tuple(len(box[n]) for n in names)
    if prod(shape) >= prod(len(i) for i in before.values()):
        return None
    buffer = replace(node.buffer, shape=shape, private=())
    lows = [box[n].start for n in names]
    location = tuple(term_of(variable(n).plus(number(-low)), INT32) for n, low in zip(names, lows, strict=True))
    new: Node = Store(buffer, location, made.value, tuple(guards), node.span)
    for name, low, extent in reversed(list(zip(names, lows, shape, strict=True))):
        span = leaf.loops[0].span
        new = Loop(name, Number(low, INT32), Number(extent, INT32), (new,), True, span, name)
    read = tuple(term_of(a.replaced(told, {}).plus(number(-low)), INT32) for a, low in zip(sums, lows, strict=True))
    return new, Load(buffer, read, node.span)


def _in_fewer(space: Space) -> tuple[Space, dict[str, Affine]]:
    """The space in sums of its variables where value and guards need nothing else of these, and what the sums are.

    What is divided hides it: `w + (w + r) // 2` is `(3 * w + r) // 2`, and needs no more than `3 * w + r`.
    """
    told: dict[str, Affine] = {}
    while (found := _one_fewer(space)) is not None:
        space, name, a = found
        told[name] = a.replaced(told, {})
    return space, told


def _one_fewer(space: Space) -> tuple[Space, str, Affine] | None:
    """The space with a sum in the place of one of its variables, which another variable does not outlive.

    The quotient of a variable stands in the place of one of which nothing else is needed.
    """
    sums = sums_in((space.value, *space.guards)) or ()
    if all(a.is_linear for a in sums):
        return None
    for name, i in space.dims.items():
        if (by := _divisor(name, (space.value, *space.guards))) > 1:
            dims = {**space.dims, name: Interval(i.start // by, (i.stop - 1) // by + 1)}
            new = substituted(space, {name: variable(name).times(by)}, dims, space.guards)
            return new, name, Affine(((Quotient(variable(name), by), 1),))
    for a in sums:
        if len(a.terms) < 2 or not a.names <= space.dims.keys():
            continue
        bare = Affine(a.terms)
        spread = bare.range(space.ranges) if a.is_linear else spread_where(bare, space.guards, space.ranges)
        name = a.bare_name
        if name is None or a.coefficient(name) != 1 or spread is None:
            continue
        value = variable(name).times(2).minus(bare)
        new = substituted(space, {name: value}, {**space.dims, name: Interval(spread[0], spread[1] + 1)}, space.guards)
        outlived = a.names - {name}
        if not a.is_linear and not indexed_by_data(new.value):
            # what is never read may hold anything, if only it can be computed
            new = replace(new, guards=tuple(g for g in new.guards if not index_names(g) & outlived))
        needed = set[str]().union(*map(index_names, (new.value, *new.guards)))
        if not outlived & needed:
            return replace(new, dims={n: i for n, i in new.dims.items() if n in needed or n not in a.names}), name, bare
    return None


def _divisor(name: str, terms: Sequence[Term]) -> int:
    """By what a variable is divided wherever it stands; 0 where it stands for itself, or in other sums."""
    found = 0
    pending = [t.affine for term in terms for t in walk(term) if isinstance(t, Linear)]
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case Quotient(inner, by) if inner == variable(name):
                    found = gcd(found, by)
                case Quotient(inner):
                    pending.append(inner)
                case _ if atom == name:
                    return 0
                case _:
                    pass
    return found


def proportional(terms: Sequence[Term], dims: Collection[str], gaps: bool) -> list[Affine] | None:
    """The sums of variables that terms need: variables whose coefficients have one ratio everywhere are in one sum.

    One of several variables counts the elements in between as well where terms need every other one, if there may be
    `gaps`: a window of every other element is one of all, some of which nobody reads.

    None where terms hold variables that are in no normal form, or a sum that has no variable once.
    """
    sums = sums_in(terms)
    if sums is None:
        return None
    ratios: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for n in dims:
        coefficients = [a.coefficient(n) for a in sums]
        factor = gcd(*coefficients)
        if factor:
            first = next(c for c in coefficients if c)
            factor = factor if first > 0 else -factor
            ratios.setdefault(tuple(c // factor for c in coefficients), []).append((n, factor))
    found: list[Affine] = []
    for members in ratios.values():
        common = gcd(*(c for _, c in members))
        a = Affine(tuple((n, c // common) for n, c in members))
        if not any(c == 1 for _, c in a.terms):
            return None
        found.append(a.times(2) if gaps and common == 2 and len(members) > 1 else a)
    return found


# Replacing

# Storage that holds parts of other storage, in places that no sum tells: what is read there is read from there.
#
# `S[q(t)] = A[p(t)]` makes what is read of S an element of A, and where it is the one at `y + o`, whatever iteration
# t stored it, it is read there. A tile that begins and ends within rows, in shared memory, is of another size in
# every block, and no sum says which elements it holds: these are counted, block by block. What tiles hold of
# something that is computed is computed once for all of them, and read from there.


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
        found = _source(leaf, node)
        if found is None:
            continue
        first, source = found
        if (instead := _instead(source, leaf, readers)) is not None:
            return _with(nodes, node, leaf.place[0], first, instead)
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


def _source(leaf: Leaf, node: Store) -> tuple[tuple[Node, ...], Load] | None:
    """A source of a statement's elements, in each of its iterations, and the statements that fill it before.

    None where that is nothing else, or where sums say all of it.
    """
    ranges = ranges_of(leaf.loops)
    stored = tuple(settled(i, ranges) for i in node.indices)
    sums = [affine_of(i) for i in stored]
    gaps = any(a is not None and _has_gaps(a, ranges) for a in sums)
    match node.value:
        case Load(_, indices) if not any(loads(i) for i in indices):
            places = [*sums, *(affine_of(settled(i, ranges)) for i in indices)]
            told = not gaps and all(a is not None and a.is_linear for a in places)
            return None if told else ((), node.value)
        case _ if not gaps and None not in sums:
            return None
        case _:
            dims, guards = hull_of(leaf.loops, ranges)
            held = tuple(settled(g, ranges) for g in (*guards, *node.guards))
            made = by_what_it_needs(leaf, node, Space(dims, stored, settled(node.value, ranges), held))
            return None if made is None else ((made[0],), made[1])


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
        found = stored_with(source.indices, w, x, load) or _row_by_row(source, w, x, load)
        if found is None:
            return None
        instead[x.node, load] = Load(source.buffer, found, load.span)
    return instead


def _row_by_row(source: Load, w: Leaf, x: Leaf, load: Load) -> tuple[Term, ...] | None:
    """The indices of what is read instead, where its place row by row is a sum and they are none by themselves."""
    shape = source.buffer.shape
    if len(shape) < 2:
        return None
    place: Term = source.indices[0]
    for index, extent in zip(source.indices[1:], shape[1:], strict=True):
        place = Op("plus", (Op("multiplies", (place, Number(extent, INT32)), INT32), index), INT32)
    found = stored_with((place,), w, x, load)
    if found is None:
        return None
    (rest,), indices = found, list[Term]()
    for extent in reversed(shape[1:]):
        size = Number(extent, INT32)
        indices.append(Op("mod", (rest, size), INT32))
        rest = Op("floordiv", (rest, size), INT32)
    ranges = ranges_of(x.loops)
    return tuple(settled(i, ranges) for i in (rest, *reversed(indices)))


def _with(
    nodes: Sequence[Node], gone: Store, at: int, first: Sequence[Node], read: Mapping[tuple[Node, Load], Load]
) -> tuple[Node, ...]:
    """The nodes without a statement, with others in front of one of them, and other reads."""

    def inner(n: Node) -> Node:
        def over(t: Term) -> Term:
            return rebuilt(t, lambda x: read.get((n, x)) if isinstance(x, Load) else None)

        return changed(n, over, inner, lambda b: b, lambda b: ())

    found: list[Node] = []
    for k, node in enumerate(nodes):
        found += first if k == at else ()
        found += [] if (kept := without(node, (gone,))) is None else [inner(kept)]
    return tuple(found)
