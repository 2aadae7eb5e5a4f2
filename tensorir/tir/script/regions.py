"""Intervals of index expressions over loops, and the regions that a block reads and writes.

Intervals of index expressions over loops, as expressions: what an index can be, from the ends of the loops.

>>> from tensorir.tir.dtypes import INT32
>>> v, k = (n.Var(name, n.PrimType(INT32)) for name in "vk")
>>> number = lambda value: n.IntImm(value, INT32)
>>> found = interval(n.Sub(n.Add(n.Mul(v, number(4)), number(3)), k), {k: Interval(number(0), number(3))})
>>> found.low, found.high, difference(found.high, found.low)
(v * 4, v * 4 + 3, 4)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.ranges import linear
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.trees import children, substitute, walk


@dataclass(frozen=True, slots=True)
class Interval:
    """Everything from `low` to `high`, both included."""

    low: n.Expr
    high: n.Expr


Loops = Mapping[n.Var, Interval]


MOST = 400
"""Nodes of an expression that is looked into."""


def interval(expr: n.Expr, loops: Loops) -> Interval | None:
    """The values of an expression while the loops run; None where they are not known, or where it is too large."""
    if sum(1 for _ in islice(walk(expr), MOST)) == MOST:
        varies = any(
            isinstance(node, n.Call) or node in loops for node in walk(expr) if isinstance(node, n.Var | n.Call)
        )
        return None if varies or expr.dtype.lanes != 1 else Interval(expr, expr)
    return _interval(expr, loops)


def _interval(expr: n.Expr, loops: Loops) -> Interval | None:
    if not any(isinstance(node, n.Call) or node in loops for node in walk(expr) if isinstance(node, n.Var | n.Call)):
        match expr:
            case n.Ramp(base, n.IntImm(step), int(lanes)) if step > 0:
                return Interval(base, total(base, const(step * (lanes - 1), base.dtype)))
            case _:
                return Interval(expr, expr) if expr.dtype.lanes == 1 else None
    match expr:
        case n.Var():
            return loops.get(expr, Interval(expr, expr))
        case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Min(a, b) | n.Max(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b):
            x, y = _interval(a, loops), _interval(b, loops)
            return None if x is None or y is None else _combined(expr, x, y)
        case n.Select(_, a, b):
            x, y = _interval(a, loops), _interval(b, loops)
            return None if x is None or y is None else Interval(smaller(x.low, y.low), larger(x.high, y.high))
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer:
            inner = _interval(value, loops)
            return None if inner is None else Interval(n.Cast(inner.low, dtype), n.Cast(inner.high, dtype))
        case n.Ramp(base, n.IntImm(step), int(lanes)) if step > 0:
            inner = _interval(base, loops)
            reach = const(step * (lanes - 1), base.dtype)
            return None if inner is None else Interval(inner.low, total(inner.high, reach))
        case _:
            return None


def _combined(expr: n.Expr, x: Interval, y: Interval) -> Interval | None:
    match expr:
        case n.Add():
            return Interval(total(x.low, y.low), total(x.high, y.high))
        case n.Sub():
            return Interval(_less(x.low, y.high), _less(x.high, y.low))
        case n.Min():
            return Interval(smaller(x.low, y.low), smaller(x.high, y.high))
        case n.Max():
            return Interval(larger(x.low, y.low), larger(x.high, y.high))
        case _:
            pass
    match expr, x, y:
        case n.Mul(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other:
            low, high = (_sum(linear((end, value)), end) for end in (x.low, x.high))
            return Interval(low, high) if value >= 0 else Interval(high, low)
        case n.Mul(), Interval(n.IntImm(value), n.IntImm(other)), _ if value == other:
            return _combined(expr, y, x)
        case n.FloorDiv(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other > 0:
            return Interval(_quotient(x.low, value), _quotient(x.high, value))
        case n.FloorMod(), _, Interval(n.IntImm(value), n.IntImm(other)) if value == other > 0:
            first, last = _quotient(x.low, value), _quotient(x.high, value)
            if first == last:
                start = _sum(linear((first, value)), first)
                return Interval(_less(x.low, start), _less(x.high, start))
            return Interval(const(0, expr.dtype), const(value - 1, expr.dtype))
        case _:
            return None


# --------------------------------------------------------------------------------------------------- sums of terms


def _sum(terms: Mapping[n.Expr | None, int], like: n.Expr) -> n.Expr:
    """The terms as an expression, the constant last."""
    result: n.Expr | None = None
    for term, factor in sorted(terms.items(), key=lambda item: item[1] < 0):
        if term is None or not factor:
            continue
        part = term if abs(factor) == 1 else _op("*", term, abs(factor))
        if result is None:
            result = part if factor > 0 else _op("*", term, factor)
        else:
            result = _op("+" if factor > 0 else "-", result, part)
    constant = terms.get(None, 0)
    if result is None:
        return const(constant, like.dtype)
    return result if not constant else _op("+" if constant > 0 else "-", result, abs(constant))


def _op(symbol: str, a: n.Expr, b: n.Expr | int) -> n.Expr:
    found = binary(symbol, a, b)
    assert isinstance(found, n.Expr)
    return found


def total(a: n.Expr, b: n.Expr) -> n.Expr:
    """a + b, with terms that cancel left out."""
    if isinstance(b, n.IntImm) and not b.value:
        return a
    return _sum(linear((a, 1), (b, 1)), a)


def _less(a: n.Expr, b: n.Expr) -> n.Expr:
    return _sum(linear((a, 1), (b, -1)), a)


def _quotient(a: n.Expr, value: int) -> n.Expr:
    """The floor of a quotient; multiples of the divisor leave it."""
    whole: dict[n.Expr | None, int] = {}
    rest: dict[n.Expr | None, int] = {}
    for term, factor in linear((a, 1)).items():
        if term is None:
            whole[None], left = divmod(factor, value)
            rest[None] = left
        elif factor % value == 0:
            whole[term] = factor // value
        else:
            rest[term] = factor
    if set(rest) <= {None}:
        return _sum(whole, a)
    return _op("//", a, value)


def difference(high: n.Expr, low: n.Expr) -> n.Expr:
    """The number of integers from `low` to `high`."""
    terms = linear((high, 1), (low, -1))
    terms[None] = terms.get(None, 0) + 1
    if len(terms) == 1:
        return const(terms[None], low.dtype)
    if any(isinstance(term, n.Min | n.Max) for term in terms):
        return _op("-", _op("+", high, 1), low)
    return _sum(terms, low)


def smaller(a: n.Expr, b: n.Expr) -> n.Expr:
    """The smaller of two, where their distance is a number; else their minimum."""
    distance = _distance(a, b)
    return (a if distance >= 0 else b) if distance is not None else n.Min(a, b)


def larger(a: n.Expr, b: n.Expr) -> n.Expr:
    """The larger of two, where their distance is a number; else their maximum."""
    distance = _distance(a, b)
    return (b if distance >= 0 else a) if distance is not None else n.Max(a, b)


def _distance(a: n.Expr, b: n.Expr) -> int | None:
    """b - a, where that is a number."""
    terms = linear((b, 1), (a, -1))
    constant = terms.pop(None, 0)
    return None if terms else constant


# The regions that a block reads and writes, for text that leaves `T.reads` or `T.writes` out.
#
# Every access is a box of its buffer: an index becomes the interval of its values over the loops inside of the block,
# or the whole dimension where that is not known. Boxes of one buffer are joined. Names that a let binds stand for
# their values, and accesses to a matched buffer are accesses to its source. Buffers that the block allocates itself
# do not count, and neither do reads of what a reduction with an `init` updates.

Box = list["Interval | None"]
_READ, _WRITE = 1, 2


def accessed(
    block: n.Block, buffers: Iterable[n.Buffer] = ()
) -> tuple[tuple[n.BufferRegion, ...], tuple[n.BufferRegion, ...]]:
    """The regions that the block reads, and those that it writes, in the order of the text.

    `buffers` are those in scope, whose pointers the block may hand on.
    """
    search = _Search(block, buffers)
    search.run([part for part in (block.body, block.init) if part is not None])
    if block.init is not None:
        for buffer in list(search.reads):
            if buffer in search.writes:
                del search.reads[buffer]
    return search.regions(search.reads), search.regions(search.writes)


class _Search:
    """One walk over the body of a block."""

    def __init__(self, block: n.Block, buffers: Iterable[n.Buffer]) -> None:
        self.buffers = buffers
        self.pointers: dict[n.Var, n.Buffer] | None = None
        self.own: set[n.Buffer] = set(block.alloc_buffers)
        self.sources = {match.buffer: match.source for match in block.match_buffers}
        self.reads: dict[n.Buffer, Box] = {}
        self.writes: dict[n.Buffer, Box] = {}
        self.lets: dict[n.Var, n.Expr] = {}

    def run(self, parts: list[n.Stmt]) -> None:
        pending: list[tuple[n.Node, Mapping[n.Var, Interval]]] = [(part, {}) for part in reversed(parts)]
        while pending:
            node, loops = pending.pop()
            match node:
                case n.For():
                    last = total(total(node.min, node.extent), const(-1, node.extent.dtype))
                    low, high = self.plain(node.min), self.plain(last)
                    inner = {**loops, node.loop_var: Interval(low, high)}
                    pending += [(node.body, inner), (node.extent, loops), (node.min, loops)]
                case n.BlockRealize():
                    self.nested(node, loops)
                case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                    self.own.add(buffer)
                    pending.extend((child, loops) for child in reversed(list(children(node))))
                case n.BufferStore(buffer, value, indices):
                    self.access(self.writes, buffer, indices, loops)
                    pending += [(index, loops) for index in reversed(indices)]
                    pending.append((value, loops))
                case n.BufferLoad(buffer, indices):
                    self.access(self.reads, buffer, indices, loops)
                    pending.extend((index, loops) for index in reversed(indices))
                case n.LetStmt(var, value) | n.Let(var, value):
                    if not isinstance(var.type, n.PointerType):
                        self.lets[var] = self.plain(value)
                    pending += [(node.body, loops)] if isinstance(node, n.Let) else []
                    pending.append((value, loops))
                case n.Call(op="tvm_access_ptr", args=(_, n.Var() as data, offset, extent, n.IntImm(mask))):
                    self.opaque(data, mask)
                    pending += [(part, loops) for part in (extent, offset) if isinstance(part, n.Expr)]
                case n.Var(type=n.PointerType()):
                    self.opaque(node, _READ | _WRITE)
                case n.Var() | n.Buffer():
                    pass
                case _:
                    pending.extend((child, loops) for child in reversed(list(children(node))))

    def plain(self, expr: n.Expr) -> n.Expr:
        """The expression without names of lets."""
        return substitute(expr, self.lets) if self.lets else expr

    def opaque(self, data: n.Var, mask: int) -> None:
        """A buffer whose pointer is handed on counts whole."""
        if self.pointers is None:
            self.pointers = {buffer.data: buffer for buffer in self.buffers}
        buffer = self.pointers.get(data)
        for bit, table in ((_READ, self.reads), (_WRITE, self.writes)):
            if buffer is not None and mask & bit:
                buffer, box = self.matched(buffer, [None] * len(buffer.shape))
                table[buffer] = [None] * len(box)

    def nested(self, node: n.BlockRealize, loops: Mapping[n.Var, Interval]) -> None:
        """The regions of a block inside, with its iterators replaced by their values."""
        values = {it.var: self.plain(value) for it, value in zip(node.block.iter_vars, node.values, strict=False)}
        for table, regions in ((self.reads, node.block.reads), (self.writes, node.block.writes)):
            for region in regions:
                box: Box = []
                for part in region.region:
                    low, extent = substitute(part.min, values), substitute(part.extent, values)
                    start = interval(self.plain(low), loops)
                    last = total(total(low, extent), const(-1, extent.dtype))
                    stop = interval(self.plain(last), loops)
                    box.append(None if start is None or stop is None else Interval(start.low, stop.high))
                self.join(table, region.buffer, box)

    def access(
        self,
        table: dict[n.Buffer, Box],
        buffer: n.Buffer,
        indices: tuple[n.Expr, ...],
        loops: Mapping[n.Var, Interval],
    ) -> None:
        self.join(table, buffer, [interval(self.plain(index), loops) for index in indices])

    def matched(self, buffer: n.Buffer, box: Box) -> tuple[n.Buffer, Box]:
        """A box of a matched buffer as one of the buffer that it is a region of, which may be matched, too."""
        while (source := self.sources.get(buffer)) is not None:
            lows = [part.min for part in source.region]
            left_out = len(lows) - len(box)
            if left_out < 0:  # the checker says so
                return source.buffer, [None] * len(lows)
            moved: Box = [Interval(low, low) for low in lows[:left_out]]
            for low, part in zip(lows[left_out:], box, strict=True):
                moved.append(None if part is None else Interval(total(low, part.low), total(low, part.high)))
            buffer, box = source.buffer, moved
        return buffer, box

    def join(self, table: dict[n.Buffer, Box], buffer: n.Buffer, box: Box) -> None:
        buffer, box = self.matched(buffer, box)
        before = table.get(buffer)
        if before is None:
            table[buffer] = box
            return
        pairs = zip(before, box, strict=True)
        table[buffer] = [
            None if a is None or b is None else Interval(smaller(a.low, b.low), larger(a.high, b.high))
            for a, b in pairs
        ]

    def regions(self, table: dict[n.Buffer, Box]) -> tuple[n.BufferRegion, ...]:
        found: list[n.BufferRegion] = []
        for buffer, box in table.items():
            if buffer not in self.own:
                ranges = [_range(part, size) for part, size in zip(box, buffer.shape, strict=True)]
                found.append(n.BufferRegion(buffer, tuple(ranges)))
        return tuple(found)


def _range(part: Interval | None, size: n.Expr) -> n.Range:
    if part is None:
        return n.Range(const(0, size.dtype), size)
    if part.low is part.high or part.low == part.high:
        return n.Range(part.low, const(1, part.low.dtype))
    return n.Range(part.low, difference(part.high, part.low))
