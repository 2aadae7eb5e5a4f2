"""Every rule of the canonical form: it applies to what stands here, and what it makes of that has the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, literal, var
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import BOOL, FLOAT64, INT32, TensorType, tensor
from tensorir.lifting.emission.tensors import with_sums_of_coordinates
from tensorir.lifting.rewrites.canonical import RULES
from tensorir.lifting.rewrites.naming import with_shifts_inside
from tensorir.lifting.rewrites.recurrences import added_point
from tensorir.passes import simplify
from tensorir.text import parse, parse_expr

KINDS = {
    "x": tensor("float", I=(0, 6)),
    "y": tensor("float", I=(0, 6)),
    "z": tensor("float", I=(6, 9)),
    "a": tensor("float", I=(0, 4), J=(0, 3)),
    "b": tensor("float", I=(0, 4), J=(0, 3)),
    "p": tensor("float"),
    "n": tensor("int"),
    "t": tensor("bool", I=(0, 6)),
}
PARTS = "gather(I, clamp)(x, 3 × pos(A, add_dim(A, 0, 2, 0)) + pos(B, add_dim(B, 0, 3, 0)) - 1)"
N = "pos(N, add_dim(N, 0, 12, 0))"
PLACES = "2 × pos(A, add_dim(A, 0, 2, 0)) + pos(B, add_dim(B, 0, 2, 0))"
PRODUCT = "λ(a: tensor<float>, b: tensor<float>) → a × b"
ROWS = [
    ("small_first", "1.0 < x"),
    ("plus_nothing", "x + 0.0"),
    ("merge_of_whole", "merge_dims(A, B, K)(contract(float, J)(split_dim(I, A, B, 2)(a), rename(I → L)(b)))"),
    ("choice_of_truth", "if t then x < y else false"),
    ("choice_of_truth", "if t then true else gather(I, zero)(t, pos(I, x) + 2)"),
    ("start_of_added", "reduce(+, add_dim(J, 0, 3, p), I)(a)"),
    ("fold_of_fold", "reduce(+, 0.0, A)(reduce(+, 0.0, B)(split_dim(I, A, B, 3)(x)))"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS} × p)"),
    ("merge_of_whole", "merge_dims(A, B, I)(gather(J, clamp)(split_dim(I, A, B, 2)(a), 2))"),
    ("merge_of_whole", f"merge_dims(A, B, I)({PARTS})"),
    ("merge_of_whole", f"merge_dims(C, D, K)(rename(A → C, J → L)(rename(B → D)({PARTS}) × b))"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS.replace('A, 0, 2', 'A, 1, 3').replace('- 1', '- 4')})"),
    ("merge_of_whole", f"merge_dims(A, B, K)(reduce(+, 0.5, J)({PARTS} × b))"),
    ("merge_of_whole", f"merge_dims(A, B, K)(floordiv({PLACES}, 3) + 1)"),
    ("merge_of_whole", "merge_dims(A, B, K)(split_dim(I, A, B, 3)(x) × add_dim(A, 0, 2, add_dim(B, 0, 3, 2.0)))"),
    ("added_point", "add_dim(I, 2, 3, gather(I, clamp)(x, 2) + 2.0 × gather(I, clamp)(y, 2))"),
    ("prefix_of_scan", f"concat(subset(x, I[0:1]), scan({PRODUCT}, true, gather(I, clamp)(x, 0))(subset(x, I[1:6])))"),
    ("concat_of_concat", "concat(concat(subset(x, I[0:2]), subset(y, I[2:6])), z)"),
    ("point_of_shifted", "gather(J, clamp)(cartesian_shift(I, 1)(a), 2)"),
    ("merge_of_whole", "merge_dims(A, B, I)(exp(split_dim(I, A, B, 3)(x)))"),
    ("rename_of_subset", "rename(K → L)(subset(rename(I → K)(x), K[1:3]))"),
    ("shift_of_shift", "cartesian_shift(I, 2)(cartesian_shift(I, -3)(x))"),
    ("shift_of_subset", "cartesian_shift(I, 2)(subset(x, I[1:3]))"),
    ("sum_from_nothing", "add_dim(I, 0, 4, 0.0) + reduce(+, 0.0, J)(a)"),
    ("sum_from_nothing", "contract(float, I)(x, y) + 0.0"),
    ("row_of_split", "gather(A, clamp)(split_dim(J, B, C, 3)(split_dim(I, A, K, 2)(a)), 1)"),
    ("row_of_split", "gather(C, A, clamp)(split_dim(J, B, C, 3)(split_dim(I, A, K, 2)(a)), n, 0)"),
    ("contraction_of_parts", "contract(float, A, B)(split_dim(I, A, B, 3)(x), split_dim(I, A, B, 3)(y))"),
    ("contraction_of_parts", "contract(float, J, B, A)(split_dim(I, A, B, 2)(a), split_dim(I, A, B, 2)(b))"),
    ("fold_of_contraction", "reduce(+, 0.0, I)(contract(float, J)(a, b))"),
    ("fold_of_merged", "reduce(+, p, K)(merge_dims(I, J, K)(a))"),
    ("fold_of_merged", "reduce(max, -9.0, K)(merge_dims(J, I, K)(add_dim(L, 0, 2, a)))"),
    ("split_of_merged", "split_dim(K, A, B, 3)(merge_dims(I, J, K)(a))"),
    ("split_of_renamed", "split_dim(K, A, B, 3)(rename(I → K)(x))"),
]
ALONE = [
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS.replace('3 ×', '2 ×')})", "parts that count otherwise"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS} × cast(pos(A, add_dim(A, 0, 2, 0)), float))", "a part alone"),
    (
        "merge_of_whole",
        f"merge_dims(A, B, K)({PARTS} × reduce(+, 0.0, D)(rename(B → D)({PARTS})))",
        "a part of the same name that is folded",
    ),
    ("merge_of_whole", f"merge_dims(A, B, J)(reduce(+, 0.0, J)({PARTS} × b))", "a name that is taken inside"),
    ("fold_of_contraction", "reduce(+, 0.0, I)(contract(float, J)(a, rename(I → L)(b)))", "a dim of one factor"),
    ("fold_of_contraction", "reduce(+, 1.0, I)(contract(float, J)(a, b))", "a fold from another number"),
    ("choice_of_truth", "if t then gather(I)(t, pos(I, x)) else false", "an index that is an error"),
]
EVERY: dict[str, Any] = {f.__name__: f for rules in RULES.values() for f in rules}


def computed(e: Expr) -> Any:
    rng = np.random.default_rng(0)
    given = {v.name: v for v in e.free}
    # dims are told apart by their names: in which order they stand says nothing
    out = var("result", e.tensor.on(Dims(tuple(sorted(e.tensor.dims.items)))))
    made = fencil("made", [out, *given.values()], [closure(out, e)])
    return reference.run(made, **{n: some(v.tensor, rng) for n, v in sorted(given.items())})["result"]


def some(kind: TensorType, rng: Any) -> Any:
    shape = kind.dims.shape
    if kind.element == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(-3, 9, shape).astype(np.int32) if kind.element == INT32 else rng.normal(size=shape)


def applied(name: str, text: str) -> tuple[Expr, Expr | None]:
    e = parse_expr(text, KINDS)
    assert isinstance(e, Call)
    return e, EVERY[name](e)


def test_every_rule_has_a_row():
    own = {name for name, f in EVERY.items() if f.__module__ != simplify.__name__}
    assert own == {name for name, _ in ROWS}


@pytest.mark.parametrize(("name", "text"), ROWS)
def test_a_rule_applies_and_keeps_the_values(name: str, text: str):
    before, after = applied(name, text)
    assert after is not None and after != before and after.type == before.type
    np.testing.assert_allclose(computed(after), computed(before), rtol=1e-12)


@pytest.mark.parametrize(("name", "text", "why"), ALONE)
def test_a_rule_does_not_apply_to(name: str, text: str, why: str):
    assert applied(name, text)[1] is None, why


# Rewrites of expressions whose parts are shared, which look at each part once, and shifts that move inside.


DEPTH = 40


def doubled(x: Expr) -> Expr:
    """A sum of 2 ** DEPTH times the same, of DEPTH nodes."""
    for _ in range(DEPTH):
        x = call("plus", x, x)
    return x


def nodes(e: Expr) -> int:
    return len({id(part) for part in postorder(e)})


@pytest.fixture
def x() -> Expr:
    return Var("x", TensorType(FLOAT64, Dims.of({"I": Interval(0, 4)})))


def test_a_point_of_a_shared_sum(x: Expr):
    point = call("gather", x, literal(2, INT32), static=(("I",), "clamp"))
    added = call("add_dim", doubled(point), static=("I", 2, 3))
    assert isinstance(added, Call)
    made = added_point(added)
    assert made is not None
    assert nodes(made) < DEPTH + 9


def test_a_shift_of_a_shared_sum():
    lets = "".join(f"let a{k + 1} = a{k} + a{k}; " for k in range(DEPTH))
    f = parse(
        "f(out: tensor<float, I[1:5]>) { "
        f"out ← let a0 = float(pos(I, add_dim(I, 0, 4, 0))); {lets}⟪I, -1⟫(a{DEPTH}); }}"
    )
    assert nodes(with_sums_of_coordinates(f).closures[0].value) < DEPTH + 19


def test_a_shift_does_not_reach_a_dim_that_a_gather_took_away():
    fencil = ti.parse("""
f(A: tensor<int, i[0:3]>, B: tensor<int, i[0:3]>) {
  B ←
    ⟪i, -2⟫(
      gather(j, clamp)(
        gather(i, clamp)(A, 2 - pos(j, add_dim(j, 0, 3, false))) × 2,
        -pos(i, add_dim(i, -2, 1, false))
      )
    );
}
""")
    a = np.array([4, -5, 6], np.int32)
    np.testing.assert_array_equal(ti.reference.run(fencil, A=a)["B"], [8, -10, 12])
    np.testing.assert_array_equal(ti.reference.run(with_shifts_inside(fencil), A=a)["B"], [8, -10, 12])
