"""Circular buffers while they run, work on tiles, multicast loads, and the fill over time as SVG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorir.tenstorrent.kernels.nodes import Action, CircularBuffer, Program
from tensorir.tenstorrent.metal.values import CARDS
from tensorir.tenstorrent.schedule import schedule
from tensorir.tenstorrent.traffic import lines_of, row_of
from tensorir.tir import nodes as n
from tensorir.tir.interpret.machine import Machine, compiled, execute
from tensorir.tir.interpret.memory import View, strided
from tensorir.tir.interpret.values import cast
from tensorir.tir.tiles.operations import Box, Copy, Fill, Gemm, is_tile, operation

# Circular buffers while they run: tiles in a ring, with what the producer has reserved and the consumer waited for.


class Queue:
    """The state of a circular buffer of one core.

    A program may reserve, or wait for, the same tiles again: the larger count holds.
    """

    __slots__ = ("fill", "head", "made", "reserved", "ring", "tail", "tile", "waited", "written")

    def __init__(self, made: CircularBuffer, tile: tuple[int, int], moves: bool = True) -> None:
        self.made: CircularBuffer = made
        self.tile: tuple[int, int] = tile
        self.fill: int = 0
        self.reserved: int = 0
        self.waited: int = 0
        self.written: int = 0
        self.head: int = 0
        self.tail: int = 0
        dtype: Any = made.block.dtype.element.numpy if moves else np.dtype(np.uint8)
        self.ring: Any = np.zeros((made.capacity, *tile), dtype) if moves else None

    @property
    def room(self) -> int:
        return self.made.capacity - self.fill

    def do(self, action: Action, count: int) -> None:
        """A synchronisation that is allowed now."""
        match action:
            case "reserve":
                self.reserved = max(self.reserved, count)
            case "wait":
                self.waited = max(self.waited, count)
            case "push":
                self.reserved -= count
                self.written = max(self.written - count, 0)
                self.fill += count
                self.tail = (self.tail + count) % self.made.capacity
            case "pop":
                self.waited -= count
                self.fill -= count
                self.head = (self.head + count) % self.made.capacity

    def front(self) -> Any:
        """The tiles of the block at the front."""
        pages = self.made.pages
        if pages == 1:
            return self.ring[self.head : self.head + 1]
        return self.ring[np.arange(self.head, self.head + pages) % self.made.capacity]

    def put(self, block: Any) -> None:
        """The tiles of a block, where the next push takes them."""
        pages = self.made.pages
        if pages == 1 and block.shape == self.tile:
            self.ring[self.tail] = block
        else:
            self.ring[np.arange(self.tail, self.tail + pages) % self.made.capacity] = block_to_pages(block, self.tile)


def block_to_pages(block: Any, tile: tuple[int, int]) -> Any:
    """A block as tiles, row by row, with zeros behind what there is.

    >>> block_to_pages(np.arange(6).reshape(2, 3), (2, 2)).tolist()
    [[[0, 1], [3, 4]], [[2, 0], [5, 0]]]
    """
    outer, (rows, columns) = block.shape[:-2], (1, 1, *block.shape)[-2:]
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    whole = np.zeros((*outer, down * tile[0], across * tile[1]), block.dtype)
    whole[..., :rows, :columns] = block.reshape(*outer, rows, columns)
    cut = whole.reshape(-1, down, tile[0], across, tile[1])
    return cut.swapaxes(2, 3).reshape(-1, *tile)


def pages_to_block(pages: Any, block: Any) -> None:
    """Tiles into a block of any shape, without what lies behind its end.

    >>> block = np.zeros((2, 3), int)
    >>> pages_to_block(block_to_pages(np.arange(6).reshape(2, 3), (2, 2)), block)
    >>> block.tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    tile = pages.shape[1:]
    outer, (rows, columns) = block.shape[:-2], (1, 1, *block.shape)[-2:]
    if len(pages) == 1:
        block[...] = pages[0, :rows, :columns].reshape(block.shape)
        return
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    whole = pages.reshape(-1, down, across, *tile).swapaxes(2, 3).reshape(-1, down * tile[0], across * tile[1])
    block[...] = whole[:, :rows, :columns].reshape(*outer, *block.shape[len(outer) :])


# Work on tiles as Python functions of the interpreter's machine.
#
# What most kernels spend their time with (copies and products of boxes that lie inside of their buffers) goes to
# NumPy whole; everything else, and a box that is cut off, is the interpreter's. Both give the same bits.


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


# Loads that one core does for others of its row or column, in a simulation.


@dataclass(eq=False, slots=True)
class Sender:
    """A multicast along a row or a column: its first core, how many others there are, how many of them have asked.

    `turn` counts the blocks that were sent, and `block` is the last of them.
    """

    first: int
    others: int
    asked: int = 0
    turn: int = 0
    block: Any = None


def senders(program: Program, cores: int | None) -> dict[tuple[int, int], Sender]:
    """The line of each core for each load that is multicast, by the identity of the statement."""
    if cores is not None:
        program = replace(program, func=schedule(program.func, cores))
    found: dict[tuple[int, int], Sender] = {}
    for load, line in lines_of(program, row_of(program, CARDS["wormhole"])).items():
        groups = [int(g) for g in line.groups]
        for group in set(groups):
            members = [core for core, g in enumerate(groups) if g == group]
            found |= dict.fromkeys(((load, core) for core in members), Sender(members[0], len(members) - 1))
    return found
