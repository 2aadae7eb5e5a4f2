"""The debug section: where each operation comes from, by function and number, and its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.tile.bytecode.cursor import PADDING, Bytes
from tensorir.tile.bytecode.output import Output
from tensorir.tile.bytecode.output import Tables as Written
from tensorir.tile.bytecode.sections import Table, table_of
from tensorir.tile.bytecode.tables import Tables
from tensorir.tile.locations import (
    CallSite,
    CompileUnit,
    File,
    LexicalBlock,
    Location,
    Named,
    Place,
    Scoped,
    Subprogram,
)

__all__ = ["Debug", "DebugTable"]

MAX_NESTING = 64
"""How deeply scopes and calls nest."""


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
