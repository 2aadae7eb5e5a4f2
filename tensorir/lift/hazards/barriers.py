"""Threads that meet between two barriers: one writes what another reads or writes, in statements of their own.

Where a kernel has barriers, statements have the number of the stretch between two of them. Two statements of one
stretch, in one iteration of the loops around both, are in no order for threads that differ.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorir.errors import Diagnostic, Note
from tensorir.lift.accesses.overlap import box_of, overlap
from tensorir.lift.accesses.sets import integer_set, point, same_element
from tensorir.lift.hazards.proven import Touch, Touches, element_of, iteration_of
from tensorir.lift.nests.nest import Leaf, Node, Store, leaves, ranges_of

__all__ = ["unordered"]

MOST_SETS = 256
"""How many pairs of accesses are looked at that need sets of integers; the others are left to the checked mode."""


def unordered(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """The first pair of statements that a barrier has to stand between, and none does."""
    stretches: dict[int, list[Leaf]] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf.node, Store) and leaf.node.stretch is not None:
            stretches.setdefault(leaf.node.stretch, []).append(leaf)
    budget = [MOST_SETS]
    for members in stretches.values():
        for p, a in enumerate(members):
            for b in members[p + 1 :]:
                if not (a.written & (b.written | b.read) or b.written & a.read):
                    continue
                for x, y in _meeting(a, b, touches):
                    if found := _told(x, y, budget):
                        return [found]
    return []


def _meeting(a: Leaf, b: Leaf, touches: Touches) -> Iterator[tuple[Touch, Touch]]:
    """Accesses of one buffer that threads share, of which one writes, with all that leads to them known."""
    of_b = list(touches.of(b, "_b"))
    for x in touches.of(a, "_a"):
        for y in of_b:
            if x.buffer is y.buffer and (x.write or y.write) and x.exact and y.exact and not x.buffer.loops:
                yield x, y


def _told(x: Touch, y: Touch, budget: list[int]) -> Diagnostic | None:
    a, b = x.leaf, y.leaf
    shared = 0
    for one, other in zip(a.loops, b.loops, strict=False):
        if one is not other:
            break
        shared += 1
    around = a.names[:shared]
    threads = [n for n in _threads(a) if n in _threads(b) and n not in x.buffer.private]
    if not threads or any(n in x.buffer.private for n in _threads(a)):
        return None
    box_a, box_b = box_of(a, ranges_of(a.loops)), box_of(b, ranges_of(b.loops))
    ranges = ranges_of(x.leaf.loops), ranges_of(y.leaf.loops)
    same = same_element(x.indices, y.indices, x.buffer.shape, x.domain.names, y.domain.names, *ranges)
    together = [f"{n}_a = {n}_b" for n in around]
    for thread in threads:
        if box_a is not None and box_b is not None:
            known = overlap(x.indices, y.indices, box_a, box_b, (*around, thread))
            if known is not None and shared not in known.forward | known.backward:
                continue
        for order in "<>":
            if not budget[0]:
                return None
            budget[0] -= 1
            apart = f"{thread}_a {order} {thread}_b"
            names = [*x.names, *y.names]
            meeting = integer_set(names, [*x.constraints, *y.constraints, *same, *together, apart])
            if meeting.is_empty():
                continue
            at = dict(zip(names, point(meeting), strict=True))
            verbs = ["written" if t.write else "read" for t in (x, y)]
            message = (
                f"{element_of(x, at)} is {verbs[0]} by one thread and {verbs[1]} by another, without a barrier between."
            )
            notes = tuple(
                Note(f"{verb} in the iteration {iteration_of(t, at)}.", t.span)
                for verb, t in zip(verbs, (x, y), strict=True)
            )
            return Diagnostic("TL12", message, y.span, notes, "put T.tvm_storage_sync between the two.")
    return None


def _threads(leaf: Leaf) -> list[str]:
    return [loop.name for loop in leaf.loops if loop.parallel and loop.lockstep]
