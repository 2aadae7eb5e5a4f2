"""Whether polynomials can all be positive at once, as far as sums of multiples of them tell (Fourier and Motzkin).

Monomials are taken for variables of their own; those that are never negative are known not to be, and where there are
products, products of few polynomials are among what is summed up.

>>> x, y, z = (Formula.atom(n) for n in "xyz")
>>> possible([(y - x, True), (z - y, True)]), possible([(y - x, True), (z - y, False), (x - z, False)])
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from tensorir.equality.reals.formulas import ONE, Formula, Monomial, is_nonnegative

__all__ = ["possible"]

MOST_ROWS = 128
"""Inequalities on the way: beyond that it is taken to be possible."""
MOST_FACTORS = 8
"""How many polynomials are multiplied with each other, of as many terms at most."""
ZERO = Fraction(0)
Row = tuple[frozenset[tuple[Monomial, Fraction]], bool]


def possible(polynomials: Sequence[tuple[Formula, bool]]) -> bool:
    """Whether polynomials can be positive, or, where that is not asked strictly, not negative, all at once."""
    given = list(polynomials)
    if len(given) <= MOST_FACTORS and any(len(m) > 1 for f, _ in given for m, _ in f.terms):
        pairs = combinations_with_replacement([(f, strict) for f, strict in given if len(f.terms) <= MOST_FACTORS], 2)
        given += [(f * g, one and other) for (f, one), (g, other) in pairs]
    rows = {_row(dict(f.terms), strict) for f, strict in given}
    monomials = {m for terms, _ in rows for m, _ in terms} - {ONE}
    rows |= {(frozenset([(m, Fraction(1))]), False) for m in monomials if is_nonnegative(m)}
    while rows and len(rows) <= MOST_ROWS:
        numbers = {r for r in rows if all(m == ONE for m, _ in r[0])}
        if any((value := sum(c for _, c in terms)) < 0 or (strict and not value) for terms, strict in numbers):
            return False
        rows -= numbers
        signs: dict[Monomial, list[int]] = {}
        for terms, _ in rows:
            for m, c in terms:
                signs.setdefault(m, [0, 0])[c > 0] += 1
        signs.pop(ONE, None)
        if not signs:
            return True
        which = min(signs, key=lambda m: (signs[m][0] * signs[m][1], sorted(map(repr, m))))
        rows = {r for r in rows if which not in dict(r[0])} | set(_without(which, rows))
    return True


def _without(m: Monomial, rows: Iterable[Row]) -> Iterable[Row]:
    """The sums of rows in which a monomial cancels."""
    told = [(dict(terms), strict) for terms, strict in rows]
    for below, one in told:
        for above, other in told:
            a, b = below.get(m, ZERO), above.get(m, ZERO)
            if a < 0 < b:
                terms = {k: b * below.get(k, ZERO) - a * above.get(k, ZERO) for k in {*below, *above} - {m}}
                yield _row(terms, one or other)


def _row(terms: dict[Monomial, Fraction], strict: bool) -> Row:
    size = max((abs(c) for m, c in terms.items() if m != ONE and c), default=Fraction(1))
    return frozenset((m, c / size) for m, c in terms.items() if c), strict
