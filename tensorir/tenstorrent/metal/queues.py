"""The circular buffers of a core on the card: those of the program, those of its own blocks, and two of constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorir.tenstorrent.kernels.nodes import Program, Work, ops_of
from tensorir.tenstorrent.kernels.printing import free
from tensorir.tenstorrent.metal.cards import refuse
from tensorir.tenstorrent.metal.shapes import TILE, Shapes
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import Copy, operation

__all__ = ["FORMATS", "Format", "Queue", "Queues"]


@dataclass(frozen=True, slots=True)
class Format:
    """How the elements of a tile are stored: the name in tt-metal, the bytes of a tile, the type that the host has.

    `sent` is the type that the host makes tiles of, where that is another one.
    """

    name: str
    bytes: int
    host: str
    sent: str = ""

    @property
    def narrow(self) -> bool:
        """Whether the matrix unit takes elements whole."""
        return self.name in ("Float16_b", "Bfp8_b")

    @property
    def wide(self) -> bool:
        """Whether registers need 32 bits for an element, and the unpacker a way around the source registers."""
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
            refuse(message, buffer.span, _HALF if word == "float16" else known)
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
        """Whether formats differ, so that units are told which comes next."""
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
