"""Programs compared: by canonical form, by inputs, or refuted by a small counterexample."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

STENCIL = """
@T.prim_func
def main(A: T.Buffer((10, 12), "float32"), B: T.Buffer((8, 10), "float32")):
    for i, j in T.grid(8, 10):
        B[i, j] = A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2] - T.float32(4) * A[i + 1, j + 1]
"""


def test_a_kernel_and_its_schedule_are_equal_by_their_text():
    scheduled = STENCIL.replace("for i, j in T.grid(8, 10):", "for a, b in T.grid(4, 20):").replace(
        "        B[i, j]",
        "        i: T.let[T.int32] = (a * 20 + b) // 10\n"
        "        j: T.let[T.int32] = (a * 20 + b) % 10\n"
        "        B[i, j]",
    )
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(scheduled)["main"])
    assert found.proven and str(found) == "equal by canonical form"


def test_a_kernel_and_a_field_operator_agree():
    fencil = ti.parse(
        """
lap(out: tensor<float32, I[0:8], J[0:10]>, x: tensor<float32, I[-1:9], J[-1:11]>) {
  out ← ⟪I, -1⟫(x) + ⟪I, 1⟫(x) + ⟪J, -1⟫(x) + ⟪J, 1⟫(x) - 4.0f × x;
}
"""
    )
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], fencil)
    assert found and "agree on 8 generated inputs" in str(found)


def test_a_difference_comes_with_a_small_counterexample():
    other = STENCIL.replace("A[i + 2, j + 1]", "A[i, j + 1]")
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(other)["main"])
    assert not found and found.counterexample is not None
    (array,) = found.counterexample.values()
    assert "different: B[" in str(found) and np.count_nonzero(array) < array.size


def test_programs_of_other_arrays_are_not_compared():
    other = STENCIL.replace("(8, 10)", "(7, 10)")
    with pytest.raises(DiagnosticError, match="different outputs"):
        ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(other.replace("T.grid(8", "T.grid(7"))["main"])
