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
    """The floor of a sum by a positive number."""

    inner: Affine
    by: int

    def __str__(self) -> str:
        text = str(self.inner)
        return f"({text}) // {self.by}" if " " in text else f"{text} // {self.by}"


Atom = str | Quotient


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` plus coefficients times variables or quotients; no coefficient is zero."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0
    _hash: int = field(init=False, compare=False, default=0)
    """0 as long as nobody asked for it: most sums are parts of others only."""

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((frozenset(self.terms), self.constant)))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Affine)
            and self.constant == other.constant
            and (self.terms == other.terms or dict(self.terms) == dict(other.terms))
        )

    @property
    def names(self) -> frozenset[str]:
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
        """The last variable that the sum has once, and in no quotient."""
        divided = {n for q, _ in self.terms if isinstance(q, Quotient) for n in q.inner.names}
        alone = (n for n, c in reversed(self.terms) if isinstance(n, str) and abs(c) == 1 and n not in divided)
        return next(alone, None)

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
        """The least and the greatest value that the parts allow, None where a variable has no range."""
        low = high = self.constant
        divided = False
        for atom, c in self.terms:
            if isinstance(atom, str):
                span = ranges.get(atom)
            else:
                divided, inner = True, atom.inner.range(ranges)
                span = None if inner is None else (inner[0] // atom.by, inner[1] // atom.by)
            if span is None:
                return None
            a, b = span[0] * c, span[1] * c
            low, high = (low + a, high + b) if c > 0 else (low + b, high + a)
        return _with_remainders(self, ranges, low, high) if divided else (low, high)

    def replaced(self, values: Mapping[str, Affine], ranges: Ranges) -> Affine:
        """The sum with variables replaced, in normal form for the ranges."""
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
        parts: list[str] = []
        for atom, c in self.terms:
            text = str(atom)
            if abs(c) != 1:
                text = f"({text})" if " " in text else text
                text = f"{text}*{abs(c)}"
            parts.append((" - " if c < 0 else " + ") + text)
        if self.constant or not parts:
            parts.append(f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else f"-{text[3:]}"


def number(value: int) -> Affine:
    return Affine((), value)


def variable(name: str) -> Affine:
    return Affine(((name, 1),))


def _settled(total: dict[Atom, int], constant: int) -> Affine:
    return Affine(tuple((a, c) for a, c in total.items() if c), constant)


def folded(a: Affine) -> Affine:
    """Remainders of halves: `e - e // 2` is `(e + 1) // 2`, the half rounded up.

    >>> i = variable("i")
    >>> print(folded(i.minus(quotient(i, 2, {}))))
    (i + 1) // 2
    """
    for atom, c in a.terms:
        if isinstance(atom, Quotient) and atom.by == 2:
            whole = atom.inner.times(-c)
            if all(a.coefficient(t) == d for t, d in whole.terms):
                half = Affine(((Quotient(atom.inner.plus(number(1)), 2), 1),))
                return a.minus(whole).minus(Affine(((atom, c),))).plus(half.times(-c))
    return a


def _with_remainders(a: Affine, ranges: Ranges, low: int, high: int) -> tuple[int, int]:
    """Tighter bounds where the sum holds a remainder, `e - by × (e // by)`, which lies in [0, by).

    `e // n` has one, too: `e // n - by × (e // (n × by))`. Quotients of sums that are close are, too.
    """
    for atom, c in a.terms:
        for whole, by in _divided(atom, a):
            if c % by:
                continue
            factor = -c // by
            rest = a.minus(whole.times(factor)).minus(Affine(((atom, c),)))
            if len(rest.terms) >= len(a.terms):
                continue
            span = rest.range(ranges)
            if span is not None:
                part = (0, (by - 1) * factor) if factor > 0 else ((by - 1) * factor, 0)
                low, high = max(low, span[0] + part[0]), min(high, span[1] + part[1])
    for (p, c), (q, d) in combinations(a.terms, 2):
        if isinstance(p, Quotient) and isinstance(q, Quotient) and p.by == q.by and c == -d:
            # (e + n) // by - e // by
            difference = p.inner.minus(q.inner)
            if len(difference.terms) >= max(len(p.inner.terms), len(q.inner.terms)):
                continue
            apart = difference.range(ranges)
            span = Affine(tuple(t for t in a.terms if t[0] not in (p, q)), a.constant).range(ranges)
            if apart is not None and span is not None:
                ends = sorted((c * (apart[0] // p.by), -c * (-apart[1] // p.by)))
                low, high = max(low, span[0] + ends[0]), min(high, span[1] + ends[1])
    return low, high


def _divided(atom: Atom, a: Affine) -> Iterator[tuple[Affine, int]]:
    """The dividend and the divisor of a quotient: its sum, and quotients of this that stand beside it."""
    if isinstance(atom, Quotient):
        yield atom.inner, atom.by
        for other, _ in a.terms:
            if isinstance(other, Quotient) and not atom.by % other.by and other != atom:
                # (e + by × k) // by is k + e // by
                apart = atom.inner.minus(other.inner)
                if not apart.constant % other.by and not any(c % other.by for _, c in apart.terms):
                    k = Affine(tuple((t, c // other.by) for t, c in apart.terms), apart.constant // other.by)
                    yield k.plus(Affine(((other, 1),))), atom.by // other.by


def quotient(a: Affine, by: int, ranges: Ranges) -> Affine:
    """The floor of a / by, for a positive number, in normal form."""
    if by == 1:
        return a
    if not a.is_linear and (known := _of_remainders(a, by, ranges)) is not None:
        return known
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, c in a.terms:
        q, r = divmod(c, by)
        if r and abs(c) < by and c < 0:
            q, r = 0, c
        if q:
            whole[atom] = q
        if r:
            rest[atom] = r
    q, constant = divmod(a.constant, by)
    outside, inside = _settled(whole, q), _settled(rest, constant)
    spread = inside.range(ranges)
    if spread is not None and spread[0] // by == spread[1] // by:
        return outside.plus(number(spread[0] // by))
    near = _nearest(inside, by, ranges)
    if near is not None:
        return outside.plus(near)
    factor = by
    for _, c in inside.terms:
        factor = gcd(factor, c)
    if factor > 1:
        inside = Affine(tuple((t, c // factor) for t, c in inside.terms), inside.constant // factor)
        return outside.plus(quotient(inside, by // factor, ranges))
    divided = [atom for atom, c in inside.terms if isinstance(atom, Quotient) and c == 1]
    if len(divided) == 1:
        # (x // n + r) // by is (x + n r) // (n by)
        (only,) = divided
        others = inside.minus(Affine(((only, 1),)))
        if others.is_linear and not others.names & only.inner.names:
            return outside.plus(quotient(only.inner.plus(others.times(only.by)), only.by * by, ranges))
    nested = _nested(inside, by, ranges)
    if nested is not None:
        return outside.plus(nested)
    return outside.plus(Affine(((Quotient(inside, by), 1),)))


def _nearest(inside: Affine, by: int, ranges: Ranges) -> Affine | None:
    """The floor of a / by where coefficients that are almost `by` count as that; None where that tells nothing.

    >>> ranges = {"i": (0, 2), "j": (2, 7)}
    >>> print(_nearest(variable("i").times(7).plus(variable("j")), 8, ranges))
    i
    """
    almost = {atom: 1 for atom, c in inside.terms if 2 * c > by}
    fine = inside.minus(Affine(tuple((atom, by * n) for atom, n in almost.items())))
    spread = fine.range(ranges) if almost else None
    if spread is None or spread[0] // by != spread[1] // by:
        return None
    return Affine(tuple(almost.items()), spread[0] // by)


def _of_remainders(a: Affine, by: int, ranges: Ranges) -> Affine | None:
    """The floor of a / by where remainders, `e - n × (e // n)`, count as variables from 0 to n - 1; None if they do not
    help."""
    rest, parts = a, dict[str, Quotient]()
    for atom, c in a.terms:
        if not isinstance(atom, Quotient) or c >= 0 or c % atom.by:
            continue
        factor = -c // atom.by
        left = rest.minus(atom.inner.times(factor)).minus(Affine(((atom, c),)))
        if len(left.terms) == len(rest.terms) - 1 - len(atom.inner.terms):
            name = "  "
            while name in ranges or name in parts:
                name += " "
            parts[name] = atom
            rest = left.plus(Affine(((name, factor),)))
    if not parts:
        return None
    linear = quotient(rest, by, {**ranges, **{n: (0, q.by - 1) for n, q in parts.items()}})
    if not linear.is_linear:
        return None
    total = number(linear.constant)
    for atom, c in linear.terms:
        part = parts.get(atom) if isinstance(atom, str) else None
        value = Affine(((atom, 1),)) if part is None else part.inner.minus(Affine(((part, part.by),)))
        total = total.plus(value.times(c))
    return total


def _nested(inside: Affine, by: int, ranges: Ranges) -> Affine | None:
    """`(x + r) // by` where all but a small rest has a common factor: the rest cannot reach the next period."""
    for factor in sorted({abs(c) for _, c in inside.terms if abs(c) > 1}):
        if by % factor:
            continue
        coarse = Affine(tuple((t, c) for t, c in inside.terms if c % factor == 0))
        fine = Affine(tuple((t, c) for t, c in inside.terms if c % factor), inside.constant)
        spread = fine.range(ranges)
        if not coarse.terms or not fine.terms or spread is None:
            continue
        if spread[0] // factor == spread[1] // factor:
            shifted = Affine(tuple((t, c // factor) for t, c in coarse.terms), spread[0] // factor)
            return quotient(shifted, by // factor, ranges)
    return None


def remainder(a: Affine, by: int, ranges: Ranges) -> Affine:
    """The remainder of the floored quotient a / by, in normal form."""
    if by == 1:
        return number(0)
    reduced = Affine(tuple((t, c % by) for t, c in a.terms if c % by), a.constant % by)
    spread = a.range(ranges)
    if spread is not None and spread[0] >= 0 and spread[1] < by:
        return a
    spread = reduced.range(ranges)
    if spread is not None and spread[0] >= 0 and spread[1] < by:
        return reduced
    return a.minus(quotient(a, by, ranges).times(by))
