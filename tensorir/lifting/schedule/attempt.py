"""The values of a nest's arguments by exact dataflow, by the first attempt that covers it."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.nodes import Expr
from tensorir.lifting.dataflow.nests import region_of
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.loops.report import Decision
from tensorir.lifting.nests.nest import Node
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region.nodes import Check, walk
from tensorir.lifting.schedule.decided import Decided
from tensorir.lifting.schedule.program import first_covering, values_of

__all__ = ["attempt"]


def attempt(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool, exact: bool
) -> tuple[Emitter, dict[Buffer, Expr], list[Decision]]:
    """What arguments become and how each loop runs, and by what tensors were made. Raises Uncovered."""
    translated = region_of(name, arguments, nodes)
    told = ["assertion"] if any(isinstance(node, Check) for node in walk(translated.region.body)) else []

    def once(copies: bool) -> tuple[Emitter, dict[str, Expr], list[Decided]]:
        emitter = Emitter(checked=checked, taken={b.name for b in arguments}, notes=list(told))
        return emitter, *values_of(translated.region, emitter, translated.arguments, exact, False, copies)

    emitter, made, decided = first_covering(once)
    return (
        emitter,
        {translated.arguments[n]: x for n, x in made.items()},
        [
            Decision(translated.loops[d.dim], d.strategy, d.reason, (d.statement.span,))
            for d in decided
            if d.dim in translated.loops
        ],
    )
