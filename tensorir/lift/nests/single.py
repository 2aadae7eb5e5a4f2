"""Loops of one iteration: it is known which one it is, and that stands in the place of the loop's variable.

A tile that is as large as the whole leaves such loops, and so does a schedule's part of one element. They stay around
what they hold, since the report tells of every loop, and what is said of an access of every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorir.lift.nests.nest import Check, External, Loop, Node, Store, While
from tensorir.lift.nests.terms import Index, Number, Term, index_names, loads, rebuilt

__all__ = ["with_single_rounds"]


def with_single_rounds(nodes: Sequence[Node], known: Mapping[str, Term] | None = None) -> tuple[Node, ...]:
    """The nodes, the variable of each loop of one iteration as the term that it is there; `known` are those around."""
    around = known or {}

    def rule(t: Term) -> Term | None:
        if not isinstance(t, Index) or t.name not in around:
            return None
        there = around[t.name]
        if isinstance(there, Number):
            return Number(there.value, t.element)
        return there if there.element == t.element else None

    def over(term: Term) -> Term:
        return rebuilt(term, rule) if index_names(term) & around.keys() else term

    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(name, low, extent, body):
                start, length = over(low), over(extent)
                inner = {n: t for n, t in around.items() if n != name}
                # what storage holds may change within the loop
                if isinstance(length, Number) and length.value == 1 and not loads(start):
                    inner[name] = start
                found.append(replace(node, low=start, extent=length, body=with_single_rounds(body, inner)))
            case While(condition, body, guards):
                held = tuple(map(over, guards))
                found.append(
                    replace(node, condition=over(condition), body=with_single_rounds(body, around), guards=held)
                )
            case Store(_, indices, value, guards):
                places, held = tuple(map(over, indices)), tuple(map(over, guards))
                found.append(replace(node, indices=places, value=over(value), guards=held) if around else node)
            case Check(condition, _, guards):
                found.append(replace(node, condition=over(condition), guards=tuple(map(over, guards))))
            case External(guards=guards):
                found.append(replace(node, guards=tuple(map(over, guards))))
    return tuple(found)
