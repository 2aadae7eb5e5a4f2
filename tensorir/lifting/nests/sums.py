"""Sums of whole numbers that depend on data, in one form whatever they were written as.

Whole numbers that wrap around are a ring: products with numbers are taken apart, equal parts are one, and the parts
come in the order of the operations that they are made of.

>>> from tensorir.lifting.nests.terms import Buffer, Load, show
>>> from tensorir.ir.types import INT32
>>> a = Load(Buffer("A", INT32, ()), ())
>>> more = Op("plus", (a, Op("multiplies", (Number(3, INT32), a), INT32)), INT32)
>>> show(in_normal_form(Op("multiplies", (Op("minus", (more, Number(1, INT32)), INT32), Number(2, INT32)), INT32), {}))
'minus(multiplies(A[], 8), 2)'
"""

from __future__ import annotations

from itertools import islice

from tensorir.integers.affine import Affine, number
from tensorir.ir.types import Scalar
from tensorir.lifting.nests.fitting import fits
from tensorir.lifting.nests.terms import Linear, Load, Number, Op, Term, walk
from tensorir.lifting.nests.unknowns import Facts, Ranges, bounds, is_exact

__all__ = ["in_normal_form"]

MOST_PARTS = 16
"""What has more parts stays as it is."""

MOST_STEPS = 256
"""What is added in more places, counted again wherever it is shared, stays as it is."""

MOST_WORDS = 32
"""How many operations of a part tell where it comes."""


def in_normal_form(term: Term, ranges: Ranges, facts: Facts | None = None) -> Term:
    """A sum of settled terms in normal form; sums of indices are one part."""
    element = term.element
    found = _parts(term, ranges, facts or {})
    if found is None or not (found[1].is_number or fits(found[1], element, ranges)):
        return term
    parts, rest = found
    made = _sum_of(sorted(parts.items(), key=lambda part: (_words(part[0]), -abs(part[1]))), element)
    if made is None:
        return Number(rest.constant, element) if rest.is_number else Linear(rest, element)
    if rest.is_number and not rest.constant:
        return made
    if rest.is_number:
        op, by = ("minus", -rest.constant) if rest.constant < 0 else ("plus", rest.constant)
        return Op(op, (made, Number(by, element)), element)
    return Op("plus", (made, Linear(rest, element)), element)


def _parts(term: Term, ranges: Ranges, facts: Facts) -> tuple[dict[Term, int], Affine] | None:
    """How often each part is in a sum, and its indices; None where parts are too many, or numbers wrap around."""
    element, rest = term.element, number(0)
    parts: dict[Term, int] = {}
    pending: list[tuple[int, Term]] = [(1, term)]
    steps = 0
    while pending:
        times, t = pending.pop()
        steps += 1
        match t:
            case Number(value):
                rest = rest.plus(number(int(value) * times))
            case Linear(a):
                rest = rest.plus(a.times(times))
            case Op("plus" | "minus" as op, (x, y)):
                pending += [(times if op == "plus" else -times, y), (times, x)]
            case Op("neg", (x,)):
                pending.append((-times, x))
            case Op("multiplies", (x, Number(by)) | (Number(by), x)):
                pending.append((times * int(by), x))
            case Op("cast", (Op() as x,)) if x.element.is_integer and bounds(x, ranges, facts) is not None:
                inner = _parts(x, ranges, facts) if _is_sum(x) and is_exact(x, ranges, facts) else None
                if inner is None:
                    parts[t] = parts.get(t, 0) + times
                else:
                    # what stays in its range is the same sum of wider parts
                    parts |= {
                        (wide := Op("cast", (p,), element)): parts.get(wide, 0) + n * times for p, n in inner[0].items()
                    }
                    rest = rest.plus(inner[1].times(times))
            case _:
                parts[t] = parts.get(t, 0) + times
        wraps = times not in element.range or -times not in element.range
        if wraps or len(parts) > MOST_PARTS or steps > MOST_STEPS:
            return None
    if any(n not in element.range or -n not in element.range for n in (*parts.values(), rest.constant)):
        return None
    return {t: n for t, n in parts.items() if n}, rest


def _is_sum(term: Op) -> bool:
    return term.op in ("plus", "minus", "multiplies", "neg")


def _sum_of(parts: list[tuple[Term, int]], element: Scalar) -> Term | None:
    """The sum of parts, what is added before what is taken away; None of none."""
    total: Term | None = None
    for t, n in (*((t, n) for t, n in parts if n > 0), *((t, n) for t, n in parts if n < 0)):
        part = t if abs(n) == 1 else Op("multiplies", (t, Number(abs(n), element)), element)
        if total is None:
            total = part if n > 0 else Op("neg", (part,), element)
        else:
            total = Op("plus" if n > 0 else "minus", (total, part), element)
    return total


def _words(term: Term) -> tuple[str, ...]:
    """The operations that a term begins with."""
    return tuple(map(_word, islice(walk(term), MOST_WORDS)))


def _word(term: Term) -> str:
    match term:
        case Op(op):
            return op
        case Load():
            return ""
        case Number(value):
            return repr(value)
        case _:
            return "index"
