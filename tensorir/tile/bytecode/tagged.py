"""Attributes with a tag before them, and the debug section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.tile.bytecode.bytes import MAX_PARTS, PADDING, Bytes, Output, Table, table_of
from tensorir.tile.bytecode.bytes import Tables as Written
from tensorir.tile.bytecode.tables import Tables
from tensorir.tile.nodes import (
    Array,
    Attribute,
    Bounded,
    CallSite,
    CompileUnit,
    Dense,
    Dictionary,
    DivBy,
    File,
    Hints,
    LexicalBlock,
    Location,
    Named,
    Number,
    Place,
    SameElements,
    Scoped,
    Subprogram,
    Typed,
    Unit,
    hints_of,
)
from tensorir.tile.types import Element

# Attributes with a tag before them, as identities, predicates, hints and dictionaries have: read and written.

MAX_NESTING = 64
"""How deeply attributes nest."""


def read_tagged(c: Bytes, t: Tables, depth: int = 0) -> Attribute:
    """The attribute at a cursor, with its tag."""
    start = c.pos
    if depth > MAX_NESTING:
        c.fail("TB12", f"attributes nest at most {MAX_NESTING} deep.")
    match c.varint("the tag of an attribute"):
        case 1:
            element = _element(c, t)
            if element.bits == 1:
                return bool(c.byte("a bool"))
            return Number(element, c.varint("an integer") & ((1 << element.bits) - 1))
        case 2:
            element = _element(c, t)
            bits = c.byte("a float") if element.bits <= 8 else c.signed("a float") & ((1 << element.bits) - 1)
            if bits >> element.bits:
                c.fail("TB10", f"{bits:#x} has more bits than {element}.", start)
            return Number(element, bits << 13 if element.name == "tf32" else bits)
        case 3:
            return bool(c.byte("a bool"))
        case 4:
            return Typed(t.type(c))
        case 5:
            return t.string(c, "a string")
        case 6:
            count = c.varint("the length of an array", MAX_PARTS)
            return Array(tuple(read_tagged(c, t, depth + 1) for _ in range(count)))
        case 7:
            return t.dense(c, t.type(c))
        case 8:
            divisor = c.varint("a divisor")
            flags = c.byte("the flags of div_by")
            every = c.signed("a group's extent") if flags & 1 else None
            along = c.signed("a group's dim") if flags & 2 else None
            return DivBy(divisor, every, along)
        case 9:
            return SameElements(c.list(8))
        case 10:
            return Dictionary(read_dictionary(c, t, depth))
        case 11:
            return read_hints(c, t, depth)
        case 12:
            flags = c.byte("the flags of bounded")
            lower = c.signed("a bound") if flags & 1 else None
            upper = c.signed("a bound") if flags & 2 else None
            return Bounded(lower, upper)
        case tag:
            c.fail("TB10", f"there is no attribute of the tag {tag}.", start)


def read_hints(c: Bytes, t: Tables, depth: int = 0) -> Hints:
    """Dictionaries by the names of architectures."""
    start = c.pos
    entries: list[tuple[str, Dictionary]] = []
    for name, value in read_dictionary(c, t, depth):
        if not isinstance(value, Dictionary):
            c.fail("TB10", f"the hints for '{name}' are no dictionary.", start)
        entries.append((name, value))
    return hints_of(entries)


def read_dictionary(c: Bytes, t: Tables, depth: int = 0) -> tuple[tuple[str, Attribute], ...]:
    """Attributes by name, without the tag of their dictionary, in the order of the names."""
    entries: dict[str, Attribute] = {}
    for _ in range(c.varint("the length of a dictionary", MAX_PARTS)):
        start = c.pos
        name = t.string(c, "the name of an attribute")
        if name in entries:
            c.fail("TB10", f"the attribute '{name}' is given twice.", start)
        entries[name] = read_tagged(c, t, depth + 1)
    return tuple(sorted(entries.items()))


def _element(c: Bytes, t: Tables) -> Element:
    start = c.pos
    type = t.type(c)
    if not isinstance(type, Element):
        c.fail("TB10", f"a number has a number type, and {type} is none.", start)
    return type


def write_tagged(out: Output, value: Attribute) -> None:
    """Append an attribute with its tag."""
    match value:
        case bool():
            out.varint(3)
            out.raw(bytes([value]))
        case Number(element, bits):
            out.varint(2 if element.is_float else 1)
            out.type(element)
            bits = bits >> 13 if element.name == "tf32" else bits
            if not element.is_float:
                out.varint(bits)
            elif element.bits <= 8:
                out.raw(bytes([bits]))
            else:
                out.signed(bits - (1 << 64) if bits >> 63 else bits)
        case Typed(type):
            out.varint(4)
            out.type(type)
        case str():
            out.varint(5)
            out.string(value)
        case Array(items):
            out.varint(6)
            out.varint(len(items))
            for item in items:
                write_tagged(out, item)
        case Dense():
            out.varint(7)
            out.type(value.type)
            out.constant(value)
        case DivBy(divisor, every, along):
            out.varint(8)
            out.varint(divisor)
            _optional(out, every, along)
        case SameElements(extents):
            out.varint(9)
            out.list(extents, 8)
        case Dictionary(entries):
            out.varint(10)
            write_dictionary(out, entries)
        case Hints(entries):
            out.varint(11)
            write_dictionary(out, entries)
        case Bounded(lower, upper):
            out.varint(12)
            _optional(out, lower, upper)
        case Unit():
            out.refuse("an attribute without a value")
        case _:
            out.refuse(f"the attribute {value}")


def write_dictionary(out: Output, entries: tuple[tuple[str, Attribute], ...]) -> None:
    """Append attributes by name, without a tag."""
    out.varint(len(entries))
    for name, value in entries:
        out.string(name)
        write_tagged(out, value)


def _optional(out: Output, first: int | None, second: int | None) -> None:
    out.raw(bytes([(first is not None) | (second is not None) << 1]))
    for number in (first, second):
        if number is not None:
            out.signed(number)


# The debug section: where each operation comes from, by function and number, and its attributes.


class Debug:
    """Locations by function and by the number of the operation in it, the function itself first."""

    def __init__(self, c: Bytes | None, tables: Tables) -> None:
        self.tables = tables
        self.starts: list[int] = []
        self.indices: list[int] = []
        self.known: dict[int, Any] = {}
        self.pending: set[int] = set()
        self.table: Table | None = None
        if c is None:
            return
        count = c.varint("the number of functions with debug information")
        c.align(4)
        raw = c.take(4 * count, "the offsets of debug information")
        self.starts = [int.from_bytes(raw[k : k + 4], "little") for k in range(0, len(raw), 4)]
        total = c.varint("the number of locations")
        if any(a > b for a, b in zip(self.starts, [*self.starts[1:], total], strict=False)):
            c.fail("TB08", "an offset of the debug information leads out of it.")
        c.align(8)
        raw = c.take(8 * total, "the numbers of locations")
        self.indices = [int.from_bytes(raw[k : k + 8], "little") for k in range(0, len(raw), 8)]
        self.table = table_of(c, 4, "debug attributes")

    def of(self, function: int, c: Bytes) -> list[Location | None]:
        """The locations of a function, itself first; the number 0 stands for a function without any."""
        if function == 0 or not self.starts:
            return []
        if function > len(self.starts):
            c.fail("TB08", f"there is no debug information {function}: the file has {len(self.starts)}.")
        ends = [*self.starts, len(self.indices)]
        numbers = self.indices[ends[function - 1] : ends[function]]
        return [self._location(n, c) for n in numbers]

    def _location(self, number: int, c: Bytes) -> Location | None:
        found = self._attribute(number, c)
        return found if isinstance(found, Place | Scoped | CallSite | Named) else None

    def _attribute(self, number: int, c: Bytes) -> Any:
        if number == 0:
            return None
        if number in self.known:
            return self.known[number]
        if self.table is None or number > len(self.table):
            count = 0 if self.table is None else len(self.table)
            c.fail("TB08", f"there is no debug attribute {number}: the file has {count}.")
        e = self.table.entry(number - 1)
        if number in self.pending or len(self.pending) > MAX_NESTING:
            e.fail("TB09", f"the debug attribute {number} is a part of itself, or nests deeper than {MAX_NESTING}.")
        self.pending.add(number)
        found = self._read(e)
        self.pending.discard(number)
        self.known[number] = found
        return found

    def _read(self, e: Bytes) -> Any:
        start = e.pos
        tag = e.byte("the tag of a debug attribute")
        match tag:
            case 0:
                return None
            case 1:
                return CompileUnit(self._part(e, File, start))
            case 2:
                return File(self.tables.string(e, "a file's name"), self.tables.string(e, "a folder's name"))
            case 3:
                scope, file = self._part(e, (Subprogram, LexicalBlock), start), self._part(e, File, start)
                return LexicalBlock(scope, file, e.varint("a line"), e.varint("a column"))
            case 4:
                scope = self._attribute(e.varint("a scope"), e)
                place = Place(self.tables.string(e, "a file's name"), e.varint("a line"), e.varint("a column"))
                return place if scope is None else Scoped(place, scope)
            case 5:
                file, line = self._part(e, File, start), e.varint("a line")
                name, linkage = self.tables.string(e, "a name"), self.tables.string(e, "a linkage name")
                return Subprogram(file, line, name, linkage, self._part(e, CompileUnit, start), e.varint("a line"))
            case 6:
                callee, caller = (self._location(e.varint("a location"), e) for _ in range(2))
                return None if callee is None or caller is None else CallSite(callee, caller)
            case _:
                e.fail("TB10", f"there is no debug attribute of the tag {tag}.", start)

    def _part(self, e: Bytes, kind: Any, start: int) -> Any:
        found = self._attribute(e.varint("a debug attribute"), e)
        if not isinstance(found, kind):
            e.fail("TB10", "this debug attribute refers to one of another kind.", start)
        return found


class DebugTable:
    """Debug attributes as they are written, each once."""

    def __init__(self, out: Output) -> None:
        self.tables: Written = out.tables
        self.numbers: dict[Any, int] = {}
        self.entries: list[bytes] = []
        self.functions: list[list[int]] = []

    def number(self, at: Any) -> int:
        """The number of a location or a scope; 0 where there is none."""
        if at is None:
            return 0
        if at in self.numbers:
            return self.numbers[at]
        out = Output(self.tables)
        match at:
            case CompileUnit(file):
                self._write(out, 1, file)
            case File(name, directory):
                self._write(out, 2, name, directory)
            case LexicalBlock(scope, file, line, column):
                self._write(out, 3, scope, file, line, column)
            case Scoped(Place(file, line, column), scope):
                self._write(out, 4, scope, file, line, column)
            case Place(file, line, column):
                self._write(out, 4, None, file, line, column)
            case Subprogram(file, line, name, linkage, unit, scope_line):
                self._write(out, 5, file, line, name, linkage, unit, scope_line)
            case CallSite(callee, caller):
                self._write(out, 6, callee, caller)
            case Named(_, inner):
                return self.number(inner)
            case _:
                return 0
        self.entries.append(bytes(out.buffer))
        self.numbers[at] = len(self.entries)
        return len(self.entries)

    def _write(self, out: Output, tag: int, *fields: Any) -> None:
        out.raw(bytes([tag]))
        for field in fields:
            if isinstance(field, int):
                out.varint(field)
            elif isinstance(field, str):
                out.string(field)
            else:
                out.varint(self.number(field))

    def section(self) -> Output:
        """The whole section."""
        out = Output(self.tables)
        out.varint(len(self.functions))
        _pad(out, 4)
        offset = 0
        for function in self.functions:
            out.raw(offset.to_bytes(4, "little"))
            offset += len(function)
        out.varint(offset)
        _pad(out, 8)
        for function in self.functions:
            out.raw(b"".join(n.to_bytes(8, "little") for n in function))
        write_table(out, self.entries or [b"\x00"], 4)
        return out


def _pad(out: Output, alignment: int) -> None:
    out.raw(bytes([PADDING]) * (-len(out.buffer) % alignment))


def write_table(out: Output, entries: Sequence[bytes], width: int) -> None:
    """Append a table: how many entries, their offsets, and their bytes."""
    out.varint(len(entries))
    _pad(out, width)
    offset = 0
    for entry in entries:
        out.raw(offset.to_bytes(width, "little"))
        offset += len(entry)
    out.raw(b"".join(entries))
