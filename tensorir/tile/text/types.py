"""The types of the dialect as text, with their prefix or without; each spelling is read once."""

from __future__ import annotations

import re

from tensorir.tile.elements import ELEMENTS, Element
from tensorir.tile.text.cursor import Cursor
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
    complaint,
)

__all__ = ["TypeReader"]

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
        """Whether a type may stand here."""
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
            c.fail("TM12", f"a type is expected, and here stands {c.shown()}.")
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
            c.fail("TM14", f"a number type is expected here, and {type} is none.", "", start, c.span(start).stop)
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
        """What stands behind the word of a tile."""
        c = self.cursor
        c.expect("<")
        extents = self._static(self._extents())
        place = c.pos
        element = self._read()
        if not isinstance(element, Element | Pointer):
            c.fail(
                "TM14", f"a tile holds numbers or pointers, and {element} is neither.", "", place, c.span(place).stop
            )
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
            c.expect(",", "before the strides")
            c.expect("strides")
            c.expect("=")
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
        c.expect("<")
        c.expect("tile")
        c.expect("=")
        c.expect("(")
        tile: list[int] = []
        while not c.peek(")"):
            found = _NUMBER.match(c.text, c.pos)
            if found is None:
                c.fail("TM01", f"an extent is expected, and here stands {c.shown()}.")
            tile.append(self._number(found[0]))
            c.pos = found.end()
            c.skip()
            if c.text.startswith("x", c.pos):
                c.pos += 1
                c.skip()
            elif not c.peek(")"):
                c.fail("TM01", f"'x' or ')' is expected, and here stands {c.shown()}.")
        c.expect(")")
        c.expect(",")
        traversal: list[int | None] = []
        if word == "strided_view":
            c.expect("traversal_strides")
            c.expect("=")
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
            c.fail("TM14", f"a view is of a tensor_view, and {tensor} is none.", "", place, c.span(place).stop)
        dim_map, sparse = tuple(range(len(tile))), 0
        if word == "gather_scatter_view":
            c.expect(",")
            c.expect("sparse_dim")
            c.expect("=")
            sparse = self._bounded(c.pos)
        elif c.accept(",") and not c.peek(">"):
            c.expect("dim_map")
            c.expect("=")
            dim_map = tuple(n for n in self._integers() if n is not None)
        c.expect(">")
        shape = tuple(tile)
        if word == "partition_view":
            return PartitionView(shape, tensor, dim_map, padding)
        if word == "strided_view":
            return StridedView(shape, tuple(n for n in traversal if n is not None), tensor, dim_map, padding)
        return GatherScatterView(shape, tensor, sparse, padding)
