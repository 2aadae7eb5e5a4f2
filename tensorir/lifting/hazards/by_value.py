"""Terms that are no sums of loops' variables, and are for each value of one: `i & 13`, `8 >> s`, `i * j`.

Where no data take part, one access is as many as such a loop has iterations, each with its variable known.

>>> from tensorir.lifting.nests.terms import show
>>> from tensorir.ir.types import INT32
>>> shifted = Op("shift_right", (Number(8, INT32), Index("s", INT32)), INT32)
>>> [show(put_in(shifted, {"s": s}, {"s": (0, 3)})) for s in range(4)]
['8', '4', '2', '1']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod

from tensorir.integers.affine import number
from tensorir.lifting.nests.linear import Ranges, settled, term_of
from tensorir.lifting.nests.numbers import values as of_numbers
from tensorir.lifting.nests.terms import Index, Linear, Load, Number, Op, Term, index_names, rebuilt, walk

__all__ = ["Values", "choices_of_values", "put_in"]

Values = Mapping[str, int]
"""What is known of some loops' variables."""

MOST_VALUES = 64
"""How many iterations the loops have whose variables are put in one by one."""
MOST_NAMES = 2
"""How many loops these are."""


def choices_of_values(unknown: Sequence[Term], ranges: Ranges) -> Iterator[list[Values]]:
    """The values of few loops that a few terms use, fewest first; nothing where data or floats tell one."""
    if any(isinstance(t, Load) or t.element.is_float for term in unknown for t in walk(term)):
        return
    names = sorted(set[str]().union(*map(index_names, unknown)) & ranges.keys())
    chosen = [c for k in range(1, MOST_NAMES + 1) for c in combinations(names, k)]
    counts = {n: ranges[n][1] - ranges[n][0] + 1 for n in names}
    for those in sorted(chosen, key=lambda c: (len(c), prod(counts[n] for n in c))):
        if 0 < prod(counts[n] for n in those) <= MOST_VALUES:
            each = [range(ranges[n][0], ranges[n][1] + 1) for n in those]
            yield [dict(zip(those, values, strict=True)) for values in product(*each)]


def put_in(term: Term, values: Values, ranges: Ranges) -> Term:
    """The term with some variables known, in normal form."""
    known = {n: number(v) for n, v in values.items()}

    def rule(t: Term) -> Term | None:
        match t:
            case Index(name, element) if name in values:
                return Number(values[name], element)
            case Linear(affine, element) if affine.names & values.keys():
                return term_of(affine.replaced(known, ranges), element)
            case Op(op, args, element) if op in _OF_NUMBERS and element.is_integer:
                return _of_numbers(replace(t, args=tuple(settled(a, ranges) for a in args)))
            case _:
                return None

    return settled(rebuilt(term, rule), ranges)


_DIVISIONS = {"floordiv", "mod", "divides", "rem"}
_SHIFTS = {"shift_left", "shift_right"}
_OF_NUMBERS = {"bit_and", "bit_or", "bit_xor"} | _DIVISIONS | _SHIFTS
"""Operations that are sums of variables in few cases only."""


def _of_numbers(term: Op) -> Term:
    """The number that an operation on whole numbers is, where it is one."""
    match term:
        case Op(op, (Number(), Number(b)), element):
            meant = b != 0 if op in _DIVISIONS else op not in _SHIFTS or 0 <= b < element.bits
            found = of_numbers(term, {}) if meant else None
            return term if found is None else Number(int(found), element)
        case _:
            return term
