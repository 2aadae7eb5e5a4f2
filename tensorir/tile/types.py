"""The types of Tile IR, element types and all others, and what modules give and take in other precisions.

The element types: their names, widths, tags, and the NumPy type that holds one element.

>>> ELEMENTS["f8E4M3FN"].bits, ELEMENTS["f8E4M3FN"].precision, ELEMENTS["f8E4M3FN"].largest
(8, 4, 448.0)
>>> ELEMENTS["i8"].range
(-128, 127)

The types of Tile IR: tiles, pointers, views, tokens and functions; equal where they are structurally identical.

Each type prints as the dialect writes it without its prefix, and `complaint` says what is wrong with one, if anything.

>>> Tile((4, 8), f32), TensorView(f32, (None, 16), (16, 1))
(tile<4x8xf32>, tensor_view<?x16xf32, strides=[16,1]>)
>>> complaint(Tile((3,), f32))
'an extent of a tile is a power of two, and 3 is none'
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from tensorir.runtime.errors import Displayed


@dataclass(frozen=True, slots=True)
class Element:
    """A numeric element type.

    `precision` counts the bits of a significand with its leading one, `emin` and `emax` are the exponents of the
    smallest and the largest normal number; integers have zeros there. A float has infinities, or saturates.
    """

    name: str
    bits: int
    tag: int
    since: tuple[int, int] = (13, 1)
    precision: int = 0
    emin: int = 0
    emax: int = 0
    infinite: bool = False
    storage: Any = None
    """The NumPy type that holds one element in a tile; of i4 and tf32 a wider one."""

    @property
    def is_float(self) -> bool:
        return self.precision > 0

    @property
    def is_integer(self) -> bool:
        return self.precision == 0

    @property
    def bytes(self) -> int:
        """The bytes of one element in memory; 4-bit elements are packed in pairs, and take half of that."""
        return 4 if self.name == "tf32" else (self.bits + 7) // 8

    @property
    def width(self) -> int:
        """The bits between two elements in memory."""
        return 4 if self.bits == 4 else 8 * self.bytes

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.storage)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of a signed integer."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def largest(self) -> float:
        """The largest finite number of a float."""
        if self.name == "f8E4M3FN":
            return 448.0
        if self.name == "f8E8M0FNU":
            return 2.0**127
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _integer(name: str, bits: int, tag: int, storage: Any, since: tuple[int, int] = (13, 1)) -> Element:
    return Element(name, bits, tag, since, storage=storage)


ELEMENTS: dict[str, Element] = {
    e.name: e
    for e in (
        _integer("i1", 1, 0, np.bool_),
        _integer("i8", 8, 1, np.int8),
        _integer("i16", 16, 2, np.int16),
        _integer("i32", 32, 3, np.int32),
        _integer("i64", 64, 4, np.int64),
        Element("f16", 16, 5, (13, 1), 11, -14, 15, True, np.float16),
        Element("bf16", 16, 6, (13, 1), 8, -126, 127, True, ml_dtypes.bfloat16),
        Element("f32", 32, 7, (13, 1), 24, -126, 127, True, np.float32),
        Element("tf32", 19, 8, (13, 1), 11, -126, 127, True, np.float32),
        Element("f64", 64, 9, (13, 1), 53, -1022, 1023, True, np.float64),
        Element("f8E4M3FN", 8, 10, (13, 1), 4, -6, 8, False, ml_dtypes.float8_e4m3fn),
        Element("f8E5M2", 8, 11, (13, 1), 3, -14, 15, False, ml_dtypes.float8_e5m2),
        Element("f8E8M0FNU", 8, 18, (13, 2), 1, -127, 127, False, ml_dtypes.float8_e8m0fnu),
        Element("f4E2M1FN", 4, 19, (13, 3), 2, 0, 2, False, ml_dtypes.float4_e2m1fn),
        _integer("i4", 4, 22, np.int8, (13, 3)),
    )
}
"""By name. `infinite` says that a conversion may give an infinity; f8E5M2 has some, and saturates."""

BOOL: Element = ELEMENTS["i1"]
i32: Element = ELEMENTS["i32"]
i64: Element = ELEMENTS["i64"]
f16: Element = ELEMENTS["f16"]
f32: Element = ELEMENTS["f32"]
f64: Element = ELEMENTS["f64"]

MAX_ELEMENTS = 16_777_216
"""Elements of one tile."""
PADDINGS = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
"""What a load gives outside of a view, in the order of their numbers in bytecode."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of one element in global memory."""

    pointee: Element
    tag: ClassVar[int] = 12

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Tile:
    """A value: elements of one type on a static shape; a scalar is a tile of rank 0."""

    shape: tuple[int, ...]
    element: Element | Pointer
    tag: ClassVar[int] = 13

    def __str__(self) -> str:
        return f"tile<{''.join(f'{n}x' for n in self.shape)}{self.element}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class TensorView:
    """A strided tensor in memory; an extent or a stride that only a launch tells is None."""

    element: Element
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    tag: ClassVar[int] = 14

    def __str__(self) -> str:
        extents = "".join(f"{_dynamic(n)}x" for n in self.shape)
        strides = f", strides=[{','.join(map(_dynamic, self.strides))}]" if self.shape or self.strides else ""
        return f"tensor_view<{extents}{self.element}{strides}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class PartitionView(Displayed):
    """Tiles side by side over a tensor; tile dim k runs along tensor dim `dim_map[k]`."""

    _drawn_by: ClassVar[str] = "tensorir.tile.pictures:view_of"

    tile: tuple[int, ...]
    tensor: TensorView
    dim_map: tuple[int, ...]
    padding: str | None = None
    tag: ClassVar[int] = 15
    word: ClassVar[str] = "partition_view"

    def __str__(self) -> str:
        return f"partition_view<{_head(self)}{self.tensor}{_mapped(self.dim_map)}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class StridedView(Displayed):
    """Tiles at multiples of their traversal strides: with gaps, or overlapping."""

    _drawn_by: ClassVar[str] = "tensorir.tile.pictures:view_of"

    tile: tuple[int, ...]
    traversal: tuple[int, ...]
    tensor: TensorView
    dim_map: tuple[int, ...]
    padding: str | None = None
    tag: ClassVar[int] = 21
    word: ClassVar[str] = "strided_view"

    def __str__(self) -> str:
        steps = f"traversal_strides=[{','.join(map(str, self.traversal))}], "
        return f"strided_view<{_head(self, steps)}{self.tensor}{_mapped(self.dim_map)}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class GatherScatterView(Displayed):
    """Tiles whose slices along `sparse_dim` stand wherever an index says."""

    _drawn_by: ClassVar[str] = "tensorir.tile.pictures:view_of"

    tile: tuple[int, ...]
    tensor: TensorView
    sparse_dim: int
    padding: str | None = None
    tag: ClassVar[int] = 20
    word: ClassVar[str] = "gather_scatter_view"

    def __str__(self) -> str:
        return f"gather_scatter_view<{_head(self)}{self.tensor}, sparse_dim={self.sparse_dim}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Token:
    """An edge of order between memory operations of one block."""

    tag: ClassVar[int] = 17

    def __str__(self) -> str:
        return "token"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of an entry."""

    params: tuple[Type, ...]
    results: tuple[Type, ...] = ()
    tag: ClassVar[int] = 16

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        one = len(self.results) == 1 and not isinstance(self.results[0], Function)
        return f"({', '.join(map(str, self.params))}) -> {results if one else f'({results})'}"

    __repr__ = __str__


TileView = PartitionView | StridedView | GatherScatterView
"""A view that is loaded from and stored to, a tile at a time."""
View = TensorView | TileView
Type = Element | Pointer | Tile | TensorView | PartitionView | StridedView | GatherScatterView | Token | Function


def _dynamic(n: int | None) -> str:
    return "?" if n is None else str(n)


def _head(view: TileView, steps: str = "") -> str:
    padding = "" if view.padding is None else f"padding_value = {view.padding}, "
    return f"tile=({'x'.join(map(str, view.tile))}), {steps}{padding}"


def _mapped(dim_map: tuple[int, ...]) -> str:
    identity = dim_map == tuple(range(len(dim_map)))
    return "" if identity else f", dim_map=[{', '.join(map(str, dim_map))}]"


def since(type: Type) -> tuple[int, int]:
    """The version of bytecode that a type first appears in, its parts aside."""
    match type:
        case Element():
            return type.since
        case StridedView() | GatherScatterView():
            return 13, 3
        case _:
            return 13, 1


@lru_cache(maxsize=4096)
def complaint(type: Type) -> str | None:
    """The fault of a type, without a full stop; None where there is none."""
    match type:
        case Element() | Token():
            return None
        case Pointer(pointee):
            return "a pointer points to a number, and i4 is none" if pointee.name == "i4" else None
        case Tile():
            return _of_tile(type)
        case TensorView():
            return _of_tensor(type)
        case PartitionView() | StridedView() | GatherScatterView():
            return _of_view(type)
        case Function(params, results):
            return next((said for part in (*params, *results) if (said := complaint(part))), None)


def _of_tile(type: Tile) -> str | None:
    count = 1
    for extent in type.shape:
        if extent <= 0:
            return f"an extent of a tile is positive, and {extent} is not"
        if extent & (extent - 1):
            return f"an extent of a tile is a power of two, and {extent} is none"
        count *= extent
    if count > MAX_ELEMENTS:
        return f"a tile has at most {MAX_ELEMENTS} elements, and this has {count}"
    if isinstance(type.element, Element) and type.element.name == "f4E2M1FN":
        if not type.shape:
            return "a tile of f4E2M1FN is not of rank 0: its elements come in pairs"
        if all(extent % 2 for extent in type.shape):
            return "a tile of f4E2M1FN has an even extent: its elements come in pairs"
    return None if isinstance(type.element, Element) else complaint(type.element)


def _of_tensor(type: TensorView) -> str | None:
    if type.element.name == "i4":
        return "the elements of a tensor_view are numbers, and i4 is none"
    if len(type.shape) != len(type.strides):
        return f"a tensor_view has as many strides as extents, and this has {len(type.strides)} and {len(type.shape)}"
    for what, numbers in (("an extent", type.shape), ("a stride", type.strides)):
        for number in numbers:
            if number is not None and number <= 0:
                return f"{what} of a tensor_view is positive, and {number} is not"
    return None


def _of_view(view: TileView) -> str | None:
    if said := complaint(view.tensor):
        return said
    rank = len(view.tile)
    if rank == 0:
        return f"the tile of a {view.word} has at least one dimension"
    if rank != len(view.tensor.shape):
        return f"a {view.word} has the rank of its tensor_view, and its tile has {rank} for {len(view.tensor.shape)}"
    if any(extent > 0x7FFFFFFF for extent in view.tile):
        return "an extent of a view's tile fits 32 bits"
    if said := complaint(Tile(view.tile, view.tensor.element)):
        return said
    if view.padding not in (None, "zero") and view.tensor.element.is_integer:
        return f"the padding {view.padding} is for floats, and the elements are {view.tensor.element}"
    match view:
        case PartitionView(_, _, dim_map) | StridedView(_, _, _, dim_map):
            if sorted(dim_map) != list(range(rank)):
                return f"a dim_map is a permutation of 0 to {rank - 1}, and [{', '.join(map(str, dim_map))}] is none"
        case GatherScatterView(_, _, sparse_dim):
            if not 0 <= sparse_dim < rank:
                return f"a sparse_dim is one of 0 to {rank - 1}, and {sparse_dim} is not"
    if isinstance(view, StridedView):
        if len(view.traversal) != rank:
            return f"a strided_view has {rank} traversal strides, one for each dim, and not {len(view.traversal)}"
        for step in view.traversal:
            if step <= 0:
                return f"a traversal stride is positive, and {step} is not"
    return None
