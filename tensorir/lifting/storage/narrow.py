"""Storage of types that a tensor does not have, and of ranges that another type holds.

Integers of two or four bits, held in bytes: what computes them computes a byte, and wraps it.

XLA has such types in name, and stops the process where it cannot compute them. A byte that holds one is always in its
range, so reads, comparisons and conversions need nothing; what may leave the range is shifted up and down again.

>>> from tensorir.lifting.nests.terms import show
>>> a = Buffer("A", NARROW["int4"], (3,))
>>> x = Load(a, (Number(0, INT32),))
>>> held = Narrowed()
>>> show(held.term(Op("plus", (x, x), x.element)))
'shift_right(shift_left(plus(A[0], A[0]), 4), 4)'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from tensorir.integers.affine import Ranges
from tensorir.ir.types import INT32, SCALARS, Scalar
from tensorir.lifting.emission.tensors import neutral
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import Check, External, Loop, Node, Store, While, changed, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Op, Term, rebuilt
from tensorir.runtime.errors import Span, refuse

# Ranges and prefixes of places, folded: the loops that compute what trees leave in the places of a buffer.

FEWEST = 4
"""The fewest places whose fold is worth a loop of its own."""


@dataclass(frozen=True, slots=True)
class Range:
    """Places of a buffer: `count` of them from `first` on, `by` apart."""

    buffer: Buffer
    first: int
    by: int
    count: int


@dataclass(frozen=True, slots=True)
class Folds:
    """Statements that compute folds before the steps of a tree, those that store them behind, and their places."""

    before: tuple[Node, ...]
    behind: tuple[Node, ...]
    places: frozenset[int]


def folds_of_ranges(op: str, buffer: Buffer, ranges: Mapping[int, Range], span: Span, name: str) -> Folds | None:
    """The folds of ranges that places of a buffer hold: of all that are of the greatest length, if these are alike.

    `name` is one for loops that no other loop has.
    """
    most = max((r.count for r in ranges.values()), default=0)
    rows: dict[int, list[int]] = {}
    for at, r in sorted(ranges.items()):
        if r.count == most:
            rows.setdefault(r.first, []).append(at)
    kinds = {(r.buffer, r.by) for r in ranges.values() if r.count == most}
    if most < FEWEST or len(kinds) != 1 or len({len(held) for held in rows.values()}) != 1:
        return None
    ((source, by),) = kinds
    apart, among = _apart(list(rows)), {_apart(held) for held in rows.values()}
    between = _apart([held[0] for held in rows.values()])
    if apart is None or between is None or len(among) != 1 or (each := among.pop()) is None:
        return None
    (first, held), *_ = rows.items()
    total = replace(buffer, name=f"{buffer.name}_total", shape=(len(rows),), span=span)
    row, r, copy = (f"{name}_row", len(rows)), (name, most), (f"{name}_copy", len(held))
    here = (_counter(row),)
    old, read = Load(total, here), Load(source, _indices(source, first, (row, apart), (r, by)))
    begin: Node = Store(total, here, Number(neutral(op, buffer.element), buffer.element), (), span)
    fold: Node = Store(total, here, Op(op, (old, read), buffer.element), (), span)
    end: Node = Store(buffer, _indices(buffer, held[0], (row, between), (copy, each)), old, (), span)
    before = _nest(begin, span, row), _nest(fold, span, row, r)
    return Folds(before, (_nest(end, span, row, copy),), frozenset(at for held in rows.values() for at in held))


def folds_of_prefixes(
    op: str, buffer: Buffer, ranges: Mapping[int, Range], empty: Collection[int], span: Span, name: str
) -> Folds | None:
    """The folds of prefixes that the places of a buffer's rows hold, one longer than the other."""
    chains = {at: _chain(ranges, at) for at, r in sorted(ranges.items()) if r.count == 1}
    length = max(chains.values(), default=0)
    rows = {ranges[at].first: at for at, count in chains.items() if count == length}
    starts, sources = list(rows.values()), {ranges[at].buffer for at in rows.values()}
    apart, between = _apart(list(rows)), _apart(starts)
    if length < FEWEST or len(sources) != 1 or apart is None or between is None:
        return None
    (source,) = sources
    (first, start), *_ = rows.items()
    prefix = replace(buffer, name=f"{buffer.name}_prefix", shape=(len(rows), length), span=span)
    row, r = (f"{name}_row", len(rows)), (name, length)
    line, at = _counter(row), _counter(r)
    last = Load(prefix, (line, settled(Op("minus", (at, Number(1, INT32)), INT32), {r[0]: (0, length - 1)})))
    value = Op(op, (last, Load(source, _indices(source, first, (row, apart), (r, 1)))), buffer.element)
    begin: Node = Store(prefix, (line, Number(0, INT32)), Load(source, _indices(source, first, (row, apart))), (), span)
    rest: Node = Store(prefix, (line, at), value, (), span)
    rest = Loop(r[0], Number(1, INT32), Number(length - 1, INT32), (rest,), span=span)
    end: Node = Store(buffer, _indices(buffer, start, (row, between), (r, 1)), Load(prefix, (line, at)), (), span)
    behind = [_nest(end, span, row, r)]
    places = {at + k for at in starts for k in range(length)}
    if all(at - 1 in empty for at in starts):
        nothing = Number(neutral(op, buffer.element), buffer.element)
        none: Node = Store(buffer, _indices(buffer, start - 1, (row, between)), nothing, (), span)
        behind.append(_nest(none, span, row))
        places |= {at - 1 for at in starts}
    return Folds((_nest(begin, span, row), _nest(rest, span, row)), tuple(behind), frozenset(places))


def _chain(ranges: Mapping[int, Range], at: int) -> int:
    """The number of consecutive places whose ranges begin where the first one's does, each longer by one."""
    begin, count = ranges[at], 1
    while ranges.get(at + count) == replace(begin, count=count + 1):
        count += 1
    return count


def _apart(numbers: Sequence[int]) -> int | None:
    """The step of an arithmetic progression."""
    gaps = {b - a for a, b in pairwise(numbers)}
    return None if len(gaps) > 1 else gaps.pop() if gaps else 0


Count = tuple[str, int]
"""A loop: its name, and how many iterations it has; one of one iteration is none."""


def _counter(loop: Count) -> Term:
    return Index(loop[0], INT32) if loop[1] != 1 else Number(0, INT32)


def _indices(buffer: Buffer, first: int, *steps: tuple[Count, int]) -> tuple[Term, ...]:
    """The indices of a place counted in the order of memory, that many places on in each iteration of loops."""
    place: Term = Number(first, INT32)
    for loop, by in steps:
        place = Op("plus", (place, Op("multiplies", (_counter(loop), Number(by, INT32)), INT32)), INT32)
    ranges = {name: (0, count - 1) for (name, count), _ in steps}
    found: list[Term] = []
    for k, extent in enumerate(buffer.shape):
        inner = Number(prod(buffer.shape[k + 1 :]), INT32)
        digit = Op("mod", (Op("floordiv", (place, inner), INT32), Number(extent, INT32)), INT32)
        found.append(settled(digit, ranges))
    return tuple(found)


def _nest(node: Node, span: Span, *loops: Count) -> Node:
    for name, count in reversed(loops):
        if count != 1:
            node = Loop(name, Number(0, INT32), Number(count, INT32), (node,), span=span, title=name)
    return node


NARROW = {f"{kind}{bits}": Scalar(f"{kind}{bits}", kind, bits) for kind in ("int", "uint") for bits in (2, 4)}
"""The integers that no tensor has as its elements, by name."""

_STAY = frozenset(("if", "min", "max", "bit_and", "bit_or", "bit_xor", "rem", "mod", "popcount", "clz"))
"""What gives no number outside of the range of numbers inside of it."""


def holder(element: Scalar) -> Scalar:
    """The storage type of an element: a byte, or its own."""
    return SCALARS[f"{element.kind}8"] if element.name in NARROW else element


@dataclass(slots=True)
class Narrowed:
    """The nodes of a program, its narrow integers held in bytes; each buffer of them becomes one of bytes."""

    buffers: dict[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    terms: dict[int, Term] = field(default_factory=dict[int, Term])
    kept: list[Term] = field(default_factory=list[Term])

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer of what holds its elements."""
        if buffer.element.name not in NARROW:
            return buffer
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = replace(buffer, element=holder(buffer.element))
        return found

    def nodes(self, nodes: Sequence[Node]) -> list[Node]:
        return [self._node(node) for node in nodes]

    def _node(self, node: Node) -> Node:
        match node:
            case External(name, reads, writes, span=span):
                if any(b.root.element.name in NARROW for b in (*reads, *writes)):
                    message = f"{name!r} takes a buffer of {next(b.element for b in (*reads, *writes))}."
                    raise refuse("TL01", message, "give it a buffer of int8.", at=span)
            case Loop() | Store() | While() | Check():
                pass
        return changed(node, self.term, self._node, self.buffer, lambda b: ())

    def term(self, term: Term) -> Term:
        """The term of bytes."""
        self.kept.append(term)
        return rebuilt(term, self._rule, self.terms)

    def _rule(self, term: Term) -> Term | None:
        match term:
            case Number(value, element) if element.name in NARROW:
                return Number(value, holder(element))
            case Load(buffer, indices, span) if buffer.element.name in NARROW:
                return Load(self.buffer(buffer), indices, span)
            case Op("popcount" | "clz" as op, (x,), element) if element.name in NARROW:
                return _counted(op, x, element)
            case Op(op, args, element) if element.name in NARROW:
                held = holder(element)
                if op == "bitcast":
                    op = "cast"
                made = Op(op, args, held)
                return made if op in _STAY else _wrapped(made, element)
            case _:
                return None


def _wrapped(x: Term, element: Scalar) -> Term:
    """The number of an element that a byte's lowest bits say."""
    by = Number(8 - element.bits, x.element)
    return Op("shift_right", (Op("shift_left", (x, by), x.element), by), x.element)


def _counted(op: str, x: Term, element: Scalar) -> Term:
    """The bits that are set, or the zeros before the first, among the lowest of a byte."""
    byte = SCALARS["uint8"]
    bits = Op("bit_and", (Op("cast", (x,), byte), Number((1 << element.bits) - 1, byte)), byte)
    found = Op(op, (bits,), byte)
    if op == "clz":
        found = Op("minus", (found, Number(8 - element.bits, byte)), byte)
    return Op("cast", (found,), holder(element))


@dataclass(slots=True)
class Shared:
    """The terms that were seen; two reads that may leave their buffer stay two, since each has a place in the text."""

    ranges: Ranges = field(default_factory=dict[str, tuple[int, int]])
    table: dict[object, Term] = field(default_factory=dict[object, Term])
    done: dict[int, Term] = field(default_factory=dict[int, Term])
    kept: list[Term] = field(default_factory=list[Term])
    sums: dict[int, Term] = field(default_factory=dict[int, Term])
    """The indices that were looked at in normal form; the table keeps them alive."""

    def of(self, term: Term) -> Term:
        """The term, its parts the ones that were seen first."""
        self.kept.append(term)
        return rebuilt(term, self._first, self.done)

    def _first(self, t: Term) -> Term:
        first = self.table.setdefault(_key(t), t)
        if first is not t and isinstance(t, Load) and isinstance(first, Load) and first.span != t.span:
            return first if self._inside(t) else self.table.setdefault((_key(t), t.span), t)
        return first

    def _inside(self, load: Load) -> bool:
        """True if a read of an argument stays inside of it, whatever the conditions around it are."""
        if not load.buffer.argument:
            return False
        for index, extent in zip(load.indices, load.buffer.shape, strict=True):
            found = linear(index, self.ranges, self.sums)
            spread = None if found is None else found.range(self.ranges)
            if spread is None or spread[0] < 0 or spread[1] >= extent:
                return False
        return True


def _key(t: Term) -> object:
    match t:
        case Number():
            return t.key
        case Index(name, element):
            return name, element
        case Linear(affine, element):
            return affine, element
        case Load(buffer, indices):
            return id(buffer), tuple([id(i) for i in indices])
        case Op(op, args, element):
            return op, tuple([id(a) for a in args]), element


def with_shared_terms(nodes: Sequence[Node], loops: tuple[Loop, ...] = ()) -> tuple[Node, ...]:
    """The nodes, each with one object for each of its terms: between two statements a read may change its meaning."""

    def over(node: Node) -> Node:
        inner = (*loops, node) if isinstance(node, Loop) else loops
        shared = Shared(ranges_of(loops))
        return changed(node, shared.of, lambda n: with_shared_terms((n,), inner)[0], lambda b: b, lambda b: ())

    return tuple(map(over, nodes))
