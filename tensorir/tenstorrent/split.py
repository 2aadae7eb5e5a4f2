"""A persistent kernel as the three programs of a core: a reader, a computation and a writer.

Every program has the control of the kernel, as far as its own work needs it. A tile that is loaded travels through a
circular buffer from the reader to the computation, a tile that is stored from the computation to the writer. What is
only read is used where it lies, at the front of its buffer, and popped behind its last use; what the computation
changes is copied into a tile of its own first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from tensorir.runtime.errors import Span, refuse
from tensorir.tenstorrent.grid import is_persistent, shard
from tensorir.tenstorrent.in_place import is_safe_in_place
from tensorir.tenstorrent.items import (
    Compute,
    Control,
    Item,
    Move,
    all_of,
    block_of,
    copy,
    extents_of,
    is_whole,
    items_of,
    names_of_tiles,
    pages_of,
    region,
    uses,
    with_box,
)
from tensorir.tenstorrent.kernels.nodes import (
    Barrier,
    Bind,
    Branch,
    CircularBuffer,
    Kernel,
    Loop,
    Op,
    Program,
    Sync,
    Work,
    without_unused,
)
from tensorir.tenstorrent.kernels.protocol import tiles
from tensorir.tenstorrent.schedule import pipeline, schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.tiles.operations import Atomic, Box, Copy, Im2col, Record, Transpose
from tensorir.tir.tiles.warp_groups import normal


def split(func: n.PrimFunc, capacity: int | Mapping[str, int] | None = None) -> Program:
    """The reader, compute and writer programs of a kernel whose tiles are loaded, computed and stored.

    A kernel with a grid gets default annotations, a schedule and shards where it has none, and becomes persistent.
    `capacity` is the number of tiles that circular buffers hold, for all or by name; by default two blocks each. Raises
    TN07 for what is neither loaded, computed nor stored tile by tile or has no words in C++, TN08 where tiles decide
    what is loaded, TN09 for a buffer in which a store may come before a load, TN10 for a capacity below one block, and
    what the passes raise.

    >>> from tensorir.tir import parse
    >>> main = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         with T.sblock("tilelang_root"):
    ...             a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
    ...             T.copy(T.region(A[bx, 0, 0], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
    ...             T.copy(T.region(a[0, 0], 1, 32, 32), T.region(B[bx, 0, 0], 2, 1, 32, 32))
    ... ''')["main"]
    >>> program = split(main)
    >>> [(b.name, b.pages, b.capacity) for b in program.buffers]
    [('CB_A', 1, 2), ('CB_B', 1, 2)]
    >>> print(program.files["writer.cpp"].split("{", 1)[1])  # doctest: +ELLIPSIS +NORMALIZE_WHITESPACE
    <BLANKLINE>
        ...
        for (int32_t i = 0; i < tt_count; ++i) {
            const int32_t tile_id = tt_start_id + i;
            const int32_t bx = tile_id % grid_x;
            cb_wait_front(CB_B, 1);
            write_region(CB_B, B, {bx, 0, 0}, {1, 32, 32});
            noc_async_write_barrier();
            cb_pop_front(CB_B, 1);
        }
    }
    <BLANKLINE>
    """
    func = shard(func) if is_persistent(func) else pipeline(func).result
    schedule_of(func)
    plain = normal(func)
    items = items_of(plain, plain.body)
    split_up = _Split(plain, capacity)
    split_up.look(items)
    reader, compute, writer = split_up.suite(items)
    split_up.capacities_are_used()
    kernels = (
        Kernel("reader", without_unused(reader), ()),
        Kernel("compute", without_unused(compute), _largest_first(split_up.local)),
        Kernel("writer", without_unused(writer), ()),
    )
    program = Program(func, tuple(split_up.buffers.values()), kernels)
    _ = program.files  # refuses what has no words in the C++ of a core
    return program


# The three programs


_Programs = tuple[list[Op], list[Op], list[Op]]


@dataclass(slots=True)
class _Split:
    func: n.PrimFunc
    capacity: int | Mapping[str, int] | None
    buffers: dict[object, CircularBuffer] = field(default_factory=dict[object, CircularBuffer])
    local: dict[n.Buffer, None] = field(default_factory=dict[n.Buffer, None])
    changed: set[n.Buffer] = field(default_factory=set[n.Buffer])
    direct: set[n.Buffer] = field(default_factory=set[n.Buffer])

    def look(self, items: Sequence[Item]) -> None:
        """Find out which tiles are changed, which can be used where they lie, and whether loads and stores mix."""
        loads: dict[n.Buffer, list[tuple[int, bool]]] = {}
        outside: set[n.Buffer] = set()
        moved: dict[str, dict[n.Var, Span]] = {"load": {}, "store": {}}

        def visit(suite: Sequence[Item], ready: frozenset[n.Buffer]) -> None:
            now = set(ready)
            for item in suite:
                match item:
                    case Move(kind, record, call):
                        if kind != "store":
                            moved["load"].setdefault(record.src.buffer.data, call.span)
                        if kind != "load":
                            moved["store"].setdefault(record.dst.buffer.data, call.span)
                        if kind == "load":
                            where_it_lies = is_whole(record.dst) and record.src.buffer.dtype == record.dst.buffer.dtype
                            loads.setdefault(record.dst.buffer, []).append((id(suite), where_it_lies))
                            now.add(record.dst.buffer)
                        elif kind == "store":
                            outside.update({record.src.buffer} - now)
                    case Compute(statement):
                        used, written = uses(statement)
                        outside.update(used - now)
                        self.changed |= written
                    case Control(_, bodies):
                        for body in bodies:
                            visit(body, frozenset(now))

        visit(items, frozenset())
        names = {buffer.data: buffer.name for buffer in self.func.buffer_map.values()}
        for memory, span in moved["store"].items():
            if memory in moved["load"] and not is_safe_in_place(self.func, items, memory):
                message = f"{names[memory]!r} is loaded and stored, and the reader runs ahead of the writer."
                help = (
                    "store into another buffer, or only what no other tile loads and the tile itself has loaded before."
                )
                raise refuse("TN09", message, help, at=span)
        for buffer, sites in loads.items():
            if len({suite for suite, _ in sites}) == 1 and all(whole for _, whole in sites):
                self.direct.add(buffer)
        views = {b for names in names_of_tiles(self.func.body).values() if len(names) > 1 for b in names}
        self.direct -= self.changed | outside | views

    def suite(self, items: Sequence[Item]) -> _Programs:
        """The items as statements of the three programs."""
        made: _Programs = ([], [], [])
        reader, compute, writer = made
        last = self._last_uses(items)
        for place, item in enumerate(items):
            match item:
                case Move("load", record, call):
                    self._load(record, call, reader, compute)
                case Move("store", record, call):
                    self._store(record, call, compute, writer)
                case Move(_, record, call):
                    self._through(record, call, made)
                case Compute(statement):
                    used, _ = uses(statement)
                    self._own(used)
                    fronts = tuple(self.buffers[b].name for b in self._fronts(used))
                    compute.append(Work(statement, fronts, None, statement.span))
                case Control(n.LetStmt(var, value), _):
                    for program in made:
                        program.append(Bind(var, value))
                case Control(node, bodies):
                    inner = [self.suite(body) for body in bodies]
                    for program, parts in zip(made, zip(*inner, strict=True), strict=True):
                        program.extend(_around(node, [tuple(p) for p in parts]))
            for buffer in last.get(place, ()):
                queue = self.buffers[buffer]
                unused = isinstance(item, Move) and item.kind == "load" and item.record.dst.buffer is buffer
                compute.append(Sync("pop", queue.name, queue.pages, unused=unused))
        return made

    def _last_uses(self, items: Sequence[Item]) -> dict[int, list[n.Buffer]]:
        """Behind which item of a suite the blocks that it loads are popped."""
        open_since: dict[n.Buffer, int] = {}
        found: dict[int, list[n.Buffer]] = {}
        for place, item in enumerate(items):
            match item:
                case Move("load", record) if (buffer := record.dst.buffer) in self.direct:
                    if buffer in open_since:
                        found.setdefault(open_since[buffer], []).append(buffer)
                    open_since[buffer] = place
                case _:
                    for buffer in _touched(item) & set(open_since):
                        open_since[buffer] = place
        for buffer, place in open_since.items():
            found.setdefault(place, []).append(buffer)
        return found

    def _fronts(self, used: Iterable[n.Buffer]) -> list[n.Buffer]:
        return sorted(self.direct & set(used), key=lambda b: b.name)

    def _own(self, used: Iterable[n.Buffer]) -> None:
        for buffer in sorted(set(used) - self.direct, key=lambda b: b.name):
            self.local.setdefault(buffer)

    def _load(self, record: Record, call: n.Call, reader: list[Op], compute: list[Op]) -> None:
        assert isinstance(record, Copy | Transpose | Im2col)
        dst = record.dst
        if dst.buffer in self.direct:
            queue = self._queue(dst.buffer, dst.buffer, record.src.buffer, call.span)
            reader.extend(self._read(queue, n.Evaluate(call, call.span), call.span))
            compute.append(Sync("wait", queue.name, queue.pages, call.span))
            return
        dtype = record.src.buffer.dtype  # what travels has the type that it has in memory
        block = self._block(dst, dtype, call.span)
        queue = self._queue((dst.buffer, extents_of(dst), str(dtype)), block, record.src.buffer, call.span)
        whole = region(all_of(queue.block), 2)
        reader.extend(self._read(queue, n.Evaluate(with_box(call, 1, whole), call.span), call.span))
        self._own((dst.buffer,))
        unpack = n.Evaluate(copy(region(all_of(queue.block), 1), region(dst, 2), call.span), call.span)
        compute += [
            Sync("wait", queue.name, queue.pages, call.span),
            Work(unpack, (queue.name,), None, call.span),
            Sync("pop", queue.name, queue.pages, call.span),
        ]

    def _store(self, record: Record, call: n.Call, compute: list[Op], writer: list[Op]) -> None:
        assert isinstance(record, Copy | Transpose | Atomic)
        src = record.src
        dtype = record.dst.buffer.dtype
        block = self._block(src, dtype, call.span)
        queue = self._queue(("store", src.buffer, extents_of(src), str(dtype)), block, record.dst.buffer, call.span)
        self._own((src.buffer,))
        fronts = tuple(self.buffers[b].name for b in self._fronts((src.buffer,)))
        pack = n.Evaluate(copy(region(src, 1), region(all_of(queue.block), 2), call.span), call.span)
        compute.extend(self._produced(queue, pack, call.span, fronts))
        writer.extend(self._written(queue, n.Evaluate(with_box(call, 0, region(all_of(queue.block), 1)), call.span)))

    def _through(self, record: Record, call: n.Call, made: _Programs) -> None:
        """From memory to memory: a block for the way."""
        assert isinstance(record, Copy | Atomic)
        reader, compute, writer = made
        source, target = record.src.buffer, record.dst.buffer
        on_the_way = block_of(source, record.src, source.dtype)
        first = self._queue(("in", id(call)), on_the_way, record.src.buffer, call.span)
        second_block = replace(block_of(source, record.src, target.dtype), name=f"{on_the_way.name}_out")
        second = self._queue(("out", id(call)), second_block, record.dst.buffer, call.span)
        box, arrived = call.args[0], region(all_of(first.block), 2)
        assert isinstance(box, n.Call)
        read = with_box(call, 1, arrived) if isinstance(record, Copy) else copy(box, arrived, call.span)
        reader.extend(self._read(first, n.Evaluate(read, call.span), call.span))
        pack = copy(region(all_of(first.block), 1), region(all_of(second.block), 2), call.span)
        compute.append(Sync("wait", first.name, first.pages, call.span))
        compute.extend(self._produced(second, n.Evaluate(pack, call.span), call.span, (first.name,)))
        compute.append(Sync("pop", first.name, first.pages, call.span))
        writer.extend(self._written(second, n.Evaluate(with_box(call, 0, region(all_of(second.block), 1)), call.span)))

    def _produced(self, queue: CircularBuffer, fill: n.Stmt, span: Span, fronts: tuple[str, ...] = ()) -> list[Op]:
        return [
            Sync("reserve", queue.name, queue.pages, span),
            Work(fill, fronts, queue.name, span),
            Sync("push", queue.name, queue.pages, span),
        ]

    def _read(self, queue: CircularBuffer, fill: n.Stmt, span: Span) -> list[Op]:
        *before, push = self._produced(queue, fill, span)
        return [*before, Barrier("read", span), push]

    def _written(self, queue: CircularBuffer, drain: n.Stmt) -> list[Op]:
        return [
            Sync("wait", queue.name, queue.pages, drain.span),
            Work(drain, (queue.name,), None, drain.span),
            Barrier("write", drain.span),
            Sync("pop", queue.name, queue.pages, drain.span),
        ]

    def _block(self, box: Box, dtype: DataType, span: Span) -> n.Buffer:
        if any(not isinstance(e, n.IntImm) for e in box.extents):
            message = f"the tile of {box.buffer.name!r} has extents that only a call tells."
            raise refuse("TN07", message, "write the extents of the tile as numbers.", at=span)
        return block_of(box.buffer, box, dtype)

    def _queue(self, key: object, block: n.Buffer, outer: n.Buffer, span: Span) -> CircularBuffer:
        if key in self.buffers:
            return self.buffers[key]
        taken = {queue.name for queue in self.buffers.values()}
        base = f"CB_{outer.name}"
        name = next(c for k in range(len(taken) + 1) if (c := base if k == 0 else f"{base}_{k}") not in taken)
        pages = pages_of(self.func, block)
        asked = self.capacity.get(name) if isinstance(self.capacity, Mapping) else self.capacity
        whole = isinstance(asked, int | np.integer)  # pyright: ignore[reportUnnecessaryIsInstance]
        if asked is not None and not whole:
            raise refuse("TN10", f"{name} holds a whole number of tiles, and not {asked!r}.", at=span)
        room = 2 * pages if asked is None else int(asked)
        if room < pages:
            message = f"{name} holds {tiles(room)}, and a block has {pages}: no block ever fits."
            help = f"give it room for {tiles(pages)} or more; {2 * pages} let both sides work."
            raise refuse("TN10", message, help, at=span)
        if room % pages:
            message = f"{name} holds {tiles(room)}, and blocks of {pages}: at its end a block would be in two pieces."
            raise refuse("TN10", message, f"give it room for a multiple of {pages} tiles.", at=span)
        queue = self.buffers[key] = CircularBuffer(name, block, pages, room)
        return queue

    def capacities_are_used(self) -> None:
        """Refuse a capacity for a buffer that there is not."""
        names = [queue.name for queue in self.buffers.values()]
        for name in self.capacity if isinstance(self.capacity, Mapping) else ():
            if name not in names:
                message = f"a capacity is given for {name}, and the circular buffers are {', '.join(names)}."
                raise refuse("TN10", message, "name one of these.", at=self.func.span)


def _largest_first(local: Iterable[n.Buffer]) -> tuple[n.Buffer, ...]:
    """Tiles in their order, of those over one memory the largest first: it is the one that has it."""
    groups: dict[n.Var, list[n.Buffer]] = {}
    for buffer in local:
        groups.setdefault(buffer.data, []).append(buffer)

    def size(buffer: n.Buffer) -> int:
        return prod(e.value if isinstance(e, n.IntImm) else 1 for e in buffer.shape) * buffer.dtype.bits

    return tuple(b for names in groups.values() for b in sorted(names, key=size, reverse=True))


def _touched(item: Item) -> set[n.Buffer]:
    match item:
        case Move(_, record):
            return {record.src.buffer, record.dst.buffer}
        case Compute(statement):
            return uses(statement)[0]
        case Control(_, bodies):
            return {b for body in bodies for inner in body for b in _touched(inner)}


def _around(node: n.For | n.IfThenElse | n.LetStmt, bodies: list[tuple[Op, ...]]) -> list[Op]:
    """A loop or a branch around what a program does in it; nothing where it does nothing."""
    if not any(not isinstance(op, Bind) for body in bodies for op in body):
        return []
    match node:
        case n.For():
            return [Loop(node.loop_var, node.min, node.extent, bodies[0])]
        case n.IfThenElse():
            return [Branch(node.condition, bodies[0], bodies[1] if len(bodies) > 1 else ())]
        case n.LetStmt():
            raise AssertionError(node)
