"""Reads under the choices around them: what a branch reads, it reads where it is chosen.

>>> from tensorir.lifting.nests.terms import Buffer, Index, Number, show
>>> from tensorir.ir.types import INT32
>>> i, a = Index("i", INT32), Buffer("A", INT32, (4,))
>>> first = Op("eq", (i, Number(0, INT32)), BOOL)
>>> choice = Op("if", (first, Number(0, INT32), Load(a, (i,))), INT32)
>>> [(show(load), list(map(show, conditions))) for load, conditions in reads_under(choice)]
[('A[i]', ['not(eq(i, 0))'])]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorir.ir.types import BOOL
from tensorir.lifting.nests.terms import Load, Op, Term, always, children

__all__ = ["MOST_CONDITIONS", "Seen", "parts_under", "reads_under"]

MOST_CONDITIONS = 16
"""Under how many sets of conditions one term is looked at."""

Seen = dict[int, list[set[tuple[int, bool]]]]
"""By term, the sets of conditions under which it was met, all by identity."""


def reads_under(
    term: Term, conditions: tuple[Term, ...] = (), seen: Seen | None = None
) -> Iterator[tuple[Load, tuple[Term, ...]]]:
    """Every read in a term with the conditions of the choices around it, unless it is known under fewer."""
    for part, around in parts_under(term, _is_read, conditions, seen):
        assert isinstance(part, Load)
        yield part, around


def _is_read(term: Term) -> bool:
    return isinstance(term, Load)


def parts_under(
    term: Term, wanted: Callable[[Term], bool], conditions: tuple[Term, ...] = (), seen: Seen | None = None
) -> Iterator[tuple[Term, tuple[Term, ...]]]:
    """Every part of a term that is wanted with the conditions of the choices around it, unless it is known under fewer.

    What is not looked at under more sets of conditions than `MOST_CONDITIONS` is not given: `seen` tells.
    """
    seen = {} if seen is None else seen
    here = {(id(c.args[0]), False) if isinstance(c, Op) and c.op == "not" else (id(c), True) for c in conditions}
    known = seen.setdefault(id(term), [])
    if len(known) >= MOST_CONDITIONS or any(fewer <= here for fewer in known):
        return
    known.append(here)
    if wanted(term):
        yield term, conditions
    match term:
        case Op("if", (c, yes, no)):
            yield from parts_under(c, wanted, conditions, seen)
            other = always(no)
            for both in [t for key, t in always(yes).items() if key in other]:
                yield from parts_under(both, wanted, conditions, seen)
            yield from parts_under(yes, wanted, (*conditions, c), seen)
            yield from parts_under(no, wanted, (*conditions, Op("not", (c,), BOOL)), seen)
        case _:
            for child in children(term):
                yield from parts_under(child, wanted, conditions, seen)
