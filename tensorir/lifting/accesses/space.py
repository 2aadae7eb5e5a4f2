"""The iterations of one statement as a box of named dims: what splitting, fusing and tiling did is undone here.

Loops that only ever appear together, as `i0 * 16 + i1`, become one dim; a loop that only ever appears as `i // 4` and
`i % 4` becomes two; guards that bound a dim become its interval; loops of one iteration, and guards that leave one
value, become that value. Each step is a bijection of the iterations onto a box, so the order of the loops is lost and
nothing else: what may be run in any order, or folds over the rest, is the same.

>>> from tensorir.lifting.nests.terms import Index, Number, Op, show
>>> outer, inner = Index("i_0", INT32), Index("i_1", INT32)
>>> fused = Op("plus", (Op("multiplies", (outer, Number(8, INT32)), INT32), inner), INT32)
>>> space = boxed({"i_0": Interval(0, 4), "i_1": Interval(0, 8)}, (fused,), Number(1.0, INT32), (), {})
>>> space.dims, show(space.location[0])
({'i': Interval(0, 32)}, 'i')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, Quotient, Ranges, number, quotient, variable
from tensorir.integers.affine import number as constant
from tensorir.integers.dims import Interval
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.sets import both, conjuncts
from tensorir.lifting.nests.bounded import quotient_where, sums_bounded
from tensorir.lifting.nests.linear import COMPARISONS, affine_of, linear, settled, term_of
from tensorir.lifting.nests.nest import Loop
from tensorir.lifting.nests.terms import (
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    fitting,
    index_names,
    loads,
    rebuilt,
    values,
    walk,
)
from tensorir.lifting.nests.unknowns import NO_FACTS, told
from tensorir.runtime.memory import remembered

MOST_SOLVED = 1 << 12
"""From how many points the coefficients of a sum are found, which is then looked at in all of them."""
LARGEST = 1 << 24
"""Numbers up to here are added and multiplied as they are."""


def sum_of(value: Any, counted: Mapping[Affine, Any]) -> Affine | None:
    """A value that changes from point to point as a sum of others, and a number; None where it is none.

    What is a sum of those before it is left out.
    """
    columns = [np.ones_like(value), *counted.values()]
    if any(c.size and abs(c).max() > LARGEST for c in (*columns, value)):
        return None
    some = np.random.default_rng(0).integers(value.size, size=MOST_SOLVED) if value.size > MOST_SOLVED else slice(None)
    sample = [c[some] for c in (*columns, value)]
    rows = [[Fraction(int(a @ b)) for b in sample] for a in sample[:-1]]
    pivots: list[int] = []
    for k, row in enumerate(rows):
        if not row[k]:
            continue
        pivots.append(k)
        for other in rows:
            if other is not row and other[k]:
                factor = other[k] / row[k]
                other[:] = [x - factor * y for x, y in zip(other, row, strict=True)]
    found = {k: rows[k][-1] / rows[k][k] for k in pivots}
    if any(c.denominator != 1 or abs(c) > LARGEST for c in found.values()):
        return None
    total = number(0)
    for k, part in enumerate((number(1), *counted)):
        total = total.plus(part.times(int(found.get(k, 0))))
    here = sum((int(found[k]) * columns[k] for k in pivots), start=np.zeros_like(value))
    return total if (here == value).all() else None


MOST_COUNTED = 1 << 12
"""At how many points conditions are looked at."""


def in_one_period(term: Term, guards: Sequence[Term], ranges: Ranges) -> Term:
    """A term without the quotients that are sums wherever all guards hold.

    What a choice chooses is such a term wherever its conditions hold as well.
    """
    if not _divides(term):
        return term
    conditions, bounded = _telling(guards), sums_bounded(guards, ranges)

    def rule(t: Term) -> Term | None:
        match t:
            case Op("if", (condition, yes, no), element) if _divides(yes):
                parts = conjuncts(condition)
                if not _telling(parts) and not sums_bounded(parts, ranges):
                    return None
                chosen = in_one_period(yes, (*guards, *parts), ranges)
                return None if chosen is yes else Op("if", (condition, chosen, no), element)
            case Linear(a, element) if (conditions or bounded) and not a.is_linear:
                total = number(a.constant)
                for atom, c in a.terms:
                    whole = None
                    if isinstance(atom, Quotient):
                        whole = quotient_where(atom, bounded, ranges) or _whole(atom, conditions, ranges)
                    total = total.plus(Affine(((atom, c),)) if whole is None else whole.times(c))
                return None if total == a else term_of(total, element)
            case _:
                return None

    return rebuilt(term, rule)


def counted(term: Term, guards: Sequence[Term], ranges: Ranges) -> Term:
    """A term without quotients, and exceptions, that are one sum at all of the few points where guards hold.

    >>> third = term_of(quotient(variable("t").plus(number(1)), 3, {"t": (0, 2)}), INT32)
    >>> last = Op("eq", (Linear(variable("t"), INT32), Number(2, INT32)), BOOL)
    >>> one_less = Op("minus", (third, Number(1, INT32)), INT32)
    >>> print(counted(Op("if", (last, one_less, third), INT32), (), {"t": (0, 2)}).value)
    0
    """
    if not any(map(_asks, walk(term))):
        return term
    held = [g for g in guards if not loads(g)]

    def rule(t: Term) -> Term | None:
        match t:
            case Linear() if _asks(t):
                return _at_all_points(t, held, ranges)
            case Op(op, _, element) if op in COMPARISONS or (op == "if" and element.is_integer):
                return _at_all_points(t, held, ranges) if any(map(_asks, walk(t))) else None
            case _:
                return None

    return rebuilt(term, rule)


def _asks(term: Term) -> bool:
    """True if a term is a quotient, or chosen at some points: where a choice has two sides, either may go on."""
    match term:
        case Linear(a):
            return not a.is_linear
        case Op("if", (Op("eq" | "not_eq"), *_), element):
            return element.is_integer
        case _:
            return False


def _at_all_points(term: Linear | Op, guards: Sequence[Term], ranges: Ranges) -> Term | None:
    """A term as a sum, or as its truth, where it is one at all points; None where data tell, or points are many.

    What is rounded on the way is computed where it runs.
    """
    if any(t.element.is_float for t in walk(term)):
        return None
    telling = tuple(g for g in guards if not index_names(g).isdisjoint(index_names(term)))
    names = sorted(index_names(term).union(*map(index_names, telling)))
    if any(n not in ranges for n in names):
        return None
    return _at_points(term, telling, tuple((n, *ranges[n]) for n in names))


@remembered("facts of nests", limit=4096)
def _at_points(term: Linear | Op, guards: tuple[Term, ...], spans: tuple[tuple[str, int, int], ...]) -> Term | None:
    sizes = [high - low + 1 for _, low, high in spans]
    if not 0 < prod(sizes) <= MOST_COUNTED:
        return None
    axes = np.ix_(*(np.arange(low, high + 1) for _, low, high in spans))
    grid = {n: np.broadcast_to(a, sizes) for (n, _, _), a in zip(spans, axes, strict=True)}
    held = [h for g in guards if (h := values(g, grid)) is not None]
    found = values(term, grid)
    if found is None or len(held) < len(guards):
        return None
    at = np.logical_and.reduce([np.ones(sizes, bool), *held])
    found = np.broadcast_to(found, sizes)[at].astype(np.int64)
    if not found.size:
        return None
    if term.element == BOOL:
        return Number(bool(found[0]), BOOL) if (found == found[0]).all() else None
    a = sum_of(found, {variable(n): column[at] for n, column in grid.items()})
    return None if a is None else fitting(a, term.element, {n: (low, high) for n, low, high in spans})


def _telling(guards: Sequence[Term]) -> list[Term]:
    """Conditions that are no sums, and that no data tell."""
    return [g for g in guards if not _is_bound(g) and not any(isinstance(t, Load) for t in walk(g))]


def _divides(term: Term) -> bool:
    return any(isinstance(t, Linear) and not t.affine.is_linear for t in walk(term))


def _is_bound(guard: Term) -> bool:
    """True if a condition compares sums."""
    return isinstance(guard, Op) and guard.op in COMPARISONS and all(affine_of(a) is not None for a in guard.args)


def _whole(q: Quotient, conditions: Sequence[Term], ranges: Ranges) -> Affine | None:
    """The sum that a quotient is where conditions hold; None where it is several."""
    coarse = Affine(tuple((t, c // q.by) for t, c in q.inner.terms if c % q.by == 0))
    fine = Affine(tuple((t, c) for t, c in q.inner.terms if c % q.by), q.inner.constant)
    telling = [g for g in conditions if not index_names(g).isdisjoint(fine.names)]
    spread = _spread_at_points(fine, telling, ranges) if telling else None
    return None if spread is None or spread[0] // q.by != spread[1] // q.by else coarse.plus(number(spread[0] // q.by))


def spread_where(a: Affine, guards: Sequence[Term], ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a sum where conditions hold, counted where points are few.

    >>> tiles = variable("r").plus(Affine(((Quotient(variable("t"), 3), 2),)))
    >>> spread_where(tiles, [], {"t": (0, 3), "r": (0, 2)})
    (0, 4)
    """
    telling = [g for g in guards if not index_names(g).isdisjoint(a.names) and not loads(g)]
    found = _spread_at_points(a, telling, ranges)
    return a.range(ranges) if found is None else found


def _spread_at_points(a: Affine, conditions: Sequence[Term], ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a sum where conditions hold; None where that is nowhere, or not counted."""
    names = sorted(a.names.union(*map(index_names, conditions)))
    if any(n not in ranges for n in names):
        return None
    sizes = [ranges[n][1] - ranges[n][0] + 1 for n in names]
    if not 0 < prod(sizes) <= MOST_COUNTED:
        return None
    axes = np.ix_(*(np.arange(ranges[n][0], ranges[n][1] + 1) for n in names))
    grid = dict(zip(names, axes, strict=True))
    found = [f for t in (Linear(a, INT64), *conditions) if (f := values(t, grid)) is not None]
    if len(found) <= len(conditions):
        return None
    places, *held = (np.broadcast_to(f, sizes) for f in found)
    inside: Any = places[np.logical_and.reduce([np.ones(sizes, bool), *held])]
    return (int(inside.min()), int(inside.max())) if inside.size else None


MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Space:
    """A statement over a box: where it stores, what, and under which conditions that no interval says."""

    dims: Mapping[str, Interval]
    location: tuple[Term, ...]
    value: Term
    guards: tuple[Term, ...]
    outer: Ranges = field(default_factory=dict[str, tuple[int, int]])
    """The ranges of the variables of loops outside, which stand for one value each."""

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        return {**self.outer, **{n: (i.start, i.stop - 1) for n, i in self.dims.items()}}

    @property
    def empty(self) -> bool:
        return any(not i for i in self.dims.values()) or any(isinstance(g, Number) and not g.value for g in self.guards)

    def terms(self) -> tuple[Term, ...]:
        return (*self.location, self.value, *self.guards)


def boxed(
    dims: Mapping[str, Interval], location: tuple[Term, ...], value: Term, guards: Sequence[Term], outer: Ranges
) -> Space:
    """The space of a statement, in the simplest dims that are found, whatever becomes of the order of its loops."""
    space = _settle(Space(dict(dims), location, value, tuple(guards), outer))
    for _ in range(MOST_STEPS):
        if space.empty:
            return space
        new = _fix(space) or _tighten(space) or _join(space) or split(space, space.terms())
        if new is None:
            return space
        space = new
    return space


def in_order(
    dims: Mapping[str, Interval], location: tuple[Term, ...], value: Term, guards: Sequence[Term], outer: Ranges
) -> Space:
    """The space of a statement whose iterations keep their order: only dims that follow each other are joined."""
    space = _settle(Space(dict(dims), location, value, tuple(guards), outer))
    for _ in range(MOST_STEPS):
        if space.empty:
            return space
        new = _fix(space) or _tighten(space) or _join(space, in_order=True) or split(space, space.terms())
        if new is None:
            return space
        space = new
    return space


def as_it_is(
    dims: Mapping[str, Interval], location: tuple[Term, ...], value: Term, guards: Sequence[Term], outer: Ranges
) -> Space:
    """The space of a statement in the dims that it has, its terms in normal form."""
    return _settle(Space(dict(dims), location, value, tuple(guards), outer))


def hull_of(loops: Sequence[Loop], ranges: Ranges) -> tuple[dict[str, Interval], list[Term]]:
    """The iterations of loops as the least box around them, and the conditions that say where loops are shorter."""
    dims: dict[str, Interval] = {}
    guards: list[Term] = []
    for loop in loops:
        low, high = ranges[loop.name]
        dims[loop.name] = Interval(low, high + 1)
        first, extent = linear(loop.low, ranges), linear(loop.extent, ranges)
        assert first is not None and extent is not None
        if not first.is_number:
            guards.append(Op("greater_equal", (Index(loop.name, INT32), loop.low), BOOL))
        if not (first.is_number and extent.is_number):
            stop = Op("plus", (loop.low, loop.extent), loop.low.element)
            guards.append(Op("less", (Index(loop.name, INT32), stop), BOOL))
    return dims, guards


def _settle(space: Space) -> Space:
    """All terms in normal form for the intervals; conditions that hold everywhere are dropped."""
    ranges, facts = space.ranges, NO_FACTS
    guards: list[Term] = []

    def settle(term: Term) -> Term:
        new = settled(term, ranges, facts=facts)
        known = counted(new, guards, ranges)
        return new if known is new else settled(known, ranges, facts=facts)

    for guard in space.guards:
        for part in conjuncts(settle(guard)):
            if not (isinstance(part, Number) and part.value) and part not in guards:
                guards.append(part)
                facts = told(part, facts, True)
    location, value = tuple(map(settle, space.location)), settle(space.value)
    location = tuple(in_one_period(t, guards, ranges) for t in location)
    return replace(space, location=location, value=in_one_period(value, guards, ranges), guards=tuple(guards))


def substituted(
    space: Space, values: Mapping[str, Affine], dims: Mapping[str, Interval], guards: Sequence[Term]
) -> Space:
    """The space with dims replaced by sums of others."""
    ranges = {**space.outer, **{n: (i.start, i.stop - 1) for n, i in dims.items()}}

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine, element):
                return term_of(affine.replaced(values, ranges), element) if affine.names & values.keys() else None
            case Index(name, element) if name in values:
                return term_of(values[name], element)
            case _:
                return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    new = Space(dims, tuple(map(over, space.location)), over(space.value), tuple(map(over, guards)), space.outer)
    return _settle(new)


def _sums(terms: Iterable[Term]) -> list[Affine]:
    found: dict[Affine, None] = {}
    for term in terms:
        for t in walk(term):
            if isinstance(t, Linear):
                found[t.affine] = None
    return list(found)


# Guards that are intervals, and dims of one value


def _fix(space: Space) -> Space | None:
    """Dims of one value, and sums that a guard holds at their least or greatest value."""
    values = {n: constant(i.start) for n, i in space.dims.items() if len(i) == 1}
    guards = list(space.guards)
    for guard in space.guards:
        match guard:
            case Op("eq", (a, b)):
                x, y = affine_of(a), affine_of(b)
                if x is None or y is None:
                    continue
                difference = x.minus(y)
                if not difference.is_linear or not difference.names <= space.dims.keys() - values.keys():
                    continue  # what another condition has fixed meets this one in the next round
                spread = difference.range(space.ranges)
                if spread is None or 0 not in spread:
                    continue
                for atom, c in difference.terms:
                    assert isinstance(atom, str)
                    interval = space.dims[atom]
                    least = (c > 0) == (spread[0] == 0)
                    values[atom] = constant(interval.start if least else interval.stop - 1)
                guards.remove(guard)
            case _:
                pass
    if not values:
        return None
    dims = {n: i for n, i in space.dims.items() if n not in values}
    return substituted(space, values, dims, guards)


def bounds_of_guard(guard: Term) -> tuple[str, int, bool] | None:
    """A guard on one variable: name, the bound, and whether it is an upper one (inclusive)."""
    match guard:
        case Op("less" | "less_equal" | "greater" | "greater_equal" as op, (a, b)):
            x, y = affine_of(a), affine_of(b)
            if x is None or y is None:
                return None
            if op in ("greater", "greater_equal"):
                x, y = y, x
            difference = x.minus(y)  # <= 0, or < 0
            if len(difference.terms) != 1 or not isinstance(difference.terms[0][0], str):
                return None
            (name, c), k = difference.terms[0], -difference.constant - (op in ("less", "greater"))
            assert isinstance(name, str)
            return (name, k // c, True) if c > 0 else (name, -(k // -c), False)
        case _:
            return None


def _tighten(space: Space) -> Space | None:
    """Dims that end where guards end them: a guard on one dim goes away, one on several says how far each may go."""
    dims = dict(space.dims)
    guards: list[Term] = []
    for guard in space.guards:
        found = bounds_of_guard(guard)
        if found is None or found[0] not in dims:
            guards.append(guard)
        for name, bound, upper in (*_hulls(guard, space),) if found is None else (found,):
            if name not in dims:
                continue
            dims[name] = _bounded(dims[name], bound, upper)
    if len(guards) == len(space.guards) and dims == space.dims:
        return None
    return _settle(replace(space, dims=dims, guards=tuple(guards)))


def _hulls(guard: Term, space: Space) -> Iterator[tuple[str, int, bool]]:
    """The range of each dim under a guard on several, for all values of the others, as `bounds_of_guard` has it."""
    match guard:
        case Op("less" | "less_equal" | "greater" | "greater_equal" as op, (a, b)):
            x, y = affine_of(a), affine_of(b)
        case _:
            return
    if x is None or y is None:
        return
    if op in ("greater", "greater_equal"):
        x, y = y, x
    difference = x.minus(y)  # <= 0, or < 0
    for atom, c in difference.terms:
        rest = Affine(tuple(t for t in difference.terms if t[0] != atom), difference.constant)
        if isinstance(atom, str) and atom in space.dims and atom not in rest.names:
            spread = rest.range(space.ranges)
            if spread is not None:
                k = -spread[0] - (op in ("less", "greater"))
                yield (atom, k // c, True) if c > 0 else (atom, -(k // -c), False)


# Joining and splitting


def _cost(sums: Iterable[Affine]) -> int:
    total = 0
    for a in sums:
        for atom, _ in a.terms:
            total += 1 if isinstance(atom, str) else 4 + _cost((atom.inner,))
    return total


def _levels(sums: Iterable[Affine], by: int = 0) -> Iterable[tuple[Affine, int]]:
    """Every sum, and every one that is divided, with its divisor: of multiples of it nothing is left there."""
    for a in sums:
        yield a, by
        for atom, _ in a.terms:
            if isinstance(atom, Quotient):
                yield from _levels((atom.inner,), atom.by)


def _join(space: Space, in_order: bool = False) -> Space | None:
    """Two dims that appear as one sum become one dim; in order, only where the one follows the other.

    Dims that the element tells which is stored have no order: iterations of several values of theirs do not meet.
    """
    order = list(space.dims)
    told = {n for t in space.location if (a := affine_of(t)) is not None for n in digits(a, space.dims) or ()}
    sums = _sums(space.terms())
    before = _cost(sums)
    bounds = _bounds(space.terms())
    tried: set[tuple[str, str]] = set()
    # what is one sum everywhere comes before what is one up to multiples of a divisor
    levels = [(a, by, exact) for exact in (True, False) for a, by in _levels(sums) if exact or by]
    for a, by, exact in levels:
        flat = [(n, c) for n, c in a.terms if isinstance(n, str) and n in space.dims]
        for inner, small in flat:
            n = len(space.dims[inner])
            if space.dims[inner].start:
                continue
            joined: list[tuple[int, dict[str, Affine], dict[str, Interval]]] = []
            for outer, large in flat:
                apart = large - small * n
                if outer == inner or (apart if exact else apart % by) or (outer, inner) in tried:
                    continue
                tried.add((outer, inner))
                follows = order.index(inner) == order.index(outer) + 1
                if in_order and not follows and not {outer, inner} <= told:
                    continue
                name = joined_name(outer, inner, space.dims)
                whole = variable(name)
                interval = space.dims[outer]
                dims = {
                    (name if d == outer else d): (Interval(interval.start * n, interval.stop * n) if d == outer else i)
                    for d, i in space.dims.items()
                    if d != inner
                }
                ranges = {**space.outer, **{d: (i.start, i.stop - 1) for d, i in dims.items()}}
                part = quotient(whole, n, ranges)
                values = {outer: part, inner: whole.minus(part.times(n))}
                cost = _cost({s.replaced(values, ranges) for s in sums})
                if cost < before:
                    joined.append((cost, values, dims))
                    continue
                if joined:
                    continue
                if exact and _ends_within(space, variable(outer).times(n).plus(variable(inner))):
                    return substituted(space, values, dims, space.guards)
                if any(len({outer, inner} & b.names) == 1 for b in bounds):
                    # what bounds one of the two may bound their sum: only the terms in normal form tell
                    new = substituted(space, values, dims, space.guards)
                    if _cost(_sums(new.terms())) < before:
                        return new
            if joined:
                # several may follow one: that it is a digit of the others tells what is left of them
                _, values, dims = min(joined, key=lambda found: found[0])
                return substituted(space, values, dims, space.guards)
    return None


def _ends_within(space: Space, whole: Affine) -> bool:
    """True if a number of two digits is a place, and a guard says where it ends: it was one dim, split unevenly.

    Storage of a tile, of which each digit is an index, shows the digits as dims.
    """
    ((one, c), (other, k)) = whole.terms
    places = [a for a in map(affine_of, space.location) if a is not None]
    is_place = any(a.coefficient(one) * k == a.coefficient(other) * c != 0 for a in places)
    if not is_place or not any(Affine(b.terms) == whole for b in _bounds(space.guards)):
        return False
    apart = ([index_names(i) & whole.names for i in load.indices] for load in loads(space.value))
    return not any({one} in names and {other} in names for names in apart)


def _bounds(terms: Iterable[Term]) -> list[Affine]:
    """The sums that are compared with a number."""
    found: list[Affine] = []
    for term in terms:
        for t in walk(term):
            match t:
                case Op(op, (Linear(a), Number())) | Op(op, (Number(), Linear(a))) if op in COMPARISONS:
                    found.append(a)
                case _:
                    pass
    return found


def joined_name(outer: str, inner: str, taken: Mapping[str, Interval]) -> str:
    shared = 0
    for x, y in zip(outer, inner, strict=False):
        if x != y:
            break
        shared += 1
    prefix = outer[:shared]
    stem = prefix[:-1] if prefix.endswith("_") else prefix.rstrip("0123456789")
    if stem and stem not in taken:
        return stem
    name, k = outer.rstrip("_0123456789") or outer, 1
    stem = name
    while name in taken and name != outer and name != inner:
        name, k = f"{stem}_{k}", k + 1
    return name


def split(space: Space, terms: Iterable[Term]) -> Space | None:
    """A dim that appears in a quotient becomes two, where that makes the terms simpler."""
    sums = _sums(terms)
    before = _cost(sums)
    tried: set[tuple[str, int]] = set()
    for a, _ in _levels(sums):
        for atom, _ in a.terms:
            if not isinstance(atom, Quotient):
                continue
            for name, c in atom.inner.terms:
                if not isinstance(name, str) or name not in space.dims or atom.by % c:
                    continue
                n = atom.by // abs(c)
                interval = space.dims[name]
                if (name, n) in tried or n <= 1 or interval.start % n or interval.stop % n or len(interval) <= n:
                    continue
                tried.add((name, n))
                outer, inner = _split_names(name, space.dims)
                dims: dict[str, Interval] = {}
                for d, i in space.dims.items():
                    if d == name:
                        dims[outer], dims[inner] = Interval(i.start // n, i.stop // n), Interval(0, n)
                    else:
                        dims[d] = i
                ranges = {**space.outer, **{d: (i.start, i.stop - 1) for d, i in dims.items()}}
                values = {name: variable(outer).times(n).plus(variable(inner))}
                after = {s.replaced(values, ranges) for s in sums}
                if _cost(after) < before:
                    return substituted(space, values, dims, space.guards)
    return None


def _split_names(name: str, taken: Mapping[str, Interval]) -> tuple[str, str]:
    k = 0
    while f"{name}_{k}" in taken or f"{name}_{k + 1}" in taken:
        k += 2
    return f"{name}_{k}", f"{name}_{k + 1}"


def digits(a: Affine, dims: Mapping[str, Interval]) -> list[str] | None:
    """The dims of a mixed-radix number, most significant first, such as `i * 12 + j * 4 + k`."""
    found: list[tuple[int, str]] = []
    for atom, c in a.terms:
        if not isinstance(atom, str) or atom not in dims or c < 1:
            return None
        found.append((c, atom))
    found.sort(reverse=True)
    step = 1
    for k, (c, name) in enumerate(reversed(found)):
        if c != step or (dims[name].start and k != len(found) - 1):
            return None
        step = c * len(dims[name])
    return [name for _, name in found]


def interval_of(condition: Term, box: Mapping[str, Interval]) -> tuple[dict[str, Interval] | None, Term | None]:
    """The part of a box where a settled condition's bounds hold, and what of the condition no interval says."""
    inside = dict(box)
    rest: Term | None = None
    for part in conjuncts(condition):
        found = bounds_of_guard(part)
        if found is None:
            found = value_of_guard(part)
            if found is not None and found[0] in inside:
                name, value = found
                i = inside[name] & Interval(value, value + 1)
                inside[name] = i if value in inside[name] else Interval(inside[name].start, inside[name].start)
                continue
            rest = part if rest is None else both(rest, part)
            continue
        name, bound, upper = found
        if name not in inside:
            rest = part if rest is None else both(rest, part)
            continue
        inside[name] = _bounded(inside[name], bound, upper)
    return inside, rest


def _bounded(i: Interval, bound: int, upper: bool) -> Interval:
    """The part of an interval up to a bound, or from it on."""
    if upper:
        return Interval(i.start, max(i.start, min(i.stop, bound + 1)))
    return Interval(min(i.stop, max(i.start, bound)), i.stop)


def value_of_guard(part: Term) -> tuple[str, int] | None:
    """A condition that one variable has one value."""
    match part:
        case Op("eq", (a, b)):
            x, y = affine_of(a), affine_of(b)
            if x is None or y is None:
                return None
            difference = x.minus(y)
            if len(difference.terms) != 1 or not isinstance(difference.terms[0][0], str):
                return None
            (name, c) = difference.terms[0]
            assert isinstance(name, str)
            return None if difference.constant % c else (name, -difference.constant // c)
        case _:
            return None
