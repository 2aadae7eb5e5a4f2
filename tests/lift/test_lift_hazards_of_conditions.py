"""What conditions read, of ifs, whiles and assertions, is looked at like what values read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):\n'
A, B = np.array([1, 2, 1, 1], np.int32), np.zeros(4, np.int32)


def test_a_condition_around_several_statements_is_told_of_once():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(HEAD, "for i in range(4):\n    if A[i + 1] > 0:\n        B[i] = 1\n        A[0] = 3\n"))
    assert len(caught.value.diagnostics) == 1


def test_an_argument_whose_start_a_condition_reads_is_not_one_that_the_program_fills():
    function = parsed(
        HEAD, "for i in range(4):\n    if B[i] > 0:\n        A[i] = 7\nfor i in range(4):\n    B[i] = 5\n"
    )
    start = np.array([1, 0, 2, 0], np.int32)
    wanted = ti.tir.interpret(function, A, start, checked=True)
    np.testing.assert_array_equal(ti.lift(function)(A, start), wanted)


def test_an_index_that_no_choice_takes_leaves_nothing():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    if A[0] > A[1]:
        for k in range(2):
            for t in range(8):
                if t + T.shift_left(1, k) < 8:
                    C[t] = C[t] + A[t + T.shift_left(1, k) + 1]
""")["main"]
    a, c = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    np.testing.assert_array_equal(ti.lift(function)(a, c)[0], c)
    with pytest.raises(DiagnosticError, match="an index leaves 'A', which has 8 elements"):
        ti.lift(function)(a[::-1].copy(), c)
