"""Rules that make programs shorter: identities and constants."""

import math
import operator
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Call, Literal
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import BOOL, FLOAT64, SCALARS, tensor
from tensorir.passes import FoldConstants, PropagateConditions, Simplify
from tensorir.passes.base import shown
from tensorir.passes.simplify import RULES, Cse
from tensorir.text import parse

# One row per rule


FLOATS = {"x": {"I": (0, 6)}, "y": {"I": (0, 6)}}
KINDS = {
    "n": tensor("int", I=(0, 6)),
    "f": tensor("float32", I=(0, 6)),
    "c": tensor("bool", I=(0, 6)),
    "t": tensor("int"),
    "p": tensor("float"),
}
ROWS = [
    ("times_one", "1.0 × x", "x"),
    ("times_minus_one", "x × -1.0", "-x"),
    ("times_negatives", "-x × -y", "x × y"),
    ("by_one", "x / 1.0", "x"),
    ("by_power_of_two", "x / 4.0", "x × 0.25"),
    ("plus_zero", "x + -0.0", "x"),
    ("plus_zero", "n + 0", "n"),
    ("minus_zero", "x - 0.0", "x"),
    ("plus_negative", "x + -y", "x - y"),
    ("minus_negative", "x - -y", "x + y"),
    ("twice", "¬¬c", "c"),
    ("again", "abs(abs(x))", "abs(x)"),
    ("rounded_before", "floor(round(x))", "round(x)"),
    ("abs_of_negative", "abs(-x)", "abs(x)"),
    ("both_the_same", "max(x, x)", "x"),
    ("shifted_by_zero", "n << 0", "n"),
    ("neutral_truth", "c ∧ true", "c"),
    ("neutral_truth", "false ∨ c", "c"),
    ("known_choice", "if true then x else y", "x"),
    ("choice_by_not", "if ¬c then x else y", "if c then y else x"),
    ("whole_operand", "cast(x, float)", "x"),
    ("cast_there_and_back", "cast(cast(f, float64), float32)", "f"),
    ("member_of_made", "(x, y)[1]", "y"),
    ("made_of_members", "let a = (x, -y); (a[0], a[1])", "(x, -y)"),
    ("subset_of_subset", "subset(subset(x, I[1:5]), I[2:4])", "subset(x, I[2:4])"),
    ("whole_operand", "subset(x, I[0:6])", "x"),
    ("subset_of_added", "subset(add_dim(J, 0, 5, x), J[1:3])", "add_dim(J, 1, 3, x)"),
    ("shift_of_added", "cartesian_shift(J, 1)(add_dim(J, 0, 5, x))", "add_dim(J, -1, 4, x)"),
    ("concat_of_parts", "concat(subset(x, I[0:2]), subset(x, I[2:5]))", "subset(x, I[0:5])"),
    ("rename_to_itself", "rename(I → I)(x)", "x"),
    ("rename_of_rename", "rename(J → I)(rename(I → J)(x))", "x"),
    ("merge_of_split", "merge_dims(A, B, I)(split_dim(I, A, B, 2)(x))", "x"),
    (
        "split_of_merged",
        "split_dim(I, A, B, 3)(merge_dims(A, B, I)(split_dim(I, A, B, 3)(x)))",
        "split_dim(I, A, B, 3)(x)",
    ),
    ("update_of_all", "update(x, y)", "y"),
    ("update_of_all", "update(add_dim(J, 0, 2, x), y)", "add_dim(J, 0, 2, y)"),
    ("update_of_nothing", "update(x, subset(y, I[2:2]))", "x"),
]
LEFT_ALONE = ["x + 0.0", "x - -0.0", "x × 0.0", "x - x", "x / x", "x / 3.0", "x / 0.0", "0.0 - x", "x × 2.0"]


@pytest.mark.parametrize(("rule", "before", "after"), ROWS)
def test_a_rule_makes_of_the_one_the_other(rule, before, after):
    assert shown(Simplify(), before, **FLOATS, **KINDS) == after


def test_every_rule_has_a_row():
    assert {rule.__name__ for rules in RULES.values() for rule in rules} - {name for name, *_ in ROWS} == set()


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_not_exact_for_every_float_stays(text):
    assert shown(Simplify(), text, **FLOATS) == text


# `fold_constants` beside arithmetic of Python's own

INTEGERS = [s for s in SCALARS.values() if s.is_integer]
CONSTANTS = [0.1, 1.0, -2.5, 3.0, 1e16, 1e-3, 7.25, -1e300, 1 / 3]
RNG = random.Random(0)


def folded(op, *operands, static=()):
    found = FoldConstants().rule(call(op, *operands, static=static))
    assert isinstance(found, Literal)
    return found


def wrapped(value, kind):
    """The integer of so many bits with the same last bits."""
    bits = value & (2**kind.bits - 1)
    return bits - 2**kind.bits if kind.name.startswith("int") and bits >> (kind.bits - 1) else bits


def quotient(x, y):
    """Towards zero."""
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


OF_INTEGERS = {
    "plus": operator.add,
    "minus": operator.sub,
    "multiplies": operator.mul,
    "divides": quotient,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "rem": lambda x, y: x - y * quotient(x, y),
    "min": min,
    "max": max,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
}


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize("op", OF_INTEGERS)
def test_integers_are_those_of_python_and_wrap(op, kind):
    ends = [kind.range.start, kind.range.stop - 1, 1, 2, 3, 100]
    for _ in range(50):
        x, y = (RNG.choice([*ends, RNG.randrange(kind.range.start, kind.range.stop)]) for _ in range(2))
        if y != 0 or op not in ("divides", "floordiv", "mod", "rem"):
            found = folded(op, literal(x, kind), literal(y, kind))
            assert (found.value, found.element) == (wrapped(OF_INTEGERS[op](x, y), kind), kind), (x, y)


def rounded(exact):
    """The nearest float64 of a fraction, infinite where it is too large."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


OF_FRACTIONS = {
    "plus": operator.add,
    "minus": operator.sub,
    "multiplies": operator.mul,
    "divides": operator.truediv,
    "floordiv": lambda x, y: Fraction(math.floor(x / y)),
    "min": min,
    "max": max,
}
COMPARISONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "eq": operator.eq,
    "not_eq": operator.ne,
}


@pytest.mark.parametrize("op", OF_FRACTIONS)
def test_floats_are_fractions_rounded_once(op):
    for x in CONSTANTS:
        for y in CONSTANTS:
            exact = OF_FRACTIONS[op](Fraction(x), Fraction(y))
            assert folded(op, literal(x), literal(y)).value == rounded(exact), (x, y)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_are_those_of_fractions(op):
    for x in CONSTANTS:
        for y in CONSTANTS:
            found = folded(op, literal(x), literal(y))
            assert (found.value, found.element) == (COMPARISONS[op](Fraction(x), Fraction(y)), BOOL), (x, y)


@pytest.mark.parametrize(
    ("op", "function"), [("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round)]
)
def test_whole_numbers_are_those_of_fractions(op, function):
    for x in [*CONSTANTS, 0.5, 1.5, 2.5, -0.75]:
        assert folded(op, literal(x)).value == function(Fraction(x)), x


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_casts_of_floats_go_towards_zero_and_saturate(kind):
    for x in CONSTANTS:
        want = min(max(math.trunc(Fraction(x)), kind.range.start), kind.range.stop - 1)
        assert folded("cast", literal(x, FLOAT64), static=(kind,)).value == want, x


def test_a_choice_between_literals_is_the_one_that_its_condition_says():
    assert folded("if", literal(True), literal(1.5), literal(2.5)).value == 1.5
    assert folded("if", literal(False), literal(1.5), literal(2.5)).value == 2.5


# What a condition says is known where it holds, and nowhere else

HEAD = "f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, n: tensor<int>, out: tensor<float, I[0:5]>)"
KNOWN = {
    "if y > 0.0 then (if y > 0.0 then y else 1.0) + 2.0 else y": "if y > 0.0 then y + 2.0 else y",
    "if y > 0.0 ∧ n > 2 then (if n > 2 then y else 1.0) else y": "if y > 0.0 ∧ n > 2 then y else y",
    "if ¬y > 0.0 then (if y > 0.0 then 1.0 else y × y) else y": "if ¬y > 0.0 then y × y else y",
    "if n > 2 then log(if n > 2 then y else 1.0) else y": "if n > 2 then log(y) else y",
    "if y > 0.0 then reduce(+, 1.0, J)(if y > 0.0 ∧ x > 1.0 then 2.0 × x else 0.0) else y": (
        "if y > 0.0 then reduce(+, 1.0, J)(if x > 1.0 then 2.0 × x else 0.0) else y"
    ),
    "if y > 0.0 then 2.0 × (if y > 0.0 then y else 1.0) else y": "if y > 0.0 then 2.0 × y else y",
}
UNKNOWN = {
    "a derivative that may be infinite": "if y > 0.0 then log(if y > 0.0 then y else 1.0) else y",
    "a factor that may be infinite": "if y > 0.0 then y × (if y > 0.0 then 1.0 / y else 1.0) else y",
    "a largest element that may be none": "if y > 0.0 then reduce(max, 0.0, J)(if y > 0.0 then x else 1.0) else y",
    "another point": "if ⟪I, 1⟫(y) > 0.0 then (if y > 0.0 then y else 1.0) else y",
    "a shift of it": "if subset(y, I[0:4]) > 0.0 then ⟪I, 1⟫(if y > 0.0 then y else 1.0) else subset(y, I[0:4])",
    "a fold over its dim": "reduce(+, 0.0, J)(if x > 1.0 then reduce(+, 0.0, J)(if x > 1.0 then x else 2.0) else 0.0)",
    "used where it does not hold": "let z = if y > 0.0 then y × y else 1.0; if y > 0.0 then z + 1.0 else z - 1.0",
}


def made(value: str) -> ti.Fencil:
    region = "[I[0:4]]" if "⟪" in value else ""
    return parse(f"{HEAD} {{ out{region} ← {value}; }}")


@pytest.mark.parametrize(("value", "wanted"), KNOWN.items())
def test_what_holds_is_known(value: str, wanted: str) -> None:
    assert PropagateConditions().run(made(value)) == made(wanted)


@pytest.mark.parametrize("value", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_does_not_is_not(value: str) -> None:
    assert PropagateConditions().run(made(value)) == made(value)


def test_what_is_used_elsewhere_stands_once() -> None:
    text = """f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← let z = loop(0, 3)(λ(k: tensor<int>, a: tensor<float, I[0:5]>) → true,
                               λ(k: tensor<int>, a: tensor<float, I[0:5]>) → if n > 2 then a × x else a, x);
            if n > 2 then z + 1.0 else z; }"""
    found = PropagateConditions().run(parse(text))
    loops = [e for e in postorder(*values(found.closures)) if isinstance(e, Call) and e.op == "loop"]
    assert len({id(e) for e in loops}) == 1


def test_a_guard_keeps_a_gradient_finite() -> None:
    text = f"{HEAD} {{ out ← {UNKNOWN['a derivative that may be infinite']}; }}"
    program = ti.compile(PropagateConditions().run(parse(text)))
    y = np.array([0.0, 1.0, -1.0, 2.0, 0.5])

    def total(y: jax.Array) -> jax.Array:
        return jnp.sum(program(x=np.zeros((5, 3)), y=y, n=np.int32(1))["out"])

    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.grad(total)(jnp.asarray(y)), [1.0, 1.0, 1.0, 0.5, 2.0])


def test_what_two_closures_compute_alike_is_one_node_where_it_has_a_function():
    fold = "reduce(λ(s: tensor<float>, e: tensor<float>) → s × 0.5 + e, 0.0, I)(x)"
    f = parse(f"f(x: tensor<float, I[0:4]>, a: tensor<float>, b: tensor<float>) {{ a ← {fold}; b ← {fold}; }}")
    first, second = values(Cse().run(f).closures)
    assert first is second
