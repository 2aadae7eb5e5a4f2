"""The values of attributes: numbers with a type, dense elements, predicates of assume, hints, and what MLIR adds.

Enumerations are their words, flags are bools, integers, strings and lists of integers are Python's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.tile.elements import ELEMENTS, Element
from tensorir.tile.types import Tile, Type

__all__ = [
    "Array", "Attribute", "Bounded", "Dense", "Dictionary", "DivBy", "Hints", "Keyword", "Number", "SameElements",
    "Symbol", "Typed", "Unit", "bits_of", "dense", "hints_of", "number_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float with its type; `bits` is its pattern, without sign.

    >>> from tensorir.tile.elements import ELEMENTS
    >>> Number(ELEMENTS["f32"], 0x3F800000).value
    1.0
    """

    element: Element
    bits: int

    @property
    def value(self) -> Any:
        """The number that the bits stand for; integers are signed."""
        return number_of(self.element, self.bits)


@dataclass(frozen=True, slots=True)
class Unit:
    """An attribute that is there, and says nothing more."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word of the dialect or of another one, as written: `#cuda_tile.rounding<zero>`."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A reference to a symbol by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A type as an attribute."""

    type: Type


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Attributes by name, in the order of the names, as MLIR keeps them."""

    entries: tuple[tuple[str, Attribute], ...]

    def get(self, name: str) -> Attribute | None:
        return next((value for key, value in self.entries if key == name), None)


@dataclass(frozen=True, slots=True)
class Hints:
    """What optimization_hints says to each architecture; without effect on results."""

    entries: tuple[tuple[str, Dictionary], ...]


@dataclass(frozen=True, slots=True)
class DivBy:
    """assume: values are divisible, in groups of `every` along `along` in which they count up."""

    divisor: int
    every: int | None = None
    along: int | None = None

    def __str__(self) -> str:
        groups = "" if self.every is None else f", every {self.every}"
        groups += "" if self.along is None else f"{'' if groups else ','} along {self.along}"
        return f"div_by<{self.divisor}{groups}>"


@dataclass(frozen=True, slots=True)
class SameElements:
    """assume: blocks of these extents hold equal values."""

    extents: tuple[int, ...]

    def __str__(self) -> str:
        return f"same_elements<[{', '.join(map(str, self.extents))}]>"


@dataclass(frozen=True, slots=True)
class Bounded:
    """assume: values are between two bounds, both included."""

    lower: int | None
    upper: int | None

    def __str__(self) -> str:
        lower, upper = ("?" if n is None else n for n in (self.lower, self.upper))
        return f"bounded<{lower}, {upper}>"


@dataclass(frozen=True, slots=True)
class Dense:
    """The elements of a constant: one that fills the tile, or all in row-major order; `data` has their storage.

    The storage of an element is little-endian, of at least a byte. Equal elements are kept once.
    """

    type: Tile
    data: bytes

    @property
    def is_splat(self) -> bool:
        assert isinstance(self.type.element, Element)
        return len(self.data) == self.type.element.bytes

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The elements as an array of the tile's shape, of the element's NumPy type."""
        element = self.type.element
        assert isinstance(element, Element)
        raw = np.frombuffer(self.data, np.uint8) != 0 if element.bits == 1 else np.frombuffer(self.data, element.numpy)
        return np.broadcast_to(raw.reshape(()), self.type.shape) if self.is_splat else raw.reshape(self.type.shape)


def hints_of(entries: Iterable[tuple[str, Dictionary]]) -> Hints:
    """Hints as they are compared: by name, their integers of 32 bits, of which text does not say the type."""
    return Hints(tuple((name, Dictionary(tuple((k, _plain(v)) for k, v in d.entries))) for name, d in sorted(entries)))


def _plain(value: Attribute) -> Attribute:
    if isinstance(value, Number) and value.element.is_integer and -(1 << 31) <= value.value < 1 << 31:
        return Number(ELEMENTS["i32"], value.value & 0xFFFFFFFF)
    return value


Attribute = (
    str | bool | int | tuple[int, ...] | Number | Unit | Keyword | Symbol | Typed | Array | Dictionary | Hints | DivBy
    | SameElements | Bounded | Dense
)  # fmt: skip


def dense(type: Tile, data: bytes) -> Dense:
    """Dense elements, of which equal ones are kept once."""
    element = type.element
    assert isinstance(element, Element)
    size = element.bytes
    return Dense(type, data[:size] if len(data) > size and data == data[:size] * (len(data) // size) else data)


_PLAIN = {"f16": "<e", "f32": "<f", "tf32": "<f", "f64": "<d"}


def number_of(element: Element, bits: int) -> Any:
    """The number that a pattern of bits stands for; integers are signed, i1 is 0 or 1."""
    if element.is_integer:
        return bits if element.bits == 1 or bits >> (element.bits - 1) == 0 else bits - (1 << element.bits)
    if element.name in _PLAIN:
        return struct.unpack(_PLAIN[element.name], bits.to_bytes(element.bytes, "little"))[0]
    return float(np.frombuffer(bits.to_bytes(element.bytes, "little"), element.numpy)[0])


def bits_of(element: Element, value: int) -> int:
    """The pattern of bits of an integer."""
    return value & ((1 << element.bits) - 1)
