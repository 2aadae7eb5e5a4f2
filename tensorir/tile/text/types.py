"""Types and attributes as text, and how names and numbers are spelled."""

from __future__ import annotations

import re

from tensorir.tile.interpret.elements import rounded_bits
from tensorir.tile.nodes import (
    Array,
    Attribute,
    Bounded,
    Dense,
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
from tensorir.tile.text.cursor import Cursor, constant, read_dense, spelled_dense, spelled_number
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
)

# How attributes, symbols and strings are spelled.

_PLAIN_SYMBOL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.")


def symbol(name: str) -> str:
    plain = bool(name) and not name[0].isdigit() and name[0] not in "$." and all(c in _PLAIN_SYMBOL for c in name)
    return name if plain else quoted(name)


def quoted(text: str) -> str:
    """A string with what no literal holds as bytes in hexadecimal."""
    raw = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw) + '"'


def spelled_hints(hints: Hints) -> str:
    def plain(value: Attribute) -> str:
        return (
            str(value.value) if isinstance(value, Number) and value.element.name == "i32" else spelled_attribute(value)
        )

    said = (f"{_key(n)} = {{{', '.join(f'{_key(k)} = {plain(v)}' for k, v in d.entries)}}}" for n, d in hints.entries)
    return f"<{', '.join(said)}>"


def spelled_attribute(value: Attribute) -> str:
    """An attribute as dictionaries and the generic form write it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case int():
            return str(value)
        case tuple():
            return f"array<i32: {', '.join(map(str, value))}>" if value else "array<i32>"
        case Number():
            return spelled_number(value)
        case Unit():
            return "unit"
        case Keyword(text):
            return text
        case Symbol(name):
            return "::".join(f"@{symbol(part)}" for part in name.split("::"))
        case Typed(type):
            return str(type)
        case Array(items):
            return f"[{', '.join(map(spelled_attribute, items))}]"
        case Dictionary(entries):
            items = (n if isinstance(v, Unit) else f"{_key(n)} = {spelled_attribute(v)}" for n, v in entries)
            return f"{{{', '.join(items)}}}"
        case Hints():
            return f"#cuda_tile.optimization_hints{spelled_hints(value)}"
        case DivBy() | SameElements() | Bounded():
            return f"#cuda_tile.{value}"
        case Dense():
            return f"dense<{spelled_dense(value)}> : {value.type}"


def _key(name: str) -> str:
    plain = bool(name) and not name[0].isdigit() and all(c in _PLAIN_SYMBOL for c in name)
    return name if plain else quoted(name)


# The types of the dialect as text, with their prefix or without; each spelling is read once.

MAX_RANK = 64
"""Dimensions of a tile or a view that are read."""
_EXTENT = re.compile(r"(\?|[0-9]+)[ \t]*x")
_NUMBER = re.compile(r"[0-9]+")
_SPELLED = re.compile(r"(?:!?cuda_tile\.)?(?:tile|ptr)<[0-9x]*(?:!?(?:cuda_tile\.)?ptr<)?[a-zA-Z0-9]+>?>")
_HEAD = re.compile(r"!?(?:cuda_tile\.)?([A-Za-z_][A-Za-z0-9_]*)")
_WORDS = ("tile", "ptr", "token", "tensor_view", "partition_view", "strided_view", "gather_scatter_view")
_ALIAS = re.compile(r"!([A-Za-z_][A-Za-z0-9_$]*)(?![A-Za-z0-9_$.])")


class TypeReader:
    """Reads types at a cursor; remembers aliases (`!t = ...`) and what was read before."""

    __slots__ = ("aliases", "cursor", "known")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor: Cursor = cursor
        self.aliases: dict[str, Type] = {}
        self.known: dict[str, Type] = {}

    def read(self) -> Type:
        """The type that stands here; what is wrong with it is said where it stands."""
        c = self.cursor
        start = c.pos
        spelled = _SPELLED.match(c.text, start)
        if spelled is not None and (found := self.known.get(spelled[0])) is not None:
            c.pos = spelled.end()
            c.skip()
            return found
        type = self._read()
        if (said := complaint(type)) is not None:
            c.fail("TM10", f"{said}.", "", start, max(start + 1, c.span(start).stop))
        if spelled is not None:
            self.known[spelled[0]] = type
        return type

    def starts(self) -> bool:
        """True if a type may stand here."""
        c = self.cursor
        return (
            c.peek("!")
            or c.peek("(")
            or (
                (found := c.peek_word()) is not None
                and (found.removeprefix("cuda_tile.") in _WORDS or found in ELEMENTS)
            )
        )

    def list(self) -> list[Type]:
        types = [self.read()]
        while self.cursor.accept(","):
            types.append(self.read())
        return types

    def parenthesised(self) -> list[Type]:
        """Types in parentheses, perhaps none."""
        c = self.cursor
        c.expect("(")
        if c.accept(")"):
            return []
        types = self.list()
        c.expect(")")
        return types

    def function(self) -> Function:
        params = self.parenthesised()
        self.cursor.expect("->")
        return Function(tuple(params), tuple(self.results()))

    def results(self) -> list[Type]:
        """The types after an arrow: one, or several in parentheses."""
        return self.parenthesised() if self.cursor.peek("(") else [self.read()]

    def _read(self) -> Type:
        c = self.cursor
        if c.peek("("):
            return self.function()
        alias = _ALIAS.match(c.text, c.pos)
        if alias is not None:
            if alias[1] not in self.aliases:
                c.fail("TM11", f"there is no type alias '!{alias[1]}'.")
            c.pos = alias.end()
            c.skip()
            return self.aliases[alias[1]]
        found = _HEAD.match(c.text, c.pos)
        if found is None:
            c.missing("a type is expected", "TM12")
        word = found[1]
        if word in ELEMENTS:
            c.pos = found.end()
            c.skip()
            return ELEMENTS[word]
        if word not in _WORDS:
            c.fail("TM13", f"there is no type {c.shown()}.", "the types are numbers, tile, ptr, views and token.")
        c.pos = found.end()
        c.skip()
        match word:
            case "tile":
                return self.tile()
            case "ptr":
                return self._pointer()
            case "token":
                return Token()
            case "tensor_view":
                return self._tensor()
            case _:
                return self._view(word)

    def _element(self) -> Element:
        c = self.cursor
        start = c.pos
        type = self._read()
        if not isinstance(type, Element):
            c.wrong("TM14", f"a number type is expected here, and {type} is none.", start)
        return type

    def _extents(self) -> list[int | None]:
        c = self.cursor
        extents: list[int | None] = []
        while (found := _EXTENT.match(c.text, c.pos)) is not None:
            extents.append(None if found[1] == "?" else self._number(found[1]))
            c.pos = found.end()
            c.skip()
            if len(extents) > MAX_RANK:
                c.fail("TM02", f"a type has at most {MAX_RANK} dimensions.")
        return extents

    def _number(self, text: str) -> int:
        if len(text) > 19 or int(text) > 0x7FFFFFFFFFFFFFFF:
            self.cursor.fail("TM02", "an extent fits 64 bits.")
        return int(text)

    def tile(self) -> Tile:
        """The text behind the word of a tile."""
        c = self.cursor
        c.expect("<")
        extents = self._static(self._extents())
        place = c.pos
        element = self._read()
        if not isinstance(element, Element | Pointer):
            c.wrong("TM14", f"a tile holds numbers or pointers, and {element} is neither.", place)
        c.expect(">")
        return Tile(extents, element)

    def _static(self, extents: list[int | None]) -> tuple[int, ...]:
        if None in extents:
            self.cursor.fail("TM14", "the extents of a tile are known, and one is '?'.")
        return tuple(n for n in extents if n is not None)

    def _pointer(self) -> Type:
        c = self.cursor
        c.expect("<")
        element = self._element()
        c.expect(">")
        return Pointer(element)

    def _tensor(self) -> TensorView:
        c = self.cursor
        c.expect("<")
        extents = self._extents()
        element = self._element()
        strides: list[int | None] = []
        if extents:
            c.expect(",", where="before the strides")
            c.expect("strides", "=")
            strides = self._integers(dynamic=True)
        elif c.peek(","):
            c.fail("TM14", "a tensor_view of rank 0 has no strides.")
        c.expect(">")
        return TensorView(element, tuple(extents), tuple(strides))

    def _integers(self, dynamic: bool = False) -> list[int | None]:
        c = self.cursor
        c.expect("[")
        found: list[int | None] = []
        if c.accept("]"):
            return found
        while True:
            found.append(None if dynamic and c.accept("?") else self._bounded(c.pos))
            if not c.accept(","):
                break
        c.expect("]")
        return found

    def _bounded(self, start: int) -> int:
        number = self.cursor.integer()
        if not -(1 << 63) < number < 1 << 63:
            self.cursor.fail("TM02", "a number of a type fits 64 bits.", "", start)
        return number

    def _view(self, word: str) -> Type:
        c = self.cursor
        c.expect("<", "tile")
        c.expect("=", "(")
        tile: list[int] = []
        while not c.peek(")"):
            found = _NUMBER.match(c.text, c.pos)
            if found is None:
                c.missing("an extent is expected")
            tile.append(self._number(found[0]))
            c.pos = found.end()
            c.skip()
            if c.text.startswith("x", c.pos):
                c.pos += 1
                c.skip()
            elif not c.peek(")"):
                c.missing("'x' or ')' is expected")
        c.expect(")", ",")
        traversal: list[int | None] = []
        if word == "strided_view":
            c.expect("traversal_strides", "=")
            traversal = self._integers()
            c.accept(",")  # the document's own examples leave it out before the tensor_view
        padding: str | None = None
        if c.accept("padding_value"):
            c.expect("=")
            place = c.pos
            padding = c.keyword("a padding")
            if padding not in PADDINGS:
                c.fail(
                    "TM14",
                    f"there is no padding '{padding}'.",
                    f"it is one of {', '.join(PADDINGS)}.",
                    place,
                    place + len(padding),
                )
            c.expect(",")
        place = c.pos
        tensor = self._read()
        if not isinstance(tensor, TensorView):
            c.wrong("TM14", f"a view is of a tensor_view, and {tensor} is none.", place)
        dim_map, sparse = tuple(range(len(tile))), 0
        if word == "gather_scatter_view":
            c.expect(",", "sparse_dim", "=")
            sparse = self._bounded(c.pos)
        elif c.accept(",") and not c.peek(">"):
            c.expect("dim_map", "=")
            dim_map = tuple(n for n in self._integers() if n is not None)
        c.expect(">")
        shape = tuple(tile)
        if word == "partition_view":
            return PartitionView(shape, tensor, dim_map, padding)
        if word == "strided_view":
            return StridedView(shape, tuple(n for n in traversal if n is not None), tensor, dim_map, padding)
        return GatherScatterView(shape, tensor, sparse, padding)


# Attributes as text: dictionaries, numbers, lists, predicates, hints, dense elements, and the dialect's own words.

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
            for _ in c.items("]"):
                items.append(self.read())
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
        c.missing("an attribute is expected", "TM30")

    def dictionary(self) -> Dictionary:
        """`{name = attribute, flag}`, in the order of the names."""
        c = self.cursor
        c.expect("{")
        entries: dict[str, Attribute] = {}
        for _ in c.items("}"):
            start = c.pos
            name = c.string()
            if name is None:
                name = c.word()
            if name is None:
                c.missing("the name of an attribute is expected", "TM30")
            if name in entries:
                c.fail("TM31", f"the attribute '{name}' is given twice.", "", start, start + len(name))
            entries[name] = self.read() if c.accept("=") else Unit()
        return Dictionary(tuple(sorted(entries.items())))

    def hints(self) -> Hints:
        """`<name = {key = value, ...}, ...>`."""
        c = self.cursor
        c.expect("<")
        entries: dict[str, Dictionary] = {}
        for _ in c.items(">"):
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
                c.wrong("TM32", f"the hints for '{name}' are a dictionary in braces.", place)
            entries[name] = value
        return hints_of(entries.items())

    def predicate(self) -> DivBy | SameElements | Bounded:
        """The predicate that assume states of its value."""
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
        for _ in c.items("]"):
            values.append(self._int64(bits))
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
            c.missing("the name of an attribute is expected", "TM30")
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
            c.missing("a number is expected", "TM30")
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
            c.wrong("TM14", f"the type of a number is a number type, and {type} is none.", start)
        return type

    def _array(self) -> Attribute:
        """`array<i32: 1, 0>`."""
        c = self.cursor
        c.expect("array", "<")
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
        c.expect("dense", "<")
        before = c.pos
        # the type stands behind: find it first
        self._skip_to_close(before)
        c.expect(">", ":")
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
            c.wrong("TM14", f"dense elements are of a tile, and {type} is none.", start)
        return type
