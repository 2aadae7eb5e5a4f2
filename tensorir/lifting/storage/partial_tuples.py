"""Folds of tuples in parts are one fold, where their step takes items in any order and grouping.

The best of each part of a row, with its index, and then the best of these, is the best of the row, whatever decides
between equal ones, as long as it is not who came first (`choosers`). As with folds of one buffer, nothing else touches
what the parts leave; all of them start from the numbers that the fold of the parts starts from, which then come again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.inverse import Inverse, at_iteration, inverse
from tensorir.lifting.accesses.iteration import Once, executed, packed, stored, under_shared_guards, unpacked
from tensorir.lifting.accesses.space import Space, boxed, hull_of, substituted
from tensorir.lifting.emission.choosers import Chooser, chooser_of
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import Leaf, Loop, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Term, buffers_of
from tensorir.lifting.storage.partials import Whole, around, begins, gives_start, iterations_of, known_before, unbound

__all__ = ["joint"]


@dataclass(frozen=True, slots=True)
class _Fold:
    """Statements that fold a tuple in some loops: they, their guards, what they do at once, and as a step of a fold."""

    members: tuple[Leaf, ...]
    guards: tuple[Term, ...]
    once: Once
    step: Chooser

    @property
    def taking(self) -> Once:
        """The items in the place of the new values."""
        return replace(self.once, values=self.step.items)

    def store(self, k: int) -> Leaf:
        """What happens to one buffer, as if it alone were stored."""
        node = Store(self.once.buffers[k], self.once.places[k], self.once.values[k], self.guards)
        return Leaf(node, self.members[0].loops, self.members[0].place)


@dataclass(frozen=True, slots=True)
class _Places:
    """The iterations of a fold into places as a box, and what each place of its tuple tells of them."""

    space: Space
    inverses: tuple[Inverse, ...]


def joint(buffer: Buffer, touching: Mapping[Buffer, Sequence[Leaf]], statements: Sequence[Leaf]) -> Whole | None:
    """The statements that fold a tuple from what parts left in a buffer, and what they become without it."""
    loops = list(dict.fromkeys(leaf.loops for leaf in touching[buffer] if buffer in leaf.read))
    if len(loops) != 2:
        return None
    first, second = (_fold(around, statements) for around in loops)
    if first is None or second is None or first.step.values != second.step.values or len(first.once.buffers) < 2:
        return None
    laws = first.step.laws
    if not (laws.free and laws.again and _from_parts(first, second, touching, statements)):
        return None
    places = _places(first)
    if places is None or not _start_alike(first, second, places, touching, statements):
        return None
    loads = [t for t in second.step.items if isinstance(t, Load)]
    told = [
        iterations_of(load, back, places.space.dims, first.members[0], second.store(k))
        for k, (load, back) in enumerate(zip(loads, places.inverses, strict=True))
    ]
    if told[0] is None or any(t != told[0] for t in told):
        return None
    return _whole(first, second, places.space, told[0])


def _fold(loops: tuple[Loop, ...], statements: Sequence[Leaf]) -> _Fold | None:
    """The fold that the statements in some loops are together, but for those that give numbers to start from."""
    every = [leaf for leaf in statements if leaf.loops == loops]
    members = [leaf for leaf in every if not isinstance(leaf.node, Store) or not isinstance(leaf.node.value, Number)]
    if any(loop.lockstep for loop in loops) or any(isinstance(m.node, Store) and m.node.atomic for m in members):
        return None
    plain, guards = under_shared_guards(members)
    once = executed(plain)
    if once is None or any(b.exact for b in once.buffers):
        return None
    states = {Load(b, place): k for k, (b, place) in enumerate(zip(once.buffers, once.places, strict=True))}
    step = chooser_of(once.values, states)
    return None if step is None else _Fold(tuple(members), guards, once, step)


def _from_parts(
    first: _Fold, second: _Fold, touching: Mapping[Buffer, Sequence[Leaf]], statements: Sequence[Leaf]
) -> bool:
    """Whether one fold takes what another one leaves, and nothing of that changes in between."""
    own, into = set(first.once.buffers), set(second.once.buffers)
    items = [t for t in second.step.items if isinstance(t, Load)]
    if own & into or not own <= touching.keys() or [t.buffer for t in items] != [*first.once.buffers]:
        return False
    indices = (*(i for t in items for i in t.indices), *(i for place in second.once.places for i in place))
    if any(buffers_of(t) & (own | into) for t in (*indices, *second.guards)):
        return False
    given = (*first.step.items, *first.guards, *(i for place in first.once.places for i in place))
    reads = {b for t in given for b in buffers_of(t)}
    if second.members[0].place < first.members[-1].place or reads & (own | into) or any(b.loops for b in reads):
        return False
    return all(known_before(b, first.members[0], second.members[0], statements) for b in reads)


def _places(fold: _Fold) -> _Places | None:
    loops = fold.members[0].loops
    dims, guards = hull_of(loops, ranges_of(loops))
    location, value = packed(fold.taking)
    every = (*guards, *fold.guards)
    # the loops as they are, or what their indices take apart and put together
    for space in (
        substituted(Space(dims, location, value, every), {}, dims, every),
        boxed(dims, location, value, every, {}),
    ):
        backs = [inverse([affine_of(t) for t in s.location], space.dims) for s in unpacked(fold.once, space)[0]]
        found = tuple(back for back in backs if back is not None and len(back.names) < len(space.dims))
        if len(found) == len(backs):
            return _Places(space, found)
    return None


def _start_alike(
    first: _Fold, second: _Fold, places: _Places, touching: Mapping[Buffer, Sequence[Leaf]], statements: Sequence[Leaf]
) -> bool:
    """Whether each element of the parts starts from a number, and the fold of the parts from the same one."""
    rest = [leaf for leaf in statements if leaf not in second.members]
    for k, (buffer, back) in enumerate(zip(first.once.buffers, places.inverses, strict=True)):
        starts = [leaf for leaf in touching[buffer] if leaf not in first.members and leaf not in second.members]
        if not starts or not all(isinstance(leaf.node, Store) for leaf in starts):
            return False
        if not all(gives_start(leaf, first.members[0], back.names) for leaf in starts):
            return False
        begun = {leaf.node.value for leaf in starts if isinstance(leaf.node, Store)}
        if len(begun) != 1 or any(isinstance(v, Number) and v.value != v.value for v in begun):
            return False
        if not begins(second.store(k), begun, rest):
            return False
    return True


def _whole(first: _Fold, second: _Fold, space: Space, told: Mapping[str, Affine]) -> Whole:
    """The fold of the parts as one that takes what the parts take."""
    ranges = ranges_of(second.members[0].loops)
    values, free = unbound(space.dims, told, ranges)
    _, items = unpacked(first.once, space)
    states = [Load(b, place) for b, place in zip(second.once.buffers, second.once.places, strict=True)]
    new = second.step.at(states, [at_iteration(t, values) for t in items])
    guards = (*second.guards, *(at_iteration(g, values) for g in space.guards))
    inside = {**ranges, **{n: (i.start, i.stop - 1) for n, i in free}}
    span = second.members[0].span
    body = stored(replace(second.once, values=new), guards, inside, span)
    old = tuple(m.node for m in second.members if isinstance(m.node, Store))
    return Whole(old, around(free, body, span), drops=not first.step.laws.with_nan)
