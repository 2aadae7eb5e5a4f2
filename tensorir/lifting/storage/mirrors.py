"""Storage that holds parts of other storage, in places that no sum tells: what is read there is read from there.

`S[q(t)] = A[p(t)]` makes what is read of S an element of A, and where it is the one at `y + o`, whatever iteration t
stored it, it is read there. A tile that begins and ends within rows, in shared memory, is of another size in every
block, and no sum says which elements it holds: these are counted, block by block. What tiles hold of something that is
computed is computed once for all of them, and read from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.integers.affine import Affine
from tensorir.ir.types import INT32
from tensorir.lifting.accesses.sources import stored_with
from tensorir.lifting.accesses.space import Space, hull_of
from tensorir.lifting.nests.linear import Ranges, affine_of, settled
from tensorir.lifting.nests.nest import Check, Leaf, Node, Store, changed, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, buffers_of, loads, rebuilt
from tensorir.lifting.storage.inlining import by_what_it_needs
from tensorir.lifting.storage.places import own, without

__all__ = ["read_through"]


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
    """Whether a statement stores the same if it runs before the outermost loop around it."""
    if node.atomic or node.buffer in leaf.read or any(loads(t) for t in (*node.indices, *node.guards)):
        return False
    inside = {b.root for b in leaf.read}
    return not any(b.private or b.loops for b in leaf.read) and not any(
        x.place[0] >= leaf.place[0] and any(b.root in inside for b in x.written) for x in statements
    )


def _source(leaf: Leaf, node: Store) -> tuple[tuple[Node, ...], Load] | None:
    """What a statement's elements can be read from, in each of its iterations, and what fills that before it.

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
    """Whether a sum leaves out numbers between those that it is: `6 × i + j` where j is below 5."""
    reach = 0
    for atom, factor in sorted(index.terms, key=lambda t: abs(t[1])):
        low, high = ranges[atom] if isinstance(atom, str) else (0, 1)
        if high > low and abs(factor) > reach + 1:
            return True
        reach += abs(factor) * (high - low)
    return False


def _instead(source: Load, w: Leaf, readers: Sequence[Leaf]) -> dict[tuple[Node, Load], Load] | None:
    """What readers read instead of what a statement stored; None where that is not known of one of them."""
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
