"""Work on tiles as Python functions of the interpreter's machine.

What most kernels spend their time with (copies and products of boxes that lie inside of their buffers) goes to NumPy
whole; everything else, and a box that is cut off, is the interpreter's. Both give the same bits.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import cast
from tensorir.tir.interpret.code import compiled, execute
from tensorir.tir.interpret.machine import Machine
from tensorir.tir.interpret.memory import View, strided
from tensorir.tir.tiles.operations import Box, Copy, Fill, Gemm, is_tile, operation

__all__ = ["Act", "array_of", "work"]

Act = Callable[[Machine], None]
Part = Callable[[Machine], Any]


def work(statement: n.Stmt) -> Act:
    """The function that does a statement."""
    slow = execute(statement)
    match statement:
        case n.Evaluate(n.Call() as call) if is_tile(call):
            record = operation(call)
            if any(box.buffer.dtype.lanes != 1 for box in _boxes(record)):
                return slow
            match record:
                case Copy(src, dst, None):
                    return _copy(src, dst, slow)
                case Fill(dst, n.IntImm(value) | n.FloatImm(value)):
                    return _fill(dst, value, slow)
                case Gemm(clear=n.IntImm()):
                    return _gemm(record, slow)
                case _:
                    return slow
        case _:
            return slow


def array_of(view: View) -> Any:
    """The elements of a buffer as an array over its memory."""
    elements = view.memory.typed(view.dtype)
    steps = tuple(int(s) * view.dtype.itemsize for s in view.strides)
    return strided(elements[int(view.offset) :], tuple(int(e) for e in view.shape), steps)


def _boxes(record: object) -> list[Box]:
    names = ("a", "b", "c", "src", "dst")
    return [box for name in names if isinstance(box := getattr(record, name, None), Box)]


def _part(box: Box) -> Part | None:
    """The elements of a box as a view of its buffer's array; None at run time where the box is cut off."""
    sizes = [e.value for e in box.extents if isinstance(e, n.IntImm)]
    if len(sizes) != len(box.extents):
        return None
    starts = [s.value if isinstance(s, n.IntImm) else compiled(s) for s in box.starts]
    buffer = box.buffer
    whole = all(s == 0 for s in starts) and all(
        isinstance(e, n.IntImm) and e.value == size for e, size in zip(buffer.shape, sizes, strict=True)
    )

    def run(m: Machine) -> Any:
        view = m.view(buffer)
        array = array_of(view)
        if whole:
            return array
        at: list[slice] = []
        for start, size, extent in zip(starts, sizes, array.shape, strict=True):
            first = start if isinstance(start, int) else int(start(m))
            if first < 0 or first + size > extent:
                return None
            at.append(slice(first, first + size))
        return array[tuple(at)]

    return run


def _copy(src: Box, dst: Box, slow: Act) -> Act:
    source, target = _part(src), _part(dst)
    if source is None or target is None:
        return slow
    shape = tuple(e.value for e in dst.extents if isinstance(e, n.IntImm))
    a, b = src.buffer.dtype, dst.buffer.dtype

    def run(m: Machine) -> None:
        values, place = source(m), target(m)
        if values is None or place is None:
            slow(m)
            return
        values = values.reshape(shape)
        place[...] = values if a == b else cast(values, a, b)

    return run


def _fill(dst: Box, value: float, slow: Act) -> Act:
    target, dtype = _part(dst), dst.buffer.dtype.element.numpy
    if target is None:
        return slow
    made = np.asarray(value).astype(dtype)

    def run(m: Machine) -> None:
        place = target(m)
        if place is None:
            slow(m)
        else:
            place[...] = made

    return run


def _gemm(record: Gemm, slow: Act) -> Act:
    parts = [_part(box) for box in (record.a, record.b, record.c)]
    types = [box.buffer.dtype for box in (record.a, record.b, record.c)]
    turned = record.turned
    fresh = isinstance(record.clear, n.IntImm) and bool(record.clear.value)

    def run(m: Machine) -> None:
        found = [None if part is None else part(m) for part in parts]
        if any(f is None for f in found):
            slow(m)
            return
        a, b, c = (f.reshape(f.shape[-2:]) for f in found if f is not None)
        left, right = (v if t == types[2] else cast(v, t, types[2]) for v, t in ((a, types[0]), (b, types[1])))
        product = np.matmul(left.T if turned[0] else left, right.T if turned[1] else right)
        c[...] = product if fresh else product + c

    return run
