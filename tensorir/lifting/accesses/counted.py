"""Sums over boxes by counting, and whole-number equations solved.

Numbers that change from point to point as a sum of others, found by solving for its coefficients.

>>> from tensorir.integers.affine import variable
>>> y, x = (np.ravel(a) for a in np.mgrid[0:3, 0:4])
>>> counted = {variable("y"): y, variable("x"): x}
>>> print(sum_of(y * 10 + x + 1, counted))
y*10 + x + 1
>>> sum_of(y * x, counted) is None
True

Quotients that are sums where conditions hold, or everywhere, told by bounds of sums or by counting.

`35 × c + 5 × (y + r) + x + s` is in row `7 × c + y + r` where every `x + s` that the conditions let through is less
than 5, whatever the conditions are made of.

>>> from tensorir.integers.affine import variable
>>> from tensorir.ir.types import INT32
>>> x, s = (Linear(variable(n), INT32) for n in "xs")
>>> square = Op("less", (s, Op("minus", (Number(5, INT32), x), INT32)), BOOL)
>>> flat = variable("y").times(5).plus(variable("x")).plus(variable("s"))
>>> row = Linear(Affine(((Quotient(flat, 5), 1),)), INT32)
>>> print(in_one_period(row, (square,), {"x": (0, 3), "s": (0, 3), "y": (0, 8)}).affine)
y
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, Quotient, number, variable
from tensorir.ir.types import BOOL, INT64
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.nests.bounded import quotient_where, sums_bounded
from tensorir.lifting.nests.linear import COMPARISONS, Ranges, affine_of, term_of
from tensorir.lifting.nests.numbers import fitting, values
from tensorir.lifting.nests.terms import Linear, Load, Number, Op, Term, index_names, loads, rebuilt, walk
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

    >>> from tensorir.integers.affine import quotient
    >>> from tensorir.ir.types import INT32
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

    >>> from tensorir.integers.affine import variable
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
