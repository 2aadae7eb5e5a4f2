"""Bytes with places in them that complaints name, bytes that grow, and the sections of a file.

Bytes as a source of diagnostics: the place of a byte, and a line of a hexadecimal dump around it.

>>> from tensorir.runtime.errors import Diagnostic
>>> print(Diagnostic("TB01", "this is wrong.", ByteSpan("k.tileirbc", bytes(range(40)), 18, 20)))
k.tileirbc: byte 0x12: error[TB01]: this is wrong.
  00000010  10 11 12 13 14 15 16 17 18 19 1A 1B 1C 1D 1E 1F
                  ^^^^^
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from tensorir.runtime.errors import NOWHERE, Source, Span, refuse
from tensorir.tile.nodes import Dense
from tensorir.tile.types import (
    PADDINGS,
    Element,
    Function,
    GatherScatterView,
    PartitionView,
    Pointer,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
    since,
)

# Versions of bytecode: which there are, and how they are written.

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3))
MAGIC = b"\x7fTileIR\x00"


def spelled(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def version_of(text: object) -> Version:
    """The version that a string names; raises TB05 for one that is not written."""
    for version in VERSIONS:
        if text in (spelled(version), version):
            return version
    known = ", ".join(map(spelled, VERSIONS))
    raise refuse("TB05", f"bytecode has no version {text!r}.", f"the versions are {known}.")


class ByteSpan(Span):
    """A span of bytes; what shows is the line of the dump that holds the first, made when it is asked for."""

    __slots__ = ("at", "data", "name", "until")

    def __init__(self, name: str, data: bytes, start: int, stop: int) -> None:
        for slot, value in (("name", name), ("data", data), ("at", start), ("until", max(stop, start + 1))):
            object.__setattr__(self, slot, value)

    def __reduce__(self) -> Any:
        return ByteSpan, (self.name, self.data, self.at, self.until)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByteSpan):
            return NotImplemented
        return (self.name, self.at, self.until, self.data) == (other.name, other.at, other.until, other.data)

    def __hash__(self) -> int:
        # the source is made anew whenever it is asked for
        return hash((self.name, self.at, self.until))

    @property
    def source(self) -> Source:  # type: ignore[override]
        row = self.at // 16 * 16
        shown = " ".join(f"{b:02X}" for b in self.data[row : row + 16])
        return Source(repr(self), f"{row:08X}  {shown}")

    @property
    def start(self) -> int:  # type: ignore[override]
        return 10 + 3 * (self.at % 16)

    @property
    def stop(self) -> int:  # type: ignore[override]
        return self.start + 3 * (min(self.until, self.at // 16 * 16 + 16) - self.at) - 1

    def __repr__(self) -> str:
        return f"{self.name}: byte {self.at:#x}"


# A place in bytes: numbers of variable length taken, complaints located by their byte.

PADDING = 0xCB
MAX_PARTS = 65536
"""Numbers of a list, items of an array, or parameters of a signature that are read."""


class Bytes:
    """Some bytes of a file from `pos` up to `end`; places are those of the whole file."""

    __slots__ = ("data", "end", "name", "pos")

    data: bytes
    name: str
    pos: int

    def __init__(self, data: bytes, name: str, pos: int = 0, end: int | None = None) -> None:
        self.data, self.name, self.pos = data, name, pos
        self.end: int = len(data) if end is None else end

    def span(self, start: int, stop: int | None = None) -> Span:
        return ByteSpan(self.name, self.data, start, start + 1 if stop is None else stop)

    def fail(self, code: str, message: str, start: int | None = None, help: str = "") -> NoReturn:
        """Refuse the file, at the next byte or at one that is given."""
        place = min(self.pos if start is None else start, max(len(self.data) - 1, 0))
        raise refuse(code, message, help, at=self.span(place))

    def byte(self, what: str) -> int:
        if self.pos >= self.end:
            self.fail("TB02", f"the file ends, or this part of it, before {what}.", self.end - 1)
        self.pos += 1
        return self.data[self.pos - 1]

    def varint(self, what: str, limit: int = 1 << 64) -> int:
        """A number in groups of 7 bits, the low ones first."""
        data, pos = self.data, self.pos
        if pos < self.end and data[pos] < 0x80:
            self.pos = pos + 1
            if data[pos] >= limit:
                self.fail("TB03", f"{what} is {data[pos]}, and at most {limit - 1} is possible.", pos)
            return data[pos]
        value = shift = 0
        start = pos
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                self.fail("TB03", f"{what} takes more than 10 bytes.", start)
        if value >= limit:
            self.fail("TB03", f"{what} is {value}, and at most {limit - 1} is possible.", start)
        return value

    def signed(self, what: str) -> int:
        """A number whose sign is its lowest bit."""
        value = self.varint(what, 1 << 70)
        return value >> 1 ^ -(value & 1)

    def take(self, count: int, what: str) -> bytes:
        if count > self.end - self.pos:
            self.fail("TB02", f"{what} takes {count} bytes, and {self.end - self.pos} are left.")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def list(self, width: int) -> tuple[int, ...]:
        """Numbers of so many bytes each, after their count."""
        raw = self.take(width * self.varint("the length of a list", MAX_PARTS), "a list")
        return tuple([int.from_bytes(raw[k : k + width], "little", signed=True) for k in range(0, len(raw), width)])

    def align(self, alignment: int) -> None:
        """Past the padding before a place that is a multiple of `alignment` in the file."""
        self.pad_from(0, alignment)

    def pad_from(self, base: int, alignment: int) -> None:
        """Past the padding before a place that is a multiple of `alignment`, counted from `base`."""
        count = -(self.pos - base) % alignment
        start = self.pos
        for k, byte in enumerate(self.take(count, "padding")):
            if byte != PADDING:
                self.fail("TB04", f"padding is of bytes 0xCB, and this is {byte:#04x}.", start + k)


# Bytes that grow, and the tables of strings, types and constants that they refer to.

_DYNAMIC = -(1 << 63)


class Tables:
    """Tables of values that are written once and referred to by number."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.strings: dict[bytes, int] = {}
        self.types: dict[Type, int] = {}
        self.type_bytes: list[bytes] = []
        self.constants: dict[bytes, int] = {}


class Output:
    """Bytes of one part of a file; `at` is the operation that is being written."""

    __slots__ = ("at", "buffer", "tables")

    tables: Tables
    buffer: bytearray

    def __init__(self, tables: Tables) -> None:
        self.tables, self.buffer = tables, bytearray()
        self.at: Span = NOWHERE

    def refuse(self, what: str, since: Version | None = None) -> NoReturn:
        """The refusal of a value that this version of bytecode has no encoding for."""
        version = spelled(self.tables.version)
        said = (
            f"is of version {spelled(since)}, and {version} is written"
            if since
            else f"cannot be written to bytecode {version}"
        )
        help = f"write version {spelled(since)}." if since else ""
        raise refuse("TB07" if since else "TB13", f"{what} {said}.", help, at=self.at)

    def raw(self, data: bytes) -> None:
        self.buffer += data

    def varint(self, value: int) -> None:
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def signed(self, value: int) -> None:
        self.varint(value << 1 if value >= 0 else ~(value << 1))

    def string(self, text: str) -> None:
        raw = text.encode("utf-8", "surrogateescape")
        self.varint(self.tables.strings.setdefault(raw, len(self.tables.strings)))

    def type(self, type: Type) -> None:
        self.varint(self._number(type))

    def constant(self, value: Dense) -> None:
        raw = packed(value)
        self.varint(self.tables.constants.setdefault(raw, len(self.tables.constants)))

    def list(self, numbers: tuple[int, ...], width: int) -> None:
        self.varint(len(numbers))
        self.raw(b"".join(n.to_bytes(width, "little", signed=True) for n in numbers))

    def _number(self, type: Type) -> int:
        known = self.tables.types.get(type)
        if known is not None:
            return known
        if since(type) > self.tables.version:
            self.refuse(str(type), since(type))
        entry = Output(self.tables)
        entry.at = self.at
        entry._compose(type)
        number = self.tables.types[type] = len(self.tables.type_bytes)
        self.tables.type_bytes.append(bytes(entry.buffer))
        return number

    def _compose(self, type: Type) -> None:
        self.varint(type.tag)
        match type:
            case Element() | Token():
                pass
            case Pointer(pointee):
                self.type(pointee)
            case Tile(shape, element):
                self.type(element)
                self.list(shape, 8)
            case TensorView(element, shape, strides):
                self.type(element)
                for numbers in (shape, strides):
                    self.list(tuple(_DYNAMIC if n is None else n for n in numbers), 8)
            case Function(params, results):
                for types in (params, results):
                    self.varint(len(types))
                    for part in types:
                        self.type(part)
            case PartitionView() | StridedView() | GatherScatterView():
                self._view(type)

    def _view(self, view: PartitionView | StridedView | GatherScatterView) -> None:
        padded = view.padding is not None
        if self.tables.version >= (13, 3):
            self.varint(int(padded))
        self.list(view.tile, 4)
        if isinstance(view, StridedView):
            self.list(view.traversal, 4)
        self.type(view.tensor)
        if isinstance(view, GatherScatterView):
            self.varint(view.sparse_dim)
        else:
            self.list(view.dim_map, 4)
        if self.tables.version < (13, 3):
            self.varint(int(padded))
        if view.padding is not None:
            self.varint(PADDINGS.index(view.padding))


def packed(value: Dense) -> bytes:
    """The bytes of dense elements: bits of i1 are packed, tf32 has three bytes."""
    element = value.type.element
    assert isinstance(element, Element)
    if element.bits == 1:
        if value.is_splat:
            return b"\xff" if value.data != b"\x00" else b"\x00"
        bits = sum(1 << k for k, byte in enumerate(value.data) if byte)
        return bits.to_bytes((len(value.data) + 7) // 8, "little")
    if element.name == "tf32":
        parts = (int.from_bytes(value.data[k : k + 4], "little") for k in range(0, len(value.data), 4))
        return b"".join((n >> 13).to_bytes(3, "little") for n in parts)
    return value.data


# The sections of a file and the tables in them: where each begins and ends, every offset checked.

SECTIONS = {1: "String", 2: "Func", 3: "Debug", 4: "Constant", 5: "Type", 6: "Global", 7: "Producer"}
_LEAST_ALIGNMENT = {"String": 4, "Type": 4, "Func": 8, "Constant": 8, "Debug": 8}


@dataclass(frozen=True, slots=True)
class Sections:
    """The version of a file, and its sections by name."""

    version: Version
    parts: dict[str, Bytes]


@dataclass(frozen=True, slots=True)
class Table:
    """The entries of a table, each as the bytes it takes."""

    base: Bytes
    starts: list[int]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def entry(self, index: int) -> Bytes:
        return Bytes(self.base.data, self.base.name, self.starts[index], self.starts[index + 1])


def sections_of(c: Bytes) -> Sections:
    """Read the header, and find the sections."""
    if c.data[: len(MAGIC)] != MAGIC:
        c.fail("TB01", "this is no Tile IR bytecode: it does not begin with 7F 'TileIR' 00.", 0)
    c.pos = len(MAGIC)
    version = c.byte("the version"), c.byte("the version")
    if version not in VERSIONS:
        known = ", ".join(map(spelled, VERSIONS))
        c.fail(
            "TB05", f"the file is of version {spelled(version)}, which is not read.", 8, f"the versions are {known}."
        )
    if any(c.take(2, "the version")):
        c.fail("TB05", "the file is of a pre-release of its version.", 10)
    parts: dict[str, Bytes] = {}
    while (head := c.byte("the end of the file, a byte 0")) != 0:
        start = c.pos - 1
        name = SECTIONS.get(head & 0x7F)
        if name is None:
            c.fail("TB06", f"there is no section of the number {head & 0x7F}.", start)
        if name in parts:
            c.fail("TB06", f"the section {name} is there twice.", start)
        if name == "Producer" and version < (13, 3):
            c.fail("TB07", f"the section Producer is of version 13.3, and the file is of {spelled(version)}.", start)
        length = c.varint("the length of a section")
        if head & 0x80:
            place = c.pos
            alignment = c.varint("the alignment of a section", 1 << 32)
            least = _LEAST_ALIGNMENT.get(name, 1)
            if not alignment or alignment & (alignment - 1) or alignment % least:
                c.fail(
                    "TB04",
                    f"the alignment of the section {name} is a power of two, at least {least}, and not {alignment}.",
                    place,
                )
            c.align(alignment)
        elif name in _LEAST_ALIGNMENT:
            c.fail(
                "TB04", f"the section {name} is aligned to {_LEAST_ALIGNMENT[name]}, and states no alignment.", start
            )
        if length > c.end - c.pos:
            c.fail("TB02", f"the section {name} takes {length} bytes, and {c.end - c.pos} are left.", start)
        parts[name] = Bytes(c.data, c.name, c.pos, c.pos + length)
        c.pos += length
    for k in range(c.pos, c.end):
        if c.data[k] != PADDING:
            c.fail("TB06", "bytes follow the end of the file.", k)
    for name in ("String", "Func"):
        if name not in parts:
            c.fail("TB06", f"the section {name} is missing.", c.pos - 1)
    return Sections(version, parts)


def table_of(c: Bytes | None, width: int, what: str, length_first: bool = False) -> Table | None:
    """A table: how many entries, their offsets of `width` bytes, and their bytes."""
    if c is None:
        return None
    count = c.varint(f"the number of {what}")
    c.align(width)
    if count * width > c.end - c.pos:
        c.fail("TB02", f"{count} {what} have offsets of {count * width} bytes, and {c.end - c.pos} are left.")
    raw = c.take(count * width, f"the offsets of {what}")
    base = c.pos
    starts = [base + int.from_bytes(raw[k : k + width], "little") for k in range(0, len(raw), width)]
    for k, start in enumerate(starts):
        previous = starts[k - 1] if k else base
        if start < previous or start > c.end or (k == 0 and start != base):
            c.fail(
                "TB08", f"the offset of entry {k} of the {what} leads out of their table.", base - len(raw) + k * width
            )
    c.pos = c.end
    return Table(c, [*starts, c.end])
