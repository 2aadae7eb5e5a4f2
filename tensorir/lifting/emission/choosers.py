"""Folds of tuples that only compare and choose, such as an extreme with its index: proven to take any order.

What a step makes of a state and an item is a term of both. If it compares a component of the state with that component
of the item only, and gives one of them, it does the same to all numbers that are in the same order: whether three
numbers are enough to go wrong is tried with all tuples of three numbers.

>>> from tensorir.lifting.nests.terms import Buffer
>>> from tensorir.ir.types import FLOAT32, INT32
>>> index, value = Buffer("I", INT32, ()), Buffer("V", FLOAT32, ())
>>> k, x = Index("k", INT32), Index("x", FLOAT32)
>>> i, v = Load(index, ()), Load(value, ())
>>> def largest(equal):
...     kept = Op("or", (Op("greater", (v, x), BOOL), Op("and", (Op("eq", (v, x), BOOL), equal), BOOL)), BOOL)
...     best = Op("if", (Op("greater", (v, x), BOOL), v, x), FLOAT32)
...     return chooser_of((Op("if", (kept, i, k), INT32), best), {i: 0, v: 1}).laws
>>> print(largest(Op("less", (i, k), BOOL)))  # of equal ones that of the least index
Laws(free=True, again=True, with_nan=False)
>>> print(largest(Number(True, BOOL)))        # of equal ones the first that comes
Laws(free=False, again=True, with_nan=False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tensorir.ir.types import BOOL, Scalar
from tensorir.lifting.accesses.iteration import Once
from tensorir.lifting.nests.terms import Index, Load, Number, Op, Term, rebuilt, walk
from tensorir.runtime.memory import remembered

__all__ = ["Chooser", "Laws", "chooser_of", "order_is_free"]

MOST_NODES = 256
"""Larger terms are not looked at."""
MOST_COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class Laws:
    """What holds for all numbers: items may come in any order and grouping, what comes again changes nothing."""

    free: bool
    again: bool
    with_nan: bool
    """Whether the same holds where some are NaN."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """A step of a fold: each component of the new state, as a term of both, and what the items are."""

    values: tuple[Term, ...]
    items: tuple[Term, ...]

    @property
    def laws(self) -> Laws:
        return _laws(self.values)

    def at(self, states: Sequence[Term], items: Sequence[Term]) -> tuple[Term, ...]:
        """The new state for a state and items."""
        named = {
            **{_state(k, t.element): t for k, t in enumerate(states)},
            **{_item(k, t.element): t for k, t in enumerate(items)},
        }
        return tuple(rebuilt(v, lambda t: named.get(t) if isinstance(t, Index) else None) for v in self.values)


def _state(k: int, element: Scalar) -> Index:
    return Index(f" state {k}", element)


def _item(k: int, element: Scalar) -> Index:
    return Index(f" item {k}", element)


def chooser_of(values: Sequence[Term], states: Mapping[Load, int]) -> Chooser | None:
    """The step that values of some states are; None where they do more than compare and choose."""
    if len(values) > MOST_COMPONENTS or sum(1 for v in values for _ in walk(v)) > MOST_NODES:
        return None
    reader = _Reader(states)
    try:
        # items that are compared with themselves are known as such when the states that they meet are
        for v in values:
            for t in walk(v):
                reader.meets(t)
        found = [reader.component(v, k) for k, v in enumerate(values)]
    except _More:
        return None
    items = [reader.items.get(k) for k in range(len(values))]
    known = tuple(t for t in items if t is not None)
    return Chooser(tuple(found), known) if len(known) == len(items) else None


def order_is_free(once: Once) -> bool:
    """Whether a fold may take its items in any order."""
    if any(b.exact for b in once.buffers):
        return False
    step = chooser_of(
        once.values, {Load(b, p): k for k, (b, p) in enumerate(zip(once.buffers, once.places, strict=True))}
    )
    return step is not None and step.laws.free


class _More(Exception):
    """A term does more than compare and choose."""


class _Reader:
    """Terms over the components of a state, with what each component is compared with as its item."""

    def __init__(self, states: Mapping[Load, int]) -> None:
        self.states = states
        self.items: dict[int, Term] = {}
        self.known: dict[int, int | None] = {}

    def which(self, term: Term) -> int | None:
        """The component of which a term is an element; None where it depends on no state."""
        if id(term) not in self.known:
            match term:
                case Load() if term in self.states:
                    found: set[int | None] = {self.states[term]}
                case Op("if", (_, x, y)) | Op("min" | "max", (x, y)):
                    found = {self.which(x), self.which(y)} - {None}
                case _:
                    found = set()
            if len(found) > 1 or (not found and any(isinstance(t, Load) and t in self.states for t in walk(term))):
                raise _More
            self.known[id(term)] = next(iter(found), None)
        return self.known[id(term)]

    def meets(self, term: Term) -> None:
        """Note the item that a comparison compares a component with."""
        match term:
            case Op(op, (x, y)) if op in _COMPARED:
                for old, new in ((x, y), (y, x)):
                    k = self.which(old)
                    if k is not None and self.which(new) is None:
                        self.items.setdefault(k, new)
            case _:
                pass

    def component(self, term: Term, k: int) -> Term:
        """A term that is an element of a component."""
        which = self.which(term)
        if which is None:
            if self.items.setdefault(k, term) != term:
                raise _More
            return _item(k, term.element)
        if which != k:
            raise _More
        match term:
            case Op("if", (c, x, y), element):
                return Op("if", (self.truth(c), self.component(x, k), self.component(y, k)), element)
            case Op(op, (x, y), element):
                return Op(op, (self.component(x, k), self.component(y, k)), element)
            case _:
                return _state(k, term.element)

    def truth(self, term: Term) -> Term:
        match term:
            case Number(bool()):
                return term
            case Op("and" | "or" | "not" | "xor" | "if" as op, args) if term.element == BOOL:
                return Op(op, tuple(map(self.truth, args)), BOOL)
            case Op(op, (x, y)) if op in _COMPARED or op == "not_eq":
                # an item that is compared with itself is one that another comparison has met
                met = [k for k, t in self.items.items() if t in (x, y)]
                k = next((k for k in (self.which(x), self.which(y), *met) if k is not None), None)
                if k is None:
                    raise _More
                return Op(op, (self.component(x, k), self.component(y, k)), BOOL)
            case _:
                raise _More


# By cases

_NAN = 3
"""Which is equal to no number, and neither less nor greater."""

_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "less": lambda x, y: x < y, "less_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y, "eq": lambda x, y: x == y,
}  # fmt: skip


@remembered("facts of nests", limit=256)
def _laws(values: tuple[Term, ...]) -> Laws:
    numbers = [range(_NAN)] * len(values)
    table = _table(values, list(product(*numbers)))
    again = all(table[x, x] == x for x, _ in table)
    free = _free(table)
    floats = any(v.element.is_float for v in values)
    if not (free and floats):
        return Laws(free, again, free)
    with_nan = _table(values, list(product(*(range(_NAN + v.element.is_float) for v in values))))
    return Laws(free, again, _free(with_nan) and (not again or all(with_nan[x, x] == x for x, _ in with_nan)))


_Table = Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]


def _table(values: Sequence[Term], tuples: Sequence[tuple[int, ...]]) -> _Table:
    """What a step makes of each state and each item."""
    return {(x, y): tuple(_chosen(v, x, y) for v in values) for x in tuples for y in tuples}


def _free(table: _Table) -> bool:
    every = list(dict.fromkeys(x for x, _ in table))
    if any(table[x, y] != table[y, x] for x, y in table):
        return False
    return all(table[table[x, y], z] == table[x, table[y, z]] for x in every for y in every for z in every)


def _chosen(term: Term, old: tuple[int, ...], new: tuple[int, ...]) -> int:
    match term:
        case Index(name):
            kind, _, k = name.strip().partition(" ")
            return (old if kind == "state" else new)[int(k)]
        case Op("if", (c, x, y)):
            return _chosen(x if _holds(c, old, new) else y, old, new)
        case Op("min" | "max" as op, (x, y)):
            both = _chosen(x, old, new), _chosen(y, old, new)
            return _NAN if _NAN in both else min(both) if op == "min" else max(both)
        case _:
            raise AssertionError(term)


def _holds(term: Term, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    match term:
        case Number(value):
            return bool(value)
        case Op("if", (c, x, y)):
            return _holds(x if _holds(c, old, new) else y, old, new)
        case Op("and" | "or" | "xor" as op, (x, y)):
            a, b = _holds(x, old, new), _holds(y, old, new)
            return {"and": a and b, "or": a or b, "xor": a != b}[op]
        case Op("not", (x,)):
            return not _holds(x, old, new)
        case Op("not_eq", (x, y)):
            a, b = _chosen(x, old, new), _chosen(y, old, new)
            return a != b or a == _NAN
        case Op(op, (x, y)):
            a, b = _chosen(x, old, new), _chosen(y, old, new)
            return _NAN not in (a, b) and _COMPARED[op](a, b)
        case _:
            raise AssertionError(term)
