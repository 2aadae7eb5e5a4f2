"""A place in a text of MLIR assembly, and literals of constants.

Literals of constants as text: integers, floats, bits in hexadecimal, lists of them, and back.

>>> from tensorir.tile.types import ELEMENTS
>>> spelled(ELEMENTS["f32"], 0x40490FDB), spelled(ELEMENTS["f32"], 0x7F800000), spelled(ELEMENTS["i8"], 255)
('3.14159274', '0x7F800000', '-1')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tensorir.runtime.errors import Source, Span, refuse
from tensorir.tile.interpret.elements import rounded_bits
from tensorir.tile.nodes import Dense, Number, dense, number_of
from tensorir.tile.types import MAX_ELEMENTS, Element, Tile

# A place in a text of MLIR assembly: blanks and comments skipped, tokens taken, complaints located.

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_VALUE = re.compile(r"%([A-Za-z0-9_$.\-]+)")
_INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_SYMBOL = re.compile(r'@(?:([A-Za-z_][A-Za-z0-9_$.\-]*)|"((?:[^"\\\n]|\\.)*)")')
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")
_TOKEN = re.compile(r'->|::|[%@#!^]?[A-Za-z0-9_$.\-]+|"(?:[^"\\\n]|\\.)*"|.', re.DOTALL)


class Cursor:
    """The text and the position in it, which always stands at a token, or at the end."""

    __slots__ = ("end", "pos", "source", "text")

    source: Source
    text: str
    pos: int
    end: int

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.pos, self.end = source, source.text, 0, 0
        self.skip()

    def skip(self) -> None:
        """Past the blanks and comments after what was taken, whose end is kept."""
        self.end = self.pos
        self.pos = _BLANK.match(self.text, self.pos).end()  # type: ignore[union-attr]

    def fail(
        self, code: str, message: str, help: str = "", start: int | None = None, stop: int | None = None
    ) -> NoReturn:
        """Refuse the text, at the next token or at the characters that are given."""
        if start is None:
            start, stop = self.pos, self.token_end()
        raise refuse(code, message, help, at=Span(self.source, start, stop or start + 1))

    def wrong(self, code: str, message: str, start: int, help: str = "") -> NoReturn:
        """Refuse what was taken since `start`."""
        self.fail(code, message, help, start, self.span(start).stop)

    def token_end(self) -> int:
        found = _TOKEN.match(self.text, self.pos)
        return found.end() if found else self.pos

    def shown(self) -> str:
        """The next token, for a message."""
        return repr(self.text[self.pos : self.token_end()][:40]) if self.pos < len(self.text) else "the end of the text"

    def peek(self, literal: str) -> bool:
        """True if the text goes on with punctuation, or with a whole word."""
        if not self.text.startswith(literal, self.pos):
            return False
        if literal[-1].isalnum() or literal[-1] == "_":
            after = self.text[self.pos + len(literal) : self.pos + len(literal) + 1]
            return not (after.isalnum() or after in ("_", "$", "."))
        return True

    def accept(self, literal: str) -> bool:
        if self.peek(literal):
            self.end = self.pos + len(literal)
            self.pos = _BLANK.match(self.text, self.end).end()  # type: ignore[union-attr]
            return True
        return False

    def expect(self, *literals: str, where: str = "") -> None:
        for literal in literals:
            if not self.accept(literal):
                self.missing(f"'{literal}' is expected{where and f' {where}'}")

    def missing(self, said: str, code: str = "TM01") -> NoReturn:
        """Refuse the next token, where something else has to stand."""
        self.fail(code, f"{said}, and here stands {self.shown()}.")

    def items(self, close: str) -> Iterator[None]:
        """One turn for each item up to a closing bracket, with commas between them."""
        while not self.accept(close):
            yield
            if not self.accept(","):
                self.expect(close)
                return

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.pos)
        if found:
            self.end = found.end()
            self.pos = _BLANK.match(self.text, self.end).end()  # type: ignore[union-attr]
        return found

    def word(self) -> str | None:
        """A name with dots, such as the name of an operation."""
        found = self._take(_WORD)
        return found[0] if found else None

    def peek_word(self) -> str | None:
        found = _WORD.match(self.text, self.pos)
        return found[0] if found else None

    def keyword(self, what: str) -> str:
        found = self._take(_NAME)
        if found is None:
            self.missing(f"{what} is expected")
        return found[0]

    def value_name(self, expected: str) -> str:
        found = self._take(_VALUE)
        return found[1] if found else self.missing(expected)

    def float_text(self) -> str | None:
        found = self._take(_FLOAT)
        return found[0] if found else None

    def integer_text(self) -> str | None:
        """Digits, with a sign or as hexadecimal; digits before an `x` are those of an extent."""
        found = self._take(_INTEGER)
        return found[0] if found else None

    def integer(self, what: str = "an integer") -> int:
        start = self.pos
        text = self.integer_text()
        if text is None:
            self.missing(f"{what} is expected")
        if len(text) > 100:
            self.fail("TM02", "this number is longer than any that fits.", "", start, start + len(text))
        return int(text, 16 if "x" in text else 10)

    def string(self) -> str | None:
        found = self._take(_STRING)
        return self.unescaped(found[1], found.start()) if found else None

    def symbol(self, what: str = "a name with '@'") -> str:
        found = self._take(_SYMBOL)
        if found is None:
            self.missing(f"{what} is expected")
        return found[1] if found[1] is not None else self.unescaped(found[2], found.start())

    def unescaped(self, text: str, start: int) -> str:
        """The string that escapes stand for: two hexadecimal digits are a byte of UTF-8."""
        if "\\" not in text:
            return text
        raw, last = bytearray(), 0
        for found in _ESCAPE.finditer(text):
            raw += text[last : found.start()].encode()
            if found[1]:
                raw.append(int(found[1], 16))
            elif (known := {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}.get(found[2])) is not None:
                raw += known.encode()
            else:
                self.fail("TM03", f"'\\{found[2]}' is no escape in a string.", "", start, start + len(text) + 2)
            last = found.end()
        raw += text[last:].encode()
        return raw.decode("utf-8", "surrogateescape")

    def span(self, start: int) -> Span:
        """The characters from `start` to the end of what was taken last."""
        return Span(self.source, start, max(self.end, start + 1))

    def span_of_token(self, start: int) -> Span:
        found = _TOKEN.match(self.text, start)
        return Span(self.source, start, found.end() if found else start + 1)


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
        c.missing(f"a number of type {element} is expected", "TM20")
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
        c.missing(f"a number of type {element} is expected", "TM20")
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
                c.wrong("TM22", "lists of one depth have one length.", start)
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
