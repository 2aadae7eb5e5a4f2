"""Sums that conditions bound, and what is left of quotients of them.

`(6 y + 6 r + c - 3) // 27` is 0 where `1 <= 2 y + 2 r < 10`, for c in [0, 3): y + r counts as one variable from 1 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from tensorir.integers.affine import Affine, Quotient, number, quotient, variable
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.terms import Op, Term
from tensorir.lifting.nests.unknowns import Ranges, bounds

__all__ = ["by_multiple", "quotient_where", "sum_where", "sums_bounded"]

Bounded = Mapping[Affine, tuple[int, int]]
"""The least and the greatest value of sums of several variables, without a common factor or a constant."""

_UPPER = {"less": 1, "less_equal": 0}
_LOWER = {"greater": 1, "greater_equal": 0}


def sums_bounded(guards: Sequence[Term], ranges: Ranges) -> Bounded:
    """The sums of several variables that settled conditions bound, where all of them hold.

    >>> from tensorir.lifting.nests.terms import Linear, Number
    >>> from tensorir.ir.types import BOOL, INT32
    >>> s = Linear(variable("y").times(2).plus(variable("r").times(2)), INT32)
    >>> below = Op("less", (s, Number(10, INT32)), BOOL)
    >>> {str(a): spread for a, spread in sums_bounded([below], {"y": (0, 3), "r": (0, 2)}).items()}
    {'y + r': (0, 4)}
    """
    found: dict[Affine, tuple[int, int]] = {}
    for guard in guards:
        match guard:
            case Op(op, (a, b)) if op in _UPPER:
                least, most, step = a, b, _UPPER[op]
            case Op(op, (a, b)) if op in _LOWER:
                least, most, step = b, a, _LOWER[op]
            case _:
                continue
        # least + step <= most
        x, y = affine_of(least), affine_of(most)
        if x is not None and y is not None:
            _add(found, x.minus(y), -step, ranges)
        elif x is not None and (spread := bounds(most, ranges)) is not None:
            _add(found, x, spread[1] - step, ranges)
        elif y is not None and (spread := bounds(least, ranges)) is not None:
            _add(found, y.times(-1), -spread[0] - step, ranges)
    return found


def _add(found: dict[Affine, tuple[int, int]], a: Affine, most: int, ranges: Ranges) -> None:
    """That a sum is no more than a number, and what that says of its quotients, and of it without one of those."""
    if len(a.terms) < 2:
        return
    for by in {abs(c) for _, c in a.terms if abs(c) > 1} if a.is_linear else ():
        if any(c % by for _, c in a.terms):
            _add(found, quotient(Affine(a.terms), by, ranges), (most - a.constant) // by, ranges)
    for part in (Affine((t,)) for t in a.terms if isinstance(t[0], Quotient)):
        if (known := part.range(ranges)) is not None:
            _add(found, a.minus(part), most - known[0], ranges)
    # one sign for a sum and its negative
    _, leading = min(a.terms, key=lambda t: str(t[0]))
    factor = gcd(*(c for _, c in a.terms)) * (1 if leading > 0 else -1)
    one = Affine(tuple((n, c // factor) for n, c in a.terms))
    spread = found.get(one) or one.range(ranges)
    if spread is None:
        return
    limit = (most - a.constant) // abs(factor)
    low, high = (spread[0], min(spread[1], limit)) if factor > 0 else (max(spread[0], -limit), spread[1])
    if low <= high:
        found[one] = low, high


def quotient_where(q: Quotient, bounded: Bounded, ranges: Ranges) -> Affine | None:
    """What a quotient is where sums have bounds: a sum, or quotients of fewer variables; None where it stays."""
    for one, spread in bounded.items():
        if (found := _of_quotient(q, one, spread)) is not None:
            return found
    inner, parts = sum_where(q.inner, bounded, ranges), dict[str, Affine]()
    if inner is not q.inner and (new := quotient(inner, q.by, ranges)).is_linear:
        return new
    for k, one in enumerate(bounded):
        name = f" sum {k}"
        if (new := by_multiple(inner, one, name)) is not inner:
            inner, parts[name] = new, one
    if not parts:
        return None
    known = {f" sum {k}": spread for k, spread in enumerate(bounded.values())}
    made = quotient(inner, q.by, {**ranges, **known})
    rest = {n for atom, _ in made.terms if isinstance(atom, Quotient) for n in atom.inner.names}
    # what is left of the quotient is one of fewer variables
    return None if rest & parts.keys() or rest >= q.inner.names else made.replaced(parts, ranges)


def sum_where(a: Affine, bounded: Bounded, ranges: Ranges) -> Affine:
    """A sum without the quotients that bounds tell."""
    for atom, c in a.terms:
        if isinstance(atom, Quotient) and (new := quotient_where(atom, bounded, ranges)) is not None:
            return sum_where(a.minus(Affine(((atom, c),))).plus(new.times(c)), bounded, ranges)
    return a


def _of_quotient(q: Quotient, one: Affine, spread: tuple[int, int]) -> Affine | None:
    """A quotient of a quotient and what is added to it, `(x - 2 w) // 8` for `x // 2 - w`, where that has bounds."""
    divided = [atom for atom, c in one.terms if isinstance(atom, Quotient) and c == 1]
    if len(divided) != 1 or q.by % divided[0].by:
        return None
    (part,) = divided
    whole = part.inner.plus(one.minus(Affine(((part, 1),))).times(part.by))
    rest = q.inner.minus(whole)
    if rest.terms or rest.constant % part.by:
        return None
    low, high = ((v + rest.constant // part.by) // (q.by // part.by) for v in spread)
    return number(low) if low == high else None


def by_multiple(affine: Affine, a: Affine, name: str) -> Affine:
    """A sum that holds a multiple of another one, under a name for that.

    >>> i, j = variable("i"), variable("j")
    >>> print(by_multiple(i.times(4).plus(j.times(2)), i.times(2).plus(j), "s"))
    s*2
    """
    times, rest = divmod(affine.coefficient(a.terms[0][0]), a.terms[0][1])
    if rest or not times or any(affine.coefficient(n) != times * c for n, c in a.terms):
        return affine
    return affine.minus(a.times(times)).plus(variable(name).times(times))
