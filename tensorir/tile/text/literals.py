"""Literals of constants as text: integers, floats, bits in hexadecimal, lists of them, and back.

>>> from tensorir.tile.elements import ELEMENTS
>>> spelled(ELEMENTS["f32"], 0x40490FDB), spelled(ELEMENTS["f32"], 0x7F800000), spelled(ELEMENTS["i8"], 255)
('3.14159274', '0x7F800000', '-1')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.tile.attributes import Dense, Number, dense, number_of
from tensorir.tile.elements import Element
from tensorir.tile.interpret.rounding import rounded_bits
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.types import MAX_ELEMENTS, Tile

__all__ = ["constant", "read_dense", "read_number", "spelled", "spelled_dense", "spelled_number"]

MAX_LISTS = 64
"""How deeply lists of a constant nest."""


def read_number(c: Cursor, element: Element) -> int:
    """The bits of one literal of an element type."""
    start = c.pos
    if element.is_integer:
        return _integer(c, element, start)
    text = c.float_text()
    if text is not None:
        return rounded_bits(element, text)
    text = c.integer_text()
    if text is None:
        c.fail("TM20", f"a number of type {element} is expected, and here stands {c.shown()}.")
    stop = c.span(start).stop
    if "x" not in text or text.startswith("-"):
        c.fail("TM20", f"a float has a point, and {text[:40]} has none.", f"write {text[:40]}.0.", start, stop)
    bits = int(text, 16) if len(text) < 40 else 1 << 100
    if bits >= 1 << element.bits:
        c.fail("TM21", f"{text[:40]} has more bits than {element}.", "", start, stop)
    return bits << 13 if element.name == "tf32" else bits


def _integer(c: Cursor, element: Element, start: int) -> int:
    if element.bits == 1:
        for word, bit in (("true", 1), ("false", 0)):
            if c.accept(word):
                return bit
    text = c.integer_text()
    if text is None:
        c.fail("TM20", f"a number of type {element} is expected, and here stands {c.shown()}.")
    stop = c.span(start).stop
    if c.peek("."):
        c.fail("TM20", f"an integer has no point, and the elements are {element}.", "", start, stop)
    value = int(text, 16 if "x" in text else 10) if len(text) < 40 else 1 << 100
    least, most = element.range[0], (1 << element.bits) - 1 if element.bits < 64 else element.range[1]
    if not least <= value <= most:
        c.fail("TM21", f"{text[:40]} does not fit {element}.", f"it holds {least} to {most}.", start, stop)
    return value & ((1 << element.bits) - 1)


def read_dense(c: Cursor, element: Element) -> tuple[tuple[int, ...] | None, bytes]:
    """A literal or nested lists of them: the extents of the lists (None for a bare number), and the storage."""
    if not c.peek("["):
        return None, read_number(c, element).to_bytes(element.bytes, "little")
    start, shape, counts, data = c.pos, list[int](), list[int](), bytearray()
    complete: dict[int, int] = {}
    while True:
        if c.accept("["):
            counts.append(0)
            if len(counts) > MAX_LISTS:
                c.fail("TM02", f"lists of a constant nest at most {MAX_LISTS} deep.")
            if not c.peek("]"):
                continue
        else:
            data += read_number(c, element).to_bytes(element.bytes, "little")
            if complete.setdefault(-1, len(counts)) != len(counts):
                c.fail("TM22", "the lists of a constant are of one depth.", "", start)
            counts[-1] += 1
        if len(data) > MAX_ELEMENTS * element.bytes:
            c.fail("TM02", f"a tile has at most {MAX_ELEMENTS} elements.", "", start)
        while counts and not c.accept(","):
            c.expect("]")
            depth, count = len(counts), counts.pop()
            if complete.setdefault(depth, count) != count:
                c.fail("TM22", "lists of one depth have one length.", "", start, c.span(start).stop)
            if counts:
                counts[-1] += 1
        if not counts:
            shape = [complete[d] for d in range(1, max(complete) + 1)]
            return tuple(shape), bytes(data)


def constant(c: Cursor, type: Tile, shape: tuple[int, ...] | None, data: bytes, start: int) -> Dense:
    """The dense elements of a tile; lists have the tile's shape."""
    if shape is not None and shape != type.shape:
        said = "x".join(map(str, shape))
        c.fail("TM22", f"the constant is of shape {said}, and its type is {type}.", "", start)
    return dense(type, data)


def spelled(element: Element, bits: int) -> str:
    """A number as the printer writes it: the shortest decimal that reads back, or the bits."""
    if element.is_integer:
        return ("false", "true")[bits & 1] if element.bits == 1 else str(number_of(element, bits))
    digits = (element.bits + 3) // 4
    value: float = number_of(element, bits)
    if value != value or value in (float("inf"), float("-inf")):
        return f"0x{bits >> (13 if element.name == 'tf32' else 0):0{digits}X}"
    for precision in (6, 9, 17):
        text = f"{value:.{precision}e}" if precision == 6 else f"{value:.{precision}g}"
        if rounded_bits(element, text) == bits:
            break
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text if "." in text else f"{text}.0"


def spelled_dense(value: Dense) -> str:
    """The elements of a constant, as nested lists or as the one that fills the tile."""
    element = value.type.element
    assert isinstance(element, Element)
    size = element.bytes
    if value.is_splat:
        return spelled(element, int.from_bytes(value.data, "little"))
    raw = np.frombuffer(value.data, {1: np.uint8, 2: "<u2", 4: "<u4", 8: "<u8"}[size])
    known: dict[int, str] = {}
    words = [known.get(b) or known.setdefault(b, spelled(element, b)) for b in raw.tolist()]
    for extent in reversed(value.type.shape):
        words = [f"[{', '.join(words[k : k + extent])}]" for k in range(0, len(words), extent)]
    return words[0]


def spelled_number(number: Number) -> str:
    """A number with its type, as identities and dictionaries write it."""
    words: Any = spelled(number.element, number.bits)
    return words if number.element.bits == 1 else f"{words} : {number.element}"
