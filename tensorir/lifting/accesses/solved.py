"""Numbers that change from point to point as a sum of others, found by solving for its coefficients.

>>> from tensorir.integers.affine import variable
>>> y, x = (np.ravel(a) for a in np.mgrid[0:3, 0:4])
>>> counted = {variable("y"): y, variable("x"): x}
>>> print(sum_of(y * 10 + x + 1, counted))
y*10 + x + 1
>>> sum_of(y * x, counted) is None
True
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, number

__all__ = ["sum_of"]

MOST_SOLVED = 1 << 12
"""From how many points the coefficients of a sum are found, which is then looked at in all of them."""
LARGEST = 1 << 24
"""Numbers up to here are added and multiplied as they are."""


def sum_of(value: Any, counted: Mapping[Affine, Any]) -> Affine | None:
    """A value that changes from point to point as a sum of others, and a number; None where it is none.

    What is a sum of those before it is left out.
    """
    columns = [np.ones_like(value), *counted.values()]
    if any(c.size and abs(c).max() > LARGEST for c in (*columns, value)):
        return None
    some = np.random.default_rng(0).integers(value.size, size=MOST_SOLVED) if value.size > MOST_SOLVED else slice(None)
    sample = [c[some] for c in (*columns, value)]
    rows = [[Fraction(int(a @ b)) for b in sample] for a in sample[:-1]]
    pivots: list[int] = []
    for k, row in enumerate(rows):
        if not row[k]:
            continue
        pivots.append(k)
        for other in rows:
            if other is not row and other[k]:
                factor = other[k] / row[k]
                other[:] = [x - factor * y for x, y in zip(other, row, strict=True)]
    found = {k: rows[k][-1] / rows[k][k] for k in pivots}
    if any(c.denominator != 1 or abs(c) > LARGEST for c in found.values()):
        return None
    total = number(0)
    for k, part in enumerate((number(1), *counted)):
        total = total.plus(part.times(int(found.get(k, 0))))
    here = sum((int(found[k]) * columns[k] for k in pivots), start=np.zeros_like(value))
    return total if (here == value).all() else None
