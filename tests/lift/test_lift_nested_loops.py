"""Loops inside of each other that run step by step: each stands once in the text and in XLA's program."""

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder, values
from tests.lift.gradients import compared

NESTED = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((7,), "float32"), C: T.Buffer((8,), "float32")):
    for t in range(5):
        for u in range(4):
            for w in range(3):
                A[(t + u + w) % 6] = A[(t * u) % 6] * T.float32(0.5) + B[(w * w + t) % 7]
                B[(t * w + u) % 7] = B[(u + w) % 7] * T.float32(0.25) + C[(t + w) % 8]
                C[(t * 3 + w) % 8] = C[(u * w) % 8] * T.float32(0.125) + A[(u * 2) % 6]
"""

CHECKED = """
@T.prim_func
def main(X: T.Buffer((3, 4), "int32"), A: T.Buffer((6,), "float32"), B: T.Buffer((7,), "float32")):
    for t in range(3):
        for u in range(4):
            A[X[t, u]] = A[(t * u) % 6] * T.float32(0.5) + B[(u * u + t) % 7]
            B[(t + u) % 7] = B[(u * t) % 7] + A[X[t, u]]
"""


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, n).astype(np.float32) for n in (6, 7, 8)]


def test_a_loop_inside_of_a_loop_stands_once():
    function = ti.tir.parse(NESTED)["main"]
    program = ti.lift(function)
    given = arrays()
    for got, wanted in zip(program(*given), ti.tir.interpret(function, *given), strict=True):
        np.testing.assert_array_equal(got, wanted)
    stores = [n for n in postorder(*values(program.fencil.closures)) if isinstance(n, Call) and n.op == "scatter"]
    assert len(stores) == 3
    assert ti.compile(program.fencil).stablehlo().count("stablehlo.while") == 3


def test_the_gradient_of_loops_inside_of_loops():
    program = ti.lift(ti.tir.retype(ti.tir.parse(NESTED)["main"], float32="float64"))
    assert compared(program, [a.astype(np.float64) for a in arrays()], [0, 1, 2], [0, 1, 2]).right


@pytest.mark.parametrize("by_steps", [False, True])
def test_an_index_in_an_inner_loop_is_checked(by_steps: bool):
    function = ti.tir.parse(CHECKED)["main"]
    program = ti.lift(function)
    index = np.arange(12, dtype=np.int32).reshape(3, 4) % 6
    a, b, _ = arrays()
    with jax.disable_jit(by_steps):
        for got, wanted in zip(program(index, a, b), ti.tir.interpret(function, index, a, b)[1:], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
        index[1, 2] = 6
        with pytest.raises(ti.DiagnosticError, match=r"6 .*t = 1.*u = 2|t = 1, u = 2"):
            program(index, a, b)


def test_a_while_between_a_loop_and_one_that_starts_where_it_stands():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), I: T.Buffer((2,), "int32")):
    L = T.alloc_buffer((4,), "int32")
    for i in range(3):
        I[1] = 0
        while I[1] < I[0]:
            for j in range(i, 4):
                L[j] = A[j] * 2
            for j in range(i, 4):
                B[j] = B[j] * 3 + L[j] + I[1]
            I[1] = I[1] + 1
""")["main"]
    given = [np.array(x, np.int32) for x in ([1, -2, 3, 5], [7, 1, 0, 2], [3, 0])]
    wanted = ti.tir.interpret(function, *given)
    for found, expected in zip(ti.lift(function)(*given), wanted[1:], strict=True):
        np.testing.assert_array_equal(found, expected)
