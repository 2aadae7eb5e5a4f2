"""How statements touch a buffer: whether they read or write it, and where, as far as indices are sums."""

from __future__ import annotations

from tensorir.integers.affine import Affine
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Store, While, ranges_of
from tensorir.lifting.nests.terms import Buffer
from tensorir.runtime.memory import remembered

__all__ = ["Places", "places"]

Places = tuple[tuple[bool, tuple[Affine | None, ...]], ...]
"""Accesses of a buffer: whether they write, and their indices where they are sums."""


def places(leaf: Leaf, buffer: Buffer) -> Places:
    """How a statement accesses a buffer, each way once."""
    return _places_in(leaf.node, leaf.loops, buffer)


@remembered("facts of nests", limit=4096)
def _places_in(node: Store | While | Check | External, loops: tuple[Loop, ...], buffer: Buffer) -> Places:
    ranges = ranges_of(loops)
    found: list[tuple[bool, tuple[Affine | None, ...]]] = []
    if isinstance(node, Store) and node.buffer is buffer:
        found.append((True, tuple(linear(i, ranges) for i in node.indices)))
    for load in Leaf(node, loops, ()).reads:
        if load.buffer is buffer:
            place = (False, tuple(linear(i, ranges) for i in load.indices))
            if place not in found:
                found.append(place)
    return tuple(found)
