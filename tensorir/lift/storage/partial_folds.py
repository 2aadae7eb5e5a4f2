"""Folds in parts are one fold: what a statement folds into places, and another one folds from there, is folded at once.

`T[k1] = T[k1] + v(k0, k1)` for all k0, k1, then `C = C + T[k1]` for all k1, is `C = C + v(k0, k1)`, where nothing else
touches T, T starts from nothing, and each place is read once. Terms of floats are taken in another order, so programs
that are exact keep parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.lift.accesses.inverse import Inverse, at_iteration, inverse, written_at
from tensorir.lift.accesses.sets import conjuncts
from tensorir.lift.accesses.space import Space, boxed, hull_of, substituted, value_of_guard
from tensorir.lift.emission.folds import fold_of, neutral, rounds
from tensorir.lift.nests.affine import Affine, Ranges, variable
from tensorir.lift.nests.linear import affine_of, linear, settled
from tensorir.lift.nests.nest import Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.lift.nests.terms import Buffer, Load, Number, Op, Term, buffers_of
from tensorir.lift.storage.copies import whole_space
from tensorir.source import Span
from tensorir.types import INT32, Interval

__all__ = ["folded_at_once"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """A fold into places: the statement, its iterations, and the one that a place tells."""

    leaf: Leaf
    op: str
    space: Space
    inverse: Inverse


def folded_at_once(nodes: Sequence[Node], merged: list[Span]) -> tuple[Node, ...]:
    """The nodes with folds of folds as one; `merged` gets the places where that changes the order of rounded sums."""
    nodes = tuple(nodes)
    while True:
        statements = leaves(nodes)
        found = next((m for b, users in _touching(statements).items() if (m := _made(b, users, statements))), None)
        if found is None:
            return nodes
        old, new = found
        fold = fold_of(old)
        if fold is not None and rounds(fold[0], old.buffer.element):
            merged.append(old.span)
        nodes = tuple(_replaced(node, old, new) for node in nodes)


def _touching(statements: Sequence[Leaf]) -> dict[Buffer, list[Leaf]]:
    """The statements that touch each buffer of the program's own."""
    found: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for b in leaf.read | leaf.written:
            if not b.argument and not b.loops and b.value is None and not b.exact:
                found.setdefault(b, []).append(leaf)
    return found


def _made(buffer: Buffer, touching: Sequence[Leaf], statements: Sequence[Leaf]) -> tuple[Store, Node] | None:
    """The statement that folds from a buffer, and what it becomes without it."""
    readers = [leaf for leaf in touching if buffer in leaf.read]
    starts = [leaf for leaf in touching if buffer not in leaf.read]
    if len(readers) != 2 or not starts or not all(isinstance(leaf.node, Store) for leaf in touching):
        return None
    first, second = readers
    parts = _parts(first, buffer)
    if parts is None or not all(_starts(leaf, parts) for leaf in starts):
        return None
    if not all(_known_before(b, parts.leaf, second, statements) for b in parts.leaf.read - {buffer}):
        return None
    # by what a fold starts from nothing changes, or nothing changes any more
    begun = {n.value for leaf in starts if isinstance(n := leaf.node, Store)}
    plain = all(isinstance(v, Number) and v.value == neutral(parts.op, v.element) for v in begun)
    if plain or (parts.op in _AGAIN and len(begun) == 1 and _begins(second, begun, statements)):
        return _whole(parts, second)
    return None


_AGAIN = frozenset({"min", "max", "and", "or", "bit_and", "bit_or"})
"""What is folded in twice counts once."""


def _parts(leaf: Leaf, buffer: Buffer) -> _Parts | None:
    node = leaf.node
    assert isinstance(node, Store)
    fold = fold_of(node) if node.buffer is buffer else None
    if fold is None:
        return None
    op, term, conditions = fold
    dims, guards = hull_of(leaf.loops, ranges_of(leaf.loops))
    every = (*guards, *node.guards, *conditions)
    # the loops as they are, or what their indices take apart and put together
    for space in (
        substituted(Space(dims, node.indices, term, every), {}, dims, every),
        boxed(dims, node.indices, term, every, {}),
    ):
        back = inverse([affine_of(t) for t in space.location], space.dims)
        if back is not None and len(back.names) < len(space.dims):
            return _Parts(leaf, op, space, back)
    return None


def _known_before(buffer: Buffer, first: Leaf, second: Leaf, statements: Sequence[Leaf]) -> bool:
    """Whether a buffer holds at one statement what it held at an earlier one in the iterations that they share."""
    shared = len(_common(first, second))
    writers = [leaf for leaf in statements if buffer in leaf.written]
    return all(w.place < first.place and len(_common(w, first)) <= shared for w in writers)


def _starts(leaf: Leaf, parts: _Parts) -> bool:
    """Whether a statement gives each place one number once, before anything is folded into it."""
    node = leaf.node
    assert isinstance(node, Store)
    space = whole_space(leaf)
    back = None if space is None else inverse([affine_of(t) for t in space.location], space.dims)
    if not isinstance(node.value, Number) or space is None or space.guards or back is None:
        return False
    # in a loop whose iterations meet in one place only the first one may give it its start
    ranges = ranges_of(leaf.loops)
    dims, _ = hull_of(leaf.loops, ranges)
    held = {value_of_guard(part) for guard in node.guards for part in conjuncts(settled(guard, ranges))}
    together = [x.name for x in _common(leaf, parts.leaf) if x.name not in parts.inverse.names]
    at_first = all(len(dims[n]) == 1 or (n, dims[n].start) in held for n in together)
    return leaf.place < parts.leaf.place and at_first and back.names == frozenset(space.dims)


def _begins(leaf: Leaf, numbers: Collection[Term], statements: Sequence[Leaf]) -> bool:
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
        back = None if space is None else inverse([affine_of(t) for t in space.location], space.dims)
        told = None if back is None or len(known) < len(places) else back.at(known, ranges)
        if space is None or told is None or not written_at(told, space.dims, space.guards, leaf, ranges):
            return False
    return bool(others)


def _common(a: Leaf, b: Leaf) -> list[Loop]:
    found: list[Loop] = []
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        found.append(x)
    return found


def _whole(parts: _Parts, leaf: Leaf) -> tuple[Store, Node] | None:
    """The statement that folds from places as one that folds what was folded into them."""
    node = leaf.node
    fold = fold_of(node) if isinstance(node, Store) else None
    if fold is None or not isinstance(node, Store):
        return None
    op, load, conditions = fold
    if not isinstance(load, Load):
        return None
    buffer = load.buffer
    if op != parts.op or node.buffer.exact or node.buffer.element != buffer.element or leaf.place < parts.leaf.place:
        return None
    others = (*load.indices, *node.indices, *node.guards, *conditions)
    if buffer not in parts.leaf.written or any(buffer in buffers_of(t) for t in others):
        return None
    ranges = ranges_of(leaf.loops)
    if not _each_once(leaf, load, ranges):
        return None
    places = [linear(i, ranges) for i in load.indices]
    known = [a for a in places if a is not None]
    told = parts.inverse.at(known, ranges) if len(known) == len(places) else None
    if told is None or not written_at(told, parts.space.dims, (), leaf, ranges):
        return None
    if any(told.get(x.name) != variable(x.name) for x in _common(parts.leaf, leaf)):
        return None
    return node, _at_once(parts, node, conditions, told, ranges)


def _each_once(leaf: Leaf, load: Load, ranges: Ranges) -> bool:
    """Whether each place is read once: what several iterations need, such as sums of rows, is folded once for all."""
    dims, guards = hull_of(leaf.loops, ranges)
    space = boxed(dims, load.indices, Number(0, INT32), (*guards, *leaf.node.guards), {})
    back = inverse([affine_of(t) for t in space.location], space.dims)
    return back is not None and back.names == frozenset(space.dims)


def _at_once(
    parts: _Parts, node: Store, conditions: Sequence[Term], told: Mapping[str, Affine], ranges: Ranges
) -> Node:
    taken, values = set(ranges), dict(told)
    free: list[tuple[str, Interval]] = []
    for dim, interval in parts.space.dims.items():
        if dim not in told:
            name = dim
            while name in taken:
                name += "_"
            taken.add(name)
            values[dim] = variable(name)
            free.append((name, interval))
    guards = (*node.guards, *conditions, *(at_iteration(g, values) for g in parts.space.guards))
    value = Op(
        parts.op, (Load(node.buffer, node.indices), at_iteration(parts.space.value, values)), node.buffer.element
    )
    new: Node = Store(node.buffer, node.indices, value, guards, node.span)
    span = parts.leaf.loops[0].span
    for name, i in reversed(free):
        new = Loop(name, Number(i.start, INT32), Number(len(i), INT32), (new,), False, span, name)
    return new


def _replaced(node: Node, old: Store, new: Node) -> Node:
    match node:
        case Loop(body=body):
            return replace(node, body=tuple(_replaced(inner, old, new) for inner in body))
        case _:
            return new if node is old else node
