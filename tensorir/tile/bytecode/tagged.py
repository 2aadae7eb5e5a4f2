"""Attributes with a tag before them, as identities, predicates, hints and dictionaries have: read and written."""

from __future__ import annotations

from tensorir.tile.attributes import (
    Array,
    Attribute,
    Bounded,
    Dense,
    Dictionary,
    DivBy,
    Hints,
    Number,
    SameElements,
    Typed,
    Unit,
    hints_of,
)
from tensorir.tile.bytecode.cursor import Bytes
from tensorir.tile.bytecode.output import Output
from tensorir.tile.bytecode.tables import Tables
from tensorir.tile.elements import Element

__all__ = ["read_dictionary", "read_tagged", "write_dictionary", "write_tagged"]

MAX_NESTING = 64
"""How deeply attributes nest."""
MAX_ITEMS = 65536
"""Items of an array or a dictionary that are read."""


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
            count = c.varint("the length of an array", MAX_ITEMS)
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
            count = c.varint("the length of a list", MAX_ITEMS)
            raw = c.take(8 * count, "a list")
            numbers = (int.from_bytes(raw[k : k + 8], "little", signed=True) for k in range(0, len(raw), 8))
            return SameElements(tuple(numbers))
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
    for _ in range(c.varint("the length of a dictionary", MAX_ITEMS)):
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
            out.varint(len(extents))
            out.raw(b"".join(n.to_bytes(8, "little", signed=True) for n in extents))
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
