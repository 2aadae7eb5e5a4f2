"""Buffers without axes are one number each: what guards pick for them is the last of what they pick."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize(
    "body",
    [
        "if A[i] > 2:\n            Z[()] = A[i]",
        "if A[i] > 20:\n            Z[()] = A[i]",
        "if A[i] > 2:\n            Z[()] = 7",
        "for j in range(3):\n            if A[j] < A[i]:\n                Z[()] = A[i] * 3 + j",
    ],
    ids=["the last", "none", "one number", "of two loops"],
)
def test_a_number_that_some_iterations_store_is_that_of_the_last_of_them(body: str, numerics: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((5,), "int32"), Z: T.Buffer((), "int32")):
    for i in range(5):
        {body}
""")["main"]
    given = np.array([1, 2, 5, 9, 1], np.int32), np.array(3, np.int32)
    np.testing.assert_array_equal(
        ti.lift(function, numerics=numerics)(*given)[0], ti.tir.interpret(function, *given)[1]
    )
