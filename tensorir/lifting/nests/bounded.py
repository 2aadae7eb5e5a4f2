"""Bounds of terms: multiples, bits, extremes.

Elements of one type made of, or taken out of, elements of another: little-endian bytes, as machines keep them.

>>> from tensorir.lifting.nests.terms import Buffer, Index, show
>>> halves, words = Buffer("h", SCALARS["uint16"], (8,)), Buffer("w", SCALARS["uint32"], (4,))
>>> show(read(halves, Index("i", INT32), SCALARS["uint32"])).count("h[")
2
>>> show(read(words, Index("i", INT32), SCALARS["uint16"])).count("w[floordiv(i, 2)]")
1

Bounds of whole-number terms that are no sums of indices: found by evaluating them on all iterations.

>>> i = Index("i", INT32)
>>> extremes(Op("mod", (Op("multiplies", (i, i), INT32), Number(5, INT32)), INT32), {"i": (0, 9)})
(0, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd

import numpy as np

from tensorir.integers.affine import Affine, Quotient, number, quotient, variable
from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Scalar
from tensorir.lifting.nests.linear import affine_of, linear, settled
from tensorir.lifting.nests.nest import Loop, Node, Store
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, index_names, values
from tensorir.lifting.nests.unknowns import Ranges, bounds
from tensorir.runtime.errors import NOWHERE, Span


def bytes_of(element: Scalar) -> int:
    """The size of an element in bytes: a truth value has one byte."""
    return max(1, element.bits // 8)


def unsigned(element: Scalar) -> Scalar:
    return SCALARS[f"uint{8 * bytes_of(element)}"]


def bits_of(value: Term) -> Term:
    """The bits of a value as an unsigned integer."""
    target = unsigned(value.element)
    if value.element == target:
        return value
    if isinstance(value, Number) and repr(value.value) in ("0", "0.0", "False"):
        return Number(0, target)
    return Op("cast" if value.element == BOOL else "bitcast", (value,), target)


def value_of(bits: Term, element: Scalar) -> Term:
    """The value that bits stand for; any byte that is not 0 is true."""
    if bits.element == element:
        return bits
    if element == BOOL:
        return Op("not_eq", (bits, Number(0, bits.element)), BOOL)
    return Op("bitcast", (bits,), element)


# Places


def joined(op: str, a: Term, b: int) -> Term:
    return Op(op, (a, Number(b, a.element)), a.element)


def plus(a: Term, b: int) -> Term:
    return joined("plus", a, b) if b else a


def times(a: Term, b: int) -> Term:
    return joined("multiplies", a, b) if b != 1 else a


def address(indices: Sequence[Term], shape: Sequence[int]) -> Term:
    """The address of an element of compact memory."""
    total: Term = Number(0, INT64)
    for index, extent in zip(indices, shape, strict=True):
        index = index if index.element == INT64 else Op("cast", (index,), INT64)
        total = Op("plus", (times(total, extent), index), INT64)
    return total


def apart(place: Term, shape: Sequence[int]) -> tuple[Term, ...]:
    """The indices of an address in compact memory."""
    found: list[Term] = []
    step = 1
    for axis in reversed(range(len(shape))):
        index = place if step == 1 else joined("floordiv", place, step)
        found.append(joined("mod", index, max(shape[axis], 1)) if axis else index)
        step *= max(shape[axis], 1)
    return tuple(reversed(found))


# Accesses


def read(unit: Buffer, place: Term, element: Scalar, span: Span = NOWHERE) -> Term:
    """The element of a type at an address, counted in elements of that type, of memory that is kept in units."""
    return composed(lambda at: Load(unit, apart(at, unit.shape), span), unit.element, place, element)


def composed(load: Callable[[Term], Term], unit: Scalar, place: Term, element: Scalar) -> Term:
    """The element of a type at an address, from units that are read at theirs."""
    wide, narrow = bytes_of(element), bytes_of(unit)
    if wide == narrow:
        found = load(place)
        return found if unit == element else value_of(bits_of(found), element)
    if wide < narrow:
        by = narrow // wide
        word = bits_of(load(joined("floordiv", place, by)))
        shift = Op("cast", (times(joined("mod", place, by), 8 * wide),), word.element)
        part = Op("cast", (Op("shift_right", (word, shift), word.element),), unsigned(element))
        return value_of(part, element)
    target, by = unsigned(element), wide // narrow
    total: Term | None = None
    for k in range(by):
        part = Op("cast", (bits_of(load(plus(times(place, by), k))),), target)
        part = Op("shift_left", (part, Number(8 * narrow * k, target)), target) if k else part
        total = part if total is None else Op("bit_or", (total, part), target)
    assert total is not None
    return value_of(total, element)


def write(unit: Buffer, place: Term, value: Term, guards: tuple[Term, ...], span: Span, name: str) -> Node:
    """The store of a value at an address, counted in its own type: of a wider one all parts, in a loop `name`."""
    wide, narrow = bytes_of(value.element), bytes_of(unit.element)
    if wide == narrow:
        stored = value if value.element == unit.element else value_of(bits_of(value), unit.element)
        return Store(unit, apart(place, unit.shape), stored, guards, span)
    assert wide > narrow, "memory is kept in units of the narrowest store"
    by, bits, index = wide // narrow, bits_of(value), Index(name, place.element)
    shift = Op("cast", (times(index, 8 * narrow),), bits.element)
    part = Op("cast", (Op("shift_right", (bits, shift), bits.element),), unsigned(unit.element))
    at = Op("plus", (times(place, by), index), place.element)
    one = Store(unit, apart(at, unit.shape), value_of(part, unit.element), guards, span)
    zero, count = Number(0, INT32), Number(by, INT32)
    return Loop(name, zero, count, (one,), parallel=True, span=span, title="part", lockstep=True)


# Sums that conditions bound, and what is left of quotients of them.
#
# `(6 y + 6 r + c - 3) // 27` is 0 where `1 <= 2 y + 2 r < 10`, for c in [0, 3): y + r counts as one variable from 1
# to 4.

Bounded = Mapping[Affine, tuple[int, int]]
"""The least and the greatest value of sums of several variables, without a common factor or a constant."""

_UPPER = {"less": 1, "less_equal": 0}
_LOWER = {"greater": 1, "greater_equal": 0}


def sums_bounded(guards: Sequence[Term], ranges: Ranges) -> Bounded:
    """The sums of several variables that settled conditions bound, where all of them hold.

    >>> from tensorir.lifting.nests.terms import Linear, Number
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
    """A quotient simplified by bounds of its sums: a sum, or quotients of fewer variables; None if it stays."""
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


MOST_POINTS = 1 << 20


def extremes(term: Term, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a whole-number term; None where it reads data, or has too many.

    Of a sum with quotients that has too many, and of the smaller one of two terms, numbers between which it lies.
    """
    found = linear(term, ranges)
    if found is not None and found.is_linear:
        return found.range(ranges)
    names = sorted(index_names(term))
    if any(name not in ranges for name in names):
        return None
    count = 1
    for name in names:
        count *= max(0, ranges[name][1] - ranges[name][0] + 1)
    if count > MOST_POINTS:
        return bounds(settled(term, ranges), ranges)
    if not count:
        return None
    grid = {
        name: np.arange(ranges[name][0], ranges[name][1] + 1).reshape([-1 if k == j else 1 for k in range(len(names))])
        for j, name in enumerate(names)
    }
    result = values(term, grid)
    if result is None:
        return None
    return int(np.min(result)), int(np.max(result))
