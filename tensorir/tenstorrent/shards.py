"""Buffers that lie in the L1 memory of the cores: which tiles of them each core has, and whether these are its own.

A buffer is cut into a rectangle of shards, one for each core, in the order of the cores. A circular buffer lies on the
shard of its core, so no tile moves: it works where the core's blocks are those of its shard, each once, in their order.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tenstorrent.defaults import layout_of
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.metal.cards import Card
from tensorir.tenstorrent.metal.shapes import TILE, Shapes, matrix_box, shapes_of
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tenstorrent.traffic import Reached, moves, row_of, starts_of
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Box, Copy, operation

__all__ = ["Sharded", "shards_of"]


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
    tried = {name: _of(shapes, buffer, one, box, grid, cores) for name, grid in grids.items()}
    match tried[layout]:
        case str(fault):
            fits = [name for name, made in tried.items() if not isinstance(made, str)]
            help = f"write {' or '.join(fits)}" if fits else _OTHER
            _refuse(f"{buffer.name!r} is {layout}, and {fault}", box.span, help)
        case shape:
            return Sharded(buffer, layout, grids[layout], shape, queue)


_OTHER = "choose cores and blocks so that each core moves the tiles of its shard once, in rows"


def _refuse(message: str, span: Span, help: str) -> NoReturn:
    raise DiagnosticError(Diagnostic("TN21", message, span, help=f"{help}; or leave it in DRAM: dram_interleaved."))


def _grids(cores: int, wide: int) -> Mapping[str, tuple[int, int]]:
    """The shards down and across of each layout; blocks lie on the grid as its cores do."""
    return {
        "height_sharded": (cores, 1), "width_sharded": (1, cores),
        "block_sharded": (-(-cores // wide), min(cores, wide)),
    }  # fmt: skip


def _of(
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
