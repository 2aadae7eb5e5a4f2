"""Storage that is filled anew is another storage: each of its lifetimes gets a buffer of its own.

`T` that a program fills, reads, and fills again without reading what it held before, is `T`, and then `T_`: what shares
memory only because it is not needed at the same time has its own shape, and its own place among the statements. What
parts of one loop fill and read, each in its own rows, shares no memory, and stays one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import permutations

from tensorir.lift.accesses.touched import places
from tensorir.lift.nests.nest import External, Leaf, Loop, Node, While, leaves, ranges_of
from tensorir.lift.nests.terms import Buffer, Load, Term, rebuilt
from tensorir.lift.storage.copies import changed
from tensorir.lift.storage.filled import filled_first
from tensorir.types import Interval

__all__ = ["with_lifetimes"]

_Way = tuple[bool, tuple[tuple[int, ...], ...]]
"""An access: whether it writes, and the coefficients of each index."""


def with_lifetimes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with buffers of their own apart where nothing of what they held is read any more."""
    nodes = tuple(nodes)
    touching: dict[Buffer, list[Leaf]] = {}
    for leaf in leaves(nodes):
        for b in leaf.read | leaf.written:
            touching.setdefault(b, []).append(leaf)
    names = {b.name for b in touching}
    for buffer, users in touching.items():
        # what each thread has of its own is one name for many buffers
        several = buffer.argument or buffer.loops or buffer.private or buffer.memory is not None
        own = not several and buffer.value is None
        writers = [leaf for leaf in users if buffer in leaf.written]
        opaque = any(isinstance(leaf.node, While | External) for leaf in users)
        if own and not opaque and len(writers) > 1 and any(leaf.place > writers[0].place for leaf in users):
            nodes = _apart(nodes, buffer, (), names)
    return nodes


def _apart(nodes: tuple[Node, ...], buffer: Buffer, loops: tuple[Loop, ...], names: set[str]) -> tuple[Node, ...]:
    """The body of some loops with the lifetimes of a buffer apart, which nothing outside of it touches."""
    at = [k for k in range(len(nodes)) if _users(nodes[k : k + 1], buffer, loops)]
    if len(at) == 1:
        (k,) = at
        inner = nodes[k]
        if not isinstance(inner, Loop):
            return nodes
        body = _apart(inner.body, buffer, (*loops, inner), names)
        # what an iteration leaves behind may be read by the next one
        alone = body is not inner.body and filled_first(buffer, _users(nodes, buffer, loops), len(loops) + 1)
        return (*nodes[:k], replace(inner, body=body), *nodes[k + 1 :]) if alone else nodes
    for k in at[1:]:
        before, users = _users(nodes[:k], buffer, loops), _users(nodes[k:], buffer, loops)
        again = buffer not in users[0].read and any(buffer in x.read for x in before)
        if again and not _side_by_side(buffer, before, users) and filled_first(buffer, users, len(loops)):
            new = replace(buffer, name=_fresh(buffer.name, names))
            later = tuple(_with(node, buffer, new) for node in nodes[k:])
            return _apart((*nodes[:k], *later), new, loops, names)
    return nodes


def _users(nodes: Sequence[Node], buffer: Buffer, loops: tuple[Loop, ...]) -> list[Leaf]:
    """What touches a buffer in nodes inside of some loops, in the order of the text."""
    return [leaf for leaf in leaves(nodes, loops) if buffer in leaf.read | leaf.written]


def _side_by_side(buffer: Buffer, before: Sequence[Leaf], after: Sequence[Leaf]) -> bool:
    """Whether statements touch elements next to those that others touch, in the same ways, as parts of a loop do."""
    a, b = _touched(buffer, before), _touched(buffer, after)
    if a is None or b is None or a[0] != b[0]:
        return False
    apart = [(i, j) for i, j in zip(a[1], b[1], strict=True) if i != j]
    return len(apart) == 1 and any(x.stop == y.start for x, y in permutations(apart[0]))


def _touched(buffer: Buffer, users: Sequence[Leaf]) -> tuple[frozenset[_Way], list[Interval]] | None:
    """In which ways statements touch a buffer, and which elements along each axis; None where data tell it."""
    ways: set[_Way] = set()
    reach: list[list[Interval]] = [[] for _ in buffer.shape]
    for leaf in users:
        ranges = ranges_of(leaf.loops)
        for write, place in places(leaf, buffer):
            spans = [None if a is None else a.range(ranges) for a in place]
            for axis, span in zip(reach, spans, strict=True):
                if span is None:
                    return None
                axis.append(Interval(span[0], span[1] + 1))
            ways.add((write, tuple(tuple(sorted(c for _, c in a.terms)) for a in place if a is not None)))
    return frozenset(ways), [reduce(Interval.__or__, axis) for axis in reach]


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _with(node: Node, old: Buffer, new: Buffer) -> Node:
    def rule(t: Term) -> Term | None:
        return Load(new, t.indices, t.span) if isinstance(t, Load) and t.buffer is old else None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        return changed(n, over, inner, lambda b: new if b is old else b, lambda b: ())

    return inner(node)
