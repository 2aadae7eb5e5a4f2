"""Two ways to the values of a nest's arguments: by exact dataflow, and by the dependences of its statements.

Dataflow goes first. Where it does not cover a nest, steps along a loop, or moves data of a few statements, dependences
are looked at as well, and what steps least often is taken: a loop that runs step by step counts most, then a scan or a
fold by a function, then the number of distinct operations of the program in canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.lifting.dataflow.uncovered import Uncovered
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.loops.abreast import abreast
from tensorir.lifting.loops.report import Report
from tensorir.lifting.loops.schedule import Region, run
from tensorir.lifting.nests.nest import Node, leaves
from tensorir.lifting.nests.terms import Buffer
from tensorir.lifting.schedule.attempt import attempt
from tensorir.lifting.storage.axes import with_merged_axes
from tensorir.lifting.storage.copies import expanded, settled_values
from tensorir.lifting.storage.final import with_last_stores
from tensorir.lifting.storage.inlining import inlined
from tensorir.lifting.storage.mirrors import read_through
from tensorir.lifting.storage.partial_folds import folded_at_once
from tensorir.lifting.storage.partials import Whole
from tensorir.lifting.storage.shapes import trimmed, with_axes
from tensorir.lifting.storage.threads import with_threads_apart
from tensorir.lifting.storage.trees import with_trees_folded
from tensorir.runtime.errors import Span

__all__ = ["Chosen", "Way", "by_dependences", "by_flow", "chosen", "prepared"]


@dataclass(frozen=True, slots=True)
class Way:
    """What arguments become, how loops run, and where something is taken in another order."""

    emitter: Emitter
    report: Report
    merged: tuple[Span, ...] = ()
    trees: tuple[Span, ...] = ()
    dropping: tuple[Span, ...] = ()
    by_flow: bool = True
    by_element: bool = False
    """Whether exact dataflow leaves loops whose rounds hand on whole buffers."""

    def steps(self, arguments: Sequence[Buffer]) -> tuple[int, int]:
        """How many loops run step by step, and how many scans and folds by functions there are."""
        counts = [_steps(e) for e in postorder(*(self.emitter.tensor(b) for b in arguments))]
        return counts.count("loop"), counts.count("fold")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A way, and the program that it gives in canonical form.

    `merged` are places of folds whose terms are taken in another order than they were.
    """

    way: Way
    fencil: Fencil
    params: tuple[Var, ...]
    merged: tuple[Span, ...]

    @property
    def operations(self) -> list[str]:
        """The operations of the program, each distinct one once."""
        return [e.op for e in postorder(*values(self.fencil.closures)) if isinstance(e, Call)]


def _steps(e: Expr) -> str:
    match e:
        case Call("loop"):
            return "loop"
        case Call("scan") | Call("reduce", (Lambda(), *_)):
            return "fold"
        case _:
            return ""


FEW_STATEMENTS = 24
"""Of how many statements, at most, a program is lifted by dependences as well when dataflow finds no step in it."""

_MOVES = frozenset({"concat", "gather", "if", "merge_dims", "split_dim", "update"})
"""Operations that say where data lie; programs in which they stand may be said with fewer."""


def chosen(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], outputs: Sequence[int], checked: bool, exact: bool,
    finish: Callable[[Way], Chosen],
) -> Chosen:  # fmt: skip
    """The way on which a nest steps least often, and of equal ones that of the smaller program; `finish` makes it."""
    asked = [arguments[k] for k in outputs]
    nodes, trees = prepared(nodes, exact)
    found = by_flow(name, arguments, nodes, trees, checked, exact)
    if isinstance(found, str):
        second = by_dependences(arguments, nodes, trees, checked, exact)
        second.report.uncovered = found
        return finish(second)
    first, steps = finish(found), found.steps(asked)
    if not any(steps) and (len(leaves(nodes)) > FEW_STATEMENTS or _MOVES.isdisjoint(first.operations)):
        return first
    way = by_dependences(arguments, nodes, trees, checked, exact)
    others = way.steps(asked)
    if found.by_element and sum(others) <= sum(steps):
        return finish(way)  # rounds in rounds hand on whole buffers, which dependences write in place
    if steps < others or (steps == others and steps[0]):
        return first  # dataflow keeps in a loop what would be stored for all its rounds
    second = finish(way)
    return second if others < steps or len(second.operations) < len(first.operations) else first


def prepared(nodes: Sequence[Node], exact: bool) -> tuple[Sequence[Node], Sequence[Span]]:
    """A nest with trees of steps as folds, unless the order of sums is kept, and where these stand.

    Whiles of iterations that are abreast are one, and what each iteration keeps to itself has a place of its own there.
    """
    trees: list[Span] = []
    nodes = nodes if exact else with_trees_folded(nodes, trees)
    return abreast(with_threads_apart(nodes)), trees


def by_flow(
    name: str, arguments: Sequence[Buffer], nodes: Sequence[Node], trees: Sequence[Span], checked: bool, exact: bool
) -> Way | str:
    """By exact dataflow; or what of the nest that does not cover."""
    try:
        emitter, found, decided = attempt(name, arguments, nodes, checked, exact)
    except Uncovered as reason:
        return str(reason)
    for b in arguments:
        emitter.tensor(b)
    emitter.tensors.update(found)
    report = Report()
    for decision in decided:
        report.add(decision)
    return Way(emitter, report, trees=tuple(trees), by_element=bool(report.sequential))


def by_dependences(
    arguments: Sequence[Buffer], nodes: Sequence[Node], trees: Sequence[Span], checked: bool, exact: bool
) -> Way:
    """By the dependences of statements, loops step by step where these leave nothing else."""
    own = with_axes(with_last_stores(nodes))
    nodes = read_through(own)
    # what was read through other storage shows the axes of that
    nodes = own if nodes is own else with_axes(nodes, every=True)
    nodes = inlined(expanded(trimmed(nodes)))
    whole: list[Whole] = []
    if not exact:
        nodes = folded_at_once(nodes, whole)
    # what is read in the place of copies may show axes that the copies did not, and tells where these end
    nodes = trimmed(with_merged_axes(trimmed(with_axes(nodes, every=True))))
    emitter, report = Emitter(checked=checked, taken={b.name for b in arguments}), Report()
    run(Region(emitter, report, settled=settled_values(leaves(nodes))), nodes)
    return Way(
        emitter, report, tuple(w.old[0].span for w in whole if w.rounds), tuple(trees),
        tuple(w.old[0].span for w in whole if w.drops), by_flow=False,
    )  # fmt: skip
