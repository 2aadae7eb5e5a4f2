"""Traffic of the kernels of all cores, counted without running them, and buffers in the cores' memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tenstorrent.grid import layout_of
from tensorir.tenstorrent.kernels.nodes import Barrier, Bind, Branch, Loop, Op, Program, Sync, Work
from tensorir.tenstorrent.metal.values import TILE, Card, Shapes, matrix_box, shapes_of
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.ranges import values
from tensorir.tir.tiles.operations import Box, Copy, operation

# What the kernels of all cores do, counted without running them: each move of a block, on which core, and where from.
#
# A kernel is gone through once for all cores: a variable is an array, with one number for each time that the
# statement is reached, core by core in the order of the text.


Numbers = np.ndarray[Any, Any]
MOST = 1 << 23
"""How many times a statement may be reached, on all cores together."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A statement, the core of each time that it is reached, and the values that variables have then."""

    op: Work
    core: Numbers
    known: dict[n.Var, Numbers]

    def count(self, cores: int) -> Numbers:
        """The number of times that each core reaches a statement."""
        return np.bincount(self.core, minlength=cores)

    @property
    def turn(self) -> Numbers:
        """The number of each time on its core."""
        first = np.searchsorted(self.core, self.core)
        return np.arange(self.core.size) - first


def reached(program: Program, role: str) -> list[Reached]:
    """The work of a kernel on the cores of the program's schedule.

    Raises TN20 where only a call, or a tile, tells how many times a loop runs or which branch is taken.
    """
    func, plan = program.func, schedule_of(program.func)
    start, count, wide, high = [p for p in func.params if p not in func.buffer_map][-4:]
    cores = np.arange(len(plan.shares))
    env: dict[n.Var, Numbers] = {
        start: np.array([first for first, _ in plan.shares]), count: np.array([many for _, many in plan.shares]),
        wide: np.full(cores.size, plan.grid[0]), high: np.full(cores.size, plan.grid[1]),
    }  # fmt: skip
    return list(_of(program[role].body, cores, env))


def _of(body: tuple[Op, ...], core: Numbers, env: dict[n.Var, Numbers]) -> Iterator[Reached]:
    env = dict(env)
    for op in body:
        match op:
            case Sync() | Barrier():
                pass
            case Work():
                yield Reached(op, core, dict(env))
            case Bind(var, value):
                found = values(value, env)
                if found is not None:
                    env[var] = np.broadcast_to(found, core.shape)
            case Loop(var, low, extent, inner):
                if not any(isinstance(x, Work | Loop | Branch) for x in inner):
                    continue
                first, many = (_number(x, env, core) for x in (low, extent))
                many = np.maximum(many, 0)
                if int(many.sum()) > MOST:
                    _unknown(
                        f"the loop over {var.name!r} runs {int(many.sum()):,} times", NOWHERE, f"{MOST:,} are counted."
                    )
                rows = np.repeat(np.arange(core.size), many)
                inside = {v: a[rows] for v, a in env.items()}
                step = np.arange(rows.size) - np.repeat(np.cumsum(many) - many, many)
                inside[var] = first[rows] + step
                yield from _of(inner, core[rows], inside)
            case Branch(condition, then, otherwise):
                holds = _number(condition, env, core).astype(bool)
                for side, taken in ((then, holds), (otherwise, ~holds)):
                    yield from _of(side, core[taken], {v: a[taken] for v, a in env.items()})


def _number(expr: n.Expr, env: dict[n.Var, Numbers], core: Numbers) -> Numbers:
    found = values(expr, env)
    if found is None:
        _unknown(f"{expr} is not known before a call", expr.span, "write it as a number in the kernel.")
    return np.broadcast_to(found, core.shape)


def _unknown(message: str, span: Span, help: str) -> NoReturn:
    raise refuse("TN20", f"{message}, and what a program moves is counted before.", help, at=span)


def moves(program: Program, role: str) -> list[tuple[Reached, Box, str, int]]:
    """The moves of the reader or the writer, with the box in memory, the circular buffer, and the bytes of a block."""
    blocks = {queue.block: queue for queue in program.buffers}
    found: list[tuple[Reached, Box, str, int]] = []
    for one in reached(program, role):
        statement = one.op.statement
        assert isinstance(statement, n.Evaluate) and isinstance(statement.value, n.Call)
        record: Any = operation(statement.value)
        box, tile = (record.src, record.dst) if role == "reader" else (record.dst, record.src)
        queue = blocks[tile.buffer]
        size = queue.pages * 32 * 32 * queue.block.dtype.element.numpy.itemsize
        found.append((one, box, queue.name, size))
    return found


def starts_of(one: Reached, starts: Iterable[n.Expr]) -> list[Numbers]:
    """The start of a box along each dim, each time that its statement is reached."""
    return [np.broadcast_to(_number(s, one.known, one.core), one.core.shape) for s in starts]


@dataclass(frozen=True, slots=True)
class Line:
    """The cores that need a block at the same time: those of one "row", or of one "column"; `groups` has one each."""

    along: str
    groups: Numbers


def row_of(program: Program, card: Card) -> int:
    """The cores in a row of the grid: those that share a row of the kernel's blocks, where these make a rectangle."""
    plan = schedule_of(program.func)
    most = max(1, max(count for _, count in plan.shares))
    blocks = plan.grid[1 if plan.order == "column_major" else 0]
    return card.row(len(plan.shares), max(1, blocks // most))


def lines_of(program: Program, wide: int) -> dict[int, Line]:
    """The loads that cores of one row, or of one column, of the grid always do together, by identity of the statement.

    `wide` is the number of cores in a row. The n-th time of each core is that of the others, and of the same box.
    """
    cores = np.arange(len(schedule_of(program.func).shares))
    found: dict[int, Line] = {}
    for one, box, _, _ in moves(program, "reader"):
        times = one.count(cores.size)
        if times.min() != times.max() or times.max() == 0:
            continue
        each = int(times[0])
        starts = [s.reshape(-1, each) for s in starts_of(one, box.starts)]
        for along, groups in (("row", cores // wide), ("column", cores % wide)):
            firsts = np.array([np.flatnonzero(groups == g)[0] for g in groups])
            if (np.bincount(groups) > 1).any() and all((s == s[firsts]).all() for s in starts):
                found[id(one.op)] = Line(along, groups)
                break
    return found


# Buffers that lie in the L1 memory of the cores: which tiles of them each core has, and whether these are its own.
#
# A buffer is cut into a rectangle of shards, one for each core, in the order of the cores. A circular buffer lies on
# the shard of its core, so no tile moves: it works where the core's blocks are those of its shard, each once, in
# their order.


@dataclass(frozen=True, slots=True)
class Sharded:
    """A buffer as shards: `grid` are these down and across, `shape` the tiles of each, and `queue` lies on them."""

    buffer: n.Buffer
    layout: str
    grid: tuple[int, int]
    shape: tuple[int, int]
    queue: str

    @property
    def tiles(self) -> int:
        """The tiles of one shard."""
        return prod(self.shape)


def shards_of(program: Program, card: Card) -> dict[n.Var, Sharded]:
    """The buffers of a program that lie in L1, by their data.

    Raises TN21 for a layout whose shards are not the tiles that each core moves, block by block, with the first core
    and tile for which this is so.
    """
    func = program.func
    asked = {b.data: b for b in func.buffer_map.values() if layout_of(func, b) != "dram_interleaved"}
    if not asked:
        return {}
    shapes = shapes_of(program)
    found: dict[n.Var, Sharded] = {}
    for role in ("reader", "writer"):
        moved = moves(program, role)
        for data, buffer in asked.items():
            places = [(one, box, queue) for one, box, queue, _ in moved if box.buffer.data is data]
            if not places:
                continue
            one, box, queue = places[0]
            beside = [other for other, _, name, _ in moved if name == queue and other is not one]
            if len(places) > 1 or beside or data in found:
                message = f"{buffer.name!r} is {layout_of(func, buffer)}, and its tiles are not all that {queue} holds."
                _refuse(message, box.span, "move it at one place of the kernel, in tiles of its own")
            found[data] = _sharded(program, card, shapes, buffer, one, box, queue)
    return found


def _sharded(
    program: Program, card: Card, shapes: Shapes, buffer: n.Buffer, one: Reached, box: Box, queue: str
) -> Sharded:
    statement = one.op.statement
    assert isinstance(statement, n.Evaluate) and isinstance(statement.value, n.Call)
    layout = layout_of(program.func, buffer)
    if not isinstance(operation(statement.value), Copy) or box.buffer is not buffer:
        message = f"{buffer.name!r} is {layout}, and T.{statement.value.op} does not move its tiles as they lie."
        _refuse(message, box.span, "copy them: T.copy")
    cores = len(schedule_of(program.func).shares)
    grids = _grids(cores, row_of(program, card))
    tried = {name: _shards_of_buffer(shapes, buffer, one, box, grid, cores) for name, grid in grids.items()}
    match tried[layout]:
        case str(fault):
            fits = [name for name, made in tried.items() if not isinstance(made, str)]
            help = f"write {' or '.join(fits)}" if fits else _OTHER
            _refuse(f"{buffer.name!r} is {layout}, and {fault}", box.span, help)
        case shape:
            return Sharded(buffer, layout, grids[layout], shape, queue)


_OTHER = "choose cores and blocks so that each core moves the tiles of its shard once, in rows"


def _refuse(message: str, span: Span, help: str) -> NoReturn:
    raise refuse("TN21", message, f"{help}; or leave it in DRAM: dram_interleaved.", at=span)


def _grids(cores: int, wide: int) -> Mapping[str, tuple[int, int]]:
    """The shards down and across of each layout; blocks lie on the grid as its cores do."""
    return {
        "height_sharded": (cores, 1), "width_sharded": (1, cores),
        "block_sharded": (-(-cores // wide), min(cores, wide)),
    }  # fmt: skip


def _shards_of_buffer(
    shapes: Shapes, buffer: n.Buffer, one: Reached, box: Box, grid: tuple[int, int], cores: int
) -> tuple[int, int] | str:
    """The tiles of a shard down and across; or what does not fit."""
    whole = shapes.of(buffer)
    down, across = whole.count * whole.high, whole.wide
    if grid[0] * grid[1] != cores or down % grid[0] or across % grid[1]:
        return f"{down} × {across} tiles do not make {grid[0]} × {grid[1]} shards, one for each of {cores} cores."
    shape = down // grid[0], across // grid[1]
    rows, columns = _moved(shapes, whole.high, one, box)
    counts = one.count(cores) * rows.shape[1]
    for core in np.flatnonzero(counts != prod(shape)):
        return f"core {core} moves {counts[core]} tiles, and its shard has {prod(shape)}: {shape[0]} × {shape[1]}."
    shard = np.arange(cores)[:, None]
    tile = np.arange(prod(shape))[None, :]
    want = shard // grid[1] * shape[0] + tile // shape[1], shard % grid[1] * shape[1] + tile % shape[1]
    have = rows.reshape(want[0].shape), columns.reshape(want[1].shape)
    for core, k in np.argwhere((have[0] != want[0]) | (have[1] != want[1])):
        told = [f"({a[core, k]}, {b[core, k]})" for a, b in (have, want)]
        return f"core {core} moves tile {told[0]} where its shard has tile {told[1]}."
    return shape


def _moved(shapes: Shapes, high: int, one: Reached, box: Box) -> tuple[Any, Any]:
    """The row and the column, in tiles, of every tile of a box, for each time that it is moved."""
    starts, sizes, whole = matrix_box(box, shapes)
    at = starts_of(one, starts)
    lead = np.zeros_like(one.core)
    for start, extent in zip(at[:-2], whole[:-2], strict=True):
        lead = lead * extent + start
    matrices, deep, wide = prod(sizes[:-2]), *(-(-size // TILE) for size in sizes[-2:])
    m, r, c = np.unravel_index(np.arange(matrices * deep * wide), (matrices, deep, wide))
    return (lead[:, None] + m) * high + at[-2][:, None] // TILE + r, at[-1][:, None] // TILE + c
