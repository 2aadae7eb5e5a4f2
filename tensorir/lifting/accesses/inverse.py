"""Which iteration stores an element: the inverse of a store's access map, and the last store.

Which iteration stores an element: a store's indices, solved for the variables of its loops.

>>> from tensorir.integers.affine import number, variable
>>> from tensorir.ir.types import Interval
>>> i, r = variable("i"), variable("r")
>>> found = inverse([i, i.plus(r)], {"i": Interval(0, 8), "r": Interval(0, 3)})
>>> {n: str(a) for n, a in found.at([variable("y"), variable("y").plus(number(2))], {}).items()}
{'i': 'y', 'r': '2'}
>>> found = inverse([i.times(4).plus(r)], {"i": Interval(0, 8), "r": Interval(0, 4)})
>>> {n: str(a) for n, a in found.at([variable("t")], {}).items()}
{'i': 't // 4', 'r': 't - (t // 4)*4'}

Which statement of a nest stores an element last, as far as loops and indices tell.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from tensorir.integers.affine import Affine, Ranges, quotient, remainder
from tensorir.ir.types import Interval, Scalar
from tensorir.lifting.accesses.sets import decided, domain, integer_set, point, text
from tensorir.lifting.accesses.space import digits
from tensorir.lifting.nests.linear import linear, term_of
from tensorir.lifting.nests.nest import Leaf, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Term, rebuilt


@dataclass(frozen=True, slots=True)
class Step:
    """One variable: the index that tells it, its sign, what else that holds, and which digit of the rest it is.

    The digit is `rest // by % size`, and without the remainder where there is no size.
    """

    name: str
    index: int
    sign: int
    others: Affine
    by: int = 1
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Inverse:
    """A step per variable, in an order in which they follow.

    `rest` are indices that say nothing more, and must be what they are for the iteration that the others tell.
    """

    steps: tuple[Step, ...]
    rest: tuple[tuple[int, Affine], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(s.name for s in self.steps)

    def at(self, indices: Sequence[Affine], ranges: Ranges) -> dict[str, Affine] | None:
        """The iteration that stores the element at some indices; None where they are not known to be those of one."""
        found: dict[str, Affine] = {}
        for s in self.steps:
            left = indices[s.index].minus(s.others.replaced(found, ranges)).times(s.sign)
            left = quotient(left, s.by, ranges)
            found[s.name] = left if s.size is None else remainder(left, s.size, ranges)
        for k, a in self.rest:
            left = indices[k].minus(a.replaced(found, ranges))
            if left.range(ranges) != (0, 0):
                return None
        return found


def inverse(location: Sequence[Affine | None], dims: Mapping[str, Interval]) -> Inverse | None:
    """The variables of a store whose elements tell them one after the other; None where they do not."""
    pending: dict[int, Affine] = {}
    for k, a in enumerate(location):
        if a is None or not a.names <= dims.keys():
            return None
        pending[k] = a
    steps: list[Step] = []
    known: set[str] = set()
    while True:
        found = next((s for k, a in pending.items() if (s := _one(k, a, known))), None)
        found = found or next((s for k, a in pending.items() if (s := _digits(k, a, known, dims))), None)
        if found is None:
            break
        steps += found
        known |= {s.name for s in found}
        del pending[found[0].index]
    if any(not a.names <= known for a in pending.values()):
        return None
    return Inverse(tuple(steps), tuple(pending.items()))


def _one(k: int, a: Affine, known: set[str]) -> list[Step]:
    """The one variable that an index tells beside those that are known."""
    new, others = _new(a, known)
    if len(new) != 1 or abs(new[0][1]) != 1 or not others.names <= known:
        return []
    ((name, c),) = new
    return [Step(name, k, c, others)]


def _digits(k: int, a: Affine, known: set[str], dims: Mapping[str, Interval]) -> list[Step]:
    """The variables that are the digits of an index, beside those that are known."""
    new, others = _new(a, known)
    names = digits(Affine(tuple(new)), dims)
    if not names or not others.names <= known:
        return []
    first, *rest = names
    by = dict(new)
    # the most significant digit may start anywhere, and leave its interval: the others do not reach so far
    return [Step(first, k, 1, others, by[first]), *(Step(n, k, 1, others, by[n], len(dims[n])) for n in rest)]


def _new(a: Affine, known: set[str]) -> tuple[list[tuple[str, int]], Affine]:
    """The terms of an index that are variables which are not known, and the rest of it."""
    new = [(n, c) for n, c in a.terms if isinstance(n, str) and n not in known]
    return new, Affine(tuple(t for t in a.terms if t not in new), a.constant)


def at_iteration(term: Term, values: Mapping[str, Affine], as_term: Callable[[Affine, Scalar], Term] = term_of) -> Term:
    """A term of a store at one of its iterations, of whose sums terms are made."""

    def rule(t: Term) -> Term | None:
        match t:
            case Index(name, element) if name in values:
                return as_term(values[name], element)
            case Linear(affine, element) if affine.names & values.keys():
                return as_term(affine.replaced(values, {}), element)
            case _:
                return None

    return rebuilt(term, rule)


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
