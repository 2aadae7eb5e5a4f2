"""Loops as they were before they were fused, split, or made longer than data ask for.

Loops that end where conditions end all that they do: what runs in no other iteration needs no others.

`for n in range(2): if n < 1: …` is `for n in range(1): …`. A schedule that splits a loop of one iteration in two leaves
such loops, and so does one that rounds the number of threads up.

>>> from tensorir.lifting.nests.nest import Store
>>> from tensorir.lifting.nests.terms import Buffer, Index, Number, Op
>>> from tensorir.ir.types import BOOL, INT32
>>> n, b = Index("n", INT32), Buffer("B", INT32, (2,))
>>> store = Store(b, (n,), n, (Op("less", (n, Number(1, INT32)), BOOL),))
>>> (loop,) = with_loops_shortened([Loop("n", Number(0, INT32), Number(2, INT32), (store,))])
>>> loop.low.value, loop.extent.value
(0, 1)

Loops that were fused: one loop of whose variable quotients and remainders are used is a nest of loops.

    for t in range(6): B[t // 3, t % 3] = …   →   for t_1 in range(2): for t_2 in range(3): B[t_1, t_2] = …

The iterations come in the same order. What is stored and read at sums of the parts is told apart by each of them then,
and a copy of storage that only one of the parts needs has none for the others.

>>> from tensorir.lifting.nests.terms import Buffer, Index, Number, Op, show
>>> from tensorir.ir.types import INT32
>>> t, b = Index("t", INT32), Buffer("B", INT32, (2, 3))
>>> place = tuple(Op(op, (t, Number(3, INT32)), INT32) for op in ("floordiv", "mod"))
>>> (loop,) = unfused([Loop("t", Number(0, INT32), Number(6, INT32), (Store(b, place, t),))])
>>> inner = loop.body[0]
>>> loop.name, loop.extent.value, loop.title, inner.name, inner.extent.value, inner.title
('t_1', 2, 't // 3', 't_2', 3, 't % 3')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from tensorir.integers.affine import Quotient, number, variable
from tensorir.ir.build import fresh
from tensorir.ir.types import INT32, Interval
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import bounds_of_guard
from tensorir.lifting.nests.linear import Ranges, linear, settled
from tensorir.lifting.nests.nest import Check, External, Loop, Node, Store, While, changed, names_of_loops, written
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    buffers_of,
    index_names,
    rebuilt,
    walk,
)

Guards = tuple[Term, ...]


def with_loops_shortened(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, each loop without the first and last iterations in which nothing inside of it does anything."""
    names = names_of_loops(nodes)
    # what threads keep to themselves is as long as all of them
    single = {n for n, count in names.items() if count == 1}
    return tuple(_shorter(node, single)[0] for node in nodes)


def _shorter(node: Node, single: Set[str]) -> tuple[Node, list[Guards]]:
    """A node, and under which conditions each statement inside of it runs."""
    match node:
        case Loop(name, low, extent, body):
            parts = [_shorter(n, single) for n in body]
            guards = [g for _, inner in parts for g in inner]
            new = tuple(n for n, _ in parts)
            node = node if all(a is b for a, b in zip(new, body, strict=True)) else replace(node, body=new)
            match low, extent:
                case Number(int() as first), Number(int() as count) if guards and count > 1 and name in single:
                    whole = Interval(first, first + count)
                    needed = reduce(lambda a, b: a | b, (_running(name, whole, g) for g in guards))
                    if needed and needed != whole:
                        cut = Number(needed.start, low.element), Number(len(needed), extent.element)
                        node = replace(node, low=cut[0], extent=cut[1])
                case _:
                    pass
            return node, guards
        case While(body=body, guards=guards):
            new = tuple(_shorter(n, single)[0] for n in body)
            same = all(a is b for a, b in zip(new, body, strict=True))
            return node if same else replace(node, body=new), [guards]
        case _:
            return node, [node.guards]


def _running(name: str, whole: Interval, guards: Guards) -> Interval:
    """The iterations of a loop in which conditions on its variable alone hold."""
    ranges = {name: (whole.start, whole.stop - 1)}
    for guard in guards:
        if name not in index_names(guard):
            continue
        for part in conjuncts(guard):
            if index_names(part) == {name} and (found := bounds_of_guard(settled(part, ranges))) is not None:
                _, bound, upper = found
                limit = Interval(whole.start, bound + 1) if upper else Interval(bound, whole.stop)
                whole = whole & limit if limit.start < limit.stop else Interval(whole.start, whole.start)
    return whole


def unfused(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, every loop whose variable is divided by numbers that divide each other as a nest of loops."""
    names = names_of_loops(nodes)
    sizes = _fused(nodes, {n for n, count in names.items() if count == 1})
    return tuple(map(_Fusions(set(names), sizes).node, nodes)) if sizes else tuple(nodes)


def _fused(nodes: Sequence[Node], single: Set[str]) -> dict[str, tuple[int, ...]]:
    """How long the parts of loops are that are several, by name."""
    found: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        if isinstance(node, Loop) and node.name in single and (sizes := _sizes(node)):
            found[node.name] = sizes
        if isinstance(node, Loop | While):
            found |= _fused(node.body, single)
    return found


@dataclass(slots=True)
class _Fusions:
    """What is known while nodes are taken apart, from the outside in."""

    taken: set[str]
    """The names of all loops."""
    sizes: Mapping[str, tuple[int, ...]]
    """How long the parts of those are that are several."""
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    """The sums that variables of loops became."""
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The loops that they became."""
    lasting: dict[Buffer, tuple[str, ...]] = field(default_factory=dict[Buffer, tuple[str, ...]])
    """The loops of values that live for one iteration of them, as they were."""

    def node(self, node: Node) -> Node:
        if isinstance(node, Loop) and node.name in self.sizes:
            return self._nest(node, self.sizes[node.name])
        new = changed(node, self._term, self.node, lambda b: b, lambda _: ())
        if isinstance(node, Store) and isinstance(new, Store) and node.buffer in self.lasting:
            return replace(new, indices=self._places(node.buffer, node.indices))
        return new

    def _nest(self, loop: Loop, sizes: Sequence[int]) -> Node:
        """A loop as loops of some sizes, the outermost first."""
        names = tuple(fresh(loop.name, self.taken) for _ in sizes)
        total, count, titles = number(0), 1, list[str]()
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            total = variable(name).times(count).plus(total)
            titles.append(_title(loop, count, size))
            count *= size
        touched = written(loop.body).union(*map(buffers_of, _terms_of(loop.body)))
        for buffer in touched | {b.root for b in touched}:
            self._share_out(buffer, loop.name, names, sizes)
        element = loop.extent.element
        self.values[loop.name], self.parts[loop.name] = Linear(total, element), names
        body = tuple(map(self.node, loop.body))
        del self.values[loop.name], self.parts[loop.name]
        for name, size, title in zip(reversed(names), reversed(sizes), titles, strict=True):
            bounds = Number(0, element), Number(size, element)
            body = (replace(loop, name=name, low=bounds[0], extent=bounds[1], body=body, title=title),)
        return body[0]

    def _share_out(self, buffer: Buffer, name: str, names: tuple[str, ...], sizes: Sequence[int]) -> None:
        """Storage that each iteration of a loop has for itself is that of each iteration of its parts."""

        def instead(loops: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(n for old in loops for n in (names if old == name else (old,)))

        buffer.private = instead(buffer.private)
        if name in buffer.loops:
            self.lasting.setdefault(buffer, buffer.loops)
            k = buffer.loops.index(name)
            buffer.shape = (*buffer.shape[:k], *sizes, *buffer.shape[k + 1 :])
            buffer.loops = instead(buffer.loops)

    def _term(self, term: Term) -> Term:
        return rebuilt(term, self._rule) if self.values else term

    def _rule(self, term: Term) -> Term | None:
        match term:
            case Index(name, element) if name in self.values:
                return Linear(self.values[name].affine, element)
            case Linear(affine, element) if affine.names & self.values.keys():
                return Linear(affine.replaced({n: v.affine for n, v in self.values.items()}, {}), element)
            case Load(buffer, indices) if buffer in self.lasting:
                return replace(term, indices=self._places(buffer, indices))
            case _:
                return None

    def _places(self, buffer: Buffer, indices: Sequence[Term]) -> tuple[Term, ...]:
        """The indices of an access to values of one iteration, one per part of a loop."""
        names = [n for old in self.lasting[buffer] for n in self.parts.get(old, (old,))]
        rest = indices[len(self.lasting[buffer]) :]
        return (*(Index(n, INT32) for n in names), *map(self._term, rest))


def _title(loop: Loop, by: int, size: int) -> str:
    """What a part of a loop is, in the source's words: a digit of its variable."""
    assert isinstance(loop.extent, Number)
    shown, whole = loop.title or loop.name, by * size
    digit = shown if whole == loop.extent.value else f"{shown} % {whole}"
    return digit if by == 1 else f"{digit} // {by}"


def _sizes(loop: Loop) -> tuple[int, ...]:
    """How long the loops are that a loop is made of, the outermost first; none where it is one loop."""
    match loop.low, loop.extent:
        case Number(0), Number(int() as count) if not loop.lockstep:
            pass
        case _:
            return ()
    divisors = _divisors(loop, {loop.name: (0, count - 1)})
    chain = [count, *sorted(divisors, reverse=True), 1]
    if not divisors or any(a % b for a, b in pairwise(chain)) or chain[0] == chain[1]:
        return ()
    return tuple(a // b for a, b in pairwise(chain))


def _divisors(loop: Loop, ranges: Ranges) -> set[int]:
    """What the variable of a loop is divided by; nothing where a sum of it is divided, too."""
    found: set[int] = set()
    seen: set[int] = set()
    for term in _terms_of(loop.body):
        for t in walk(term):
            if id(t) in seen:
                continue
            seen.add(id(t))
            for quotient in _quotients(t, loop.name, ranges):
                if quotient.inner != variable(loop.name):
                    return set()
                found.add(quotient.by)
    return found


def _quotients(term: Term, name: str, ranges: Ranges) -> list[Quotient]:
    """The quotients of a variable, or of sums of it alone, that a term adds."""
    match term:
        case Linear(affine):
            total = affine
        case Op("floordiv" | "mod") if index_names(term) == {name}:
            total = linear(term, ranges)
        case _:
            return []
    parts = () if total is None else total.terms
    return [q for q, _ in parts if isinstance(q, Quotient) and q.inner.names == frozenset((name,))]


def _terms_of(nodes: Sequence[Node]) -> Iterator[Term]:
    for node in nodes:
        match node:
            case Loop(_, low, extent, body):
                yield from (low, extent)
                yield from _terms_of(body)
            case While(condition, body, guards):
                yield from (condition, *guards)
                yield from _terms_of(body)
            case Store(_, indices, value, guards):
                yield from (*indices, value, *guards)
            case Check(condition, _, guards):
                yield from (condition, *guards)
            case External(guards=guards):
                yield from guards
