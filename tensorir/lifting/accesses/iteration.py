"""One iteration of several statements, run symbolically: what each buffer's element becomes, from what buffers held.

`if x > B: I = i` and `B = max(B, x)` are together `(I, B) = (x > B ? i : I, max(B, x))`: what all of them do at once is
what tells whether they are a fold or a scan, and which parts of a loop they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tensorir.integers.affine import number, variable
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.space import Space
from tensorir.lifting.nests.linear import Ranges, linear, term_of
from tensorir.lifting.nests.nest import Leaf, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Op, Term, buffers_of, children, rebuilt, walk
from tensorir.runtime.errors import Span

__all__ = [
    "Once",
    "executed",
    "only_states",
    "packed",
    "reads_by_state",
    "stored",
    "under_shared_guards",
    "unpacked",
]


@dataclass(frozen=True, slots=True)
class Once:
    """One iteration of some statements: what each buffer's element becomes, in terms of what buffers held before."""

    buffers: tuple[Buffer, ...]
    places: tuple[tuple[Term, ...], ...]
    values: tuple[Term, ...]


def executed(
    members: Sequence[Leaf], kept_apart: Set[Buffer] = frozenset(), outer: Ranges | None = None
) -> Once | None:
    """The statements of one iteration as new values; None where they share none, or write one buffer at two places.

    Nor where one may read what another one wrote, under indices that do not tell whether it does. Nobody else touches
    the buffers in `kept_apart`, of which each iteration has a copy; `outer` are loops outside that run step by step.
    """
    stores = [m.node for m in members if isinstance(m.node, Store)]
    if not stores or len(stores) != len(members) or not all(_same_iterations(members[0], m) for m in members):
        return None
    now: dict[Load, Term] = {}
    places: dict[Buffer, tuple[Term, ...]] = {}
    ranges = ranges_of(members[0].loops, outer)
    doubtful: list[Load] = []

    def rule(t: Term) -> Term | None:
        if not isinstance(t, Load) or t in now or t.buffer not in places or t.buffer.loops:
            return now.get(t) if isinstance(t, Load) else None
        # other words for a place may mean the place
        place = places[t.buffer]
        match _same_place(t.indices, place, ranges):
            case True:
                return now[Load(t.buffer, place)]
            case None:
                doubtful.append(t)
            case False:
                pass
        return None

    for store in stores:
        indices = tuple(rebuilt(i, rule) for i in store.indices)
        here = Load(store.buffer, indices)
        value = rebuilt(store.value, rule)
        # a value of one iteration is only read under the guards under which it was made
        for guard in () if store.buffer.loops else reversed(store.guards):
            value = Op("if", (rebuilt(guard, rule), value, now.get(here, here)), value.element)
        if doubtful or places.setdefault(store.buffer, indices) != indices:
            return None
        now[here] = value
    for store in stores:
        for load in (t for term in (store.value, *store.guards) for t in walk(term) if isinstance(t, Load)):
            if load.buffer in places and load.buffer.loops and load.indices != places[load.buffer]:
                return None
    kept = [b for b in places if not b.loops]
    read = {t.buffer for b in kept for t in walk(now[Load(b, places[b])]) if isinstance(t, Load)}
    kept = [b for b in kept if b in read or b not in kept_apart]
    values = tuple(now[Load(b, places[b])] for b in kept)
    if any(t.buffer.loops and t.buffer in places for v in values for t in walk(v) if isinstance(t, Load)):
        return None
    return Once(tuple(kept), tuple(places[b] for b in kept), values)


def _same_place(a: Sequence[Term], b: Sequence[Term], ranges: Ranges) -> bool | None:
    """Whether indices name one element in each iteration: True, False where they do in none, None where it is open."""
    apart: list[int | None] = []
    for x, y in zip(a, b, strict=True):
        i, j = linear(x, ranges), linear(y, ranges)
        known = None if i is None or j is None else i.plus(j.times(-1))
        apart.append(0 if x == y else known.constant if known is not None and not known.terms else None)
    return False if any(apart) else None if None in apart else True


def _same_iterations(a: Leaf, b: Leaf) -> bool:
    """Whether statements run in the same rounds of loops, where lanes and threads have a loop for each statement."""
    return len(a.loops) == len(b.loops) and all(
        x is y or (x.lockstep and y.lockstep and (x.name, x.low, x.extent) == (y.name, y.low, y.extent))
        for x, y in zip(a.loops, b.loops, strict=True)
    )


def under_shared_guards(members: Sequence[Leaf]) -> tuple[list[Leaf], tuple[Term, ...]]:
    """The statements without their guards, and these, where all have the same, which none of them changes."""
    stores = [m.node for m in members if isinstance(m.node, Store)]
    written = {s.buffer for s in stores}
    different = list(dict.fromkeys(s.guards for s in stores))
    if len(stores) < len(members) or len(different) != 1 or any(buffers_of(g) & written for g in different[0]):
        return list(members), ()
    (shared,) = different
    return [replace(m, node=replace(s, guards=())) for m, s in zip(members, stores, strict=True)], shared


def stored(once: Once, guards: tuple[Term, ...], loops: Mapping[str, tuple[int, int]], span: Span) -> list[Store]:
    """Stores that do that in each iteration of some loops: all values are known before any is stored."""
    if len(once.buffers) == 1:
        return [
            Store(b, place, v, guards, span) for b, place, v in zip(once.buffers, once.places, once.values, strict=True)
        ]
    here = tuple(term_of(variable(n).plus(number(-low)), INT32) for n, (low, _) in loops.items())
    shape = tuple(high - low + 1 for low, high in loops.values())
    kept = [
        Buffer(f"{b.name}_new", b.element, shape, span=span, loops=tuple(loops), exact=b.exact) for b in once.buffers
    ]
    first = [Store(new, here, v, guards, span) for new, v in zip(kept, once.values, strict=True)]
    targets = zip(once.buffers, once.places, kept, strict=True)
    return [*first, *(Store(b, place, Load(new, here), guards, span) for b, place, new in targets)]


def packed(once: Once) -> tuple[tuple[Term, ...], Term]:
    """All places, and all values as one term, so that a space changes them together."""
    location = tuple(i for place in once.places for i in place)
    return location, Op("values", once.values, BOOL)


def unpacked(once: Once, space: Space) -> tuple[list[Space], tuple[Term, ...]]:
    """The places of each buffer as spaces of their own, and the values."""
    values = children(space.value)
    parts: list[Space] = []
    at = 0
    for place, value in zip(once.places, values, strict=True):
        parts.append(Space(space.dims, space.location[at : at + len(place)], value, space.guards, space.outer))
        at += len(place)
    return parts, values


def only_states(values: Sequence[Term], buffers: Sequence[Buffer], states: set[Load]) -> bool:
    """Whether values read some buffers only as the state, and nothing where the state says."""
    reads = [t for v in values for t in walk(v) if isinstance(t, Load)]
    return all(t in states for t in reads if t.buffer in buffers) and not reads_by_state(values, states)


def reads_by_state(values: Sequence[Term], states: Set[Load]) -> bool:
    """Whether the state says where something else is read: no part of a state does so."""
    others = [t for v in values for t in walk(v) if isinstance(t, Load) and t not in states]
    return any(inner in states for t in others for inner in walk(t) if isinstance(inner, Load))
