"""A nest as a fencil: parameters for its arguments, one closure per argument that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.ir.build import closure, fencil, literal, var
from tensorir.ir.nodes import Expr, Fencil
from tensorir.ir.rewrite import substitute_all
from tensorir.ir.types import BOOL, TensorType
from tensorir.lifting.accesses.overlap import last_store
from tensorir.lifting.dataflow.nests import region_of
from tensorir.lifting.dataflow.opaque import Uncovered
from tensorir.lifting.emission.emit import Emitter, ordered_closures
from tensorir.lifting.emission.tensors import filled
from tensorir.lifting.hazards.proven import (
    failing,
    hazards,
    left_to_data,
    undecided_races,
    undefined_by_data,
    unordered,
    with_doubts_checked,
)
from tensorir.lifting.hazards.touches import Touches
from tensorir.lifting.hazards.unwritten import (
    doubts_of_reads,
    filled_arguments,
    is_written_whole,
    told_by_data,
    with_unseen_checked,
    with_writes_flagged,
)
from tensorir.lifting.loops.report import Decision, Report
from tensorir.lifting.loops.rolled import rolled
from tensorir.lifting.loops.unfused import abreast, unfused, with_loops_shortened
from tensorir.lifting.nests.nest import Node, leaves, with_parts_joined, written
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region.nodes import Check, walk
from tensorir.lifting.rewrites.canonical import tidied
from tensorir.lifting.schedule.run import values_of
from tensorir.lifting.storage.mirrors import read_through
from tensorir.lifting.storage.narrow import with_shared_terms, with_threads_apart
from tensorir.lifting.storage.speculation import speculated
from tensorir.lifting.storage.trees import with_trees_folded
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span


@dataclass(frozen=True, slots=True)
class Built:
    """A lifted nest: the fencil, which parameter of it each argument is, and what was decided.

    `unchecked` says that a program that checks would differ. `arguments` and `nodes` are what was read of the source.
    """

    fencil: Fencil
    names: tuple[str, ...]
    outputs: tuple[int, ...]
    report: Report
    unchecked: bool
    arguments: tuple[Buffer, ...] = field(default=(), kw_only=True)
    nodes: tuple[Node, ...] = field(default=(), kw_only=True)
    stores: Mapping[str, Span] = field(default_factory=dict[str, Span], kw_only=True)
    """The statements that are the only ones to store to a parameter, where the source is no nest."""

    def stored(self, name: str, at: Sequence[int]) -> Span:
        """The statement that stores an element of a parameter last, nowhere where the source is not one of stores."""
        places = dict(zip(self.names, self.arguments, strict=False))
        found = last_store(self.nodes, places[name], at) if name in places else None
        return self.stores.get(name, NOWHERE) if found is None else found.span

    @property
    def given(self) -> tuple[str, ...]:
        """The parameters that a call gives."""
        return tuple(self.names[k] for k in self.outputs)

    @property
    def positional(self) -> Set[Span]:
        """True if the source computes with tensors whose dims it does not name."""
        return frozenset()

    @property
    def tables(self) -> Mapping[str, Any]:
        """Tables that the program itself passes."""
        return {}


def assemble(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool = False, on_hazard: str = "error",
    exact: bool = False, results: Set[int] = frozenset(), undefined: bool = False,
) -> Built:  # fmt: skip
    """The tensor program of a nest over its arguments.

    `results` are arguments that it gives back even if no iteration stores to them.

    What is proven wrong raises TL10 (out of bounds), TL11 (a read of what nobody wrote), TL12 (a race), TL13 (a
    barrier that only some threads reach), TL14 (a division of a whole number by zero) or TL15 (an iterator that
    leaves its domain), unless `on_hazard` is "sequential" (the report says it, and iterations run in the order of the
    text) or "ignore". `exact` keeps the order of sums. With `undefined`, what the source leaves undefined is checked,
    too.
    """
    report, touches, read = Report(), Touches(), tuple(nodes)
    broken = failing(nodes) if on_hazard != "ignore" and not checked else []
    for note in undefined_by_data(nodes):
        report.note(note)
    text = with_parts_joined(left_to_data(nodes, on_hazard != "ignore", undefined))
    short = rolled(text)
    nodes = with_shared_terms(with_parts_joined(short))
    if short is not text and on_hazard != "ignore" and (broken or _tells_lines(nodes, checked)):
        nodes = with_shared_terms(text)
    stored = written(nodes)
    if on_hazard != "ignore" and not checked:
        proven = broken or hazards(nodes, touches) or unordered(nodes, touches)
        if proven and on_hazard == "error":
            raise DiagnosticError(proven)
        for found in proven:
            report.note(found.message)
        for note in undecided_races(nodes, touches):
            report.note(note)
    for buffer in arguments:
        if buffer.declared and not is_written_whole(buffer, nodes, touches):
            line = f"line {buffer.span.line}: " if buffer.span is not NOWHERE else ""
            report.note(f"{line}not every element of {buffer.name!r} is known to be written: the others are 0.")
    doubts = doubts_of_reads(nodes, touches) if on_hazard != "ignore" else []
    for doubt in doubts:
        report.note(str(doubt))
    nodes = with_writes_flagged(nodes, doubts) if checked else nodes
    loops = with_loops_shortened(unfused(nodes))
    if any(a is not b for a, b in zip(loops, nodes, strict=True)):
        nodes = with_shared_terms(loops)
    if on_hazard != "ignore":
        nodes = with_doubts_checked(nodes, touches)
        nodes = with_unseen_checked(nodes) if checked else nodes
    source, trees = nodes, list[Span]()
    nodes = nodes if exact else with_trees_folded(nodes, trees)
    # whiles of iterations that are abreast are one, in which each iteration has a place of its own
    nodes = speculated(read_through(abreast(with_threads_apart(nodes))), arguments, checked)
    emitter = _emitted(name, arguments, nodes, checked, exact, report)
    outputs = tuple(k for k, b in enumerate(arguments) if b in stored or k in results)
    values = [(arguments[k], emitter.tensor(arguments[k])) for k in outputs]
    values = _without_starts(values, emitter, source, touches)
    made, merged = _closed(name, arguments, values, emitter, exact)
    for spans, what in ((merged, "fold in parts"), (trees, "tree of steps")):
        for span in dict.fromkeys(spans):
            line = f"line {span.line}: " if span is not NOWHERE else ""
            report.note(f"{line}a {what} is one fold, which takes its terms in another order.")
    names = tuple(p.name for p in made.params[: len(arguments)])
    # what is not read after all, or alike wherever it is read, has left no note
    leaving = bool(emitter.notes) or (on_hazard != "ignore" and told_by_data(source))
    if leaving:
        report.note("where an index leaves its buffer, 0 is read and nothing is stored: calls raise, traces do not.")
    unchecked = leaving or bool(doubts)
    return Built(made, names, outputs, report, unchecked, arguments=tuple(arguments), nodes=read)


def _emitted(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool, exact: bool, report: Report
) -> Emitter:
    """Final values of arguments, by exact dataflow; the report gets the schedule of each loop."""
    try:
        translated = region_of(name, arguments, nodes)
        notes = ["assertion"] if any(isinstance(node, Check) for node in walk(translated.region.body)) else []
        emitter = Emitter(checked=checked, taken={b.name for b in arguments}, notes=notes)
        made, decided = values_of(translated.region, emitter, translated.arguments, exact, masked=False)
    except Uncovered as reason:
        span = next((leaf.span for leaf in leaves(nodes) if leaf.span is not NOWHERE), NOWHERE)
        help = "let loops run in order (T.serial), and make indices of sums of their variables."
        raise DiagnosticError(Diagnostic("TL06", f"this has no tensor program: {reason}.", span, (), help)) from None
    for b in arguments:
        emitter.tensor(b)
    emitter.tensors.update({translated.arguments[n]: x for n, x in made.items()})
    for d in decided:
        if d.dim in translated.loops:
            report.add(Decision(translated.loops[d.dim], d.strategy, d.reason, (d.statement.span,)))
    return emitter


def _closed(
    name: str, arguments: Sequence[Buffer], values: Sequence[tuple[Buffer, Expr]], emitter: Emitter, exact: bool
) -> tuple[Fencil, list[Span]]:
    """The program of the values of arguments in canonical form, and the folds whose terms it takes in another order."""
    values = [(b, emitter.asserting(x) if k == 0 else x) for k, (b, x) in enumerate(values)]
    params = [emitter.param(b) for b in arguments]
    closures, buffers = ordered_closures(values, params, emitter)
    every = [*params, *buffers]
    if not closures:
        # a program that leaves nothing behind still has to be one
        nothing = var("nothing", TensorType(BOOL))
        every, closures = [*params, nothing], [closure(nothing, emitter.asserting(literal(False, BOOL)))]
    merged: list[Span] = []
    made = tidied(fencil(name if name.isidentifier() else "lifted", every, closures), exact, merged)
    return replace(made, buffers=frozenset(b.name for b in buffers)), merged


def _tells_lines(nodes: Sequence[Node], checked: bool) -> bool:
    """True if there is something to tell of statements, or to check in them, by their lines."""
    touches = Touches()
    if any(undefined_by_data(nodes)) or doubts_of_reads(nodes, touches):
        return True
    if len(leaves(with_doubts_checked(nodes, touches))) > len(leaves(nodes)):
        return True
    return not checked and bool(hazards(nodes, touches) or unordered(nodes, touches) or undecided_races(nodes, touches))


def _without_starts(
    values: Sequence[tuple[Buffer, Expr]], emitter: Emitter, source: Sequence[Node], touches: Touches
) -> list[tuple[Buffer, Expr]]:
    """The values of arguments, without what a caller put into those that the program fills."""
    asked = [b for b, _ in values if any(emitter.param(b) in e.free for _, e in values)]
    full = filled_arguments(source, touches, asked)
    starts = {emitter.param(b): filled(0, b.element, emitter.intervals(b)) for b in full}
    new = substitute_all(tuple(e for _, e in values), starts) if starts else [e for _, e in values]
    return [(b, e) for (b, _), e in zip(values, new, strict=True)]
