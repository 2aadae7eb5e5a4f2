"""One row per rule: what stands before, what stands after, and that nothing else of the table applies."""

import pytest

from tensorir.ir.types import tensor
from tensorir.passes import Simplify
from tensorir.passes.base import shown
from tensorir.passes.simplify import RULES

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
    ("and_true", "c ∧ true", "c"),
    ("or_false", "false ∨ c", "c"),
    ("known_choice", "if true then x else y", "x"),
    ("choice_by_not", "if ¬c then x else y", "if c then y else x"),
    ("cast_to_itself", "cast(x, float)", "x"),
    ("cast_there_and_back", "cast(cast(f, float64), float32)", "f"),
    ("member_of_made", "(x, y)[1]", "y"),
    ("made_of_members", "let a = (x, -y); (a[0], a[1])", "(x, -y)"),
    ("subset_of_subset", "subset(subset(x, I[1:5]), I[2:4])", "subset(x, I[2:4])"),
    ("subset_of_all", "subset(x, I[0:6])", "x"),
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
