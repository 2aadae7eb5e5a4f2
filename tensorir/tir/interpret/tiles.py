"""Tile operations, on whole tiles: what `tensorir.tir.tiles.operations` lists, by NumPy.

A tile is an array with its own axes in front and those of the lanes (the blocks that run side by side) behind them, as
values of inner loops have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.machine import Machine, compiled
from tensorir.tir.interpret.memory import View
from tensorir.tir.interpret.values import Value, cast
from tensorir.tir.tiles.operations import (
    Atomic,
    Box,
    Copy,
    Fill,
    Gemm,
    Im2col,
    Nothing,
    Record,
    Reduce,
    Scan,
    Transpose,
    identity,
    operation,
)

Run = Callable[[Machine], Value]


def compile_tile(node: n.Call) -> Run:
    """The function of a tile operation."""
    act = _compile(operation(node), node.span)

    def run(m: Machine) -> Value:
        act(m)
        if m.kernel is not None:
            m.kernel.stored(m)
        return np.int32(0)

    return run


def _compile(record: Record, span: Span) -> Callable[[Machine], None]:
    match record:
        case Copy(src, dst, safe):
            return _moved(src, dst, span, safe=None if safe is None else compiled(safe))
        case Transpose(src, dst):
            return _moved(src, dst, span, turned=True)
        case Fill(dst, value):
            return _fill(dst, value, span)
        case Gemm():
            return _gemm(record, span)
        case Reduce():
            return _reduce(record, span)
        case Scan():
            return _scan(record, span)
        case Atomic():
            return _atomic(record, span)
        case Im2col():
            return _im2col(record, span)
        case Nothing():
            return lambda m: None


@dataclass(frozen=True, slots=True)
class _Places:
    """The addresses of a tile's elements, and the mask of those in its buffer (None: all)."""

    view: View
    address: Value
    inside: Value


class _Tile:
    """A box at run time: `places` evaluates where it is, along all of its dims or those of more than one element."""

    def __init__(self, box: Box, span: Span) -> None:
        self.box, self.span = box, span
        self.dtype = box.buffer.dtype
        self.starts = [compiled(start) for start in box.starts]
        self.extents = [compiled(extent) for extent in box.extents]
        if self.dtype.lanes != 1:
            raise refuse("TR20", f"{box.buffer.name!r} holds vectors, and tile operations are for numbers.", at=span)

    def shape(self, m: Machine) -> tuple[int, ...]:
        return tuple(int(np.max(extent(m))) for extent in self.extents)

    def places(self, m: Machine, squeezed: bool = True) -> _Places:
        shape = self.shape(m)
        wide = [k for k in range(len(shape)) if not squeezed or k in self.box.wide]
        lanes = (1,) * len(m.axes)
        steps: list[Value] = [np.int64(0)] * len(shape)
        for place, k in enumerate(wide):
            steps[k] = np.arange(shape[k]).reshape(*(shape[k] if j == place else 1 for j in range(len(wide))), *lanes)
        return self.at(
            m, [np.asarray(s(m)).astype(np.int64) + step for s, step in zip(self.starts, steps, strict=True)]
        )

    def at(self, m: Machine, indices: Sequence[Value]) -> _Places:
        """The elements at indices; along dims of one element the box must be inside."""
        view = m.view(self.box.buffer, self.span)
        inside: Value = None
        for k, (index, extent) in enumerate(zip(indices, view.shape, strict=True)):
            here = (index >= 0) & (index < extent)
            if np.all(here):
                continue
            if k not in self.box.wide and np.any(
                np.broadcast_to(m.active(), np.broadcast(here, m.active()).shape) & ~here
            ):
                name, at = self.box.buffer.name, int(np.asarray(index)[~np.asarray(here)].flat[0])
                message = f"index {k} of {name!r} is {at}, outside of its {int(np.max(extent))} elements."
                help = "a tile is cut only along dims of more than one element: guard it by an if."
                raise refuse("TR01", message, help, at=self.box.span, notes=m.where())
            inside = here if inside is None else inside & here
        address = view.address(indices, False)
        return _Places(view, address if inside is None else np.where(inside, address, 0), inside)

    def read(self, m: Machine, squeezed: bool = True, outside: Value = None) -> Any:
        return self.read_at(m, self.places(m, squeezed), outside)

    def read_at(self, m: Machine, at: _Places, outside: Value = None) -> Any:
        values = m.read(at.view, at.address, self.span, predicate=at.inside)
        if at.inside is None:
            return values
        other: Any = at.view.dtype.type(0) if outside is None else outside
        chosen: np.ndarray[Any, Any] = np.choose(at.inside, (other, values))
        return chosen

    def write(self, m: Machine, values: Any, source: DataType, squeezed: bool = True) -> None:
        at = self.places(m, squeezed)
        if source != self.dtype:
            values = cast(values, source.element, self.dtype.element)
        m.write(at.view, np.asarray(at.address), values, self.span, predicate=at.inside)


def _moved(src: Box, dst: Box, span: Span, turned: bool = False, safe: Run | None = None) -> Callable[[Machine], None]:
    source, target = _Tile(src, span), _Tile(dst, span)

    def run(m: Machine) -> None:
        values = source.read(m, outside=None if safe is None else safe(m))
        if turned:
            values = _whole(values, m, len(src.wide)).swapaxes(0, 1)
        target.write(m, values, source.dtype)

    return run


def _whole(values: np.ndarray[Any, Any], m: Machine, rank: int) -> np.ndarray[Any, Any]:
    """A tile with an axis for every dim of its own and every lane."""
    return values.reshape(*values.shape, *([1] * (rank + len(m.axes) - values.ndim)))


def _fill(dst: Box, value: n.Expr | None, span: Span) -> Callable[[Machine], None]:
    assert value is not None
    target, made = _Tile(dst, span), compiled(value)
    return lambda m: target.write(m, made(m), value.dtype)


def _gemm(record: Gemm, span: Span) -> Callable[[Machine], None]:
    a, b, c = (_Tile(box, span) for box in (record.a, record.b, record.c))
    clear = compiled(record.clear)

    def matrices(tile: _Tile, m: Machine, turned: bool) -> Any:
        """The tile as matrices, one for each lane, in c's type."""
        values = _whole(tile.read(m, squeezed=False), m, len(tile.box.extents))
        values = values.reshape(values.shape[len(tile.box.extents) - 2 :])
        values = cast(values, tile.dtype.element, c.dtype.element)
        values = np.moveaxis(values, (0, 1), (-1, -2) if turned else (-2, -1))
        return values

    def run(m: Machine) -> None:
        product = np.matmul(matrices(a, m, record.turned[0]), matrices(b, m, record.turned[1]))
        product = np.moveaxis(product, (-2, -1), (0, 1))
        empty = clear(m)
        if not np.all(empty):
            old = _whole(c.read(m, squeezed=False), m, len(record.c.extents))
            old = old.reshape(old.shape[len(record.c.extents) - 2 :])
            product = product + np.where(empty, np.zeros((), old.dtype), old)
        c.write(m, product[(None,) * (len(record.c.extents) - 2)], c.dtype, squeezed=False)

    return run


_FOLDS: dict[str, Any] = {
    "sum": np.add,
    "abssum": np.add,
    "max": np.fmax,
    "absmax": np.fmax,
    "min": np.fmin,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}
_CARRYING = {"max": np.maximum, "absmax": np.maximum, "min": np.minimum}
"""The folds that keep a NaN."""


def _reduce(record: Reduce, span: Span) -> Callable[[Machine], None]:
    source, target = _Tile(record.src, span), _Tile(record.dst, span)
    clear, dim = compiled(record.clear), record.dim
    fold = {**_FOLDS, **_CARRYING}[record.kind] if record.carries_nan else _FOLDS[record.kind]
    start = compiled(identity(record.kind, target.dtype))
    keeps = None in record.kept or len(record.src.extents) == 1

    def run(m: Machine) -> None:
        values = _whole(source.read(m, squeezed=False), m, len(record.src.extents))
        values = cast(values, source.dtype.element, target.dtype.element)
        if record.kind.startswith("abs"):
            values = np.abs(values)
        # NumPy's order of a sum depends on strides: along rows it is the same however many blocks run side by side
        rows = np.ascontiguousarray(np.moveaxis(values, dim, -1))
        total = fold.reduce(rows, axis=-1, initial=start(m), dtype=values.dtype)
        total = np.expand_dims(total, dim) if keeps else total
        empty = clear(m)
        if not np.all(empty):
            old = target.read(m, squeezed=False)
            total = np.where(empty, total, fold(old, total))
        target.write(m, total, target.dtype, squeezed=False)

    return run


def _scan(record: Scan, span: Span) -> Callable[[Machine], None]:
    source, target = _Tile(record.src, span), _Tile(record.dst, span)
    fold = np.add if record.kind == "sum" else np.fmax

    def run(m: Machine) -> None:
        values = cast(source.read(m, squeezed=False), source.dtype.element, target.dtype.element)
        ordered = np.flip(values, record.dim) if record.reverse else values
        total = fold.accumulate(ordered, axis=record.dim, dtype=values.dtype)
        target.write(m, np.flip(total, record.dim) if record.reverse else total, target.dtype, squeezed=False)

    return run


def _atomic(record: Atomic, span: Span) -> Callable[[Machine], None]:
    source, target = _Tile(record.src, span), _Tile(record.dst, span)
    fold = {"add": np.add, "max": np.fmax, "min": np.fmin}[record.kind]

    def run(m: Machine) -> None:
        values = cast(source.read(m), source.dtype.element, target.dtype.element)
        at = target.places(m)
        m.folded(at.view, at.address, values, fold, span, at.inside)

    return run


def _im2col(record: Im2col, span: Span) -> Callable[[Machine], None]:
    source, target = _Tile(record.src, span), _Tile(record.dst, span)
    row, column = compiled(record.row), compiled(record.column)
    k, stride, dilation, pad = record.kernel, record.stride, record.dilation, record.pad

    def run(m: Machine) -> None:
        _, high, wide, channels = source.shape(m)
        down, across = ((side + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for side in (high, wide))
        rows, columns = (target.shape(m)[dim] for dim in record.dst.wide)
        lanes = (1,) * len(m.axes)
        pixel = np.asarray(row(m)).astype(np.int64) * rows + np.arange(rows).reshape(-1, 1, *lanes)
        tap = np.asarray(column(m)).astype(np.int64) * columns + np.arange(columns).reshape(1, -1, *lanes)
        within = pixel % (down * across)
        indices = [
            pixel // (down * across),
            within // across * stride + tap // (k * channels) * dilation - pad,
            within % across * stride + tap // channels % k * dilation - pad,
            tap % channels,
        ]
        starts = [np.asarray(start(m)).astype(np.int64) for start in source.starts]
        view = m.view(record.src.buffer, span)
        inside = np.bool_(True)
        for index, extent in zip(indices, (int(np.max(e)) for e in view.shape), strict=True):
            inside = inside & (index >= 0) & (index < extent)
        safe = [np.where(inside, index, 0) + start for index, start in zip(indices, starts, strict=True)]
        values = source.read_at(m, _Places(view, view.address(safe, False), inside))
        target.write(m, values, source.dtype)

    return run
