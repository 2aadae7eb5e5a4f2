"""The values of a nest's arguments by exact dataflow, for what it covers; what it does not is told."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir import Expr
from tensorir.lift.dataflow.nests import region_of
from tensorir.lift.dataflow.statements import Uncovered
from tensorir.lift.emission.emit import Emitter
from tensorir.lift.loops.report import Decision
from tensorir.lift.nests.nest import Node
from tensorir.lift.nests.terms import Buffer
from tensorir.lift.region.nodes import Check, walk
from tensorir.lift.schedule.program import values_of

__all__ = ["Attempt", "attempt"]

Attempt = tuple[dict[Buffer, Expr], list[Decision]]


def attempt(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], emitter: Emitter, exact: bool, copies: bool
) -> Attempt | str:
    """What arguments become and how each loop runs, or why this way does not cover the nest."""
    try:
        translated = region_of(name, arguments, nodes)
        if any(isinstance(node, Check) for node in walk(translated.region.body)):
            emitter.notes.append("assertion")
        values, decided = values_of(translated.region, emitter, translated.arguments, exact, False, copies)
    except Uncovered as reason:
        return str(reason)
    found = {translated.arguments[n]: x for n, x in values.items()}
    return found, [
        Decision(translated.loops[d.dim], d.strategy, d.reason, (d.statement.span,))
        for d in decided
        if d.dim in translated.loops
    ]
