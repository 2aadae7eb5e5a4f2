"""The table of builtins: name, spelling, operands, typing rule and meaning of every operation of the IR.

Parser, printer, checker, oracle, lowering and documentation read this table. A row's `form` says how a call is
written: one or two groups of slots, `pos(dim, x)` or `cartesian_shift(dim, int)(x)`. Slots that are not operands are
*static*: they are part of the node and known when it is typed. Rules are in `tensorir.typing_rules`.

>>> TABLE["plus"].glyphs, TABLE["pos"].form
(('+',), (('dim', 'x'),))
>>> print(TABLE["cartesian_shift"].doc.splitlines()[0])
The value at p + i: `cartesian_shift(d, i)(x)[p] = x[p + i]`, on the interval moved by -i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import typing_rules as rules
from tensorir.types import TensorType

__all__ = ["BY_GLYPH", "STATIC_SLOTS", "TABLE", "Builtin"]

Form = tuple[tuple[str, ...], ...]

STATIC_SLOTS = frozenset(
    ["dim", "dim?", "int", "int?", "bool", "bool?", "element", "dims", "over", "intervals", "pairs", "mode?", "string"]
)
"""Slots that hold no operand; the others are `x` (an operand), `xs` (any number) and `f` (a function)."""

# How tightly infix and prefix forms bind; a larger number binds tighter.
OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, BIT_SHIFT, SUM, PRODUCT, UNARY, POWER = range(1, 13)


@dataclass(frozen=True, slots=True)
class Builtin:
    """One row: how it is written, what it accepts and gives, what it means."""

    name: str
    doc: str
    rule: Callable[[tuple[Any, ...], Sequence[rules.Operand]], TensorType]
    form: Form
    glyphs: tuple[str, ...] = ()
    precedence: int = 0
    elementwise: bool = False
    """Each scalar of the result depends on one scalar of each operand, at the same point."""
    transcendental: bool = False
    """Costs many operations per element and is exact to a few units in the last place only."""

    @property
    def is_infix(self) -> bool:
        return bool(self.glyphs) and len(self.form[0]) == 2

    @property
    def is_prefix(self) -> bool:
        return bool(self.glyphs) and len(self.form[0]) == 1

    @property
    def static_slots(self) -> tuple[str, ...]:
        return tuple(slot for group in self.form for slot in group if slot in STATIC_SLOTS)


def _elementwise(
    name: str, doc: str, rule: Any, arity: int, *glyphs: str, precedence: int = 0, transcendental: bool = False
) -> Builtin:
    return Builtin(name, doc, rule, (("x",) * arity,), glyphs, precedence, True, transcendental)


def _math(name: str, doc: str) -> Builtin:
    return _elementwise(name, doc, rules.floats, 1, transcendental=True)


ROWS: tuple[Builtin, ...] = (
    # arithmetic
    _elementwise("plus", "Sum; integers wrap.", rules.numbers, 2, "+", precedence=SUM),
    _elementwise("minus", "Difference; integers wrap.", rules.numbers, 2, "-", precedence=SUM),
    _elementwise("multiplies", "Product; integers wrap.", rules.numbers, 2, "×", "*", precedence=PRODUCT),
    _elementwise(
        "divides",
        "Quotient; of integers rounded towards zero, x / 0 is -1 (all bits set).",
        rules.numbers,
        2,
        "/",
        precedence=PRODUCT,
    ),
    _elementwise(
        "floordiv",
        "Quotient rounded towards minus infinity; of integers by 0 it is -1 (all bits set).",
        rules.numbers,
        2,
    ),
    _elementwise(
        "mod",
        "What floordiv leaves, with the sign of the divisor; of integers by 0 it is x.",
        rules.numbers,
        2,
        "%",
        precedence=PRODUCT,
    ),
    _elementwise(
        "rem",
        "What division rounded towards zero leaves, with the sign of the dividend; of integers by 0 it is x.",
        rules.numbers,
        2,
    ),
    _elementwise("power", "x to the y, of floats.", rules.floats, 2, "**", precedence=POWER, transcendental=True),
    _elementwise("neg", "The opposite; integers wrap.", rules.numbers, 1, "-", precedence=UNARY),
    _elementwise("abs", "The magnitude; of the least integer it is itself.", rules.numbers, 1),
    _elementwise("sign", "-1, 0 or 1 by the sign; NaN of NaN, and zeros keep theirs.", rules.numbers, 1),
    _elementwise("min", "The smaller; NaN where either is.", rules.numbers, 2),
    _elementwise("max", "The larger; NaN where either is.", rules.numbers, 2),
    # logic and comparisons
    _elementwise("and", "Both.", rules.logic, 2, "∧", "and", precedence=AND),
    _elementwise("or", "Either, or both.", rules.logic, 2, "∨", "or", precedence=OR),
    _elementwise("xor", "One, and not both.", rules.logic, 2),
    _elementwise("not", "The opposite.", rules.logic, 1, "¬", "not", precedence=NOT),
    _elementwise("eq", "Equal; NaN equals nothing.", rules.equality, 2, "=", "==", precedence=COMPARE),
    _elementwise("not_eq", "Not equal.", rules.equality, 2, "≠", "!=", precedence=COMPARE),
    _elementwise("less", "Smaller.", rules.comparison, 2, "<", precedence=COMPARE),
    _elementwise("less_equal", "Smaller or equal.", rules.comparison, 2, "≤", "<=", precedence=COMPARE),
    _elementwise("greater", "Larger.", rules.comparison, 2, ">", precedence=COMPARE),
    _elementwise("greater_equal", "Larger or equal.", rules.comparison, 2, "≥", ">=", precedence=COMPARE),
    Builtin(
        "if",
        "The second operand where the first is true, the third elsewhere; absent where the condition or the selected "
        "branch is.",
        rules.selection,
        (("x", "x", "x"),),
        elementwise=True,
    ),
    # bits
    _elementwise("bit_and", "Bitwise and.", rules.integers, 2, "&", precedence=BIT_AND),
    _elementwise("bit_or", "Bitwise or.", rules.integers, 2, "|", precedence=BIT_OR),
    _elementwise("bit_xor", "Bitwise exclusive or.", rules.integers, 2, "^", precedence=BIT_XOR),
    _elementwise("bit_not", "Every bit flipped.", rules.integers, 1, "~", precedence=UNARY),
    _elementwise(
        "shift_left",
        "x × 2^y, wrapped; 0 where y is negative or not less than the width.",
        rules.integers,
        2,
        "<<",
        precedence=BIT_SHIFT,
    ),
    _elementwise(
        "shift_right",
        "x / 2^y rounded down, by copies of the sign; where y is negative or not less than the width, all bits are "
        "the sign.",
        rules.integers,
        2,
        ">>",
        precedence=BIT_SHIFT,
    ),
    _elementwise("popcount", "The number of bits that are set.", rules.integers, 1),
    _elementwise("clz", "The number of leading bits that are not set.", rules.integers, 1),
    # mathematics
    _elementwise("sqrt", "Square root, correctly rounded.", rules.floats, 1),
    _math("rsqrt", "1 / sqrt(x)."),
    _math("cbrt", "Cube root."),
    _math("exp", "e to the x."),
    _math("exp2", "2 to the x."),
    _math("expm1", "e to the x, minus 1, exact near 0."),
    _math("log", "Natural logarithm."),
    _math("log2", "Logarithm to base 2."),
    _math("log10", "Logarithm to base 10."),
    _math("log1p", "Natural logarithm of 1 + x, exact near 0."),
    *(
        _math(name, f"{text} (radians).")
        for name, text in {
            "sin": "Sine",
            "cos": "Cosine",
            "tan": "Tangent",
            "arcsin": "Arc sine",
            "arccos": "Arc cosine",
            "arctan": "Arc tangent",
        }.items()
    ),
    _elementwise("arctan2", "The angle of the point (y, x) (radians).", rules.floats, 2, transcendental=True),
    *(
        _math(name, f"{text}.")
        for name, text in {
            "sinh": "Hyperbolic sine",
            "cosh": "Hyperbolic cosine",
            "tanh": "Hyperbolic tangent",
            "arcsinh": "Inverse hyperbolic sine",
            "arccosh": "Inverse hyperbolic cosine",
            "arctanh": "Inverse hyperbolic tangent",
            "erf": "Error function",
            "erfc": "1 - erf(x), exact where erf is near 1",
            "lgamma": "Logarithm of the magnitude of the gamma function",
        }.items()
    ),
    _elementwise("floor", "The largest whole number that is not larger.", rules.floats, 1),
    _elementwise("ceil", "The smallest whole number that is not smaller.", rules.floats, 1),
    _elementwise("trunc", "Rounded towards zero.", rules.floats, 1),
    _elementwise("round", "The nearest whole number, halves to the even one.", rules.floats, 1),
    _elementwise("isfinite", "Neither infinite nor NaN.", rules.float_tests, 1),
    _elementwise("isinf", "Infinite.", rules.float_tests, 1),
    _elementwise("isnan", "Not a number.", rules.float_tests, 1),
    # element types
    Builtin(
        "cast",
        "The nearest value of another scalar type. Floats to integers: towards zero, saturating, NaN to 0; wider to "
        "narrower integers: wrapped; to bool: not zero.",
        rules.cast,
        (("x", "element"),),
        elementwise=True,
    ),
    Builtin(
        "bitcast",
        "The same bits as another scalar type of the same width.",
        rules.bitcast,
        (("x", "element"),),
        elementwise=True,
    ),
    # tuples
    Builtin("make_tuple", "A tensor of tuples, on the common dims of its members.", rules.make_tuple, (("xs",),)),
    Builtin("tuple_get", "Member i, counted from 0, of every tuple.", rules.tuple_get, (("x", "int"),)),
    # shifts
    Builtin(
        "cartesian_shift",
        "The value at p + i: `cartesian_shift(d, i)(x)[p] = x[p + i]`, on the interval moved by -i.\n"
        "Along a dim that x lacks it is the identity, and no node is made.",
        rules.cartesian_shift,
        (("dim", "int"), ("x",)),
    ),
    Builtin(
        "shift_init",
        "The values at all neighbours: `shift_init(t)(x)[d, _NB_k: j] = x[src: t[d, j]]`, absent where t is -1.\n"
        "The new dim `_NB_k` is one above the highest counter of the operand.",
        rules.shift_init,
        (("x",), ("x",)),
    ),
    Builtin(
        "shift_apply",
        "Neighbour j along the neighbour dim with the highest counter, which goes away.",
        rules.shift_apply,
        (("int",), ("x",)),
    ),
    Builtin(
        "unstructured_shift",
        "The value at neighbour j: `shift_apply(j)(shift_init(t)(x))`.",
        rules.unstructured_shift,
        (("x", "int"), ("x",)),
    ),
    Builtin(
        "can_deref",
        "False where a table held -1 on the way to an element; never absent itself.",
        rules.can_deref,
        (("x",),),
    ),
    # folds
    Builtin(
        "reduce",
        "Left fold in ascending order from init over the highest neighbour dim, or a named one.\n"
        "A slot is skipped where any argument that has the dim is absent in it; all skipped gives init.",
        rules.reduce,
        (("f", "x", "dim?"), ("xs",)),
    ),
    Builtin(
        "scan",
        "The states of a recurrence along a dim, each after its level: forward (true) or backward (false) from init.",
        rules.scan,
        (("f", "bool", "x", "dim?"), ("xs",)),
    ),
    # domains
    Builtin("subset", "The part of a tensor on given intervals.", rules.subset, (("x", "intervals"),)),
    Builtin("concat", "Tensors on adjacent intervals of one dim, as one.", rules.concat, (("xs",),)),
    Builtin("pos", "The coordinate along a dim of a tensor, as int32 on that dim alone.", rules.pos, (("dim", "x"),)),
    Builtin("add_dim", "The same value at every point of a new dim.", rules.add_dim, (("dim", "int", "int", "x"),)),
    Builtin(
        "update", "The first operand with the second put onto the second's intervals.", rules.update, (("x", "x"),)
    ),
    Builtin(
        "rename",
        "The same tensor under other names of its dims, all renamed at once.",
        rules.rename,
        (("pairs",), ("x",)),
    ),
    Builtin(
        "split_dim",
        "A dim as two: `split_dim(d, outer, inner, n)(x)[outer: a, inner: b] = x[d: a × n + b]`.\n"
        "The interval must start and stop at multiples of n.",
        rules.split_dim,
        (("dim", "dim", "dim", "int"), ("x",)),
    ),
    Builtin(
        "merge_dims",
        "Two dims as one: `merge_dims(outer, inner, d)(x)[d: a × n + b] = x[outer: a, inner: b]`, for inner [0:n].",
        rules.merge_dims,
        (("dim", "dim", "dim"), ("x",)),
    ),
    # indirect access
    Builtin(
        "gather",
        "Indirect read: `gather(d, e)(x, i, j)[p] = x[d: i[p], e: j[p]]`, at p along the other dims of x.\n"
        "Indices outside of x: `checked` (an error, the default), `clamp` (the nearest) or `zero` (zero, or false).",
        rules.gather,
        (("dims", "mode?"), ("x", "xs")),
    ),
    Builtin(
        "scatter",
        "Indirect write: `scatter(f, d, e, over: (p, q))(base, i, j, u)` puts f(old, u) at [d: i, e: j] of base.\n"
        "Updates run over the dims p, q in ascending order, p slowest; other dims of the updates are those of base.\n"
        "Indices outside of base: `checked` (an error, the default), `clamp`, or `zero` (the update is dropped).",
        rules.scatter,
        (("f", "dims", "over", "mode?"), ("x", "xs")),
    ),
    # control
    Builtin(
        "loop",
        "Carried tensor k after a loop: `loop(k, limit)(condition, step, a, b, ...)`.\n"
        "While condition(i, a, b, ...) holds, and i < limit if there is one, a, b, ... become the results of "
        "step(i, a, b, ...), i counting from 0.",
        rules.loop,
        (("int", "int?"), ("xs",)),
    ),
    Builtin(
        "sort",
        "Operands sorted together along a dim, by the first `keys` of them: ascending (or descending), stable, NaN "
        "last.\nSeveral operands give a tuple.",
        rules.sort,
        (("dim", "int", "bool?"), ("xs",)),
    ),
    # effects
    Builtin(
        "assert_",
        "The first operand; an error with the text where the second is false anywhere.",
        rules.assert_,
        (("x", "x", "string"),),
    ),
    Builtin(
        "print",
        "The first operand; all of them are shown, in one line, each time it is computed.\n"
        'The text has a place for each, "sum {} of {}", or is a label before them.\n'
        "Lines come in the order in which the text first mentions what they show, an operand's before its reader's.",
        rules.print_,
        (("string",), ("xs",)),
    ),
)

TABLE: dict[str, Builtin] = {row.name: row for row in ROWS}

BY_GLYPH: dict[tuple[str, int], Builtin] = {(glyph, len(row.form[0])): row for row in ROWS for glyph in row.glyphs}
"""The row of an infix (2) or prefix (1) glyph."""
