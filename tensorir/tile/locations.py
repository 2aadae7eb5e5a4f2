"""Where an operation comes from, as a producer says it: debug information, which has no meaning for a run.

A location is a place in a file, perhaps with the scope of a debugger, a call, a name, or several of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CallSite", "CompileUnit", "File", "Fused", "LexicalBlock", "Location", "Named", "Place", "Scope", "Scoped",
    "Subprogram",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    name: str
    directory: str = ""


@dataclass(frozen=True, slots=True)
class CompileUnit:
    file: File


@dataclass(frozen=True, slots=True)
class Subprogram:
    """A function of the source language."""

    file: File
    line: int
    name: str
    linkage_name: str
    unit: CompileUnit
    scope_line: int = 0


@dataclass(frozen=True, slots=True)
class LexicalBlock:
    """A block inside of a function of the source language."""

    scope: Scope
    file: File
    line: int
    column: int = 0


Scope = File | CompileUnit | Subprogram | LexicalBlock


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column of a file."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scoped:
    """A place in the scope of a function."""

    place: Place
    scope: Scope


@dataclass(frozen=True, slots=True)
class CallSite:
    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    at: Location | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    parts: tuple[Location, ...]


Location = Place | Scoped | CallSite | Named | Fused
