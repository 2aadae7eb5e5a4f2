"""The regions that a block reads and writes, for text that leaves `T.reads` or `T.writes` out.

Every access is a box of its buffer: an index becomes the interval of its values over the loops inside of the block, or
the whole dimension where that is not known. Boxes of one buffer are joined. Names that a let binds stand for their
values, and accesses to a matched buffer are accesses to its source. Buffers that the block allocates itself do not
count, and neither do reads of what a reduction with an `init` updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.script.intervals import Interval, difference, interval, larger, smaller, total
from tensorir.tir.walk import children, substitute

__all__ = ["accessed"]

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
        """What a block inside declares, with its iterators replaced by their values."""
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
