"""Classes of types that operands and results belong to, each with the words that a message uses.

>>> INT.holds(Tile((4,), i32)), INT.holds(Tile((4,), f32)), INT.noun
(True, False, 'a tile of integers (i1, i8, i16, i32, i64)')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorir.tile.elements import ELEMENTS, Element
from tensorir.tile.types import (
    BOOL,
    GatherScatterView,
    PartitionView,
    Pointer,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
    f32,
    i32,
    i64,
)

__all__ = [
    "ANY",
    "ANY_VALUE",
    "BASE_FLOAT",
    "BOOLS",
    "BYTES",
    "FLOAT",
    "GATHER_SCATTER",
    "INT",
    "INT64",
    "INT_OR_I4",
    "MMAF_IN",
    "MMAF_OUT",
    "MMAI_IN",
    "MMAI_OUT",
    "NUMBER",
    "PARTITION",
    "POINTER",
    "SCALAR_BOOL",
    "SCALAR_I32",
    "SCALAR_INT",
    "SCALAR_POINTER",
    "SCALE",
    "SCALED_IN",
    "SCALED_OUT",
    "STRIDED",
    "TENSOR",
    "TILE",
    "TOKEN",
    "UNPACKED",
    "VIEW",
    "TypeClass",
]  # fmt: skip

INTEGERS = tuple(ELEMENTS[n] for n in ("i1", "i8", "i16", "i32", "i64"))
BASE_FLOATS = tuple(ELEMENTS[n] for n in ("f16", "bf16", "f32", "f64"))
FLOATS = tuple(e for e in ELEMENTS.values() if e.is_float)
NUMBERS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True, slots=True)
class TypeClass:
    """Types that one operand may have; `only` is the one type of a class that has no other."""

    noun: str
    holds: Callable[[Type], bool]
    only: Type | None = None
    scalar: bool = False


def _tiles(noun: str, elements: tuple[Element, ...], scalar: bool = False) -> TypeClass:
    def holds(type: Type) -> bool:
        return isinstance(type, Tile) and type.element in elements and not (scalar and type.shape)

    kind = "a scalar tile" if scalar else "a tile"
    names = ", ".join(e.name for e in elements)
    said = f"{kind} of {noun} ({names})" if noun else f"{kind} of {names}"
    only = Tile((), elements[0]) if scalar and len(elements) == 1 else None
    return TypeClass(said, holds, only, scalar)


def _of(noun: str, kind: type | tuple[type, ...], only: Type | None = None) -> TypeClass:
    return TypeClass(noun, lambda type: isinstance(type, kind), only)


def _is_pointer(type: Type) -> bool:
    return isinstance(type, Tile) and isinstance(type.element, Pointer)


ANY = TypeClass("any value", lambda type: True)
ANY_VALUE = TypeClass(
    "a tile, a view, a pointer or a token", lambda type: not isinstance(type, Element) or type in NUMBERS
)
TILE = _of("a tile", Tile)
INT = _tiles("integers", INTEGERS)
BASE_FLOAT = _tiles("floats", BASE_FLOATS)
FLOAT = _tiles("floats", FLOATS)
NUMBER = _tiles("numbers", NUMBERS)
BOOLS = _tiles("", (BOOL,))
BYTES = _tiles("", (ELEMENTS["i8"],))
INT64 = _tiles("", (i64,))
INT_OR_I4 = _tiles("integers", (INTEGERS[0], ELEMENTS["i4"], *INTEGERS[1:]))
UNPACKED = _tiles("numbers", (*NUMBERS, ELEMENTS["i4"]))
POINTER = TypeClass("a tile of pointers", _is_pointer)
SCALAR_INT = _tiles("integers", INTEGERS, scalar=True)
SCALAR_I32 = _tiles("", (i32,), scalar=True)
SCALAR_BOOL = _tiles("", (BOOL,), scalar=True)
SCALAR_POINTER = TypeClass("a scalar tile of a pointer", lambda type: _is_pointer(type) and type.shape == ())  # type: ignore[union-attr]
MMAF_IN = _tiles("", tuple(ELEMENTS[n] for n in ("f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2")))
MMAF_OUT = _tiles("", tuple(ELEMENTS[n] for n in ("f16", "f32", "f64")))
MMAI_IN = _tiles("", (ELEMENTS["i8"],))
MMAI_OUT = _tiles("", (i32,))
SCALED_IN = _tiles("", tuple(ELEMENTS[n] for n in ("f8E4M3FN", "f8E5M2", "f4E2M1FN")))
SCALE = _tiles("", tuple(ELEMENTS[n] for n in ("f8E4M3FN", "f8E8M0FNU")))
SCALED_OUT = _tiles("", (f32,))
TENSOR = _of("a tensor_view", TensorView)
PARTITION = _of("a partition_view", PartitionView)
STRIDED = _of("a strided_view", StridedView)
GATHER_SCATTER = _of("a gather_scatter_view", GatherScatterView)
VIEW = _of("a partition_view, strided_view or gather_scatter_view", (PartitionView, StridedView, GatherScatterView))
TOKEN = _of("a token", Token, Token())
