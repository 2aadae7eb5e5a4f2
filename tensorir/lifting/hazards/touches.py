"""Iterations that touch one element: by their values, their order, and what they see of each other.

Terms that are no sums of loops' variables, and are for each value of one: `i & 13`, `8 >> s`, `i * j`.

Where no data take part, one access is as many as such a loop has iterations, each with its variable known.

>>> from tensorir.lifting.nests.terms import show
>>> from tensorir.ir.types import INT32
>>> shifted = Op("shift_right", (Number(8, INT32), Index("s", INT32)), INT32)
>>> [show(put_in(shifted, {"s": s}, {"s": (0, 3)})) for s in range(4)]
['8', '4', '2', '1']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from math import prod
from typing import Any

from tensorir.integers.affine import Affine, Ranges, number
from tensorir.integers.sets import isl
from tensorir.ir.types import BOOL
from tensorir.lifting.accesses.overlap import Box, Seen, box_of, reads_under
from tensorir.lifting.accesses.sets import (
    Domain,
    condition_text,
    conjuncts,
    decided,
    domain,
    integer_set,
    point,
    same_element,
)
from tensorir.lifting.nests.linear import linear, settled, term_of
from tensorir.lifting.nests.nest import Bottom, Check, External, Leaf, Loop, Store, While, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, Term, index_names, rebuilt, walk
from tensorir.lifting.nests.terms import values as of_numbers
from tensorir.runtime.errors import Span

Values = Mapping[str, int]
"""What is known of some loops' variables."""

MOST_VALUES = 64
"""How many iterations the loops have whose variables are put in one by one."""
MOST_NAMES = 2
"""How many loops these are."""


def choices_of_values(unknown: Sequence[Term], ranges: Ranges) -> Iterator[list[Values]]:
    """The values of few loops that a few terms use, fewest first; nothing where data or floats tell one."""
    if any(isinstance(t, Load) or t.element.is_float for term in unknown for t in walk(term)):
        return
    names = sorted(set[str]().union(*map(index_names, unknown)) & ranges.keys())
    chosen = [c for k in range(1, MOST_NAMES + 1) for c in combinations(names, k)]
    counts = {n: ranges[n][1] - ranges[n][0] + 1 for n in names}
    for those in sorted(chosen, key=lambda c: (len(c), prod(counts[n] for n in c))):
        if 0 < prod(counts[n] for n in those) <= MOST_VALUES:
            each = [range(ranges[n][0], ranges[n][1] + 1) for n in those]
            yield [dict(zip(those, values, strict=True)) for values in product(*each)]


def put_in(term: Term, values: Values, ranges: Ranges) -> Term:
    """The term with some variables known, in normal form."""
    known = {n: number(v) for n, v in values.items()}

    def rule(t: Term) -> Term | None:
        match t:
            case Index(name, element) if name in values:
                return Number(values[name], element)
            case Linear(affine, element) if affine.names & values.keys():
                return term_of(affine.replaced(known, ranges), element)
            case Op(op, args, element) if op in _OF_NUMBERS and element.is_integer:
                return _of_numbers(replace(t, args=tuple(settled(a, ranges) for a in args)))
            case _:
                return None

    return settled(rebuilt(term, rule), ranges)


_DIVISIONS = {"floordiv", "mod", "divides", "rem"}
_SHIFTS = {"shift_left", "shift_right"}
_OF_NUMBERS = {"bit_and", "bit_or", "bit_xor"} | _DIVISIONS | _SHIFTS
"""Operations that are sums of variables in few cases only."""


def _of_numbers(term: Op) -> Term:
    """The number that an operation on whole numbers is, where it is one."""
    match term:
        case Op(op, (Number(), Number(b)), element):
            meant = b != 0 if op in _DIVISIONS else op not in _SHIFTS or 0 <= b < element.bits
            found = of_numbers(term, {}) if meant else None
            return term if found is None else Number(int(found), element)
        case _:
            return term


# The accesses of statements with all that leads to them, as sets of integers know them.
#
# What is no sum of loops' variables, but is one for each value of few of them, is looked at value by value.


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

    def knows(self, leaf: Leaf, spot: Spot) -> bool:
        """True if an access that is no sum of variables is looked at value by value."""
        self.value_by_value(leaf, "_a")
        place = leaf.node, leaf.loops
        return any(self.by_value.get((place, k)) for k, s in enumerate(self.spots_of(leaf)) if s is spot)

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


# What a read may find: the iterations in which some store wrote its element before.
#
# A set of them may be too large where data decide over a store; what is missing in it is missing.


def first_missing(r: Touch, writes: Sequence[Touch]) -> list[tuple[int, ...]] | None:
    """The first iteration of a read before which no store writes its element, if there is one.

    None where isl does not decide it. The only iteration outside of loops is that of no variables.
    """
    missing = all_missing(r, writes)
    return None if missing is None else [] if missing.is_empty() else decided(lambda: [point(missing)])


def all_missing(r: Touch, writes: Sequence[Touch]) -> Any | None:
    """The iterations of a read before which no store writes its element; None where isl does not decide it."""
    left: Any | None = integer_set(r.names, r.constraints)
    for written in (part for w in writes for part in written_before(w, r)):
        left = decided(partial(_without, left, written))
        if left is None or left.is_empty():
            break
    return left


def _without(left: Any, written: Any) -> Any:
    found = left.subtract(written)
    found.is_empty()  # the work is here
    return found


def written_before(w: Touch, r: Touch, first: int = 0) -> Iterator[Any]:
    """The iterations of a read before which a store may write its element: more than do, where data decide."""
    for found in met_before(w, r, first):
        yield found.project_out(isl().dim_type.set, len(r.leaf.names), len(w.names))


def met_before(w: Touch, r: Touch, first: int = 0) -> Iterator[Any]:
    """The iterations of a read, each with those of a store that may write its element before.

    What one iteration of all common loops writes comes first, what earlier rounds of the outermost one write last.
    Iterations that are apart find nothing of what others wrote, nor is asked what others of the `first` loops did.
    """
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
    own = [f"{w.domain.names[n]} = {reader[n]}" for n in w.buffer.private if n in w.domain.names and n in reader]
    same = [*own, *same_element(w.indices, r.indices, w.buffer.shape, w.domain.names, reader, *ranges)]
    pairs = [(w.domain.names[loop.name], reader[loop.name]) for loop in w.leaf.loops[:common]]
    apart = [k for k, loop in enumerate(w.leaf.loops[:common]) if loop.name in (*w.buffer.private, *w.buffer.apart)]
    rounds = range(max(first, apart[-1] + 1 if apart else 0), common)
    orders = [[*(f"{a} = {b}" for a, b in pairs[:k]), f"{pairs[k][0]} < {pairs[k][1]}"] for k in rounds]
    if w.leaf.place < r.leaf.place:
        orders.append([f"{a} = {b}" for a, b in pairs])
    # most reads find what their own iteration wrote, and sets without all the earlier ones are much smaller
    for order in reversed(orders):
        yield integer_set([*names, *w.names], [*w.constraints, *same, *order])


# Which iterations of statements compute what anybody may see: what arguments hold, or decides what is done.
#
# The reductions of threads that TVM makes of shuffles hand on, compare and choose what some threads have never
# written; of what comes of it, nobody reads anything.

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
    found = {leaf.place: integer_set([f"{n}_a" for n in leaf.names], ["1 = 0"]) for leaf in statements}
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
    kind = isl().dim_type.set
    both = pairs.intersect(seen.insert_dims(kind, len(r.leaf.names), len(w.names)))
    return both.project_out(kind, 0, len(r.leaf.names))
