"""Programs as nests: loops around stores, with everything that decides in between turned into guards.

Loops that were cut in parts: two that follow each other, and do the same for adjacent numbers, are one loop.

>>> from tensorir.ir.types import INT32
>>> def part(name, low, extent):
...     store = Store(b, (Index(name, INT32),), Index(name, INT32))
...     return Loop(name, Number(low, INT32), Number(extent, INT32), (store,))
>>> b = Buffer("B", INT32, (8,))
>>> [(loop.low.value, loop.extent.value) for loop in with_parts_joined([part("i", 0, 2), part("j", 2, 6)])]
[(0, 8)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Ranges, variable
from tensorir.ir.nodes import Expr
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Term, buffers_of, loads, rebuilt
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.runtime.memory import remembered

# Programs as nests: loops around stores, with everything that decides in between turned into guards.
#
# A wing gives one tree of nodes per function. `leaves` lists what stands at the bottom, each with the loops around it
# and its place in the text, which is what dependences, regions and strategies are computed from.


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
        """True if threads wait for each other in a round."""
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
    """The reads of a node, which every step over the leaves of a nest asks for again."""
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
    """The number of loops of each name: the threads of a kernel are loops around each statement, all under one name."""
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
    """The number of common loops of two leaves, from the outside in."""
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


def with_parts_joined(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with parts of one loop, wherever they stand one after the other, as that loop."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop | While):
            body = with_parts_joined(node.body)
            same = len(body) == len(node.body) and all(x is y for x, y in zip(body, node.body, strict=True))
            node = node if same else replace(node, body=body)
        whole = _whole(found[-1], node) if found else None
        if whole is None:
            found.append(node)
        else:
            found[-1] = whole
    return tuple(found)


def _whole(a: Node, b: Node) -> Node | None:
    """The loop of which two are parts; None where they are none, or where iterations of either run at once."""
    if not isinstance(a, Loop) or not isinstance(b, Loop) or a.parallel or b.parallel or a.lockstep or b.lockstep:
        return None
    match a.low, a.extent, b.low, b.extent:
        case Number(low, element), Number(extent), Number(next_low), Number(more) if low + extent == next_low:
            joined = Loop(a.name, a.low, Number(extent + more, element), a.body, span=a.span, title=a.title)
            return joined if _alike(a.body, b.body, {b.name: a.name}, {}) else None
        case _:
            return None


def _alike(xs: Sequence[Node], ys: Sequence[Node], names: Mapping[str, str], known: dict[Term, Term]) -> bool:
    """True if nodes do the same, where the variables of the second ones have the names of the first ones."""
    return len(xs) == len(ys) and all(_one_alike(x, y, names, known) for x, y in zip(xs, ys, strict=True))


def _one_alike(x: Node, y: Node, names: Mapping[str, str], known: dict[Term, Term]) -> bool:
    def terms(some: Sequence[Term], others: Sequence[Term]) -> bool:
        if len(some) != len(others):
            return False
        return all(_known(s, {}, known) is _known(o, names, known) for s, o in zip(some, others, strict=True))

    match x, y:
        case Loop(), Loop():
            kind = (x.parallel, x.lockstep) == (y.parallel, y.lockstep)
            bounds = terms((x.low, x.extent), (y.low, y.extent))
            return kind and bounds and _alike(x.body, y.body, {**names, y.name: x.name}, known)
        case Store(), Store():
            same = (x.buffer, x.atomic, x.stretch) == (y.buffer, y.atomic, y.stretch)
            return same and terms((*x.indices, x.value, *x.guards), (*y.indices, y.value, *y.guards))
        case While(), While():
            same = x.most == y.most and terms((x.condition, *x.guards), (y.condition, *y.guards))
            return same and _alike(x.body, y.body, names, known)
        case Check(), Check():
            return x.message == y.message and terms((x.condition, *x.guards), (y.condition, *y.guards))
        case External(), External():
            return x is y
        case _:
            return False


def _known(term: Term, names: Mapping[str, str], known: dict[Term, Term]) -> Term:
    """A term under other names of variables; one object for all that are equal."""
    values = {old: variable(new) for old, new in names.items()}

    def rule(t: Term) -> Term:
        match t:
            case Index(name, element) if name in names:
                t = Index(names[name], element)
            case Linear(a, element) if a.names & names.keys():
                t = Linear(a.replaced(values, {}), element)
            case _:
                pass
        return known.setdefault(t, t)

    return rebuilt(term, rule)
