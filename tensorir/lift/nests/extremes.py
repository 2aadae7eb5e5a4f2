"""Bounds of whole-number terms: of those that are no sums of indices by evaluating them on all iterations.

>>> from tensorir.lift.nests.terms import Index, Number, Op
>>> from tensorir.types import INT32
>>> i = Index("i", INT32)
>>> extremes(Op("mod", (Op("multiplies", (i, i), INT32), Number(5, INT32)), INT32), {"i": (0, 9)})
(0, 4)
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import numpy as np

from tensorir.lift.nests.linear import Ranges, linear
from tensorir.lift.nests.numbers import values
from tensorir.lift.nests.terms import Number, Op, Term, index_names

__all__ = ["bounds", "extremes"]

MOST_POINTS = 1 << 20


def extremes(term: Term, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a whole-number term; None where it reads data, or has too many."""
    found = linear(term, ranges)
    if found is not None and found.is_linear:
        return found.range(ranges)
    names = sorted(index_names(term))
    if any(name not in ranges for name in names):
        return None
    count = 1
    for name in names:
        count *= max(0, ranges[name][1] - ranges[name][0] + 1)
    if not count or count > MOST_POINTS:
        return None
    grid = {
        name: np.arange(ranges[name][0], ranges[name][1] + 1).reshape([-1 if k == j else 1 for k in range(len(names))])
        for j, name in enumerate(names)
    }
    result = values(term, grid)
    if result is None:
        return None
    return int(np.min(result)), int(np.max(result))


def bounds(term: Term, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value that a term can have whatever the data are; None of what is no whole number.

    >>> from tensorir.lift.nests.terms import Buffer, Index, Load, Number, Op
    >>> from tensorir.types import INT32
    >>> n = Load(Buffer("N", INT32, (8,)), (Index("i", INT32),))
    >>> bounds(Op("minus", (Op("mod", (n, Number(5, INT32)), INT32), Number(1, INT32)), INT32), {"i": (0, 7)})
    (-1, 3)
    """
    if not term.element.is_integer:
        return None
    found = extremes(term, ranges)
    if found is not None:
        return found
    whole = term.element.range
    found = _of_parts(term, ranges)
    # what leaves the type comes back from its other end
    return found if found is not None and found[0] in whole and found[1] in whole else (whole.start, whole.stop - 1)


def _of_parts(term: Term, ranges: Ranges) -> tuple[int, int] | None:
    match term:
        case Op("mod", (_, Number(d))) if d > 0:
            return 0, int(d) - 1
        case Op("min" | "max" | "plus" | "minus" | "cast" | "if" as op, args):
            parts = [bounds(a, ranges) for a in (args[1:] if op == "if" else args)]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            lows, highs = zip(*known, strict=True)
            match op:
                case "min" | "max":
                    choose = min if op == "min" else max
                    return choose(lows), choose(highs)
                case "plus":
                    return sum(lows), sum(highs)
                case "minus":
                    return lows[0] - highs[1], highs[0] - lows[1]
                case _:
                    return min(lows), max(highs)
        case _:
            return None
