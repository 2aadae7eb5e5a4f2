"""Races of which data know, or nobody: iterations that are said to run at once, and may meet in what one writes.

They are taken in the order of the text, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.sets import domain, integer_set, same_element
from tensorir.lifting.hazards.proven import in_turn
from tensorir.lifting.hazards.touches import Spot, Touches
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, loads
from tensorir.runtime.errors import NOWHERE

__all__ = ["undecided_races"]

MOST_PAIRS = 64
"""How many pairs of accesses are looked at."""


def undecided_races(nodes: Sequence[Node], touches: Touches) -> list[str]:
    """What the report says of them, once for each buffer."""
    statements = [leaf for leaf in leaves(nodes) if isinstance(leaf.node, Store) and _parallel(leaf)]
    doubtful = {k for k, leaf in enumerate(statements) if any(_open(leaf, s, touches) for s in touches.spots_of(leaf))}
    if not doubtful:
        return []
    found: dict[Buffer, str] = {}
    left = MOST_PAIRS
    for p, a in enumerate(statements):
        for q, b in enumerate(statements[p:], p):
            if (p not in doubtful and q not in doubtful) or not (
                a.written & (b.written | b.read) or b.written & a.read
            ):
                continue
            for x, y in _pairs(a, b, touches):
                if x.buffer in found or x.buffer.loops or in_turn(a, b, x.buffer):
                    continue
                left -= 1
                if left < 0:
                    return list(found.values())
                loop = _meeting(a, b, x, y)
                if loop is not None:
                    found[x.buffer] = _told(x, loop, _of_data(a, x) or _of_data(b, y))
    return list(found.values())


def _told(x: Spot, loop: Loop, of_data: bool) -> str:
    line = f"line {x.span.line}: " if x.span is not NOWHERE else ""
    which = f"iterations of the parallel loop over {loop.title or loop.name}"
    why = "data tell" if of_data else "it is not decided"
    return f"{line}{why} whether {which} meet in {x.buffer.name!r}; they follow the order of the text."


def _parallel(leaf: Leaf) -> bool:
    return any(loop.parallel for loop in leaf.loops)


def _of_data(leaf: Leaf, spot: Spot) -> bool:
    """Whether data tell where an access is made, or whether it is."""
    places = [i for i in spot.indices if not isinstance(i, Affine)]
    return any(loads(t) for t in (*places, *leaf.node.guards[: spot.guards], *spot.conditions))


def _open(leaf: Leaf, spot: Spot, touches: Touches) -> bool:
    """Whether data tell where an access is made or whether it is, or nothing does: no sum of variables, of too many."""
    return _of_data(leaf, spot) or (_is_unknown(spot) and not touches.knows(leaf, spot))


def _is_unknown(spot: Spot) -> bool:
    return any(not isinstance(i, Affine) for i in spot.indices)


def _pairs(a: Leaf, b: Leaf, touches: Touches) -> Iterator[tuple[Spot, Spot]]:
    """Accesses of one buffer of which one writes, and over which data decide."""
    for x in touches.spots_of(a):
        for y in touches.spots_of(b):
            if x.buffer is y.buffer and (x.write or y.write) and (_open(a, x, touches) or _open(b, y, touches)):
                yield x, y


def _meeting(a: Leaf, b: Leaf, x: Spot, y: Spot) -> Loop | None:
    """The outermost parallel loop of which two iterations may touch one element, as far as data do not decide."""
    first = domain(a, ranges_of(a.loops), (), "_a", guards=x.guards)
    second = domain(b, ranges_of(b.loops), (), "_b", guards=y.guards)
    names = [*(first.names[n] for n in a.names), *(second.names[n] for n in b.names)]
    places = [[i if isinstance(i, Affine) else None for i in spot.indices] for spot in (x, y)]
    shape, ranges = x.buffer.shape, (ranges_of(a.loops), ranges_of(b.loops))
    same = same_element(places[0], places[1], shape, first.names, second.names, *ranges)
    every = [*first.constraints, *second.constraints, *same]
    common = [one for one, _ in takewhile(lambda pair: pair[0] is pair[1], zip(a.loops, b.loops, strict=False))]
    for k, loop in enumerate(common):
        own = loop.name in x.buffer.apart or not set(x.buffer.private) <= {other.name for other in common[:k]}
        if loop.parallel and not own:
            outer = [f"{other.name}_a = {other.name}_b" for other in common[:k]]
            if not integer_set(names, [*every, *outer, f"{loop.name}_a != {loop.name}_b"]).is_empty():
                return loop
    return None
