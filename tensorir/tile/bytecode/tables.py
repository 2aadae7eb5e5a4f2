"""The tables that operations refer to: strings, types, constants, and which parts of a row have bytes."""

from __future__ import annotations

from functools import cache

from tensorir.tile.bytecode.bytes import MAX_PARTS, Bytes, Sections, Table, Version, spelled, table_of
from tensorir.tile.nodes import Dense, dense
from tensorir.tile.operations import Row
from tensorir.tile.types import (
    ELEMENTS,
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
    complaint,
    since,
)

# What bytecode makes of a row of the table: which of its parts have a bit among the flags of a version.


@cache
def flag_bits(row: Row, version: Version) -> dict[str, int]:
    """The bit of each flag, optional attribute and optional operand: by version, then attributes before operands.

    >>> from tensorir.tile.operations import TABLE
    >>> flag_bits(TABLE["store_ptr_tko"], (13, 3))
    {'memory_scope': 0, 'optimization_hints': 1, 'mask': 2, 'token': 3}
    """
    parts = [(a.since, a.name) for a in row.attributes if a.kind == "flag" or a.optional]
    parts += [(o.since, o.name) for o in row.operands if o.count == "optional"]
    known = sorted((part for part in parts if part[0] <= version), key=lambda part: part[0])
    return {name: bit for bit, (_, name) in enumerate(known)}


# The tables that operations refer to: strings, types, constants; each entry read when it is first needed.

DYNAMIC = -(1 << 63)
"""What stands for an extent or a stride that only a launch tells."""
_ELEMENTS = {e.tag: e for e in ELEMENTS.values()}


class Tables:
    """Strings, types and constants of a file, by number."""

    def __init__(self, sections: Sections) -> None:
        self.version: Version = sections.version
        parts = sections.parts
        self._strings = table_of(parts["String"], 4, "strings")
        self._types = table_of(parts.get("Type"), 4, "types")
        self._constants = table_of(parts.get("Constant"), 8, "constants")
        self.strings: dict[int, str] = {}
        self.types: dict[int, Type] = {}
        self._pending: set[int] = set()
        self._dense: dict[tuple[int, Tile], Dense] = {}

    def string(self, c: Bytes, what: str) -> str:
        """The string whose number stands at a cursor."""
        start = c.pos
        number = c.varint(what)
        known = self.strings.get(number)
        if known is not None:
            return known
        entry = self._entry(self._strings, number, "string", c, start)
        text = entry.take(entry.end - entry.pos, what).decode("utf-8", "surrogateescape")
        self.strings[number] = text
        return text

    def type(self, c: Bytes, what: str = "a type") -> Type:
        """The type whose number stands at a cursor."""
        start = c.pos
        number = c.varint(what)
        known = self.types.get(number)
        return known if known is not None else self._type(number, c, start)

    def _entry(self, table: Table | None, number: int, what: str, c: Bytes, start: int) -> Bytes:
        count = 0 if table is None else len(table)
        if table is None or number >= count:
            c.fail("TB08", f"there is no {what} {number}: the file has {count}.", start)
        return table.entry(number)

    def _type(self, number: int, c: Bytes, start: int) -> Type:
        e = self._entry(self._types, number, "type", c, start)
        if number in self._pending:
            c.fail("TB09", f"the type {number} is a part of itself.", start)
        self._pending.add(number)
        first = e.pos
        type = self._composed(e)
        if e.pos != e.end:
            e.fail("TB08", f"the type {number} ends before its bytes do.")
        if since(type) > self.version:
            e.fail(
                "TB07",
                f"{type} is of version {spelled(since(type))}, and the file is of {spelled(self.version)}.",
                first,
            )
        if (said := complaint(type)) is not None:
            e.fail("TB10", f"{said}.", first)
        self._pending.discard(number)
        self.types[number] = type
        return type

    def _composed(self, e: Bytes) -> Type:
        start = e.pos
        tag = e.varint("the tag of a type")
        if tag in _ELEMENTS:
            return _ELEMENTS[tag]
        match tag:
            case 12:
                return Pointer(self._element(e))
            case 13:
                place = e.pos
                element = self.type(e)
                if not isinstance(element, Element | Pointer):
                    e.fail("TB10", f"a tile holds numbers or pointers, and {element} is neither.", place)
                return Tile(e.list(8), element)
            case 14:
                element = self._element(e)
                shape, strides = (tuple(None if n == DYNAMIC else n for n in e.list(8)) for _ in range(2))
                return TensorView(element, shape, strides)
            case 16:
                sides: list[tuple[Type, ...]] = []
                for _ in range(2):
                    count = e.varint("the number of types of a signature", MAX_PARTS)
                    sides.append(tuple(self._value_type(e) for _ in range(count)))
                return Function(*sides)
            case 17:
                return Token()
            case 15 | 20 | 21:
                return self._view(e, tag, start)
            case _:
                e.fail("TB10", f"there is no type of the tag {tag}.", start)

    def _value_type(self, e: Bytes) -> Type:
        start = e.pos
        type = self.type(e)
        if isinstance(type, Function):
            e.fail("TB10", "a signature has no signatures in it.", start)
        return type

    def _element(self, e: Bytes) -> Element:
        start = e.pos
        type = self.type(e)
        if not isinstance(type, Element):
            e.fail("TB10", f"a number type is needed, and {type} is none.", start)
        return type

    def _view(self, e: Bytes, tag: int, start: int) -> Type:
        flags = e.varint("the flags of a view", 2) if self.version >= (13, 3) else None
        tile = e.list(4)
        traversal = e.list(4) if tag == 21 else ()
        place = e.pos
        tensor = self.type(e)
        if not isinstance(tensor, TensorView):
            e.fail("TB10", f"a view is of a tensor_view, and {tensor} is none.", place)
        sparse, dim_map = 0, ()
        if tag == 20:
            sparse = e.varint("the sparse dim of a view")
        else:
            dim_map = e.list(4)
        padded = e.varint("whether a view has padding", 2) if flags is None else flags
        padding = PADDINGS[e.varint("the padding of a view", len(PADDINGS))] if padded else None
        if not padded and e.pos < e.end:
            e.varint("the padding of a view")  # a producer may write one that counts for nothing
        if tag == 15:
            return PartitionView(tile, tensor, dim_map, padding)
        if tag == 21:
            return StridedView(tile, traversal, tensor, dim_map, padding)
        return GatherScatterView(tile, tensor, sparse, padding)

    def dense(self, c: Bytes, type: Type) -> Dense:
        """The constant whose number stands at a cursor, as elements of a tile."""
        start = c.pos
        number = c.varint("a constant")
        if not isinstance(type, Tile) or not isinstance(type.element, Element):
            c.fail("TB10", f"a constant is a tile of numbers, and {type} is none.", start)
        known = self._dense.get((number, type))
        if known is not None:
            return known
        e = self._entry(self._constants, number, "constant", c, start)
        length = e.varint("the length of a constant")
        raw = e.take(length, "a constant")
        data = stored(raw, type)
        if data is None:
            e.fail("TB11", f"a constant of {length} bytes is none of type {type}.", e.pos - length)
        return self._dense.setdefault((number, type), dense(type, data))


def stored(raw: bytes, type: Tile) -> bytes | None:
    """The storage of dense elements from what bytecode keeps: bits of i1 are packed, tf32 has three bytes."""
    element = type.element
    assert isinstance(element, Element)
    count = 1
    for n in type.shape:
        count *= n
    if element.bits == 1:
        if raw in (b"\x00", b"\xff"):
            return raw[:1] if raw == b"\x00" else b"\x01"
        if len(raw) != (count + 7) // 8:
            return None
        return bytes(raw[k // 8] >> (k % 8) & 1 for k in range(count))
    if element.name == "tf32":
        if len(raw) not in (3, 3 * count):
            return None
        parts = (int.from_bytes(raw[k : k + 3], "little") for k in range(0, len(raw), 3))
        return b"".join(((n & 0x7FFFF) << 13).to_bytes(4, "little") for n in parts)
    return raw if len(raw) in (element.bytes, element.bytes * count) else None
