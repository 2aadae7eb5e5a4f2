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
from tensorir.lift.hazards.by_value import Values, choices_of_values, put_in
from tensorir.lift.nests.affine import Affine
from tensorir.lift.nests.linear import Ranges, linear, settled, term_of
from tensorir.lift.nests.nest import Bottom, Check, External, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lift.nests.terms import Buffer, Load, Number, Op, Term
from tensorir.source import Span
from tensorir.types import BOOL, INT32

__all__ = [
    "Spot", "Touch", "Touches", "element_of", "first_missing", "hazards", "in_turn", "iteration_of",
    "with_doubts_checked", "written_before",
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
    values: Values = field(default_factory=dict[str, int])
    """What is known of loops' variables, where an access is looked at value by value."""

    @property
    def names(self) -> list[str]:
        return [self.domain.names[n] for n in self.leaf.names]

    @property
    def box(self) -> Box | None:
        """The iterations that come to it, where these are a box."""
        box = box_of(self.leaf, ranges_of(self.leaf.loops), self.guards)
        return None if box is None else {n: _with(self.values.get(n), span) for n, span in box.items()}


def _with(value: int | None, span: tuple[int, int]) -> tuple[int, int]:
    return span if value is None else (max(span[0], value), min(span[1], value))


def hazards(nodes: Sequence[Node], touches: Touches) -> list[Diagnostic]:
    """Every hazard that is proven, the first of each statement; statements inside of whiles are not looked at."""
    statements = leaves(nodes)
    # a condition around several statements is told of once
    outside = {(d.span, d.message): d for leaf in reversed(statements) for d in _outside(leaf, touches)}
    places = {d.span for d in outside.values()}
    unwritten = [d for d in _unwritten(statements, touches) if d.span not in places]
    return [*reversed(outside.values()), *unwritten, *_races(statements, touches)]


# Accesses and the conditions that lead to them


@dataclass(frozen=True, slots=True)
class Spot:
    """An access in normal form; an index that is no sum stays a term."""

    buffer: Buffer
    indices: tuple[Affine | Term, ...]
    write: bool
    guards: int
    """How many guards lead to it."""
    conditions: tuple[Term, ...]
    """Those around it."""
    parts: tuple[Term, ...]
    """Of the conditions, in normal form."""
    span: Span


_Place = tuple[Bottom, tuple[Loop, ...]]
_ByValue = tuple[tuple[Leaf, Spot, Values], ...]
"""What a statement and its access are for each value of some variables."""

MOST_BY_VALUE = 192
"""How many accesses of one program are looked at for one value of a variable each."""


@dataclass(frozen=True, slots=True)
class Touches:
    """The accesses of the statements of a program, each statement looked at once."""

    spots: dict[_Place, tuple[Spot, ...]] = field(default_factory=dict[_Place, tuple[Spot, ...]])
    known: dict[tuple[Leaf, str], tuple[Touch | None, ...]] = field(
        default_factory=dict[tuple[Leaf, str], tuple["Touch | None", ...]]
    )
    finer: dict[tuple[Leaf, str], tuple[Touch, ...]] = field(default_factory=dict[tuple[Leaf, str], tuple[Touch, ...]])
    by_value: dict[tuple[_Place, int], _ByValue] = field(default_factory=dict[tuple[_Place, int], _ByValue])

    def of(self, leaf: Leaf, suffix: str) -> tuple[Touch, ...]:
        """Every access of a statement, its variables under names that end in a suffix; of a while, of its condition."""
        return tuple(t for t in self._found(leaf, suffix) if t is not None)

    def value_by_value(self, leaf: Leaf, suffix: str) -> tuple[Touch, ...]:
        """The same, where what is no sum of variables, but is one for each value of few of them, is looked at so."""
        if (leaf, suffix) not in self.finer:
            self.finer[leaf, suffix] = tuple(self._finer(leaf, suffix))
        return self.finer[leaf, suffix]

    def _found(self, leaf: Leaf, suffix: str) -> tuple[Touch | None, ...]:
        if (leaf, suffix) not in self.known:
            domains: dict[int, Domain] = {}
            self.known[leaf, suffix] = tuple(_touch(leaf, spot, suffix, domains) for spot in self.spots_of(leaf))
        return self.known[leaf, suffix]

    def _finer(self, leaf: Leaf, suffix: str) -> Iterator[Touch]:
        place = leaf.node, leaf.loops
        for k, touch in enumerate(self._found(leaf, suffix)):
            if touch is not None and touch.exact:
                yield touch
                continue
            if (place, k) not in self.by_value:
                left = MOST_BY_VALUE - sum(map(len, self.by_value.values()))
                self.by_value[place, k] = _by_value(leaf, self.spots_of(leaf)[k], left)
            apart = (_touch(at, spot, suffix, {}, values) for at, spot, values in self.by_value[place, k])
            found = [t for t in apart if t is not None]
            yield from found or ([] if touch is None else [touch])

    def spots_of(self, leaf: Leaf) -> tuple[Spot, ...]:
        """Every access of a statement in normal form, those at places that data tell among them."""
        place = leaf.node, leaf.loops
        if place not in self.spots:
            self.spots[place] = tuple(_spots(leaf.node, ranges_of(leaf.loops)))
        return self.spots[place]


def _touch(
    leaf: Leaf, spot: Spot, suffix: str, domains: dict[int, Domain], values: Values | None = None
) -> Touch | None:  # fmt: skip
    """An access as sets of integers know it; None where an index is no sum."""
    indices = tuple(i for i in spot.indices if isinstance(i, Affine))
    if len(indices) < len(spot.indices):
        return None
    if spot.guards not in domains:
        domains[spot.guards] = domain(leaf, ranges_of(leaf.loops), (), suffix, guards=spot.guards)
    whole, values = domains[spot.guards], values or {}
    parts = [condition_text(part, whole.names) for part in spot.parts]
    told = [p for p in parts if p is not None] + [f"{whole.names[n]} = {v}" for n, v in values.items()]
    exact = whole.exact and None not in parts
    led = (*leaf.node.guards[: spot.guards], *spot.conditions)
    constraints = (*whole.constraints, *told)
    return Touch(
        leaf, spot.buffer, indices, spot.write, whole, constraints, exact, spot.span, led, spot.guards, values
    )  # fmt: skip


def _spots(node: Bottom, ranges: Ranges) -> Iterator[Spot]:
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
        known = tuple(_sum(i, ranges, memo) for i in indices)
        parts = tuple(part for c in conditions for part in conjuncts(settled(c, ranges, memo)))
        yield Spot(buffer, known, write, guards, conditions, parts, span)


def _sum(index: Term, ranges: Ranges, memo: dict[int, Term]) -> Affine | Term:
    found = linear(index, ranges, memo)
    return found if found is not None and found.names <= ranges.keys() else index


def _by_value(leaf: Leaf, spot: Spot, most: int) -> _ByValue:
    """An access for each value of some variables, all of it known; nothing where that would be too many, or unknown."""
    ranges = ranges_of(leaf.loops)
    names = {n: n for n in leaf.names}
    guards = [part for g in leaf.node.guards[: spot.guards] for part in conjuncts(settled(g, ranges))]
    unknown = [i for i in spot.indices if not isinstance(i, Affine)]
    unknown += [part for part in (*guards, *spot.parts) if condition_text(part, names) is None]
    for choice in choices_of_values(unknown, ranges):
        found: list[tuple[Leaf, Spot, Values]] = []
        for values in choice:
            led = tuple(put_in(g, values, ranges) for g in leaf.node.guards[: spot.guards])
            parts = tuple(part for p in spot.parts for part in conjuncts(put_in(p, values, ranges)))
            if Number(False, BOOL) in (*parts, *(part for g in led for part in conjuncts(g))):
                continue
            at = Leaf(replace(leaf.node, guards=led), leaf.loops, leaf.place)
            indices = tuple(
                i if isinstance(i, Affine) else _sum(put_in(i, values, ranges), ranges, {}) for i in spot.indices
            )
            one = replace(spot, indices=indices, parts=parts)
            touch = _touch(at, one, "", {})
            if touch is None or not touch.exact:
                break
            found.append((at, one, values))
        else:
            return tuple(found) if len(found) <= most else ()
    return ()


def iteration_of(touch: Touch, at: Mapping[str, int]) -> str:
    """The iteration, in the source's words."""
    parts = [f"{loop.title or loop.name} = {at[touch.domain.names[loop.name]]}" for loop in touch.leaf.loops]
    return f"the iteration {', '.join(parts)}" if parts else "the only iteration"


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
    found_in = [known.value_by_value(leaf, "_a") for leaf in statements]
    touches = [t for each in found_in for t in each]
    unknown: dict[Buffer, list[Leaf]] = {}
    for leaf, each in zip(statements, found_in, strict=True):
        for buffer in leaf.written - {t.buffer for t in each if t.write}:
            unknown.setdefault(buffer, []).append(leaf)
    found: list[Diagnostic] = []
    for r in touches:
        buffer = r.buffer
        given = buffer.argument and not buffer.declared
        if r.write or not r.exact or given or buffer.loops or buffer.value is not None:
            continue
        if any(_may_precede(w, r.leaf) for w in unknown.get(buffer, ())):
            continue
        writes = [w for w in touches if w.write and w.buffer is buffer]
        missing = first_missing(r, writes)
        if not missing:
            continue
        at = dict(zip(r.names, missing[0], strict=True))
        message = f"{element_of(r, at)} is read, and nothing has written it."
        note = f"in {iteration_of(r, at)}."
        found.append(Diagnostic("TL11", message, r.span, (note,), f"give {buffer.name!r} a value first."))
        break
    return found


def _may_precede(a: Leaf, b: Leaf) -> bool:
    """Whether one statement runs before another one in any iteration."""
    return a.place < b.place or bool(a.loops and b.loops and a.loops[0] is b.loops[0])


def first_missing(r: Touch, writes: Sequence[Touch]) -> list[tuple[int, ...]] | None:
    """The first iteration of a read before which no store writes its element, if there is one.

    None where isl does not decide it. The only iteration outside of loops is that of no variables.
    """
    left: _Left | None = _Left(integer_set(r.names, r.constraints))
    for written in (part for w in writes for part in written_before(w, r)):
        left = decided(partial(left.without, written))
        if left is None or left.empty:
            break
    return None if left is None else [] if left.empty else decided(lambda: [point(left.missing)])


class _Left:
    """The iterations for which no write was found yet."""

    def __init__(self, missing: Any) -> None:
        self.missing, self.empty = missing, bool(missing.is_empty())

    def without(self, written: Any) -> _Left:
        return _Left(self.missing.subtract(written))


def written_before(w: Touch, r: Touch, first: int = 0) -> Iterator[Any]:
    """The iterations of a read before which a store may write its element: more than do, where data decide.

    What one iteration of all common loops writes comes first, what earlier rounds of the outermost one write last.
    Iterations that are apart find nothing of what others wrote, nor is asked what others of the `first` loops did.
    """
    import islpy

    if any(i.is_number and j.is_number and i != j for i, j in zip(w.indices, r.indices, strict=True)):
        return
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
    rounds = range(max(first, apart[-1] + 1 if apart else 0), common)
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
    found: list[Diagnostic] = []
    for p, a in enumerate(statements):
        for b in statements[p:]:
            found += _race(a, b, touches)
            if found:
                return found
    return found


def in_turn(a: Leaf, b: Leaf, buffer: Buffer) -> bool:
    """Whether two statements touch a buffer by atomic updates of it only, or keep what these find."""
    return all(isinstance(n, Store) and n.atomic and buffer in (n.buffer, _found(n)) for n in (a.node, b.node))


def _found(node: Store) -> Buffer | None:
    """What a value that one iteration keeps is an element of."""
    return node.value.buffer if node.buffer.loops and isinstance(node.value, Load) else None


def _is_one(buffer: Buffer, names: Sequence[str]) -> bool:
    """Whether iterations of the last of some loops have a buffer together, in one iteration of the others."""
    return set(buffer.private) <= set(names[:-1])


def _far_apart(x: Touch, y: Touch, of_x: Box | None, of_y: Box | None) -> bool:
    """Whether one access stays below the other along some dim, which is said without any set."""
    if of_x is None or of_y is None:
        return False
    spans = ((i.range(of_x), j.range(of_y)) for i, j in zip(x.indices, y.indices, strict=True))
    return any(p is not None and q is not None and (p[1] < q[0] or q[1] < p[0]) for p, q in spans)


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
