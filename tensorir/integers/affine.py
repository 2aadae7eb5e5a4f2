"""Sums of indices with whole coefficients, quotients and remainders by constants, in normal form.

The normal form uses what is known of the ranges: a quotient whose remainder lies in one period is no quotient. So the
index arithmetic that splitting, fusing, tiling and flattening leave behind goes away where the loops' bounds show it.

>>> ranges = {"i": (0, 63), "j": (0, 63)}
>>> flat = variable("i").times(64).plus(variable("j"))
>>> print(quotient(flat, 64, ranges), remainder(flat, 64, ranges))
i j
>>> print(quotient(variable("i").times(2).plus(number(3)), 4, ranges))
(i + 1) // 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import gcd
from typing import Any

Ranges = Mapping[str, tuple[int, int]]
"""The least and the greatest value of each variable."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """The floor of `inner` divided by a positive number."""

    inner: Affine
    by: int

    def __str__(self) -> str:
        text = str(self.inner)
        return f"({text}) // {self.by}" if " " in text else f"{text} // {self.by}"


Atom = str | Quotient


@dataclass(frozen=True, slots=True)
class Affine:
    """A quasi-affine integer function: `constant` plus nonzero coefficients times variables or quotients."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0
    _hash: int = field(init=False, compare=False, default=0)
    """0 as long as nobody asked for it: most sums are parts of others only."""

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((frozenset(self.terms), self.constant)))
        return self._hash

    def __eq__(self, other: object) -> bool:
        """True for equal sums; the order of terms does not matter."""
        return self is other or (
            isinstance(other, Affine)
            and self.constant == other.constant
            and (self.terms == other.terms or dict(self.terms) == dict(other.terms))
        )

    @property
    def names(self) -> frozenset[str]:
        """All variables in the sum, also inside of quotients."""
        names: set[str] = set()
        for atom, _ in self.terms:
            names |= {atom} if isinstance(atom, str) else atom.inner.names
        return frozenset(names)

    @property
    def is_number(self) -> bool:
        return not self.terms

    @property
    def is_linear(self) -> bool:
        """Without quotients."""
        return all(isinstance(atom, str) for atom, _ in self.terms)

    @property
    def bare_name(self) -> str | None:
        """A variable with coefficient ±1 that is in no quotient (so that an equation can be solved for it); None if
        none is.
        """
        divided = {n for q, _ in self.terms if isinstance(q, Quotient) for n in q.inner.names}
        candidates = (n for n, c in reversed(self.terms) if isinstance(n, str) and abs(c) == 1 and n not in divided)
        return next(candidates, None)

    @property
    def coefficients(self) -> dict[str, int]:
        """The coefficient of each variable of a linear sum, in alphabetical order.

        >>> variable("n").times(2).minus(variable("k")).coefficients
        {'k': -1, 'n': 2}
        """
        assert self.is_linear, self
        return dict(sorted((a, c) for a, c in self.terms if isinstance(a, str)))

    def coefficient(self, atom: Atom) -> int:
        return next((c for a, c in self.terms if a == atom), 0)

    def plus(self, other: Affine) -> Affine:
        """The sum of two sums, with zero coefficients dropped."""
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant) if other.constant else self
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        return _settled(total, self.constant + other.constant)

    def times(self, factor: int) -> Affine:
        if factor == 1:
            return self
        return Affine(tuple((a, c * factor) for a, c in self.terms) if factor else (), self.constant * factor)

    def minus(self, other: Affine) -> Affine:
        """The difference of two sums, with zero coefficients dropped."""
        if not other.terms:
            return Affine(self.terms, self.constant - other.constant) if other.constant else self
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) - c
        return _settled(total, self.constant - other.constant)

    def at(self, values: Mapping[str, Any]) -> Any:
        """The value for given values of the variables, whole numbers or arrays of such.

        >>> quotient(variable("n").plus(number(1)), 2, {}).at({"n": 4})
        2
        """
        total = self.constant
        for atom, c in self.terms:
            total += c * (values[atom] if isinstance(atom, str) else atom.inner.at(values) // atom.by)
        return total

    def range(self, ranges: Ranges) -> tuple[int, int] | None:
        """Bounds (least, greatest) from the ranges of variables; None if one has no range. Remainders tighten them."""
        low = high = self.constant
        has_quotients = False
        for atom, c in self.terms:
            if isinstance(atom, str):
                atom_range = ranges.get(atom)
            else:
                has_quotients, inner = True, atom.inner.range(ranges)
                atom_range = None if inner is None else (inner[0] // atom.by, inner[1] // atom.by)
            if atom_range is None:
                return None
            a, b = atom_range[0] * c, atom_range[1] * c
            low, high = (low + a, high + b) if c > 0 else (low + b, high + a)
        return _with_remainders(self, ranges, low, high) if has_quotients else (low, high)

    def replaced(self, values: Mapping[str, Affine], ranges: Ranges) -> Affine:
        """The sum with variables substituted, in normal form for the ranges of the new variables."""
        if not self.terms:
            return self
        total = number(self.constant)
        for atom, c in self.terms:
            if isinstance(atom, str):
                value = values.get(atom) or variable(atom)
            else:
                value = quotient(atom.inner.replaced(values, ranges), atom.by, ranges)
            total = total.plus(value.times(c))
        return folded(total)

    def __str__(self) -> str:
        """The sum as text: `i*2 + (j // 4)*3 - 1`."""
        parts: list[str] = []
        for atom, c in self.terms:
            spelling = str(atom)
            if abs(c) != 1:
                spelling = f"({spelling})" if " " in spelling else spelling
                spelling = f"{spelling}*{abs(c)}"
            parts.append((" - " if c < 0 else " + ") + spelling)
        if self.constant or not parts:
            parts.append(f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        spelling = "".join(parts)
        return spelling[3:] if spelling.startswith(" + ") else f"-{spelling[3:]}"


def number(value: int) -> Affine:
    return Affine((), value)


def variable(name: str) -> Affine:
    return Affine(((name, 1),))


def _settled(total: dict[Atom, int], constant: int) -> Affine:
    return Affine(tuple((a, c) for a, c in total.items() if c), constant)


def folded(a: Affine) -> Affine:
    """Simplifies `e - e // 2` to `(e + 1) // 2`; other sums are unchanged.

    >>> i = variable("i")
    >>> print(folded(i.minus(quotient(i, 2, {}))))
    (i + 1) // 2
    """
    for atom, c in a.terms:
        if isinstance(atom, Quotient) and atom.by == 2:
            dividend = atom.inner.times(-c)
            if all(a.coefficient(t) == d for t, d in dividend.terms):
                rounded_up = Affine(((Quotient(atom.inner.plus(number(1)), 2), 1),))
                return a.minus(dividend).minus(Affine(((atom, c),))).plus(rounded_up.times(-c))
    return a


def _with_remainders(a: Affine, ranges: Ranges, low: int, high: int) -> tuple[int, int]:
    """Tightens the bounds (low, high) of a sum by two facts.

    A remainder `e - by × (e // by)` lies in [0, by), where e itself may be a quotient. The difference `(e + n) // by -
    e // by` of quotients by one number is close to n / by.
    """
    for atom, c in a.terms:
        for dividend, by in _divided(atom, a):
            if c % by:
                continue
            factor = -c // by
            others = a.minus(dividend.times(factor)).minus(Affine(((atom, c),)))
            if len(others.terms) >= len(a.terms):
                continue
            span = others.range(ranges)
            if span is not None:
                part = (0, (by - 1) * factor) if factor > 0 else ((by - 1) * factor, 0)
                low, high = (max(low, span[0] + part[0]), min(high, span[1] + part[1]))
    for (p, c), (q, d) in combinations(a.terms, 2):
        if isinstance(p, Quotient) and isinstance(q, Quotient) and p.by == q.by and c == -d:
            # (e + n) // by - e // by
            difference = p.inner.minus(q.inner)
            if len(difference.terms) >= max(len(p.inner.terms), len(q.inner.terms)):
                continue
            difference_range = difference.range(ranges)
            span = Affine(tuple(t for t in a.terms if t[0] not in (p, q)), a.constant).range(ranges)
            if difference_range is not None and span is not None:
                ends = sorted((c * (difference_range[0] // p.by), -c * (-difference_range[1] // p.by)))
                low, high = max(low, span[0] + ends[0]), min(high, span[1] + ends[1])
    return low, high


def _divided(atom: Atom, a: Affine) -> Iterator[tuple[Affine, int]]:
    """Forms (dividend, divisor) of a quotient: its own, and with other quotients of the sum in place of the dividend,
    since `e // (n × by)` is `(e // n) // by`.
    """
    if isinstance(atom, Quotient):
        yield atom.inner, atom.by
        for other, _ in a.terms:
            if isinstance(other, Quotient) and not atom.by % other.by and other != atom:
                # (e + by × k) // by is k + e // by
                difference = atom.inner.minus(other.inner)
                if not difference.constant % other.by and not any(c % other.by for _, c in difference.terms):
                    k = Affine(tuple((t, c // other.by) for t, c in difference.terms), difference.constant // other.by)
                    yield k.plus(Affine(((other, 1),))), atom.by // other.by


def quotient(a: Affine, by: int, ranges: Ranges) -> Affine:
    """The floor of a / by, for a positive number, in normal form for the ranges of variables.

    Multiples of `by` are taken out; the rest vanishes if its range lies in one period, common factors are cancelled,
    and nested quotients merged.
    """
    if by == 1:
        return a
    if not a.is_linear and (by_remainders := _of_remainders(a, by, ranges)) is not None:
        return by_remainders
    quotient_terms: dict[Atom, int] = {}
    remainder_terms: dict[Atom, int] = {}
    for atom, c in a.terms:
        whole_part, r = divmod(c, by)
        if r and abs(c) < by and c < 0:
            whole_part, r = 0, c
        if whole_part:
            quotient_terms[atom] = whole_part
        if r:
            remainder_terms[atom] = r
    whole_part, constant = divmod(a.constant, by)
    outside, inside = _settled(quotient_terms, whole_part), _settled(remainder_terms, constant)
    value_range = inside.range(ranges)
    if value_range is not None and value_range[0] // by == value_range[1] // by:
        return outside.plus(number(value_range[0] // by))
    rounded = _nearest(inside, by, ranges)
    if rounded is not None:
        return outside.plus(rounded)
    factor = by
    for _, c in inside.terms:
        factor = gcd(factor, c)
    if factor > 1:
        inside = Affine(tuple((t, c // factor) for t, c in inside.terms), inside.constant // factor)
        return outside.plus(quotient(inside, by // factor, ranges))
    unit_quotients = [atom for atom, c in inside.terms if isinstance(atom, Quotient) and c == 1]
    if len(unit_quotients) == 1:
        # (x // n + r) // by is (x + n r) // (n by)
        (only,) = unit_quotients
        other_terms = inside.minus(Affine(((only, 1),)))
        if other_terms.is_linear and not other_terms.names & only.inner.names:
            return outside.plus(quotient(only.inner.plus(other_terms.times(only.by)), only.by * by, ranges))
    nested = _nested(inside, by, ranges)
    if nested is not None:
        return outside.plus(nested)
    return outside.plus(Affine(((Quotient(inside, by), 1),)))


def _nearest(inside: Affine, by: int, ranges: Ranges) -> Affine | None:
    """The floor of inside / by if coefficients near `by` can count as `by`; None if the difference is too large.

    >>> ranges = {"i": (0, 2), "j": (2, 7)}
    >>> print(_nearest(variable("i").times(7).plus(variable("j")), 8, ranges))
    i
    """
    near_terms = {atom: 1 for atom, c in inside.terms if 2 * c > by}
    remaining = inside.minus(Affine(tuple((atom, by * n) for atom, n in near_terms.items())))
    value_range = remaining.range(ranges) if near_terms else None
    if value_range is None or value_range[0] // by != value_range[1] // by:
        return None
    return Affine(tuple(near_terms.items()), value_range[0] // by)


def _of_remainders(a: Affine, by: int, ranges: Ranges) -> Affine | None:
    """The floor of a / by with each remainder `e - n × (e // n)` treated as a variable from 0 to n - 1; None if that
    does not give a linear result.
    """
    reduced, quotients = a, dict[str, Quotient]()
    for atom, c in a.terms:
        if not isinstance(atom, Quotient) or c >= 0 or c % atom.by:
            continue
        factor = -c // atom.by
        candidate = reduced.minus(atom.inner.times(factor)).minus(Affine(((atom, c),)))
        if len(candidate.terms) == len(reduced.terms) - 1 - len(atom.inner.terms):
            name = "  "
            while name in ranges or name in quotients:
                name += " "
            quotients[name] = atom
            reduced = candidate.plus(Affine(((name, factor),)))
    if not quotients:
        return None
    linear = quotient(reduced, by, {**ranges, **{n: (0, q.by - 1) for n, q in quotients.items()}})
    if not linear.is_linear:
        return None
    total = number(linear.constant)
    for atom, c in linear.terms:
        part = quotients.get(atom) if isinstance(atom, str) else None
        value = Affine(((atom, 1),)) if part is None else part.inner.minus(Affine(((part, part.by),)))
        total = total.plus(value.times(c))
    return total


def _nested(inside: Affine, by: int, ranges: Ranges) -> Affine | None:
    """The floor of inside / by, if all terms but a small rest have a common factor of `by`: the rest cannot reach the
    next period. None if there is no such factor.
    """
    for factor in sorted({abs(c) for _, c in inside.terms if abs(c) > 1}):
        if by % factor:
            continue
        coarse = Affine(tuple((t, c) for t, c in inside.terms if c % factor == 0))
        fine = Affine(tuple((t, c) for t, c in inside.terms if c % factor), inside.constant)
        value_range = fine.range(ranges)
        if not coarse.terms or not fine.terms or value_range is None:
            continue
        if value_range[0] // factor == value_range[1] // factor:
            shifted = Affine(tuple((t, c // factor) for t, c in coarse.terms), value_range[0] // factor)
            return quotient(shifted, by // factor, ranges)
    return None


def remainder(a: Affine, by: int, ranges: Ranges) -> Affine:
    """The remainder of the floored quotient a / by, in normal form for the ranges of variables."""
    if by == 1:
        return number(0)
    reduced = Affine(tuple((t, c % by) for t, c in a.terms if c % by), a.constant % by)
    value_range = a.range(ranges)
    if value_range is not None and value_range[0] >= 0 and value_range[1] < by:
        return a
    value_range = reduced.range(ranges)
    if value_range is not None and value_range[0] >= 0 and value_range[1] < by:
        return reduced
    return a.minus(quotient(a, by, ranges).times(by))
