"""Values of a kernel, sums of loop variables among them, and the context of a translation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import literal, var
from tensorir.ir.nodes import Expr, Literal, Var
from tensorir.ir.types import BOOL, INT32, SCALARS, Scalar, TensorType
from tensorir.lifting.emission.tensors import converted, cut, position, renamed, spread, sum_of
from tensorir.lifting.region.nodes import Bound, Buffer, Let, Node
from tensorir.runtime.errors import Span, refuse
from tensorir.tile.nodes import Operation
from tensorir.tile.nodes import Value as Name
from tensorir.tile.types import Element, TensorView, Tile, TileView
from tensorir.tile.types import Pointer as PointerType

__all__ = [
    "Axes", "Context", "Exit", "FlatMemory", "Memory", "Number", "Pointers", "Ranges", "Tensor", "Token", "Translate",
    "Value", "View", "axis", "boolean", "bounds_of", "certainly", "element_of", "fitting", "number_of",
    "opposite", "pointee_of", "scalar_of", "sum_of_operation", "truth",
]  # fmt: skip

# What values of a kernel are while it is translated: numbers with named dims, pointers and views with their memory.
#
# Axis k of a tile is the dim `x<k>` everywhere, so that tiles meet by name. An expression has at most the axes of
# extent greater than 1, and of these only those along which it varies: to broadcast a tile is to do nothing. Integers
# that are sums of loop variables and coordinates are kept as sums, as long as nothing wraps around in them.

Ranges = Mapping[str, tuple[int, int]]
Axes = tuple[int, ...]
"""The extents of a tile."""

_SCALARS = {
    "i1": "bool", "i4": "int8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "tf32": "float32", "f64": "float64", "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}  # fmt: skip
"""The element types of the tensor IR that hold those of Tile IR."""


def scalar_of(element: Element, span: Span) -> Scalar:
    """The element type of the tensor IR that holds one of Tile IR; raises TL40 where none does.

    >>> from tensorir.runtime.errors import NOWHERE
    >>> from tensorir.tile.types import ELEMENTS
    >>> scalar_of(ELEMENTS["i64"], NOWHERE)
    int64
    """
    name = _SCALARS.get(element.name)
    if name is None:
        raise refuse("TL40", f"tensors do not hold elements of {element}.", "convert them before the launch.", at=span)
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
    """The one value of a mask, None if that is not known."""
    if isinstance(c.written, Literal):
        return bool(c.written.value)
    if c.bounds is None:
        return None
    found = [b.holds(c.ranges(ranges)) for b in c.bounds]
    return False if False in found else None if None in found else True


# Integers that are sums of loop variables and coordinates: what of arithmetic keeps them so, without wrapping.
#
# Extents, strides, scalars and the grid are known at a launch, so that most index arithmetic comes out as a number or
# as such a sum; a comparison of two sums is a bound.


def fitting(a: Affine | None, element: Element, ranges: Ranges) -> Affine | None:
    """The sum, if its values are numbers of an integer type; None where they are not, or may not be."""
    if a is None or element.bits == 1:
        return None
    found = a.range(ranges)
    low, high = element.range
    return a if found is not None and low <= found[0] and found[1] <= high else None


def sum_of_operation(op: Operation, operands: Sequence[Number], result: Element, ranges: Ranges) -> Affine | None:
    """The sum that an operation on integers gives; None where it gives none."""
    if op.name == "select":
        chosen = truth(operands[0], ranges)
        return None if chosen is None else operands[1 if chosen else 2].sum
    sums = [o.sum for o in operands]
    if not operands or any(s is None for s in sums) or any(o.element.bits == 1 for o in operands):
        return None
    return fitting(_exact(op, [s for s in sums if s is not None], operands[0].element, ranges), result, ranges)


def _exact(op: Operation, sums: Sequence[Affine], element: Element, ranges: Ranges) -> Affine | None:
    a, b = sums[0], sums[-1]
    unsigned = "signedness" in op.row.attribute_index and op.attribute("signedness") == "unsigned"
    if unsigned and any((s.range(ranges) or (-1, 0))[0] < 0 for s in sums):
        return None
    match op.name:
        case "addi":
            return a.plus(b)
        case "subi":
            return a.minus(b)
        case "negi":
            return a.times(-1)
        case "muli":
            return a.times(b.constant) if b.is_number else b.times(a.constant) if a.is_number else None
        case "shli":
            return a.times(1 << b.constant) if b.is_number and 0 <= b.constant < element.bits else None
        case "shri":
            return quotient(a, 1 << b.constant, ranges) if b.is_number and 0 <= b.constant < element.bits else None
        case "divi":
            return _quotient(a, b, op.attribute("rounding"), ranges)
        case "remi":
            low = (a.range(ranges) or (-1, 0))[0]
            return remainder(a, b.constant, ranges) if b.is_number and b.constant > 0 and low >= 0 else None
        case "andi":
            low = (a.range(ranges) or (-1, 0))[0]
            mask = b.constant + 1 if b.is_number else 0
            return remainder(a, mask, ranges) if low >= 0 and mask > 0 and not mask & (mask - 1) else None
        case "maxi" | "mini":
            apart = a.minus(b).range(ranges)
            if apart is None or apart[0] < 0 < apart[1]:
                return None
            return a if (apart[0] >= 0) == (op.name == "maxi") else b
        case "exti" | "trunci":
            return a
        case _:
            return None


def _quotient(a: Affine, b: Affine, mode: str, ranges: Ranges) -> Affine | None:
    if not b.is_number or b.constant <= 0:
        return None
    if mode == "positive_inf":
        return quotient(a.plus(number(b.constant - 1)), b.constant, ranges)
    low = (a.range(ranges) or (-1, 0))[0]
    return quotient(a, b.constant, ranges) if mode == "negative_inf" or low >= 0 else None


def bounds_of(op: Operation, operands: Sequence[Number], ranges: Ranges) -> tuple[Bound, ...] | None:
    """The bounds that a comparison, or the conjunction of two, is; None where it is no such thing."""
    match op.name:
        case "andi":
            a, b = operands
            return None if a.bounds is None or b.bounds is None else (*a.bounds, *b.bounds)
        case "xori":
            # the opposite of one bound is one
            for x, y in (operands, operands[::-1]):
                if x.bounds == () and y.bounds is not None and len(y.bounds) == 1:
                    return opposite(y.bounds)
            return None
        case "exti" | "broadcast":
            return None
        case "cmpi" if operands[0].element.bits > 1:
            a, b = operands[0].sum, operands[1].sum
            if a is None or b is None:
                return None
            return _compared(op, a, b, ranges)
        case _:
            return None


def certainly(op: Operation, operands: Sequence[Number], ranges: Ranges) -> bool | None:
    """True if two sums are known to differ, or not to, of a comparison for inequality."""
    if op.name != "cmpi" or op.attribute("comparison_predicate") != "not_equal" or operands[0].element.bits == 1:
        return None
    a, b = operands[0].sum, operands[1].sum
    if a is None or b is None:
        return None
    same = Bound(a.minus(b), True).holds(ranges)
    return None if same is None else not same


def _compared(op: Operation, a: Affine, b: Affine, ranges: Ranges) -> tuple[Bound, ...] | None:
    predicate = op.attribute("comparison_predicate")
    if predicate == "equal":
        return (Bound(a.minus(b), True),)
    if predicate == "not_equal":
        return None
    if predicate.startswith("greater"):
        a, b = b, a
    strict = number(0 if predicate.endswith("equal") else 1)
    found = (Bound(b.minus(a).minus(strict)),)
    if op.attribute("signedness") == "signed":
        return found
    low, other = (a.range(ranges) or (-1, 0))[0], (b.range(ranges) or (-1, 0))[0]
    if other < 0:
        return None
    # as numbers without a sign negative ones are larger than all others
    return found if low >= 0 else (Bound(a), *found)


def opposite(bounds: tuple[Bound, ...]) -> tuple[Bound, ...] | None:
    """That bounds do not hold, where that is a bound.

    >>> from tensorir.integers.affine import variable
    >>> str(opposite((Bound(variable("i")),))[0].affine)
    '-i - 1'
    """
    if len(bounds) != 1 or bounds[0].equal:
        return None
    return (Bound(bounds[0].affine.times(-1).minus(number(1))),)


# Where a translation stands: what values are, which nodes were made, and what is known of loop variables.


class FlatMemory(Exception):
    """Memory that must be one row of elements, since not all of its accesses name its dims."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Exit:
    """One way in which a region ends: when (None: always), and with which values."""

    when: Number | None
    values: tuple[Value, ...]


Exits = dict[str, Exit]
"""How a region may end, by the name of the operation that ends it."""


@dataclass(slots=True)
class Context:
    """One kernel at one launch."""

    grid: tuple[int, int, int]
    memories: dict[str, Memory]
    values: dict[Name, Value] = field(default_factory=dict[Name, Value])
    nodes: list[Node] = field(default_factory=list[Node])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    count: int = 0
    inline: bool = False
    """Whether values are expressions of their own, as in the body of a fold, and no nodes."""
    wide: bool = False
    """Whether addresses are computed in 64 bits."""
    exact: bool = False
    """Whether what rounds once in the kernel rounds once."""
    undefined: bool = False
    """Whether what the kernel leaves undefined is looked for when it runs."""
    fill: int | None = None
    """Which value stands in the place of padding that the kernel leaves unspecified; zero where none does."""
    padded: Span | None = None
    """Where the first padding is that is unspecified."""
    used: frozenset[Name] = frozenset()
    """The values that some operation asks for."""
    notes: list[str] = field(default_factory=list[str])

    # Values

    def number(self, name: Name) -> Number:
        found = self.values[name]
        assert isinstance(found, Number)
        return found

    def numbers(self, names: Sequence[Name]) -> list[Number]:
        return [self.number(n) for n in names]

    def pointers(self, name: Name) -> Pointers:
        found = self.values[name]
        assert isinstance(found, Pointers)
        return found

    def define(self, op: Operation, *values: Value) -> None:
        self.values.update(zip(op.results, values, strict=True))

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def named(self, e: Expr, span: Span) -> Expr:
        """The expression as a variable: what is used twice is computed once."""
        if self.inline or isinstance(e, Literal | Var):
            return e
        result = Var(self.fresh("v"), e.tensor)
        self.nodes.append(Let(result, e, span))
        return result

    def variable(self, e: Expr, span: Span) -> Var:
        """The expression as a variable, whatever it is."""
        found = self.named(e, span)
        if not isinstance(found, Var):
            result = Var(self.fresh("v"), found.tensor)
            self.nodes.append(Let(result, found, span))
            return result
        return found

    def made(self, e: Expr, axes: Axes, element: Element, span: Span) -> Number:
        """A tile of numbers with a computed expression."""
        e = self.named(cut(e, {}), span)
        bounds = () if isinstance(e, Literal) and e.element == BOOL and e.value else None
        return Number(axes, element, scalar_of(element, span), e, None, bounds)

    def zero(self, like: Value) -> Expr:
        """Zeros of the type of a value."""
        n = like.offset if isinstance(like, Pointers) else like
        assert isinstance(n, Number)
        return literal(False if n.scalar == BOOL else 0, n.scalar)

    def inside(self, axes: Axes, element: Element, span: Span, prefix: str = "c") -> Var:
        """A variable for what a loop carries, on all axes of its tile."""
        template = Number(axes, element, scalar_of(element, span), None)
        return Var(self.fresh(prefix), TensorType(template.scalar, Dims(tuple(template.dims.items()))))

    @contextmanager
    def body(self) -> Generator[list[Node]]:
        """A list that takes the nodes that are made within."""
        outer, self.nodes = self.nodes, list[Node]()
        try:
            yield self.nodes
        finally:
            self.nodes = outer


Translate = Callable[[Context, Operation], None]
