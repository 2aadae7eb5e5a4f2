"""Storage that each iteration fills again: filled once where all fill it alike, and not where that would show."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.schedules import up_to_names

PLAIN = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    S = T.alloc_buffer((8,), "float32")
    for i in range(8):
        S[i] = T.float32(0)
        for k in range(6):
            S[i] = S[i] + A[i, k]
    for i, j in T.grid(8, 6):
        C[i, j] = A[i, j] - S[i]
"""

AGAIN_PER_TILE = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    S = T.alloc_buffer((8,), "float32")
    for i, t in T.grid(8, 2):
        S[i] = T.float32(0)
        for k in range(6):
            S[i] = S[i] + A[i, k]
        for j in range(4):
            with T.sblock("c"):
                T.where(t * 4 + j < 6)
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(6, t * 4 + j)
                C[vi, vj] = A[vi, vj] - S[vi]
"""

KEPT = {
    "read before it is full": """
    for t in range(4):
        S[0] = T.float32(0)
        C[t, 1] = S[0]
        for k in range(6):
            S[0] = S[0] + A[0, k]
        C[t, 0] = S[0]
""",
    "read while it is filled": """
    for t in range(4):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[0, k]
            C[t, k] = S[0]
""",
    "filled with what changes": """
    for t in range(4):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + C[0, k]
        C[0, t] = S[0] + A[t, 0]
""",
    "filled where the iteration says": """
    for t in range(4):
        S[0] = T.float32(0)
        for k in range(6):
            if k < t:
                S[0] = S[0] + A[0, k]
        C[0, t] = S[0]
""",
    "filled up to where the iteration says": """
    for t in range(4):
        S[0] = T.float32(0)
        for k in range(t + 1):
            S[0] = S[0] + A[0, k]
        C[0, t] = S[0]
""",
    "one copy for two": """
    for t in range(6):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[t // 2, k]
        C[0, t] = S[0] + A[t, 0]
""",
    "one copy for two and three": """
    for t in range(7):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[t // 2, k] * A[t // 3, k]
        C[t, 0] = S[0]
""",
    "alternating": """
    for t in range(6):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[t % 2, k]
        C[0, t] = S[0]
""",
    "one filled from another": """
    for t in range(6):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[t // 2, k]
        S[1] = T.float32(0)
        for k in range(6):
            S[1] = S[1] + A[0, k] * S[0]
        C[0, t] = S[1]
""",
    "from a loop that begins later": """
    for t in range(2, 6):
        S[0] = T.float32(0)
        for k in range(6):
            S[0] = S[0] + A[1, k]
        C[0, t] = S[0] * A[t, 1]
""",
    "filled again in a loop inside": """
    for t in range(4):
        for u in range(3):
            S[0] = T.float32(0)
            for k in range(6):
                S[0] = S[0] + A[u, k]
            C[t, u] = S[0]
        C[t, 3] = S[0]
""",
}


def test_sums_that_each_tile_takes_again_are_taken_once():
    plain, again = (up_to_names(str(ti.lift(ti.tir.parse(text)["main"]))) for text in (PLAIN, AGAIN_PER_TILE))
    assert again == plain


@pytest.mark.parametrize("name", KEPT)
def test_what_iterations_fill_has_the_values_of_the_text(name: str):
    head = PLAIN[: PLAIN.index("    for")]
    func = ti.tir.parse(head.replace("S = T.alloc_buffer((8,)", "S = T.alloc_buffer((2,)") + KEPT[name])["main"]
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-4, 5, (8, 6)).astype(np.float32) for _ in range(2)]
    wanted = ti.tir.interpret(func, *arrays)[1]
    np.testing.assert_array_equal(ti.lift(func)(*arrays)[0], wanted)
