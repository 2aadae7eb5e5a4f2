"""Folds in parts are one fold: what a statement folds into places, and another one folds from there, is folded at once.

`T[k1] = T[k1] + v(k0, k1)` for all k0, k1, then `C = C + T[k1]` for all k1, is `C = C + v(k0, k1)`, where nothing else
touches T, T starts from nothing, and each place is read once. Terms of floats are taken in another order, so programs
that are exact keep parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorir.ir.builtins import TABLE
from tensorir.lifting.accesses.inverse import Inverse, at_iteration, inverse
from tensorir.lifting.accesses.space import Space, boxed, hull_of, substituted
from tensorir.lifting.emission.folds import fold_of, neutral, rounds
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, buffers_of
from tensorir.lifting.storage.partial_tuples import joint
from tensorir.lifting.storage.partials import (
    Whole,
    around,
    begins,
    gives_start,
    iterations_of,
    known_before,
    unbound,
)

__all__ = ["folded_at_once"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """A fold into places: the statement, its iterations, and the one that a place tells."""

    leaf: Leaf
    op: str
    space: Space
    inverse: Inverse


def folded_at_once(nodes: Sequence[Node], merged: list[Whole]) -> tuple[Node, ...]:
    """The nodes with folds of folds as one; `merged` gets what became of them."""
    nodes = tuple(nodes)
    while True:
        statements = leaves(nodes)
        touching = _touching(statements)
        ways = (way for b in touching for way in (_made(b, touching[b], statements), joint(b, touching, statements)))
        found = next(filter(None, ways), None)
        if found is None:
            return nodes
        merged.append(found)
        nodes = _replaced(nodes, found.old, found.new)


def _touching(statements: Sequence[Leaf]) -> dict[Buffer, list[Leaf]]:
    """The statements that touch each buffer of the program's own."""
    found: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for b in leaf.read | leaf.written:
            if not b.argument and not b.loops and b.value is None and not b.exact:
                found.setdefault(b, []).append(leaf)
    return found


def _made(buffer: Buffer, touching: Sequence[Leaf], statements: Sequence[Leaf]) -> Whole | None:
    """The statement that folds from a buffer, and what it becomes without it."""
    readers = [leaf for leaf in touching if buffer in leaf.read]
    starts = [leaf for leaf in touching if buffer not in leaf.read]
    if len(readers) != 2 or not starts or not all(isinstance(leaf.node, Store) for leaf in touching):
        return None
    first, second = readers
    parts = _parts(first, buffer)
    if parts is None or not all(gives_start(leaf, first, parts.inverse.names) for leaf in starts):
        return None
    if not all(known_before(b, parts.leaf, second, statements) for b in parts.leaf.read - {buffer}):
        return None
    # by what a fold starts from nothing changes, or nothing changes any more
    begun = {n.value for leaf in starts if isinstance(n := leaf.node, Store)}
    plain = all(isinstance(v, Number) and v.value == neutral(parts.op, v.element) for v in begun)
    if plain or (TABLE[parts.op].idempotent and len(begun) == 1 and begins(second, begun, statements)):
        return _whole(parts, second)
    return None


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


def _whole(parts: _Parts, leaf: Leaf) -> Whole | None:
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
    told = iterations_of(load, parts.inverse, parts.space.dims, parts.leaf, leaf)
    if told is None:
        return None
    values, free = unbound(parts.space.dims, told, ranges_of(leaf.loops))
    guards = (*node.guards, *conditions, *(at_iteration(g, values) for g in parts.space.guards))
    value = Op(op, (Load(node.buffer, node.indices), at_iteration(parts.space.value, values)), node.buffer.element)
    new = Store(node.buffer, node.indices, value, guards, node.span)
    return Whole((node,), around(free, (new,), parts.leaf.loops[0].span), rounds(op, node.buffer.element))


def _replaced(nodes: Sequence[Node], old: Sequence[Store], new: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with new ones in the place of the first of some stores, and without the others."""
    first, *_ = old
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body):
                found.append(replace(node, body=_replaced(body, old, new)))
            case _ if node in old:
                found += new if node is first else ()
            case _:
                found.append(node)
    return tuple(found)
