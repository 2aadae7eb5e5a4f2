"""Values of TIR as expressions of tiles: arithmetic, functions, conditions as masks, and choices by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tenstorrent.metal.cards import refuse
from tensorir.tenstorrent.metal.shapes import Shapes, extents
from tensorir.tenstorrent.metal.tiles import Apply, Kind, Leaf, Number, Over, Tile, kind_of, kind_of_type
from tensorir.tenstorrent.words import in_words
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType

__all__ = ["Values", "converted", "is_only"]

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
                    refuse(message, e.span if within is NOWHERE else within, help)
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
                refuse(f"{in_words(e)} of the elements of tiles has no call on the card.", e.span, _SAY)

    def kind(self, e: n.Expr) -> Kind:
        if (found := kind_of_type(e.dtype)) is None:
            refuse(f"{e.dtype} has no tiles on the card's vector unit here.", e.span,
                   "compute in float32, bfloat16, int32, uint32 or uint16.")  # fmt: skip
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
            refuse(f"{in_words(e)} of {kind} elements has no call on the card.", e.span, _SAY_INTEGERS)
        if op in ("eq", "ne"):
            equal = _not(Apply("sub", args, kind))
            return equal if op == "eq" else _not(equal)
        return Apply(op, args, kind)

    def masks(self, a: n.Expr, b: n.Expr, e: n.Expr) -> tuple[Tile, Tile]:
        x, y = self.of(a, e.span), self.of(b, e.span)
        if kind_of(x) != kind_of(y):
            message = f"this condition joins one on {kind_of(x)} elements and one on {kind_of(y)} elements."
            refuse(message, e.span, "compare elements of one type, or convert these.")
        return x, y

    def choice(self, condition: Tile, a: Tile, b: Tile) -> Tile:
        """By a mask: 0 is 0 in every format, and what is 1 of an integer is next to 0 as a float."""
        if kind_of(a) == "float" and kind_of(condition) in ("int32", "uint32"):
            condition = Apply("to_float", (condition,))
        return Apply("where", (condition, a, b), kind_of(a))

    def over(self, buffer: n.Buffer, indices: Sequence[n.Expr], span: Span) -> Over:
        """How the elements of a load lie to those of the store."""
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
            refuse(message, span, help)
        if not buffer.dtype.is_float:
            message = f"{buffer.name!r} is broadcast along a tile, and the unit that broadcasts has no {buffer.dtype}."
            refuse(message, span, "make it float32, or a whole tile.")
        return found


def is_only(index: n.Expr, size: int) -> bool:
    """Whether an index is 0, in a dim of one element."""
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
    refuse(f"a conversion of {have} to {dtype} has no call on the card.", e.span,
           "convert it before it comes to the card; int32 and uint32 become floats there.")  # fmt: skip


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
