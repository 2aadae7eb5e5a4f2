"""The reader and the writer kernel: tiles between memory and the circular buffers of a core."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tensorir.runtime.errors import refuse
from tensorir.tenstorrent.items import is_whole
from tensorir.tenstorrent.kernels.nodes import (
    MOVES,
    Barrier,
    Bind,
    Branch,
    Kernel,
    Loop,
    Op,
    Program,
    Sync,
    Work,
    rewritten,
    without_unused,
)
from tensorir.tenstorrent.kernels.printing import free
from tensorir.tenstorrent.metal.compute import ONES, Writer
from tensorir.tenstorrent.metal.memory import Arguments, Memory, Queues, Sent, tile_of
from tensorir.tenstorrent.traffic import Line
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Box, Copy, operation

_CALLS = {"reserve": "cb_reserve_back", "push": "cb_push_back", "wait": "cb_wait_front", "pop": "cb_pop_front"}


def dataflow_kernel(
    program: Program,
    role: str,
    queues: Queues,
    memories: Mapping[n.Var, Memory],
    arguments: Arguments,
    folds: bool,
    lines: Mapping[int, Line],
    kept: Collection[n.Var],
) -> str:
    """The text of the reader or the writer; `lines` are loads whose blocks are multicast.

    What lies in the core's own memory, by its data, is `kept` where it is: its tiles are handed on and not moved.
    """
    kernel = program[role]

    def moved(op: Op) -> tuple[Op, ...]:
        return () if isinstance(op, Work) and _boxes(op, role)[0].buffer.data in kept else (op,)

    kernel = replace(kernel, body=without_unused(rewritten(kernel.body, moved)))
    mover = _Mover(kernel, queues, memories, Writer(arguments), lines)
    for memory in mover.moved():
        arguments.place(memory.buffer)
    if folds:
        mover.ones()
    mover.prepare()
    mover.suite(kernel.body)
    if mover.sent:
        mover.out.line("noc_async_atomic_barrier();")
    accessors: list[str] = []
    before = "0"
    for memory in mover.moved():
        name, queue = arguments.names.of(memory.buffer), mover.queue_of(memory)
        accessors.append(f"    constexpr auto {name}_args = TensorAccessorArgs<{before}>();")
        accessors.append(
            f"    const auto {name} = TensorAccessor({name}_args, {name}_address, get_tile_size({queue}));"
        )
        before = f"{name}_args.next_compile_time_args_offset()"
    used = [q for q in queues.all if q.name in mover.used]
    values = ['#include "hostdevcommon/common_values.hpp"'] if mover.sent else []
    text = [
        "#include <algorithm>", "#include <cstdint>", '#include "api/dataflow/dataflow_api.h"', *values, "",
        *(f"constexpr uint32_t {q.name} = tt::CBIndex::c_{q.index};" for q in used), "",
        "void kernel_main() {", *arguments.lines(), *accessors, *mover.out.lines, "}", "",
    ]  # fmt: skip
    return "\n".join(text)


@dataclass(slots=True)
class _Mover:
    kernel: Kernel
    queues: Queues
    memories: Mapping[n.Var, Memory]
    out: Writer
    lines: Mapping[int, Line]
    sent: dict[int, str] = field(default_factory=dict[int, str])
    used: dict[str, None] = field(default_factory=dict[str, None])
    moving: bool = False

    def moves(self, body: Sequence[Op]) -> list[Work]:
        found: list[Work] = []
        for op in body:
            match op:
                case Work():
                    found.append(op)
                case Loop(body=inner):
                    found += self.moves(inner)
                case Branch(_, then, otherwise):
                    found += self.moves((*then, *otherwise))
                case _:
                    pass
        return found

    def moved(self) -> list[Memory]:
        """The memory that the kernel reads or writes, in the order of the text."""
        boxes = [self.boxes(op)[0] for op in self.moves(self.kernel.body)]
        return list(dict.fromkeys(self.memories[box.buffer.data] for box in boxes))

    def queue_of(self, memory: Memory) -> str:
        """A circular buffer whose tiles come from a memory, or go there."""
        pairs = [self.boxes(op) for op in self.moves(self.kernel.body)]
        block = next(tile.buffer for box, tile in pairs if self.memories[box.buffer.data] is memory)
        return self.queues.of(block).name

    def boxes(self, op: Work) -> tuple[Box, Box]:
        return _boxes(op, self.kernel.role)

    def ones(self) -> None:
        """The tile of ones by which sums are scaled: the first row of each of its four faces of 16 × 16."""
        queue = self.queues.constant("CB_ones", ONES)
        self.used[queue.name] = None
        narrow = queue.format.narrow
        row, face = (8, 128) if narrow else (16, 256)  # in words of 32 bits
        word = "0x3f803f80" if narrow else "0x3f800000"
        for text in (
            f"cb_reserve_back({queue.name}, 1);",
            f"auto* ones = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_write_ptr({queue.name}));",
            f"for (uint32_t word = 0; word < {4 * face}; ++word) {{",
            f"    ones[word] = word % {face} < {row} ? {word} : 0;",
            "}",
            f"cb_push_back({queue.name}, 1);",
        ):
            self.out.line(text)

    def prepare(self) -> None:
        """The preparation of a multicast: its facts among the arguments, and its semaphores."""
        for op in self.moves(self.kernel.body):
            if (line := self.lines.get(id(op))) is None:
                continue
            arguments = self.out.arguments
            name = free(f"{self.boxes(op)[0].buffer.name}_block", arguments.taken)
            self.sent[id(op)] = name
            for fact in Sent.FACTS:
                arguments.place(Sent(name, line.along, fact))
            for side in ("ready", "there"):
                self.out.line(f"const uint32_t {name}_{side}_address = get_semaphore({name}_{side});")
                pointer = "reinterpret_cast<volatile tt_l1_ptr uint32_t*>"
                self.out.line(f"auto* {name}_{side}_flag = {pointer}({name}_{side}_address);")
            self.out.line(f"noc_semaphore_set({name}_there_flag, {name}_sends ? VALID : INVALID);")

    def suite(self, body: Sequence[Op]) -> None:
        for op in body:
            match op:
                case Sync(action, buffer, count):
                    self.used[self.queues.named(buffer).name] = None
                    self.out.line(f"{_CALLS[action]}({buffer}, {count});")
                case Bind(var, value):
                    self.out.bind(var, value)
                case Loop(body=inner):
                    self.moving = self.moves_behind(inner, self.moving)
                    self.out.control(op, self.suite)
                case Branch():
                    before, behind = self.moving, self.moves_behind((op,), self.moving)

                    def side(body: Sequence[Op], before: bool = before) -> None:
                        self.moving = before
                        self.suite(body)

                    self.out.control(op, side)
                    self.moving = behind
                case Work():
                    self.move(op)
                    self.moving = self.moves_behind((op,), self.moving)
                case Barrier(way):
                    # what is multicast is there already: it is read, or received, before its kernel goes on
                    if self.moving or way != MOVES.get(self.kernel.role):
                        self.out.line(f"noc_async_{way}_barrier();")
                    self.moving = self.moves_behind((op,), self.moving)

    def moves_behind(self, body: Sequence[Op], before: bool) -> bool:
        """True if tiles may be on their way behind a body: moved by the core itself, with no barrier since."""
        now = before
        for op in body:
            match op:
                case Work():
                    now = now or id(op) not in self.sent
                case Barrier(way):
                    now = now and way != MOVES.get(self.kernel.role)
                case Loop(body=inner):
                    now = now or self.moves_behind(inner, now)
                case Branch(_, then, otherwise):
                    now = self.moves_behind(then, now) or self.moves_behind(otherwise, now)
                case Sync() | Bind():
                    pass
        return now

    def move(self, op: Work) -> None:
        """A block of tiles: moved by the core itself, or sent by the first core of its row or column."""
        if (name := self.sent.get(id(op))) is None:
            self.moved_here(op)
            return
        # its own barrier: it is there before it is sent
        queue = self.queues.of(self.boxes(op)[1].buffer)
        to = f"get_noc_multicast_addr({', '.join(f'{name}_{x}' for x in ('next_x', 'next_y', 'last_x', 'last_y'))}, "
        line = self.out.line
        line(f"if ({name}_sends) {{")
        self.out.depth += 1
        self.moved_here(op)
        line("noc_async_read_barrier();")
        line(f"if ({name}_others > 0) {{")
        self.out.depth += 1
        # all others have room for the block; they have it before they are told so
        line(f"noc_semaphore_wait({name}_ready_flag, {name}_others);")
        line(f"noc_semaphore_set({name}_ready_flag, 0);")
        line(f"const uint32_t at = get_write_ptr({queue.name});")
        line(f"const uint32_t bytes = {queue.tiles} * get_tile_size({queue.name});")
        line(f"noc_async_write_multicast(at, {to}at), bytes, {name}_others);")
        line("noc_async_write_barrier();")
        message = f"{name}_there_address"
        line(f"noc_semaphore_set_multicast({message}, {to}{message}), {name}_others);")
        line("noc_async_write_barrier();")
        self.out.end()
        self.out.depth -= 1
        line("} else {")
        self.out.depth += 1
        line(f"noc_semaphore_set({name}_there_flag, INVALID);")
        line(f"noc_semaphore_inc(get_noc_addr({name}_first_x, {name}_first_y, {name}_ready_address), 1);")
        line(f"noc_semaphore_wait({name}_there_flag, VALID);")
        self.out.end()

    def moved_here(self, op: Work) -> None:
        """The tiles of a box, one after the other; they are there behind a barrier."""
        box, tile = self.boxes(op)
        reads = self.kernel.role == "reader"
        memory, queue = self.memories[box.buffer.data], self.queues.of(tile.buffer)
        name = self.out.names.of(memory.buffer)
        first, sizes, strides = tile_of(box, memory)
        if prod(sizes) != queue.tiles:
            message = f"the tiles of this box of {box.buffer.name!r} are not those of {tile.buffer.name!r}."
            raise refuse("TN16", message, "let the last two dims of both be the same.", at=box.span)
        self.out.line("{")
        self.out.depth += 1
        self.out.line(f"uint32_t at = get_{'write' if reads else 'read'}_ptr({queue.name});")
        self.out.line(f"const uint32_t page = {self.out.expr(first)};")
        letters = ["m", "r", "c"]
        opened = [self.out.counted(x, size) for x, size in zip(letters, sizes, strict=True)]
        offset = [f"{x} * {s}" if s > 1 else x for x, s, size in zip(letters, strides, sizes, strict=True) if size > 1]
        page = " + ".join(["page", *offset])
        if reads:
            self.out.line(f"noc_async_read_tile({page}, {name}, at);")
        else:
            self.out.line(f"noc_async_write_tile({page}, {name}, at);")
        if any(opened):
            self.out.line(f"at += get_tile_size({queue.name});")
        for one in opened:
            self.out.end(one)
        self.out.end()


def _boxes(op: Work, role: str) -> tuple[Box, Box]:
    """The box in memory that a statement moves, and the block that it moves it to or from."""
    match op.statement:
        case n.Evaluate(n.Call() as call):
            record = operation(call)
            if isinstance(record, Copy) and (record.safe is None or _is_zero(record.safe)):
                box, tile = (record.src, record.dst) if role == "reader" else (record.dst, record.src)
                assert is_whole(tile)
                return box, tile
            what = f"T.{call.op}" if not isinstance(record, Copy) else "a copy with a value for what is outside"
            help = "copy tiles as they are: T.copy; transpose and add them in the computation."
            raise refuse("TN16", f"{what} from or to memory has no call on the card.", help, at=call.span)
        case _:
            raise AssertionError(op)


def _is_zero(value: n.Expr) -> bool:
    return isinstance(value, n.IntImm | n.FloatImm) and value.value == 0
