"""Loops that were fused: one loop of whose variable quotients and remainders are used is a nest of loops.

    for t in range(6): B[t // 3, t % 3] = …   →   for t_0 in range(2): for t_1 in range(3): B[t_0, t_1] = …

The iterations come in the same order. What is stored and read at sums of the parts is told apart by each of them then,
and a copy of storage that only one of the parts needs has none for the others.

>>> from tensorir.lift.nests.terms import Buffer, Index, Number, Op, show
>>> from tensorir.types import INT32
>>> t, b = Index("t", INT32), Buffer("B", INT32, (2, 3))
>>> place = tuple(Op(op, (t, Number(3, INT32)), INT32) for op in ("floordiv", "mod"))
>>> (loop,) = unfused([Loop("t", Number(0, INT32), Number(6, INT32), (Store(b, place, t),))])
>>> inner = loop.body[0]
>>> loop.name, loop.extent.value, loop.title, inner.name, inner.extent.value, inner.title
('t_0', 2, 't // 3', 't_1', 3, 't % 3')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tensorir.lift.nests.affine import Quotient, number, variable
from tensorir.lift.nests.linear import Ranges, linear
from tensorir.lift.nests.nest import Check, External, Loop, Node, Store, While, names_of_loops
from tensorir.lift.nests.terms import (
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
from tensorir.types import INT32

__all__ = ["unfused"]


def unfused(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, every loop whose variable is divided by numbers that divide each other as a nest of loops."""
    names = names_of_loops(nodes)
    return _Fusions(set(names), {n for n, count in names.items() if count == 1}).over(nodes)


@dataclass(slots=True)
class _Fusions:
    """What is known while nodes are taken apart, from the outside in."""

    taken: set[str]
    """The names of all loops."""
    single: set[str]
    """Those of one loop only."""
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    """The sums that variables of loops became."""
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The loops that they became."""
    lasting: dict[Buffer, tuple[str, ...]] = field(default_factory=dict[Buffer, tuple[str, ...]])
    """The loops of values that live for one iteration of them, as they were."""

    def over(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(map(self._node, nodes))

    def _node(self, node: Node) -> Node:
        match node:
            case Loop(low=low, extent=extent, body=body):
                sizes = _sizes(node) if node.name in self.single else ()
                if len(sizes) > 1:
                    return self._nest(node, sizes)
                new = self.over(body)
                if not self.values and all(a is b for a, b in zip(new, body, strict=True)):
                    return node
                return replace(node, low=self._term(low), extent=self._term(extent), body=new)
            case While(condition, body, guards):
                new = self.over(body)
                if not self.values and all(a is b for a, b in zip(new, body, strict=True)):
                    return node
                return replace(node, condition=self._term(condition), body=new, guards=self._terms(guards))
            case _ if not self.values:
                return node
            case Store(buffer, indices, value, guards):
                places = self._places(buffer, indices)
                return replace(node, indices=places, value=self._term(value), guards=self._terms(guards))
            case Check(condition, _, guards):
                return replace(node, condition=self._term(condition), guards=self._terms(guards))
            case External(guards=guards):
                return replace(node, guards=self._terms(guards))

    def _nest(self, loop: Loop, sizes: Sequence[int]) -> Node:
        """A loop as loops of some sizes, the outermost first."""
        names = tuple(self._fresh(f"{loop.name}_{k}") for k in range(len(sizes)))
        total, count, titles = number(0), 1, list[str]()
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            total = variable(name).times(count).plus(total)
            titles.append(_title(loop, count, size))
            count *= size
        for buffer in {b for found in _buffers(loop.body) for b in (found, found.root)}:
            self._share_out(buffer, loop.name, names, sizes)
        element = loop.extent.element
        self.values[loop.name], self.parts[loop.name] = Linear(total, element), names
        body = self.over(loop.body)
        del self.values[loop.name], self.parts[loop.name]
        for name, size, title in zip(reversed(names), reversed(sizes), titles, strict=True):
            bounds = Number(0, element), Number(size, element)
            body = (replace(loop, name=name, low=bounds[0], extent=bounds[1], body=body, title=title),)
        return body[0]

    def _share_out(self, buffer: Buffer, name: str, names: tuple[str, ...], sizes: Sequence[int]) -> None:
        """Storage that each iteration of a loop has for itself is that of each iteration of its parts."""

        def instead(loops: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(n for old in loops for n in (names if old == name else (old,)))

        buffer.private, buffer.apart = instead(buffer.private), instead(buffer.apart)
        if name in buffer.loops:
            self.lasting.setdefault(buffer, buffer.loops)
            k = buffer.loops.index(name)
            buffer.shape = (*buffer.shape[:k], *sizes, *buffer.shape[k + 1 :])
            buffer.loops = instead(buffer.loops)

    def _fresh(self, name: str) -> str:
        found, k = name, 1
        while found in self.taken:
            found, k = f"{name}_{k}", k + 1
        self.taken.add(found)
        return found

    def _terms(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(map(self._term, terms))

    def _term(self, term: Term) -> Term:
        return rebuilt(term, self._rule) if self.values else term

    def _rule(self, term: Term) -> Term | None:
        match term:
            case Index(name, element) if name in self.values:
                return Linear(self.values[name].affine, element)
            case Load(buffer, indices) if buffer in self.lasting:
                return replace(term, indices=self._places(buffer, indices))
            case _:
                return None

    def _places(self, buffer: Buffer, indices: Sequence[Term]) -> tuple[Term, ...]:
        """The indices of an access, one per part where a buffer has an axis for a loop that became several."""
        if buffer not in self.lasting:
            return self._terms(indices)
        names = [n for old in self.lasting[buffer] for n in self.parts.get(old, (old,))]
        rest = indices[len(self.lasting[buffer]) :]
        return (*(Index(n, INT32) for n in names), *self._terms(rest))


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
            if id(t) in seen or not isinstance(t, Op) or t.op not in ("floordiv", "mod"):
                continue
            seen.add(id(t))
            total = linear(t, ranges) if index_names(t) == {loop.name} else None
            if total is None:
                continue
            for atom, _ in total.terms:
                if isinstance(atom, Quotient):
                    if atom.inner != variable(loop.name):
                        return set()
                    found.add(atom.by)
    return found


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


def _buffers(nodes: Sequence[Node]) -> set[Buffer]:
    found: set[Buffer] = set()
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                found |= _buffers(body)
            case Store(buffer):
                found.add(buffer)
            case External(_, reads, writes):
                found |= {*reads, *writes}
            case Check():
                pass
    for term in _terms_of(nodes):
        found |= buffers_of(term)
    return found
