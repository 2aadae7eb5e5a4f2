"""Quotients that conditions settle: by sums that these bound, or, where they are no sums, by counting where they hold.

`35 × c + 5 × (y + r) + x + s` is in row `7 × c + y + r` where every `x + s` that the conditions let through is less
than 5, whatever the conditions are made of.

>>> from tensorir.lift.nests.affine import variable
>>> from tensorir.lift.nests.terms import Op, Number
>>> from tensorir.types import BOOL, INT32
>>> x, s = (Linear(variable(n), INT32) for n in "xs")
>>> square = Op("less", (s, Op("minus", (Number(5, INT32), x), INT32)), BOOL)
>>> flat = variable("y").times(5).plus(variable("x")).plus(variable("s"))
>>> row = Linear(Affine(((Quotient(flat, 5), 1),)), INT32)
>>> print(in_one_period(row, (square,), {"x": (0, 3), "s": (0, 3), "y": (0, 8)}).affine)
y
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tensorir.lift.accesses.sets import conjuncts
from tensorir.lift.nests.affine import Affine, Quotient, number
from tensorir.lift.nests.bounded import quotient_where, sums_bounded
from tensorir.lift.nests.linear import COMPARISONS, Ranges, affine_of, term_of
from tensorir.lift.nests.numbers import values
from tensorir.lift.nests.terms import Linear, Load, Op, Term, index_names, rebuilt, walk
from tensorir.types import INT64

__all__ = ["in_one_period"]

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


def _telling(guards: Sequence[Term]) -> list[Term]:
    """Conditions that are no sums, and that no data tell."""
    return [g for g in guards if not _is_bound(g) and not any(isinstance(t, Load) for t in walk(g))]


def _divides(term: Term) -> bool:
    return any(isinstance(t, Linear) and not t.affine.is_linear for t in walk(term))


def _is_bound(guard: Term) -> bool:
    """Whether a condition compares sums."""
    return isinstance(guard, Op) and guard.op in COMPARISONS and all(affine_of(a) is not None for a in guard.args)


def _whole(q: Quotient, conditions: Sequence[Term], ranges: Ranges) -> Affine | None:
    """The sum that a quotient is where conditions hold; None where it is several."""
    coarse = Affine(tuple((t, c // q.by) for t, c in q.inner.terms if c % q.by == 0))
    fine = Affine(tuple((t, c) for t, c in q.inner.terms if c % q.by), q.inner.constant)
    telling = [g for g in conditions if not index_names(g).isdisjoint(fine.names)]
    names = sorted(fine.names.union(*map(index_names, telling)))
    if not telling or any(n not in ranges for n in names):
        return None
    sizes = [ranges[n][1] - ranges[n][0] + 1 for n in names]
    if not 0 < prod(sizes) <= MOST_COUNTED:
        return None
    axes = np.ix_(*(np.arange(ranges[n][0], ranges[n][1] + 1) for n in names))
    grid = dict(zip(names, axes, strict=True))
    found = [f for t in (Linear(fine, INT64), *telling) if (f := values(t, grid)) is not None]
    if len(found) <= len(telling):
        return None
    places, *held = (np.broadcast_to(f, sizes) for f in found)
    inside: Any = places[np.logical_and.reduce(held)] // q.by
    return coarse.plus(number(int(inside[0]))) if inside.size and (inside == inside[0]).all() else None
