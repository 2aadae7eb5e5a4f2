"""Expressions of tiles as calls on destination registers, in parts where they need more than there are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.tenstorrent.items import own_block
from tensorir.tenstorrent.metal.steps import Item, Map, Repeat, When
from tensorir.tenstorrent.metal.values import FORMAT_OF, Apply, Kind, Leaf, Number, Shapes, Tile, extents, kind_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BFLOAT16, FLOAT32, INT32, UINT16, UINT32, DataType

# Expressions of tiles as calls on the tiles of the destination registers.
#
# An operand is copied from its circular buffer into a register tile, functions work on register tiles, and the value
# ends in one that is packed. The matrix unit adds, subtracts and multiplies tiles of two buffers at once; it takes
# operands of 16 bits whole, and of float32 the upper 19, so float32 goes by way of the vector unit. Where the matrix
# unit writes, the register must be untouched since it was acquired: its products add to what is there.


@dataclass(frozen=True, slots=True)
class Call:
    """A call, its unit ("unpack" or "sfpu"), how that is set up for it, and the buffers that it unpacks."""

    text: str
    unit: str
    setup: str
    header: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile of a circular buffer: its name, the index of the tile in front, and whether it has 16 bits or fewer."""

    queue: str
    index: str
    narrow: bool


@dataclass(frozen=True, slots=True)
class _Function:
    call: str
    header: str
    setup: str = ""

    @property
    def init(self) -> str:
        return self.setup or f"{self.call}_init();"


def _unary(name: str, header: str) -> _Function:
    return _Function(f"{name}_tile", header)


UNARY: Mapping[str, _Function] = {
    "exp": _unary("exp", "eltwise_unary/exp.h"), "exp2": _unary("exp2", "compute_kernel_api.h"),
    "log": _unary("log", "compute_kernel_api.h"), "sqrt": _unary("sqrt", "eltwise_unary/sqrt.h"),
    "rsqrt": _unary("rsqrt", "eltwise_unary/rsqrt.h"), "recip": _unary("recip", "eltwise_unary/recip.h"),
    "tanh": _unary("tanh", "compute_kernel_api.h"), "sigmoid": _unary("sigmoid", "compute_kernel_api.h"),
    "abs": _unary("abs", "compute_kernel_api.h"), "neg": _unary("negative", "eltwise_unary/negative.h"),
    "relu": _unary("relu", "eltwise_unary/relu.h"), "sin": _unary("sin", "eltwise_unary/trigonometry.h"),
    "cos": _unary("cos", "eltwise_unary/trigonometry.h"), "erf": _unary("erf", "eltwise_unary/erf_erfc.h"),
    "floor": _Function("floor_tile", "eltwise_unary/rounding.h", "rounding_op_tile_init();"),
    "ceil": _Function("ceil_tile", "eltwise_unary/rounding.h", "rounding_op_tile_init();"),
    "not": _unary("eqz", "eltwise_unary/comp.h"),
}  # fmt: skip
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
BINARY: Mapping[str, _Function] = {
    **{name: _Function(f"{name}_binary_tile", "eltwise_binary_sfpu.h")
       for name in ("add", "sub", "mul", "div", *COMPARED)},
    "max": _Function("binary_max_tile", "binary_max_min.h"),
    "min": _Function("binary_min_tile", "binary_max_min.h"),
}  # fmt: skip
_WITH_SCALAR = "binop_with_scalar_tile_init();"
SCALAR: Mapping[str, _Function] = {
    **{name: _Function(f"{name}_unary_tile", "eltwise_unary/binop_with_scalar.h", _WITH_SCALAR)
       for name in ("add", "sub", "mul", "rsub")},
    **{name: _Function(f"unary_{name}_tile", "eltwise_unary/comp.h") for name in COMPARED},
}  # fmt: skip
"""Functions of a tile and a number; `rsub_unary_tile` is the number less the tile."""
TURNED: Mapping[str, str] = {
    "add": "add", "sub": "rsub", "mul": "mul", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne",
}  # fmt: skip
"""Functions of a number and a tile, as functions of the tile and the number."""


def _function(op: str, kind: Kind, made: Kind, wide: bool) -> _Function:
    """The call of a function of elements of a kind, which makes elements of a kind; `wide` are registers of 32 bits."""
    if op == "where":
        return _Function(
            f"where_tile<DataFormat::{_format(made, wide)}>", "eltwise_unary/where.h", "where_tile_init();"
        )
    if op == "to_float":
        formats = f"uint32_t(DataFormat::{_format(kind, wide)}), uint32_t(DataFormat::{_format(made, wide)})"
        setup = f"typecast_tile_init<{formats}>();"
        return _Function(f"typecast_tile<{formats}>", "eltwise_unary/typecast.h", setup)
    if kind == "float":
        return UNARY[op] if op in UNARY else BINARY[op]
    of_kind = f"<DataFormat::{FORMAT_OF[kind]}>"
    match op:
        case "add" | "sub":
            return _Function(f"{op}_int_tile{of_kind}", f"{op}_int_sfpu.h", f"{op}_int_tile_init();")
        case "mul":
            return _Function(f"mul_int_tile{of_kind}", "mul_int_sfpu.h", f"mul_int_tile_init{of_kind}();")
        case "max" | "min":
            return _Function(f"binary_{op}_{kind}_tile", "binary_max_min.h")
        case "not":
            return _Function(f"eqz_tile_{kind}", "eltwise_unary/comp.h", "eqz_tile_init();")
        case "abs":
            return _Function("abs_tile_int32", "compute_kernel_api.h", "abs_tile_init();")
        case _:
            assert op in ("lt", "le", "gt", "ge"), op
            return _Function(f"{op}_int_tile{of_kind}", "binary_comp.h", f"{op}_int_tile_init{of_kind}();")


def _format(kind: Kind, wide: bool) -> str:
    return ("Float32" if wide else "Float16_b") if kind == "float" else FORMAT_OF[kind]


def float_bits(value: float) -> str:
    """The bits of a float32, as the card's calls take numbers.

    >>> float_bits(1.0)
    '0x3f800000'
    """
    try:
        return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08x}"
    except OverflowError:
        return "0x7f800000" if value > 0 else "0xff800000"


class _Full(Exception):
    """No register tile is free."""


@dataclass(slots=True)
class _Registers:
    """The register tiles: those in use, those that are free, and of these the ones that nothing has touched."""

    free: list[int]
    touched: set[int] = field(default_factory=set[int])

    def take(self, untouched: bool = False) -> int:
        """A free register tile: an untouched one where that is asked for, and else one that no longer is.

        Raises _Full where there is none.
        """
        order = sorted(self.free, key=lambda r: (r not in self.touched, r))
        found = next((r for r in order if not untouched or r not in self.touched), None)
        if found is None:
            raise _Full
        self.free.remove(found)
        self.touched.add(found)
        return found


def calls_of(
    value: Tile,
    operand: Callable[[Leaf], Operand],
    number: Callable[[Number], str],
    zeros: Callable[[], str],
    count: int,
    wide: bool,
) -> tuple[list[Call], int] | None:
    """The calls that make a value, and the register tile that it ends in; `wide` are registers of 32 bits.

    `operand` says where a tile lies, `number` the bits of a number, `zeros` the circular buffer of a tile of zeros, to
    which vectors are added where they are broadcast. None where `count` register tiles do not suffice.
    """
    registers = _Registers(list(range(count)))
    made: list[Call] = []

    def of(tile: Tile) -> int:
        match tile:
            case Leaf(_, "tile"):
                source, at = operand(tile), registers.take()
                made.append(copy(source, at))
                return at
            case Leaf(_, over):
                source, at = operand(tile), registers.take(untouched=True)
                # zeros of the matrix unit: what it takes of float32 is cut either way
                made.append(_of_two("add", Operand(zeros(), "0", source.narrow), source, at, over))
                return at
            case Number(_, kind):
                at = registers.take()
                made.append(fill(number(tile), at, kind))
                return at
            case Apply("add" | "sub" | "mul" as op, (Leaf(_, "tile") as a, Leaf() as b)) if _both(a, b):
                at = registers.take(untouched=True)
                made.append(_of_two(op, operand(a), operand(b), at, b.over))
                return at
            case Apply("add" | "mul" as op, (Leaf() as b, Leaf(_, "tile") as a)) if _both(a, b):
                at = registers.take(untouched=True)
                made.append(_of_two(op, operand(a), operand(b), at, b.over))
                return at
            case Apply(op, (x, Number() as y)) if _takes_scalar(op, x):
                return scalar(SCALAR[op], of(x), y)
            case Apply(op, (Number() as y, x)) if _takes_scalar(op, x):
                return scalar(SCALAR[TURNED[op]], of(x), y)
            case Apply(op, args, kind):
                # what needs most register tiles first: then fewest are held meanwhile
                order = sorted(range(len(args)), key=lambda k: -needed(args[k]))
                places = {k: of(args[k]) for k in order}
                first, *others = (places[k] for k in range(len(args)))
                given = [first, *others, first] if others else [first]
                function = _function(op, kind_of(args[0]), kind, wide)
                made.append(_sfpu(function, ", ".join(map(str, given))))
                registers.free.extend(others)
                return first

    def scalar(function: _Function, at: int, value: Number) -> int:
        made.append(_sfpu(function, f"{at}, {number(value)}"))
        return at

    def _both(a: Leaf, b: Leaf) -> bool:
        return operand(a).narrow and operand(b).narrow and any(r not in registers.touched for r in registers.free)

    try:
        return made, of(value)
    except _Full:
        return None


def needed(tile: Tile) -> int:
    """The register tiles that a value needs at least."""
    match tile:
        case Leaf() | Number():
            return 1
        case Apply(op, (x, Number()) | (Number(), x)) if _takes_scalar(op, x):
            return needed(x)
        case Apply(_, args):
            # while one is computed, those before it are held
            return max(held + need for held, need in enumerate(sorted(map(needed, args), reverse=True)))


def _takes_scalar(op: str, tile: Tile) -> bool:
    """True if a function of a tile and a number is one call."""
    return op in SCALAR and kind_of(tile) == "float"


def copy(source: Operand, at: int | str) -> Call:
    """A register tile of a tile of a circular buffer."""
    setup = f"copy_tile_to_dst_init_short({source.queue});"
    text = f"copy_tile({source.queue}, {source.index}, {at});"
    return Call(text, "unpack", setup, "tile_move_copy.h", (source.queue,))


def _of_two(op: str, a: Operand, b: Operand, at: int, over: str) -> Call:
    """A function of two tiles by the matrix unit; a vector among them is the second."""
    queues, sources = f"{a.queue}, {b.queue}", (a.queue, b.queue)
    given = f"{queues}, {a.index}, {b.index}, {at}"
    if over == "tile":
        return Call(f"{op}_tiles({given});", "unpack", f"{op}_tiles_init({queues});", "eltwise_binary.h", sources)
    # a column is broadcast over the columns of a tile
    word = "cols" if over == "columns" else "rows"
    setup = f"{op}_bcast_{word}_init_short({queues});"
    return Call(f"{op}_tiles_bcast_{word}({given});", "unpack", setup, "bcast.h", sources)


def _sfpu(function: _Function, given: str) -> Call:
    return Call(f"{function.call}({given});", "sfpu", function.init, function.header)


def fill(bits: str, at: int, kind: Kind = "float") -> Call:
    """A register tile of one number."""
    call = "fill_tile_bitcast" if kind == "float" else f"fill_tile_int<DataFormat::{FORMAT_OF[kind]}>"
    return Call(f"{call}({at}, {bits});", "sfpu", "fill_tile_init();", "eltwise_unary/fill.h")


# Values that need more register tiles than a core has, in parts: inner values get blocks of their own.
#
# Such a block has the elements of the registers, so nothing is rounded on the way through it.

_INTEGERS: Mapping[Kind, DataType] = {"int32": INT32, "uint32": UINT32, "uint16": UINT16}


def fitted(items: Sequence[Item], fits: Callable[[Tile], bool], shapes: Shapes, wide: bool) -> tuple[Item, ...]:
    """The items with maps that fit into the registers, which are `wide` where they have 32 bits."""
    made: list[Item] = []
    for item in items:
        match item:
            case Map():
                made += _parts(item, fits, shapes, wide)
            case Repeat():
                made.append(replace(item, body=fitted(item.body, fits, shapes, wide)))
            case When():
                then, otherwise = (fitted(side, fits, shapes, wide) for side in (item.then, item.otherwise))
                made.append(replace(item, then=then, otherwise=otherwise))
            case _:
                made.append(item)
    return tuple(made)


def _parts(step: Map, fits: Callable[[Tile], bool], shapes: Shapes, wide: bool) -> list[Item]:
    """A map behind those of its inner values that registers do not hold beside the others."""
    before: list[Item] = []

    def apart(value: Tile) -> Tile:
        block = _block(step.dst, shapes, kind_of(value), wide)
        before.append(Map(block, value, step.span))
        return Leaf(block)

    def of(value: Tile) -> Tile:
        if fits(value):
            return value
        assert isinstance(value, Apply)
        args = [of(arg) for arg in value.args]
        while not fits(made := replace(value, args=tuple(args))):
            # what needs most, of what is not a tile of a block already
            inner = [k for k, arg in enumerate(args) if not (isinstance(arg, Leaf) and arg.over == "tile")]
            most = max(inner, key=lambda k: needed(args[k]))
            args[most] = apart(args[most])
        return made

    value = of(step.value)
    return [*before, replace(step, value=value)]


def _block(dst: n.Buffer, shapes: Shapes, kind: Kind, wide: bool) -> n.Buffer:
    """A block of elements of a kind that lies as `dst` does; a vector as the matrix of its one row or column."""
    dtype = (FLOAT32 if wide else BFLOAT16) if kind == "float" else _INTEGERS[kind]
    shape = shapes.of(dst)
    sizes = extents(dst) if len(dst.shape) > 1 else (shape.rows, shape.columns)
    return own_block(dst, "inner", sizes, dtype)
