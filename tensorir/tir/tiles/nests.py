"""Tile operations as nests of loops: what they mean, element by element, for whoever knows loops and no tiles.

>>> import tensorir.tir as tir
>>> func = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
...     T.copy(T.region(A[4], 1, 8), T.region(B[0], 2, 8))
... ''')["main"]
>>> print(without_tiles(func).body)
for i in T.parallel(8):
    B[i] = T.if_then_else(4 + i < 10, A[4 + i], T.float32(0.0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing, seq
from tensorir.tir.dtypes import BOOL, HANDLE, INT32
from tensorir.tir.ranges import Bounds, bounds_in, interval
from tensorir.tir.tiles.operations import (
    Atomic,
    Box,
    Copy,
    Fill,
    Gemm,
    Im2col,
    Nothing,
    Reduce,
    Scan,
    Transpose,
    combined,
    identity,
    is_tile,
    operation,
)
from tensorir.tir.tiles.warp_groups import normal
from tensorir.tir.trees import transform, walk

_NAMES = "ijklmn"


def without_tiles(func: n.PrimFunc) -> n.PrimFunc:
    """The function with a nest of loops in the place of each tile operation; itself where it has none."""
    func = normal(func)
    if not any(is_tile(node) for node in walk(func.body)):
        return func
    known = bounds_in(func.body)

    def rule(node: n.Node) -> n.Node | None:
        match node:
            case n.Evaluate(n.Call() as call) if is_tile(call):
                return _Nest(known, call.span).of(operation(call))
            case _:
                return None

    return n.PrimFunc(
        func.name, func.params, func.buffer_map, transform(func.body, rule), func.ret_type, func.attrs, func.s_tir,
        func.module, func.span,
    )  # fmt: skip


@dataclass(slots=True)
class _Nest:
    """Makes the loops of one operation; `known` bounds the variables around it."""

    known: dict[n.Var, Bounds]
    span: Span

    def of(self, record: object) -> n.Stmt:
        match record:
            case Copy():
                return self._copy(record)
            case Fill(dst, value):
                assert value is not None
                return self._over(self._vars(dst), lambda at: self._store(dst, at, value))
            case Gemm():
                return self._gemm(record)
            case Reduce():
                return self._reduce(record)
            case Scan():
                return self._scan(record)
            case Atomic():
                return self._atomic(record)
            case Im2col():
                return self._im2col(record)
            case Transpose(src, dst):
                return self._over(self._vars(src), lambda at: self._store(dst, at[::-1], self._load(src, at)))
            case Nothing():
                return nothing(self.span)
            case _:
                raise AssertionError(record)

    # Loops and places

    def _vars(self, box: Box) -> list[tuple[n.Var, n.Expr]]:
        """A loop for each dim of more than one element."""
        return [self._var(k, box.extents[dim]) for k, dim in enumerate(box.wide)]

    def _var(self, place: int, extent: n.Expr) -> tuple[n.Var, n.Expr]:
        var = n.Var(_NAMES[place % len(_NAMES)], n.PrimType(extent.dtype), self.span)
        if (reach := interval(extent, self.known)) is not None and reach[1] > 0:
            self.known[var] = 0, reach[1] - 1
        return var, extent

    def _loop(self, loop: tuple[n.Var, n.Expr], body: n.Stmt, kind: n.ForKind) -> n.Stmt:
        var, extent = loop
        return n.For(var, const(0, extent.dtype), extent, kind, body, span=self.span)

    def _over(self, loops: Sequence[tuple[n.Var, n.Expr]], make: Callable[[Sequence[n.Expr]], n.Stmt]) -> n.Stmt:
        body = make([var for var, _ in loops])
        for loop in reversed(loops):
            body = self._loop(loop, body, n.ForKind.PARALLEL)
        return body

    def _place(self, box: Box, at: Sequence[n.Expr]) -> tuple[tuple[n.Expr, ...], list[n.Expr]]:
        """The indices of an element of a box, and the conditions under which its buffer has it.

        `at` counts along the dims of more than one element, which alone are guarded.
        """
        indices, conditions = list(box.starts), list[n.Expr]()
        for dim, step in zip(box.wide, at, strict=True):
            index = indices[dim] = _plus(box.starts[dim], step)
            conditions += self._inside(index, box.buffer.shape[dim])
        return tuple(indices), conditions

    def _inside(self, index: n.Expr, extent: n.Expr) -> list[n.Expr]:
        reach, size = interval(index, self.known), interval(extent, self.known)
        low: list[n.Expr] = []
        if reach is None or reach[0] < 0:
            low.append(n.GE(index, const(0, index.dtype), self.span))
        fits = reach is not None and size is not None and reach[1] < size[0]
        return low if fits else [*low, n.LT(index, extent, self.span)]

    def _load(self, box: Box, at: Sequence[n.Expr], outside: n.Expr | None = None) -> n.Expr:
        """An element of a box, 0 or another value where its buffer does not have it."""
        indices, conditions = self._place(box, at)
        return self._guarded(n.BufferLoad(box.buffer, indices, span=self.span), conditions, outside)

    def _guarded(self, value: n.Expr, conditions: Sequence[n.Expr], outside: n.Expr | None = None) -> n.Expr:
        if not conditions:
            return value
        other = const(0, value.dtype) if outside is None else _cast(outside, value.dtype)
        return n.Call(value.dtype, "if_then_else", (_all(conditions), value, other), span=self.span)

    def _store(self, box: Box, at: Sequence[n.Expr], value: n.Expr) -> n.Stmt:
        indices, conditions = self._place(box, at)
        store = n.BufferStore(box.buffer, _cast(value, box.buffer.dtype), indices, None, self.span)
        return n.IfThenElse(_all(conditions), store, None, self.span) if conditions else store

    # Operations

    def _copy(self, record: Copy) -> n.Stmt:
        src, dst = record.src, record.dst
        return self._over(self._vars(dst), lambda at: self._store(dst, at, self._load(src, at, record.safe)))

    def _atomic(self, record: Atomic) -> n.Stmt:
        src, dst = record.src, record.dst

        def update(at: Sequence[n.Expr]) -> n.Stmt:
            indices, conditions = self._place(dst, at)
            dtype = dst.buffer.dtype
            place = n.Call(HANDLE, "address_of", (n.BufferLoad(dst.buffer, indices, span=self.span),), span=self.span)
            value = _cast(self._load(src, at), dtype)
            call = n.Call(dtype, f"atomic_{record.kind}", (place, value), span=self.span)
            made = n.Evaluate(call, self.span)
            return n.IfThenElse(_all(conditions), made, None, self.span) if conditions else made

        return self._over(self._vars(dst), update)

    def _gemm(self, record: Gemm) -> n.Stmt:
        a, b, c = record.a, record.b, record.c
        (m, width), inner = c.extents[-2:], a.extents[-2 if record.turned[0] else -1]
        i, j, k = (self._var(place, extent) for place, extent in enumerate((m, width, inner)))

        def element(box: Box, row: n.Expr, column: n.Expr, turned: bool) -> n.Expr:
            indices = _in_matrix(box, *((column, row) if turned else (row, column)))
            return _cast(n.BufferLoad(box.buffer, indices, span=self.span), c.buffer.dtype)

        places = _in_matrix(c, i[0], j[0])
        old = n.BufferLoad(c.buffer, places, span=self.span)
        product = n.Mul(element(a, i[0], k[0], record.turned[0]), element(b, k[0], j[0], record.turned[1]), self.span)
        step = n.BufferStore(c.buffer, n.Add(old, product, self.span), places, None, self.span)
        zero = n.BufferStore(c.buffer, const(0, c.buffer.dtype), places, None, self.span)
        inside = seq([*self._where(record.clear, zero), self._loop(k, step, n.ForKind.SERIAL)], self.span)
        return self._loop(i, self._loop(j, inside, n.ForKind.PARALLEL), n.ForKind.PARALLEL)

    def _where(self, condition: n.Expr, statement: n.Stmt) -> list[n.Stmt]:
        if isinstance(condition, n.IntImm):
            return [statement] if condition.value else []
        return [n.IfThenElse(condition, statement, None, self.span)]

    def _reduce(self, record: Reduce) -> n.Stmt:
        src, dst, kind, dim, dtype = record.src, record.dst, record.kind, record.dim, record.dst.buffer.dtype
        loops = {k: self._var(place, src.extents[k]) for place, k in enumerate(k for k in record.kept if k is not None)}
        inner = self._var(len(loops), src.extents[dim])
        at = {k: var for k, (var, _) in loops.items()} | {dim: inner[0]}
        places = (
            tuple(start if k is None else _plus(start, at[k]) for start, k in zip(dst.starts, record.kept, strict=True))
            or dst.starts
        )
        old = n.BufferLoad(dst.buffer, places, span=self.span)
        indices = tuple(_plus(start, at[k]) for k, start in enumerate(src.starts))
        new = n.BufferLoad(src.buffer, indices, span=self.span)
        step = n.BufferStore(dst.buffer, combined(kind, old, new, record.carries_nan), places, None, self.span)
        start = n.BufferStore(dst.buffer, identity(kind, dtype), places, None, self.span)
        body = seq([*self._where(record.clear, start), self._loop(inner, step, n.ForKind.SERIAL)], self.span)
        for loop in reversed(loops.values()):
            body = self._loop(loop, body, n.ForKind.PARALLEL)
        return body

    def _scan(self, record: Scan) -> n.Stmt:
        src, dst, dim, dtype = record.src, record.dst, record.dim, record.dst.buffer.dtype
        loops = {
            k: self._var(place, e) for place, (k, e) in enumerate((k, e) for k, e in enumerate(src.extents) if k != dim)
        }
        one, extent = const(1, src.extents[dim].dtype), src.extents[dim]
        last = _minus(extent, one)
        step, _ = inner = self._var(len(loops), last)

        def at(box: Box, along: n.Expr) -> tuple[n.Expr, ...]:
            return tuple(_plus(s, along if k == dim else loops[k][0]) for k, s in enumerate(box.starts))

        def read(box: Box, along: n.Expr) -> n.Expr:
            return _cast(n.BufferLoad(box.buffer, at(box, along), span=self.span), dtype)

        first = last if record.reverse else const(0, extent.dtype)
        before = _minus(last, step) if record.reverse else step
        here = _minus(before, one) if record.reverse else _plus(step, one)
        begin = n.BufferStore(dst.buffer, read(src, first), at(dst, first), None, self.span)
        old, new = read(dst, before), read(src, here)
        value = combined(record.kind, old, new)
        if record.kind == "max" and dtype.is_float:  # the first element may be NaN, and others pass over it
            value = n.Select(n.Call(BOOL, "isnan", (old,)), new, value)
        go_on = n.BufferStore(dst.buffer, value, at(dst, here), None, self.span)
        body = seq([begin, self._loop(inner, go_on, n.ForKind.SERIAL)], self.span)
        for loop in reversed(loops.values()):
            body = self._loop(loop, body, n.ForKind.PARALLEL)
        return body

    def _im2col(self, record: Im2col) -> n.Stmt:
        src, dst = record.src, record.dst
        count, high, wide, channels = src.extents
        rows, columns = (dst.extents[k] for k in dst.wide)
        (i, _), (j, _) = loops = [self._var(0, rows), self._var(1, columns)]
        number = {name: const(getattr(record, name), INT32) for name in ("kernel", "stride", "dilation", "pad")}
        across, down = (_windows(e, record) for e in (wide, high))
        m = _plus(_times(record.row, rows), i)
        q = _plus(_times(record.column, columns), j)
        image, within = _divide(m, _times(down, across)), _remainder(m, _times(down, across))
        row = _times(_divide(within, across), number["stride"])
        column = _times(_remainder(within, across), number["stride"])
        y = _divide(q, _times(number["kernel"], channels))
        x = _remainder(_divide(q, channels), number["kernel"])
        h = _minus(_plus(row, _times(y, number["dilation"])), number["pad"])
        w = _minus(_plus(column, _times(x, number["dilation"])), number["pad"])
        places = (image, h, w, _remainder(q, channels))
        conditions = [c for p, e in zip(places[:3], (count, high, wide), strict=True) for c in self._inside(p, e)]
        indices = tuple(_plus(s, p) for s, p in zip(src.starts, places, strict=True))
        value = self._guarded(n.BufferLoad(src.buffer, indices, span=self.span), conditions)
        return self._over(loops, lambda at: self._store(dst, at, value))


def _in_matrix(box: Box, row: n.Expr, column: n.Expr) -> tuple[n.Expr, ...]:
    *batch, high, wide = box.starts
    return (*batch, _plus(high, row), _plus(wide, column))


def _windows(extent: n.Expr, record: Im2col) -> n.Expr:
    """The number of windows along a side of an image."""
    room = 2 * record.pad - record.dilation * (record.kernel - 1) - 1
    return _plus(_divide(_plus(extent, const(room, INT32)), const(record.stride, INT32)), const(1, INT32))


# Integers, folded where they are constants


def _constants(a: n.Expr, b: n.Expr) -> tuple[int, int] | None:
    return (a.value, b.value) if isinstance(a, n.IntImm) and isinstance(b, n.IntImm) else None


def _plus(a: n.Expr, b: n.Expr) -> n.Expr:
    if (both := _constants(a, b)) is not None:
        return n.IntImm(sum(both), a.dtype)
    if isinstance(a, n.IntImm) and not a.value:
        return b
    if isinstance(b, n.IntImm) and not b.value:
        return a
    return n.Add(a, b)


def _minus(a: n.Expr, b: n.Expr) -> n.Expr:
    if (both := _constants(a, b)) is not None:
        return n.IntImm(both[0] - both[1], a.dtype)
    return a if isinstance(b, n.IntImm) and not b.value else n.Sub(a, b)


def _times(a: n.Expr, b: n.Expr) -> n.Expr:
    if (both := _constants(a, b)) is not None:
        return n.IntImm(both[0] * both[1], a.dtype)
    return a if isinstance(b, n.IntImm) and b.value == 1 else n.Mul(a, b)


def _divide(a: n.Expr, b: n.Expr) -> n.Expr:
    if (both := _constants(a, b)) is not None:
        return n.IntImm(both[0] // both[1], a.dtype)
    return a if isinstance(b, n.IntImm) and b.value == 1 else n.FloorDiv(a, b)


def _remainder(a: n.Expr, b: n.Expr) -> n.Expr:
    if (both := _constants(a, b)) is not None:
        return n.IntImm(both[0] % both[1], a.dtype)
    return n.FloorMod(a, b)


def _cast(value: n.Expr, dtype: n.DataType) -> n.Expr:
    if value.dtype == dtype:
        return value
    match value:
        case n.IntImm(number):
            return const(number, dtype)
        case n.FloatImm(number) if dtype.is_float:
            return const(number, dtype)
        case _:
            return n.Cast(value, dtype)


def _all(conditions: Sequence[n.Expr]) -> n.Expr:
    return reduce(n.And, conditions) if conditions else n.IntImm(1, BOOL)
