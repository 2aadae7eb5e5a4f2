"""Storage that holds parts of other storage at the same places: what is read there is read from what it holds.

`S[e] = A[e]`, whatever e is, makes `S[x]` the same as `A[x]`, wherever x is one of the elements that were stored.
A tile that begins and ends within rows, in shared memory, is of another size in every block, and no sum says which
elements it holds: these are counted, block by block.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tensorir.lift.accesses.space import hull_of
from tensorir.lift.nests.linear import linear
from tensorir.lift.nests.nest import Check, Leaf, Node, Store, leaves, ranges_of
from tensorir.lift.nests.numbers import values
from tensorir.lift.nests.terms import Buffer, Load, Term, buffers_of, loads, rebuilt
from tensorir.lift.storage.copies import changed
from tensorir.lift.storage.places import own, without

__all__ = ["read_through"]

MOST_COUNTED = 1 << 18
"""How many iterations of a statement, and how many elements of all copies of a buffer, are looked at one by one."""


def read_through(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes without storage that holds what other storage holds at the same places."""
    statements = leaves(nodes)
    touching: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written | leaf.read:
            touching.setdefault(buffer, []).append(leaf)
    bounding = {b for leaf in statements for x in leaf.loops for b in buffers_of(x.low) | buffers_of(x.extent)}
    mine = own(statements) - bounding
    found: dict[Buffer, Buffer] = {}
    for leaf in statements:
        node = leaf.node
        if not isinstance(node, Store) or node.atomic or node.buffer not in mine:
            continue
        source = _source(leaf, node)
        if source is None or not all(isinstance(x.node, Store | Check) for x in touching[node.buffer]):
            continue
        readers = [x for x in touching[node.buffer] if x is not leaf]
        changing = [x for x in statements if any(b.root is source.root for b in x.written)]
        if any(node.buffer in x.written for x in readers) or any(x.place[0] >= leaf.place[0] for x in changing):
            continue
        if all(leaf.place < x.place and _held(node, leaf, x) for x in readers):
            found[node.buffer] = source
    if not found:
        return tuple(nodes)
    gone = {x.node for x in statements if isinstance(x.node, Store) and x.node.buffer in found}

    def rule(t: Term) -> Term | None:
        if not isinstance(t, Load) or t.buffer not in found:
            return None
        source = found[t.buffer]
        while source in found:
            source = found[source]
        return Load(source, t.indices, t.span)

    def over(t: Term) -> Term:
        return rebuilt(t, rule) if buffers_of(t) & found.keys() else t

    def inner(n: Node) -> Node:
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return tuple(inner(kept) for node in nodes if (kept := without(node, gone)) is not None)


def _source(leaf: Leaf, node: Store) -> Buffer | None:
    """What a statement copies, each element to the same place; None where sums say all of it."""
    match node.value:
        case Load(source, indices) if source is not node.buffer and indices == node.indices:
            pass
        case _:
            return None
    if any(loads(t) for t in (*node.indices, *node.guards)):
        return None
    ranges = ranges_of(leaf.loops)
    sums = [a for i in node.indices if (a := linear(i, ranges)) is not None and a.is_linear]
    return None if len(sums) == len(node.indices) else source


def _held(node: Store, w: Leaf, r: Leaf) -> bool:
    """Whether an iteration that reads finds what the same iteration of the loops around both stored."""
    common = [x for x, y in zip(w.loops, r.loops, strict=False) if x is y]
    if any(x is not y for x, y in zip(common, w.loops, strict=False)):
        return False
    names = list(dict.fromkeys((*(x.name for x in common), *node.buffer.private)))
    if not all(n in w.names and n in r.names for n in names):
        return False
    there, here = ranges_of(w.loops), ranges_of(r.loops)
    if any(there[n] != here[n] for n in names):
        return False
    sizes = [there[n][1] - there[n][0] + 1 for n in names]
    shape = (*sizes, *node.buffer.shape)
    if prod(shape) > MOST_COUNTED:
        return False
    held = np.zeros(shape, bool)
    stored = _points(w, names, node.indices)
    if stored is None or not _inside(stored, shape):
        return False
    held[tuple(stored)] = True
    for load in dict.fromkeys(x for x in r.reads if x.buffer is node.buffer):
        needed = None if any(loads(i) for i in load.indices) else _points(r, names, load.indices)
        if needed is None or not _inside(needed, shape) or not held[tuple(needed)].all():
            return False
    return True


def _points(leaf: Leaf, names: Sequence[str], indices: Sequence[Term]) -> list[Any] | None:
    """The iterations of some loops, from 0 on, and the places where a statement is in them; None where data tell."""
    ranges = ranges_of(leaf.loops)
    dims, guards = hull_of(leaf.loops, ranges)
    if prod(len(i) for i in dims.values()) > MOST_COUNTED:
        return None
    grid = dict(zip(dims, np.ix_(*(np.arange(i.start, i.stop) for i in dims.values())), strict=True))
    whole = tuple(len(i) for i in dims.values())
    told = [g for g in (*guards, *leaf.node.guards) if not loads(g)]
    found = [values(t, grid) for t in (*told, *indices)]
    if any(f is None for f in found):
        return None
    spread = [np.broadcast_to(f, whole) for f in found if f is not None]
    here = np.logical_and.reduce(spread[: len(told)]) if told else np.ones(whole, bool)
    places = [np.broadcast_to(grid[n] - dims[n].start, whole) for n in names]
    return [p[here] for p in (*places, *spread[len(told) :])]


def _inside(points: Sequence[Any], shape: Sequence[int]) -> bool:
    return all(not p.size or (p.min() >= 0 and p.max() < size) for p, size in zip(points, shape, strict=True))
