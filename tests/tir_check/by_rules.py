"""The typing and scoping rules of TIR, written down once more, by recursion and apart from the package.

`Rules().function(func)` raises `Wrong` with one word: `type`, `scope` or `structure`.
"""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BOOL, DataType


class Wrong(Exception):
    """The first thing that is wrong, in a word."""


def need(holds: bool, what: str) -> None:
    """What must hold."""
    if not holds:
        raise Wrong(what)


class Rules:
    """Typing, scoping and structure, by recursion; `known` are the names in scope, `ever` all that were bound."""

    def __init__(self) -> None:
        self.known: list[object] = []
        self.ever: set[int] = set()
        self.extents: dict[str, int] = {}

    def bind(self, name: n.Node) -> None:
        need(id(name) not in self.ever, "scope")
        self.ever.add(id(name))
        self.known.append(name)

    def bound(self, name: n.Node) -> bool:
        return any(name is known for known in self.known)

    def function(self, func: n.PrimFunc) -> None:
        for param in func.params:
            self.bind(param)
        for buffer in func.buffer_map.values():
            self.bind(buffer)
        self.statement(func.body)

    def integer(self, expr: n.Expr) -> DataType:
        kind = self.type_of(expr)
        need(kind.code in ("int", "uint") and kind.lanes == 1, "type")
        return kind

    def boolean(self, expr: n.Expr) -> None:
        kind = self.type_of(expr)
        need(kind.is_bool and kind.lanes == 1, "type")

    def element(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> DataType:
        need(self.bound(buffer), "scope")
        need(len(indices) == len(buffer.shape), "type")
        lanes = 1
        for place, index in enumerate(indices):
            kind = self.type_of(index)
            need(kind.code in ("int", "uint"), "type")
            need(kind.lanes == 1 or place == len(indices) - 1, "type")
            lanes = kind.lanes
        return buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)

    def type_of(self, e: n.Expr) -> DataType:
        match e:
            case n.Var():
                need(self.bound(e), "scope")
                return e.dtype
            case n.IntImm(value, dtype):
                need(dtype.code in ("int", "uint") and dtype.lanes == 1, "type")
                low, high = (0, 1) if dtype.bits == 1 else dtype.range
                need(low <= value <= high, "type")
                return dtype
            case n.FloatImm(_, dtype):
                need(dtype.is_float and dtype.lanes == 1, "type")
                return dtype
            case n.Cast(value, dtype):
                inner = self.type_of(value)
                need(inner.lanes == dtype.lanes and inner.code != "handle", "type")
                return dtype
            case n.Select(c, a, b) | n.Call(op="if_then_else", args=(c, a, b)):
                which, yes, no = (self.type_of(x) for x in (c, a, b))  # type: ignore[arg-type]
                need(which.is_bool and yes == no and which.lanes in (1, yes.lanes), "type")
                return yes
            case n.BufferLoad(buffer, indices):
                return self.element(buffer, indices)
            case n.Ramp(base, stride, lanes):
                need(self.integer(base) == self.integer(stride) and lanes > 1, "type")  # type: ignore[operator]
                return self.type_of(base).with_lanes(lanes)  # type: ignore[arg-type]
            case n.Broadcast(value, lanes):
                need(self.type_of(value).lanes == 1 and lanes > 1, "type")  # type: ignore[operator]
                return self.type_of(value).with_lanes(lanes)  # type: ignore[arg-type]
            case n.BinaryOp(a=a, b=b):
                kind = self.type_of(a)
                need(kind == self.type_of(b) and kind.code != "handle", "type")
                return kind
            case n.CmpOp(a=a, b=b):
                kind = self.type_of(a)
                need(kind == self.type_of(b) and kind.code != "handle", "type")
                return BOOL.with_lanes(kind.lanes)
            case n.And(a, b) | n.Or(a, b):
                kind = self.type_of(a)
                need(kind.is_bool and self.type_of(b) == kind, "type")
                return kind
            case n.Not(a):
                need(self.type_of(a).is_bool, "type")
                return self.type_of(a)
            case n.Call(op="tvm_storage_sync", dtype=dtype):
                return dtype
            case _:
                raise NotImplementedError(type(e).__name__)

    def inside(self, body: n.Stmt, *names: n.Node) -> None:
        depth = len(self.known)
        for name in names:
            self.bind(name)
        self.statement(body)
        del self.known[depth:]

    def statement(self, s: n.Stmt) -> None:
        match s:
            case n.SeqStmt(parts):
                depth = len(self.known)
                for part in parts:
                    self.statement(part)
                del self.known[depth:]
            case n.LetStmt(var, value):
                need(self.type_of(value) == var.dtype, "type")
                self.bind(var)
            case n.BufferStore(buffer, value, indices):
                wanted = self.element(buffer, indices)
                given = self.type_of(value)
                need(given.lanes == wanted.lanes and given.code != "handle", "type")
            case n.For(var, low, extent, kind, body, thread):
                need(var.dtype.code in ("int", "uint"), "type")
                for bound in (low, extent):
                    dtype = self.integer(bound)
                    fits = isinstance(bound, n.IntImm) and dtype.bits <= var.dtype.bits
                    need(dtype == var.dtype or fits, "type")
                if kind is n.ForKind.VECTORIZED:
                    need(isinstance(low, n.IntImm) and low.value == 0, "structure")
                    need(isinstance(extent, n.IntImm) and extent.value >= 1, "structure")
                    need(not _has_while(body), "structure")
                if thread is not None and isinstance(extent, n.IntImm):
                    need(self.extents.setdefault(thread.thread_tag, extent.value) == extent.value, "structure")
                self.inside(body, var)
            case n.While(condition, body):
                self.integer(condition)
                need(not isinstance(condition, n.IntImm), "structure")
                self.inside(body)
            case n.IfThenElse(condition, then, otherwise):
                self.boolean(condition)
                for part in (then, otherwise):
                    if part is not None:
                        self.inside(part)
            case n.Evaluate(value):
                self.type_of(value)
            case n.AllocBuffer(buffer):
                for extent in buffer.shape:
                    self.integer(extent)
                self.bind(buffer)
            case n.BlockRealize(values, predicate, block):
                self.block(values, predicate, block)
            case _:
                raise NotImplementedError(type(s).__name__)

    def block(self, values: tuple[n.Expr, ...], predicate: n.Expr, block: n.Block) -> None:
        need(len(values) == len(block.iter_vars), "structure")
        kinds = [self.integer(value) for value in values]
        self.boolean(predicate)
        depth = len(self.known)
        for iterator, value, kind in zip(block.iter_vars, values, kinds, strict=True):
            need(kind == iterator.var.dtype or isinstance(value, n.IntImm) or kind.is_integer, "type")
            need(iterator.var.dtype.code in ("int", "uint"), "type")
            self.bind(iterator.var)
        for buffer in block.alloc_buffers:
            self.bind(buffer)
        for match in block.match_buffers:
            buffer, source, ranges = match.buffer, match.source.buffer, match.source.region
            need(self.bound(source), "scope")
            need(buffer.dtype == source.dtype and buffer.scope == source.scope, "structure")
            need(source.data_alignment % buffer.data_alignment == 0, "structure")
            left_out = len(ranges) - len(buffer.shape)
            need(left_out >= 0, "structure")
            self.bind(buffer)
        for region in (*block.reads, *block.writes, *(match.source for match in block.match_buffers)):
            need(self.bound(region.buffer), "scope")
            need(len(region.region) == len(region.buffer.shape), "structure")
            for part in region.region:
                self.integer(part.min)
                self.integer(part.extent)
        if block.init is not None:
            self.inside(block.init)
        self.statement(block.body)
        del self.known[depth:]


def _has_while(s: n.Stmt) -> bool:
    from tensorir.tir.trees import walk

    return any(isinstance(node, n.While) for node in walk(s))
