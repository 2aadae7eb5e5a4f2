"""Shifts that move inside of what they shift: they stop at a dim that is gone, even if another has its name."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.lifting.rewrites.naming import with_shifts_inside


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


@pytest.mark.parametrize(
    "statement", ["A[2 - i] = T.max(A[2 - i], C[i])", "A[2 - i] = C[i] * A[2 - i]", "A[2 - i] = A[2 - i] - A[0]"]
)
def test_a_buffer_is_updated_in_place_from_its_end(statement: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32")):
    for i in range(3):
        {statement}
""")["main"]
    arrays = np.array([6, 5, 1], np.int32), np.array([4, 7, -6], np.int32)
    np.testing.assert_array_equal(ti.lift(function)(*arrays)[0], ti.tir.interpret(function, *arrays)[0])
