"""Statements as boxes: what they do to each point, and when those on two adjacent boxes are the same on their union.

A part of a loop is one statement, or several that are one recurrence: these do to a tuple of elements what one does to
an element, and their iterations keep their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, product

from tensorir.integers.affine import number, variable
from tensorir.ir.types import BOOL, INT32, Interval
from tensorir.lifting.accesses.inverse import at_iteration
from tensorir.lifting.accesses.iteration import (
    Once,
    executed,
    only_states,
    packed,
    stored,
    under_shared_guards,
    unpacked,
)
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import Space, boxed, hull_of, in_order, met, substituted
from tensorir.lifting.emission.choosers import order_is_free
from tensorir.lifting.emission.folds import fold_of, rounds
from tensorir.lifting.emission.stores import place_of
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import Leaf, Loop, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Linear, Load, Number, Op, Term, loads
from tensorir.lifting.storage.copies import whole_space

__all__ = ["Part", "one_of_both", "part_of", "recurrence_of"]


@dataclass(frozen=True, slots=True)
class Part:
    """Statements as a box: what they do to each point, under names that do not tell boxes apart."""

    leaf: Leaf
    """The first statement."""
    once: Once
    """What an iteration does, before it was a box."""
    kind: str | None
    """The operation of a fold, "values" for what several statements do, None for a store whose iterations are apart."""
    space: Space
    shape: tuple[Term, ...]
    dims: tuple[str, ...]
    """The dims in the order of the shape."""
    turns: tuple[int, ...]
    """Which of the dims say the order in which iterations run, from the outside in."""

    @property
    def first_turn(self) -> str | None:
        return self.dims[self.turns[0]] if self.turns else None

    def waits(self, name: str) -> bool:
        """Whether iterations along a dim keep their order."""
        return self.dims.index(name) in self.turns


def part_of(leaf: Leaf, ordered: bool) -> Part | None:
    """A statement that is a fold, or of which no iteration needs another."""
    node = leaf.node
    assert isinstance(node, Store)
    fold = fold_of(node)
    if fold is None and ordered:
        return None
    if fold is None:
        space = whole_space(leaf)
    else:
        space = whole_space(replace(leaf, node=Store(node.buffer, node.indices, fold[1], (*node.guards, *fold[2]))))
    if space.empty:
        return None
    kind = None if fold is None else fold[0]
    told = _told(space) if kind is not None and node.buffer.exact and rounds(kind, node.buffer.element) else space.dims
    once = Once((node.buffer,), (node.indices,), (node.value,))
    return _as_part(leaf, once, kind, _from_its_place(space), told)


def recurrence_of(members: Sequence[Leaf], kept_apart: Set[Buffer]) -> Part | None:
    """Statements that run together in each iteration, of which each hands on only to those of the same elements.

    Nobody else touches the buffers in `kept_apart`, of which each iteration has a copy.
    """
    first = members[0]
    if any(loop.lockstep for loop in first.loops) or any(isinstance(m.node, Store) and m.node.atomic for m in members):
        return None
    members, shared = under_shared_guards(members)
    once = executed(members, kept_apart)
    if once is None or not once.buffers:
        return None
    dims, guards = hull_of(first.loops, ranges_of(first.loops))
    free = order_is_free(once)
    location, value = packed(once)
    space = (boxed if free else in_order)(dims, location, value, (*guards, *shared), {})
    spaces, values = unpacked(once, space)
    states = {Load(b, s.location) for b, s in zip(once.buffers, spaces, strict=True)}
    reads = [load for v in (*values, *space.guards) for load in loads(v)]
    if space.empty or not only_states(values, once.buffers, states) or any(load.buffer.loops for load in reads):
        return None
    told = _told(spaces[0])
    if told is None or any(_told(s) != told for s in spaces):
        return None
    return _as_part(first, once, "values", _from_its_place(space), space.dims if free else told)


def _told(space: Space) -> Set[str] | None:
    """The dims that the element tells which is stored."""
    place = place_of(space)
    return None if place is None else place.dims


def _as_part(leaf: Leaf, once: Once, kind: str | None, space: Space, told: Collection[str] | None) -> Part | None:
    """Statements as a part, whose iterations keep their order along the dims that are not told."""
    order = {n: k for k, n in enumerate(met(space))}
    names = {n: variable(f" {k}") for n, k in order.items()}
    dims = {f" {order[n]}": i for n, i in space.dims.items() if n in order}
    if len(dims) < len(space.dims):
        return None
    plain = substituted(space, names, dims, space.guards)
    shape = (*plain.location, plain.value, *plain.guards)
    turns = tuple(order[n] for n in space.dims if told is None or n not in told)
    return Part(leaf, once, kind, space, shape, tuple(order), turns)


def _from_its_place(space: Space) -> Space:
    """The space with dims counted as the elements that it writes."""
    moved: dict[str, int] = {}
    for term in space.location:
        a = affine_of(term)
        if a is not None and a.constant and len(a.terms) == 1 and a.terms[0][1] == 1 and isinstance(a.terms[0][0], str):
            moved.setdefault(a.terms[0][0], a.constant)
    if not moved:
        return space
    dims = {n: Interval(i.start + moved.get(n, 0), i.stop + moved.get(n, 0)) for n, i in space.dims.items()}
    return substituted(space, {n: variable(n).plus(number(-c)) for n, c in moved.items()}, dims, space.guards)


def one_of_both(a: Part, b: Part) -> list[Leaf] | None:
    """The statements that do what two parts do on adjacent boxes, of which `a` runs first."""
    if a.kind != b.kind or a.once.buffers != b.once.buffers:
        return None
    if len(a.dims) == len(b.dims) and _alike(a, b):
        there = [(n, b.space.dims[m]) for n, m in zip(a.dims, b.dims, strict=True)]
        apart = [(n, i) for n, i in there if a.space.dims[n] != i]
        return _joined(a, *apart[0]) if len(apart) == 1 and apart[0] in _next_to(a, b, True) else None
    for one, other, after in ((a, b, True), (b, a, False)):
        found = next(((n, i) for n, i in _beside(one, other, after) if _does(one, n, i, other)), None)
        if found is not None:
            return _joined(one, *found)
    return _of_both(a, b) if len(a.dims) == len(b.dims) else None


def _alike(a: Part, b: Part) -> bool:
    return a.shape == b.shape and a.turns == b.turns


def _beside(a: Part, b: Part, after: bool) -> Iterator[tuple[str, Interval]]:
    """Where a part may do what another one does: along one dim, which the other one lacks if it is one iteration."""
    match len(a.dims) - len(b.dims):
        case 0:
            yield from _next_to(a, b, after)
        case 1:
            yield from _ends(a, after)
        case _:
            pass


def _ends(a: Part, after: bool) -> Iterator[tuple[str, Interval]]:
    """The iterations that are next to a box, and run after or before it."""
    for n in a.dims:
        i = a.space.dims[n]
        yield from (
            (n, j) for j in (Interval(i.stop, i.stop + 1), Interval(i.start - 1, i.start)) if _continues(a, n, j, after)
        )


def _next_to(a: Part, b: Part, after: bool) -> Iterator[tuple[str, Interval]]:
    """The dims of a box, and intervals of another box that are next to theirs, and run after or before it."""
    for n in a.dims:
        i = a.space.dims[n]
        for j in dict.fromkeys(b.space.dims.values()):
            if (i.stop == j.start or j.stop == i.start) and _continues(a, n, j, after):
                yield n, j


def _continues(a: Part, name: str, i: Interval, after: bool) -> bool:
    """Whether further iterations along a dim come after the others, or before them, where these have an order."""
    if not a.waits(name):
        return True
    here = a.space.dims[name]
    return name == a.first_turn and (i.start >= here.stop if after else i.stop <= here.start)


def _does(a: Part, name: str, i: Interval, b: Part) -> bool:
    """Whether a statement does in more iterations what another one does, which lacks the dim if it is one more."""
    there = _there(a, name, i)
    if there is None or not _alike(there, b) or len(there.dims) != len(b.dims):
        return False
    return all(there.space.dims[n] == b.space.dims[m] for n, m in zip(there.dims, b.dims, strict=True))


def _there(a: Part, name: str, i: Interval) -> Part | None:
    """A statement in other iterations."""
    dims = {n: i if n == name else j for n, j in a.space.dims.items() if n != name or len(i) > 1}
    value = {} if len(i) > 1 else {name: number(i.start)}
    told = [n for n in a.dims if not a.waits(n)]
    return _as_part(a.leaf, a.once, a.kind, substituted(a.space, value, dims, a.space.guards), told)


def _of_both(a: Part, b: Part) -> list[Leaf] | None:
    """One statement with the conditions of two, of which each part lacks those that always hold in it."""
    names = {f" {k}": variable(n) for k, n in enumerate(a.dims)}
    count = len(a.space.location)
    if a.shape[:count] != b.shape[:count] or a.shape[count + 1 :] != b.shape[count + 1 :]:
        return None
    sides = list(_next_to(a, b, True))
    alone = (a.shape[count], b.shape[count])  # neither does what both do
    for merged in islice(_merged(*alone), MOST_MERGED) if sides else ():
        if merged in alone:
            continue
        value = at_iteration(merged, names)
        both = replace(a, space=replace(a.space, value=value))
        for n, i in sides:
            if _does(both, n, a.space.dims[n], a) and _does(both, n, i, b):
                return _joined(both, n, i)
    return None


def _merged(x: Term, y: Term) -> Iterator[Term]:
    """Terms that may be two terms, each where some conditions are known."""
    match x, y:
        case _ if x == y:
            yield x
        case Op("if", (c, p, q)), Op("if", (d, r, s)) if p == r and q == s:
            kind = "if" if any(isinstance(t, Op) and t.op == "if" for t in (c, d)) else "and"
            yield Op("if", (_all_of(kind, _in_turn(conjuncts(c), conjuncts(d))), p, q), x.element)
        case Op("if", (_, p, q)), _ if y in (p, q):
            yield x
        case _, Op("if", (_, p, q)) if x in (p, q):
            yield y
        case Op("if", (c, p, q)), Op("if", (d, r, s)):
            for rest in _merged(q, s):
                yield Op("if", (d, r, Op("if", (c, p, rest), x.element)), x.element)
                yield Op("if", (c, p, Op("if", (d, r, rest), x.element)), x.element)
        case Op(op, args), Op(other, more) if op == other and len(args) == len(more):
            for new in _merged_all(args, more):
                yield replace(x, args=new)
        case Load(buffer, indices), Load(other, more) if buffer is other:
            for new in _merged_all(indices, more):
                yield replace(x, indices=new)
        case (Linear(), Linear() | Number()) | (Number(), Linear()):
            # either may be what is left of the other where a variable is known
            yield from (x, y)
        case Op("if", (c, p, q)), _:
            yield from (Op("if", (c, p, new), x.element) for new in _merged(q, y))
            yield from (Op("if", (c, new, q), x.element) for new in _merged(p, y))
        case _, Op("if", (c, p, q)):
            yield from (Op("if", (c, p, new), x.element) for new in _merged(x, q))
            yield from (Op("if", (c, new, q), x.element) for new in _merged(x, p))
        case _:
            pass


MOST_MERGED = 16
"""Terms that are tried in the place of two."""


def _merged_all(xs: Sequence[Term], ys: Sequence[Term]) -> Iterator[tuple[Term, ...]]:
    every = (list(islice(_merged(x, y), MOST_MERGED)) for x, y in zip(xs, ys, strict=True))
    return islice(product(*every), MOST_MERGED)


def _in_turn(a: list[Term], b: list[Term]) -> list[Term]:
    """What two lists hold, in an order that both have."""
    found: list[Term] = []
    for x in a:
        if x in b:
            found += [y for y in b[: b.index(x)] if y not in found]
        found.append(x)
    return [*found, *(y for y in b if y not in found)]


def _all_of(kind: str, conditions: list[Term]) -> Term:
    """Conditions that must all hold, as `kind` puts them together."""
    whole, *rest = conditions
    for c in rest:
        whole = Op(kind, (whole, c) if kind == "and" else (whole, c, Number(False, BOOL)), BOOL)
    return whole


def _joined(a: Part, name: str, more: Interval) -> list[Leaf]:
    """A part with further iterations."""
    loops = tuple(
        Loop(n, Number(k.start, INT32), Number(len(k), INT32), (), True, a.leaf.loops[0].span, n)
        for n, k in {**a.space.dims, name: a.space.dims[name] | more}.items()
    )
    spaces, values = ([a.space], (a.space.value,)) if a.kind != "values" else unpacked(a.once, a.space)
    once = Once(a.once.buffers, tuple(s.location for s in spaces), values)
    if a.kind not in (None, "values"):
        (buffer,), (place,) = once.buffers, once.places
        once = replace(once, values=(Op(a.kind, (Load(buffer, place), *values), buffer.element),))
    made = stored(once, a.space.guards, ranges_of(loops), a.leaf.span)
    return [Leaf(store, loops, (*a.leaf.place, k)) for k, store in enumerate(made)]
