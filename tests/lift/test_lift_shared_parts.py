"""Rewrites of expressions whose parts are shared, which look at each part once, and shifts that move inside."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import FLOAT64, INT32, TensorType
from tensorir.lifting.emission.tensors import with_sums_of_coordinates
from tensorir.lifting.rewrites.naming import with_shifts_inside
from tensorir.lifting.rewrites.recurrences import added_point
from tensorir.text import parse

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
