"""A nest as a fencil: parameters for its arguments, one closure per argument that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.build import closure, fencil, literal, var
from tensorir.errors import DiagnosticError
from tensorir.ir import Closure, Expr, Fencil, Var
from tensorir.lift.axes import with_merged_axes
from tensorir.lift.emit import Emitter
from tensorir.lift.hazards import hazards
from tensorir.lift.inlining import inlined
from tensorir.lift.nest import Node, leaves, written
from tensorir.lift.report import Report
from tensorir.lift.schedule import Region, run
from tensorir.lift.shapes import trimmed, with_axes
from tensorir.lift.sharing import with_shared_terms
from tensorir.lift.storage import expanded, settled_values
from tensorir.lift.tensors import spread
from tensorir.lift.terms import Buffer
from tensorir.lift.tidy import tidied
from tensorir.source import NOWHERE, Span
from tensorir.types import BOOL, TensorType
from tensorir.walk import substitute

__all__ = ["Built", "assemble"]


@dataclass(frozen=True, slots=True)
class Built:
    """A lifted nest: the fencil, which parameter of it each argument is, and what was decided.

    `before` are parameters that hold what a written argument held before; `unchecked` says that a program that checks
    would differ.
    """

    fencil: Fencil
    names: tuple[str, ...]
    outputs: tuple[int, ...]
    before: dict[str, str]
    report: Report
    unchecked: bool

    @property
    def given(self) -> tuple[str, ...]:
        """The parameters that a call gives."""
        return tuple(self.names[k] for k in self.outputs)

    @property
    def tables(self) -> Mapping[str, Any]:
        """What the program passes itself."""
        return {}


def assemble(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool = False, on_hazard: str = "error",
    exact: bool = False,
) -> Built:  # fmt: skip
    """The tensor program of a nest over its arguments.

    What is proven wrong raises TL10 (out of bounds), TL11 (a read of what nobody wrote) or TL12 (a race), unless
    `on_hazard` is "sequential" (the report says it, and iterations run in the order of the text) or "ignore". `exact`
    keeps the order of sums.
    """
    nodes = with_shared_terms(nodes)
    stored = written(nodes)
    report = Report()
    if on_hazard != "ignore" and not checked:
        proven = hazards(nodes)
        if proven and on_hazard == "error":
            raise DiagnosticError(proven)
        for found in proven:
            report.note(found.message)
    emitter = Emitter(checked=checked, taken={b.name for b in arguments})
    nodes = with_merged_axes(inlined(expanded(trimmed(with_axes(nodes)))))
    run(Region(emitter, report, settled=settled_values(leaves(nodes))), nodes)
    outputs = tuple(k for k, b in enumerate(arguments) if b in stored)
    values = [(arguments[k], emitter.tensor(arguments[k])) for k in outputs]
    if values:
        values[0] = (values[0][0], emitter.asserting(values[0][1]))
    params = [emitter.param(b) for b in arguments]
    closures, before = _ordered(values, params, emitter)
    if not closures:
        # a program that leaves nothing behind still has to be one
        nothing = var("nothing", TensorType(BOOL))
        params, closures = [*params, nothing], [closure(nothing, literal(False, BOOL))]
    merged: list[Span] = []
    made = tidied(fencil(_identifier(name), [*params, *before.values()], closures), exact, merged)
    for span in dict.fromkeys(merged):
        line = f"line {span.line}: " if span is not NOWHERE else ""
        report.note(f"{line}a fold in parts is one fold, which takes its terms in another order.")
    names = tuple(p.name for p in params[: len(arguments)])
    return Built(made, names, outputs, {v.name: n for n, v in before.items()}, report, bool(emitter.notes))


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "lifted"


def _ordered(
    values: Sequence[tuple[Buffer, Expr]], params: Sequence[Var], emitter: Emitter
) -> tuple[list[Closure], dict[str, Var]]:
    """Closures in an order in which none reads what an earlier one wrote over; else what was there before is kept."""
    by_var = {emitter.param(b): (b, e) for b, e in values}
    pending = list(by_var)
    closures: list[Closure] = []
    before: dict[str, Var] = {}
    while pending:
        free = next((v for v in pending if not any(v in by_var[w][1].free for w in pending if w is not v)), None)
        if free is None:
            free = pending[0]
            kept = before[free.name] = var(f"{free.name}_before", free.type)
            for w in pending[1:]:
                buffer, e = by_var[w]
                by_var[w] = (buffer, substitute(e, {free: kept}))
        buffer, e = by_var[free]
        if e is not free:
            closures.append(closure(free, spread(e, emitter.intervals(buffer)) if not e.tensor.dims else e))
        else:
            closures.append(closure(free, e))
        pending.remove(free)
    return closures, before
