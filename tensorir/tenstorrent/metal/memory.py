"""Buffers in memory as tiles, circular buffers of a core, arguments of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import ClassVar

from tensorir.runtime.errors import refuse
from tensorir.tenstorrent.kernels.nodes import Bind, Branch, Loop, Op, Program, Work, ops_of
from tensorir.tenstorrent.kernels.printing import RESERVED, Names, cpp_type, free
from tensorir.tenstorrent.metal.values import TILE, Shapes, matrix_box
from tensorir.tenstorrent.schedule import RUNTIME_ARGS, schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32
from tensorir.tir.ranges import Bounds, interval
from tensorir.tir.tiles.operations import Box, Copy, operation
from tensorir.tir.trees import substitute, walk

# The circular buffers of a core on the card: those of the program, those of its own blocks, and two of constants.


@dataclass(frozen=True, slots=True)
class Format:
    """The storage of a tile's elements: the name in tt-metal, the bytes of a tile, the type that the host has.

    `sent` is the type that the host makes tiles of, where that is another one.
    """

    name: str
    bytes: int
    host: str
    sent: str = ""

    @property
    def narrow(self) -> bool:
        """True if the matrix unit takes elements whole."""
        return self.name in ("Float16_b", "Bfp8_b")

    @property
    def wide(self) -> bool:
        """True if registers need 32 bits for an element, and the unpacker a way around the source registers."""
        return self.bytes == 4 * TILE * TILE


# bfp8 has a byte for each element, and an exponent for every 16 of them
FORMATS: Mapping[str, Format] = {
    "float32": Format("Float32", 4 * TILE * TILE, "float"),
    "bfloat16": Format("Float16_b", 2 * TILE * TILE, "bfloat16"),
    "bfp8": Format("Bfp8_b", TILE * TILE + TILE * TILE // 16, "float"),
    "int32": Format("Int32", 4 * TILE * TILE, "int32_t", "uint32_t"),
    "uint32": Format("UInt32", 4 * TILE * TILE, "uint32_t"),
    "uint16": Format("UInt16", 2 * TILE * TILE, "uint16_t"),
}
_HALF = (
    "tt-metal refuses the format Float16 beside bfloat16 and bfp8, and its host has no arrays of it: store float32, "
    "which holds float16 whole, or bfloat16."
)


@dataclass(slots=True)
class Queue:
    """A circular buffer: `tiles` are what one step makes or takes, `capacity` what it holds."""

    name: str
    index: int
    format: Format
    tiles: int
    capacity: int
    purpose: str
    copied: bool = False
    multiplied: bool = False
    shard: n.Buffer | None = None  # the buffer on whose shard it lies

    @property
    def bytes(self) -> int:
        return self.capacity * self.format.bytes


@dataclass(slots=True)
class Queues:
    """The circular buffers by the blocks that lie in them, in the order of their indices."""

    program: Program
    shapes: Shapes
    formats: Mapping[str, str]
    taken: set[str]
    all: list[Queue] = field(default_factory=list[Queue])
    by_block: dict[n.Buffer, Queue] = field(default_factory=dict[n.Buffer, Queue])

    def __post_init__(self) -> None:
        origins = _origins(self.program)
        for queue in self.program.buffers:
            format = self.format_of(origins.get(queue.block, queue.block), stored=True)
            self._add(queue.block, queue.name, format, queue.pages, queue.capacity, "between kernels")

    def format_of(self, buffer: n.Buffer, stored: bool = False) -> Format:
        """The format of a buffer's tiles; where it is `stored` in memory, the one that is asked for by its name."""
        word = str(buffer.dtype)
        if stored:
            word = self.formats.get(buffer.name, word)
        if word not in FORMATS:
            message = f"tiles of {word} have no format on the card here."
            known = "tiles have float32, bfloat16, int32, uint32 or uint16; formats={'A': 'bfp8'} stores float32 so."
            raise refuse("TN16", message, _HALF if word == "float16" else known, at=buffer.span)
        return FORMATS[word]

    def of(self, buffer: n.Buffer) -> Queue:
        """The circular buffer of a block; a block that a core has for itself gets one when it is first asked for."""
        if buffer not in self.by_block:
            tiles = self.shapes.of(buffer).tiles
            self._add(buffer, f"CB_{buffer.name}", self.format_of(buffer), tiles, tiles, "the computation's own")
        return self.by_block[buffer]

    def named(self, name: str) -> Queue:
        return next(queue for queue in self.all if queue.name == name)

    def constant(self, name: str, purpose: str) -> Queue:
        """A circular buffer of one tile of a constant."""
        found = next((queue for queue in self.all if queue.purpose == purpose), None)
        if found is None:
            narrow = not any(queue.format.wide for queue in self.all)
            word = "bfloat16" if narrow else "float32"
            found = Queue(free(name, self.taken), len(self.all), FORMATS[word], 1, 1, purpose)
            self.all.append(found)
        return found

    def _add(self, block: n.Buffer, name: str, format: Format, tiles: int, capacity: int, purpose: str) -> None:
        made = Queue(free(name, self.taken), len(self.all), format, tiles, capacity, purpose)
        self.all.append(made)
        self.by_block[block] = made

    @property
    def mixed(self) -> bool:
        """True if formats differ, so that units are told which comes next."""
        return len({queue.format.name for queue in self.all}) > 1


def _origins(program: Program) -> dict[n.Buffer, n.Buffer]:
    """The buffer in memory that the tiles of a block come from, or go to."""
    found: dict[n.Buffer, n.Buffer] = {}
    for role in ("reader", "writer"):
        for op in ops_of(program[role].body):
            match op:
                case Work(n.Evaluate(n.Call() as call)) if isinstance(record := operation(call), Copy):
                    outer, block = (record.src, record.dst) if role == "reader" else (record.dst, record.src)
                    found[block.buffer] = outer.buffer
                case _:
                    pass
    return found


# Buffers in memory as tiles: how many they are padded to, and which of them a box is made of.


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
    """The largest end of a box: matrices, rows and columns."""
    starts, sizes, whole = matrix_box(box, shapes)
    ends: list[int] = []
    for start, size, extent in zip(starts[-2:], sizes[-2:], whole[-2:], strict=True):
        bounds = interval(start, known)
        if bounds is None or bounds[0] < 0:
            message = f"a box of {box.buffer.name!r} may begin anywhere."
            raise refuse("TN16", message, "let it begin at a multiple of 32.", at=box.span)
        if size % TILE and not (bounds == (0, 0) and size >= extent):
            message = f"{size} elements of {box.buffer.name!r} are moved here, and the card moves tiles of {TILE}."
            help = f"move {_up(size)}: what lies outside of the buffer is zero, and is not stored."
            raise refuse("TN16", message, help, at=box.span)
        ends.append(bounds[1] + size)
    for start, size, extent in zip(starts[:-2], sizes[:-2], whole[:-2], strict=True):
        bounds = interval(start, known)
        if bounds is None or bounds[0] < 0 or bounds[1] + size > extent:
            message = f"a box of {box.buffer.name!r} may lie outside of it."
            raise refuse("TN16", message, "keep to its matrices.", at=box.span)
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
        raise refuse("TN16", message, "move one of them at a time.", at=box.span)
    row, column = (_divided(start, box) for start in starts[-2:])
    first = _plus(_by(_plus(_by(lead, memory.high), row), memory.wide), column)
    count = (prod(sizes[:-2]), _up(sizes[-2]) // TILE, _up(sizes[-1]) // TILE)
    return first, count, (memory.high * memory.wide, memory.wide, 1)


def _divided(start: n.Expr, box: Box) -> n.Expr:
    """A start in tiles; raises TN16 where it may lie within one."""
    found = _quotient(start)
    if found is None:
        message = f"a box of {box.buffer.name!r} begins at {start}, which may lie within a tile of {TILE}."
        raise refuse("TN16", message, f"let boxes begin at multiples of {TILE}: by * {TILE}.", at=box.span)
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


# What a kernel is given when it runs: addresses of buffers, numbers, and the tiles of its core.


@dataclass(frozen=True, slots=True)
class Sent:
    """A fact of how a block is multicast: who sends it, where from and where to, and the semaphores of both sides.

    `along` says whether it goes along a "row" or a "column" of the grid.
    """

    name: str
    along: str
    fact: str

    FACTS: ClassVar[tuple[str, ...]] = (
        "sends", "others", "next_x", "next_y", "last_x", "last_y", "first_x", "first_y", "ready", "there",
    )  # fmt: skip


Argument = n.Var | n.Buffer | Sent
"""What a kernel is given: a number, a buffer by its address, or a fact of a multicast."""


@dataclass(slots=True)
class Arguments:
    """The names of a kernel; those that are parameters are taken from its arguments, in the order of their first use.

    `fixed` are parameters that are known when the kernel is written.
    """

    parameters: frozenset[n.Var]
    fixed: dict[n.Var, n.Expr]
    taken: set[str]
    names: Names = field(default_factory=Names)
    given: list[Argument] = field(default_factory=list[Argument])

    def name(self, var: n.Var, least: int | None) -> None:
        """A name of the kernel's own text."""
        found = self.names.variables.get(var) or free(var.name, self.taken)
        self.names = self.names.with_variable(var, found, least)

    def known(self, expr: n.Expr) -> n.Expr:
        """An expression with what is fixed as numbers; its parameters are taken from the arguments."""
        made = substitute(expr, self.fixed)
        for part in walk(made):
            if isinstance(part, n.Var) and part in self.parameters:
                self.place(part)
        return made

    def place(self, thing: Argument) -> int:
        if thing not in self.given:
            self.given.append(thing)
        return self.given.index(thing)

    def bits(self, var: n.Var) -> str:
        """The argument that holds the bits of a float32."""
        self.place(var)
        return self.names.of(var)

    def lines(self) -> list[str]:
        """The declarations of what the kernel is given; a buffer's is its address."""
        made: list[str] = []
        for k, thing in enumerate(self.given):
            if isinstance(thing, Sent):
                made.append(f"    const uint32_t {thing.name}_{thing.fact} = get_arg_val<uint32_t>({k});")
                continue
            whole = isinstance(thing, n.Var) and thing.dtype.is_integer
            kind = cpp_type(thing.dtype) if whole else "uint32_t"
            name = self.names.of(thing) if isinstance(thing, n.Var) else f"{self.names.of(thing)}_address"
            made.append(f"    const {kind} {name} = get_arg_val<{kind}>({k});")
        return made


def arguments_for(program: Program, taken: Iterable[str]) -> Arguments:
    """Names for a kernel of a program: those of its parameters and buffers, beside names that are taken."""
    func = program.func
    numbers = [p for p in func.params if p not in func.buffer_map]
    grid = schedule_of(func).grid
    fixed: dict[n.Var, n.Expr] = {
        p: n.IntImm(size, p.dtype) for p, size in zip(numbers[-2:], grid[:2], strict=True) if p.name in RUNTIME_ARGS
    }
    made = Arguments(frozenset(numbers) - frozenset(fixed), fixed, {*RESERVED, *_CARD, *taken})
    for param in numbers:
        made.name(param, 0 if param in numbers[-4:] else None)
    buffers = {b: free(b.name, made.taken) for b in func.buffer_map.values()}
    made.names = Names(made.names.variables, buffers, made.names.least)
    return made


_CARD = ("r", "c", "t", "k", "m", "at", "tt", "kernel_main", "page", "word", "ones", "half")
"""Names that the text of a kernel has itself."""
