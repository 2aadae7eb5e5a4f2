"""What fails while a lifted program runs is said of the source: its buffers, their axes, the variables of its loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti

ABOUT = {
    "a read": (
        'A: T.Buffer((8, 3), "float32"), P: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        B[i] = A[P[i], 1]\n",
        (np.zeros((8, 3), np.float32), np.array([0, 1, 9, 2], np.int32), np.zeros(4, np.float32)),
        """\
<tir>:4:16: error[R01]: an index leaves axis 0 of 'A', which has 8 elements.
          B[i] = A[P[i], 1]
                 ^^^^^^^^^^
note: at i = 2 it is 9.
help: correct the indices, or clamp them.""",
    ),
    "a store": (
        'A: T.Buffer((8,), "float32"), P: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        A[P[i]] = B[i]\n",
        (np.zeros(8, np.float32), np.array([0, 1, 9, 2], np.int32), np.zeros(4, np.float32)),
        """\
<tir>:4:9: error[R01]: an index leaves 'A', which has 8 elements.
          A[P[i]] = B[i]
          ^^^^^^^^^^^^^^
note: at i = 2 it is 9.
help: correct the indices, or clamp them.""",
    ),
    "loops that run step by step": (
        'A: T.Buffer((3, 8), "int32"), B: T.Buffer((9,), "int32")):\n'
        "    for k in range(2):\n        for i in range(3, 8):\n            B[i + 1] = A[k, B[i]] + B[i + 1]\n",
        (np.arange(24, dtype=np.int32).reshape(3, 8) * 3, np.array([1, 2, 3, 1, 1, 1, 1, 1, 1], np.int32)),
        """\
<tir>:5:24: error[R01]: an index leaves its axis, which has 8 elements.
              B[i + 1] = A[k, B[i]] + B[i + 1]
                         ^^^^^^^^^^
note: at k = 0 it is 13.
help: correct the indices, or clamp them.""",
    ),
    "loops on one line": (
        'A: T.Buffer((4, 5), "int32"), B: T.Buffer((6,), "int32")):\n'
        "    for i, j in T.grid(4, 5):\n        B[A[i, j]] = B[(A[i, j] + 1) % 6] + i\n",
        (np.pad([[9]], ((2, 1), (3, 1))).astype(np.int32), np.ones(6, np.int32)),
        """\
<tir>:4:9: error[R01]: an index leaves its axis, which has 6 elements.
          B[A[i, j]] = B[(A[i, j] + 1) % 6] + i
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: here it is 9.
help: correct the indices, or clamp them.""",
    ),
    "a while": (
        'A: T.Buffer((8,), "int32"), n: T.Buffer((1,), "int32")):\n'
        "    n[0] = 0\n    while n[0] < 12:\n        n[0] = A[n[0]] + 13 - T.if_then_else(n[0] < 7, 11, 0)\n",
        (np.arange(8, dtype=np.int32) + 1, np.zeros(1, np.int32)),
        """\
<tir>:5:16: error[R01]: an index leaves 'A', which has 8 elements.
          n[0] = A[n[0]] + 13 - T.if_then_else(n[0] < 7, 11, 0)
                 ^^^^^^^
note: at round 3 it is 9.
help: correct the indices, or clamp them.""",
    ),
}


@pytest.mark.parametrize("name", ABOUT)
def test_an_index_that_leaves_its_buffer_is_told_in_the_words_of_the_source(name: str):
    text, arrays, message = ABOUT[name]
    program = ti.lift(ti.tir.parse("@T.prim_func\ndef main(" + text)["main"])
    for _ in range(2):  # the second call goes another way
        with pytest.raises(ti.DiagnosticError) as caught:
            program(*(a.copy() for a in arrays))
        assert str(caught.value) == message


def test_a_good_call_before_a_bad_one_changes_nothing():
    text, arrays, message = ABOUT["a read"]
    program = ti.lift(ti.tir.parse("@T.prim_func\ndef main(" + text)["main"])
    good: tuple[Any, ...] = (arrays[0], np.array([0, 1, 7, 2], np.int32), arrays[2])
    program(*good)
    with pytest.raises(ti.DiagnosticError) as caught:
        program(*arrays)
    assert str(caught.value) == message


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


def test_the_loop_around_a_while_is_told_with_its_round():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
    W = T.alloc_buffer((1,), "int32")
    for i in range(5):
        W[0] = 0
        while W[0] < A[i] + i + 1:
            B[i * 5 + W[0]] = A[14 - W[0] * 2 - i * 2]
            W[0] = W[0] + T.max(B[i], 1)
""")["main"]
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(function)(np.zeros(40, np.int32), np.zeros(40, np.int32))
    assert "at round 4 it is -2." in str(caught.value)


def test_an_index_of_storage_of_which_data_tell_what_is_written_is_told_once():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
    L = T.alloc_buffer((40,), "int32")
    for z in range(40):
        if A[z] == 0:
            L[z] = A[z]
    for i in range(4):
        L[i] = L[A[i] - 2 * i]
    for z in range(40):
        B[z] = B[z] + L[z]
""")["main"]
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(function)(np.zeros(40, np.int32), np.zeros(40, np.int32))
    (told,) = (d for d in caught.value.diagnostics if "an index leaves" in d.message)
    assert told.span.line == 9
