"""A nest as a fencil: parameters for its arguments, one closure per argument that is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import is_
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
    Doubt,
    doubts_of_reads,
    filled_arguments,
    is_written_whole,
    told_by_data,
    with_unseen_checked,
    with_writes_flagged,
)
from tensorir.lifting.loops.report import Decision, Report, folds_by_comparison
from tensorir.lifting.loops.rolled import rolled
from tensorir.lifting.loops.unfused import abreast, unfused, with_loops_shortened
from tensorir.lifting.nests.nest import Node, leaves, with_parts_joined, written
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.region.nodes import Check, Region, walk
from tensorir.lifting.region.text import print_region
from tensorir.lifting.rewrites.canonical import tidied
from tensorir.lifting.schedule.order import values_of
from tensorir.lifting.storage.mirrors import read_through
from tensorir.lifting.storage.narrow import with_shared_terms
from tensorir.lifting.storage.trees import with_trees_folded
from tensorir.passes.pipeline import Stage
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span, refuse

Nodes = tuple[Node, ...]


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
    stages: tuple[Stage[Any], ...] = field(default=(), kw_only=True)
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


@dataclass(frozen=True, slots=True)
class Goal:
    """The options of a lift; and what its passes look up once, and say of the program."""

    arguments: Sequence[Buffer]
    read: Nodes
    """The nest as the source has it."""
    checked: bool
    on_hazard: str
    exact: bool
    undefined: bool
    report: Report = field(default_factory=Report)
    touches: Touches = field(default_factory=Touches)
    doubts: list[Doubt] = field(default_factory=list[Doubt])
    """The buffers of which it is not proven that all that is read was written."""
    trees: list[Span] = field(default_factory=list[Span])
    """Folds by trees, which round."""

    @property
    def minds(self) -> bool:
        """True unless hazards are ignored."""
        return self.on_hazard != "ignore"

    def failing(self) -> list[Diagnostic]:
        """Checks that are proven to fail; of a program that has checks this was asked before."""
        return failing(self.read) if self.minds and not self.checked else []


# The passes from a nest as it is read to one whose dataflow is asked for: some keep the source's storage, some undo it.


def left_to_checks(nodes: Nodes, goal: Goal) -> Nodes:
    for note in undefined_by_data(nodes):
        goal.report.note(note)
    return with_parts_joined(left_to_data(nodes, goal.minds, goal.undefined))


def rolled_up(nodes: Nodes, goal: Goal) -> Nodes:
    short = rolled(nodes)
    new = with_shared_terms(with_parts_joined(short))
    # what is said of statements names their lines, which copies share
    told = short is not nodes and goal.minds and (goal.failing() or _tells_lines(new, goal.checked))
    return with_shared_terms(nodes) if told else new


def without_hazards(nodes: Nodes, goal: Goal) -> Nodes:
    report, touches = goal.report, goal.touches
    if goal.minds and not goal.checked:
        proven = goal.failing() or hazards(nodes, touches) or unordered(nodes, touches)
        if proven and goal.on_hazard == "error":
            raise DiagnosticError(proven)
        for note in (*(hazard.message for hazard in proven), *undecided_races(nodes, touches)):
            report.note(note)
    for buffer in goal.arguments:
        if buffer.declared and not is_written_whole(buffer, nodes, touches):
            line = f"line {buffer.span.line}: " if buffer.span is not NOWHERE else ""
            report.note(f"{line}not every element of {buffer.name!r} is known to be written: the others are 0.")
    goal.doubts.extend(doubts_of_reads(nodes, touches) if goal.minds else ())
    for doubt in goal.doubts:
        report.note(str(doubt))
    return with_writes_flagged(nodes, goal.doubts) if goal.checked else nodes


def unfused_and_shortened(nodes: Nodes, goal: Goal) -> Nodes:
    loops = with_loops_shortened(unfused(nodes))
    return nodes if all(map(is_, loops, nodes)) else with_shared_terms(loops)


def with_checks(nodes: Nodes, goal: Goal) -> Nodes:
    if not goal.minds:
        return nodes
    nodes = with_doubts_checked(nodes, goal.touches)
    return with_unseen_checked(nodes) if goal.checked else nodes


Row = tuple[str, str, Callable[[Nodes, Goal], Nodes]]

SOURCE: tuple[Row, ...] = (
    ("left_to_checks", "a check that is known to hold, or that nobody asks for, goes", left_to_checks),
    ("roll", "statements that repeat are a loop", rolled_up),
    ("hazards", "a read of what may not be written asks for a flag that the write raises", without_hazards),
    ("unfuse", "a loop whose variable is divided is a nest, and iterations that do nothing go", unfused_and_shortened),
    ("checks", "an index that data tell is checked", with_checks),
)
STORAGE: tuple[Row, ...] = (
    ("trees", "a fold by a tree of steps is a loop", lambda x, g: x if g.exact else with_trees_folded(x, g.trees)),
    ("abreast", "whiles of the iterations of a loop are one while", lambda x, g: abreast(x)),
    ("read_through", "copies in places that no sum tells are seen through", lambda x, _: read_through(x)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A program between two passes as a region, which is made where it is printed or compared."""

    region: Callable[[], Region]

    def __str__(self) -> str:
        try:
            return print_region(self.region())
        except Uncovered as reason:
            return f"no region: {reason}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and str(self) == str(other)


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
    goal = Goal(arguments, tuple(nodes), checked, on_hazard, exact, undefined)
    report, now, stages = goal.report, goal.read, list[Stage[Any]]()

    def shown(nodes: Nodes) -> Shown:
        return Shown(lambda: region_of(name, arguments, nodes).region)

    def through(passes: Sequence[Row]) -> Nodes:
        nodes = now
        for title, reason, run in passes:
            before, nodes = nodes, run(nodes, goal)
            stages.append(Stage(title, reason, shown(before), shown(nodes)))
        return nodes

    source = now = through(SOURCE)
    now = through(STORAGE)
    emitter = _emitted(name, arguments, now, checked, exact, report)
    stored = written(goal.read)
    outputs = tuple(k for k, b in enumerate(arguments) if b in stored or k in results)
    values = [(arguments[k], emitter.tensor(arguments[k])) for k in outputs]
    values = _without_starts(values, emitter, source, goal.touches)
    plain, buffers = _closed(name, arguments, values, emitter)
    stages.append(Stage("schedule", "each write is a tensor over its loops", stages[-1].after, plain))
    merged: list[Span] = []
    made = replace(tidied(plain, exact, merged), buffers=buffers)
    stages.append(Stage("canonical", "the program has its canonical form", plain, made))
    for spans, what in ((merged, "fold in parts"), (goal.trees, "tree of steps")):
        for span in dict.fromkeys(spans):
            line = f"line {span.line}: " if span is not NOWHERE else ""
            report.note(f"{line}a {what} is one fold, which takes its terms in another order.")
    for line in () if exact else folds_by_comparison(made):
        report.note(line)
    names = tuple(p.name for p in made.params[: len(arguments)])
    # what is not read after all, or alike wherever it is read, has left no note
    leaving = bool(emitter.notes) or (goal.minds and told_by_data(source))
    if leaving:
        report.note("where an index leaves its buffer, 0 is read and nothing is stored: calls raise, traces do not.")
    return Built(
        made, names, outputs, report, leaving or bool(goal.doubts), stages=tuple(stages), arguments=tuple(arguments),
        nodes=goal.read,
    )  # fmt: skip


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
        raise refuse("TL06", f"this has no tensor program: {reason}.", help, at=span) from None
    for b in arguments:
        emitter.tensor(b)
    emitter.tensors.update({translated.arguments[n]: x for n, x in made.items()})
    for d in decided:
        if d.dim in translated.loops:
            report.add(Decision(translated.loops[d.dim], d.strategy, d.reason, (d.statement.span,)))
    return emitter


def _closed(
    name: str, arguments: Sequence[Buffer], values: Sequence[tuple[Buffer, Expr]], emitter: Emitter
) -> tuple[Fencil, frozenset[str]]:
    """The program of the values of arguments, and the buffers that are its own."""
    values = [(b, emitter.asserting(x) if k == 0 else x) for k, (b, x) in enumerate(values)]
    params = [emitter.param(b) for b in arguments]
    closures, buffers = ordered_closures(values, params, emitter)
    every = [*params, *buffers]
    if not closures:
        # a program that leaves nothing behind still has to be one
        nothing = var("nothing", TensorType(BOOL))
        every, closures = [*params, nothing], [closure(nothing, emitter.asserting(literal(False, BOOL)))]
    made = fencil(name if name.isidentifier() else "lifted", every, closures)
    return made, frozenset(b.name for b in buffers)


def _tells_lines(nodes: Sequence[Node], checked: bool) -> bool:
    """True if there is something to tell of statements, or to check in them, by their lines."""
    touches = Touches()
    if any(undefined_by_data(nodes)) or doubts_of_reads(nodes, touches):
        return True
    proven = not checked and (hazards(nodes, touches) or unordered(nodes, touches) or undecided_races(nodes, touches))
    return bool(proven) or len(leaves(with_doubts_checked(nodes, touches))) > len(leaves(nodes))


def _without_starts(
    values: Sequence[tuple[Buffer, Expr]], emitter: Emitter, source: Sequence[Node], touches: Touches
) -> list[tuple[Buffer, Expr]]:
    """The values of arguments, without what a caller put into those that the program fills."""
    asked = [b for b, _ in values if any(emitter.param(b) in e.free for _, e in values)]
    full = filled_arguments(source, touches, asked)
    starts = {emitter.param(b): filled(0, b.element, emitter.intervals(b)) for b in full}
    new = substitute_all(tuple(e for _, e in values), starts) if starts else [e for _, e in values]
    return [(b, e) for (b, _), e in zip(values, new, strict=True)]
