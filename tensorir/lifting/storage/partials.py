"""What a fold in parts must be so that it is one fold: what its parts start from, and which of them is read where."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorir.integers.affine import Affine, Ranges, variable
from tensorir.ir.types import INT32, Interval
from tensorir.lifting.accesses.inverse import Inverse, inverse, written_at
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import boxed, hull_of, value_of_guard
from tensorir.lifting.nests.linear import affine_of, linear, settled
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Term
from tensorir.lifting.storage.copies import whole_space
from tensorir.runtime.errors import Span

__all__ = ["Whole", "around", "begins", "gives_start", "iterations_of", "known_before", "unbound"]


@dataclass(frozen=True, slots=True)
class Whole:
    """Stores that fold what parts left, and what they become without the parts.

    `rounds` says that sums are rounded in another order, `drops` that NaNs are compared in another order.
    """

    old: tuple[Store, ...]
    new: tuple[Node, ...]
    rounds: bool = False
    drops: bool = False


def known_before(buffer: Buffer, first: Leaf, second: Leaf, statements: Sequence[Leaf]) -> bool:
    """Whether a buffer holds at one statement what it held at an earlier one in the iterations that they share."""
    shared = len(_shared_loops(first, second))
    writers = [leaf for leaf in statements if buffer in leaf.written]
    return all(w.place < first.place and len(_shared_loops(w, first)) <= shared for w in writers)


def gives_start(leaf: Leaf, first: Leaf, told: Collection[str]) -> bool:
    """Whether a statement gives each place one number once, before `first` folds anything into it.

    `told` are the loops of that one that a place tells.
    """
    node = leaf.node
    assert isinstance(node, Store)
    space = whole_space(leaf)
    back = inverse([affine_of(t) for t in space.location], space.dims)
    if not isinstance(node.value, Number) or space.guards or back is None:
        return False
    # in a loop whose iterations meet in one place only the first one may give it its start
    ranges = ranges_of(leaf.loops)
    dims, _ = hull_of(leaf.loops, ranges)
    held = {value_of_guard(part) for guard in node.guards for part in conjuncts(settled(guard, ranges))}
    together = [x.name for x in _shared_loops(leaf, first) if x.name not in told]
    at_first = all(len(dims[n]) == 1 or (n, dims[n].start) in held for n in together)
    return leaf.place < first.place and at_first and back.names == frozenset(space.dims)


def begins(leaf: Leaf, numbers: Collection[Term], statements: Sequence[Leaf]) -> bool:
    """Whether what a statement folds into held one of some numbers when it began."""
    node = leaf.node
    assert isinstance(node, Store)
    ranges = ranges_of(leaf.loops)
    places = [linear(i, ranges) for i in node.indices]
    known = [a for a in places if a is not None]
    others = [other for other in statements if node.buffer in other.written and other is not leaf]
    for other in others:
        if not isinstance(other.node, Store) or other.node.value not in numbers or other.place > leaf.place:
            return False
        space = whole_space(other)
        back = inverse([affine_of(t) for t in space.location], space.dims)
        told = None if back is None or len(known) < len(places) else back.at(known, ranges)
        if told is None or not written_at(told, space.dims, space.guards, leaf, ranges):
            return False
    return bool(others)


def _shared_loops(a: Leaf, b: Leaf) -> list[Loop]:
    found: list[Loop] = []
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        found.append(x)
    return found


def _each_once(leaf: Leaf, load: Load, ranges: Ranges) -> bool:
    """Whether each place is read once: what several iterations need, such as sums of rows, is folded once for all."""
    dims, guards = hull_of(leaf.loops, ranges)
    space = boxed(dims, load.indices, Number(0, INT32), (*guards, *leaf.node.guards), {})
    back = inverse([affine_of(t) for t in space.location], space.dims)
    return back is not None and back.names == frozenset(space.dims)


def iterations_of(
    load: Load, inverse: Inverse, dims: Mapping[str, Interval], first: Leaf, second: Leaf
) -> dict[str, Affine] | None:
    """Which iterations of a fold into places wrote what another one reads, None where it is not those of one place.

    Each place is read once, and inside of the dims.
    """
    ranges = ranges_of(second.loops)
    if not _each_once(second, load, ranges):
        return None
    places = [linear(i, ranges) for i in load.indices]
    known = [a for a in places if a is not None]
    told = inverse.at(known, ranges) if len(known) == len(places) else None
    if told is None or not written_at(told, dims, (), second, ranges):
        return None
    return told if all(told.get(x.name) == variable(x.name) for x in _shared_loops(first, second)) else None


Free = list[tuple[str, Interval]]


def unbound(dims: Mapping[str, Interval], told: Mapping[str, Affine], ranges: Ranges) -> tuple[dict[str, Affine], Free]:
    """All dims of a fold into places as indices of another one, and the loops that this one gets for it."""
    taken, values = set(ranges), dict(told)
    free: Free = []
    for dim, interval in dims.items():
        if dim not in told:
            name = dim
            while name in taken:
                name += "_"
            taken.add(name)
            values[dim] = variable(name)
            free.append((name, interval))
    return values, free


def around(free: Free, body: Sequence[Node], span: Span) -> tuple[Node, ...]:
    """Loops around some nodes."""
    nodes = tuple(body)
    for name, i in reversed(free):
        nodes = (Loop(name, Number(i.start, INT32), Number(len(i), INT32), nodes, False, span, name),)
    return nodes
