"""What a core computes, as steps that each make all tiles of one block: maps, products, folds and transposes.

A loop nest over the elements of tiles becomes a map: an expression of which every operand is a tile, a vector that is
broadcast along the rows or the columns of a tile, or a number. What has no such form is refused where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias

from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.source import NOWHERE, Span
from tensorir.tenstorrent.blocks import is_whole
from tensorir.tenstorrent.kernels.nodes import Barrier, Bind, Branch, Loop, Op, Program, Sync, Work
from tensorir.tenstorrent.metal.shapes import TILE, Shapes, extents
from tensorir.tenstorrent.words import in_words
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32
from tensorir.tir.tiles.operations import Box, Copy, Fill, Gemm, Nothing, Reduce, Transpose, is_tile, operation

__all__ = [
    "Apply", "Fold", "Item", "Leaf", "Map", "Number", "Product", "Repeat", "Step", "Tile", "Turn", "When", "leaves",
    "read_by", "refuse", "steps_of",
]  # fmt: skip

Over: TypeAlias = Literal["tile", "rows", "columns"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tile of a block; a vector is broadcast over the rows or the columns of the tile that is made."""

    buffer: n.Buffer
    over: Over = "tile"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in every element: a constant, or an argument of the program."""

    value: float | n.Var


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of tiles, element by element, by the name that its call has in `registers`."""

    op: str
    args: tuple[Tile, ...]


Tile: TypeAlias = Leaf | Number | Apply


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Every tile of `dst` is the value, element by element."""

    dst: n.Buffer
    value: Tile
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """dst = (0 where `clear`, else dst) + a · b, or a · bᵀ where `turned`."""

    a: n.Buffer
    b: n.Buffer
    dst: n.Buffer
    turned: bool
    clear: bool
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """The sums or maxima of `src` over its columns (dim 1) or its rows (dim 0)."""

    src: n.Buffer
    dst: n.Buffer
    kind: Literal["sum", "max"]
    dim: int
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """dst is src transposed."""

    src: n.Buffer
    dst: n.Buffer
    span: Span = field(default=NOWHERE, repr=False)


Step: TypeAlias = Map | Product | Fold | Turn


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A loop around items."""

    var: n.Var
    start: n.Expr
    extent: n.Expr
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """One of two lists of items."""

    condition: n.Expr
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...]


Item: TypeAlias = Step | Sync | Bind | Repeat | When


def refuse(message: str, span: Span, help: str, code: str = "TN16") -> NoReturn:
    raise DiagnosticError(Diagnostic(code, message, span, help=help))


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


def read_by(step: Step) -> tuple[n.Buffer, ...]:
    """The blocks that a step reads: what a product or a fold adds to is among them."""
    match step:
        case Map(_, value):
            return tuple(dict.fromkeys(leaf.buffer for leaf in leaves(value)))
        case Product(a, b, dst, _, clear):
            return (a, b) if clear else (a, b, dst)
        case Fold(src) | Turn(src):
            return (src,)


def steps_of(program: Program, shapes: Shapes) -> tuple[Item, ...]:
    """The computation of a program as steps; raises TN16 for what the card has no call for."""
    reader = _Reader(shapes, frozenset(queue.block for queue in program.buffers))
    made = tuple(reader.suite(program["compute"].body))
    for product in reader.first:
        refuse("whether this product begins anew is known when it runs only.", product.span, _FIRST)
    return made


_FIRST = "clear always, never, or in the first iteration of the loop around it, from 0: ko == 0."


@dataclass(slots=True)
class _Reader:
    """Reads the computation: `moved` are the blocks between kernels, `first` products that a loop has the start of.

    These begin anew in its first iteration.
    """

    shapes: Shapes
    moved: frozenset[n.Buffer]
    first: dict[Product, n.Var] = field(default_factory=dict[Product, n.Var])

    def suite(self, body: Sequence[Op]) -> list[Item]:
        """The items of a body. A block that is filled is reserved and pushed by the step that packs it."""
        filled = {op.fills for op in body if isinstance(op, Work)} - {None}
        made: list[Item] = []
        for op in body:
            match op:
                case Sync(action, buffer) if action in ("reserve", "push"):
                    if buffer not in filled:
                        message = f"{buffer} is {'reserved' if action == 'reserve' else 'pushed'} and not filled here."
                        refuse(message, op.span, "emit the program that ti.tt.split made.")
                case Sync() | Bind():
                    made.append(op)
                case Barrier(way):
                    message = f"the computation moves nothing from or to memory, and waits here for its {way}s."
                    refuse(message, op.span, "leave barriers to the reader and the writer.")
                case Loop(var, start, extent, inner):
                    made.extend(self.loop(var, start, extent, self.suite(inner)))
                case Branch(condition, then, otherwise):
                    made.append(When(condition, tuple(self.suite(then)), tuple(self.suite(otherwise))))
                case Work(statement):
                    made.extend(self.statement(statement))
        return made

    def loop(self, var: n.Var, start: n.Expr, extent: n.Expr, body: list[Item]) -> list[Item]:
        """A loop; a product that begins anew in its first iteration adds to zeros that stand before the loop."""
        before: list[Item] = []
        kept: list[Item] = []
        for item in body:
            if isinstance(item, Product) and self.first.get(item) == var:
                if not (isinstance(start, n.IntImm) and start.value == 0):
                    refuse("the first iteration, in which this product begins anew, is not 0.", item.span, _FIRST)
                before.append(Map(item.dst, Number(0.0), item.span))
                self.first.pop(item)
            kept.append(item)
        return [*before, Repeat(var, start, extent, tuple(kept))]

    def statement(self, node: n.Stmt) -> list[Item]:
        match node:
            case n.SeqStmt(parts):
                return [item for part in parts for item in self.statement(part)]
            case n.AttrStmt(body=inner):
                return self.statement(inner)
            case n.BlockRealize():
                return self.statement(node.block.body)
            case n.AllocBuffer() | n.Allocate() | n.DeclBuffer() | n.Evaluate(n.IntImm()):
                return []
            case n.Evaluate(n.Call() as call) if is_tile(call):
                return self.operation(call)
            case n.For():
                return self.nest(node)
            case n.BufferStore(_, _, indices) if all(isinstance(i, n.IntImm) for i in indices):
                return [self.store(node, (), node.span)]
            case _:
                message = f"{in_words(node)} on the elements of tiles has no call on the card."
                refuse(message, node.span, "compute whole tiles: nests over all elements, or tile operations.")

    # Tile operations

    def operation(self, call: n.Call) -> list[Item]:
        record = operation(call)
        match record:
            case Copy(src, dst, None):
                return [Map(self.whole(dst), Leaf(self.whole(src)), call.span)]
            case Fill(dst, n.IntImm(value) | n.FloatImm(value)):
                return [Map(self.whole(dst), Number(float(value)), call.span)]
            case Gemm(a, b, c, (False, turned), clear):
                return [self.product(a, b, c, turned, clear, call.span)]
            case Gemm():
                refuse("a product with A transposed has no call on the card.", call.span,
                       "transpose A before it comes to the card, or into another tile: T.transpose.")  # fmt: skip
            case Reduce(src, dst, "sum" | "max" as kind, dim, n.IntImm(value=clear)):
                return self.fold(src, dst, kind, dim, bool(clear), call.span)
            case Reduce(kind=kind):
                message = f"T.reduce of {kind!r} has no call on the card, which has sums and maxima."
                refuse(message, call.span, "fold sums or maxima: of -x for minima, of T.abs(x) for those of sizes.")
            case Transpose(src, dst):
                return [Turn(self.whole(src), self.whole(dst), call.span)]
            case Nothing():
                return []
            case _:
                help = "write it with copies, products, sums and maxima of tiles, and nests over all elements."
                refuse(f"T.{call.op} has no call on the card.", call.span, help)

    def whole(self, box: Box) -> n.Buffer:
        if not is_whole(box):
            message = f"a part of {box.buffer.name!r} is used here, and the card's calls take whole tiles in order."
            refuse(message, box.span, "copy the part into a tile of its own where it is loaded.")
        return box.buffer

    def product(self, a: Box, b: Box, c: Box, turned: bool, clear: n.Expr, span: Span) -> Product:
        left, right, sum = self.whole(a), self.whole(b), self.whole(c)
        inner = self.shapes.of(left).columns
        if inner % TILE and not {left, right} <= self.moved:
            message = f"{inner} elements are summed over, and what lies behind them in the last tile was computed."
            refuse(message, span, f"give both tiles {-(-inner // TILE) * TILE}, with zeros where nothing is.")
        match clear:
            case n.IntImm(value):
                return Product(left, right, sum, turned, bool(value), span)
            case n.EQ(n.Var() as var, n.IntImm(0)) | n.EQ(n.IntImm(0), n.Var() as var):
                made = Product(left, right, sum, turned, False, span)
                self.first[made] = var
                return made
            case _:
                refuse("whether this product begins anew is known when it runs only.", span, _FIRST)

    def fold(self, src: Box, dst: Box, kind: Literal["sum", "max"], dim: int, clear: bool, span: Span) -> list[Item]:
        source, target, rank = self.whole(src), self.whole(dst), len(src.extents)
        along = dim - (rank - 2)
        if rank < 2 or along not in (0, 1):
            message = f"T.reduce along dim {dim} of {source.name!r} has no call on the card."
            refuse(message, span, "reduce along the rows or the columns of tiles: one of the last two dims.")
        size = extents(source)[dim]
        if size % TILE:
            message = f"dim {dim} of {source.name!r} has {size} elements, and its last tile would be folded whole."
            refuse(message, span, f"give the tile {-(-size // TILE) * TILE}, and fill what is not there.")
        if clear:
            return [Fold(source, target, kind, along, span)]
        # folded for itself, then joined: with the extents of a matrix, which lie as the vector does
        shape = self.shapes.of(target)
        sizes = tuple(const(size, INT32) for size in (shape.count * shape.rows, shape.columns))
        name = f"{target.name}_part"
        data = n.Var(name, n.PointerType(n.PrimType(target.dtype), "shared"), target.span)
        part = n.Buffer(data, target.dtype, sizes, name=name, span=target.span)
        joined = Apply("add" if kind == "sum" else "max", (Leaf(target), Leaf(part)))
        return [Fold(source, part, kind, along, span), Map(target, joined, span)]

    # Nests over the elements of tiles

    def nest(self, node: n.For) -> list[Item]:
        """A nest as a map for each store in it, all elements of one before the next."""
        loops: list[tuple[n.Var, int]] = []
        body: n.Stmt = node
        while isinstance(body, n.For):
            if not (isinstance(body.min, n.IntImm) and body.min.value == 0 and isinstance(body.extent, n.IntImm)):
                refuse(f"the loop over {body.loop_var.name!r} is none over all elements of a tile.", node.span,
                       "let nests begin at 0 and end at the extents of tiles.")  # fmt: skip
            loops.append((body.loop_var, body.extent.value))
            body = body.body
        stores = list(_stores(body))
        made = [self.store(store, loops, node.span) for store in stores]
        written = {m.dst: place for place, m in enumerate(made)}
        for place, step in enumerate(made):
            for leaf in leaves(step.value):
                # what another iteration has written already, or not yet, is another value than its tile holds
                if leaf.over != "tile" and leaf.buffer in written and written[leaf.buffer] >= place:
                    message = f"{leaf.buffer.name!r} is read here while other elements of it are written."
                    refuse(message, stores[place].span, "write into another tile.")
        return list(made)

    def store(self, store: n.BufferStore, loops: Sequence[tuple[n.Var, int]], span: Span) -> Map:
        buffer = store.buffer
        at = [i for i, size in zip(store.indices, extents(buffer), strict=True) if not _is_zero(i, size)]
        wanted = [(i, size) for i, size in zip(store.indices, extents(buffer), strict=True) if i in at]
        if store.predicate is not None or {v: e for v, e in loops if e != 1 or v in at} != dict(wanted):
            message = f"not all elements of {buffer.name!r} are written here, each in its own iteration."
            refuse(message, store.span, "write every element of a tile: y[i, j] in loops over i and j.")
        return Map(buffer, _Value(self.shapes, buffer, [v for v in at if isinstance(v, n.Var)]).of(store.value), span)


def _stores(body: n.Stmt) -> Iterator[n.BufferStore]:
    match body:
        case n.SeqStmt(parts):
            for part in parts:
                yield from _stores(part)
        case n.BufferStore():
            yield body
        case n.AttrStmt(body=inner):
            yield from _stores(inner)
        case n.AllocBuffer() | n.DeclBuffer() | n.Evaluate(n.IntImm()):
            pass
        case _:
            message = f"{in_words(body)} on the elements of tiles has no call on the card."
            refuse(message, body.span, "compute whole tiles: nests over all elements, without conditions.")


def _is_zero(index: n.Expr, size: int) -> bool:
    return size == 1 and isinstance(index, n.IntImm) and index.value == 0


_BINARY: Mapping[type[n.Expr], str] = {
    n.Add: "add", n.Sub: "sub", n.Mul: "mul", n.Div: "div", n.Max: "max", n.Min: "min",
}  # fmt: skip
_CALLS: Mapping[str, str] = {
    "exp": "exp", "__exp": "exp", "exp2": "exp2", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh",
    "sigmoid": "sigmoid", "abs": "abs", "fabs": "abs", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "erf": "erf", "ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div", "ieee_fsqrt": "sqrt",
    "ieee_frsqrt": "rsqrt", "ieee_frcp": "recip",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a store as an expression of tiles; `at` are the variables that run along the dims of its buffer."""

    shapes: Shapes
    target: n.Buffer
    at: Sequence[n.Var]

    def of(self, e: n.Expr) -> Tile:
        if not e.dtype.is_float and not isinstance(e, n.IntImm):
            refuse(f"{e.dtype} has no tiles on the card's vector unit here.", e.span,
                   "compute in float32 or bfloat16.")  # fmt: skip
        match e:
            case n.IntImm(value) | n.FloatImm(value):
                return Number(float(value))
            case n.Var():
                return Number(e)
            case n.Cast(value, dtype) if dtype.is_float and (value.dtype.is_float or isinstance(value, n.IntImm)):
                return self.of(value)  # registers are as wide as they are: what is packed has the type of its block
            case n.Add(a, b) | n.Sub(a, b) | n.Mul(a, b) | n.Div(a, b) | n.Max(a, b) | n.Min(a, b):
                return simple(_BINARY[type(e)], (self.of(a), self.of(b)))
            case n.Call(op=str(op), args=args) if op in _CALLS:
                # texts among the arguments say how to round
                given = [a for a in args if isinstance(a, n.Expr) and not isinstance(a, n.StringImm)]
                return simple(_CALLS[op], tuple(map(self.of, given)))
            case n.BufferLoad(buffer, indices):
                return Leaf(buffer, self.over(buffer, indices, e.span))
            case _:
                refuse(f"{in_words(e)} of the elements of tiles has no call on the card.", e.span, _SAY)

    def over(self, buffer: n.Buffer, indices: Sequence[n.Expr], span: Span) -> Over:
        """How the elements of a load lie to those of the store."""
        sizes = extents(buffer)
        at = [i for i, size in zip(indices, sizes, strict=True) if not _is_zero(i, size)]
        whole = [size for i, size in zip(indices, sizes, strict=True) if not _is_zero(i, size)]
        target = [size for size in extents(self.target) if size != 1]
        if (
            at == list(self.at)
            and self.shapes.of(buffer) == self.shapes.of(self.target)
            and whole == target[-len(whole) :]
        ):
            return "tile"
        if len(self.at) >= 2 and at == [self.at[-2]] and self.shapes.of(buffer).columns == 1:
            return "columns"
        if len(self.at) >= 2 and at == [self.at[-1]] and self.shapes.of(buffer).rows == 1:
            return "rows"
        message = f"these elements of {buffer.name!r} do not lie in tiles as those of {self.target.name!r} do."
        refuse(
            message, span, "read x[i, j], or a vector along one of both dims, v[i] or v[j], where y[i, j] is written."
        )


_SAY = "write it with arithmetic, extremes, exp, log, sqrt, rsqrt, tanh, sigmoid, abs, sin, cos, erf, floor and ceil."


def simple(op: str, args: tuple[Tile, ...]) -> Tile:
    """A function of tiles in the card's words: 1 / x is `recip`, 0 - x `neg`, max(x, 0) `relu`."""
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
