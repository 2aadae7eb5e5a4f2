"""Loops inside of each other that run step by step: each stands once in the text and in XLA's program."""

import jax
import numpy as np
import pytest

import tensorir as ti
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
