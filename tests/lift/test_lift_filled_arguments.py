"""Arguments that a program fills, statement by statement, need not be given; others must."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
{}
"""
FILLED = {
    "choices": """
    for i in range(8):
        if i == 0:
            B[i] = A[i]
        else:
            B[i] = A[i] * 2 + A[i - 1]
""",
    "ends and a middle": """
    B[0] = A[0]
    for i in range(6):
        B[i + 1] = A[i] + A[i + 2]
    B[7] = A[7]
""",
    "a recurrence": """
    for i in range(8):
        if i == 0:
            B[i] = A[i]
        else:
            B[i] = B[i - 1] + A[i]
""",
    "a permutation": """
    for i in range(8):
        B[i * 3 % 8] = A[i]
""",
    "odd and even": """
    for i in range(4):
        B[2 * i] = A[i]
    for i in range(4):
        B[2 * i + 1] = A[i + 4] - B[2 * i]
""",
}
KEPT = {
    "a hole": """
    for i in range(7):
        B[i + i // 4] = A[i]
""",
    "data": """
    for i in range(4):
        B[2 * i] = A[i]
    for i in range(4):
        if A[i] > 0:
            B[2 * i + 1] = A[i + 4]
""",
    "a read before": """
    for i in range(7):
        B[i] = B[i + 1] + A[i]
    B[7] = A[7]
""",
    "a read outside of loops": """
    for i in range(7):
        B[i] = A[i]
    B[7] = B[7] + 1
""",
    "a place that data tell": """
    for i in range(8):
        B[i] = B[A[i] % 8] + 1
""",
    "rounds that data tell": """
    for i in range(A[0]):
        B[i % 8] = A[i % 8]
""",
}
A = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.int32)


@pytest.mark.parametrize("body", FILLED.values(), ids=FILLED)
def test_what_a_program_fills_need_not_be_given(body: str):
    function = ti.tir.parse(TEXT.format(body))["main"]
    program = ti.lift(function)
    wanted = ti.tir.interpret(function, A, np.full(8, 77, np.int32))[1]
    np.testing.assert_array_equal(program(A, None)[0], wanted)
    np.testing.assert_array_equal(program(A, np.full(8, 77, np.int32))[0], wanted)


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_what_a_program_leaves_or_reads_must_be_given(body: str):
    function = ti.tir.parse(TEXT.format(body))["main"]
    program, b = ti.lift(function), np.arange(8, dtype=np.int32) * 5
    np.testing.assert_array_equal(program(A, b)[0], ti.tir.interpret(function, A, b)[1])
    with pytest.raises(DiagnosticError, match="TL03"):
        program(A, None)
