"""Storage that data decide about: what an iteration fills under a condition, and reads under it, is its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir import tir

HEAD = """
@T.prim_func
def main(A: T.Buffer((5, 6), "float32"), n: T.Buffer((5,), "int32"), c: T.Buffer((5, 6), "int32"),
         O: T.Buffer((5, 6), "float32")):
    S = T.alloc_buffer((1,))
    R = T.alloc_buffer((6,))
    L = T.alloc_buffer((1,), "int32")
    for i in range(5):
"""

OWN = {
    "a fold of as many as data say": """
        for j in range(n[i]):
            S[0] = T.float32(0)
            for k in range(6):
                S[0] = S[0] + A[i, k] * A[i, j]
            O[i, j] = S[0]
""",
    "rows of as many as data say": """
        for j in range(n[i]):
            R[j] = A[i, j] * A[i, 0]
        for j in range(n[i]):
            O[i, j] = R[j] + T.float32(1)
""",
    "either of two stores": """
        for j in range(6):
            if c[i, j] > 0:
                S[0] = A[i, j] * A[i, 0]
            else:
                S[0] = A[i, 5 - j]
            O[i, j] = S[0]
""",
    "one of two stores under two conditions": """
        for j in range(6):
            if j < n[i] and (j < 2 or c[i, j] > 0):
                S[0] = A[i, j] * A[i, 0]
            else:
                S[0] = A[i, 5 - j]
            R[j] = S[0] * S[0]
        for j in range(6):
            O[i, j] = R[5 - j]
""",
    "a condition that is stored": """
        L[0] = T.max(n[i] - 1, 0)
        for j in range(6):
            if j < L[0]:
                S[0] = A[i, j] * A[i, 0]
            if j < L[0]:
                O[i, j] = S[0] + T.float32(1)
""",
    "fewer reads than stores": """
        for j in range(6):
            if c[i, j] > 0:
                S[0] = A[i, j] * A[i, 0]
            if c[i, j] > 0 and j < n[i]:
                O[i, j] = S[0] * S[0]
""",
    "a choice of what was stored": """
        for j in range(6):
            if c[i, j] > 0:
                S[0] = A[i, j] * A[i, 0]
            O[i, j] = T.if_then_else(c[i, j] > 0, S[0] * S[0], A[i, j])
""",
}

FIRST = """
        if i == 0:
            S[0] = T.float32(9)
            L[0] = 3
            for k in range(6):
                R[k] = T.Cast("float32", k)
"""

CARRIED = {
    "another condition": """
        for j in range(6):
            if c[i, j] > 0:
                S[0] = A[i, j]
            if c[i, 5 - j] > 0:
                O[i, j] = S[0]
""",
    "more reads than stores": """
        for j in range(6):
            if c[i, j] > 0 and j < n[i]:
                S[0] = A[i, j]
            if c[i, j] > 0:
                O[i, j] = S[0]
""",
    "the other case": """
        for j in range(6):
            if c[i, j] > 0:
                S[0] = A[i, j]
            else:
                O[i, j] = S[0]
""",
    "a condition that changes in between": """
        L[0] = n[i]
        for j in range(6):
            if j < L[0]:
                S[0] = A[i, j]
            L[0] = L[0] + 1
            if j < L[0]:
                O[i, j] = S[0]
""",
    "a condition that the store before changes": """
        L[0] = n[i]
        for j in range(6):
            if L[0] > 2:
                S[0] = A[i, j]
                L[0] = 0
            else:
                L[0] = 3
            if L[0] > 2:
                O[i, j] = S[0]
""",
    "a condition that the loop of the read changes": """
        for j in range(6):
            L[0] = c[i, j]
            if L[0] > 0:
                S[0] = A[i, j]
            for k in range(3):
                if L[0] > 0:
                    O[i, j] = O[i, j] + S[0]
                L[0] = c[i, (j + k) % 6]
""",
    "a condition of another iteration": """
        for j in range(6):
            L[0] = c[i, j]
            if L[0] > 0:
                R[j] = A[i, j]
        for j in range(6):
            if L[0] > 0:
                O[i, j] = R[j]
""",
    "a place of another iteration": """
        for j in range(n[i]):
            R[j] = A[i, j]
        for j in range(n[i]):
            O[i, j] = R[5 - j]
""",
    "a place that another iteration stores": """
        for j in range(n[i]):
            R[5 - j] = A[i, j]
        for j in range(n[i]):
            O[i, j] = R[j]
""",
    "a condition of an earlier iteration": """
        for j in range(6):
            for k in range(6):
                if c[i, k] > 0 and k > j:
                    O[i, k] = O[i, k] + S[0]
                if c[i, k] > 0:
                    S[0] = A[i, k]
""",
}


def data() -> list[Any]:
    rng = np.random.default_rng(3)
    c = rng.integers(0, 2, (5, 6)).astype(np.int32)
    return [rng.normal(size=(5, 6)).astype(np.float32), np.array([3, 6, 0, 5, 1], np.int32), c, np.zeros((5, 6), "f4")]


def both(body: str) -> tuple[Any, Any, ti.Lifted]:
    """What a kernel computes: by the lift, and by the interpreter, which finds nothing wrong."""
    function: Any = tir.parse(HEAD + body.lstrip("\n"))["main"]
    program, arrays = ti.lift(function), data()
    (found,) = program(*arrays)
    return np.asarray(found), tir.interpret(function, *arrays, checked=True)[-1], program


@pytest.mark.parametrize("body", OWN.values(), ids=OWN.keys())
def test_what_an_iteration_fills_first_is_its_own(body: str) -> None:
    found, wanted, program = both(body)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert "loop(" not in str(program) and "scan(" not in str(program)


@pytest.mark.parametrize("body", CARRIED.values(), ids=CARRIED.keys())
def test_what_it_may_find_of_another_is_not(body: str) -> None:
    found, wanted, _ = both(FIRST + body.lstrip("\n"))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
