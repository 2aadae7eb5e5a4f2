"""Storage that is several variables under one name: elements that numbers name are buffers of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti

MOMENTS = """
@T.prim_func
def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4, 16), "float32")):
    for i in range(4):
        s = T.alloc_buffer((2,), "float32", scope="local")
        s[0] = T.float32(-100)
        for k in range(16):
            s[0] = T.max(s[0], A[i, k])
        s[1] = T.float32(0)
        for k in range(16):
            s[1] = s[1] + (A[i, k] - s[0])
        for k in range(16):
            B[i, k] = (A[i, k] - s[0]) / s[1]
"""

KEPT = {
    "an element that data choose": """
    s[0] = 1
    s[1] = 5
    for k in range(6):
        s[1] = s[1] + s[0] * A[k]
        B[k] = s[A[k] % 2]""",
    "an element that a loop chooses": """
    for k in range(2):
        s[k] = k + 1
    for k in range(6):
        s[1] = s[1] * 3 + s[0] + A[k]
        B[k] = s[k % 2]""",
    "variables that change places": """
    s[0] = 1
    s[1] = 2
    for k in range(6):
        x: T.let[T.int32] = s[0]
        s[0] = s[1] + A[k]
        s[1] = x
        B[k] = s[0] * 10 + s[1]""",
    "a view of the whole": """
    t = T.decl_buffer((2,), "int32", data=s.data)
    s[0] = 3
    s[1] = s[0] + 4
    for k in range(6):
        t[0] = t[0] + t[1] * A[k]
        s[1] = s[1] + s[0]
        B[k] = s[0]""",
    "a variable that only a while changes": """
    s[0] = 0
    s[1] = 40
    while s[0] * s[1] < 300:
        s[0] = s[0] + s[1] % 7
        s[1] = s[1] - 1
    for k in range(6):
        B[k] = s[0] + s[1] * A[k]""",
}


def test_accumulators_that_share_a_buffer_are_folds_of_their_own():
    program = ti.lift(ti.tir.parse(MOMENTS)["main"])
    assert "stablehlo.while" not in ti.compile(program.fencil).stablehlo()
    text = str(program)
    assert text.count("reduce(max") == 1 and text.count("reduce(+") == 1 and "gather" not in text
    a = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    wanted = ti.tir.interpret(ti.tir.parse(MOMENTS)["main"], a, a)[1]
    np.testing.assert_allclose(program(a, None)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("name", KEPT)
def test_elements_apart_hold_what_the_buffer_held(name: str):
    function: Any = ti.tir.parse(
        '@T.prim_func\ndef main(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):\n'
        f'    s = T.alloc_buffer((2,), "int32"){KEPT[name]}\n'
    )["main"]
    a = np.array([1, 2, 0, 5, 4, 3], np.int32)
    (found,) = ti.lift(function)(a, np.zeros(6, np.int32))
    np.testing.assert_array_equal(found, ti.tir.interpret(function, a, a)[1])
