"""Bounds of whole-number terms that are no sums of indices: found by evaluating them on all iterations.

>>> from tensorir.lifting.nests.terms import Index, Number, Op
>>> from tensorir.ir.types import INT32
>>> i = Index("i", INT32)
>>> extremes(Op("mod", (Op("multiplies", (i, i), INT32), Number(5, INT32)), INT32), {"i": (0, 9)})
(0, 4)
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import numpy as np

from tensorir.integers.affine import Affine
from tensorir.lifting.nests.linear import Ranges, linear
from tensorir.lifting.nests.numbers import values
from tensorir.lifting.nests.terms import Op, Term, index_names

__all__ = ["extremes"]

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
        return _between(term, found, ranges)
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


def _between(term: Term, found: Affine | None, ranges: Ranges) -> tuple[int, int] | None:
    match term:
        case Op("min" | "max" as op, args, _):
            ends = [extremes(a, ranges) for a in args]
            if any(e is None for e in ends):
                return None
            least, most = ([e[k] for e in ends if e is not None] for k in (0, 1))
            return (min(least), min(most)) if op == "min" else (max(least), max(most))
        case _:
            return None if found is None else found.range(ranges)
