"""Programs as nests: loops around stores, with everything that decides in between turned into guards.

A wing gives one tree of nodes per function. `leaves` lists what stands at the bottom, each with the loops around it
and its place in the text, which is what dependences, regions and strategies are computed from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.ir.nodes import Expr
from tensorir.lifting.nests.linear import Ranges, linear
from tensorir.lifting.nests.terms import Buffer, Load, Number, Term, buffers_of, loads, rebuilt
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.runtime.memory import remembered

__all__ = [
    "Bottom", "Check", "External", "Leaf", "Loop", "Moves", "Node", "Rounds", "Store", "SymbolicNest", "While",
    "changed", "common_loops", "is_true", "leaves", "moved", "names_of_loops", "ranges_of", "read_elsewhere", "written",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rounds:
    """The stretches between barriers of a kernel that a loop stands in, begins and ends a round in, and leads to.

    Where they are one, all rounds are in it.
    """

    before: int
    first: int
    last: int
    after: int

    @property
    def wait(self) -> bool:
        """Whether threads wait for each other in a round."""
        return self.first != self.last


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """The body for low <= name < low + extent; a term that is no number depends on loops around or on data."""

    name: str
    low: Term
    extent: Term
    body: tuple[Node, ...]
    parallel: bool = False
    """The source says that iterations are independent."""
    span: Span = NOWHERE
    title: str = ""
    """The name in the source."""
    lockstep: bool = False
    """Whether each statement reads in all iterations before it writes in any, as threads and vectors do."""
    rounds: Rounds | None = None
    """Where its rounds meet the barriers of a kernel; None outside of those."""


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """buffer[indices] becomes the value where all guards hold."""

    buffer: Buffer
    indices: tuple[Term, ...]
    value: Term
    guards: tuple[Term, ...] = ()
    span: Span = NOWHERE
    atomic: bool = False
    """Whether iterations that run at once do this one after the other, where they meet: an update, or what it finds."""
    stretch: int | None = None
    """Between which barriers of a kernel this stands; None where no barrier is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """The body as long as the condition holds."""

    condition: Term
    body: tuple[Node, ...]
    guards: tuple[Term, ...] = ()
    span: Span = NOWHERE
    most: int | None = None
    """The most rounds, where something bounds them: reverse mode runs so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """An error with the message where the condition does not hold."""

    condition: Term
    message: str
    guards: tuple[Term, ...] = ()
    span: Span = NOWHERE
    code: str = ""
    """Under which it is told where it is proven not to hold; none of what the source asserts itself."""


@dataclass(frozen=True, slots=True, eq=False)
class External:
    """A known function of whole buffers: `make(tensors)` gives the new contents of `writes` from those of `reads`."""

    name: str
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    make: Callable[..., tuple[Expr, ...]]
    guards: tuple[Term, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class SymbolicNest:
    """A nest for all sizes, which are indices of these names: the buffers of parameters, and their extents."""

    arguments: tuple[Buffer | None, ...]
    extents: tuple[tuple[Term, ...], ...]
    nodes: tuple[Node, ...]
    sizes: tuple[str, ...]
    largest: int
    """What sizes go up to, from 0."""


Bottom = Store | While | Check | External
Node = Loop | Bottom


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A node without loops inside, the loops around it from the outside in, and its place in the text."""

    node: Bottom
    loops: tuple[Loop, ...]
    place: tuple[int, ...]
    reads: tuple[Load, ...] = field(init=False)
    written: frozenset[Buffer] = field(init=False)
    read: frozenset[Buffer] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", _reads(self.node))
        object.__setattr__(self, "written", frozenset(_written((self.node,))))
        object.__setattr__(self, "read", frozenset(load.buffer for load in self.reads) | _read_inside(self.node))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(loop.name for loop in self.loops)

    @property
    def span(self) -> Span:
        return self.node.span


@remembered("facts of nests", limit=4096)
def _reads(node: Bottom) -> tuple[Load, ...]:
    """What a node reads, which every step that looks at the leaves of a nest asks again."""
    match node:
        case Store(_, indices, value, guards):
            terms = (value, *indices, *guards)
        case Check(condition, _, guards):
            terms = (condition, *guards)
        case While(_, _, guards) | External(guards=guards):
            terms = guards
    return tuple(load for term in terms for load in loads(term))


def _read_inside(node: Node) -> frozenset[Buffer]:
    """Buffers that an opaque node reads somewhere."""
    match node:
        case While(condition, body):
            found = buffers_of(condition)
            for leaf in leaves(body):
                found |= leaf.read
                for loop in leaf.loops:
                    found |= buffers_of(loop.low) | buffers_of(loop.extent)
            return frozenset(found)
        case External(_, reads):
            return frozenset(reads)
        case _:
            return frozenset()


def _written(nodes: Sequence[Node]) -> Iterator[Buffer]:
    for node in nodes:
        match node:
            case Store(buffer):
                yield buffer
            case Loop(body=body) | While(body=body):
                yield from _written(body)
            case External(_, _, writes):
                yield from writes
            case Check():
                pass


def written(nodes: Sequence[Node]) -> set[Buffer]:
    """Every buffer that is stored to somewhere in the nodes."""
    return set(_written(nodes))


def names_of_loops(nodes: Sequence[Node]) -> Counter[str]:
    """How many loops have a name: the threads of a kernel are loops around each statement, all under one name."""
    found: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, Loop):
            found[node.name] += 1
        if isinstance(node, Loop | While):
            found.update(names_of_loops(node.body))
    return found


def leaves(nodes: Sequence[Node], loops: tuple[Loop, ...] = (), place: tuple[int, ...] = ()) -> list[Leaf]:
    """The bottom of a tree in the order of the text."""
    found: list[Leaf] = []
    for k, node in enumerate(nodes):
        here = (*place, k)
        if isinstance(node, Loop):
            found += leaves(node.body, (*loops, node), here)
        else:
            found.append(Leaf(node, loops, here))
    return found


def ranges_of(loops: Sequence[Loop], outer: Ranges | None = None) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each loop's variable, hulls where bounds depend on other loops."""
    if not outer:
        return dict(_ranges_of(tuple(loops)))
    return _with_ranges(outer, loops)


@remembered("facts of nests", limit=4096)
def _ranges_of(loops: tuple[Loop, ...]) -> dict[str, tuple[int, int]]:
    return _with_ranges({}, loops)


def _with_ranges(outer: Ranges, loops: Sequence[Loop]) -> dict[str, tuple[int, int]]:
    ranges = dict(outer)
    for loop in loops:
        low, extent = linear(loop.low, ranges), linear(loop.extent, ranges)
        assert low is not None and extent is not None, loop.name
        first, count, last = low.range(ranges), extent.range(ranges), low.plus(extent).range(ranges)
        assert first is not None and count is not None and last is not None
        ranges[loop.name] = (first[0], max(first[0], min(last[1], first[1] + count[1]) - 1))
    return ranges


def is_true(term: Term) -> bool:
    return isinstance(term, Number) and bool(term.value)


def common_loops(a: Leaf, b: Leaf) -> int:
    """How many loops two leaves share, from the outside in."""
    count = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x is not y:
            break
        count += 1
    return count


Moves = Mapping[Buffer, tuple[Buffer, tuple[Term, ...]]]
"""What stands in the place of buffers, and at which first indices their elements are there."""


def moved(
    nodes: Sequence[Node], moves: Moves, under: Mapping[Buffer, tuple[Term, ...]] | None = None
) -> tuple[Node, ...]:
    """The nodes with other buffers in the place of some, with further dims, stored to under further conditions."""
    guards = under or {}

    def inner(node: Node) -> Node:
        if isinstance(node, Store) and guards.get(node.buffer):
            node = replace(node, guards=(*guards[node.buffer], *node.guards))
        return changed(
            node, lambda t: _moved(t, moves), inner, lambda b: moves[b][0] if b in moves else b,
            lambda b: moves[b][1] if b in moves else (),
        )  # fmt: skip

    return tuple(map(inner, nodes)) if moves else tuple(nodes)


def read_elsewhere(nodes: Sequence[Node], moves: Moves) -> tuple[Node, ...]:
    """The nodes with what they read of some buffers read from others, with further dims."""

    def inner(node: Node) -> Node:
        return changed(node, lambda t: _moved(t, moves), inner, lambda b: b, lambda _: ())

    return tuple(map(inner, nodes))


def _moved(term: Term, moves: Moves) -> Term:
    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in moves:
            new, place = moves[t.buffer]
            return Load(new, (*place, *t.indices), t.span)
        return None

    return rebuilt(term, rule) if buffers_of(term) & moves.keys() else term


def changed(
    node: Node, over: Callable[[Term], Term], inner: Callable[[Node], Node], target: Callable[[Buffer], Buffer],
    prefix: Callable[[Buffer], tuple[Term, ...]],
) -> Node:  # fmt: skip
    """A node with its terms and buffers changed."""
    match node:
        case Loop():
            return replace(node, low=over(node.low), extent=over(node.extent), body=tuple(map(inner, node.body)))
        case Store(buffer, indices, value, guards):
            places, held = (*prefix(buffer), *map(over, indices)), tuple(map(over, guards))
            return replace(node, buffer=target(buffer), indices=places, value=over(value), guards=held)
        case While(condition, body, guards, span, most):
            return While(over(condition), tuple(map(inner, body)), tuple(map(over, guards)), span, most)
        case Check(condition, _, guards):
            return replace(node, condition=over(condition), guards=tuple(map(over, guards)))
        case External():
            return replace(node, guards=tuple(map(over, node.guards)))
