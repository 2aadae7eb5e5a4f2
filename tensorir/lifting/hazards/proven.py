"""Hazards of every run, and possible ones: indices outside, races, divisions by zero, broken assertions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, takewhile
from typing import Any, Literal

from tensorir.integers.affine import Affine, number
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.overlap import Box, overlap
from tensorir.lifting.accesses.sets import condition_text, decided, domain, integer_set, point, same_element, text
from tensorir.lifting.hazards.touches import (
    Spot,
    Touch,
    Touches,
    Visible,
    all_missing,
    element_of,
    iteration_of,
    visible_iterations,
)
from tensorir.lifting.nests.linear import linear, settled, term_of
from tensorir.lifting.nests.nest import Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of, written
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, buffers_of, index_names, loads
from tensorir.runtime.errors import NOWHERE, Diagnostic, Note

# What a nest states of itself: that threads come to a barrier together, that a divisor is not zero.
#
# What no data decide is settled before anything runs: an iteration in which it does not hold is told, and what always
# holds is left out. Of the rest each kind says whether the program checks it.


@dataclass(frozen=True, slots=True)
class _Kind:
    """The message for a statement that does not hold, and its check at run time where data decide."""

    help: str
    checked: Literal["always", "asked", "never"] = "always"
    """In every program that checks, in one that is asked for what a source leaves undefined, or in none."""
    proven: bool = True
    """Whether it is an error before anything runs."""
    note: str = "in the iteration {}."


_KINDS: Mapping[str, _Kind] = {
    "TL10": _Kind("guard the access, or correct the loop's bounds."),
    "TL13": _Kind(
        "move the barrier out of the condition.",
        note="{} and the first thread of its block do not both come to it.",
    ),
    "TL14": _Kind("give it a divisor that is not zero, or guard it.", "asked"),
    "TL15": _Kind("bind another value, or guard the block by T.where.", "never"),
    "TL16": _Kind("", "asked", proven=False),
}
"""By code."""


def failing(nodes: Sequence[Node], loops: tuple[Loop, ...] = ()) -> list[Diagnostic]:
    """The first statement that is proven not to hold, with an iteration; whether a while does anything, data say."""
    for node in nodes:
        match node:
            case Loop(body=body):
                told = failing(body, (*loops, node))
            case Check(code=str(code)) if code and _KINDS[code].proven:
                told = _proven(Leaf(node, loops, ()), _KINDS[code])
            case _:
                continue
        if told:
            return told
    return []


def _proven(leaf: Leaf, kind: _Kind) -> list[Diagnostic]:
    assert isinstance(leaf.node, Check)
    found, sure = _where_not(leaf)
    if not sure or found.is_empty():
        return []
    at = dict(zip(leaf.names, point(found), strict=True))
    iteration = ", ".join(f"{loop.title or loop.name} = {at[loop.name]}" for loop in leaf.loops)
    note = kind.note.format(iteration) if iteration else "in the only iteration."
    return [Diagnostic(leaf.node.code, leaf.node.message, leaf.span, (note,), kind.help)]


def left_to_data(
    nodes: Sequence[Node], told: bool, undefined: bool, loops: tuple[Loop, ...] = (), inside: bool = False
) -> tuple[Node, ...]:
    """The nodes without statements of which it is known whether they hold, or which nobody checks.

    `told`: whether any is; `undefined`: whether a program is asked for what its source leaves undefined. `inside` of a
    while data say whether anything is done at all.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                around = (*loops, node) if isinstance(node, Loop) else loops
                inner = left_to_data(body, told, undefined, around, inside or isinstance(node, While))
                same = len(inner) == len(body) and all(x is y for x, y in zip(inner, body, strict=True))
                if inner or isinstance(node, While):
                    found.append(node if same else replace(node, body=inner))
            case Check(code=str(code)) if code:
                kind = _KINDS[code]
                wanted = (told and kind.checked == "always") or (undefined and kind.checked == "asked")
                if wanted and not _is_settled(Leaf(node, loops, ()), kind, inside):
                    found.append(node)
            case _:
                found.append(node)
    return tuple(found)


def undefined_by_data(nodes: Sequence[Node], inside: bool = False) -> Iterator[str]:
    """The report's text on values that a source leaves undefined for some data, as those `inside` of whiles."""
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                yield from undefined_by_data(body, inside or isinstance(node, While))
            case Check(code=str(code)) if (
                code and _KINDS[code].checked == "asked" and (inside or loads(node.condition))
            ):
                line = f"line {node.span.line}: " if node.span is not NOWHERE else ""
                what = node.message.removesuffix(".")
                yield f"{line}{what} where data ask for it: the result is 0, and `checked` says so."
            case _:
                pass


def _is_settled(leaf: Leaf, kind: _Kind, inside: bool) -> bool:
    """True if it is known of a statement that it holds, or that it does not and is told."""
    found, sure = _where_not(leaf)
    return (sure and not inside and kind.proven) or bool(found.is_empty())


def _where_not(leaf: Leaf) -> tuple[Any, bool]:
    """The iterations in which a statement does not hold, and whether that is so in each of them, whatever data say."""
    assert isinstance(leaf.node, Check)
    ranges = ranges_of(leaf.loops)
    whole = domain(leaf, ranges, (), "")
    condition = condition_text(settled(Op("not", (leaf.node.condition,), BOOL), ranges), whole.names)
    constraints = [*whole.constraints, *([] if condition is None else [condition])]
    return integer_set(leaf.names, constraints), whole.exact and condition is not None


# What is proven wrong before anything runs: accesses out of bounds, reads of what nobody wrote, races; each
# witnessed.
#
# Only exact sets of iterations count: what depends on data may be right, and is left to the checks of a run.


def hazards(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """Every hazard that is proven, the first of each statement; statements inside of whiles are not looked at."""
    statements = leaves(nodes)
    # a condition around several statements is told of once
    outside = {(d.span, d.message): d for leaf in reversed(statements) for d in _outside(leaf, touches)}
    places = {d.span for d in outside.values()}
    unwritten = [d for d in _unwritten(statements, touches) if d.span not in places]
    return [*reversed(outside.values()), *unwritten, *_races(statements, touches)]


# Out of bounds


def _outside(leaf: Leaf, touches: Touches) -> list[Diagnostic]:
    for touch in touches.value_by_value(leaf, "_a"):
        if not touch.exact:
            continue
        found = _leaving(touch, range(len(touch.indices)))
        if found is None:
            continue
        at = dict(zip(touch.names, point(found), strict=True))
        verb = "written" if touch.write else "read"
        shape = "×".join(map(str, touch.buffer.shape))
        count = "one element" if shape in ("", "1") else f"{shape} elements"
        message = f"{element_of(touch, at)} is {verb}, and {touch.buffer.name!r} has {count}."
        note = f"in {iteration_of(touch, at)}."
        return [Diagnostic("TL10", message, touch.span, (note,), "guard the access, or correct the loop's bounds.")]
    return []


def _leaving(touch: Touch, dims: Iterable[int]) -> Any | None:
    """The iterations that leave a buffer along some of its dims, as far as indices say; None where there are none."""
    ranges = ranges_of(touch.leaf.loops)
    doubtful: list[str] = []
    for k in dims:
        a, extent = touch.indices[k], touch.buffer.shape[k]
        spread = a.range(ranges)
        if spread is None or spread[0] < 0 or spread[1] >= extent:
            shown = text(a, touch.domain.names)
            doubtful.append(f"({shown} < 0 or {shown} >= {extent})")
    if not doubtful:
        return None
    found = integer_set(touch.names, [*touch.constraints, f"({' or '.join(doubtful)})"])
    return None if found.is_empty() else found


def with_doubts_checked(
    nodes: Sequence[Node], touches: Touches, loops: tuple[Loop, ...] = (), inside: bool = False
) -> tuple[Node, ...]:
    """The nodes with a check before each statement some of whose accesses only data keep inside of their buffers.

    `inside` of a while data say whether anything is done at all.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body):
                inner = with_doubts_checked(body, touches, (*loops, node), inside)
                found.append(node if _same(inner, body) else replace(node, body=inner))
            case While(body=body):
                checks = list(_doubts(Leaf(node, loops, ()), touches, inside))
                # the condition is looked at again behind each round
                again = [replace(c, guards=c.guards[len(node.guards) :]) for c in checks]
                inner = (*with_doubts_checked(body, touches, loops, True), *again)
                found += [*checks, node if _same(inner, body) else replace(node, body=inner)]
            case Store() | Check():
                found += _doubts(Leaf(node, loops, ()), touches, inside)
                found.append(node)
            case External():
                found.append(node)
    return tuple(found)


def _same(a: Sequence[Node], b: Sequence[Node]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _doubts(leaf: Leaf, touches: Touches, inside: bool) -> Iterator[Check]:
    """Conditions on the indices of a statement, in iterations that data choose; one for each place."""
    told: set[tuple[Affine, int, tuple[int, ...]]] = set()
    for touch in touches.of(leaf, "_a"):
        if (touch.exact and not inside) or touch.buffer.loops:
            continue
        for k, (a, extent) in enumerate(zip(touch.indices, touch.buffer.shape, strict=True)):
            places = {(a, extent, tuple(map(id, touch.conditions[:c]))) for c in range(len(touch.conditions) + 1)}
            if _leaving(touch, [k]) is None or places & told:
                continue
            told.add((a, extent, tuple(map(id, touch.conditions))))
            index = term_of(a, INT32)
            first, last = (
                Op(op, (index, Number(bound, INT32)), BOOL) for op, bound in (("greater_equal", 0), ("less", extent))
            )
            message = f"an index leaves the {extent} elements of {touch.buffer.name!r}."
            yield Check(Op("and", (first, last), BOOL), message, touch.conditions, touch.span)


# Reads of what nobody wrote


def _unwritten(statements: Sequence[Leaf], known: Touches) -> list[Diagnostic]:
    """Reads of the program's own storage of elements that no earlier statement writes."""
    found_in = [known.value_by_value(leaf, "_a") for leaf in statements]
    touches = [t for each in found_in for t in each]
    unknown: dict[Buffer, list[Leaf]] = {}
    for leaf, each in zip(statements, found_in, strict=True):
        for buffer in leaf.written - {t.buffer for t in each if t.write}:
            unknown.setdefault(buffer, []).append(leaf)
    visible = cache(lambda: visible_iterations(statements, known))
    writes: dict[Buffer, list[Touch]] = {}
    for t in touches:
        if t.write:
            writes.setdefault(t.buffer, []).append(t)
    for r in touches:
        buffer = r.buffer
        given = buffer.argument and not buffer.declared
        if r.write or not r.exact or given or buffer.loops or buffer.value is not None:
            continue
        if any(_may_precede(w, r.leaf) for w in unknown.get(buffer, ())):
            continue
        missing = _first_gap(r, writes.get(buffer, ()), visible)
        if missing is None:
            continue
        at = dict(zip(r.names, missing, strict=True))
        message = f"{element_of(r, at)} is read, and nothing has written it."
        note = f"in {iteration_of(r, at)}."
        return [Diagnostic("TL11", message, r.span, (note,), f"give {buffer.name!r} a value first.")]
    return []


def _first_gap(r: Touch, writes: Sequence[Touch], visible: Callable[[], Visible | None]) -> tuple[int, ...] | None:
    """The first iteration in which a read finds what nobody wrote; None where there is none, or isl does not decide it.

    In storage that each thread has of its own only what may be seen counts.
    """
    missing = all_missing(r, writes)
    if missing is None or missing.is_empty():
        return None
    if r.buffer.private and r.guards == len(r.leaf.node.guards):
        seen = visible()
        if seen is None:
            return None
        missing = missing.intersect(seen[r.leaf.place])
    return None if missing.is_empty() else decided(lambda: point(missing))


def _may_precede(a: Leaf, b: Leaf) -> bool:
    """True if one statement runs before another one in any iteration."""
    return a.place < b.place or bool(a.loops and b.loops and a.loops[0] is b.loops[0])


# Races


def _races(statements: Sequence[Leaf], touches: Touches) -> list[Diagnostic]:
    """Two iterations of a loop that is said to be parallel touch one element, and one of them writes it."""
    # only statements of one nest have a loop together
    for _, group in groupby((leaf for leaf in statements if leaf.loops), key=lambda leaf: id(leaf.loops[0])):
        nest = list(group)
        for p, a in enumerate(nest):
            for b in nest[p:]:
                if found := _race(a, b, touches):
                    return found
    return []


def in_turn(a: Leaf, b: Leaf, buffer: Buffer) -> bool:
    """True if two statements touch a buffer by atomic updates of it only, or keep what these find."""
    return all(isinstance(n, Store) and n.atomic and buffer in (n.buffer, _found(n)) for n in (a.node, b.node))


def _found(node: Store) -> Buffer | None:
    """The buffer of which one iteration's kept value is an element."""
    return node.value.buffer if node.buffer.loops and isinstance(node.value, Load) else None


def _is_one(buffer: Buffer, names: Sequence[str]) -> bool:
    """True if iterations of the last of some loops have a buffer together, in one iteration of the others."""
    return set(buffer.private) <= set(names[:-1])


def _far_apart(x: Touch, y: Touch, of_x: Box | None, of_y: Box | None) -> bool:
    """True if one access stays below the other along some dim, which is said without any set."""
    if of_x is None or of_y is None:
        return False
    spans = ((i.range(of_x), j.range(of_y)) for i, j in zip(x.indices, y.indices, strict=True))
    return any(p is not None and q is not None and (p[1] < q[0] or q[1] < p[0]) for p, q in spans)


def _writes_alike(leaf: Leaf, k: int) -> bool:
    """True if a statement writes one loop-invariant value to the same elements in every iteration of its k-th loop.

    `for i in T.parallel(8): A[0] = B[1]` writes B[1] whichever iteration comes last.
    """
    if not isinstance(leaf.node, Store):
        return False
    loop, inside, node = leaf.loops[k], set(leaf.names[k:]), leaf.node
    changing = written(loop.body)
    around = (
        *node.indices,
        *node.guards,
        *(bound for other in leaf.loops[k + 1 :] for bound in (other.low, other.extent)),
    )
    return (
        not index_names(node.value) & inside
        and not any(loop.name in index_names(term) for term in around)
        and not any(b in changing or b.loops or b.private or b.apart for b in buffers_of(node.value))
    )


def _race(a: Leaf, b: Leaf, touches: Touches) -> list[Diagnostic]:
    shared = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        shared += 1
    loops = [k for k in range(shared) if a.loops[k].parallel]
    if not loops or not (a.written & (b.written | b.read) or b.written & a.read):
        return []
    boxes: dict[tuple[bool, int, tuple[tuple[str, int], ...]], Box | None] = {}
    for x in touches.value_by_value(a, "_a"):
        for y in touches.value_by_value(b, "_b"):
            if x.buffer is not y.buffer or not (x.write or y.write) or not (x.exact and y.exact):
                continue
            if x.buffer.loops or in_turn(a, b, x.buffer):
                continue
            kinds = [(side, t.guards, tuple(t.values.items())) for side, t in ((False, x), (True, y))]
            for kind, touch in zip(kinds, (x, y), strict=True):
                if kind not in boxes:
                    boxes[kind] = touch.box
            first, second = (boxes[kind] for kind in kinds)
            known = (
                None
                if first is None or second is None
                else overlap(x.indices, y.indices, first, second, a.names[:shared])
            )
            together = [
                k for k in loops if a.loops[k].name not in x.buffer.apart and _is_one(x.buffer, a.names[: k + 1])
            ]
            if a is b and x.write and y.write:
                together = [k for k in together if not _writes_alike(a, k)]
            doubtful = [k for k in together if known is None or k in known.forward | known.backward]
            if not doubtful or _far_apart(x, y, first, second):
                continue
            names = [*x.names, *y.names]
            ranges = ranges_of(a.loops), ranges_of(b.loops)
            same = same_element(x.indices, y.indices, x.buffer.shape, x.domain.names, y.domain.names, *ranges)
            pairs = integer_set(names, [*x.constraints, *y.constraints, *same])
            for k in doubtful:
                outer = [f"{loop.name}_a = {loop.name}_b" for loop in a.loops[:k]]
                apart = f"{a.loops[k].name}_a != {a.loops[k].name}_b"
                meeting = pairs.intersect(integer_set(names, [*outer, apart]))
                if meeting.is_empty():
                    continue
                at = dict(zip(names, point(meeting), strict=True))
                title = a.loops[k].title or a.loops[k].name
                message = f"two iterations of the parallel loop over {title} touch {element_of(x, at)}."
                notes = (
                    Note(f"{'written' if x.write else 'read'} in {iteration_of(x, at)}.", x.span),
                    Note(f"{'written' if y.write else 'read'} in {iteration_of(y, at)}.", y.span),
                )
                help = "make the loop serial, or give each iteration elements of its own."
                return [Diagnostic("TL12", message, a.loops[k].span, notes, help)]
    return []


# Races of which data know, or nobody: iterations that are said to run at once, and may meet in what one writes.
#
# They are taken in the order of the text, and the report says so.

MOST_PAIRS = 64
"""How many pairs of accesses are looked at."""


def undecided_races(nodes: Sequence[Node], touches: Touches) -> list[str]:
    """The report's text on them, once for each buffer."""
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
    """True if data tell where an access is made, or whether it is."""
    places = [i for i in spot.indices if not isinstance(i, Affine)]
    return any(loads(t) for t in (*places, *leaf.node.guards[: spot.guards], *spot.conditions))


def _open(leaf: Leaf, spot: Spot, touches: Touches) -> bool:
    """True if data tell where an access is made or whether it is, or nothing does: no sum of variables, of too many."""
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


MOST_SETS = 256
"""How many pairs of accesses are looked at that need sets of integers; the others are left to the checked mode."""


def unordered(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """The first pair of statements that a barrier has to stand between, and none does."""
    stretches: dict[int, list[Leaf]] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf.node, Store) and leaf.node.stretch is not None:
            stretches.setdefault(leaf.node.stretch, []).append(leaf)
    budget = [MOST_SETS]
    for a, b, way in _without_barrier(stretches):
        if not (a.written & (b.written | b.read) or b.written & a.read):
            continue
        for x, y in _shared_accesses(a, b, touches):
            if found := _unordered_pair(x, y, way, budget):
                return [found]
    return []


_Turn = tuple[Loop, Literal["in", "on", "out"]]
"""A step into the first round of a loop, on to the next one, or out of the last one."""
_Way = tuple[_Turn, ...]
"""How control comes from a stretch to another one without a barrier; nowhere, if both are one."""

MOST_STEPS = 4
"""How many steps a way has, of loops inside of loops with nothing in between."""


def _without_barrier(stretches: Mapping[int, list[Leaf]]) -> Iterator[tuple[Leaf, Leaf, _Way]]:
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
    """Constraints on the rounds of two accesses, one of which precedes the other on a path."""
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


def _shared_accesses(a: Leaf, b: Leaf, touches: Touches) -> Iterator[tuple[Touch, Touch]]:
    """Accesses of one buffer that threads share, of which one writes, with all that leads to them known."""
    of_b = touches.value_by_value(b, "_b")
    for x in touches.value_by_value(a, "_a"):
        for y in of_b:
            if x.buffer is not y.buffer or not (x.write or y.write) or x.buffer.loops:
                continue
            if x.exact and y.exact and not in_turn(a, b, x.buffer):
                yield x, y


def _unordered_pair(x: Touch, y: Touch, way: _Way, budget: list[int]) -> Diagnostic | None:
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
