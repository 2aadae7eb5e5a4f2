"""Axes that belong together are one: storage of a tile, kept per tile, is storage of the whole.

A buffer of the program's own that is only touched as `T[t, r]`, by statements for which `t` and `r` are nothing but
`t * n + r`, with n the extent of r's axis, is `T[t * n + r]`. So tiles that were cut out of a loop go away with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorir.lift.accesses.space import Space
from tensorir.lift.nests.affine import Affine
from tensorir.lift.nests.linear import affine_of
from tensorir.lift.nests.nest import Leaf, Node, Store, leaves
from tensorir.lift.nests.terms import Buffer, Load, Number, Op, Term, rebuilt, walk
from tensorir.lift.storage.copies import changed, whole_space
from tensorir.lift.storage.inlining import sums_in

__all__ = ["with_merged_axes"]

MOST_ROUNDS = 8


def with_merged_axes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with axes of their own buffers merged, two at a time, as long as some belong together."""
    nodes = tuple(nodes)
    for _ in range(MOST_ROUNDS):
        found = _found(leaves(nodes))
        if not found:
            return nodes
        nodes = tuple(_changed(node, found) for node in nodes)
    return nodes


def _found(statements: Sequence[Leaf]) -> dict[Buffer, tuple[Buffer, int, int]]:
    """Buffers with two axes that belong together: what they become, and which axes."""
    touching: dict[Buffer, list[Leaf]] = {}
    for leaf in statements:
        for buffer in leaf.written | leaf.read:
            if not buffer.argument and not buffer.loops and buffer.value is None and len(buffer.shape) > 1:
                touching.setdefault(buffer, []).append(leaf)
    found: dict[Buffer, tuple[Buffer, int, int]] = {}
    for buffer, users in touching.items():
        uses = [use for leaf in users for use in _uses(leaf, buffer)]
        if None in uses:
            continue
        known = [u for u in uses if u is not None]
        pairs = [(p, q) for p in range(len(buffer.shape)) for q in range(len(buffer.shape)) if p != q]
        pair = next((pq for pq in pairs if _together(buffer.shape[pq[1]], *pq, known)), None)
        if pair is not None:
            p, q = pair
            shape = list(buffer.shape)
            shape[q] *= shape[p]
            del shape[p]
            found[buffer] = (replace(buffer, shape=tuple(shape), copies=_copies(buffer, p, q)), p, q)
    return found


def _copies(buffer: Buffer, p: int, q: int) -> tuple[str, ...]:
    """The loops of which axes are copies, after p became a part of q: of none is what has the elements of both."""
    own = [*buffer.copies, *("" for _ in range(len(buffer.shape) - len(buffer.copies)))]
    kept = [own[k] for k, other in ((p, q), (q, p)) if buffer.shape[other] == 1]
    own[q] = kept[0] if kept else ""
    del own[p]
    return tuple(own) if buffer.copies else ()


Use = tuple[list[Affine], list[Affine]]
"""The indices of an access, and the other sums of the statement."""


def _uses(leaf: Leaf, buffer: Buffer) -> list[Use | None]:
    space: Space | None = whole_space(leaf) if isinstance(leaf.node, Store) else None
    if space is None or not isinstance(leaf.node, Store):
        return [None]
    places: list[tuple[Term, ...]] = [space.location] if leaf.node.buffer is buffer else []
    others: list[Term] = [] if leaf.node.buffer is buffer else [*space.location]
    for term in (space.value, *space.guards):
        places += [t.indices for t in walk(term) if isinstance(t, Load) and t.buffer is buffer]
        # accesses of the buffer itself do not count: they change with it
        others.append(
            rebuilt(term, lambda t: Number(0, t.element) if isinstance(t, Load) and t.buffer is buffer else None)
        )
    rest = sums_in(others)
    uses: list[Use | None] = []
    for place in places:
        indices = [affine_of(t) for t in place]
        known = [a for a in indices if a is not None and a.names <= space.dims.keys()]
        uses.append(None if rest is None or len(known) < len(indices) else (known, rest))
    return uses


def _together(size: int, p: int, q: int, uses: Sequence[Use]) -> bool:
    """Whether all accesses need the variables of two axes only as `p * size + q`, and some have several."""
    several = False
    for indices, rest in uses:
        a, b = indices[p], indices[q]
        apart = [i for k, i in enumerate(indices) if k not in (p, q)]
        whole = a.times(size).plus(b)
        if not whole.is_linear or a.names & b.names or any(i.names & whole.names for i in apart):
            return False
        several |= any(a.names & r.names for r in rest)
        if not all(_multiple(r, whole) for r in rest):
            return False
    return several


def _multiple(a: Affine, whole: Affine) -> bool:
    """Whether a sum has the variables of another in that one's ratios."""
    pairs = [(a.coefficient(n), c) for n, c in whole.terms]
    (x, c), *others = pairs or [(0, 1)]
    return all(x * d == y * c for y, d in others)


def _changed(node: Node, found: Mapping[Buffer, tuple[Buffer, int, int]]) -> Node:
    def indices(old: Sequence[Term], size: int, p: int, q: int) -> tuple[Term, ...]:
        element = old[q].element
        outer = old[p] if old[p].element == element else Op("cast", (old[p],), element)
        whole = Op("plus", (Op("multiplies", (outer, Number(size, element)), element), old[q]), element)
        return tuple(whole if k == q else i for k, i in enumerate(old) if k != p)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in found:
            new, p, q = found[t.buffer]
            return Load(new, indices(t.indices, t.buffer.shape[q], p, q), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            new, p, q = found[n.buffer]
            places = indices(tuple(map(over, n.indices)), n.buffer.shape[q], p, q)
            return Store(new, places, over(n.value), tuple(map(over, n.guards)), n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
