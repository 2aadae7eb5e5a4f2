"""Whole-number terms that are sums with parts that depend on data: their bounds, and what division leaves of them.

`(max(min(A[i], 3), 0) * 4 + j) // 4`, for j in [0, 4), is `max(min(A[i], 3), 0)`: each part that depends on data is a
variable of its own, with the bounds that its operations give it.

>>> from tensorir.lifting.nests.terms import Buffer, Load, Op, show
>>> from tensorir.ir.types import INT32
>>> a = Op("mod", (Load(Buffer("A", INT32, ()), ()), Number(4, INT32)), INT32)
>>> flat = Op("plus", (Op("multiplies", (a, Number(8, INT32)), INT32), Linear(variable("j"), INT32)), INT32)
>>> show(divided("floordiv", flat, 8, {"j": (0, 7)})), show(divided("mod", flat, 8, {"j": (0, 7)}))
('mod(A[], 4)', 'j')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorir.integers.affine import Affine, Atom, Quotient, number, quotient, remainder, variable
from tensorir.ir.types import BOOL, Scalar
from tensorir.lifting.nests.terms import Linear, Load, Number, Op, Term

Ranges = Mapping[str, tuple[int, int]]

Facts = Mapping[Term, tuple[int, int]]
"""The least and the greatest value of terms that depend on data, where conditions have let them through."""

NO_FACTS: Facts = {}

MOST_DEPTH = 12


def bounds(term: Term, ranges: Ranges, facts: Facts = NO_FACTS, depth: int = 0) -> tuple[int, int] | None:
    """The least and the greatest value that the operations of a settled whole-number term, and facts, allow."""
    found = _by_operations(term, ranges, facts, depth)
    known = facts.get(term) if facts else None
    if known is None or found is None:
        return found or known
    both = max(known[0], found[0]), min(known[1], found[1])
    return both if both[0] <= both[1] else known  # elsewhere nobody is


def is_exact(term: Term, ranges: Ranges, facts: Facts = NO_FACTS) -> bool:
    """True if an operation is known not to wrap around, or is one of wide numbers.

    Of those that might wrap around only the bounds of narrow ones are known: all that their type has.
    """
    if term.element.bits > 16:
        return True
    spread, limits = _bounds(term, ranges, facts, 0), term.element.range
    return spread is not None and spread[0] in limits and spread[1] in limits


def _by_operations(term: Term, ranges: Ranges, facts: Facts, depth: int) -> tuple[int, int] | None:
    """The least and the greatest value that operations allow, None where they might wrap around."""
    found = _bounds(term, ranges, facts, depth) if depth < MOST_DEPTH and term.element.is_integer else None
    if term.element.is_integer and term.element.bits <= 16:
        limits = term.element.range
        whole = (limits.start, limits.stop - 1)
        return whole if found is None or found[0] < whole[0] or found[1] > whole[1] else found
    limits = term.element.range if term.element.is_integer else None
    fits = found is not None and limits is not None and found[0] in limits and found[1] in limits
    return found if fits else None


def _bounds(term: Term, ranges: Ranges, facts: Facts, depth: int) -> tuple[int, int] | None:
    match term:
        case Number(value):
            return int(value), int(value)
        case Linear(affine):
            return affine.range(ranges)
        case Op("if", (c, x, y)):
            chosen = ((x, narrowed(c, ranges, True), True), (y, narrowed(c, ranges, False), False))
            found = [
                # a number, or a sum of indices, has no facts
                bounds(t, inside, told(c, facts, holds) if isinstance(t, Load | Op) else facts, depth + 1)
                for t, inside, holds in chosen
                if inside is not None
            ]
            known = [f for f in found if f is not None]
            return (min(f[0] for f in known), max(f[1] for f in known)) if len(known) == len(found) else None
        case Op("mod", (x, Number(by))) if by > 0:
            a = bounds(x, ranges, facts, depth + 1)
            return a if a is not None and a[0] >= 0 and a[1] < by else (0, int(by) - 1)
        case Op("rem", (x, Number(by))) if by > 0:
            # what is left has the sign of what is divided
            a, most = bounds(x, ranges, facts, depth + 1), int(by) - 1
            return (-most, most) if a is None else (max(min(a[0], 0), -most), min(max(a[1], 0), most))
        case Op("floordiv", (x, Number(by))) if by > 0:
            a = bounds(x, ranges, facts, depth + 1)
            return None if a is None else (a[0] // int(by), a[1] // int(by))
        case Op("min" | "max" as op, (x, y)):
            return _limited(op, bounds(x, ranges, facts, depth + 1), bounds(y, ranges, facts, depth + 1), term.element)
        case Op("cast", (x,)) if x.element.is_integer or x.element == BOOL:
            return (0, 1) if x.element == BOOL else bounds(x, ranges, facts, depth + 1)
        case Op("neg", (x,)):
            a = bounds(x, ranges, facts, depth + 1)
            return None if a is None else (-a[1], -a[0])
        case Op("plus" | "minus" | "multiplies" as op, (x, y)):
            a, b = bounds(x, ranges, facts, depth + 1), bounds(y, ranges, facts, depth + 1)
            if a is None or b is None:
                return None
            match op:
                case "plus":
                    return a[0] + b[0], a[1] + b[1]
                case "minus":
                    return a[0] - b[1], a[1] - b[0]
                case _:
                    corners = [p * q for p in a for q in b]
                    return min(corners), max(corners)
        case _:
            return None


def _at(a: Affine, ranges: Ranges, holds: bool) -> Ranges | None:
    """The ranges of variables where a sum is nothing, or is something; None where that is nowhere."""
    match a.terms:
        case ((str(name), c),) if name in ranges:
            low, high = ranges[name]
            value, rest = divmod(-a.constant, c)
        case _:
            return ranges
    if rest or not low <= value <= high:
        return None if holds else ranges
    if holds:
        return {**ranges, name: (value, value)}
    low, high = low + (value == low), high - (value == high)
    return {**ranges, name: (low, high)} if low <= high else None


_LIMITS = {"less": (1, 1), "less_equal": (1, 0), "greater": (-1, 1), "greater_equal": (-1, 0)}
"""Comparisons as `sign * (x - y) + step <= 0`: their sign and step."""


def narrowed(condition: Term, ranges: Ranges, holds: bool) -> Ranges | None:
    """The ranges of variables where a condition holds, or does not; None where it never does."""
    match condition:
        case Op("and", (a, b)) | Op("if", (a, b, Number(False))) if holds:
            inside = narrowed(a, ranges, holds)
            return None if inside is None else narrowed(b, inside, holds)
        case Op("eq", (Linear(a), Number(b)) | (Number(b), Linear(a))):
            return _at(a.plus(number(-int(b))), ranges, holds)
        case Op(op, (Linear(a), Number(b))) if op in _LIMITS:
            difference = a.plus(number(-int(b)))
        case Op(op, (Number(a), Linear(b))) if op in _LIMITS:
            difference = number(int(a)).minus(b)
        case _:
            return ranges
    sign, step = _LIMITS[op]
    # sum <= 0, of which the contrary is 1 - sum <= 0
    limit = difference.times(sign).plus(number(step))
    limit = limit if holds else number(1).minus(limit)
    match limit.terms:
        case ((str(name), c),) if name in ranges:
            low, high = ranges[name]
            if c > 0:
                high = min(high, -limit.constant // c)
            else:
                low = max(low, -(-limit.constant // -c))
            return {**ranges, name: (low, high)} if low <= high else None
        case _:
            return ranges


def told(condition: Term, facts: Facts, holds: bool) -> Facts:
    """The facts where a condition holds, or does not, of the terms that it compares with a number.

    >>> from tensorir.lifting.nests.terms import Buffer, Load, Op
    >>> from tensorir.ir.types import BOOL, INT32
    >>> a = Load(Buffer("A", INT32, ()), ())
    >>> low, high = (Op(op, (a, Number(n, INT32)), BOOL) for op, n in (("greater_equal", 0), ("less", 4)))
    >>> told(Op("and", (low, high), BOOL), {}, True)[a]
    (0, 3)
    """
    match condition:
        case Op("and", (a, b)) | Op("if", (a, b, Number(False))) if holds:
            return told(b, told(a, facts, holds), holds)
        case Op("or", (a, b)) | Op("if", (a, Number(True), b)) if not holds:
            return told(b, told(a, facts, holds), holds)
        case Op("not", (a,)):
            return told(a, facts, not holds)
        case Op("eq" | "not_eq" as op, (Load() | Op() as x, Number(b))) if x.element.is_integer:
            return _with_fact(facts, x, (int(b), int(b))) if holds == (op == "eq") else facts
        case Op(op, (Load() | Op() as x, Number(b))) if op in _LIMITS and x.element.is_integer:
            sign, step = _LIMITS[op]
        case Op(op, (Number(b), Load() | Op() as x)) if op in _LIMITS and x.element.is_integer:
            sign, step = _LIMITS[op]
            sign = -sign
        case _:
            return facts
    # sign * (x - b) + step <= 0, of which the contrary is sign * (x - b) + step >= 1
    least, most = x.element.range.start, x.element.range.stop - 1
    bound = int(b) + (-step if holds else 1 - step) * sign
    return _with_fact(facts, x, (least, bound) if (sign > 0) == holds else (bound, most))


def _with_fact(facts: Facts, x: Term, spread: tuple[int, int]) -> Facts:
    """The facts, and that a term lies between two numbers, and so what is in it besides a number."""
    element = x.element
    low, high = facts.get(x, (element.range.start, element.range.stop - 1))
    low, high = max(low, spread[0]), min(high, spread[1])
    if low > high:
        return facts  # nobody is here
    found = {**facts, x: (low, high)}
    match x:
        case Op("plus", (Load() | Op() as inner, Number(by))):
            # a sum that wraps around lies outside of the range that is left for it
            low, high = low - int(by), high - int(by)
            fits = low in element.range and high in element.range
            return _with_fact(found, inner, (low, high)) if fits else found
        case _:
            return found


def _limited(op: str, a: tuple[int, int] | None, b: tuple[int, int] | None, element: Scalar) -> tuple[int, int] | None:
    """The bounds of a minimum, or a maximum, of which one operand may be anything."""
    if a is None and b is None:
        return None
    whole = (element.range.start, element.range.stop - 1)
    x, y = a or whole, b or whole
    pick = min if op == "min" else max
    return pick(x[0], y[0]), pick(x[1], y[1])


@dataclass(slots=True)
class Parts:
    """The parts of a sum that depend on data, each under a name that no variable has.

    Where parts may be `anything`, one whose bounds are not known has a name without a range.
    """

    ranges: dict[str, tuple[int, int]]
    facts: Facts = field(default_factory=dict[Term, tuple[int, int]])
    names: dict[Term, str] = field(default_factory=dict[Term, str])
    anything: bool = False

    def sum_of(self, term: Term) -> Affine | None:
        """The term as a sum, None where the bounds of a part must be known and are not."""
        match term:
            case Number(value):
                return number(int(value))
            case Linear(affine):
                return affine
            case Op("plus" | "minus" as op, (x, y)) if is_exact(term, self.ranges, self.facts):
                a, b = self.sum_of(x), self.sum_of(y)
                return None if a is None or b is None else a.plus(b if op == "plus" else b.times(-1))
            case Op("neg", (x,)) if is_exact(term, self.ranges, self.facts):
                a = self.sum_of(x)
                return None if a is None else a.times(-1)
            case Op("multiplies", (x, Number(factor)) | (Number(factor), x)) if is_exact(term, self.ranges, self.facts):
                a = self.sum_of(x)
                return None if a is None else a.times(int(factor))
            case Op("cast", (x,)) if x.element.is_integer and self._keeps(term, x):
                return self.sum_of(x)
            case _:
                known = bounds(term, self.ranges, self.facts)
                if known is None and not self.anything:
                    return None
                name = self.names.setdefault(term, f" {len(self.names)}")
                if known is not None:
                    self.ranges[name] = known
                return variable(name)

    def _keeps(self, cast: Term, x: Term) -> bool:
        """True if a cast changes no value."""
        wider = cast.element.range.start <= x.element.range.start and x.element.range.stop <= cast.element.range.stop
        spread = bounds(x, self.ranges, self.facts)
        if spread is None:
            return self.anything and wider
        return spread[0] in cast.element.range and spread[1] in cast.element.range

    def term_of(self, a: Affine, element: Scalar) -> Term:
        """A sum, its parts in their places again."""
        names = {name: term for term, name in self.names.items()}
        terms: dict[Atom, Term] = {**names}
        for atom, _ in a.terms:
            if isinstance(atom, Quotient) and atom.inner.names & names.keys():
                divided = self.term_of(atom.inner, element), Number(atom.by, element)
                terms[atom] = Op("floordiv", divided, element)
        rest = Affine(tuple((n, c) for n, c in a.terms if n not in terms), a.constant)
        last: Term = Number(rest.constant, element) if rest.is_number else Linear(rest, element)
        nothing = rest.is_number and not rest.constant
        known = [(terms[n], c) for n, c in a.terms if n in terms]
        if not known:
            return last
        # what is taken away is taken from something, if there is anything
        known.sort(key=lambda part: part[1] < 0)
        total: Term | None = last if known[0][1] < 0 and not nothing else None
        nothing |= total is not None
        for part, c in known:
            part = part if part.element == element else Op("cast", (part,), element)
            part = part if abs(c) == 1 else Op("multiplies", (part, Number(abs(c), element)), element)
            if total is None:
                total = part if c > 0 else Op("neg", (part,), element)
            else:
                total = Op("plus" if c > 0 else "minus", (total, part), element)
        assert total is not None
        if nothing:
            return total
        if rest.is_number and rest.constant < 0:
            return Op("minus", (total, Number(-rest.constant, element)), element)
        return Op("plus", (total, last), element)


def divided(op: str, term: Term, by: int, ranges: Ranges, facts: Facts = NO_FACTS) -> Term | None:
    """The quotient, or the remainder, of a settled sum by a positive number, in normal form; None where it is that."""
    if not isinstance(term, Op) or op not in ("floordiv", "divides", "mod", "rem"):
        return None
    spread = bounds(term, ranges, facts)
    positive = spread is not None and spread[0] >= 0
    if spread is not None and (positive or op in ("floordiv", "mod")):
        parts = Parts(dict(ranges), facts)
        whole = parts.sum_of(term)
        if whole is not None:
            made = (quotient if op in ("floordiv", "divides") else remainder)(whole, by, parts.ranges)
            named = set(parts.names.values())
            if not any(isinstance(atom, Quotient) and atom.inner.names & named for atom, _ in made.terms):
                return parts.term_of(made, term.element)
    return _of_division(op, term, by) if op in ("floordiv", "mod") else None


def _of_division(op: str, term: Op, by: int) -> Term | None:
    """A division of a division as one, or with the quotient inside: `x % 12 // 4` is `x // 4 % 3`."""
    element = term.element
    match op, term:
        case "floordiv", Op("floordiv", (x, Number(first))) if first > 0 and int(first) * by in element.range:
            return Op("floordiv", (x, Number(int(first) * by, element)), element)
        case "floordiv", Op("mod", (x, Number(first))) if first > by and first % by == 0:
            quotient_of = Op("floordiv", (x, Number(by, element)), element)
            return Op("mod", (quotient_of, Number(int(first) // by, element)), element)
        case "mod", Op("mod", (x, Number(first))) if first > 0 and first % by == 0:
            return Op("mod", (x, Number(by, element)), element)
        case _:
            return None
