"""Dependences: which statement must run before which, and which loop carries it.

Two accesses of one buffer, one of which writes, make a dependence wherever two iterations touch one element; it is
carried by the outermost loop in which the iterations differ. Elements are decided exactly for indices that are sums,
quotients and remainders of loop variables; an index that depends on data may be any.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.overlap import NOWHERE, Box, Overlap, box_of, overlap
from tensorir.lifting.accesses.sets import domain, integer_set, same_element
from tensorir.lifting.nests.linear import Ranges, linear
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Store, While, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Term

__all__ = [
    "INDEPENDENT",
    "LOCKSTEP",
    "Access",
    "Dependence",
    "accesses",
    "apart",
    "common_loops",
    "dependences",
    "touch",
]

INDEPENDENT = -1
"""The level of a dependence inside of one iteration of all common loops."""

LOCKSTEP = "lockstep"
"""The kind of what would be a dependence of a statement on itself, if its iterations did not run in lockstep."""


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write: the buffer, and its indices where they are sums (None: any element)."""

    buffer: Buffer
    indices: tuple[Affine | None, ...] | None
    write: bool
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class Dependence:
    """`sink` must run after `source`: by position, the kinds of access, and the levels of the loops that carry it."""

    source: int
    sink: int
    kind: str
    buffer: Buffer
    levels: frozenset[int]


def accesses(leaf: Leaf, ranges: Ranges) -> list[Access]:
    """What a leaf touches."""
    found: list[Access] = []
    node = leaf.node
    memo: dict[int, Term] = {}  # its reads share most of their indices
    match node:
        case Store(buffer, indices):
            found.append(Access(buffer, tuple(linear(i, ranges, memo) for i in indices), True))
        case While() | External():
            found += [Access(b, None, True) for b in sorted(leaf.written, key=lambda b: b.name)]
            found += [Access(b, None, False) for b in sorted(leaf.read, key=lambda b: b.name)]
        case Check():
            pass
    found += [Access(r.buffer, tuple(linear(i, ranges, memo) for i in r.indices), False, r) for r in leaf.reads]
    return found


def common_loops(a: Leaf, b: Leaf) -> int:
    """How many loops two leaves share, from the outside in."""
    count = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        count += 1
    return count


def dependences(
    leaves: Sequence[Leaf], outer: Sequence[Loop], outer_ranges: Ranges, settled: frozenset[Buffer] = frozenset()
) -> list[Dependence]:
    """Every dependence between leaves; loops in `outer` run outside, their variables are the same for both ends.

    The writers of `settled` buffers need no order among themselves.
    """
    ranges = [ranges_of(leaf.loops, outer_ranges) for leaf in leaves]
    touched = [accesses(leaf, r) for leaf, r in zip(leaves, ranges, strict=True)]
    boxes = [None if outer else box_of(leaf, r) for leaf, r in zip(leaves, ranges, strict=True)]
    found: list[Dependence] = []
    for a, b in _meeting_somewhere(touched):
        found += _between(a, b, leaves, ranges, boxes, touched, outer, settled)
    return found


def _meeting_somewhere(touched: Sequence[Sequence[Access]]) -> list[tuple[int, int]]:
    """The pairs of leaves that touch a buffer which one of them writes, in order, each leaf with itself among them.

    Straight-line stores to elements whose places are numbers meet only where these are the same.
    """
    by_buffer: dict[Buffer, list[tuple[int, Access]]] = {}
    for k, found in enumerate(touched):
        for access in found:
            by_buffer.setdefault(access.buffer, []).append((k, access))
    pairs = {(k, k) for k in range(len(touched))}
    for touching in by_buffer.values():
        if any(access.write for _, access in touching):
            for group in _by_place(touching):
                writers = {k for k, access in group if access.write}
                pairs |= {(min(k, w), max(k, w)) for k in {k for k, _ in group} for w in writers}
    return sorted(pairs)


def _by_place(touching: Sequence[tuple[int, Access]]) -> list[list[tuple[int, Access]]]:
    """Accesses of a buffer, apart where the number that is their index along one dim differs."""
    rank = max(len(access.indices or ()) for _, access in touching)
    numbers = [[_number_at(access, k) for _, access in touching] for k in range(rank)]
    most = max(numbers, key=lambda found: len(set(found)), default=[])
    groups: dict[int | None, list[tuple[int, Access]]] = {}
    for n, touch_ in zip(most, touching, strict=True) if most else ():
        groups.setdefault(n, []).append(touch_)
    anywhere = groups.pop(None, [])
    return [[*group, *anywhere] for group in groups.values()] or [list(touching)]


def _number_at(access: Access, k: int) -> int | None:
    index = None if access.indices is None else access.indices[k]
    return index.constant if index is not None and index.is_number else None


def _between(
    a: int, b: int, leaves: Sequence[Leaf], ranges: Sequence[Ranges], boxes: Sequence[Box | None],
    touched: Sequence[list[Access]], outer: Sequence[Loop], settled: frozenset[Buffer],
) -> list[Dependence]:  # fmt: skip
    found: dict[tuple[int, int, str, Buffer], set[int]] = {}
    shared = common_loops(leaves[a], leaves[b])
    done: set[tuple[object, ...]] = set()
    overlaps: dict[tuple[object, ...], Overlap] = {}
    for x in touched[a]:
        for y in touched[b]:
            if x.buffer is not y.buffer or not (x.write or y.write) or (x.write and y.write and x.buffer in settled):
                continue
            if a == b and y.write and not x.write:
                continue
            key = (x.buffer, x.indices, y.indices, x.write, y.write)
            if key in done:
                continue
            done.add(key)
            places = (x.buffer, x.indices, y.indices)
            if places not in overlaps:
                known = _known(leaves[a], x, y, boxes[a], boxes[b], shared)
                overlaps[places] = known or _by_sets(leaves[a], leaves[b], ranges[a], ranges[b], x, y, shared, outer)
            forward, backward = set(overlaps[places].forward), set(overlaps[places].backward)
            if a == b and not (x.write and y.write):
                together = {k for k, loop in enumerate(leaves[a].loops) if loop.lockstep}
                if met := (forward | backward) & together:
                    found.setdefault((a, a, LOCKSTEP, x.buffer), set()).update(met)
                forward, backward = forward - together, backward - together
            if a != b and overlaps[places].inside:
                forward.add(INDEPENDENT)
            if forward:
                found.setdefault((a, b, _kind(x, y), x.buffer), set()).update(forward)
            if backward and (a != b or x.write != y.write):
                found.setdefault((b, a, _kind(y, x), x.buffer), set()).update(backward)
    return [Dependence(s, t, kind, buffer, frozenset(levels)) for (s, t, kind, buffer), levels in found.items()]


def _known(a: Leaf, x: Access, y: Access, box_a: Box | None, box_b: Box | None, shared: int) -> Overlap | None:
    """Where both touch one element, if that takes no set; statements without common loops are taken to."""
    if not shared:
        return Overlap(True, frozenset(), frozenset())
    if box_a is None or box_b is None:
        return None
    i = x.indices if x.indices is not None else ()
    j = y.indices if y.indices is not None else ()
    if x.indices is None or y.indices is None:
        i = j = ()
    return overlap(i, j, box_a, box_b, a.names[:shared])


def _kind(first: Access, second: Access) -> str:
    if first.write:
        return "output" if second.write else "flow"
    return "anti"


def _by_sets(
    a: Leaf, b: Leaf, ra: Ranges, rb: Ranges, x: Access, y: Access, shared: int, outer: Sequence[Loop]
) -> Overlap:
    """Where both touch one element, by the set of all pairs of iterations that do."""
    fixed = _fixed(x, y, {loop.name for loop in a.loops[:shared]})
    if a is b and len(fixed) == shared:
        return NOWHERE
    forward: set[int] = set()
    backward: set[int] = set()
    names, constraints = _meeting(a, b, ra, rb, x, y, outer)
    meeting = integer_set(names, constraints)
    for k, loop in enumerate(a.loops[:shared]):
        if meeting.is_empty():
            return Overlap(False, frozenset(forward), frozenset(backward))
        here, there = f"{loop.name}_a", f"{loop.name}_b"
        if loop.name not in fixed:
            if not meeting.intersect(integer_set(names, [f"{here} < {there}"])).is_empty():
                forward.add(k)
            if not meeting.intersect(integer_set(names, [f"{here} > {there}"])).is_empty():
                backward.add(k)
        meeting = meeting.intersect(integer_set(names, [f"{here} = {there}"]))
    return Overlap(not meeting.is_empty(), frozenset(forward), frozenset(backward))


def _fixed(x: Access, y: Access, loops: set[str]) -> set[str]:
    """Loops whose variable must be the same wherever both accesses touch one element."""
    found: set[str] = set()
    if x.indices is None or y.indices is None:
        return found
    for i, j in zip(x.indices, y.indices, strict=True):
        if i is None or j is None or i.constant != j.constant:
            continue
        if len(i.terms) == 1 and i.terms == j.terms:
            (atom, _) = i.terms[0]
            if isinstance(atom, str) and atom in loops:
                found.add(atom)
    return found


def _meeting(
    a: Leaf, b: Leaf, ra: Ranges, rb: Ranges, x: Access, y: Access, outer: Sequence[Loop]
) -> tuple[list[str], list[str]]:
    """Pairs of iterations that touch one element."""
    da, db = domain(a, ra, outer, "_a"), domain(b, rb, outer, "_b")
    names = [*(f"{n}_a" for n in a.names), *(f"{n}_b" for n in b.names), *(loop.name for loop in outer)]
    constraints = [*da.constraints, *db.constraints]
    for loop in outer:
        low, high = ra[loop.name]
        constraints.append(f"{low} <= {loop.name} <= {high}")
    if x.indices is not None and y.indices is not None:
        constraints += same_element(x.indices, y.indices, x.buffer.shape, da.names, db.names, ra, rb)
    return names, constraints


def apart(leaf: Leaf, load: Load, outer: Sequence[Loop], outer_ranges: Ranges) -> bool:
    """Whether no iteration of a store writes an element that a read in any of its iterations finds."""
    ranges = ranges_of(leaf.loops, outer_ranges)
    assert isinstance(leaf.node, Store)
    store, read = (
        Access(load.buffer, tuple(linear(i, ranges) for i in indices), write)
        for indices, write in ((leaf.node.indices, True), (load.indices, False))
    )
    names, constraints = _meeting(leaf, leaf, ranges, ranges, store, read, outer)
    return integer_set(names, constraints).is_empty()


def touch(a: Leaf, b: Leaf) -> bool:
    """Whether two leaves, in any of their iterations, touch one element that one of them writes."""
    ra, rb = ranges_of(a.loops), ranges_of(b.loops)
    for x in accesses(a, ra):
        for y in accesses(b, rb):
            if x.buffer is y.buffer and (x.write or y.write):
                names, constraints = _meeting(a, b, ra, rb, x, y, ())
                if not integer_set(names, constraints).is_empty():
                    return True
    return False
