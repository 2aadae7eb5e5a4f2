"""Two ways to the values of a nest's arguments: by exact dataflow, and by the dependences of its statements.

Dataflow goes first. Where it does not cover a nest, or steps along a loop, dependences are looked at as well, and what
steps least often is taken: a loop that runs step by step counts most, a scan and a fold by a function count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.ir import Call, Expr, Lambda
from tensorir.lift.emission.emit import Emitter
from tensorir.lift.loops.abreast import abreast
from tensorir.lift.loops.report import Report
from tensorir.lift.loops.schedule import Region, run
from tensorir.lift.nests.nest import Node, leaves
from tensorir.lift.nests.terms import Buffer
from tensorir.lift.schedule.attempt import attempt
from tensorir.lift.storage.axes import with_merged_axes
from tensorir.lift.storage.copies import expanded, settled_values
from tensorir.lift.storage.elements import with_elements_apart
from tensorir.lift.storage.final import with_last_stores
from tensorir.lift.storage.forwarding import with_values_in_place
from tensorir.lift.storage.idle import without_idle_stores
from tensorir.lift.storage.inlining import inlined
from tensorir.lift.storage.lifetimes import with_lifetimes
from tensorir.lift.storage.mirrors import read_through
from tensorir.lift.storage.partial_folds import folded_at_once
from tensorir.lift.storage.partials import Whole
from tensorir.lift.storage.places import filled_once
from tensorir.lift.storage.shapes import trimmed, with_axes
from tensorir.lift.storage.threads import with_threads_apart
from tensorir.lift.storage.trees import with_trees_folded
from tensorir.source import Span
from tensorir.walk import postorder

__all__ = ["Way", "chosen"]


@dataclass(frozen=True, slots=True)
class Way:
    """What arguments become, how loops run, and where something is taken in another order."""

    emitter: Emitter
    report: Report
    merged: tuple[Span, ...] = ()
    trees: tuple[Span, ...] = ()
    dropping: tuple[Span, ...] = ()

    def steps(self, arguments: Sequence[Buffer]) -> tuple[int, int]:
        """How many loops run step by step, and how many scans and folds by functions there are."""
        values = [self.emitter.tensor(b) for b in arguments]
        counts = [_steps(e) for e in postorder(*values)]
        return counts.count("loop"), counts.count("fold")


def _steps(e: Expr) -> str:
    match e:
        case Call("loop"):
            return "loop"
        case Call("scan") | Call("reduce", (Lambda(), *_)):
            return "fold"
        case _:
            return ""


def chosen(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], outputs: Sequence[int], checked: bool, exact: bool
) -> Way:
    """The way on which a nest steps least often."""
    asked = [arguments[k] for k in outputs]
    trees: list[Span] = []
    nodes = filled_once(nodes if exact else with_trees_folded(nodes, trees))
    first = _by_flow(name, arguments, nodes, checked, exact, trees)
    if isinstance(first, Way):
        steps = first.steps(asked)
        if not any(steps):
            return first
        second = _by_dependences(arguments, nodes, checked, exact, trees)
        return first if steps <= second.steps(asked) else second
    second = _by_dependences(arguments, nodes, checked, exact, trees)
    second.report.uncovered = first
    return second


def _by_flow(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool, exact: bool, trees: Sequence[Span]
) -> Way | str:
    """By exact dataflow; or what of the nest that does not cover."""
    emitter = Emitter(checked=checked, taken={b.name for b in arguments})
    tried = attempt(name, arguments, nodes, emitter, exact)
    if isinstance(tried, str):
        return tried
    values, decided = tried
    for b in arguments:
        emitter.tensor(b)
    emitter.tensors.update(values)
    report = Report()
    for decision in decided:
        report.add(decision)
    return Way(emitter, report, trees=tuple(trees))


def _by_dependences(
    arguments: Sequence[Buffer], nodes: Sequence[Node], checked: bool, exact: bool, trees: Sequence[Span]
) -> Way:
    """By the dependences of statements, loops step by step where these leave nothing else."""
    nodes = abreast(with_threads_apart(nodes))
    nodes = with_values_in_place(with_last_stores(without_idle_stores(nodes)))
    nodes = with_elements_apart(with_lifetimes(nodes))
    own = with_axes(nodes)
    nodes = read_through(own)
    # what was read through other storage shows the axes of that
    nodes = own if nodes is own else with_axes(nodes, every=True)
    nodes = inlined(expanded(filled_once(trimmed(nodes))))
    whole: list[Whole] = []
    if not exact:
        nodes = folded_at_once(nodes, whole)
    # what is read in the place of copies may show axes that the copies did not, and tells where these end
    nodes = trimmed(with_merged_axes(trimmed(with_axes(nodes, every=True))))
    emitter, report = Emitter(checked=checked, taken={b.name for b in arguments}), Report()
    run(Region(emitter, report, settled=settled_values(leaves(nodes))), nodes)
    return Way(
        emitter, report, tuple(w.old[0].span for w in whole if w.rounds), tuple(trees),
        tuple(w.old[0].span for w in whole if w.drops),
    )  # fmt: skip
