"""Bytes that grow, and the tables of strings, types and constants that they refer to."""

from __future__ import annotations

from typing import NoReturn

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span
from tensorir.tile.attributes import Dense
from tensorir.tile.bytecode.versions import Version, spelled
from tensorir.tile.elements import Element
from tensorir.tile.types import (
    PADDINGS,
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

__all__ = ["Output", "Tables"]

_DYNAMIC = -(1 << 63)


class Tables:
    """What is written once and referred to by number."""

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
        """What this version of bytecode cannot say."""
        version = spelled(self.tables.version)
        said = (
            f"is of version {spelled(since)}, and {version} is written"
            if since
            else f"cannot be written to bytecode {version}"
        )
        help = f"write version {spelled(since)}." if since else ""
        raise DiagnosticError(Diagnostic("TB07" if since else "TB13", f"{what} {said}.", self.at, help=help))

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
    """What bytecode keeps of dense elements: bits of i1 are packed, tf32 has three bytes."""
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
