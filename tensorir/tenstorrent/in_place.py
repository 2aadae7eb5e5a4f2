"""Facts that the text of a kernel shows of all its tiles, and of buffers that are updated in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.runtime.errors import DiagnosticError
from tensorir.tenstorrent.grid import binding, grid_of
from tensorir.tenstorrent.items import Compute, Control, Item, Move, items_of
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.build import seq
from tensorir.tir.interpret.machine import Machine, compiled
from tensorir.tir.ranges import values
from tensorir.tir.tiles.operations import Box
from tensorir.tir.tiles.warp_groups import normal
from tensorir.tir.trees import first_difference, transform, walk

# Buffers that are loaded and stored: whether the reader, which runs ahead, ever loads what a store changes.
#
# All tiles are gone through, with what each loads and stores in the order of the kernel's text. An element that is
# stored must only be loaded by the same tile, and before: then neither cores nor programs of a core meet in it.

MOST_MOVES = 1 << 16
"""How many moves of tiles are gone through, at most."""


class _Unknown(Exception):
    """Something that only a call tells decides what is moved."""


def is_safe_in_place(func: n.PrimFunc, items: Sequence[Item], memory: n.Var) -> bool:
    """True if a persistent kernel stores what no other tile loads, and what the tile itself has loaded before.

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
        """True if a suite moves the buffer at all."""
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


# What the text of kernels says of all tiles of a grid: that each is its block, that no two meet, and how they differ.
#
# The indices of a block are computed for all tiles at once, as arrays. Tiles of one kind take the same branches, run
# the same loops, and cut boxes of memory off at the same places; so what one of them does, all do.


Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Blocks:
    """For the indices of blocks in the order of their axes, those that a grid has and those that a kernel computes."""

    wanted: tuple[Numbers, ...]
    found: tuple[Numbers, ...]

    @property
    def wrong(self) -> int | None:
        """The first tile that is computed as another block; None where there is none."""
        apart = np.zeros_like(self.wanted[0], bool)
        for want, got in zip(self.wanted, self.found, strict=True):
            apart |= want != got
        return int(np.argmax(apart)) if apart.any() else None


def blocks_of_tiles(before: n.PrimFunc, after: n.PrimFunc, blocks: tuple[Numbers, Numbers, Numbers]) -> Blocks | None:
    """The indices of all tiles where `after` is a loop over the grid of `before` by its text; None where it is not.

    `blocks` are the indices along x, y and z that the tiles have in their order.
    """
    axes = sorted(grid_of(before).axes, key=lambda axis: axis.tag)
    start, count, wide, high = after.params[-4:]
    loops = [node for node in walk(after.body) if isinstance(node, n.For) and node.extent is count]
    if len(loops) != 1 or not isinstance(loops[0].body, n.SeqStmt):
        return None
    loop, parts = loops[0], loops[0].body.seq
    lets = [part for part in parts[: 1 + len(axes)] if isinstance(part, n.LetStmt)]
    is_plain = isinstance(loop.min, n.IntImm) and loop.min.value == 0 and loop.kind is n.ForKind.SERIAL
    if not is_plain or len(lets) != 1 + len(axes) or lets[0].value not in (n.Add(start, loop.loop_var),):
        return None
    rest = seq(parts[1 + len(axes) :], loop.span)
    body = transform(after.body, lambda node: rest if node is loop else None)
    alone = replace(before, params=(*before.params, *(a.var for a in axes)), body=_unbound(before.body))
    within = replace(after, params=(*after.params[:-4], *(x.var for x in lets[1:])), body=body)
    if first_difference(*(replace(f, name="", attrs={}) for f in (alone, within))) is not None:
        return None
    tiles = np.arange(blocks[0].size)
    sizes = [int(b.max(initial=0)) + 1 for b in blocks]
    env: dict[n.Var, Any] = {lets[0].var: tiles, wide: sizes[0], high: sizes[1]}
    found = [values(x.value, env) for x in lets[1:]]
    first = [a.node.min.value if isinstance(a.node, n.For) and isinstance(a.node.min, n.IntImm) else 0 for a in axes]
    wanted = [blocks["xyz".index(a.tag[-1])] + low for a, low in zip(axes, first, strict=True)]
    known = [np.broadcast_to(f, tiles.shape) for f in found if f is not None]
    return Blocks(tuple(wanted), tuple(known)) if len(known) == len(found) else None


def _unbound(body: n.Stmt) -> n.Stmt:
    def rule(node: n.Node) -> n.Node | None:
        axis = binding(node)
        return None if axis is None else axis.node.body

    return transform(body, rule)


def meet_nowhere(after: n.PrimFunc) -> bool:
    """True if no tile stores what another one loads or stores; False as well where that is not known."""
    plain = normal(after)
    try:
        items = items_of(plain, plain.body)
        return all(is_safe_in_place(plain, items, memory) for memory in dict.fromkeys(_stored(items)))
    except DiagnosticError:
        return False  # what is neither moved nor computed tile by tile is run


def _stored(items: Sequence[Item]) -> Iterator[n.Var]:
    """The memory that tiles are stored to."""
    for item in items:
        match item:
            case Move("store" | "through", record):
                yield record.dst.buffer.data
            case Control(_, bodies):
                for body in bodies:
                    yield from _stored(body)
            case _:
                pass


def kinds_of_tiles(before: n.PrimFunc, blocks: tuple[Numbers, Numbers, Numbers]) -> list[int] | None:
    """The first and the last tile of each kind; None where kinds depend on what a tile computes."""
    axes = grid_of(before).axes
    at = {a.var: blocks["xyz".index(a.tag[-1])] + _first(a.node) for a in axes}
    told = _Told(frozenset(before.buffer_map.values()), dict(at), dict(at), set(at))
    facts = list(told.of(_unbound(before.body)))
    if any(fact is None for fact in facts):
        return None
    size = blocks[0].size
    rows = [np.broadcast_to(fact, (size,)) for fact in facts if fact is not None]
    if not rows:
        return sorted({0, size // 2, size - 1})
    table = np.stack([row.astype(np.int64) for row in rows])
    _, first = np.unique(table, axis=1, return_index=True)
    _, last = np.unique(table[:, ::-1], axis=1, return_index=True)
    return sorted({*map(int, first), *(size - 1 - int(k) for k in last)})


def _first(node: n.For | n.AttrStmt) -> int:
    return node.min.value if isinstance(node, n.For) and isinstance(node.min, n.IntImm) else 0


@dataclass(slots=True)
class _Told:
    """Facts that make kinds: `low` and `high` are values of variables, at the two ends of loops inside of a block."""

    outer: frozenset[n.Buffer]
    low: dict[n.Var, Any]
    high: dict[n.Var, Any]
    follow: set[n.Var] = field(default_factory=set[n.Var])

    def of(self, body: n.Stmt) -> Iterator[Numbers | None]:
        """For each decision and each access of memory that the block has a say in, a number for each tile."""
        for node in walk(body):
            match node:
                case n.LetStmt(var, value) | n.Let(var, value):
                    self.know(var, values(value, self.low), values(value, self.high), self.follows(value))
                case n.For(var, low, extent):
                    yield from self.both(low)
                    yield from self.both(extent)
                    first, size = values(low, self.low), values(extent, self.high)
                    last = values(low, self.high)
                    end = None if last is None or size is None else last + size - 1
                    self.know(var, first, end, self.follows(low) or self.follows(extent))
                case n.IfThenElse(condition) | n.While(condition) | n.Select(condition) | n.AssertStmt(condition):
                    yield from self.both(condition)
                case n.BlockRealize(_, predicate):
                    yield from self.both(predicate)
                case n.Call(op="if_then_else", args=(n.Expr() as condition, *_)):
                    yield from self.both(condition)
                case n.Call(op="region", args=(n.BufferLoad(buffer, starts), _, *sizes)) if buffer in self.outer:
                    for start, size, extent in zip(starts, sizes, buffer.shape, strict=True):
                        if isinstance(size, n.Expr):
                            yield from self.inside(start, size, extent)
                case n.BufferLoad(buffer, indices) | n.BufferStore(buffer, _, indices) if buffer in self.outer:
                    for index, extent in zip(indices, buffer.shape, strict=True):
                        yield from self.inside(index, n.IntImm(1, index.dtype), extent)
                case _:
                    pass

    def know(self, var: n.Var, low: Any, high: Any, follows: bool) -> None:
        if low is not None and high is not None:
            self.low[var], self.high[var] = low, high
        if follows:
            self.follow.add(var)

    def follows(self, expr: n.Expr) -> bool:
        return any(isinstance(v, n.Var) and v in self.follow for v in walk(expr))

    def both(self, expr: n.Expr) -> Iterator[Numbers | None]:
        if self.follows(expr):
            yield values(expr, self.low)
            yield values(expr, self.high)

    def inside(self, start: n.Expr, size: n.Expr, extent: n.Expr) -> Iterator[Numbers | None]:
        """The numbers of elements of a box in front of its buffer, and within, at both ends of loops."""
        if not self.follows(start) and not self.follows(size):
            return
        for env in (self.low, self.high):
            first, count, end = (values(e, env) for e in (start, size, extent))
            if first is None or count is None or end is None:
                yield None
                continue
            yield np.minimum(first, 0)
            yield np.minimum(end - first, count)
