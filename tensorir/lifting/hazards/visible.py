"""Which iterations of statements compute what anybody may see: what arguments hold, or decides what is done.

The reductions of threads that TVM makes of shuffles hand on, compare and choose what some threads have never written;
of what comes of it, nobody reads anything.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.sets import decided, domain, integer_set
from tensorir.lifting.hazards.before import met_before
from tensorir.lifting.hazards.touches import Touch, Touches
from tensorir.lifting.nests.nest import External, Leaf, Store, While, ranges_of
from tensorir.lifting.nests.terms import Buffer

__all__ = ["Visible", "visible_iterations"]

Visible = Mapping[tuple[int, ...], Any]
"""Sets of iterations, by the place of their statement."""

MANY = 16
"""Of how many questions about sets isl may take the time."""

MOST_ROUNDS = 8
"""How often the iterations of one statement may grow; then all of them count."""


def visible_iterations(statements: Sequence[Leaf], touches: Touches) -> Visible | None:
    """The iterations of each statement whose value may reach somebody: more than do, where in doubt.

    None where isl does not find them.
    """
    return decided(lambda: _found(statements, touches), MANY)


def _found(statements: Sequence[Leaf], touches: Touches) -> Visible:
    memories = {b for leaf in statements for b in leaf.written | leaf.read}
    viewed = {b.root for b in memories if b.memory is not None}
    found = {leaf.place: _none(leaf) for leaf in statements}
    rounds = dict.fromkeys(found, 0)
    at = {leaf.place: leaf for leaf in statements}
    waiting = [(leaf.place, _all(leaf)) for leaf in statements if _is_seen(leaf, viewed)]
    while waiting:
        place, more = waiting.pop()
        if more.is_subset(found[place]):
            continue
        rounds[place] += 1
        found[place] = _all(at[place]) if rounds[place] > MOST_ROUNDS else found[place].union(more).coalesce()
        for leaf in statements:
            for buffer in leaf.written & at[place].read:
                waiting += [(leaf.place, part) for part in _behind(at[place], found[place], leaf, buffer, touches)]
    return found


def _is_seen(leaf: Leaf, viewed: set[Buffer]) -> bool:
    node = leaf.node
    return not isinstance(node, Store) or node.buffer.argument or node.buffer.root in viewed


def _all(leaf: Leaf) -> Any:
    return integer_set([f"{n}_a" for n in leaf.names], domain(leaf, ranges_of(leaf.loops), (), "_a").constraints)


def _none(leaf: Leaf) -> Any:
    return integer_set([f"{n}_a" for n in leaf.names], ["1 = 0"])


def _behind(reader: Leaf, seen: Any, writer: Leaf, buffer: Buffer, touches: Touches) -> Iterator[Any]:
    """The iterations of a store that some iterations of a statement may read from."""
    spots = [s for leaf in (reader, writer) for s in touches.spots_of(leaf) if s.buffer is buffer]
    told = all(isinstance(i, Affine) for s in spots for i in s.indices)
    if isinstance(reader.node, While | External) or not told:
        yield _all(writer)
        return
    for r in touches.of(reader, "_a"):
        for w in touches.of(writer, "_a"):
            if r.buffer is buffer and w.buffer is buffer and w.write and not r.write:
                yield from (_writers(pair, seen, r, w) for pair in met_before(w, r))


def _writers(pairs: Any, seen: Any, r: Touch, w: Touch) -> Any:
    import islpy

    kind = islpy.dim_type.set
    both = pairs.intersect(seen.insert_dims(kind, len(r.leaf.names), len(w.names)))
    return both.project_out(kind, 0, len(r.leaf.names))
