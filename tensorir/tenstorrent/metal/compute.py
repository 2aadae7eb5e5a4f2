"""The compute kernel: steps as calls on tiles of circular buffers and of the destination registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir.runtime.errors import refuse
from tensorir.tenstorrent.kernels.nodes import Bind, Branch, Loop, Sync
from tensorir.tenstorrent.kernels.printing import Names, cpp, cpp_type
from tensorir.tenstorrent.metal.memory import Arguments, Queue, Queues
from tensorir.tenstorrent.metal.registers import Call, Operand, calls_of, copy, float_bits
from tensorir.tenstorrent.metal.steps import (
    Accumulate,
    Arranged,
    Drop,
    Fold,
    Item,
    Made,
    Map,
    Product,
    Repeat,
    Turn,
    When,
)
from tensorir.tenstorrent.metal.values import Leaf, Number, Shapes, is_zero, leaves
from tensorir.tir import nodes as n

ONES, ZEROS = "ones, which sums and maxima are scaled by", "zeros, to which vectors are added where they are broadcast"


@dataclass(frozen=True, slots=True)
class Computation:
    """The text of the kernel, and whether it folds, which needs a tile of ones."""

    text: str
    folds: bool


@dataclass(slots=True)
class Writer:
    """Lines of a kernel."""

    arguments: Arguments
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}" if text else "")

    @property
    def names(self) -> Names:
        return self.arguments.names

    def expr(self, value: n.Expr) -> str:
        text = cpp(self.arguments.known(value), self.names)
        if "floor_" in text:
            message = "an index here may be negative where it is divided."
            raise refuse("TN16", message, "count from 0 up.", at=value.span)
        return text

    def bind(self, var: n.Var, value: n.Expr) -> None:
        text = self.expr(value)
        self.arguments.name(var, self.names.at_least(value))
        self.line(f"const {cpp_type(var.dtype)} {self.names.of(var)} = {text};")

    def loop(self, var: n.Var, start: n.Expr, extent: n.Expr) -> None:
        low = self.expr(start)
        end = self.expr(extent) if low == "0" else self.expr(n.Add(start, extent))
        self.arguments.name(var, self.names.at_least(start))
        name = self.names.of(var)
        self.line(f"for ({cpp_type(var.dtype)} {name} = {low}; {name} < {end}; ++{name}) {{")

    def control(self, op: Loop | Branch | Repeat | When, inside: Callable[[Sequence[Any]], None]) -> None:
        """A loop or a branch, with what `inside` writes of its bodies."""
        match op:
            case Loop(var, start, extent, body) | Repeat(var, start, extent, body):
                self.loop(var, start, extent)
                bodies: list[tuple[Any, ...]] = [body]
            case Branch(condition, then, otherwise) | When(condition, then, otherwise):
                self.line(f"if ({self.expr(condition)}) {{")
                bodies = [then, otherwise] if otherwise else [then]
        for place, body in enumerate(bodies):
            if place:
                self.line("} else {")
            self.depth += 1
            inside(body)
            self.depth -= 1
        self.line("}")

    def counted(self, name: str, count: int, step: int = 1) -> bool:
        """The head of a loop from 0, if there is more than one iteration."""
        if count <= step:
            return False
        self.line(f"for (uint32_t {name} = 0; {name} < {count}; {f'{name} += {step}' if step > 1 else f'++{name}'}) {{")
        self.depth += 1
        return True

    def end(self, opened: bool = True) -> None:
        if opened:
            self.depth -= 1
            self.line("}")


def compute_kernel(
    items: Sequence[Arranged], queues: Queues, shapes: Shapes, arguments: Callable[[], Arguments], registers: int
) -> Computation:
    """The compute kernel of arranged items."""
    # what is set up once and for all is known when the whole text is: a first writing tells
    first = _Compute(queues, shapes, Writer(arguments()), registers, {})
    first.suite(items)
    once = {unit: made.pop() for unit, made in first.setups.items() if len(made) == 1}
    writer = _Compute(queues, shapes, Writer(arguments()), registers, once, first.packed_formats)
    writer.suite(items)
    for name in [x for x, used in (("CB_ones", writer.folds), ("CB_zeros", writer.uses_zeros)) if used]:
        writer.out.line(f"cb_pop_front({name}, 1);")
    body, given = writer.out.lines, writer.out.arguments.lines()
    headers = sorted({"common.h", *writer.headers})
    start = _startup(writer, once)
    lines = [
        "#include <algorithm>", "#include <cstdint>", *(f'#include "api/compute/{h}"' for h in headers), "",
        *(f"constexpr uint32_t {q.name} = tt::CBIndex::c_{q.index};" for q in queues.all if q.name in writer.used), "",
        "void kernel_main() {", *given, *start, *body, "}", "",
    ]  # fmt: skip
    return Computation("\n".join(lines), writer.folds)


def _startup(writer: _Compute, once: dict[str, str]) -> list[str]:
    """The configuration of the units: once, and before everything else."""
    found = writer.first
    lines: list[str] = []
    if isinstance(found, Product):
        a, b, dst = (writer.queues.of(x).name for x in (found.a, found.b, writer.first_packed))
        lines.append(f"    mm_init({a}, {b}, {dst}{', 1' if found.turned else ''});")
    else:
        dst = writer.queues.of(writer.first_packed).name
        sources = [*writer.first_sources, dst][:2]
        call = "binary_op_init_common" if len(writer.first_sources) == 2 else "unary_op_init_common"
        given = sources if len(writer.first_sources) == 2 else [(*writer.first_sources, dst)[0]]
        lines.append(f"    {call}({', '.join([*given, dst])});")
    # the whole set-up of products is their short one, and more
    setups = [text for text in once.values() if "mm_init_short" not in text or not isinstance(found, Product)]
    lines += [f"    {line}" for text in setups for line in text.split("\n")]
    if writer.uses_zeros:
        zeros = writer.queues.constant("CB_zeros", ZEROS).name
        reconfigured = (f"pack_reconfig_data_format({zeros});",) if len(writer.all_packed) > 1 else ()
        # registers are zeros when they are acquired
        made = ("tile_regs_acquire();", "tile_regs_commit();", "tile_regs_wait();", *reconfigured)
        packed = (f"cb_reserve_back({zeros}, 1);", f"pack_tile(0, {zeros});", f"cb_push_back({zeros}, 1);")
        lines += [f"    {x}" for x in (*made, *packed, "tile_regs_release();", f"cb_wait_front({zeros}, 1);")]
    if writer.folds:
        lines.append(f"    cb_wait_front({writer.queues.constant('CB_ones', ONES).name}, 1);")
    return lines


@dataclass(slots=True)
class _Compute:
    queues: Queues
    shapes: Shapes
    out: Writer
    registers: int
    once: dict[str, str]
    all_packed: set[str] = field(default_factory=set[str])
    packed_formats: set[str] = field(default_factory=set[str])
    waited: set[str] = field(default_factory=set[str])
    setups: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    now: dict[str, str] = field(default_factory=dict[str, str])
    headers: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])
    folds: bool = False
    uses_zeros: bool = False
    first: Map | Product | Fold | Turn | None = None
    first_sources: tuple[str, ...] = ()
    packed: n.Buffer | None = None

    @property
    def first_packed(self) -> n.Buffer:
        assert self.packed is not None
        return self.packed

    # Items

    def suite(self, items: Sequence[Arranged | Item]) -> None:
        for item in items:
            match item:
                case Sync("wait" | "pop" as action, buffer, count):
                    word = {"wait": "cb_wait_front", "pop": "cb_pop_front"}[action]
                    self.out.line(f"{word}({self.queue(self.queues.named(buffer))}, {count});")
                case Sync():
                    raise AssertionError(item)
                case Bind(var, value):
                    self.out.bind(var, value)
                case Repeat() | When():
                    self.out.control(item, self.inside)
                case Drop(buffer):
                    self.read(buffer)
                    self.pop(self.queues.of(buffer))
                case Made(step, replaces):
                    self.step(step, replaces)
                case Product():
                    self.products(item, {})
                case _:
                    raise AssertionError(item)

    def inside(self, body: Sequence[Arranged | Item]) -> None:
        """Items in a loop or a branch: what is set up or waited for there is not so behind, nor at the beginning."""
        self.now, self.waited = {}, set()
        self.suite(body)
        self.now, self.waited = {}, set()

    def step(self, step: Map | Product | Fold | Turn | Accumulate, replaces: bool) -> None:
        queue = self.queues.of(step.dst)
        if replaces:
            queue.capacity = max(queue.capacity, 2 * queue.tiles)
        if self.packed is None:
            self.packed = step.dst
            self.first = step.product if isinstance(step, Accumulate) else step
        match step:
            case Map():
                self.map(step)
            case Product():
                self.spilled(step)
            case Fold():
                self.fold(step)
            case Turn():
                self.turn(step)
            case Accumulate():
                self.accumulate(step)
        if replaces:
            self.read(step.dst)
            self.pop(queue)

    def pop(self, queue: Queue) -> None:
        self.out.line(f"cb_pop_front({queue.name}, {queue.tiles});")
        self.waited.discard(queue.name)

    def queue(self, queue: Queue) -> str:
        self.used.add(queue.name)
        return queue.name

    def read(self, *buffers: n.Buffer) -> None:
        """Wait for blocks that the computation made itself; for those of the reader it waits where the program does."""
        for buffer in dict.fromkeys(buffers):
            queue = self.queues.of(buffer)
            self.queue(queue)
            if queue.purpose != "between kernels" and queue.name not in self.waited:
                self.out.line(f"cb_wait_front({queue.name}, {queue.tiles});")
                self.waited.add(queue.name)

    # Calls, and what sets units up for them

    def set_up(self, call: Call) -> None:
        self.headers.add(call.header)
        setup = call.setup
        if self.queues.mixed and call.sources:
            a, b = call.sources if len(call.sources) == 2 else (call.sources[0],) * 2
            words = f"{b}, {a}" if setup.startswith("mm_") else f"{a}, {b}"
            self.headers.add("reconfig_data_format.h")
            setup = f"reconfig_data_format({words});\n{setup}"
        self.setups.setdefault(call.unit, set()).add(setup)
        if self.once.get(call.unit) == setup or self.now.get(call.unit) == setup:
            return
        self.now[call.unit] = setup
        for line in setup.split("\n"):
            self.out.line(line)

    def note(self, sources: Sequence[str]) -> None:
        if not self.first_sources:
            self.first_sources = tuple(sources)

    def tiles(
        self, calls: Sequence[Call], count: int, before: Sequence[tuple[str, int]], packs: Callable[[], None]
    ) -> None:
        """One register tile at a time: calls, and what packs, in the loops `before`, all within acquired registers."""
        for unit in dict.fromkeys(call.unit for call in calls):
            alone = {call.setup: call for call in calls if call.unit == unit}
            if len(alone) == 1:
                self.set_up(next(iter(alone.values())))
        opened = [self.out.counted(name, size) for name, size in before]
        if any(opened):
            units = {call.unit for call in calls}
            several = {u for u in units if len({call.setup for call in calls if call.unit == u}) > 1}
            self.now = {unit: text for unit, text in self.now.items() if unit not in several}
        self.out.line("tile_regs_acquire();")
        for call in calls:
            self.set_up(call)
            self.out.line(call.text)
        self.packing(packs)
        for one in opened:
            self.out.end(one)

    def packing(self, packs: Callable[[], None]) -> None:
        self.out.line("tile_regs_commit();")
        self.out.line("tile_regs_wait();")
        packs()
        self.out.line("tile_regs_release();")

    def reserve(self, dst: n.Buffer) -> Queue:
        queue = self.queues.of(dst)
        self.packed_formats.add(queue.format.name)
        if len(self.all_packed) > 1:
            self.out.line(f"pack_reconfig_data_format({self.queue(queue)});")
        self.out.line(f"cb_reserve_back({self.queue(queue)}, {queue.tiles});")
        self.headers.add("pack.h")
        return queue

    def push(self, queue: Queue) -> None:
        self.out.line(f"cb_push_back({queue.name}, {queue.tiles});")

    # Steps

    def map(self, step: Map) -> None:
        shape = self.shapes.of(step.dst)
        found = list(leaves(step.value))
        vectors = any(leaf.over != "tile" for leaf in found)
        down, across = shape.count * shape.high, shape.wide
        before = [("r", down), ("c", across)] if vectors else [("t", down * across)]
        index = {
            "tile": _sum((_times("r", across), down), ("c", across)) if vectors else _sum(("t", shape.tiles)),
            "columns": _sum(("r", down)),
            "rows": _sum(("c", across)),
        }  # fmt: skip

        def operand(leaf: Leaf) -> Operand:
            queue = self.queues.of(leaf.buffer)
            return Operand(self.queue(queue), index[leaf.over], queue.format.narrow)

        def zeros() -> str:
            self.uses_zeros = True
            made = self.queues.constant("CB_zeros", ZEROS)
            self.packed_formats.add(made.format.name)
            return self.queue(made)

        def number(given: Number) -> str:
            if isinstance(given.value, n.Var):
                return self.out.arguments.bits(given.value)
            return float_bits(given.value) if given.kind == "float" else f"0x{int(given.value) % 2**32:x}"

        calls: list[Call] = []
        at = 0
        if not is_zero(step.value):  # registers are zeros when they are acquired
            found_calls = calls_of(step.value, operand, number, zeros, self.registers, self.registers == 4)
            assert found_calls is not None, step  # `fitted` saw to it
            calls, at = found_calls
        self.read(*(leaf.buffer for leaf in found))
        for call in calls:
            if call.sources:
                self.note(call.sources)
            kind = "copied" if call.text.startswith("copy_tile") else "multiplied"
            for name in call.sources:
                setattr(self.queues.named(name), kind, True)
        queue = self.reserve(step.dst)
        self.tiles(calls, shape.tiles, before, lambda: self.out.line(f"pack_tile({at}, {queue.name});"))
        self.push(queue)

    def fold(self, step: Fold) -> None:
        self.folds = True
        source, shape = self.queues.of(step.src), self.shapes.of(step.src)
        ones = self.queue(self.queues.constant("CB_ones", ONES))
        source.multiplied = True
        self.read(step.src)
        self.note((source.name, ones))
        self.headers.add("reduce.h")
        kinds = f"<PoolType::{step.kind.upper()}, ReduceDim::REDUCE_{'ROW' if step.dim == 1 else 'COL'}>"
        queue = self.reserve(step.dst)
        if self.queues.mixed:
            self.headers.add("reconfig_data_format.h")
            self.out.line(f"reconfig_data_format({source.name}, {ones});")
        self.out.line(f"reduce_init{kinds}({source.name}, {ones}, {queue.name});")
        outer = [("m", shape.count), ("r", shape.high) if step.dim == 1 else ("c", shape.wide)]
        opened = [self.out.counted(name, size) for name, size in outer]
        self.out.line("tile_regs_acquire();")
        inner = self.out.counted(*(("c", shape.wide) if step.dim == 1 else ("r", shape.high)))
        wide, whole = shape.wide, shape.high * shape.wide
        index = _sum((f"m * {whole}", shape.count), (f"r * {wide}" if wide > 1 else "r", shape.high), ("c", wide))
        self.out.line(f"reduce_tile{kinds}({source.name}, {ones}, {index}, 0, 0);")
        self.out.end(inner)
        self.packing(lambda: self.out.line(f"pack_tile(0, {queue.name});"))
        for one in opened:
            self.out.end(one)
        self.out.line("reduce_uninit();")
        self.now.pop("unpack", None)
        self.setups.setdefault("unpack", set()).add(f"reduce_init{kinds}")
        self.push(queue)

    def turn(self, step: Turn) -> None:
        source, shape = self.queues.of(step.src), self.shapes.of(step.dst)
        source.multiplied = True
        self.read(step.src)
        self.note((source.name,))
        high = self.shapes.of(step.src).wide
        index = _sum((f"m * {shape.high * shape.wide}", shape.count), (f"c * {high}" if high > 1 else "c", shape.wide),
                     ("r", shape.high))  # fmt: skip
        call = Call(f"transpose_wh_tile({source.name}, {index}, 0);", "unpack",
                    f"transpose_wh_init_short({source.name});", "transpose_wh.h", (source.name,))  # fmt: skip
        queue = self.reserve(step.dst)
        before = [("m", shape.count), ("r", shape.high), ("c", shape.wide)]
        self.tiles([call], shape.tiles, before, lambda: self.out.line(f"pack_tile(0, {queue.name});"))
        self.push(queue)

    def accumulate(self, step: Accumulate) -> None:
        shape = self.shapes.of(step.product.dst)
        product = step.product
        self.note((self.queues.of(product.a).name, self.queues.of(product.b).name))
        if step.start is not None:
            self.read(step.start)
        self.out.line("tile_regs_acquire();")
        if step.start is not None:
            self.load(step.start, "t", shape.tiles)
        self.set_up(self.multiply(product, "0", "0", "0"))
        self.suite(step.body)
        self.out.line("tile_regs_commit();")
        self.out.line("tile_regs_wait();")
        queue = self.reserve(step.dst)
        several = self.out.counted("t", shape.tiles)
        self.out.line(f"pack_tile({_sum(('t', shape.tiles))}, {queue.name});")
        self.out.end(several)
        self.push(queue)
        self.out.line("tile_regs_release();")

    def load(self, buffer: n.Buffer, first: str, count: int) -> None:
        """Register tiles 0 to count from a block."""
        queue = self.queues.of(buffer)
        queue.copied = True
        self.set_up(copy(Operand(self.queue(queue), "0", queue.format.narrow), 0))
        several = self.out.counted("t", count)
        at = "t" if several else "0"
        self.out.line(copy(Operand(queue.name, first if several or first != "t" else "0", True), at).text)
        self.out.end(several)

    def multiply(self, step: Product, i: str, j: str, at: str) -> Call:
        a, b = self.queues.of(step.a), self.queues.of(step.b)
        a.multiplied = b.multiplied = True
        names = f"{self.queue(a)}, {self.queue(b)}"
        text = f"matmul_tiles({names}, {i}, {j}, {at});"
        return Call(
            text, "unpack", f"mm_init_short({names}{', 1' if step.turned else ''});", "matmul.h", (a.name, b.name)
        )

    def products(self, step: Product, _: dict[str, str]) -> None:
        """Products of all tiles of two blocks, added to register tiles."""
        rows, inner, columns = self.sizes(step)
        self.read(step.a, step.b)
        self.set_up(self.multiply(step, "0", "0", "0"))
        opened = [self.out.counted("r", rows), self.out.counted("c", columns), self.out.counted("k", inner)]
        i = _sum((f"r * {inner}" if inner > 1 else "r", rows), ("k", inner))
        self.out.line(
            self.multiply(step, i, self.right(step, "c"), _sum((_times("r", columns), rows), ("c", columns))).text
        )
        for one in opened:
            self.out.end(one)

    def sizes(self, step: Product) -> tuple[int, int, int]:
        """The tiles of a product: down, along what is summed over, and across."""
        a, c = self.shapes.of(step.a), self.shapes.of(step.dst)
        return c.high, a.wide, c.wide

    def right(self, step: Product, column: str) -> str:
        _, inner, columns = self.sizes(step)
        if step.turned:
            return _sum((_times(column, inner), columns), ("k", inner))
        return _sum((_times("k", columns), inner), (column, columns))

    def spilled(self, step: Product) -> None:
        """A sum that registers do not hold: as many tiles of a row as they do are loaded, added to and packed."""
        rows, inner, columns = self.sizes(step)
        each = max(w for w in range(1, min(self.registers, columns) + 1) if columns % w == 0)
        self.read(step.a, step.b, *(() if step.clear else (step.dst,)))
        self.note((self.queues.of(step.a).name, self.queues.of(step.b).name))
        queue = self.reserve(step.dst)
        opened = [self.out.counted("r", rows), self.out.counted("c", columns, each)]
        self.now = {}
        self.out.line("tile_regs_acquire();")
        first = _sum((_times("r", columns), rows), ("c", columns if columns > each else 1))
        if not step.clear:
            self.load(step.dst, _sum((first, 2), ("t", each)) if first != "0" else _sum(("t", each)), each)
        self.set_up(self.multiply(step, "0", "0", "0"))
        several = [self.out.counted("t", each), self.out.counted("k", inner)]
        column = "c" if each == 1 else "t" if columns == each else "(c + t)"
        i = _sum((_times("r", inner), rows), ("k", inner))
        self.out.line(self.multiply(step, i, self.right(step, column), _sum(("t", each))).text)
        for one in several:
            self.out.end(one)

        def pack() -> None:
            many = self.out.counted("t", each)
            self.out.line(f"pack_tile({_sum(('t', each))}, {queue.name});")
            self.out.end(many)

        self.packing(pack)
        for one in opened:
            self.out.end(one)
        self.now = {}
        self.push(queue)


def _times(name: str, size: int) -> str:
    return f"{name} * {size}" if size > 1 else name


def _sum(*terms: tuple[str, int]) -> str:
    """The sum of the terms that are ever more than 0: those that have several values."""
    return " + ".join(text for text, count in terms if count > 1) or "0"
