"""Attributes as text: dictionaries, numbers, lists, predicates, hints, dense elements, and the dialect's own words."""

from __future__ import annotations

from tensorir.tile.attributes import (
    Array,
    Attribute,
    Bounded,
    Dictionary,
    DivBy,
    Hints,
    Keyword,
    Number,
    SameElements,
    Symbol,
    Typed,
    Unit,
    bits_of,
    dense,
    hints_of,
)
from tensorir.tile.elements import ELEMENTS, Element
from tensorir.tile.interpret.rounding import rounded_bits
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.literals import constant, read_dense
from tensorir.tile.text.types import TypeReader
from tensorir.tile.types import Tile

__all__ = ["AttributeReader"]

MAX_NESTING = 64
"""How deeply attributes nest."""
PREDICATES = ("div_by", "same_elements", "bounded")


class AttributeReader:
    """Reads attributes at a cursor; remembers aliases (`#a = ...`)."""

    __slots__ = ("aliases", "cursor", "depth", "types")

    cursor: Cursor
    types: TypeReader

    def __init__(self, cursor: Cursor, types: TypeReader) -> None:
        self.cursor, self.types = cursor, types
        self.aliases: dict[str, Attribute] = {}
        self.depth: int = 0

    def read(self) -> Attribute:
        """Any attribute."""
        c = self.cursor
        self.depth += 1
        if self.depth > MAX_NESTING:
            c.fail("TM02", f"attributes nest at most {MAX_NESTING} deep.")
        found = self._read()
        self.depth -= 1
        return found

    def _read(self) -> Attribute:
        c = self.cursor
        start = c.pos
        if (text := c.string()) is not None:
            return text
        if c.peek("@"):
            name = c.symbol()
            while c.accept("::"):
                name += f"::{c.symbol()}"
            return Symbol(name)
        if c.accept("["):
            items: list[Attribute] = []
            while not c.accept("]"):
                items.append(self.read())
                if not c.accept(","):
                    c.expect("]")
                    break
            return Array(tuple(items))
        if c.peek("{"):
            return self.dictionary()
        if c.peek("#"):
            return self._named(start)
        word = c.peek_word()
        if word in ("true", "false"):
            c.accept(word)
            return word == "true"
        if word == "unit":
            c.accept("unit")
            return Unit()
        if word == "dense":
            return self._dense()
        if word == "array":
            return self._array()
        if c.peek("-") or c.text[c.pos : c.pos + 1].isdigit():
            return self._number()
        if self.types.starts():
            return Typed(self.types.read())
        c.fail("TM30", f"an attribute is expected, and here stands {c.shown()}.")

    def dictionary(self) -> Dictionary:
        """`{name = attribute, flag}`, in the order of the names."""
        c = self.cursor
        c.expect("{")
        entries: dict[str, Attribute] = {}
        while not c.accept("}"):
            start = c.pos
            name = c.string()
            if name is None:
                name = c.word()
            if name is None:
                c.fail("TM30", f"the name of an attribute is expected, and here stands {c.shown()}.")
            if name in entries:
                c.fail("TM31", f"the attribute '{name}' is given twice.", "", start, start + len(name))
            entries[name] = self.read() if c.accept("=") else Unit()
            if not c.accept(","):
                c.expect("}")
                break
        return Dictionary(tuple(sorted(entries.items())))

    def hints(self) -> Hints:
        """`<name = {key = value, ...}, ...>`."""
        c = self.cursor
        c.expect("<")
        entries: dict[str, Dictionary] = {}
        while not c.accept(">"):
            start = c.pos
            name = c.string()
            if name is None:
                name = c.keyword("the name of an architecture")
            if name in entries:
                c.fail("TM31", f"the hints for '{name}' are given twice.", "", start, start + len(name))
            c.expect("=")
            place = c.pos
            value = self.read()
            if not isinstance(value, Dictionary):
                c.fail("TM32", f"the hints for '{name}' are a dictionary in braces.", "", place, c.span(place).stop)
            entries[name] = value
            if not c.accept(","):
                c.expect(">")
                break
        return hints_of(entries.items())

    def predicate(self) -> DivBy | SameElements | Bounded:
        """What assume says of its value."""
        c = self.cursor
        start = c.pos
        if c.accept("#"):
            c.accept("cuda_tile.")
        word = c.word() or ""
        word = word.removeprefix("cuda_tile.")
        if word in PREDICATES:
            return self._predicate(word)
        alias = self.aliases.get(word)
        if isinstance(alias, DivBy | SameElements | Bounded):
            return alias
        c.fail(
            "TM33",
            f"there is no predicate '{word}'.",
            f"it is one of {', '.join(PREDICATES)}.",
            start,
            max(c.span(start).stop, start + 1),
        )

    def _predicate(self, word: str) -> DivBy | SameElements | Bounded:
        c = self.cursor
        c.expect("<")
        if word == "div_by":
            start = c.pos
            divisor = c.integer("a divisor")
            if not 0 <= divisor < 1 << 64:
                c.fail("TM21", "a divisor fits 64 bits without sign.", "", start)
            every = along = None
            if c.accept(","):
                c.expect("every")
                every = self._int64()
                c.expect("along")
                along = self._int64()
            c.expect(">")
            return DivBy(divisor, every, along)
        if word == "same_elements":
            values = self.integers(64)
            c.expect(">")
            return SameElements(values)
        lower = None if c.accept("?") else self._int64()
        c.expect(",")
        upper = None if c.accept("?") else self._int64()
        c.expect(">")
        return Bounded(lower, upper)

    def integers(self, bits: int) -> tuple[int, ...]:
        """`[1, 0]`."""
        c = self.cursor
        c.expect("[")
        values: list[int] = []
        while not c.accept("]"):
            values.append(self._int64(bits))
            if not c.accept(","):
                c.expect("]")
                break
        return tuple(values)

    def _int64(self, bits: int = 64) -> int:
        start = self.cursor.pos
        number = self.cursor.integer()
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            self.cursor.fail("TM21", f"this number does not fit {bits} bits.", "", start, self.cursor.end)
        return number

    def _named(self, start: int) -> Attribute:
        """`#cuda_tile.rounding<zero>`, `#alias`, or an attribute of another dialect, kept as it stands."""
        c = self.cursor
        c.expect("#")
        word = c.word()
        if word is None:
            c.fail("TM30", f"the name of an attribute is expected, and here stands {c.shown()}.")
        if word in self.aliases:
            return self.aliases[word]
        own = word.removeprefix("cuda_tile.")
        if own in PREDICATES:
            return self._predicate(own)
        if own == "optimization_hints":
            return self.hints()
        if "." not in word:
            c.fail("TM34", f"there is no attribute alias '#{word}'.", "", start, start + 1 + len(word))
        if c.peek("<"):
            self._skip_angles()
        return Keyword(c.span(start).text)

    def _skip_angles(self) -> None:
        c = self.cursor
        start, depth = c.pos, 0
        while c.pos < len(c.text):
            if c.string() is not None:
                continue
            depth += {"<": 1, ">": -1}.get(c.text[c.pos], 0)
            c.pos = c.token_end()
            c.skip()
            if depth == 0:
                return
        c.fail("TM01", "'>' is expected at the end of this attribute.", "", start)

    def _number(self) -> Attribute:
        c = self.cursor
        start = c.pos
        text = c.float_text()
        if text is not None:
            element = self._element_after(ELEMENTS["f64"], start)
            if element.is_integer:
                c.fail("TM20", f"{element} has no numbers with a point.", "", start)
            return Number(element, rounded_bits(element, text))
        text = c.integer_text()
        if text is None:
            c.fail("TM30", f"a number is expected, and here stands {c.shown()}.")
        element = self._element_after(ELEMENTS["i64"], start)
        value = int(text, 16 if "x" in text else 10) if len(text) < 40 else 1 << 100
        bits = element.bits
        if element.is_float and "x" not in text:
            c.fail("TM20", f"a float has a point, and {text[:40]} has none.", f"write {text[:40]}.0.", start)
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            c.fail("TM21", f"{text[:40]} does not fit {element}.", "", start)
        if element.bits == 1:
            return bool(value & 1)
        return Number(element, bits_of(element, value) << (13 if element.name == "tf32" else 0))

    def _element_after(self, default: Element, start: int) -> Element:
        c = self.cursor
        if not c.accept(":"):
            return default
        if c.accept("index"):
            return ELEMENTS["i64"]
        type = self.types.read()
        if not isinstance(type, Element):
            c.fail("TM14", f"the type of a number is a number type, and {type} is none.", "", start, c.span(start).stop)
        return type

    def _array(self) -> Attribute:
        """`array<i32: 1, 0>`."""
        c = self.cursor
        c.expect("array")
        c.expect("<")
        self.types.read()
        values: list[int] = []
        if c.accept(":"):
            while not c.peek(">"):
                values.append(
                    {"true": 1, "false": 0}[w]
                    if (w := c.peek_word()) in ("true", "false") and c.accept(w)
                    else self._int64()
                )
                if not c.accept(","):
                    break
        c.expect(">")
        return tuple(values)

    def _dense(self) -> Attribute:
        """`dense<[1, 2]> : tile<2xi32>`; a quoted string holds the storage in hexadecimal."""
        c = self.cursor
        start = c.pos
        c.expect("dense")
        c.expect("<")
        before = c.pos
        # the type stands behind: find it first
        self._skip_to_close(before)
        c.expect(">")
        c.expect(":")
        after_type = c.pos
        type = self._shaped()
        end = c.pos
        element = type.element
        if not isinstance(element, Element):
            c.fail("TM14", "a constant holds numbers.", "", after_type)
        c.pos = before
        text = c.string()
        if text is not None:
            try:
                raw = bytes.fromhex(text.removeprefix("0x"))
            except ValueError:
                c.fail("TM20", "the string of a constant holds hexadecimal digits.", "", before)
            count = 1
            for n in type.shape:
                count *= n
            if len(raw) not in (element.bytes, element.bytes * count):
                c.fail("TM22", f"{type} takes {element.bytes * count} bytes, and this has {len(raw)}.", "", before)
            c.expect(">")
            c.pos = end
            return dense(type, raw)
        shape, data = read_dense(c, element)
        c.expect(">")
        c.pos = end
        return constant(c, type, shape, data, start)

    def _skip_to_close(self, start: int) -> None:
        c = self.cursor
        while c.pos < len(c.text) and not c.peek(">"):
            if c.string() is None:
                c.pos = c.token_end()
                c.skip()
        if c.pos >= len(c.text):
            c.fail("TM01", "'>' is expected at the end of this constant.", "", start)

    def _shaped(self) -> Tile:
        """The type of dense elements: a tile, or a tensor of another dialect."""
        c = self.cursor
        start = c.pos
        # builtin tensors and vectors are spelled as tiles are
        type = self.types.tile() if c.accept("tensor") or c.accept("vector") else self.types.read()
        if not isinstance(type, Tile):
            c.fail("TM14", f"dense elements are of a tile, and {type} is none.", "", start, c.span(start).stop)
        return type
