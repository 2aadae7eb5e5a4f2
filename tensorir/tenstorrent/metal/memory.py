"""Buffers in memory as tiles: how many they are padded to, and which of them a box is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod

from tensorir.tenstorrent.kernels.nodes import Bind, Branch, Loop, Op, Program, Work
from tensorir.tenstorrent.metal.cards import refuse
from tensorir.tenstorrent.metal.queues import Format, Queues
from tensorir.tenstorrent.metal.shapes import TILE, Shapes, matrix_box
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32
from tensorir.tir.ranges import Bounds, interval
from tensorir.tir.tiles.operations import Box, Copy, operation

__all__ = ["Memory", "memories_of", "tile_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A buffer in memory: its format, its elements, and the elements that it is padded to, in whole tiles.

    `shape` and `padded` are (matrices, rows, columns); a vector is a matrix of one row, or of one column.
    """

    buffer: n.Buffer
    format: Format
    shape: tuple[int, int, int]
    padded: tuple[int, int, int]
    loaded: bool
    stored: bool

    @property
    def upright(self) -> bool:
        return len(self.buffer.shape) == 1 and self.shape[2] == 1 and self.shape[1] > 1

    @property
    def tiles(self) -> int:
        return self.padded[0] * self.high * self.wide

    @property
    def high(self) -> int:
        return self.padded[1] // TILE

    @property
    def wide(self) -> int:
        return self.padded[2] // TILE


def memories_of(program: Program, queues: Queues, shapes: Shapes) -> dict[n.Var, Memory]:
    """The memory of every buffer that a program moves, by its data.

    It has as many tiles as the boxes that are moved reach: what lies outside of the buffer is there, and is zero.
    Raises TN16 for a box whose tiles are not those of the buffer: that begins or ends within one.
    """
    reach: dict[n.Var, list[tuple[int, int, int]]] = {}
    moved: dict[str, set[n.Var]] = {"reader": set(), "writer": set()}
    for role in ("reader", "writer"):
        for box, known in _boxes(program, role):
            moved[role].add(box.buffer.data)
            reach.setdefault(box.buffer.data, []).append(_reach(box, known, shapes))
    found: dict[n.Var, Memory] = {}
    for buffer in program.func.buffer_map.values():
        if (boxes := reach.get(buffer.data)) is None:
            continue
        shape = shapes.of(buffer)
        whole = (shape.count, shape.rows, shape.columns)
        most = [max(size, *(box[k] for box in boxes)) for k, size in enumerate(whole)]
        padded = (most[0], _up(most[1]), _up(most[2]))
        format = queues.format_of(buffer, stored=True)
        loaded, stored = buffer.data in moved["reader"], buffer.data in moved["writer"]
        found[buffer.data] = Memory(buffer, format, whole, padded, loaded, stored)
    return found


def _up(size: int) -> int:
    return -(-size // TILE) * TILE


def _boxes(program: Program, role: str) -> list[tuple[Box, Mapping[n.Var, Bounds]]]:
    """The boxes that a kernel moves in memory, with the bounds of the variables around each."""
    func, plan = program.func, schedule_of(program.func)
    start, count, wide, high = [p for p in func.params if p not in func.buffer_map][-4:]
    most = max(c for _, c in plan.shares)
    known: dict[n.Var, Bounds] = {
        start: (0, max(plan.tiles - 1, 0)), count: (0, most), wide: (plan.grid[0], plan.grid[0]),
        high: (plan.grid[1], plan.grid[1]),
    }  # fmt: skip
    found: list[tuple[Box, Mapping[n.Var, Bounds]]] = []

    def of(body: tuple[Op, ...]) -> None:
        for op in body:
            match op:
                case Bind(var, value):
                    # the tile of a core is one of the grid's
                    is_tile = isinstance(value, n.Add) and value.a is start
                    bounds = (0, max(plan.tiles - 1, 0)) if is_tile else interval(value, known)
                    if bounds is not None:
                        known[var] = bounds
                case Loop(var, low, extent, inner):
                    a, b = interval(low, known), interval(extent, known)
                    if a is not None and b is not None:
                        known[var] = (a[0], max(a[1] + b[1] - 1, a[0]))
                    of(inner)
                case Branch(_, then, otherwise):
                    of(then)
                    of(otherwise)
                case Work(n.Evaluate(n.Call() as call)):
                    record = operation(call)
                    if isinstance(record, Copy):
                        found.append((record.src if role == "reader" else record.dst, dict(known)))
                case _:
                    pass

    of(program[role].body)
    return found


def _reach(box: Box, known: Mapping[n.Var, Bounds], shapes: Shapes) -> tuple[int, int, int]:
    """Where a box ends at most: matrices, rows and columns."""
    starts, sizes, whole = matrix_box(box, shapes)
    ends: list[int] = []
    for start, size, extent in zip(starts[-2:], sizes[-2:], whole[-2:], strict=True):
        bounds = interval(start, known)
        if bounds is None or bounds[0] < 0:
            refuse(f"a box of {box.buffer.name!r} may begin anywhere.", box.span, "let it begin at a multiple of 32.")
        if size % TILE and not (bounds == (0, 0) and size >= extent):
            message = f"{size} elements of {box.buffer.name!r} are moved here, and the card moves tiles of {TILE}."
            refuse(message, box.span, f"move {_up(size)}: what lies outside of the buffer is zero, and is not stored.")
        ends.append(bounds[1] + size)
    for start, size, extent in zip(starts[:-2], sizes[:-2], whole[:-2], strict=True):
        bounds = interval(start, known)
        if bounds is None or bounds[0] < 0 or bounds[1] + size > extent:
            refuse(f"a box of {box.buffer.name!r} may lie outside of it.", box.span, "keep to its matrices.")
    return prod(whole[:-2]), ends[0], ends[1]


def tile_of(box: Box, memory: Memory) -> tuple[n.Expr, tuple[int, int, int], tuple[int, int, int]]:
    """The first tile of a box, its tiles along matrices, rows and columns, and the steps from one to the next."""
    shapes = Shapes(frozenset((box.buffer,)) if memory.upright else frozenset())
    starts, sizes, whole = matrix_box(box, shapes)
    lead: n.Expr = n.IntImm(0, INT32)
    for start, extent in zip(starts[:-2], whole[:-2], strict=True):
        lead = _plus(_by(lead, extent), start)
    if sum(size > 1 for size in sizes[:-2]) > 1 or (len(sizes) > 3 and any(size > 1 for size in sizes[:-3])):
        message = f"matrices of {box.buffer.name!r} are moved that do not lie one behind the other."
        refuse(message, box.span, "move one of them at a time.")
    row, column = (_divided(start, box) for start in starts[-2:])
    first = _plus(_by(_plus(_by(lead, memory.high), row), memory.wide), column)
    count = (prod(sizes[:-2]), _up(sizes[-2]) // TILE, _up(sizes[-1]) // TILE)
    return first, count, (memory.high * memory.wide, memory.wide, 1)


def _divided(start: n.Expr, box: Box) -> n.Expr:
    """A start in tiles; raises TN16 where it may lie within one."""
    found = _quotient(start)
    if found is None:
        message = f"a box of {box.buffer.name!r} begins at {start}, which may lie within a tile of {TILE}."
        refuse(message, box.span, f"let boxes begin at multiples of {TILE}: by * {TILE}.")
    return found


def _quotient(e: n.Expr) -> n.Expr | None:
    match e:
        case n.IntImm(value):
            return n.IntImm(value // TILE, e.dtype) if value % TILE == 0 else None
        case n.Add(a, b) | n.Sub(a, b):
            x, y = _quotient(a), _quotient(b)
            return None if x is None or y is None else _plus(x, y) if isinstance(e, n.Add) else n.Sub(x, y)
        case n.Mul(a, b):
            for one, other in ((a, b), (b, a)):
                if (x := _quotient(one)) is not None:
                    return _by(other, x.value) if isinstance(x, n.IntImm) else n.Mul(other, x)
            return None
        case n.Cast(value, dtype):
            x = _quotient(value)
            return None if x is None else n.Cast(x, dtype)
        case _:
            return None


def _plus(a: n.Expr, b: n.Expr) -> n.Expr:
    parts = [p for p in (a, b) if not (isinstance(p, n.IntImm) and p.value == 0)]
    return reduce(n.Add, parts) if parts else n.IntImm(0, INT32)


def _by(e: n.Expr, factor: int) -> n.Expr:
    match e:
        case n.IntImm(value):
            return n.IntImm(value * factor, e.dtype)
        case _:
            return e if factor == 1 else n.Mul(e, n.IntImm(factor, e.dtype))
