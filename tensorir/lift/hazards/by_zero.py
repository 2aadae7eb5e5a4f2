"""Divisions of whole numbers by the number zero, where an iteration is proven to come to one.

Such a division is written as a choice that is 0 where the divisor is: what data tell to divide by is left to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tensorir.errors import Diagnostic
from tensorir.lift.accesses.choices import parts_under
from tensorir.lift.accesses.sets import condition_text, conjuncts, domain, integer_set, point
from tensorir.lift.hazards.undefined import computed
from tensorir.lift.nests.linear import DIVISIONS, Ranges, linear, settled
from tensorir.lift.nests.nest import Leaf, Node, leaves, ranges_of
from tensorir.lift.nests.terms import Number, Op, Term, walk

__all__ = ["by_zero"]


def by_zero(nodes: Sequence[Node]) -> list[Diagnostic]:
    """The first statement that is proven to divide by zero, with an iteration that does."""
    for leaf in leaves(nodes):
        ranges = ranges_of(leaf.loops)
        for term, guards in computed(leaf.node):
            if any(_is_by_zero(ranges, t) for t in walk(term)):
                for _, conditions in parts_under(term, partial(_is_by_zero, ranges)):
                    at = _reached(leaf, guards, conditions, ranges)
                    if at is not None:
                        return [_told(leaf, at)]
    return []


def _is_by_zero(ranges: Ranges, term: Term) -> bool:
    match term:
        case Op("if", (Op("eq", (x, Number(0))), Number(0), Op(op, (_, y)))) if op in DIVISIONS and x == y:
            found = linear(y, ranges) if y.element.is_integer else None
            return found is not None and found.is_number and found.constant == 0
        case _:
            return False


def _reached(leaf: Leaf, guards: int, conditions: tuple[Term, ...], ranges: Ranges) -> tuple[int, ...] | None:
    """The first iteration that comes to what stands under some conditions; None if there is none, or data tell."""
    whole = domain(leaf, ranges, (), "", guards=guards)
    parts = [condition_text(part, whole.names) for c in conditions for part in conjuncts(settled(c, ranges))]
    told = [p for p in parts if p is not None]
    if not whole.exact or len(told) < len(parts):
        return None
    found = integer_set(leaf.names, [*whole.constraints, *told])
    return None if found.is_empty() else point(found)


def _told(leaf: Leaf, at: tuple[int, ...]) -> Diagnostic:
    parts = [f"{loop.title or loop.name} = {value}" for loop, value in zip(leaf.loops, at, strict=True)]
    where = f"the iteration {', '.join(parts)}" if parts else "the only iteration"
    help = "give it a divisor that is not zero, or guard it."
    return Diagnostic("TL14", "division of an integer by zero.", leaf.span, (f"in {where}.",), help)
