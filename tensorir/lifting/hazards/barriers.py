"""Threads that meet between two barriers: one writes what another reads or writes, in statements of their own.

Where a kernel has barriers, statements have the number of the stretch between two of them. Two statements of one
stretch, in one iteration of the loops around it, are in no order for threads that differ; nor are what ends a round of
a loop with barriers and what begins the next one, or what stands before the loop and its first round.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Literal

from tensorir.integers.affine import number
from tensorir.lifting.accesses.overlap import overlap
from tensorir.lifting.accesses.sets import integer_set, point, same_element, text
from tensorir.lifting.hazards.proven import in_turn
from tensorir.lifting.hazards.touches import Touch, Touches, element_of, iteration_of
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.runtime.errors import Diagnostic, Note

MOST_SETS = 256
"""How many pairs of accesses are looked at that need sets of integers; the others are left to the checked mode."""


def unordered(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """The first pair of statements that a barrier has to stand between, and none does."""
    stretches: dict[int, list[Leaf]] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf.node, Store) and leaf.node.stretch is not None:
            stretches.setdefault(leaf.node.stretch, []).append(leaf)
    budget = [MOST_SETS]
    for a, b, way in _pairs(stretches):
        if not (a.written & (b.written | b.read) or b.written & a.read):
            continue
        for x, y in _meeting(a, b, touches):
            if found := _told(x, y, way, budget):
                return [found]
    return []


_Turn = tuple[Loop, Literal["in", "on", "out"]]
"""A step into the first round of a loop, on to the next one, or out of the last one."""
_Way = tuple[_Turn, ...]
"""How control comes from a stretch to another one without a barrier; nowhere, if both are one."""

MOST_STEPS = 4
"""How many steps a way has, of loops inside of loops with nothing in between."""


def _pairs(stretches: Mapping[int, list[Leaf]]) -> Iterator[tuple[Leaf, Leaf, _Way]]:
    """Statements that no barrier stands between, in the order of the text or of the rounds of loops."""
    for members in stretches.values():
        for p, a in enumerate(members):
            if any(map(_is_free, a.loops)):
                yield a, a, ()
            for b in members[p + 1 :]:
                yield a, b, ()
    steps: dict[int, list[tuple[int, _Turn]]] = {}
    for loop in dict.fromkeys(loop for members in stretches.values() for leaf in members for loop in leaf.loops):
        if loop.rounds is not None and loop.rounds.wait:
            steps.setdefault(loop.rounds.before, []).append((loop.rounds.first, (loop, "in")))
            steps.setdefault(loop.rounds.last, []).append((loop.rounds.first, (loop, "on")))
            steps.setdefault(loop.rounds.last, []).append((loop.rounds.after, (loop, "out")))
    for earlier, members in stretches.items():
        for later, way in _ways(earlier, steps):
            for a in members:
                for b in stretches.get(later, ()):
                    yield a, b, way


def _ways(start: int, steps: Mapping[int, list[tuple[int, _Turn]]], way: _Way = ()) -> Iterator[tuple[int, _Way]]:
    """The stretches to which one leads without a barrier, and how."""
    for later, turn in steps.get(start, ()):
        if turn not in way and len(way) < MOST_STEPS:
            yield later, (*way, turn)
            yield from _ways(later, steps, (*way, turn))


def _constraints(way: _Way, x: Touch, y: Touch) -> list[str]:
    """What holds of the rounds of two accesses, of which a way leads from one to the other."""
    found: list[str] = []
    for loop, turn in way:
        if turn == "on":
            found.append(f"{y.domain.names[loop.name]} = {x.domain.names[loop.name]} + 1")
            continue
        inside = y if turn == "in" else x
        low, extent = (linear(t, ranges_of(inside.leaf.loops)) for t in (loop.low, loop.extent))
        assert low is not None and extent is not None
        end = low if turn == "in" else low.plus(extent).plus(number(-1))
        found.append(f"{inside.domain.names[loop.name]} = {text(end, inside.domain.names)}")
    return found


def _is_free(loop: Loop) -> bool:
    """True if threads may be in different rounds of a loop at once: nothing in it lets them wait."""
    return loop.rounds is not None and loop.rounds.before == loop.rounds.first == loop.rounds.last


def _meeting(a: Leaf, b: Leaf, touches: Touches) -> Iterator[tuple[Touch, Touch]]:
    """Accesses of one buffer that threads share, of which one writes, with all that leads to them known."""
    of_b = touches.value_by_value(b, "_b")
    for x in touches.value_by_value(a, "_a"):
        for y in of_b:
            if x.buffer is not y.buffer or not (x.write or y.write) or x.buffer.loops:
                continue
            if x.exact and y.exact and not in_turn(a, b, x.buffer):
                yield x, y


def _told(x: Touch, y: Touch, way: _Way, budget: list[int]) -> Diagnostic | None:
    a, b = x.leaf, y.leaf
    common = [one for one, _ in takewhile(lambda pair: pair[0] is pair[1], zip(a.loops, b.loops, strict=False))]
    both = _threads(a, b)
    threads = [n for n in both if n not in x.buffer.private]
    if len(threads) < len(both) or not threads:
        return None
    apart_anyway = threads if a.place == b.place else []
    turning = [loop for loop, _ in way]
    around = [loop.name for loop in common if not (loop in turning or _is_free(loop) or loop.name in apart_anyway)]
    box_a, box_b = x.box, y.box
    ranges = ranges_of(x.leaf.loops), ranges_of(y.leaf.loops)
    same = same_element(x.indices, y.indices, x.buffer.shape, x.domain.names, y.domain.names, *ranges)
    together = [f"{n}_a = {n}_b" for n in around]
    for thread in threads:
        if box_a is not None and box_b is not None:
            known = overlap(x.indices, y.indices, box_a, box_b, (*around, thread))
            if known is not None and len(around) not in known.forward | known.backward:
                continue
        for order in "<>":
            if not budget[0]:
                return None
            budget[0] -= 1
            apart = f"{thread}_a {order} {thread}_b"
            names = [*x.names, *y.names]
            rounds = _constraints(way, x, y)
            meeting = integer_set(names, [*x.constraints, *y.constraints, *same, *together, *rounds, apart])
            if meeting.is_empty():
                continue
            at = dict(zip(names, point(meeting), strict=True))
            verbs = ["written" if t.write else "read" for t in (x, y)]
            message = (
                f"{element_of(x, at)} is {verbs[0]} by one thread and {verbs[1]} by another, without a barrier between."
            )
            notes = tuple(
                Note(f"{verb} in {iteration_of(t, at)}.", t.span) for verb, t in zip(verbs, (x, y), strict=True)
            )
            return Diagnostic("TL12", message, y.span, notes, "put T.tvm_storage_sync between the two.")
    return None


def _threads(a: Leaf, b: Leaf) -> list[str]:
    """The threads around both of two statements: each runs in lockstep, or updates thread by thread."""
    lockstep = {loop.name for leaf in (a, b) for loop in leaf.loops if loop.parallel and loop.lockstep}
    return [n for n in a.names if n in lockstep and n in b.names]
