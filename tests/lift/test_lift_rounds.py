"""What every round of a loop fills anew is no state of the loop, wherever it was filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.gradients import compared
from tests.lift.harness import steps_of

rng = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)


PROGRAMS = {
    "conjugate gradients": (
        """
@T.prim_func
def main(A: T.Buffer((5, 5), "float32"), b: T.Buffer((5,), "float32"), x: T.Buffer((5,), "float32")):
    r = T.alloc_buffer((5,), "float32")
    p = T.alloc_buffer((5,), "float32")
    Ap = T.alloc_buffer((5,), "float32")
    s = T.alloc_buffer((3,), "float32")
    s[0] = T.float32(0)
    for i in range(5):
        x[i] = T.float32(0)
        r[i] = b[i]
        p[i] = b[i]
        s[0] = s[0] + b[i] * b[i]
    for it in range(3):
        s[1] = T.float32(0)
        s[2] = T.float32(0)
        for i in range(5):
            Ap[i] = T.float32(0)
            for j in range(5):
                Ap[i] = Ap[i] + A[i, j] * p[j]
            s[1] = s[1] + p[i] * Ap[i]
        for i in range(5):
            x[i] = x[i] + s[0] / s[1] * p[i]
            r[i] = r[i] - s[0] / s[1] * Ap[i]
            s[2] = s[2] + r[i] * r[i]
        for i in range(5):
            p[i] = r[i] + s[2] / s[0] * p[i]
        s[0] = s[2]
""",
        (floats(5, 5) * 0.1 + np.diag([1, 2, 3, 4, 5]).astype(np.float32), floats(5), floats(5)),
    ),
    "what is computed for all rounds at once": (
        """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), W: T.Buffer((4, 4), "float32"), H: T.Buffer((4,), "float32")):
    g = T.alloc_buffer((4,), "float32")
    for t in range(2, 6):
        for j in range(4):
            g[j] = X[t, j] * X[t, j]
        for j, k in T.grid(4, 4):
            g[j] = g[j] + H[k] * W[k, j]
        for j in range(4):
            H[j] = T.tanh(g[j])
""",
        (floats(6, 4), floats(4, 4), floats(4)),
    ),
    "two loops around": (
        """
@T.prim_func
def main(X: T.Buffer((3, 2), "float32"), H: T.Buffer((4,), "float32")):
    g = T.alloc_buffer((4,), "float32")
    for t in range(3):
        for u in range(2):
            for j in range(4):
                g[j] = X[t, u]
            for j in range(4):
                g[j] = g[j] + H[3 - j] * H[j]
            for j in range(4):
                H[j] = T.sin(g[j])
""",
        (floats(3, 2), floats(4)),
    ),
    "rounds until a condition fails": (
        """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), H: T.Buffer((4,), "float32")):
    g = T.alloc_buffer((4,), "float32")
    t = T.alloc_buffer((1,), "int32")
    t[0] = 0
    while t[0] < 6 and H[0] < T.float32(30):
        for i in range(3):
            for j in range(4):
                if X[t[0], i] > T.float32(0.9):
                    g[j] = X[t[0], j] * H[j]
            for j in range(4):
                if X[t[0], i] > T.float32(0.9):
                    H[j] = H[j] + g[3 - j]
        t[0] = t[0] + 1
""",
        (floats(6, 4), floats(4)),
    ),
    "rounds that find what another one left": (
        """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), H: T.Buffer((4,), "float32")):
    g = T.alloc_buffer((4,), "float32")
    t = T.alloc_buffer((1,), "int32")
    t[0] = 0
    while t[0] < 6 and H[0] < T.float32(30):
        for j in range(4):
            if t[0] == 0:
                g[j] = T.float32(0.25)
            if X[t[0], 1] > T.float32(0.9):
                g[j] = X[t[0], j] * H[j]
        t[0] = t[0] + 1
        for j in range(4):
            if X[t[0] % 6, 1] > T.float32(0.9):
                H[j] = H[j] + g[3 - j]
""",
        (floats(6, 4), floats(4)),
    ),
    "read when the loop is over": (
        """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), H: T.Buffer((4,), "float32"), Y: T.Buffer((6, 4), "float32")):
    g = T.alloc_buffer((4,), "float32")
    for t in range(6):
        for j in range(4):
            g[j] = X[t, j]
        for j in range(4):
            g[j] = g[j] + H[3 - j] * H[j]
        for j in range(4):
            H[j] = T.sin(g[j])
        for j in range(4):
            Y[t, j] = g[j] + T.float32(1)
    for j in range(4):
        H[j] = H[j] + g[j]
""",
        (floats(6, 4), floats(4), floats(6, 4)),
    ),
    "filled in part": (
        """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), H: T.Buffer((4,), "float32")):
    g = T.alloc_buffer((4,), "float32")
    for j in range(4):
        g[j] = T.float32(0.25)
    for t in range(6):
        for j in range(3):
            g[j] = X[t, j]
        for j in range(4):
            g[j] = g[j] + H[3 - j] * H[j]
        for j in range(4):
            H[j] = T.sin(g[j])
""",
        (floats(6, 4), floats(4)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_round_fills_before_it_reads_it_is_not_carried(name: str):
    text, arrays = PROGRAMS[name]
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    wanted = ti.tir.interpret(function, *arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for k, got in zip(written, program(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=1e-4, atol=1e-5)
    assert steps_of(program) <= 2


def test_the_gradient_goes_through_what_rounds_fill():
    text, arrays = PROGRAMS["what is computed for all rounds at once"]
    program = ti.lift(ti.tir.retype(ti.tir.parse(text)["main"], float32="float64"))
    assert compared(program, [a.astype(np.float64) for a in arrays], [0, 1, 2], [0]).right
