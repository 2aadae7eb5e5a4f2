"""What values of a kernel are while it is translated: numbers with named dims, pointers and views with their memory.

Axis k of a tile is the dim `x<k>` everywhere, so that tiles meet by name. An expression has at most the axes of extent
greater than 1, and of these only those along which it varies: to broadcast a tile is to do nothing. Integers that are
sums of loop variables and coordinates are kept as sums, as long as nothing wraps around in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine, variable
from tensorir.ir.build import literal, var
from tensorir.ir.nodes import Expr, Literal
from tensorir.ir.types import BOOL, INT32, SCALARS, Dims, Interval, Scalar, TensorType
from tensorir.lifting.batched.scope import holds
from tensorir.lifting.emission.tensors import converted, position, renamed, spread, sum_of
from tensorir.lifting.region.nodes import Bound, Buffer
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tile.types import Element, TensorView, Tile, TileView
from tensorir.tile.types import Pointer as PointerType

__all__ = [
    "Axes", "Memory", "Number", "Pointers", "Ranges", "Tensor", "Token", "Value", "View", "axis", "boolean",
    "element_of", "holds", "number_of", "pointee_of", "refused", "scalar_of", "truth",
]  # fmt: skip

Ranges = Mapping[str, tuple[int, int]]
Axes = tuple[int, ...]
"""The extents of a tile."""

_SCALARS = {
    "i1": "bool", "i4": "int8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "tf32": "float32", "f64": "float64", "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}  # fmt: skip
"""The element types of the tensor IR that hold those of Tile IR."""


def refused(message: str, span: Span, help: str = "", code: str = "TL40") -> DiagnosticError:
    """What a kernel does that no tensor program says."""
    return DiagnosticError(Diagnostic(code, message, span, help=help))


def scalar_of(element: Element, span: Span) -> Scalar:
    """The element type of the tensor IR that holds one of Tile IR; raises TL40 where none does.

    >>> from tensorir.runtime.errors import NOWHERE
    >>> from tensorir.tile.types import ELEMENTS
    >>> scalar_of(ELEMENTS["i64"], NOWHERE)
    int64
    """
    name = _SCALARS.get(element.name)
    if name is None:
        raise refused(f"tensors do not hold elements of {element}.", span, "convert them before the launch.")
    return SCALARS[name]


def axis(k: int) -> str:
    """The name of an axis of a tile.

    >>> axis(1)
    'x1'
    """
    return f"x{k}"


@dataclass(frozen=True, slots=True)
class Number:
    """A tile of numbers: an expression, or a sum of indices; of truth values perhaps the bounds that they are."""

    axes: Axes
    element: Element
    scalar: Scalar
    written: Expr | None
    sum: Affine | None = None
    bounds: tuple[Bound, ...] | None = None
    low: Expr | None = None
    """Of an int64 its low 32 bits: all that an address needs, since no memory here has so many elements."""
    fits: bool = False
    """Whether the low bits are the number."""

    @property
    def dims(self) -> dict[str, Interval]:
        """The axes along which it may vary."""
        return {axis(k): Interval(0, n) for k, n in enumerate(self.axes) if n > 1}

    @property
    def type(self) -> TensorType:
        return TensorType(self.scalar, Dims(tuple(self.dims.items())))

    @property
    def known(self) -> int | None:
        """The number that an integer is known to be."""
        return self.sum.constant if self.sum is not None and self.sum.is_number else None

    @property
    def expr(self) -> Expr:
        if self.written is not None:
            return self.written
        assert self.sum is not None
        return _sum(self.sum, self.dims, self.scalar)

    @property
    def whole(self) -> Expr:
        """The expression on all axes."""
        return spread(self.expr, self.dims)

    def renamed(self, axes: Axes, names: Mapping[str, str]) -> Number:
        """The tile on other axes, where its own get other names."""
        new = replace(self, axes=axes)
        values = {a: variable(b) for a, b in names.items()}
        if self.written is not None:
            new = replace(new, written=renamed(self.written, names))
        if self.low is not None:
            new = replace(new, low=renamed(self.low, names))
        if self.sum is not None:
            new = replace(new, sum=self.sum.replaced(values, {}))
        if self.bounds is not None:
            new = replace(new, bounds=tuple(replace(b, affine=b.affine.replaced(values, {})) for b in self.bounds))
        return new

    def low_bits(self, ranges: Ranges) -> tuple[Expr, bool] | None:
        """The low 32 bits of an integer, where they are at hand, and whether they are the number."""
        if self.low is not None:
            return self.low, self.fits
        if self.sum is not None and (found := self.sum.range(self.ranges(ranges))) is not None:
            small = found[0] >= -(1 << 31) and found[1] < 1 << 31
            return (_sum(self.sum, self.dims, INT32), True) if small else None
        return (self.expr, True) if self.scalar == INT32 else None

    def ranges(self, ranges: Ranges) -> Ranges:
        """The ranges of loop variables and of the axes."""
        return {**ranges, **{n: (0, i.stop - 1) for n, i in self.dims.items()}}


def _sum(a: Affine, dims: Mapping[str, Interval], scalar: Scalar) -> Expr:
    parts = {n: position(n, dims[n]) if n in dims else var(n, TensorType(INT32)) for n in a.names}
    wide = scalar if scalar.kind == "int" and scalar.bits >= 32 else INT32
    if a.is_number:
        return literal(a.constant, scalar)
    return converted(sum_of(a, parts, wide), scalar)


@dataclass(frozen=True, slots=True)
class Memory:
    """An argument's array, or memory of a block: a buffer of its own dims, or flat where pointers go through it."""

    name: str
    element: Element
    scalar: Scalar
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, of the elements in memory."""
    buffer: Buffer
    flat: bool
    index: int = -1
    """The place among the arrays of the launch, -1 of other memory."""


@dataclass(frozen=True, slots=True)
class Pointers:
    """Addresses in one memory, counted in elements from its first."""

    axes: Axes
    memory: Memory
    offset: Number
    """An int64 on the axes."""
    element: Element

    def renamed(self, axes: Axes, names: Mapping[str, str]) -> Pointers:
        return replace(self, axes=axes, offset=self.offset.renamed(axes, names))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor_view: its memory, where it begins, extents and strides in elements."""

    type: TensorView
    memory: Memory
    base: Number
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    type: TileView
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Token:
    """Order: every operation on memory comes after those before it in the text, which is all that tokens can ask."""


Value = Number | Pointers | Tensor | View | Token


def element_of(type: object) -> Element:
    """The element of a tile of numbers."""
    assert isinstance(type, Tile) and isinstance(type.element, Element)
    return type.element


def pointee_of(type: object) -> Element:
    assert isinstance(type, Tile) and isinstance(type.element, PointerType)
    return type.element.pointee


def number_of(value: int, element: Element, scalar: Scalar, axes: Axes = ()) -> Number:
    """An integer that is known."""
    return Number(axes, element, scalar, None, Affine((), value))


def boolean(e: Expr, axes: Axes, element: Element) -> Number:
    """Truth values; a literal is known as bounds, too."""
    if isinstance(e, Literal):
        return Number(axes, element, BOOL, e, None, () if e.value else None)
    return Number(axes, element, BOOL, e)


def truth(c: Number, ranges: Ranges) -> bool | None:
    """What a truth value is wherever it is asked for, None where that is not known."""
    if isinstance(c.written, Literal):
        return bool(c.written.value)
    if c.bounds is None:
        return None
    found = [holds(b, c.ranges(ranges)) for b in c.bounds]
    return False if False in found else None if None in found else True
