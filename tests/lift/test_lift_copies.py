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


PLAIN_ROWS = """
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
    M = T.alloc_buffer((3,), "float32")
    for i in range(3):
        M[i] = T.float32(-9)
        for k in range(4):
            M[i] = T.max(M[i], A[i, k])
    for i, j in T.grid(3, 4):
        B[i, j] = A[i, j] - M[i]
"""
ROWS_AGAIN = {
    "in each element's iteration": """
    for t in T.parallel(12):
        for u in range(1):
            M[t // 4 + u] = T.float32(-9)
        for k in range(4):
            M[t // 4] = T.max(M[t // 4], A[t // 4, k])
        B[t // 4, t % 4] = A[t // 4, t % 4] - M[t // 4]
""",
    "in parts, which the whole reads as they are made": """
    for t in T.parallel(12):
        for p in range(2):
            R[t // 4, p] = T.float32(-9)
        M[t // 4] = T.float32(-9)
        for p in range(2):
            for k in range(2):
                R[t // 4, p] = T.max(R[t // 4, p], A[t // 4, p * 2 + k])
            M[t // 4] = T.max(M[t // 4], R[t // 4, p])
        B[t // 4, t % 4] = A[t // 4, t % 4] - M[t // 4]
""",
    "for tiles of rows": """
    for t in T.parallel(8):
        for r, k in T.grid(2, 4):
            if t // 4 * 2 + r < 3:
                if k == 0:
                    M[t // 4 * 2 + r] = T.float32(-9)
                M[t // 4 * 2 + r] = T.max(M[t // 4 * 2 + r], A[t // 4 * 2 + r, k])
        for r in range(2):
            if t // 4 * 2 + r < 3:
                B[t // 4 * 2 + r, t % 4] = A[t // 4 * 2 + r, t % 4] - M[t // 4 * 2 + r]
""",
}
HEAD_OF_ROWS = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
    M = T.sblock_alloc_buffer((3,), "float32")
    R = T.sblock_alloc_buffer((3, 2), "float32")"""


@pytest.mark.parametrize("body", ROWS_AGAIN.values(), ids=ROWS_AGAIN)
def test_what_every_element_of_a_row_computes_again_is_computed_once(body: str):
    function = ti.tir.parse(HEAD_OF_ROWS + body)["main"]
    program = ti.lift(function)
    assert up_to_names(str(program)) == up_to_names(str(ti.lift(ti.tir.parse(PLAIN_ROWS)["main"])))
    a = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    wanted = a - a.max(1, keepdims=True)
    np.testing.assert_array_equal(program(a, None)[0], wanted)
    np.testing.assert_array_equal(ti.tir.interpret(function, a, np.zeros_like(a), checked=True)[1], wanted)


TABLES = """
@T.prim_func
def main(A: T.Buffer((3, 20), "float32"), C: T.Buffer((3, 9), "float32")):
    P = T.alloc_buffer((9,), "int64")
    Q = T.alloc_buffer((9,), "int64")
    M = T.alloc_buffer((9,), "bool")
    for j in range(9):
        P[j] = T.Cast("int64", j)
    for j in range(9):
        Q[j] = P[j] * T.int64(2) + T.int64(1)
    for j in range(9):
        M[j] = P[j] % T.int64(3) == T.int64(0) and P[j] < T.int64(7)
    for i, j in T.grid(3, 9):
        C[i, j] = T.if_then_else(M[j], A[i, Q[j] + T.int64(1)], T.float32(0))
"""
TOLD = """
@T.prim_func
def main(A: T.Buffer((3, 20), "float32"), C: T.Buffer((3, 9), "float32")):
    for i, j in T.grid(3, 9):
        C[i, j] = T.if_then_else(
            T.Cast("int64", j) % T.int64(3) == T.int64(0) and T.Cast("int64", j) < T.int64(7),
            A[i, T.Cast("int64", j) * T.int64(2) + T.int64(1) + T.int64(1)], T.float32(0))
"""


def test_places_and_truths_that_coordinates_tell_are_told_where_they_are_asked_for():
    program, told = (ti.lift(ti.tir.parse(text)["main"]) for text in (TABLES, TOLD))
    assert up_to_names(str(program)) == up_to_names(str(told))
    a = np.arange(60, dtype=np.float32).reshape(3, 20)
    wanted = np.where([j % 3 == 0 and j < 7 for j in range(9)], a[:, 2:20:2], 0)
    np.testing.assert_array_equal(program(a, None)[0], wanted)
