"""The values of a nest's arguments by exact dataflow, for what it covers; what it does not is told."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import DiagnosticError
from tensorir.ir import Expr
from tensorir.lift.dataflow.nests import region_of
from tensorir.lift.dataflow.statements import Uncovered
from tensorir.lift.emission.emit import Emitter
from tensorir.lift.nests.nest import Loop, Node
from tensorir.lift.nests.terms import Buffer
from tensorir.lift.schedule.program import values_of
from tensorir.source import Span

__all__ = ["REASONS", "Attempt", "attempt"]

REASONS = {
    "parallel": "",
    "reduction": "only the last state is asked for",
    "scan": "each state follows from those before it at constant distances",
}
"""Why a loop runs as it does."""

Attempt = tuple[dict[Buffer, Expr], list[tuple[Loop, str, Span]]]


def attempt(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], emitter: Emitter, exact: bool = False
) -> Attempt | str:
    """What arguments become and how each loop runs, or why this way does not cover the nest."""
    try:
        translated = region_of(name, arguments, nodes)
        values, decided = values_of(translated.region, emitter, translated.arguments, exact, masked=False)
    except Uncovered as reason:
        return str(reason)
    except DiagnosticError as error:
        return str(error.diagnostics[0].message)
    found = {translated.arguments[n]: x for n, x in values.items()}
    return found, [
        (translated.loops[d.dim], d.strategy, d.statement.span) for d in decided if d.dim in translated.loops
    ]
