"""Rows of what moves elements: constants, shapes, packing, folds, products of matrices, and what a launch is asked."""

from __future__ import annotations

from tensorir.tile.operations.classes import (
    ANY,
    BYTES,
    INT,
    MMAF_IN,
    MMAF_OUT,
    MMAI_IN,
    MMAI_OUT,
    NUMBER,
    POINTER,
    SCALAR_I32,
    SCALE,
    SCALED_IN,
    SCALED_OUT,
    TILE,
    UNPACKED,
)
from tensorir.tile.operations.kinds import constraint, operands, results
from tensorir.tile.operations.rows import INT32_LIST, SIGNEDNESS, V13_3, Attr, Constraint, Operand, Result, Row

__all__ = ["FOLDS", "LAUNCH", "PRODUCTS", "SHAPES"]


def _reshaping(name: str, opcode: int, doc: str, *constraints: Constraint, label: str = "") -> Row:
    return Row(
        name, opcode, doc, operands(TILE, "source"), (), results(TILE, "result"), (),
        (constraint("element", "source result"), *constraints), "$source {} : ^source -> ^result", label=label,
    )  # fmt: skip


_SAME_RANK = constraint("rank", "source result")

SHAPES = (
    Row(
        "assume", 6, "The value, of which a predicate holds.", operands(ANY, "value"),
        (Attr("predicate", "predicate"),), results(ANY, "result"), (), (constraint("type", "value result"),),
        "$predicate, $value {} : ^value",
        pure=False, label="assume",
    ),
    _reshaping("broadcast", 11, "Dims of extent 1, repeated.", _SAME_RANK, label="bcast"),
    Row(
        "cat", 12, "Two tiles side by side along a dim.", operands(TILE, "lhs rhs"), (Attr("dim", "int64"),),
        results(TILE, "result"), (), (constraint("rank", "lhs rhs result"), constraint("element", "lhs rhs result")),
        "$lhs, $rhs dim = $dim {} : ^lhs, ^rhs -> ^result",
    ),
    Row(
        "constant", 16, "A tile of numbers that the program states.", (), (Attr("value", "dense"),),
        results(NUMBER, "result"), (), (), "$value {}", label="cst",
    ),
    Row(
        "extract", 38, "The slice of the result's shape at an index that counts such slices.",
        (Operand("source", TILE), Operand("indices", SCALAR_I32, "any")), (), results(TILE, "result"), (),
        (constraint("element", "source result"), _SAME_RANK), "$source[$indices] {} : ^source -> ^result",
    ),
    Row("iota", 58, "0, 1, 2 and so on.", (), (), results(INT, "result"), (), (), "{} : ^result"),
    Row(
        "offset", 81, "Pointers, moved by elements.", (Operand("ptr", POINTER), Operand("offset", INT)), (),
        results(POINTER, "result"), (), (constraint("type", "ptr result"), constraint("shape", "ptr offset")),
        "$ptr, $offset {} : ^ptr, ^offset -> ^result", elementwise=True,
    ),
    Row(
        "pack", 111, "The elements as bytes, the first in the low bits.", operands(UNPACKED, "source"), (),
        results(BYTES, "result"), (), (_SAME_RANK,), "$source {} : ^source -> ^result", V13_3,
    ),
    Row(
        "permute", 83, "Dims in another order.", operands(TILE, "source"), (Attr("permutation", INT32_LIST),),
        results(TILE, "result"), (), (constraint("element", "source result"), _SAME_RANK),
        "$source $permutation {} : ^source -> ^result",
    ),
    _reshaping("reshape", 91, "The elements in row-major order on another shape.", label="reshape"),
    Row(
        "unpack", 112, "Bytes as elements, the low bits first.", operands(BYTES, "source"), (),
        results(UNPACKED, "result"), (), (_SAME_RANK,), "$source {} : ^source -> ^result", V13_3,
    ),
)  # fmt: skip

_IDENTITIES = Attr("identities", "numbers")
_DIM = Attr("dim", "int32", least=0)

FOLDS = (
    Row(
        "reduce", 88, "A dim folded by the body from the identities.", (Operand("operands", TILE, "any"),),
        (_DIM, _IDENTITIES), (Result("results", TILE, any=True),), ("body",), (),
        "$operands {} dim = $dim identities = $identities : ^operands -> ^results @body", pure=False, label="reduce",
    ),
    Row(
        "scan", 94, "The folds of the elements up to each one along a dim, by the body from the identities.",
        (Operand("operands", TILE, "any"),), (_DIM, Attr("reverse", "bool"), _IDENTITIES),
        (Result("results", TILE, any=True),), ("body",), (),
        "$operands {} dim = $dim reverse = $reverse identities = $identities : ^operands -> ^results @body", pure=False,
    ),
)  # fmt: skip

PRODUCTS = (
    Row(
        "mmaf", 73, "Product of matrices of floats, added to an accumulator.",
        (*operands(MMAF_IN, "lhs rhs"), Operand("acc", MMAF_OUT)), (Attr("fast_acc", "flag", since=V13_3),),
        results(MMAF_OUT, "result"), (),
        (constraint("type", "acc result"), constraint("element", "lhs rhs"), constraint("rank", "lhs rhs acc")),
        "$lhs, $rhs, $acc $fast_acc {} : ^lhs, ^rhs, ^acc",
    ),
    Row(
        "mmai", 74, "Product of matrices of integers, added to an accumulator.",
        (*operands(MMAI_IN, "lhs rhs"), Operand("acc", MMAI_OUT)),
        (Attr("signedness_lhs", "enum", SIGNEDNESS), Attr("signedness_rhs", "enum", SIGNEDNESS)),
        results(MMAI_OUT, "result"), (),
        (constraint("type", "acc result"), constraint("element", "lhs rhs"), constraint("rank", "lhs rhs acc")),
        "$lhs, $rhs, $acc $signedness_lhs $signedness_rhs {} : ^lhs, ^rhs, ^acc",
    ),
    Row(
        "mmaf_scaled", 114, "Product of matrices whose blocks have scales, added to an accumulator.",
        (*operands(SCALED_IN, "lhs rhs"), Operand("acc", SCALED_OUT), *operands(SCALE, "lhs_scale rhs_scale")), (),
        results(SCALED_OUT, "result"), (),
        (
            constraint("type", "acc result"), constraint("element", "lhs rhs"),
            constraint("element", "lhs_scale rhs_scale"), constraint("rank", "lhs rhs acc lhs_scale rhs_scale"),
        ),
        "$lhs, $rhs, $acc, $lhs_scale, $rhs_scale {} : ^lhs, ^rhs, ^acc, ^lhs_scale, ^rhs_scale", V13_3,
    ),
)  # fmt: skip

LAUNCH = (
    Row(
        "get_num_tile_blocks", 46, "How many blocks the grid has along each axis.", (), (),
        results(SCALAR_I32, "gridSize_x gridSize_y gridSize_z"), (), (), "{} : ^gridSize_x", label="gridSize_x",
    ),
    Row(
        "get_tile_block_id", 48, "Which block of the grid this is.", (), (),
        results(SCALAR_I32, "blockId_x blockId_y blockId_z"), (), (), "{} : ^blockId_x", label="blockId_x",
    ),
)  # fmt: skip
