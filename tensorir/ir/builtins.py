"""The table of builtins: name, spelling, operands, typing rule and meaning of every operation of the IR.

Parser, printer, checker, oracle, lowering and documentation read this table. A row's `form` says how a call is
written: one or two groups of slots, `pos(dim, x)` or `cartesian_shift(dim, int)(x)`. Slots that are not operands are
*static*: they are part of the node and known when it is typed. Rules are in `tensorir.ir.typing_rules`.

>>> TABLE["plus"].glyphs, TABLE["pos"].form
(('+',), (('dim', 'x'),))
>>> print(TABLE["cartesian_shift"].doc.splitlines()[0])
The value at p + i: `cartesian_shift(d, i)(x)[p] = x[p + i]`, on the interval moved by -i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tensorir.ir import access
from tensorir.ir import static_parameters as records
from tensorir.ir import typing_rules as rules
from tensorir.ir.types import Scalar, TensorType

Form = tuple[tuple[str, ...], ...]

STATIC_SLOTS = frozenset(
    ["dim", "dim?", "int", "int?", "bool", "bool?", "element", "dims", "over", "intervals", "pairs", "mode?", "string"]
)
"""Slots that hold no operand; the others are `x` (an operand), `xs` (any number) and `f` (a function)."""

# How tightly infix and prefix forms bind; a larger number binds tighter.
OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, BIT_SHIFT, SUM, PRODUCT, UNARY, POWER = range(1, 13)


class Control(Enum):
    """The ways in which a call applies functions among its operands."""

    FOLD = "fold"
    """f(carry, x, ...) level by level along a dim, from an initial carry."""
    LOOP = "loop"
    """step(i, carried...) while condition(i, carried...) holds."""
    BRANCHES = "branches"
    """One of two functions, by a condition."""
    BLOCKS = "blocks"
    """A function of its operands, for some of their points at a time."""
    UPDATES = "updates"
    """f(old, update) at each element that an update is for."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """One row of the table of builtins: its notation, typing rule, and properties that passes and lowering read."""

    name: str
    doc: str
    rule: Callable[[tuple[Any, ...], Sequence[rules.Operand]], TensorType]
    form: Form
    static: type[tuple[Any, ...]] = tuple
    """The record of its static parameters, in the order of the form."""
    glyphs: tuple[str, ...] = ()
    precedence: int = 0
    elementwise: bool = False
    """Each scalar of the result depends on one scalar of each operand, at the same point."""
    transcendental: bool = False
    """Exact to a few units in the last place only."""
    of_angle: bool = False
    """Its operand is an angle in radians."""
    cost: int = 0
    """How many additions an element takes as long as; moves cost none, and folds what their functions do."""
    moved: slice | None = None
    """The operands whose elements the result consists of, where it only moves elements; None where it computes."""
    indirect: bool = False
    """Which elements are read or written is data."""
    chooses: bool = False
    """Which operand has a part in an element of the result is data."""
    effect: bool = False
    """Does something besides giving a value: neither dropped, nor done twice, nor done where it was not asked for."""
    checks: bool = False
    """May find at run time that the program is wrong."""
    defined: bool = False
    """Has a meaning in terms of other builtins (`tensorir.ir.build`), which whatever knows no better goes by."""
    endless: bool = False
    """May not come to an end."""
    commutative: bool = False
    """Operands may change places."""
    associative: bool = False
    """Operands may be grouped in any way: exactly for integers and choices, up to rounding for sums and products."""
    idempotent: bool = False
    """x with x is x."""
    identity: Callable[[Scalar], Any] | None = None
    """The element that leaves the other operand as it is, by element type."""
    linear: tuple[tuple[int, ...], ...] = ()
    """Groups of operands in which it is linear together, the others held: `((0, 1),)` of a sum, `((0,), (1,))` of a
    product."""
    homogeneous: bool = False
    """Operands of one unit give a result of that unit: scaling all of them by a positive number scales the result."""
    slope: str = "unbounded"
    """The derivative: "zero" almost everywhere, "bounded" whatever the operands are, infinities and NaN among them, or
    "unbounded"."""
    discontinuous: bool = False
    """A number that jumps where an operand changes in its last bit."""
    reads: access.AccessRule | None = None
    """The access maps of operands; None where they are those of the definition, or of any number of rounds."""
    control: Control | None = None
    """The way in which functions among the operands are applied."""
    states: bool = False
    """A fold whose result has the carry after each level, not after the last alone."""
    skips: bool = False
    """A fold that passes over levels at which an operand is absent."""
    stored: bool = False
    """Its result is in memory, as the lowering leaves it."""
    dimensionless: bool = False
    """Operands of one unit give what has none."""
    table: bool = False
    """The first operand is a neighbour table, at whose entries the second is read."""
    relocates: bool = False
    """The element at a point is that of one operand, at the point that its access map leads to: what it means."""
    placed: access.Placement | None = None
    """The static parameters of the same call for other points of its result, where they name such."""

    def __post_init__(self) -> None:
        """Defaults the access map of elementwise builtins, and checks that others say which points they read."""
        if self.elementwise and self.reads is None:
            object.__setattr__(self, "reads", access.same_point)
        if self.reads is None and not self.defined and self.control is None:
            raise TypeError(f"{self.name}: a row says which points are read (reads=), or how functions are (control=).")

    @property
    def moves(self) -> bool:
        """True if nothing is computed: each element of the result is one of an operand, or absent."""
        return self.moved is not None

    @property
    def apart(self) -> bool:
        """True if operands are in memory, as the result is."""
        return self.stored and not self.moves

    def static_of(self, values: Iterable[Any]) -> Any:
        """The record of static parameters in the order of the form.

        >>> TABLE["cartesian_shift"].static_of(("I", 1))
        Shift(dim='I', offset=1)
        """
        return self.static(*values) if self.static is not tuple else tuple(values)

    @property
    def is_infix(self) -> bool:
        return bool(self.glyphs) and len(self.form[0]) == 2

    @property
    def is_prefix(self) -> bool:
        return bool(self.glyphs) and len(self.form[0]) == 1

    @property
    def static_slots(self) -> tuple[str, ...]:
        return tuple(slot for group in self.form for slot in group if slot in STATIC_SLOTS)


LAST, FIRST, ALL = slice(-1, None), slice(0, 1), slice(None)
"""Operands by where they stand."""
TRANSCENDENTAL, QUOTIENT = 32, 4
"""What a function of several instructions, and what a division costs (`tests.benchmarks.stored`)."""


def _elementwise(name: str, doc: str, rule: Any, arity: int, *glyphs: str, cost: int = 1, **facts: Any) -> Builtin:
    return Builtin(name, doc, rule, (("x",) * arity,), glyphs=glyphs, elementwise=True, cost=cost, **facts)


def _math(name: str, doc: str, arity: int = 1, *glyphs: str, **facts: Any) -> Builtin:
    return _elementwise(name, doc, rules.floats, arity, *glyphs, cost=TRANSCENDENTAL, transcendental=True, **facts)


def _comparison(name: str, doc: str, *glyphs: str, symmetric: bool = False) -> Builtin:
    """A row for a comparison; `symmetric` ones (= and ≠) accept all element types, others numbers."""
    rule = rules.equality if symmetric else rules.comparison
    return _elementwise(
        name, doc, rule, 2, *glyphs, precedence=COMPARE, commutative=symmetric, slope="zero", dimensionless=True
    )


def _whole(name: str, doc: str) -> Builtin:
    return _elementwise(name, doc, rules.floats, 1, slope="zero", discontinuous=True)


def _monoid(name: str, doc: str, rule: Any, identity: Callable[[Scalar], Any], *glyphs: str, **facts: Any) -> Builtin:
    """An operation that may be folded in any order."""
    return _elementwise(name, doc, rule, 2, *glyphs, commutative=True, associative=True, identity=identity, **facts)


def _move(name: str, doc: str, rule: Any, form: Form, moved: slice = LAST, **facts: Any) -> Builtin:
    return Builtin(name, doc, rule, form, moved=moved, homogeneous=True, slope="bounded", **facts)


def _relocation(name: str, doc: str, rule: Any, form: Form, moved: slice = LAST, **facts: Any) -> Builtin:
    """A move that its access maps say all of."""
    return _move(name, doc, rule, form, moved, relocates=True, **facts)


def _least(element: Scalar) -> Any:
    return -math.inf if element.is_float else element.range.start


def _greatest(element: Scalar) -> Any:
    return math.inf if element.is_float else element.range.stop - 1


def _ones(element: Scalar) -> Any:
    return -1 if element.kind == "int" else element.range.stop - 1


# fmt: off
ROWS: tuple[Builtin, ...] = (
    # arithmetic
    _monoid("plus", "Sum; integers wrap.", rules.numbers, lambda e: 0, "+", precedence=SUM, linear=((0, 1),),
        homogeneous=True, slope="bounded"),
    _elementwise("minus", "Difference; integers wrap.", rules.numbers, 2, "-", precedence=SUM, linear=((0, 1),),
        homogeneous=True, slope="bounded"),
    _monoid("multiplies", "Product; integers wrap.", rules.numbers, lambda e: 1, "×", "*", precedence=PRODUCT,
        linear=((0,), (1,))),
    _elementwise("divides", "Quotient; of integers rounded towards zero, x / 0 is -1 (all bits set).", rules.numbers, 2,
        "/", precedence=PRODUCT, cost=QUOTIENT, linear=((0,),)),
    _elementwise("floordiv", "Quotient rounded towards minus infinity; of integers by 0 it is -1 (all bits set).",
        rules.numbers, 2, cost=QUOTIENT, slope="zero", discontinuous=True),
    _elementwise("mod", "What floordiv leaves, with the sign of the divisor; of integers by 0 it is x.", rules.numbers,
        2, "%", precedence=PRODUCT, cost=QUOTIENT, discontinuous=True),
    _elementwise("rem",
        "What division rounded towards zero leaves, with the sign of the dividend; of integers by 0 it is x.",
        rules.numbers, 2, cost=QUOTIENT, discontinuous=True),
    _math("power", "x to the y, of floats.", 2, "**", precedence=POWER),
    _elementwise("neg", "The opposite; integers wrap.", rules.numbers, 1, "-", precedence=UNARY, linear=((0,),),
        homogeneous=True, slope="bounded"),
    _elementwise("abs", "The magnitude; of the least integer it is itself.", rules.numbers, 1, homogeneous=True),
    _elementwise("sign", "-1, 0 or 1 by the sign; NaN of NaN, and zeros keep theirs.", rules.numbers, 1, slope="zero"),
    _monoid("min", "The smaller; NaN where either is.", rules.numbers, _greatest, idempotent=True, chooses=True,
        homogeneous=True, slope="bounded"),
    _monoid("max", "The larger; NaN where either is.", rules.numbers, _least, idempotent=True, chooses=True,
        homogeneous=True, slope="bounded"),
    # logic and comparisons
    _monoid("and", "Both.", rules.logic, lambda e: True, "∧", "and", precedence=AND, idempotent=True, slope="zero"),
    _monoid("or", "Either, or both.", rules.logic, lambda e: False, "∨", "or", precedence=OR, idempotent=True,
        slope="zero"),
    _monoid("xor", "One, and not both.", rules.logic, lambda e: False, slope="zero"),
    _elementwise("not", "The opposite.", rules.logic, 1, "¬", "not", precedence=NOT, slope="zero"),
    _comparison("eq", "Equal; NaN equals nothing.", "=", "==", symmetric=True),
    _comparison("not_eq", "Not equal.", "≠", "!=", symmetric=True),
    _comparison("less", "Smaller.", "<"),
    _comparison("less_equal", "Smaller or equal.", "≤", "<="),
    _comparison("greater", "Larger.", ">"),
    _comparison("greater_equal", "Larger or equal.", "≥", ">="),
    Builtin("if",
        "The second operand where the first is true, the third elsewhere; absent where the condition or the selected "
        "branch is.", rules.selection, (("x", "x", "x"),), elementwise=True, cost=1, chooses=True, linear=((1, 2),),
        homogeneous=True, slope="bounded"),
    # bits
    _monoid("bit_and", "Bitwise and.", rules.integers, _ones, "&", precedence=BIT_AND, idempotent=True),
    _monoid("bit_or", "Bitwise or.", rules.integers, lambda e: 0, "|", precedence=BIT_OR, idempotent=True),
    _monoid("bit_xor", "Bitwise exclusive or.", rules.integers, lambda e: 0, "^", precedence=BIT_XOR),
    _elementwise("bit_not", "Every bit flipped.", rules.integers, 1, "~", precedence=UNARY),
    _elementwise("shift_left", "x × 2^y, wrapped; 0 where y is negative or not less than the width.", rules.integers, 2,
        "<<", precedence=BIT_SHIFT),
    _elementwise("shift_right",
        "x / 2^y rounded down, by copies of the sign; where y is negative or not less than the width, all bits are "
        "the sign.", rules.integers, 2, ">>", precedence=BIT_SHIFT),
    _elementwise("popcount", "The number of bits that are set.", rules.integers, 1),
    _elementwise("clz", "The number of leading bits that are not set.", rules.integers, 1),
    # mathematics
    _elementwise("sqrt", "Square root, correctly rounded.", rules.floats, 1, cost=QUOTIENT),
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
        _math(name, f"{text} (radians).", of_angle=True)
        for name, text in {"sin": "Sine", "cos": "Cosine", "tan": "Tangent"}.items()
    ),
    *(
        _math(name, f"{text} (radians).")
        for name, text in {
            "arcsin": "Arc sine",
            "arccos": "Arc cosine",
            "arctan": "Arc tangent",
        }.items()
    ),
    _math("arctan2", "The angle of the point (y, x) (radians).", 2, dimensionless=True),
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
    _whole("floor", "The largest whole number that is not larger."),
    _whole("ceil", "The smallest whole number that is not smaller."),
    _whole("trunc", "Rounded towards zero."),
    _whole("round", "The nearest whole number, halves to the even one."),
    _elementwise("isfinite", "Neither infinite nor NaN.", rules.float_tests, 1, slope="zero"),
    _elementwise("isinf", "Infinite.", rules.float_tests, 1, slope="zero"),
    _elementwise("isnan", "Not a number.", rules.float_tests, 1, slope="zero"),
    # element types
    Builtin("cast",
        "The nearest value of another scalar type. Floats to integers: towards zero, saturating, NaN to 0; wider to "
        "narrower integers: wrapped; to bool: not zero.", rules.cast, (("x", "element"),), elementwise=True, cost=1,
        slope="bounded", static=records.Convert),
    Builtin("bitcast", "The same bits as another scalar type of the same width.", rules.bitcast, (("x", "element"),),
        elementwise=True, cost=1, static=records.Convert),
    # tuples
    _move("make_tuple", "A tensor of tuples, on the common dims of its members.", rules.make_tuple, (("xs",),), ALL,
        reads=access.same_point),
    _move("tuple_get", "Member i, counted from 0, of every tuple.", rules.tuple_get, (("x", "int"),),
        static=records.Member, reads=access.same_point),
    # shifts
    _relocation("cartesian_shift",
        "The value at p + i: `cartesian_shift(d, i)(x)[p] = x[p + i]`, on the interval moved by -i.\n"
        "Along a dim that x lacks it is the identity, and no node is made.", rules.cartesian_shift,
        (("dim", "int"), ("x",)), static=records.Shift, reads=access.by_offset),
    _move("shift_init",
        "The values at all neighbours: `shift_init(t)(x)[d, _NB_k: j] = x[src: t[d, j]]`, absent where t is -1.\n"
        "The new dim `_NB_k` is one above the highest counter of the operand.", rules.shift_init, (("x",), ("x",)),
        indirect=True, reads=access.at_neighbours, table=True),
    _relocation("shift_apply", "Neighbour j along the neighbour dim with the highest counter, which goes away.",
        rules.shift_apply, (("int",), ("x",)), static=records.Slot, reads=access.at_slot),
    _move("unstructured_shift", "The value at neighbour j: `shift_apply(j)(shift_init(t)(x))`.",
        rules.unstructured_shift, (("x", "int"), ("x",)), indirect=True, static=records.Slot, reads=access.at_neighbour,
        table=True),
    Builtin("can_deref", "False where a table held -1 on the way to an element; never absent itself.", rules.can_deref,
        (("x",),), slope="zero", reads=access.same_point),
    # folds
    Builtin("reduce", "Left fold in ascending order from init over the highest neighbour dim, or a named one.\n"
        "A slot is skipped where any argument that has the dim is absent in it; all skipped gives init.", rules.reduce,
        (("f", "x", "dim?"), ("xs",)), static=records.Fold, reads=access.along_row, control=Control.FOLD, skips=True),
    Builtin("scan",
        "The states of a recurrence along a dim, each after its level: forward (true) or backward (false) from init.",
        rules.scan, (("f", "bool", "x", "dim?"), ("xs",)), static=records.Scan, reads=access.along_row,
        control=Control.FOLD, states=True, stored=True),
    Builtin("contract",
        "The sum over named dims of the products of two tensors, which are converted to an element type first: a "
        "product of matrices, a scalar product.\nDims of both that are not summed over stay, as those of either.",
        rules.contract, (("element", "dims"), ("x", "x")), linear=((0,), (1,)), defined=True, static=records.Contract,
        reads=access.along_row, stored=True),
    Builtin("argreduce", "The largest (true) or smallest (false) element of `x` along a dim, and its `index`: "
        "`argreduce(d, largest, ties, replaced)(value, i, x, index)` folds the pairs from (value, i).\n"
        "Of equal elements the old or the new one stays, or that of the least or the greatest index. A NaN is passed "
        "over, or, if NaNs are replaced, replaces what was found and is replaced by what follows.", rules.argreduce,
        (("dim", "bool", "string", "bool"), ("x", "x", "x", "x")), chooses=True, defined=True, static=records.ArgReduce,
        reads=access.along_row, stored=True),
    # domains
    _relocation("subset", "The part of a tensor on given intervals.", rules.subset, (("x", "intervals"),),
        static=records.Subset, placed=access.cut_to, reads=access.same_point),
    _relocation("concat", "Tensors on adjacent intervals of one dim, as one.", rules.concat, (("xs",),), ALL,
        reads=access.in_parts),
    Builtin("pos", "The coordinate along a dim of a tensor, as int32 on that dim alone.", rules.pos, (("dim", "x"),),
        slope="zero", static=records.Axis, reads=access.no_point),
    _relocation("add_dim", "The same value at every point of a new dim.", rules.add_dim, (("dim", "int", "int", "x"),),
        static=records.Expand, placed=access.spread_over, reads=access.same_point),
    _relocation("update", "The first operand with the second put onto the second's intervals.", rules.update,
        (("x", "x"),), ALL, reads=access.over_first),
    _relocation("rename", "The same tensor under other names of its dims, all renamed at once.", rules.rename,
        (("pairs",), ("x",)), static=records.Rename, reads=access.by_name),
    _relocation("split_dim", "A dim as two: `split_dim(d, outer, inner, n)(x)[outer: a, inner: b] = x[d: a × n + b]`.\n"
        "The interval must start and stop at multiples of n.", rules.split_dim, (("dim", "dim", "dim", "int"), ("x",)),
        static=records.Split, reads=access.from_pairs),
    _relocation("merge_dims",
        "Two dims as one: `merge_dims(outer, inner, d)(x)[d: a × n + b] = x[outer: a, inner: b]`, for inner [0:n].",
        rules.merge_dims, (("dim", "dim", "dim"), ("x",)), static=records.Merge, reads=access.to_pairs),
    # indirect access
    _move("gather", "Indirect read: `gather(d, e)(x, i, j)[p] = x[d: i[p], e: j[p]]`, at p along the other dims of x.\n"
        "Indices outside of x: `checked` (an error, the default), `clamp` (the nearest) or `zero` (zero, or false).",
        rules.gather, (("dims", "mode?"), ("x", "xs")), FIRST, indirect=True, checks=True, static=records.Gather,
        reads=access.at_indices),
    Builtin("scatter",
        "Indirect write: `scatter(f, d, e, over: (p, q))(base, i, j, u)` puts f(old, u) at [d: i, e: j] of base.\n"
        "Updates run over the dims p, q in ascending order, p slowest; other dims of the updates are those of base.\n"
        "Indices outside of base: `checked` (an error, the default), `clamp`, or `zero` (the update is dropped).",
        rules.scatter, (("f", "dims", "over", "mode?"), ("x", "xs")), indirect=True, checks=True,
        static=records.Scatter, control=Control.UPDATES, stored=True),
    # control
    Builtin("loop", "Carried tensor k after a loop: `loop(k, limit)(condition, step, a, b, ...)`.\n"
        "While condition(i, a, b, ...) holds, and i < limit if there is one, a, b, ... become the results of "
        "step(i, a, b, ...), i counting from 0.", rules.loop, (("int", "int?"), ("xs",)), endless=True, chooses=True,
        static=records.Loop, control=Control.LOOP, stored=True),
    Builtin("cond",
        "Result k of one of two functions: `cond(k)(f, g, c, x, ...)` is result k of f(x, ...) where c, one truth "
        "value, holds, and of g(x, ...) elsewhere.\n"
        "The function that is not taken is not computed: it checks and prints nothing. In `cond(k, true)(...)` both "
        "may be computed, and what they check counts where they are taken.", rules.cond, (("int", "bool?"), ("xs",)),
        chooses=True, static=records.Cond, reads=access.same_point, control=Control.BRANCHES, stored=True),
    Builtin("sort",
        "Operands sorted together along a dim, by the first `keys` of them: ascending (or descending), stable, NaN "
        "last.\nSeveral operands give a tuple.", rules.sort, (("dim", "int", "bool?"), ("xs",)), static=records.Sort,
        reads=access.along_row, stored=True),
    Builtin("top_k",
        "The first points of operands sorted together along a dim: as many as asked for of what `sort` gives.",
        rules.top_k, (("dim", "int", "int", "bool?"), ("xs",)), defined=True, static=records.TopK,
        reads=access.along_row, stored=True),
    Builtin("blocked",
        "Result k of a function, block by block along dims: `blocked(k, n, d, ...)(f, x, ...)` is result k of "
        "f(x, ...).\n"
        "Where each point of the results along d, ... depends on the operands at that point alone, a backend may "
        "compute n points at a time, so that what the function stores stays in the cache; all results at once.",
        rules.blocked, (("int", "int", "dims"), ("xs",)), static=records.Blocked, control=Control.BLOCKS, stored=True),
    _relocation("materialise",
        "The operand, kept in memory: what reads it at several offsets does not compute it again.", rules.materialise,
        (("x",),), reads=access.same_point, stored=True),
    # effects
    Builtin("assert_", "The first operand; an error with the text where the second is false anywhere.", rules.assert_,
        (("x", "x", "string"),), moved=FIRST, effect=True, checks=True, slope="bounded", static=records.Message,
        reads=access.first_and_all),
    Builtin("print", "The first operand; all of them are shown, in one line, each time it is computed.\n"
        'The text has a place for each, "sum {} of {}", or is a label before them.\n'
        "Lines come in the order in which the text first mentions what they show, an operand's before its reader's.",
        rules.print_, (("string",), ("xs",)), moved=FIRST, effect=True, slope="bounded", static=records.Message,
        reads=access.all_points),
)
# fmt: on

TABLE: dict[str, Builtin] = {row.name: row for row in ROWS}

BY_GLYPH: dict[tuple[str, int], Builtin] = {(glyph, len(row.form[0])): row for row in ROWS for glyph in row.glyphs}
"""The row of an infix (2) or prefix (1) glyph."""
