"""Loops that end where conditions end all that they do: what runs in no other iteration needs no others.

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
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import reduce

from tensorir.ir.types import Interval
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import bounds_of_guard
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import Loop, Node, While, names_of_loops
from tensorir.lifting.nests.terms import Number, Term, index_names

__all__ = ["with_loops_shortened"]

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
