"""Places in flat memory that data tell, as one index per dim, where only the first of them can be out of bounds.

`A[I[k] * 4 + j]` of a buffer of rows of 4 is `A[I[k], j]`, for j in [0, 4), whatever I[k] is: the place lies inside of
the buffer if and only if I[k] is one of its rows. An index is a whole number here, as it is for TVM: one that would
wrap around is out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.integers.affine import quotient, remainder
from tensorir.lifting.nests.terms import Number, Op, Term
from tensorir.lifting.nests.unknowns import NO_FACTS, Facts, Parts, Ranges

__all__ = ["flat_place", "rows_of"]


def flat_place(indices: Sequence[Term], extents: Sequence[int]) -> Term | None:
    """The place in flat memory that several indices take apart, where they are the digits of one.

    >>> from tensorir.lifting.nests.terms import Index, show
    >>> from tensorir.ir.types import INT32
    >>> i, by = Index("i", INT32), Number(4, INT32)
    >>> show(flat_place([Op("floordiv", (i, by), INT32), Op("mod", (i, by), INT32)], [5, 4]))
    'i'
    """
    if len(indices) < 2:
        return None
    match indices[-1]:
        case Op("mod", (place, Number(by))) if by == extents[-1]:
            step = extents[-1]
        case _:
            return None
    for k in range(len(indices) - 2, -1, -1):
        part = Op("floordiv", (place, Number(step, place.element)), place.element)
        digit = part if not k else Op("mod", (part, Number(extents[k], place.element)), place.element)
        if indices[k] != digit:
            return None
        step *= extents[k]
    return place


def rows_of(
    indices: Sequence[Term], extents: Sequence[int], ranges: Ranges, facts: Facts = NO_FACTS
) -> tuple[Term, ...] | None:
    """One index per dim for the digits of a settled place of which all but the first stay inside; None for others.

    >>> from tensorir.integers.affine import variable
    >>> from tensorir.lifting.nests.terms import Buffer, Linear, Load, show
    >>> from tensorir.ir.types import INT32
    >>> row, by = Load(Buffer("I", INT32, ()), ()), Number(4, INT32)
    >>> place = Op("plus", (Op("multiplies", (row, by), INT32), Linear(variable("j"), INT32)), INT32)
    >>> digits = Op("floordiv", (place, by), INT32), Op("mod", (place, by), INT32)
    >>> [show(t) for t in rows_of(digits, [5, 4], {"j": (0, 3)})]
    ['I[]', 'j']
    """
    place = flat_place(indices, extents)
    parts = Parts(dict(ranges), facts, anything=True)
    rest = None if place is None else parts.sum_of(place)
    if rest is None or place is None or rest.range(parts.ranges) is not None:
        return None
    steps = [1]
    for extent in reversed(extents[1:]):
        steps.append(steps[-1] * extent)
    found: list[Term] = []
    for step, extent in zip(reversed(steps), extents, strict=True):
        digit, rest = quotient(rest, step, parts.ranges), remainder(rest, step, parts.ranges)
        spread = digit.range(parts.ranges)
        inside = spread is not None and spread[0] >= 0 and spread[1] < extent
        if not digit.is_linear or (found and not inside):
            return None
        found.append(parts.term_of(digit, place.element))
    return tuple(found)
