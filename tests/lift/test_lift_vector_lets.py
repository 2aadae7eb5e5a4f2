"""Lets of vectors: a value is that of the place where the let stands, whatever its source is by the time of its use."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
"""


def test_a_division_by_zero_in_a_vector_is_told_with_its_lane():
    text = HEAD + "    v: T.let[T.int32x4] = A[T.Ramp(0, 1, 4)] // B[T.Ramp(0, 1, 4)]\n    B[T.Ramp(4, 1, 4)] = v\n"
    function = ti.tir.parse(text)["main"]
    a, b = np.arange(1, 9, dtype=np.int32), np.array([3, 1, 0, -1, 5, 9, 2, 6], np.int32)
    with pytest.raises(DiagnosticError, match="division of an integer by zero"):
        ti.tir.interpret(function, a, b, checked=True)
    error, _ = ti.lift(function).checked(a, b)
    assert "division of an integer by zero" in str(error)
    assert "it fails first at lane = 2." in str(error)
