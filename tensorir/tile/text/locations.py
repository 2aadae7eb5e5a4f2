"""Locations as text, `loc("file":1:2)` and its other forms, and the scopes of debuggers that they name."""

from __future__ import annotations

from typing import Any

from tensorir.tile.nodes import (
    CallSite,
    CompileUnit,
    File,
    Fused,
    LexicalBlock,
    Location,
    Named,
    Place,
    Scope,
    Scoped,
    Subprogram,
)
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.types import AttributeReader

MAX_NESTING = 64
"""How deeply locations and scopes nest."""
_SCOPES = ("di_compile_unit", "di_subprogram", "di_lexical_block")


class LocationReader:
    """Reads locations at a cursor; remembers aliases. One whose alias follows later in the text is not resolved."""

    __slots__ = ("aliases", "attributes", "cursor", "depth")

    attributes: AttributeReader
    cursor: Cursor

    def __init__(self, cursor: Cursor, attributes: AttributeReader) -> None:
        self.cursor, self.attributes = cursor, attributes
        self.aliases: dict[str, Location | Scope | None] = {}
        self.depth: int = 0

    def trailing(self) -> Location | None:
        """The location after an operation or an argument, if there is one."""
        c = self.cursor
        if not c.text.startswith("loc", c.pos) or not c.peek("loc"):
            return None
        c.expect("loc", "(")
        found = self.location()
        c.expect(")")
        return found

    def location(self) -> Location | None:
        """The text between the parentheses of `loc(...)`."""
        c = self.cursor
        self.depth += 1
        if self.depth > MAX_NESTING:
            c.fail("TM02", f"locations nest at most {MAX_NESTING} deep.")
        found = self._location()
        self.depth -= 1
        return found

    def _location(self) -> Location | None:
        c = self.cursor
        if c.accept("loc"):
            c.expect("(")
            found = self.location()
            c.expect(")")
            return found
        if c.accept("unknown"):
            return None
        if c.accept("callsite"):
            c.expect("(")
            callee = self.location()
            c.expect("at")
            caller = self.location()
            c.expect(")")
            return None if callee is None or caller is None else CallSite(callee, caller)
        if c.accept("fused"):
            if c.accept("<"):
                self.attributes.read()
                c.expect(">")
            c.expect("[")
            parts: list[Location] = []
            for _ in c.items("]"):
                if (part := self.location()) is not None:
                    parts.append(part)
            return Fused(tuple(parts))
        if c.peek("#"):
            return self._named()
        text = c.string()
        if text is None:
            c.missing("a location is expected")
        if c.accept(":"):
            line = c.integer("a line")
            c.expect(":")
            column = c.integer("a column")
            if c.accept("to"):  # a range ends in a column, or in a line and a column
                if not c.peek(":"):
                    c.integer()
                c.expect(":")
                c.integer()
            return Place(text, line, column)
        if c.accept("("):
            inner = self.location()
            c.expect(")")
            return Named(text, inner)
        return Named(text)

    def _named(self) -> Location | None:
        c = self.cursor
        start = c.pos
        c.expect("#")
        word = c.word() or ""
        if word == "cuda_tile.di_loc":
            c.expect("<")
            place = self.location()
            c.expect("in")
            scope = self.scope()
            c.expect(">")
            if not isinstance(place, Place) or isinstance(scope, File | CompileUnit):
                c.wrong("TM37", "di_loc is a file, a line and a column in a subprogram or a lexical block.", start)
            return Scoped(place, scope)
        found = self.aliases.get(word)
        return None if isinstance(found, File | CompileUnit | Subprogram | LexicalBlock) else found

    def scope(self) -> Any:
        """A scope of a debugger, or the alias of one."""
        c = self.cursor
        start = c.pos
        self.depth += 1
        if self.depth > MAX_NESTING:
            c.fail("TM02", f"scopes nest at most {MAX_NESTING} deep.")
        c.expect("#")
        word = c.word() or ""
        kind = word.removeprefix("cuda_tile.")
        if kind == "di_file":
            c.expect("<")
            name = c.string()
            c.expect("in")
            directory = c.string()
            c.expect(">")
            found: Any = File(name or "", directory or "")
        elif kind in _SCOPES:
            found = self._struct(kind, start)
        elif word in self.aliases:
            found = self.aliases[word]
        else:
            c.fail("TM34", f"there is no alias '#{word}'.", "", start, start + 1 + len(word))
        self.depth -= 1
        return found

    def _struct(self, kind: str, start: int) -> Scope:
        """`<name = value, ...>`."""
        c = self.cursor
        c.expect("<")
        fields: dict[str, Any] = {}
        for _ in c.items(">"):
            name = c.keyword("the name of a field")
            c.expect("=")
            text = c.string()
            fields[name] = text if text is not None else self.scope() if c.peek("#") else c.integer()
        try:
            if kind == "di_compile_unit":
                return CompileUnit(fields["file"])
            if kind == "di_subprogram":
                return Subprogram(
                    fields["file"], fields["line"], fields["name"], fields["linkageName"], fields["compileUnit"],
                    fields.get("scopeLine", 0),
                )  # fmt: skip
            return LexicalBlock(fields["scope"], fields["file"], fields["line"], fields.get("column", 0))
        except KeyError as missing:
            c.wrong("TM37", f"{kind} needs the field {missing}.", start)

    def define(self, name: str) -> bool:
        """An alias of a location or a scope, `#l = loc(...)`; False where it is neither."""
        c = self.cursor
        if c.peek("loc"):
            self.aliases[name] = self.trailing()
        elif any(c.peek(f"#cuda_tile.{kind}") for kind in ("di_file", *_SCOPES)):
            self.aliases[name] = self.scope()
        elif c.peek("#cuda_tile.di_loc"):
            self.aliases[name] = self.location()
        else:
            return False
        return True


def spelled_location(at: Location | None) -> str:
    """A location as the reader reads it, without `loc(` and `)`."""
    match at:
        case None:
            return "unknown"
        case Place(file, line, column):
            return f"{_quoted(file)}:{line}:{column}"
        case Scoped(place, scope):
            return f"#cuda_tile.di_loc<loc({spelled_location(place)}) in {_scope(scope)}>"
        case CallSite(callee, caller):
            return f"callsite({spelled_location(callee)} at {spelled_location(caller)})"
        case Named(name, inner):
            return _quoted(name) + ("" if inner is None else f"({spelled_location(inner)})")
        case Fused(parts):
            return f"fused[{', '.join(map(spelled_location, parts))}]"


def _scope(scope: Scope) -> str:
    match scope:
        case File(name, directory):
            return f"#cuda_tile.di_file<{_quoted(name)} in {_quoted(directory)}>"
        case CompileUnit(file):
            return f"#cuda_tile.di_compile_unit<file = {_scope(file)}>"
        case Subprogram(file, line, name, linkage, unit, scope_line):
            at = f", scopeLine = {scope_line}" if scope_line else ""
            return (
                f"#cuda_tile.di_subprogram<file = {_scope(file)}, line = {line}, name = {_quoted(name)}, "
                f"linkageName = {_quoted(linkage)}, compileUnit = {_scope(unit)}{at}>"
            )
        case LexicalBlock(outer, file, line, column):
            at = f", column = {column}" if column else ""
            return f"#cuda_tile.di_lexical_block<scope = {_scope(outer)}, file = {_scope(file)}, line = {line}{at}>"


def _quoted(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw) + '"'
