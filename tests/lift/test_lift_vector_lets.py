"""Lets of vectors: a value is that of the place where the let stands, whatever its source is by the time of its use."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
"""
BODIES = {
    "swapped": """    v: T.let[T.int32x4] = A[T.Ramp(0, 1, 4)]
    A[T.Ramp(0, 1, 4)] = B[T.Ramp(1, 2, 4)]
    B[T.Ramp(0, 2, 4)] = v + v
""",
    "in a loop": """    for i in range(2):
        v: T.let[T.int32x4] = A[T.Ramp(i * 4, 1, 4)]
        A[T.Ramp(3 - i, 1, 4)] = B[T.Ramp(0, 1, 4)]
        B[T.Ramp(0, 2, 4)] = v * A[i]
""",
    "shuffled": """    for i in range(2):
        v: T.let[T.int32x4] = A[T.Ramp(i * 4, 1, 4)]
        A[T.Ramp(3 - i, 1, 4)] = T.Shuffle([v, B[T.Ramp(0, 1, 4)]], [7, 1, 0, 6])
        B[T.Ramp(0, 2, 4)] = v * A[i]
""",
    "by threads": """    for t in T.thread_binding(2, thread="threadIdx.x"):
        v: T.let[T.int32x4] = A[T.Ramp(t * 4, 1, 4)]
        A[T.Ramp(t * 4, 1, 4)] = B[T.Ramp(t * 4, 1, 4)]
        B[T.Ramp(t * 4, 1, 4)] = v * A[t * 4]
""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_vector_stays_what_it_was(body: str):
    function = ti.tir.parse(HEAD + body)["main"]
    a, b = np.arange(1, 9, dtype=np.int32), np.array([3, 1, 4, -1, 5, 9, 2, 6], np.int32)
    for got, wanted in zip(ti.lift(function)(a, b), ti.tir.interpret(function, a, b), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_division_by_zero_in_a_vector_is_told_with_its_lane():
    text = HEAD + "    v: T.let[T.int32x4] = A[T.Ramp(0, 1, 4)] // B[T.Ramp(0, 1, 4)]\n    B[T.Ramp(4, 1, 4)] = v\n"
    function = ti.tir.parse(text)["main"]
    a, b = np.arange(1, 9, dtype=np.int32), np.array([3, 1, 0, -1, 5, 9, 2, 6], np.int32)
    with pytest.raises(DiagnosticError, match="division of an integer by zero"):
        ti.tir.interpret(function, a, b, checked=True)
    error, _ = ti.lift(function).checked(a, b)
    assert "division of an integer by zero" in str(error)
    assert "it fails first at lane = 2." in str(error)
