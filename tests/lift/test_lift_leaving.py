"""Loops that are left before their end, whatever says how many turns they take."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti

BOUNDS = ["0, 5, 2", "i, 5, 2", "i * i % 5", "i * i % 4, 5", "A[i] % 4", "A[i] % 3, 5", "A[i] % 3, 5, 2"]


@pytest.mark.parametrize("jump", ["break", "continue"])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_loop_begins_with_nobody_having_left(bounds: str, jump: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32")):
    for i in range(5):
        for j in range({bounds}):
            if A[j] > 3:
                {jump}
            B[i] = B[i] + A[j] * (j + 1)
""")["main"]
    given = np.array([1, 2, 7, 9, 1], np.int32), np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(ti.lift(function)(*given)[0], ti.tir.interpret(function, *given)[1])


def test_a_while_of_steps_takes_as_many_as_there_are():
    """Bounds that data tell make a while, which counts its steps in what the loop counts."""
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((5, 5), "int32"), B: T.Buffer((5,), "int32"), P: T.Buffer((6,), "int32")):
    for k in range(2):
        for i in range(P[0] % 6):
            for j in range(i + 1, 5, 2):
                A[(j + 1) % 5, 0] = B[(i + 1) % 5]
""")["main"]
    given = np.zeros((5, 5), np.int32), np.array([3, 1, 4, 2, 7], np.int32), np.full(6, 3, np.int32)
    np.testing.assert_array_equal(ti.lift(function)(*given)[0], ti.tir.interpret(function, *given)[0])


@pytest.mark.parametrize("jump", ["break", "continue", "T.ret(0)"])
@pytest.mark.parametrize("condition", ["i > 1", "i != 2", "A[i] > 1"])
def test_a_loop_under_a_condition_begins_with_nobody_having_left(condition: str, jump: str):
    """Where the condition fails, nobody asks who has left: no read there finds what nobody wrote."""
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32")):
    for i in range(5):
        if {condition}:
            for j in range(4):
                if A[j] > 3:
                    {jump}
                B[i] = B[i] + A[j] * (j + 1)
""")["main"]
    given = np.array([1, 2, 7, 9, 1], np.int32), np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(ti.lift(function)(*given)[0], ti.tir.interpret(function, *given, checked=True)[1])
