"""Buffers that are loaded and stored: whether the reader, which runs ahead, ever loads what a store changes.

All tiles are gone through, with what each loads and stores in the order of the kernel's text. An element that is stored
must only be loaded by the same tile, and before: then neither cores nor programs of a core meet in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorir.tenstorrent.items import Compute, Control, Item, Move
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.interpret.code import compiled
from tensorir.tir.interpret.machine import Machine
from tensorir.tir.tiles.operations import Box
from tensorir.tir.walk import walk

__all__ = ["is_safe_in_place"]

MOST_MOVES = 1 << 16
"""How many moves of tiles are gone through, at most."""


class _Unknown(Exception):
    """Something that only a call tells decides what is moved."""


def is_safe_in_place(func: n.PrimFunc, items: Sequence[Item], memory: n.Var) -> bool:
    """Whether a persistent kernel stores what no other tile loads, and what the tile itself has loaded before.

    False as well where only a call tells, and for more moves than are gone through.
    """
    buffer = next(b for b in func.buffer_map.values() if b.data is memory)
    shape = [e.value for e in buffer.shape if isinstance(e, n.IntImm)]
    if len(shape) < len(buffer.shape):
        return False
    try:
        moves = list(_moves(func, items, buffer))
    except _Unknown:
        return False
    first = np.full(shape, -1)  # of the stores of an element, the number among all moves, and the tile
    tile = np.full(shape, -1)
    for k, (now, stores, place) in enumerate(moves):
        if stores:
            new = first[place] < 0
            if (tile[place][~new] != now).any():
                return False
            first[place] = np.where(new, k, first[place])
            tile[place] = now
    return all(
        stores or ((first[place] < 0) | ((tile[place] == now) & (first[place] > k))).all()
        for k, (now, stores, place) in enumerate(moves)
    )


_Place = tuple[slice, ...]


def _moves(func: n.PrimFunc, items: Sequence[Item], buffer: n.Buffer) -> Iterator[tuple[int, bool, _Place]]:
    """The tile, whether it stores, and where, for each move of a buffer in the order of the text, tile by tile."""
    m = Machine()
    start, count, wide, high = [p for p in func.params if p not in func.buffer_map][-4:]
    plan = schedule_of(func)
    given = 0, plan.tiles, *plan.grid[:2]
    for param, known in zip((start, count, wide, high), given, strict=True):
        m.env[param] = np.int32(known)
    left = [MOST_MOVES]

    def value(expr: n.Expr) -> int:
        if any(isinstance(v, n.Var) and v not in m.env for v in walk(expr)):
            raise _Unknown
        found: Any = compiled(expr)(m)
        return int(found)

    def place(box: Box) -> _Place:
        left[0] -= 1
        if left[0] < 0 or len(box.buffer.shape) != len(buffer.shape) or box.buffer is not buffer:
            raise _Unknown  # a view has other indices
        found: list[slice] = []
        for low, size in zip(box.starts, box.extents, strict=True):
            first = value(low)
            found.append(slice(max(first, 0), max(first + value(size), 0)))
        return tuple(found)

    def moved(suite: Sequence[Item]) -> bool:
        """Whether a suite moves the buffer at all."""
        for item in suite:
            match item:
                case Move(_, record) if buffer.data in (record.src.buffer.data, record.dst.buffer.data):
                    return True
                case Control(_, bodies) if any(moved(body) for body in bodies):
                    return True
                case _:
                    pass
        return False

    def of(suite: Sequence[Item], tile: int) -> Iterator[tuple[int, bool, _Place]]:
        for item in suite:
            match item:
                case Move(kind, record):
                    if kind != "store" and record.src.buffer.data is buffer.data:
                        yield tile, False, place(record.src)
                    if kind != "load" and record.dst.buffer.data is buffer.data:
                        yield tile, True, place(record.dst)
                case Control(n.LetStmt(var, bound), _):
                    if all(not isinstance(v, n.Var) or v in m.env for v in walk(bound)):
                        m.env[var] = var.dtype.numpy.type(value(bound))
                case Control(_, bodies) if bodies and not any(moved(body) for body in bodies):
                    pass
                case Control(n.For(var, low, extent), (body,)):
                    first = value(low)
                    own = isinstance(extent, n.Var) and extent is count
                    for k in range(first, first + value(extent)):
                        m.env[var] = var.dtype.numpy.type(k)
                        yield from of(body, k if own else tile)
                case Control(n.IfThenElse(condition), bodies):
                    taken = 0 if value(condition) else 1
                    if taken < len(bodies):
                        yield from of(bodies[taken], tile)
                case Compute() | Control():
                    pass

    yield from of(items, 0)
