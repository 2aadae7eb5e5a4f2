"""Folds that threads do in a tree, step by step in memory that they share, as the folds that they are.

    for k in 0..4:                                         total = 0
      for t in 0..8 >> k: S[t] = S[t] + S[t + (8 >> k)]  →  for r in 0..16: total = total + S[r]
    B = S[0]                                               for k in 0..4: ...
                                                           S[0] = total
                                                           B = S[0]

The steps are followed with sets in the place of numbers: what a place holds is the fold of those places that they
name. Where these are the places of a range, the fold of the range is stored in the place once more; where each place
holds the fold of all up to its own, that of a prefix is. The steps themselves are then read by nobody, or by those who
ask for what other places hold. Sums are taken in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise
from math import prod
from typing import Any

import numpy as np

from tensorir.lifting.emission.tensors import neutral
from tensorir.lifting.nests.nest import (
    Check,
    External,
    Leaf,
    Loop,
    Moves,
    Node,
    Store,
    While,
    leaves,
    moved,
    names_of_loops,
    ranges_of,
    read_elsewhere,
)
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, buffers_of, extreme, index_names, values
from tensorir.lifting.storage.narrow import Folds, Range, folds_of_prefixes, folds_of_ranges
from tensorir.runtime.errors import Span

FOLDS = frozenset(("plus", "multiplies", "min", "max"))
MOST_STEPS = 1 << 16
"""How many stores of single places are followed."""


def with_trees_folded(nodes: Sequence[Node], found: list[Span]) -> tuple[Node, ...]:
    """The nodes with the folds that trees compute; `found` gets where these stand, of those that round."""
    if not any(map(_has_step, nodes)):
        return tuple(nodes)
    taken = names_of_loops(nodes)
    free = (n for n in chain(("r",), (f"r_{k}" for k in count(1))) if not any(name.startswith(n) for name in taken))
    return _Trees(found, next(free)).within(nodes, ((),))


Paths = tuple[tuple[Node, ...], ...]
"""The statements that may follow, one row for each way that the program may take."""


@dataclass(frozen=True, slots=True)
class _Trees:
    """The walk over a program: where folds stand that round, and a name for their loops."""

    found: list[Span]
    name: str

    def within(self, nodes: Sequence[Node], paths: Paths) -> tuple[Node, ...]:
        """Nodes of one sequence, and what may run behind it."""
        done: list[Node] = []
        pending = list(nodes)
        stepped = frozenset(b for node in nodes if _has_step(node) for leaf in leaves((node,)) for b in leaf.written)
        while pending:
            node = pending[0]
            run = _run(pending) if _has_step(node) or _fetches(node, stepped) else None
            if run is not None:
                made, pending = self.folded(run, pending[: run.taken], pending[run.taken :], paths)
                done += made
                continue
            del pending[0]
            if isinstance(node, Loop) and not node.lockstep:
                # behind an iteration comes another one, or what stands behind the loop
                behind = tuple((*pending, *path) for path in paths)
                again = () if node.parallel else tuple((*node.body, *path) for path in behind)
                inner = self.within(node.body, (*behind, *again))
                same = len(inner) == len(node.body) and all(a is b for a, b in zip(inner, node.body, strict=True))
                node = node if same else replace(node, body=inner)
            done.append(node)
        return tuple(done)

    def folded(self, run: _Run, steps: list[Node], rest: list[Node], paths: Paths) -> tuple[list[Node], list[Node]]:
        """The steps of a run with the folds of what they leave, or these alone; and what comes behind."""
        before: list[Node] = []
        behind: list[Node] = []
        dead = not any(isinstance(leaf.node, Check) for leaf in leaves(steps))
        for buffer, span in run.spans.items():
            folds = run.folds(buffer, span, self.name)
            places = frozenset[int]() if folds is None else folds.places
            dead = dead and all(_only((*rest, *path), buffer, places) for path in paths)
            if folds is not None:
                before += folds.before
                behind += folds.behind
                if run.op in ("plus", "multiplies") and buffer.element.is_float:
                    self.found.append(span)
        if not (dead and behind):
            return [*before, *steps, *behind], rest
        for buffer in run.spans:
            filled = next((k for k, node in enumerate(rest) if _fills(node, buffer)), len(rest))
            if filled < len(rest) or all(_only(path, buffer, frozenset()) for path in paths):
                # what is read of it is what is stored behind the steps, in storage of its own
                moves: Moves = {buffer: (replace(buffer, name=f"{buffer.name}_folded"), ())}
                behind = list(moved(behind, moves))
                rest = [*moved(rest[:filled], moves), *read_elsewhere(rest[filled:][:1], moves), *rest[filled + 1 :]]
        return [*before, *(node for k, node in enumerate(steps) if k in run.others), *behind], rest


def _only(nodes: Sequence[Node], buffer: Buffer, places: frozenset[int]) -> bool:
    """True if of a buffer nodes read only some places, before they store to all of it."""
    for node in nodes:
        for leaf in leaves((node,)):
            if buffer in _read_by_bounds(leaf) or (isinstance(leaf.node, While | External) and buffer in leaf.read):
                return False
            for load in leaf.reads:
                if load.buffer is buffer and not places.issuperset(_touched(load.buffer, load.indices, leaf) or (-1,)):
                    return False
        if _fills(node, buffer):
            return True
    return True


def _read_by_bounds(leaf: Leaf) -> frozenset[Buffer]:
    """Buffers that bounds of the loops around a statement read."""
    return frozenset(b for loop in leaf.loops for bound in (loop.low, loop.extent) for b in buffers_of(bound))


def _fills(node: Node, buffer: Buffer) -> bool:
    """True if a statement stores to all of a buffer."""
    match leaves((node,)):
        case [Leaf(Store(b, indices, _, ())) as leaf] if b is buffer and not any(map(_names_in_bounds, leaf.loops)):
            return set(_touched(b, indices, leaf) or ()) == set(range(prod(b.shape)))
        case _:
            return False


def _touched(buffer: Buffer, indices: Sequence[Term], leaf: Leaf) -> list[int] | None:
    """The places that an access touches in any iteration, at the most; None where that is not known."""
    names = sorted({name for index in indices for name in index_names(index)})
    if not {*names, *chain(*map(_names_in_bounds, leaf.loops))} <= set(leaf.names):
        return None
    ranges = ranges_of(leaf.loops)
    spans = [np.arange(ranges[name][0], ranges[name][1] + 1) for name in names]
    size = prod(map(len, spans))
    if size > MOST_STEPS:
        return None
    grid = {name: at.ravel() for name, at in zip(names, np.meshgrid(*spans, indexing="ij"), strict=True)}
    try:
        return _places(buffer, indices, grid, size)
    except _Unknown:
        return None


def _names_in_bounds(loop: Loop) -> set[str]:
    """The loops further out that tell how often this one goes."""
    return {name for bound in (loop.low, loop.extent) for name in index_names(bound)}


def _has_step(node: Node, lanes: frozenset[str] = frozenset()) -> bool:
    """True if threads, which are those `lanes`, fold two places that they share into one somewhere inside."""
    match node:
        case Loop(name, body=body, lockstep=lockstep):
            inside = lanes | {name} if lockstep else lanes
            return any(_has_step(inner, inside) for inner in body)
        case Store(buffer, value=Op() as value) if lanes and (step := _step(value)) is not None:
            if not isinstance(step[1], Load) or not isinstance(step[2], Load):
                return False
            a, b = step[1].buffer, step[2].buffer
            own = a.argument or b.argument or not lanes.isdisjoint(buffer.private)
            return not own and (a is b or buffer in (a, b))
        case Store(buffer, value=Load(a)) if lanes:
            # what a thread folded on its own is handed to the others
            return not lanes.isdisjoint(a.private) and not buffer.argument and lanes.isdisjoint(buffer.private)
        case _:
            return False


def _step(term: Op) -> tuple[str, Term, Term] | None:
    """The operation of a step, and what it folds into one."""
    match extreme(term) or (term.op, *term.args):
        case (str(op), a, b) if op in FOLDS:
            return op, a, b
        case _:
            return None


def _fetches(node: Node, stepped: frozenset[Buffer]) -> bool:
    """True if threads take what others hold of what steps fold: such a step begins there."""
    match node:
        case Loop(body=body):
            return any(_fetches(inner, stepped) for inner in body)
        case Store(buffer, value=Load(read)):
            return read in stepped and buffer not in stepped
        case _:
            return False


Place = tuple[Buffer, int]


class _Unknown(Exception):
    """A statement is none of a tree."""


@dataclass(slots=True)
class _Run:
    """Statements followed so far: the operation that they fold by, and the set that each place they stored to holds.

    A set is a number whose bits say which of the `sources` are in it.
    """

    op: str = ""
    held: dict[Place, int] = field(default_factory=dict[Place, int])
    sources: list[Place] = field(default_factory=list[Place])
    spans: dict[Buffer, Span] = field(default_factory=dict[Buffer, Span])
    own: set[Buffer] = field(default_factory=set[Buffer])
    """What each thread has for itself."""
    others: set[int] = field(default_factory=set[int])
    """Where statements stand between the steps that have nothing to do with them."""
    apart: set[Buffer] = field(default_factory=set[Buffer])
    """What these store to."""
    steps: int = 0
    taken: int = 0

    def copy(self) -> _Run:
        return replace(
            self, held=dict(self.held), sources=list(self.sources), spans=dict(self.spans), own=set(self.own),
            others=set(self.others), apart=set(self.apart),
        )  # fmt: skip

    def follow(self, node: Node, grid: Mapping[str, Any], size: int) -> None:
        """One statement, in all iterations of the loops of the grid at once; `size` is their number."""
        match node:
            case Loop(name, low, extent, body, lockstep=lockstep):
                first, turns = _one(low, grid, size), max(0, _one(extent, grid, size))
                if lockstep:
                    inner = {n: np.repeat(at, turns) for n, at in grid.items()}
                    inner[name] = np.tile(np.arange(first, first + turns), size)
                    for part in body:
                        self.follow(part, inner, size * turns)
                    return
                for at in range(first, first + turns):
                    for part in body:
                        self.follow(part, {**grid, name: np.full(size, at)}, size)
            case Store():
                self.store(node, grid, size)
            case Check():
                pass
            case _:
                raise _Unknown

    def store(self, node: Store, grid: Mapping[str, Any], size: int) -> None:
        if node.atomic or not (node.buffer.element.is_float or node.buffer.element.is_integer):
            raise _Unknown
        holds = np.ones(size, bool)
        for guard in node.guards:
            holds = holds & _numbers(guard, grid, size).astype(bool)
        which = np.flatnonzero(holds)
        self.steps += len(which) + 1
        if self.steps > MOST_STEPS:
            raise _Unknown
        inner = {n: at[which] for n, at in grid.items()}
        kept = self.value(node.value, inner, len(which), node.buffer)
        places = [(node.buffer, at) for at in _places(node.buffer, node.indices, inner, len(which))]
        if len(set(places)) < len(places):
            raise _Unknown
        self.held.update(zip(places, kept, strict=True))
        self.spans[node.buffer] = node.span
        if any(name in grid for name in node.buffer.private):
            self.own.add(node.buffer)

    def value(self, term: Term, grid: Mapping[str, Any], size: int, to: Buffer) -> list[int]:
        """The sets of a value, in each iteration."""
        match term:
            case Load(buffer, indices) if buffer.element == to.element:
                return [self.at((buffer, at), grid) for at in _places(buffer, indices, grid, size)]
            case Op() if (step := _step(term)) is not None and self.op in ("", step[0]):
                self.op, a, b = step
                both = zip(self.value(a, grid, size, to), self.value(b, grid, size, to), strict=True)
                return [(-1 if x < 0 or y < 0 or (x & y and self.op not in ("min", "max")) else x | y) for x, y in both]
            case Number(number) if self.op and number == neutral(self.op, to.element):
                return [0] * size
            case _:
                raise _Unknown

    def at(self, place: Place, grid: Mapping[str, Any]) -> int:
        """The set of a place: itself, where nothing was stored to it yet; what a thread kept before is none."""
        if place not in self.held:
            if place[0] in self.apart or any(name in grid for name in place[0].private):
                raise _Unknown
            self.held[place] = 1 << len(self.sources)
            self.sources.append(place)
        return self.held[place]

    def folds(self, buffer: Buffer, span: Span, name: str) -> Folds | None:
        """The folds of what is left in a buffer; `name` is for their loops."""
        if buffer in self.own:
            return None
        left = {at: self.range_of(held) for (b, at), held in self.held.items() if b is buffer}
        ranges = {at: r for at, r in left.items() if r is not None}
        empty = {at for (b, at), held in self.held.items() if b is buffer and not held}
        prefixes = folds_of_prefixes(self.op, buffer, ranges, empty, span, name)
        return prefixes or folds_of_ranges(self.op, buffer, ranges, span, name)

    def range_of(self, held: int) -> Range | None:
        """The places of a set, where they are those of a range of one buffer."""
        if held <= 0:
            return None
        places = [self.sources[k] for k in _bits(held)]
        buffer, steps = places[0][0], sorted(at for _, at in places)
        by = steps[1] - steps[0] if len(steps) > 1 else 1
        if any(b is not buffer for b, _ in places) or any(b - a != by for a, b in pairwise(steps)):
            return None
        return Range(buffer, steps[0], by, len(steps))


def _run(nodes: Sequence[Node]) -> _Run | None:
    """The reduction by the first of some statements, as far as they are the steps of a tree; None if they are none."""
    run, last = _Run(), None
    for k, node in enumerate(nodes):
        before, run = run, run.copy()
        try:
            run.follow(node, {}, 1)
        except _Unknown:
            found = leaves((node,))
            stored = frozenset[Buffer]().union(*(leaf.written for leaf in found))
            touched = stored.union(*(leaf.read | _read_by_bounds(leaf) for leaf in found))
            if any(buffer in touched for buffer, _ in before.held):
                break
            run = before.copy()
            run.others.add(k)
            run.apart |= stored
            continue
        if run.op and _has_step(node):
            run.taken, last = k + 1, run
    return last


def _numbers(term: Term, grid: Mapping[str, Any], size: int) -> Any:
    found = values(term, grid)
    if found is None:
        raise _Unknown
    return np.broadcast_to(found, (size,))


def _places(buffer: Buffer, indices: Sequence[Term], grid: Mapping[str, Any], size: int) -> list[int]:
    """The places that an access means in each iteration, counted in the order of memory, thread by thread."""
    if buffer.argument or buffer.memory is not None:
        raise _Unknown
    flat = np.zeros(size, np.int64)
    for name in buffer.private:
        flat = flat * MOST_STEPS + grid.get(name, 0)
    for index, extent in zip(indices, buffer.shape, strict=True):
        at = _numbers(index, grid, size)
        if size and (at.min() < 0 or at.max() >= extent):
            raise _Unknown
        flat = flat * extent + at
    return [int(k) for k in flat]


def _one(term: Term, grid: Mapping[str, Any], size: int) -> int:
    """A bound of a loop, which all iterations around it have to share."""
    found = _numbers(term, grid, size)
    if not size:
        return 0
    if (found != found[0]).any():
        raise _Unknown
    return int(found[0])


def _bits(held: int) -> Iterator[int]:
    k = 0
    while held:
        if held & 1:
            yield k
        held >>= 1
        k += 1
