"""Rows of what is computed element by element: integers, floats, bits, comparisons and conversions."""

from __future__ import annotations

from tensorir.tile.operations.classes import (
    BASE_FLOAT,
    BOOLS,
    FLOAT,
    INT,
    INT64,
    INT_OR_I4,
    NUMBER,
    POINTER,
    TILE,
)
from tensorir.tile.operations.kinds import (
    FLUSH,
    ROUNDED,
    SIGNED,
    WRAPS,
    binary,
    constraint,
    conversion,
    operands,
    overflow,
    results,
    rounding,
    unary,
)
from tensorir.tile.operations.rows import COMPARISON, ORDERED, V13_2, V13_3, Attr, Operand, Row

__all__ = ["BITWISE", "COMPARISONS", "CONVERSIONS", "FLOATS", "INTEGERS"]

_NAN = Attr("propagate_nan", "flag")
_EITHER_ORDER = " $flush_to_zero $propagate_nan"

FLOATS = (
    unary("absf", 0, "Absolute value."),
    binary("addf", 2, "Sum, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("ceil", 13, "The least integer that is not smaller."),
    unary("cos", 18, "Cosine."),
    unary("cosh", 19, "Hyperbolic cosine."),
    binary("divf", 20, "Quotient, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("exp", 23, "Exponential.", BASE_FLOAT, (rounding("full", V13_3),)),
    unary("exp2", 24, "Power of two.", BASE_FLOAT, (FLUSH,)),
    unary("floor", 39, "The greatest integer that is not larger."),
    binary("fma", 40, "Product and sum, rounded once.", BASE_FLOAT, (ROUNDED, FLUSH), "lhs rhs acc"),
    unary("log", 63, "Natural logarithm."),
    unary("log2", 64, "Logarithm to base two."),
    binary("maxf", 69, "The larger; of a number and NaN the number.", BASE_FLOAT, (_NAN, FLUSH), syntax=_EITHER_ORDER),
    binary("minf", 71, "The smaller; of a number and NaN the number.", BASE_FLOAT, (_NAN, FLUSH), syntax=_EITHER_ORDER),
    binary("mulf", 76, "Product, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("negf", 79, "The number with the other sign."),
    binary("pow", 84, "Power.", BASE_FLOAT, names="source exponent"),
    binary("remf", 89, "Remainder of the truncated quotient, with the sign of the dividend.", BASE_FLOAT),
    unary("rsqrt", 93, "Reciprocal square root.", BASE_FLOAT, (FLUSH,)),
    unary("sin", 98, "Sine."),
    unary("sinh", 99, "Hyperbolic sine."),
    unary("sqrt", 100, "Square root, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    binary("subf", 103, "Difference, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("tan", 105, "Tangent."),
    unary("tanh", 106, "Hyperbolic tangent.", BASE_FLOAT, (rounding("full", V13_2),)),
    binary("atan2", 110, "The angle of x over y, its quadrant from both signs.", BASE_FLOAT, (), "x y", V13_2),
)

INTEGERS = (
    unary("absi", 1, "Absolute value.", INT),
    binary("addi", 3, "Sum.", INT, (WRAPS,)),
    binary("divi", 21, "Quotient.", INT, (SIGNED, rounding("zero", name="rounding")), pure=False),
    binary("maxi", 70, "The larger.", INT, (SIGNED,)),
    binary("mini", 72, "The smaller.", INT, (SIGNED,)),
    binary("mulhii", 77, "The upper half of the unsigned product.", INT, (), "x y"),
    binary("muli", 78, "Product.", INT, (WRAPS,)),
    unary("negi", 80, "The number with the other sign.", INT, (overflow(V13_2),)),
    binary("remi", 90, "Remainder of the truncated quotient, with the sign of the dividend.", INT, (SIGNED,)),
    binary("shli", 96, "Bits moved up, zeros below.", INT, (WRAPS,)),
    binary("shri", 97, "Bits moved down, zeros or the sign above.", INT, (SIGNED,)),
    binary("subi", 104, "Difference.", INT, (WRAPS,)),
)

BITWISE = (
    binary("andi", 4, "Bits of both."),
    binary("ori", 82, "Bits of either."),
    binary("xori", 108, "Bits of one of the two."),
)

COMPARISONS = (
    Row(
        "cmpf", 14, "Comparison of floats; with NaN false if ordered, true if unordered.",
        operands(BASE_FLOAT, "lhs rhs"),
        (Attr("comparison_predicate", "enum", COMPARISON), Attr("comparison_ordering", "enum", ORDERED)),
        results(BOOLS, "result"), (), (constraint("type", "lhs rhs"), constraint("shape", "lhs result")),
        "$comparison_predicate $comparison_ordering $lhs, $rhs {} : ^lhs -> ^result", elementwise=True,
    ),
    Row(
        "cmpi", 15, "Comparison of integers.", operands(INT, "lhs rhs"),
        (Attr("comparison_predicate", "enum", COMPARISON), SIGNED), results(BOOLS, "result"), (),
        (constraint("type", "lhs rhs"), constraint("shape", "lhs result")),
        "$comparison_predicate $lhs, $rhs, $signedness {} : ^lhs -> ^result", elementwise=True,
    ),
    Row(
        "select", 95, "The element of the second where the first is 1, of the third where it is 0.",
        (Operand("cond", BOOLS), *operands(TILE, "val_if_true val_if_false")), (), results(TILE, "result"), (),
        (constraint("type", "val_if_true val_if_false result"), constraint("shape", "cond result")),
        "$cond, $val_if_true, $val_if_false {} : ^cond, ^result", elementwise=True,
    ),
)  # fmt: skip

CONVERSIONS = (
    conversion("bitcast", 9, "The same bits as another type.", NUMBER, NUMBER),
    conversion("exti", 37, "The integer in more bits.", INT_OR_I4, INT_OR_I4, (SIGNED,), "from to"),
    conversion("ftof", 42, "The float in another format, rounded.", FLOAT, FLOAT, (ROUNDED,), "from to"),
    conversion(
        "ftoi", 43, "The integer part of a float.", FLOAT, INT, (SIGNED, rounding("nearest_int_to_zero")), "from to"
    ),
    conversion("int_to_ptr", 51, "The pointer with an address.", INT64, POINTER),
    conversion("itof", 59, "The integer as a float, rounded.", INT, FLOAT, (SIGNED, ROUNDED), "from to"),
    conversion("ptr_to_int", 86, "The address of a pointer.", POINTER, INT64),
    conversion("ptr_to_ptr", 87, "The same address of another type.", POINTER, POINTER),
    conversion("trunci", 107, "The low bits of an integer.", INT_OR_I4, INT_OR_I4, (WRAPS,), "from to"),
)
