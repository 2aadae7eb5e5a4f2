"""Cards and their limits, blocks as tiles of 32 × 32 elements, and values of TIR as expressions of tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from tensorir.runtime.errors import NOWHERE, Span, did_you_mean, refuse
from tensorir.tenstorrent.items import in_words
from tensorir.tenstorrent.kernels.nodes import Kernel, Program, Work, ops_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32, DataType
from tensorir.tir.tiles.operations import Box, Copy, Reduce, is_tile, operation
from tensorir.tir.trees import walk

# The cards that programs are written for: their grids, their limits, and the figures that bound a program's time.

BUFFERS = 32
"""The circular buffers of a core."""


@dataclass(frozen=True, slots=True)
class Card:
    """A chip: its grid of cores for programs, the L1 memory of each, and its peak rates of memory and computation.

    `l1` is in bytes, `alignment` in bytes of an address in DRAM, `clock` in cycles a second, `dram` in bytes a second
    of the whole chip, `noc` in bytes a cycle into a core from each of its two networks, `products` in multiplications
    of a cycle at the lowest fidelity, `lanes` in elements of a cycle of the vector unit.
    """

    name: str
    grid: tuple[int, int]
    l1: int
    alignment: int
    clock: float
    dram: float
    noc: int
    products: int = 2048
    lanes: int = 32

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    def row(self, cores: int, wanted: int) -> int:
        """The cores in a row where some lie row by row: as many as are wanted, or the most that make a rectangle.

        >>> CARDS["blackhole"].row(64, 64), CARDS["wormhole"].row(8, 2), CARDS["wormhole"].row(13, 13)
        (8, 2, 8)
        """
        wide, high = self.grid
        full = (w for w in (wanted, *range(wide, 0, -1)) if w <= wide and cores % w == 0 and cores // w <= high)
        return next(full, wide)


# Grids are those left to programs where one row or column dispatches. The products of a cycle follow from the published
# rates: 64 cores · 2 · 2048 · 1 GHz are the 262 TFLOPS of an n300's chip, 120 · 2 · 2048 · 1.35 GHz the 664 of a p100a.
CARDS: dict[str, Card] = {
    "wormhole": Card("wormhole", (8, 8), 1_499_136, 32, 1.0e9, 288e9, 32),
    "blackhole": Card("blackhole", (11, 10), 1_572_864, 64, 1.35e9, 448e9, 64),
}


def card_named(name: str) -> Card:
    """The card of a name; raises TN18 for another name."""
    if (found := CARDS.get(name)) is not None:
        return found
    message = f"there is no card {name!r}; there are {' and '.join(CARDS)}."
    raise refuse("TN18", message, did_you_mean(name, CARDS) or "write wormhole.", at=n.NOWHERE)


# Expressions of tiles: what the elements of a block are, made of tiles, of vectors along them, and of numbers.

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
    """True if every element is 0, as registers are when they are acquired."""
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


# How blocks and buffers lie in tiles of 32 × 32 elements: matrices by their last two dims, vectors as a row or
# column.
#
# A vector lies along the columns of a tile, as one row, unless what reads it says otherwise: v[i] where y[i, j] is
# written, and sums along rows, make it a column. Everything that is copied into it or out of it lies as it does.

TILE = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """Matrices: how many, and the rows and columns of each."""

    count: int
    rows: int
    columns: int

    @property
    def high(self) -> int:
        """The tiles below each other."""
        return -(-self.rows // TILE)

    @property
    def wide(self) -> int:
        """The tiles beside each other."""
        return -(-self.columns // TILE)

    @property
    def tiles(self) -> int:
        return self.count * self.high * self.wide


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of buffers; `upright` are the vectors that lie as columns."""

    upright: frozenset[n.Buffer]

    def of(self, buffer: n.Buffer) -> Shape:
        sizes = extents(buffer)
        if len(sizes) < 2:
            size = prod(sizes)
            return Shape(1, size, 1) if buffer in self.upright else Shape(1, 1, size)
        return Shape(prod(sizes[:-2]), *sizes[-2:])


def extents(buffer: n.Buffer) -> tuple[int, ...]:
    """The extents of a buffer; raises TN02 for those that only a call tells."""
    found = tuple(e.value for e in buffer.shape if isinstance(e, n.IntImm))
    if len(found) < len(buffer.shape):
        message = f"{buffer.name!r} has extents that only a call tells, and its tiles are counted before."
        raise refuse("TN02", message, "give its sizes: ti.tt.sized(f, m=64).", at=buffer.span)
    return found


def matrix_box(box: Box, shapes: Shapes) -> tuple[list[n.Expr], list[int], list[int]]:
    """The starts, extents and buffer's extents of a box with exactly two dims behind those that count matrices."""
    starts, whole = list(box.starts), list(extents(box.buffer))
    sizes: list[int] = []
    for e in box.extents:
        if not isinstance(e, n.IntImm):
            message = f"a box of {box.buffer.name!r} has extents that only a call tells."
            raise refuse("TN16", message, "write them as numbers.", at=box.span)
        sizes.append(e.value)
    zero = n.IntImm(0, INT32)
    if len(whole) == 1:
        at = 1 if box.buffer in shapes.upright else 0
        starts.insert(at, zero)
        sizes.insert(at, 1)
        whole.insert(at, 1)
    return starts, sizes, whole


def shapes_of(program: Program) -> Shapes:
    """The shapes of all buffers of a program; raises TN16 for a vector that is a row here and a column there."""
    kinds: dict[n.Buffer, tuple[str, n.Node]] = {}
    same: list[tuple[n.Buffer, n.Buffer]] = []

    def say(buffer: n.Buffer, kind: str, node: n.Node) -> None:
        found = kinds.setdefault(buffer, (kind, node))
        if found[0] != kind:
            message = f"{buffer.name!r} is a {kind} of its tiles here and a {found[0]} elsewhere, and it lies one way."
            span = node.span if isinstance(node, n.Stmt | n.Expr) else buffer.span
            raise refuse("TN16", message, "copy it into another vector where it is loaded.", at=span)

    for kernel in program.kernels:
        for node in _nodes(kernel):
            match node:
                case n.Call() if is_tile(node):
                    match operation(node):
                        case Copy(src, dst) if len(src.buffer.shape) == 1 == len(dst.buffer.shape):
                            same.append((src.buffer, dst.buffer))
                        case Copy(src, dst):
                            for vector, other in ((src, dst), (dst, src)):
                                if len(vector.buffer.shape) == 1 and len(other.buffer.shape) > 1:
                                    wide = other.wide and other.wide[-1] == len(other.extents) - 1
                                    say(vector.buffer, "row" if wide else "column", node)
                        case Reduce(src, dst, dim=dim) if len(dst.buffer.shape) == 1 and len(src.buffer.shape) > 1:
                            say(dst.buffer, "column" if dim == len(src.buffer.shape) - 1 else "row", node)
                        case _:
                            pass
                case n.BufferStore(buffer, value, at):
                    variables = [v for v in at if isinstance(v, n.Var)]
                    for load in (part for part in walk(value) if isinstance(part, n.BufferLoad)):
                        if len(load.buffer.shape) != 1 or not isinstance(load.indices[0], n.Var):
                            continue
                        if len(buffer.shape) == 1:
                            same.append((buffer, load.buffer))
                        elif len(variables) >= 2 and load.indices[0] in variables[-2:]:
                            say(load.buffer, "column" if load.indices[0] == variables[-2] else "row", load)
                case _:
                    pass
    for _ in range(len(same) + 1):
        for a, b in same:
            for one, other in ((a, b), (b, a)):
                if one in kinds:
                    say(other, *kinds[one])
    return Shapes(frozenset(buffer for buffer, (kind, _) in kinds.items() if kind == "column"))


def _nodes(kernel: Kernel) -> Iterator[n.Node]:
    for op in ops_of(kernel.body):
        if isinstance(op, Work):
            yield from walk(op.statement)


# Values of TIR as expressions of tiles: arithmetic, functions, conditions as masks, and choices by them.

_BINARY: Mapping[type[n.Expr], str] = {
    n.Add: "add", n.Sub: "sub", n.Mul: "mul", n.Div: "div", n.Max: "max", n.Min: "min",
    n.LT: "lt", n.LE: "le", n.GT: "gt", n.GE: "ge", n.EQ: "eq", n.NE: "ne",
}  # fmt: skip
_CALLS: Mapping[str, str] = {
    "exp": "exp", "__exp": "exp", "exp2": "exp2", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh",
    "sigmoid": "sigmoid", "abs": "abs", "fabs": "abs", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "erf": "erf", "ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div", "ieee_fsqrt": "sqrt",
    "ieee_frsqrt": "rsqrt", "ieee_frcp": "recip",
}  # fmt: skip
_OF_INTEGERS = ("add", "sub", "mul", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "abs")
_SAY = (
    "write it with arithmetic, comparisons, choices, extremes, exp, log, sqrt, rsqrt, tanh, sigmoid, abs, sin, cos, "
    "erf, floor and ceil."
)
_SAY_INTEGERS = "sums, differences, products, extremes and comparisons of integers have calls; or compute in float32."


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a store to `target` as expressions of tiles.

    `at` are the variables that run along the dims of its buffer, `params` the program's.
    """

    shapes: Shapes
    target: n.Buffer
    at: Sequence[n.Var]
    params: Collection[n.Var]

    def of(self, e: n.Expr, within: Span = NOWHERE) -> Tile:
        """Raises TN16 for what has no call on the card; a variable is used `within` an expression."""
        match e:
            case n.IntImm(value) | n.FloatImm(value):
                return self.constant(value, e)
            case n.Var():
                if e not in self.params:
                    message = f"{e.name!r} is an index here, and no tile has its values."
                    help = "load a tile of them, from a buffer that holds 0, 1, 2, …."
                    raise refuse("TN16", message, help, at=e.span if within is NOWHERE else within)
                return Number(e, self.kind(e))
            case n.Cast(n.IntImm(value) | n.FloatImm(value)):
                return self.constant(value, e)
            case n.Cast(value):
                return converted(self.of(value, e.span), e.dtype, e)
            case (
                n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Div(a, b) | n.Max(a, b) | n.Min(a, b)
                | n.LT(a, b) | n.LE(a, b) | n.GT(a, b) | n.GE(a, b) | n.EQ(a, b) | n.NE(a, b)
            ):  # fmt: skip
                return self.call(_BINARY[type(e)], (self.of(a, e.span), self.of(b, e.span)), e)
            case n.And(a, b):
                return _both(*self.masks(a, b, e))
            case n.Or(a, b):
                x, y = self.masks(a, b, e)
                return _not(_both(_not(x), _not(y)))
            case n.Not(value):
                return _not(self.of(value, e.span))
            case n.Select(condition, a, b) | n.Call(op="if_then_else", args=(condition, a, b)):
                assert isinstance(condition, n.Expr) and isinstance(a, n.Expr) and isinstance(b, n.Expr)
                return self.choice(*(self.of(part, e.span) for part in (condition, a, b)))
            case n.Call(op=str(op), args=args) if op in _CALLS:
                # texts among the arguments say how to round
                given = [a for a in args if isinstance(a, n.Expr) and not isinstance(a, n.StringImm)]
                return self.call(_CALLS[op], tuple(self.of(a, e.span) for a in given), e)
            case n.BufferLoad(buffer, indices):
                self.kind(e)
                return Leaf(buffer, self.over(buffer, indices, e.span))
            case _:
                message = f"{in_words(e)} of the elements of tiles has no call on the card."
                raise refuse("TN16", message, _SAY, at=e.span)

    def kind(self, e: n.Expr) -> Kind:
        if (found := kind_of_type(e.dtype)) is None:
            message = f"{e.dtype} has no tiles on the card's vector unit here."
            raise refuse("TN16", message, "compute in float32, bfloat16, int32, uint32 or uint16.", at=e.span)
        return found

    def constant(self, value: float, e: n.Expr) -> Number:
        if e.dtype.is_bool:
            return Number(float(value))
        kind = self.kind(e)
        return Number(float(value) if kind == "float" else int(value), kind)

    def call(self, op: str, args: tuple[Tile, ...], e: n.Expr) -> Tile:
        kind = kind_of(args[0])
        if kind == "float":
            return simple(op, args)
        if op not in _OF_INTEGERS or (op == "abs" and kind != "int32") or (op in ("max", "min") and kind == "uint16"):
            raise refuse("TN16", f"{in_words(e)} of {kind} elements has no call on the card.", _SAY_INTEGERS, at=e.span)
        if op in ("eq", "ne"):
            equal = _not(Apply("sub", args, kind))
            return equal if op == "eq" else _not(equal)
        return Apply(op, args, kind)

    def masks(self, a: n.Expr, b: n.Expr, e: n.Expr) -> tuple[Tile, Tile]:
        x, y = self.of(a, e.span), self.of(b, e.span)
        if kind_of(x) != kind_of(y):
            message = f"this condition joins one on {kind_of(x)} elements and one on {kind_of(y)} elements."
            raise refuse("TN16", message, "compare elements of one type, or convert these.", at=e.span)
        return x, y

    def choice(self, condition: Tile, a: Tile, b: Tile) -> Tile:
        """By a mask: 0 is 0 in every format, and what is 1 of an integer is next to 0 as a float."""
        if kind_of(a) == "float" and kind_of(condition) in ("int32", "uint32"):
            condition = Apply("to_float", (condition,))
        return Apply("where", (condition, a, b), kind_of(a))

    def over(self, buffer: n.Buffer, indices: Sequence[n.Expr], span: Span) -> Over:
        """The orientation of a load's elements to those of the store."""
        sizes = extents(buffer)
        at = [i for i, size in zip(indices, sizes, strict=True) if not is_only(i, size)]
        whole = [size for i, size in zip(indices, sizes, strict=True) if not is_only(i, size)]
        target = [size for size in extents(self.target) if size != 1]
        if (
            at == list(self.at)
            and self.shapes.of(buffer) == self.shapes.of(self.target)
            and whole == target[-len(whole) :]
        ):
            return "tile"
        found: Over | None = None
        if len(self.at) >= 2 and at == [self.at[-2]] and self.shapes.of(buffer).columns == 1:
            found = "columns"
        if len(self.at) >= 2 and at == [self.at[-1]] and self.shapes.of(buffer).rows == 1:
            found = "rows"
        if found is None:
            message = f"these elements of {buffer.name!r} do not lie in tiles as those of {self.target.name!r} do."
            help = "read x[i, j], or a vector along one of both dims, v[i] or v[j], where y[i, j] is written."
            raise refuse("TN16", message, help, at=span)
        if not buffer.dtype.is_float:
            message = f"{buffer.name!r} is broadcast along a tile, and the unit that broadcasts has no {buffer.dtype}."
            raise refuse("TN16", message, "make it float32, or a whole tile.", at=span)
        return found


def is_only(index: n.Expr, size: int) -> bool:
    """True if an index is 0, in a dim of one element."""
    return size == 1 and isinstance(index, n.IntImm) and index.value == 0


def converted(tile: Tile, dtype: DataType, e: n.Expr) -> Tile:
    """A tile with elements of another type; floats of any width are those of the registers, and packed as their block.

    Raises TN16 for a conversion that has no call: to integers, whose rounding is not documented, and between them.
    """
    have, want = kind_of(tile), kind_of_type(dtype)
    if have == want:
        return tile
    if want == "float" and have in ("int32", "uint32"):
        return Apply("to_float", (tile,))
    help = "convert it before it comes to the card; int32 and uint32 become floats there."
    raise refuse("TN16", f"a conversion of {have} to {dtype} has no call on the card.", help, at=e.span)


def _not(mask: Tile) -> Tile:
    return Apply("not", (mask,), kind_of(mask))


def _both(a: Tile, b: Tile) -> Tile:
    return Apply("mul", (a, b), kind_of(a))


def simple(op: str, args: tuple[Tile, ...]) -> Tile:
    """A function of floats in the card's words: 1 / x is `recip`, 0 - x `neg`, max(x, 0) `relu`."""
    match op, args:
        case "div", (Number(1.0), x):
            return Apply("recip", (x,))
        case "sub", (Number(0.0), x):
            return Apply("neg", (x,))
        case "mul", (Number(-1.0), x) | (x, Number(-1.0)):
            return Apply("neg", (x,))
        case "max", (Number(0.0), x) | (x, Number(0.0)):
            return Apply("relu", (x,))
        case _:
            return Apply(op, args)
