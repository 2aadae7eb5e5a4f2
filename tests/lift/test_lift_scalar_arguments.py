"""Scalars that a function of the module takes have the value that they had when it was called."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti

MODULE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(x: T.int32, A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] + x * B[3 - i]

    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        {}
"""
CALLS = {
    "an element that the function writes": ("Module.add(A[1], A.data, B.data)", [2 + 3, 3 + 15, 5 + 9, 7 + 6]),
    "an element that it only reads": ("Module.add(B[2], A.data, B.data)", [2 + 5, 3 + 25, 5 + 15, 7 + 10]),
    "a named number": ("v: T.int32 = A[1]\n        Module.add(v, A.data, B.data)", [2 + 3, 3 + 15, 5 + 9, 7 + 6]),
    "a sum of elements": ("Module.add(A[1] - A[0], A.data, B.data)", [2 + 1, 3 + 5, 5 + 3, 7 + 2]),
    "an element of each iteration": (
        "for k in range(2):\n            Module.add(A[k], A.data, B.data)", [4 + 13, 13 + 65, 11 + 39, 11 + 26]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "wanted"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_a_scalar_is_handed_over_by_its_value(call: str, wanted: list[int], numerics: str):
    function = ti.tir.parse(MODULE.format(call))["main"]
    arrays = np.array([2, 3, 5, 7], np.int32), np.array([2, 3, 5, 1], np.int32)
    np.testing.assert_array_equal(ti.tir.interpret(function, *arrays, checked=True)[0], wanted)
    np.testing.assert_array_equal(ti.lift(function, numerics=numerics)(*arrays)[0], wanted)
