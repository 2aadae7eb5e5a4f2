"""Values that one statement names for another: computed where they are used, unless what they read changes between."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.schedules import up_to_names

SUMS = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), S: T.Buffer((8,), "float32"), Q: T.Buffer((8,), "float32")):
    for i in range(8):
        S[i] = T.float32(0)
        Q[i] = T.float32(0)
    for i, k in T.grid(8, 6):
        S[i] = S[i] + A[i, k]
        Q[i] = Q[i] + A[i, k] * A[i, k]
"""

NAMED = (
    SUMS[: SUMS.index("        S[i] = S[i] + A")]
    + """
        s: T.let[T.float32] = S[i] + A[i, k]
        q: T.let[T.float32] = Q[i] + A[i, k] * A[i, k]
        S[i] = s
        Q[i] = q
"""
)

HEAD = SUMS[: SUMS.index("    for i in range(8):")]
BODIES = {
    "what it reads is written before it is used": """
    for i in range(8):
        S[i] = A[i, 0]
        Q[i] = A[i, 1]
    for i in range(8):
        s: T.let[T.float32] = S[i]
        S[i] = Q[i]
        Q[i] = s
""",
    "each reads what the other writes": """
    for i in range(8):
        S[i] = T.float32(1)
        Q[i] = T.float32(2)
    for i, k in T.grid(8, 6):
        s: T.let[T.float32] = S[i] + Q[i] * A[i, k]
        q: T.let[T.float32] = Q[i] + S[i] * A[i, k]
        S[i] = s
        Q[i] = q
""",
    "one names another": """
    for i in range(8):
        S[i] = T.float32(1)
        Q[i] = T.float32(2)
    for i, k in T.grid(8, 6):
        s: T.let[T.float32] = S[i] + A[i, k]
        t: T.let[T.float32] = s * T.float32(2)
        S[i] = A[i, 0]
        Q[i] = Q[i] + t
""",
    "used under a condition": """
    for i in range(8):
        S[i] = T.float32(1)
        Q[i] = T.float32(2)
    for i, k in T.grid(8, 6):
        s: T.let[T.float32] = S[i] + A[i, k]
        if k > i:
            S[i] = s
""",
    "how far a loop goes": """
    for i in range(8):
        S[i] = T.float32(1)
        Q[i] = T.float32(2)
    for i in range(8):
        n: T.let[T.int32] = i % 3 + 1
        for k in range(n):
            S[i] = S[i] + A[i, k]
        Q[i] = S[i] * T.Cast("float32", n)
""",
}


def test_sums_whose_next_values_have_names_are_sums():
    one, other = (up_to_names(str(ti.lift(ti.tir.parse(text)["main"]))) for text in (SUMS, NAMED))
    assert other == one


@pytest.mark.parametrize("name", BODIES)
def test_named_values_are_those_of_where_they_are_named(name: str):
    func = ti.tir.parse(HEAD + BODIES[name])["main"]
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in ((8, 6), (8,), (8,))]
    wanted = ti.tir.interpret(func, *arrays)[1:]
    for found, expected in zip(ti.lift(func)(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
