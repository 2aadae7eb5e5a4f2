"""Storage whose places tell what they hold: it is filled once, however often iterations fill parts of it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of
from tests.lift.harness import near

HEAD = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((8, 3), "float32")):
    D = T.alloc_buffer(({0},), "float32")
"""
AT_ONCE = """
    for p in range({0}):
        D[p] = {1}
    for i, r in T.grid(8, 3):
        B[i, r] = D[{2}]
"""
AGAIN = """
    for i in range(8):
        for r in range(3):
            if {3}:
                D[{2}] = {1}
        for r in range(3):
            B[i, r] = D[{2}]
"""


def lifted(text: str) -> tuple[ti.tir.PrimFunc, ti.Lifted]:
    function = ti.tir.parse(text)["main"]
    return function, ti.lift(function)


@pytest.mark.parametrize(
    ("size", "value", "place", "guard"),
    [
        (10, "T.if_then_else({0} % 2 == 0, A[{0} // 2], T.float32(1))", "i + r", "i + r < 10"),
        (9, "A[8 - {0}]", "T.if_then_else(i + r < 9, i + r, 0)", "i + r < 9"),
        (17, "T.if_then_else({0} % 3 == 1, A[{0} // 3], T.float32(2))", "i * 2 + r", "True"),
        (10, "A[{0}] * A[9 - {0}]", "7 - i + r", "7 - i + r >= 0"),
    ],
    ids=["sum", "end", "steps", "backwards"],
)
def test_what_parts_share_takes_what_is_filled_at_once(size: int, value: str, place: str, guard: str):
    args = (size, value.format(f"({place})"), place, guard)
    function, program = lifted(HEAD.format(size) + AGAIN.format(*args))
    _, base = lifted(HEAD.format(size) + AT_ONCE.format(size, value.format("p"), place))
    a, b = np.random.default_rng(0).normal(size=12).astype(np.float32), np.zeros((8, 3), np.float32)
    wanted = ti.tir.interpret(function, a, b)[1]
    np.testing.assert_array_equal(program(a, b)[0], wanted)
    np.testing.assert_array_equal(base(a, b)[0], wanted)
    if "if_then_else" not in place:
        near(program, base)


@pytest.mark.parametrize(
    ("value", "place", "guard"),
    [
        ("A[i] + A[r]", "i + r", "True"),  # which iteration was the last one tells the value
        ("A[i + r]", "i + r", "r == 2 or i == 0"),  # who fills an element is not told by its place
        ("A[i * 2 % 12]", "i * 4 + r", "True"),  # places between parts are left out
        ("B[(i + r) % 8, 0]", "i + r", "True"),  # what is read changes in between
    ],
)
def test_what_places_do_not_tell_is_filled_by_each_iteration(value: str, place: str, guard: str):
    function, program = lifted(HEAD.format(40) + AGAIN.format(0, value, place, guard))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12).astype(np.float32), rng.normal(size=(8, 3)).astype(np.float32)
    np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b)[1])


KERNEL = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4, 8), "float32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        L = T.alloc_buffer((1,), "float32", scope="local")
        W = T.alloc_buffer((10,), "float32", scope="local")
        L[0] = A[t] * T.float32(2)
        for i, r in T.grid(8, 3):
            W[i + r] = L[0] * T.Cast("float32", i + r)
        T.tvm_storage_sync("shared")
        for i in range(8):
            B[t, i] = W[i + 2]
"""


def test_what_a_thread_fills_with_what_it_keeps_to_itself_is_filled_by_each_thread():
    function, program = lifted(KERNEL)
    a, b = np.arange(1, 5, dtype=np.float32), np.zeros((4, 8), np.float32)
    np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b)[1])


WINDOW = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), I: T.Buffer((19,), "int32"), B: T.Buffer((8, 3), "float32")):
    D = T.alloc_buffer((19,), "float32")
    for i in range(8):
        for r in range(3):
            D[{1}] = {0}
        for r in range(3):
            B[i, r] = D[{1}]
"""


@pytest.mark.parametrize("place", ["i * 2 + r * 2", "r"])
@pytest.mark.parametrize("value", ["T.if_then_else(i + r < 6, A[i * 2 + r * 2], T.float32(1))", "A[I[i * 2 + r * 2]]"])
def test_a_window_of_every_other_element_asks_nothing_of_those_in_between(value: str, place: str):
    function, program = lifted(WINDOW.format(value, place))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12).astype(np.float32), np.zeros((8, 3), np.float32)
    indices = np.where(np.arange(19) % 2, 99, rng.integers(0, 12, 19)).astype(np.int32)
    np.testing.assert_array_equal(program(a, indices, b)[0], ti.tir.interpret(function, a, indices, b)[2])


TILES = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((6, 2), "float32")):
    D = T.alloc_buffer(({0},), "float32")
    for t in range(3):
        for r in range(T.max(t * 2 // 3 * 2, (t * 2 + 1) // 3 * 2 + 1) + 1 - t * 2 // 3 * 2):
            D[{1} + r] = A[t * 2 // 3 * 2 + r] * T.float32(2)
        for f, r in T.grid(2, 2):
            B[t * 2 + f, r] = D[{2} + r]
"""


@pytest.mark.parametrize("own", [False, True], ids=["in place", "from its own start"])
def test_tiles_that_straddle_what_is_divided_are_taken_at_once(own: bool):
    start = "t * 2 // 3 * 2"
    places = ("0", f"(t * 2 + f) // 3 * 2 - {start}") if own else (start, "(t * 2 + f) // 3 * 2")
    function, program = lifted(TILES.format(4, *places))
    a, b = np.random.default_rng(0).normal(size=4).astype(np.float32), np.zeros((6, 2), np.float32)
    np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b)[1])
    if not own:
        assert not (costs_of(program).loops or costs_of(program).folds), str(program)


HOLES = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), I: T.Buffer((6,), "int32"), B: T.Buffer((3, 2), "float32")):
    D = T.alloc_buffer((4,), "float32")
    for t in range(3):
        for r in range(4):
            if r % 3 == 0:
                D[r] = A[I[t * 2 // 3 * 2 + r]]
        for f in range(2):
            B[t, f] = D[f * 3]
"""


def test_indices_that_no_iteration_reads_are_asked_of_nobody():
    function, program = lifted(HOLES)
    a, b = np.arange(4, dtype=np.float32), np.zeros((3, 2), np.float32)
    indices = np.array([1, 99, 0, 3, 99, 2], np.int32)
    np.testing.assert_array_equal(program(a, indices, b)[0], ti.tir.interpret(function, a, indices, b)[2])


CONVOLUTION = """
@T.prim_func
def main(A: T.Buffer((1, 4, 13, 12), "float32"), W: T.Buffer((4, 5, 3), "float32"), C: T.Buffer((4, 4), "float32")):
    P = T.alloc_buffer((1, 4, 15, 14), "float32")
    for c, i, j in T.grid(4, 15, 14):
        P[0, c, i, j] = T.if_then_else(1 <= i and i < 14 and 1 <= j and j < 13, A[0, c, i - 1, j - 1], T.float32(0))
"""
AS_IT_IS = """
    for y, x, c, b, d in T.grid(4, 4, 4, 5, 3):
        if c == 0 and b == 0 and d == 0:
            C[y, x] = T.float32(0)
        C[y, x] = C[y, x] + P[0, c, y * 3 + b, x * 3 + d] * W[c, b, d]
"""
FETCHED = """
    S = T.alloc_buffer((1, 4, 15, 14), "float32")
    for y, x, c_0 in T.grid(4, 4, 2):
        for a, b, d in T.grid(2, 5, 3):
            S[0, c_0 * 2 + a, y * 3 + b, x * 3 + d] = P[0, c_0 * 2 + a, y * 3 + b, x * 3 + d]
        for a, b, d in T.grid(2, 5, 3):
            if c_0 == 0 and a == 0 and b == 0 and d == 0:
                C[y, x] = T.float32(0)
            C[y, x] = C[y, x] + S[0, c_0 * 2 + a, y * 3 + b, x * 3 + d] * W[c_0 * 2 + a, b, d]
"""


def test_axes_that_are_named_after_other_axes_of_their_buffer_have_names_of_their_own():
    _, base = lifted(CONVOLUTION + AS_IT_IS)
    _, program = lifted(CONVOLUTION + FETCHED)
    near(program, base)
