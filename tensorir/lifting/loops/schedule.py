"""How each loop runs: all iterations at once where no dependence forbids it, as a fold, or one after the other.

The statements are grouped into components of dependences that run in order, each for all iterations of its loops. A
component of one statement that needs nothing of its own is one store; one that folds into its element is a reduction;
in any other the outermost loop that carries a dependence runs step by step, and the rest is decided anew inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import itemgetter

from tensorir.ir.types import BOOL
from tensorir.lifting.accesses.components import components
from tensorir.lifting.accesses.dependence import INDEPENDENT, LOCKSTEP, Dependence, apart, common_loops, dependences
from tensorir.lifting.accesses.iteration import Once, executed, packed, under_shared_guards
from tensorir.lifting.accesses.space import Space, boxed, hull_of, in_order, met
from tensorir.lifting.emission.choosers import order_is_free
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.folds import accumulate, fold_of
from tensorir.lifting.emission.stores import store
from tensorir.lifting.loops.histories import with_histories
from tensorir.lifting.loops.recurrences import fold_at_once, scan_at_once
from tensorir.lifting.loops.report import Decision, Report
from tensorir.lifting.loops.sequential import external, step_by_step, verified, while_loop
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Op, Term
from tensorir.lifting.storage.copies import whole_space
from tensorir.lifting.storage.joins import joined

__all__ = ["Region", "run"]


@dataclass(frozen=True, slots=True)
class Region:
    """The place where statements run: the loops outside that run step by step, from the outside in."""

    emitter: Emitter
    report: Report
    steps: tuple[Loop, ...] = ()
    settled: frozenset[Buffer] = field(default_factory=frozenset[Buffer])
    """Buffers whose elements only ever get one value: their writers need no order among themselves or after readers."""
    outside: frozenset[Buffer] = field(default_factory=frozenset[Buffer])
    """Buffers that statements outside of the region touch."""


def run(region: Region, nodes: Sequence[Node]) -> None:
    """Run the nodes of a region: its emitter then has what every buffer holds."""
    schedule(region, leaves(nodes))


def schedule(region: Region, statements: Sequence[Leaf], level: int = 0) -> None:
    """Run statements that share a region; loops above `level` are decided already."""
    found = dependences(statements, region.steps, region.emitter.ranges, region.settled)
    if not region.steps:
        statements, found = joined(statements, found)
    _order(region, statements, found, level)


def _order(region: Region, statements: Sequence[Leaf], found: Sequence[Dependence], level: int) -> None:
    kept = [
        d
        for d in found
        if (INDEPENDENT in d.levels or any(k >= level for k in d.levels))
        and (d.kind == "flow" or d.buffer not in region.settled)
    ]
    edges = {(d.source, d.sink) for d in kept if d.source != d.sink}
    # what is kept for one iteration ties a statement to those that read it
    ties = {(d.sink, d.source) for d in kept if d.kind == "flow" and d.buffer.loops}
    parts = components(len(statements), edges)
    between, starting = _pairs(kept), _starting(kept)
    for together in components(len(statements), edges | ties) if ties else parts:
        inside = [members for members in parts if members[0] in together]
        if len(inside) > 1:
            ordered = [d for d in kept if d.kind != LOCKSTEP]
            carries = any(len(m) > 1 or any(d.source == d.sink == m[0] for d in ordered) for m in inside)
            if carries and _recurrence(*_chosen(region, statements, _starting(ordered), together), level):
                continue
        for members in inside:
            handed = _handed(region, statements, between, members)
            _component(*_chosen(region, statements, starting, members), level, handed)


_Starting = Mapping[int, Sequence[tuple[int, Dependence]]]
"""The dependences that each statement is the source of, and their places among all."""


def _starting(found: Sequence[Dependence]) -> _Starting:
    starting: dict[int, list[tuple[int, Dependence]]] = {}
    for k, d in enumerate(found):
        starting.setdefault(d.source, []).append((k, d))
    return starting


_Pairs = Mapping[tuple[Buffer, int], Sequence[tuple[int, int]]]
"""The dependences of a statement through a buffer, from where to where."""


def _pairs(found: Sequence[Dependence]) -> _Pairs:
    pairs: dict[tuple[Buffer, int], list[tuple[int, int]]] = {}
    for d in found:
        for k in {d.source, d.sink}:
            pairs.setdefault((d.buffer, k), []).append((d.source, d.sink))
    return pairs


def _handed(region: Region, statements: Sequence[Leaf], pairs: _Pairs, members: Sequence[int]) -> frozenset[Buffer]:
    """Buffers of which each iteration has a copy, and which nobody touches after the members."""
    copied = {b for m in members for b in statements[m].written if b.copies} - region.outside
    for k, leaf in enumerate(statements) if copied else ():
        for b in () if k in members else copied & (leaf.written | leaf.read):
            between = pairs.get((b, k), ())
            if not any(s == k and t in members for s, t in between) or any(s in members for s, _ in between):
                copied = copied - {b}
    return frozenset(copied)


def _chosen(
    region: Region, statements: Sequence[Leaf], starting: _Starting, members: Sequence[int]
) -> tuple[Region, list[Leaf], list[Dependence]]:
    """Some of the statements of a region, with the dependences among them."""
    own = set(members)
    placed = sorted(((k, d) for m in members for k, d in starting.get(m, ()) if d.sink in own), key=itemgetter(0))
    within = [d for _, d in placed]
    others = frozenset(b for k, leaf in enumerate(statements) if k not in own for b in leaf.read | leaf.written)
    here = replace(region, outside=region.outside | others)
    return here, [statements[m] for m in members], _renumbered(within, members)


def _renumbered(found: Sequence[Dependence], members: Sequence[int]) -> list[Dependence]:
    place = {m: k for k, m in enumerate(members)}
    return [replace(d, source=place[d.source], sink=place[d.sink]) for d in found]


def _component(
    region: Region, members: Sequence[Leaf], found: Sequence[Dependence], level: int,
    handed: frozenset[Buffer] = frozenset(),
) -> None:  # fmt: skip
    together = {d.buffer.name: None for d in found if d.kind == LOCKSTEP}
    found = [d for d in found if d.kind != LOCKSTEP]
    if len(members) == 1:
        leaf = members[0]
        match leaf.node:
            case Store():
                if _alone(region, leaf, leaf.node, found, tuple(together)):
                    return
            case While() as node if not leaf.loops:
                while_loop(region, node)
                return
            case External() as node if not leaf.loops:
                external(region, node)
                return
            case Check() as node:
                verified(region, leaf, node, space_of(region, leaf, Op("not", (node.condition,), BOOL), ()))
                return
            case _:
                pass
    if _recurrence(region, members, found, level):
        return
    loop, depth = _outermost(members, found, level)
    if loop is None:
        # nothing carries a dependence: the text's own order is one that is right
        for leaf in members:
            _component(region, [leaf], [], level)
        return
    if (parts := with_histories(members, found, depth, region.emitter.ranges)) is not None:
        for own, others in (parts, parts[::-1]):
            touched = frozenset(b for leaf in others for b in leaf.read | leaf.written)
            here = replace(region, outside=region.outside | touched)
            _order(here, own, dependences(own, region.steps, region.emitter.ranges, region.settled), level)
        return
    carried = [d for d in found if depth in d.levels]
    region.report.add(Decision(loop, "sequential", _reason(carried, members), tuple(m.span for m in members)))
    step_by_step(region, loop, depth, members, handed)


def _recurrence(region: Region, members: Sequence[Leaf], found: Sequence[Dependence], level: int) -> bool:
    """Statements that hand on a state: a fold, or a scan along one loop. False where they are none."""
    written = {b for m in members for b in m.written}
    apart = {b for b in written if b.copies} - region.outside
    once = executed(members, apart, region.emitter.ranges)
    if once is None or not once.buffers or any(b in region.outside for b in written if b.loops):
        return False
    first = members[0]
    carrying = sorted({k for d in found for k in d.levels if k >= 0})
    emitter = region.emitter
    if len(once.buffers) == 1:
        (buffer,), (place,), (value,) = once.buffers, once.places, once.values
        fold = fold_of(Store(buffer, place, value))
        if fold is not None:
            space = space_of(region, first, fold[1], fold[2], location=place)
            if space.empty or accumulate(emitter, buffer, fold[0], space, first.span):
                _decided(region, members, carrying, "reduction", f"folds into {buffer.name} by {fold[0]}")
                return True

    def make(once: Once, conditions: tuple[Term, ...] = ()) -> Space:
        free, (location, value) = order_is_free(once), packed(once)
        space = space_of(region, first, value, conditions, raw=not free, location=location)
        return (
            replace(space, dims={n: space.dims[n] for n in (met(space) | dict.fromkeys(space.dims))}) if free else space
        )

    names = ", ".join(b.name for b in once.buffers)
    if _fold_inside(emitter, members, apart, make) or fold_at_once(emitter, once, make):
        _decided(region, members, carrying, "reduction", f"folds into {names}, in the order of the loop")
        return True
    along = scan_at_once(emitter, once, make) if len(carrying) == 1 else None
    if along is not None:
        _decided(region, members, carrying, "scan", f"{names} hands its last elements on")
    return along is not None


def _fold_inside(emitter: Emitter, members: Sequence[Leaf], apart: Set[Buffer], make: Callable[..., Space]) -> bool:
    """Statements under the same guards as a fold over the iterations where these hold, where those are a box."""
    members, shared = under_shared_guards(members)
    once = executed(members, apart, emitter.ranges) if shared else None
    return once is not None and fold_at_once(emitter, once, lambda once: make(once, shared))


def _decided(region: Region, members: Sequence[Leaf], carrying: Sequence[int], how: str, why: str) -> None:
    spans = tuple(m.span for m in members)
    for k, loop in enumerate(members[0].loops):
        carries = k in carrying
        region.report.add(Decision(loop, how if carries else "parallel", why if carries else "", spans))


def _outermost(members: Sequence[Leaf], found: Sequence[Dependence], level: int) -> tuple[Loop | None, int]:
    """The outermost loop around all members that carries one of their dependences."""
    shared = min((common_loops(members[0], m) for m in members), default=0)
    if len(members) == 1:
        shared = len(members[0].loops)
        if not isinstance(members[0].node, Store):
            return (members[0].loops[0], 0) if shared else (None, 0)
    for depth in range(shared):
        if any(depth in d.levels for d in found):
            return members[0].loops[depth], depth
    return None, 0


def _reason(carried: Sequence[Dependence], members: Sequence[Leaf]) -> str:
    if not carried:
        return "what it runs has an order of its own"
    d = carried[0]
    words = {"flow": "reads what an earlier iteration wrote", "anti": "reads what a later iteration writes over"}
    return f"an iteration {words.get(d.kind, 'writes what another writes')}: {d.buffer.name}"


def _alone(region: Region, leaf: Leaf, node: Store, found: Sequence[Dependence], together: Sequence[str] = ()) -> bool:
    """One store over all its iterations; False where its own results order them.

    `together` names buffers in which iterations may meet that run in lockstep.
    """
    flows = [d for d in found if d.kind == "flow"]
    if flows:
        fold = fold_of(node, lambda load: apart(leaf, load, region.steps, region.emitter.ranges))
        if fold is None:
            return False
        op, term, conditions = fold
        space = space_of(region, leaf, term, conditions)
        if space.empty:
            return True
        if not accumulate(region.emitter, node.buffer, op, space, node.span):
            return False
        for loop in leaf.loops:
            carries = any(leaf.loops.index(loop) in d.levels for d in flows)
            how = "reduction" if carries else "parallel"
            region.report.add(
                Decision(loop, how, f"folds into {node.buffer.name} by {op}" if carries else "", (leaf.span,))
            )
        return True
    ordered = any(d.kind == "output" for d in found)
    if ordered or region.emitter.ranges:
        space = space_of(region, leaf, node.value, (), raw=ordered)
    else:
        space = whole_space(leaf)  # the same, and known already
    if not space.empty:
        store(region.emitter, node.buffer, space, node.span)
    for loop in leaf.loops:
        reason = "the last of several writes stays" if ordered else ""
        if loop.lockstep and together:
            reason = f"in lockstep: all read {', '.join(together)} before any writes"
        region.report.add(Decision(loop, "parallel", reason, (leaf.span,)))
    return True


def space_of(
    region: Region, leaf: Leaf, value: Term, conditions: tuple[Term, ...], raw: bool = False,
    location: tuple[Term, ...] | None = None,
) -> Space:  # fmt: skip
    """The iterations of a statement as a box: loops of a region's steps are numbers, all others dims."""
    emitter = region.emitter
    ranges = ranges_of(leaf.loops, emitter.ranges)
    dims, guards = hull_of(leaf.loops, ranges)
    node = leaf.node
    every = (*guards, *(node.guards if location is None else ()), *conditions)
    if location is None:
        location = node.indices if isinstance(node, Store) else ()
    if raw or (isinstance(node, Store) and node.buffer.exact):
        return in_order(dims, location, value, every, emitter.ranges)
    return boxed(dims, location, value, every, emitter.ranges)
