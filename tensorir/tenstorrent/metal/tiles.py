"""Expressions of tiles: what the elements of a block are, made of tiles, of vectors along them, and of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType

__all__ = [
    "FORMAT_OF",
    "Apply",
    "Kind",
    "Leaf",
    "Number",
    "Over",
    "Tile",
    "is_zero",
    "kind_of",
    "kind_of_type",
    "leaves",
]

Over: TypeAlias = Literal["tile", "rows", "columns"]
Kind: TypeAlias = Literal["float", "int32", "uint32", "uint16"]
"""What elements are in the registers: floats of the registers' width, or integers."""
_KINDS: Mapping[str, Kind] = {"int32": "int32", "uint32": "uint32", "uint16": "uint16"}
FORMAT_OF: Mapping[Kind, str] = {"int32": "Int32", "uint32": "UInt32", "uint16": "UInt16"}
"""The format in tt-metal of kinds of integers."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tile of a block; a vector is broadcast over the rows or the columns of the tile that is made."""

    buffer: n.Buffer
    over: Over = "tile"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in every element: a constant, or an argument of the program."""

    value: float | n.Var
    kind: Kind = "float"


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of tiles, element by element, by the name that its call has in `registers`; what it makes is a kind.

    A comparison makes a mask: 1 where it holds and 0 elsewhere, of the kind of what it compares.
    """

    op: str
    args: tuple[Tile, ...]
    kind: Kind = "float"


Tile: TypeAlias = Leaf | Number | Apply


def kind_of_type(dtype: DataType) -> Kind | None:
    """The kind of elements of a type; None for integers that registers do not have, and for bool."""
    return "float" if dtype.is_float else _KINDS.get(str(dtype))


def kind_of(tile: Tile) -> Kind:
    match tile:
        case Leaf(buffer):
            return _KINDS.get(str(buffer.dtype), "float")
        case Number(_, kind) | Apply(_, _, kind):
            return kind


def is_zero(tile: Tile) -> bool:
    """Whether every element is 0, as registers are when they are acquired."""
    return isinstance(tile, Number) and not isinstance(tile.value, n.Var) and tile.value == 0


def leaves(tile: Tile) -> Iterator[Leaf]:
    """The operands of an expression that are tiles, from the left."""
    match tile:
        case Leaf():
            yield tile
        case Apply(_, args):
            for arg in args:
                yield from leaves(arg)
        case Number():
            pass
