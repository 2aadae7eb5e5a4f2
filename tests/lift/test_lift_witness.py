"""What fails while a lifted program runs is said of the source: its buffers, their axes, the variables of its loops."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti


def test_an_index_of_relax_that_leaves_its_tensor_is_told_by_axis():
    params = 'x: R.Tensor((3, 4), "float32"), i: R.Tensor((2,), "int32")'
    program = ti.lift(ti.tir.parse(f"@R.function\ndef main({params}):\n    return R.take(x, i, axis=1)")["main"])
    for _ in range(2):
        with pytest.raises(ti.DiagnosticError) as caught:
            program(np.zeros((3, 4), np.float32), np.array([0, 7], np.int32))
        assert str(caught.value) == (
            "<tir>:3:12: error[R01]: an index leaves axis 1 of 'x', which has 4 elements.\n"
            "      return R.take(x, i, axis=1)\n"
            "             ^^^^^^^^^^^^^^^^^^^^\n"
            "note: at (1) it is 7.\n"
            "help: correct the indices, or clamp them."
        )


def test_of_two_operators_of_relax_the_one_that_fails_is_told_and_a_kernel_keeps_its_variables():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def picked(A: T.Buffer((4,), "float32"), P: T.Buffer((2,), "int32"), B: T.Buffer((2,), "float32")):
        for k in range(2):
            B[k] = A[P[k]]

    @R.function
    def main(x: R.Tensor((5, 4), "float32"), i: R.Tensor((2, 3), "int64"), p: R.Tensor((2,), "int32")):
        cls = Module
        a = R.take(x, i, axis=1)
        b = R.take(a, i, axis=0)
        c = R.take(x, R.const(0, "int64"), axis=0)
        d = R.call_tir(cls.picked, (c, p), out_sinfo=R.Tensor((2,), "float32"))
        return b, d
"""
    program = ti.lift(ti.tir.parse(text)["main"])
    x = np.zeros((5, 4), np.float32)
    with pytest.raises(ti.DiagnosticError) as caught:
        program(x, np.array([[0, 1, 2], [3, 3, 4]]), np.zeros(2, np.int32))
    assert str(caught.value) == (
        "<tir>:12:13: error[R01]: an index leaves axis 1 of 'x', which has 4 elements.\n"
        "          a = R.take(x, i, axis=1)\n"
        "              ^^^^^^^^^^^^^^^^^^^^\n"
        "note: at (1, 2) it is 4.\n"
        "help: correct the indices, or clamp them."
    )
    with pytest.raises(ti.DiagnosticError) as caught:
        program(x, np.zeros((2, 3), "int64"), np.array([0, 9], np.int32))
    assert "note: at k = 1 it is 9." in str(caught.value) and "B[k] = A[P[k]]" in str(caught.value)
