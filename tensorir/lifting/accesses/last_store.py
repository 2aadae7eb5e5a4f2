"""Which statement of a nest stores an element last, as far as loops and indices tell.

>>> from tensorir.integers.affine import variable
>>> from tensorir.lifting.nests.nest import Loop
>>> from tensorir.lifting.nests.terms import Linear, Number
>>> from tensorir.ir.types import FLOAT32, INT32
>>> y, i = Buffer("y", FLOAT32, (4,)), Linear(variable("i"), INT32)
>>> stores = [Store(y, (i,), Number(value, FLOAT32)) for value in (1.0, 2.0)]
>>> loops = [Loop("i", Number(0, INT32), Number(n, INT32), (s,)) for n, s in zip((4, 2), stores)]
>>> [stores.index(last_store(loops, y, (k,))) for k in range(4)]
[1, 1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from tensorir.lifting.accesses.sets import decided, domain, integer_set, point, text
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Leaf, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer

__all__ = ["last_store"]


def last_store(nodes: Sequence[Node], buffer: Buffer, at: Sequence[int]) -> Store | None:
    """The store to an element that runs last; one of which data tell whether or where is taken to store there."""
    found: list[tuple[tuple[int, ...], Store]] = []
    for leaf in leaves(nodes):
        match leaf.node:
            case Store(other) as node if other is buffer:
                last = _last_round(leaf, node, at)
                if last is not None:
                    found.append((last, node))
            case _:
                pass
    return max(found, key=lambda pair: pair[0], default=(None, None))[1]


def _last_round(leaf: Leaf, node: Store, at: Sequence[int]) -> tuple[int, ...] | None:
    """The turn of the last iteration of a store to an element, None where there is none."""
    ranges = ranges_of(leaf.loops)
    here = domain(leaf, ranges, (), "")
    places = [linear(index, ranges) for index in node.indices]
    told = [f"{text(a, here.names)} = {k}" for a, k in zip(places, at, strict=True) if a is not None]
    rounds = integer_set([*here.names.values()], [*here.constraints, *told])
    last = decided(lambda: None if rounds.is_empty() else point(rounds.lexmax()), 0.2)
    return None if last is None else tuple(chain.from_iterable(zip_longest(leaf.place, last, fillvalue=0)))
