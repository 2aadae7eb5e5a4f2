"""Threads that take turns together: what each of them keeps to itself has a place of its own in one buffer.

    while more:                              while more:
      for t in threads: x = f(t)      →        for t in threads: x[t] = f(t)
      for t in threads: B[t] = x               for t in threads: B[t] = x[t]

Where threads stand in no while, `copies` gives them places only if they would meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensorir.ir.types import INT32
from tensorir.lifting.nests.nest import Loop, Node, While, leaves, moved, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Term

__all__ = ["with_threads_apart"]


def with_threads_apart(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a dim for every loop inside of a while of which each iteration has a copy of a buffer."""
    found: dict[Buffer, dict[str, int]] = {}
    for buffer, loop in _private(nodes):
        low, high = ranges_of((loop,))[loop.name]
        found.setdefault(buffer, {})[loop.name] = high - low + 1
    copies: dict[Buffer, tuple[Buffer, tuple[Term, ...]]] = {}
    for buffer, extents in found.items():
        names = [n for n in buffer.private if n in extents]
        shape = (*(extents[n] for n in names), *buffer.shape)
        rest = tuple(n for n in buffer.private if n not in extents)
        copies[buffer] = replace(buffer, shape=shape, private=rest), tuple(Index(n, INT32) for n in names)
    return moved(nodes, copies)


def _private(nodes: Sequence[Node], inside: bool = False) -> Iterator[tuple[Buffer, Loop]]:
    """What is private to iterations of loops that stand inside of a while."""
    for leaf in leaves(nodes):
        if isinstance(leaf.node, While):
            yield from _private(leaf.node.body, inside=True)
        if inside:
            touched = leaf.written | leaf.read
            yield from ((b, loop) for b in touched for loop in leaf.loops if loop.name in b.private)
