"""What is proven wrong before anything runs: accesses out of bounds, reads of what nobody wrote, races; each witnessed.

Only exact sets of iterations count: what depends on data may be right, and is left to the checks of a run.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tensorir.errors import Diagnostic, Note
from tensorir.lift.accesses.choices import Seen, reads_under
from tensorir.lift.accesses.overlap import Box, box_of, overlap
from tensorir.lift.accesses.sets import (
    Domain,
    condition_text,
    conjuncts,
    decided,
    domain,
    integer_set,
    point,
    same_element,
    text,
)
from tensorir.lift.nests.affine import Affine
from tensorir.lift.nests.linear import Ranges, linear, settled, term_of
from tensorir.lift.nests.nest import Bottom, Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lift.nests.terms import Buffer, Number, Op, Term
from tensorir.lift.storage.copies import settled_values
from tensorir.source import Span
from tensorir.types import BOOL, INT32

__all__ = [
    "Touch", "Touches", "element_of", "first_missing", "hazards", "in_turn", "iteration_of", "with_doubts_checked",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Touch:
    """One access under all the conditions that lead to it; `exact` says that they are all there."""

    leaf: Leaf
    buffer: Buffer
    indices: tuple[Affine, ...]
    write: bool
    domain: Domain
    constraints: tuple[str, ...]
    exact: bool
    span: Span
    conditions: tuple[Term, ...]
    """The guards that lead to it, and the choices around a read."""
    guards: int
    """How many of the guards lead to it."""

    @property
    def names(self) -> list[str]:
        return [self.domain.names[n] for n in self.leaf.names]

    @property
    def box(self) -> Box | None:
        """The iterations that come to it, where these are a box."""
        return box_of(self.leaf, ranges_of(self.leaf.loops), self.guards)


def hazards(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """Every hazard that is proven, the first of each statement; statements inside of whiles are not looked at."""
    statements = leaves(nodes)
    # a condition around several statements is told of once
    outside = {(d.span, d.message): d for leaf in reversed(statements) for d in _outside(leaf, touches)}
    return [*reversed(outside.values()), *_unwritten(statements, touches), *_races(statements, touches)]


# Accesses and the conditions that lead to them


_Spot = tuple[Buffer, tuple[Affine, ...], bool, int, tuple[Term, ...], tuple[Term, ...], Span]
"""An access whose indices are sums: whether it writes, how many guards lead to it, the conditions around it, their
parts in normal form, where."""


@dataclass(frozen=True, slots=True)
class Touches:
    """The accesses of the statements of a program, each statement looked at once."""

    spots: dict[tuple[Bottom, tuple[Loop, ...]], tuple[_Spot, ...]] = field(
        default_factory=dict[tuple[Bottom, tuple[Loop, ...]], tuple[_Spot, ...]]
    )
    known: dict[tuple[Leaf, str], tuple[Touch, ...]] = field(default_factory=dict[tuple[Leaf, str], tuple[Touch, ...]])

    def of(self, leaf: Leaf, suffix: str) -> tuple[Touch, ...]:
        """Every access of a statement, its variables under names that end in a suffix; of a while, of its condition."""
        if (leaf, suffix) not in self.known:
            self.known[leaf, suffix] = tuple(self._made(leaf, suffix))
        return self.known[leaf, suffix]

    def _made(self, leaf: Leaf, suffix: str) -> Iterator[Touch]:
        node, ranges = leaf.node, ranges_of(leaf.loops)
        if (node, leaf.loops) not in self.spots:
            self.spots[node, leaf.loops] = tuple(_spots(node, ranges))
        domains: dict[int, Domain] = {}
        for buffer, indices, write, guards, conditions, settled_parts, span in self.spots[node, leaf.loops]:
            if guards not in domains:
                domains[guards] = domain(leaf, ranges, (), suffix, guards=guards)
            whole = domains[guards]
            parts = [condition_text(part, whole.names) for part in settled_parts]
            exact = whole.exact and None not in parts
            told = tuple(p for p in parts if p is not None)
            led = (*node.guards[:guards], *conditions)
            yield Touch(leaf, buffer, indices, write, whole, (*whole.constraints, *told), exact, span, led, guards)


def _spots(node: Bottom, ranges: Ranges) -> Iterator[_Spot]:
    spots: list[tuple[Buffer, tuple[Term, ...], bool, int, tuple[Term, ...], Span]] = []
    every = len(node.guards)
    read: list[tuple[Term, int]] = [(guard, k) for k, guard in enumerate(node.guards)]
    match node:
        case Store(buffer, indices, value):
            spots.append((buffer, indices, True, every, (), node.span))
            read = [(term, every) for term in (value, *indices)] + read
        case Check(condition) | While(condition):
            read.append((condition, every))
        case External():
            pass
    seen: dict[int, Seen] = {}
    for term, guards in read:
        for load, conditions in reads_under(term, (), seen.setdefault(guards, {})):
            spots.append((load.buffer, load.indices, False, guards, conditions, load.span))
    # the reads of one statement share most of their indices and conditions, which `spots` keeps alive
    memo: dict[int, Term] = {}
    for buffer, indices, write, guards, conditions, span in spots:
        sums = [linear(i, ranges, memo) for i in indices]
        known = tuple(a for a in sums if a is not None and a.names <= ranges.keys())
        if len(known) == len(sums):
            parts = tuple(part for c in conditions for part in conjuncts(settled(c, ranges, memo)))
            yield buffer, known, write, guards, conditions, parts, span


def iteration_of(touch: Touch, at: Mapping[str, int]) -> str:
    """The iteration, in the source's words."""
    parts = [f"{loop.title or loop.name} = {at[touch.domain.names[loop.name]]}" for loop in touch.leaf.loops]
    return ", ".join(parts) or "the only iteration"


def element_of(touch: Touch, at: Mapping[str, int]) -> str:
    """The element that is accessed in an iteration."""
    values = {n: at[touch.domain.names[n]] for n in touch.leaf.names}
    ranges: Ranges = {n: (v, v) for n, v in values.items()}
    numbers: list[str] = []
    for a in touch.indices:
        spread = a.range(ranges)
        assert spread is not None
        numbers.append(str(spread[0]))
    return f"{touch.buffer.name}[{', '.join(numbers)}]"


# Out of bounds


def _outside(leaf: Leaf, touches: Touches) -> list[Diagnostic]:
    for touch in touches.of(leaf, "_a"):
        if not touch.exact:
            continue
        found = _leaving(touch, range(len(touch.indices)))
        if found is None:
            continue
        at = dict(zip(touch.names, point(found), strict=True))
        verb = "written" if touch.write else "read"
        shape = "×".join(map(str, touch.buffer.shape)) or "one element"
        message = f"{element_of(touch, at)} is {verb}, and {touch.buffer.name!r} has {shape} elements."
        note = f"in the iteration {iteration_of(touch, at)}."
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
    """What must hold of the indices of a statement, in iterations that data choose; of one place it is said once."""
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
    touches = [t for leaf in statements for t in known.of(leaf, "_a")]
    unknown: set[Buffer] = set()
    for leaf in statements:
        told = {t.buffer for t in touches if t.leaf is leaf and t.write}
        unknown |= {b for b in leaf.written if b not in told}
    found: list[Diagnostic] = []
    for r in touches:
        buffer = r.buffer
        if r.write or not r.exact or buffer.argument or buffer.loops or buffer.value is not None or buffer in unknown:
            continue
        writes = [w for w in touches if w.write and w.buffer is buffer]
        missing = first_missing(r, writes)
        if not missing:
            continue
        at = dict(zip(r.names, missing, strict=True))
        message = f"{element_of(r, at)} is read, and nothing has written it."
        note = f"in the iteration {iteration_of(r, at)}."
        found.append(Diagnostic("TL11", message, r.span, (note,), f"give {buffer.name!r} a value first."))
        break
    return found


def first_missing(r: Touch, writes: Sequence[Touch]) -> tuple[int, ...] | None:
    """The first iteration of a read before which no store writes its element; empty where there is none.

    None where isl does not decide it.
    """
    left: _Left | None = _Left(integer_set(r.names, r.constraints))
    for written in (part for w in writes for part in _written_before(w, r)):
        left = decided(partial(left.without, written))
        if left is None or left.empty:
            break
    return None if left is None else () if left.empty else decided(lambda: point(left.missing))


class _Left:
    """The iterations for which no write was found yet."""

    def __init__(self, missing: Any) -> None:
        self.missing, self.empty = missing, bool(missing.is_empty())

    def without(self, written: Any) -> _Left:
        return _Left(self.missing.subtract(written))


def _written_before(w: Touch, r: Touch) -> Iterator[Any]:
    """The iterations of a read before which a store may write its element: more than do, where data decide.

    What one iteration of all common loops writes comes first, what earlier rounds of the outermost one write last.
    Iterations that are apart find nothing of what others wrote.
    """
    import islpy

    reader = {n: f"{v[:-2]}_r" for n, v in r.domain.names.items()}
    names = [reader[n] for n in r.leaf.names]
    common = 0
    for x, y in zip(w.leaf.loops, r.leaf.loops, strict=False):
        if x is not y:
            break
        common += 1
    ranges = ranges_of(w.leaf.loops), ranges_of(r.leaf.loops)
    same = same_element(w.indices, r.indices, w.buffer.shape, w.domain.names, reader, *ranges)
    pairs = [(w.domain.names[loop.name], reader[loop.name]) for loop in w.leaf.loops[:common]]
    apart = [k for k, loop in enumerate(w.leaf.loops[:common]) if loop.name in (*w.buffer.private, *w.buffer.apart)]
    rounds = range(apart[-1] + 1 if apart else 0, common)
    orders = [[*(f"{a} = {b}" for a, b in pairs[:k]), f"{pairs[k][0]} < {pairs[k][1]}"] for k in rounds]
    if w.leaf.place < r.leaf.place:
        orders.append([f"{a} = {b}" for a, b in pairs])
    # most reads find what their own iteration wrote, and sets without all the earlier ones are much smaller
    for order in reversed(orders):
        found = integer_set([*names, *w.names], [*w.constraints, *same, *order])
        yield found.project_out(islpy.dim_type.set, len(names), len(w.names))


# Races


def _races(statements: Sequence[Leaf], touches: Touches) -> list[Diagnostic]:
    """Two iterations of a loop that is said to be parallel touch one element, and one of them writes it."""
    settled = settled_values(statements, everywhere=True)
    found: list[Diagnostic] = []
    for p, a in enumerate(statements):
        for b in statements[p:]:
            found += _race(a, b, settled, touches)
            if found:
                return found
    return found


def in_turn(a: Leaf, b: Leaf, buffer: Buffer) -> bool:
    """Whether two statements touch a buffer by atomic updates of it only."""
    return all(isinstance(n, Store) and n.atomic and n.buffer is buffer for n in (a.node, b.node))


def _is_one(buffer: Buffer, names: Sequence[str]) -> bool:
    """Whether iterations of the last of some loops have a buffer together, in one iteration of the others."""
    return set(buffer.private) <= set(names[:-1])


def _race(a: Leaf, b: Leaf, settled: frozenset[Buffer], touches: Touches) -> list[Diagnostic]:
    shared = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        shared += 1
    loops = [k for k in range(shared) if a.loops[k].parallel]
    if not loops or not (a.written & (b.written | b.read) or b.written & a.read):
        return []
    boxes: dict[tuple[bool, int], Box | None] = {}
    for x in touches.of(a, "_a"):
        for y in touches.of(b, "_b"):
            if x.buffer is not y.buffer or not (x.write or y.write) or not (x.exact and y.exact):
                continue
            if x.buffer in settled or x.buffer.loops:
                continue
            if in_turn(a, b, x.buffer):
                continue
            for side, touch in ((False, x), (True, y)):
                if (side, touch.guards) not in boxes:
                    boxes[side, touch.guards] = touch.box
            first, second = boxes[False, x.guards], boxes[True, y.guards]
            known = (
                None
                if first is None or second is None
                else overlap(x.indices, y.indices, first, second, a.names[:shared])
            )
            together = [
                k for k in loops if a.loops[k].name not in x.buffer.apart and _is_one(x.buffer, a.names[: k + 1])
            ]
            doubtful = [k for k in together if known is None or k in known.forward]
            if not doubtful:
                continue
            names = [*x.names, *y.names]
            ranges = ranges_of(a.loops), ranges_of(b.loops)
            same = same_element(x.indices, y.indices, x.buffer.shape, x.domain.names, y.domain.names, *ranges)
            pairs = integer_set(names, [*x.constraints, *y.constraints, *same])
            for k in doubtful:
                outer = [f"{loop.name}_a = {loop.name}_b" for loop in a.loops[:k]]
                apart = f"{a.loops[k].name}_a < {a.loops[k].name}_b"
                meeting = pairs.intersect(integer_set(names, [*outer, apart]))
                if meeting.is_empty():
                    continue
                at = dict(zip(names, point(meeting), strict=True))
                title = a.loops[k].title or a.loops[k].name
                message = f"two iterations of the parallel loop over {title} touch {element_of(x, at)}."
                notes = (
                    Note(f"{'written' if x.write else 'read'} in the iteration {iteration_of(x, at)}.", x.span),
                    Note(f"{'written' if y.write else 'read'} in the iteration {iteration_of(y, at)}.", y.span),
                )
                help = "make the loop serial, or give each iteration elements of its own."
                return [Diagnostic("TL12", message, a.loops[k].span, notes, help)]
    return []
