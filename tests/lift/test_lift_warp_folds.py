"""Trees of shuffles: those that sum up are folds in the text, all others are done step by step; the numbers are one."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of
from tests.lift.harness import figures, operations

HEAD = """@T.prim_func
def main(A: T.Buffer(({0},), "{1}"), B: T.Buffer(({0},), "{1}")):
    for t in T.thread_binding({0}, thread="threadIdx.x"):
        S = T.alloc_buffer((1,), "{1}", scope="local")
        O = T.alloc_buffer((1,), "{1}", scope="local")
        S[0] = A[t]
"""


def down(offset: int, width: int = 32, of: str = "S[0] + O[0]") -> str:
    return f"O[0] = T.tvm_warp_shuffle_down(-1, S[0], {offset}, {width}, 32)\nS[0] = {of}\n"


def across(offset: int, width: int = 32) -> str:
    return f"S[0] = T.tvm_warp_shuffle_xor(-1, S[0], {offset}, {width}, 32) + S[0]\n"


def down_of(to: str, of: str, shuffled: str, offset: int) -> str:
    return f"{to} = {of} + T.tvm_warp_shuffle_down(-1, {shuffled}, {offset}, 32, 32)\n"


PAIR = 'V = T.alloc_buffer((2,), "int32", scope="local")\nV[0] = A[t]\nV[1] = A[t] * 3 + 1\n'
VIEW = """X = T.alloc_buffer((1,), "int32", scope="local")
X[0] = A[t] * 2
W = T.decl_buffer((1,), "int32", data={}.data, scope="local")
"""
TREE = "".join(down(k) for k in (16, 8, 4, 2, 1))
TO_ALL = "S[0] = T.tvm_warp_shuffle(-1, S[0], 0, 32, 32)\nB[t] = S[0]"
IN_A_LOOP = "for k in T.unroll(5):\n    S[0] = S[0] + T.tvm_warp_shuffle_down(-1, S[0], T.shift_right(16, k), 32, 32)\n"
FOLDS: dict[str, tuple[str, int]] = {
    "down, handed to all": (TREE + TO_ALL, 32),
    "down, in two warps": (TREE + TO_ALL, 64),
    "down, in another order": ("".join(down(k) for k in (1, 4, 2, 16, 8)) + TO_ALL, 32),
    "down, read by the first": (TREE + "if t == 0:\n    B[0] = S[0]", 32),
    "down, read by the first of each warp": (TREE + "if t % 32 == 0:\n    B[t // 32] = S[0]", 96),
    "down, read by the last warp's first": (TREE + "if t == 64:\n    B[3] = S[0]", 96),
    "down, in eights": ("".join(down(k, 8) for k in (4, 2, 1)) + "if t % 8 == 0:\n    B[t] = S[0]", 24),
    "down, four of a warp": (down(2) + down(1) + "if t % 4 == 0:\n    B[t] = S[0]", 16),
    "down, in a loop": (IN_A_LOOP + TO_ALL, 32),
    "across": ("".join(across(k) for k in (1, 2, 4, 8, 16)) + "B[t] = S[0]", 64),
    "across in eights": ("".join(across(k, 8) for k in (4, 1, 2)) + "B[t] = S[0]", 40),
    "a maximum": ("".join(down(k, 32, "T.max(S[0], O[0])") for k in (16, 8, 4, 2, 1)) + TO_ALL, 32),
    "a minimum, what is handed on first": (
        "".join(down(k, 32, "T.min(O[0], S[0])") for k in (8, 4, 16, 1, 2)) + TO_ALL,
        32,
    ),
    "a product of four": (
        down(2, 4, "S[0] * O[0]") + down(1, 4, "S[0] * O[0]") + "if t % 4 == 0:\n    B[t] = S[0]",
        32,
    ),
    "down, in a loop that begins at two": (
        "for k in T.unroll(2, 7):\n    S[0] = T.tvm_warp_shuffle_down(-1, S[0], T.shift_right(64, k), 32, 32) + S[0]\n"
        + TO_ALL,
        32,
    ),
    "down, read by the first of the odd eights": (
        "".join(down(k, 8) for k in (4, 2, 1)) + "if t % 16 == 8:\n    B[t] = S[0]",
        32,
    ),
    "beside another name of other memory": (
        VIEW.format("X") + TREE + "if t == 0:\n    B[0] = S[0] + W[0]",
        32,
    ),
    "twice": (
        TREE + TO_ALL.replace("B[t] = S[0]", "S[0] = S[0] + A[t]\n") + IN_A_LOOP + "if t == 0:\n    B[0] = S[0]",
        32,
    ),
}
TREES: dict[str, tuple[str, int]] = {
    "what the others hold is read": (TREE + "B[t] = S[0]", 32),
    "what some others hold is read": (TREE + "if t % 8 == 0:\n    B[t] = S[0]", 32),
    "where data tell": (TREE + "if A[t] > 3:\n    B[t] = S[0]", 32),
    "what was handed on is read": (TREE + "if t == 0:\n    B[0] = S[0]\nB[t] = O[0]", 32),
    "an offset is missing": (down(16) + down(4) + down(2) + down(1) + TO_ALL, 32),
    "an offset comes twice": (TREE + down(1) + TO_ALL, 32),
    "threads are missing": (TREE + TO_ALL, 20),
    "the last warp is not whole": (TREE + TO_ALL, 40),
    "across, the last warp is not whole": ("".join(across(k) for k in (1, 2, 4, 8, 16)) + "B[t] = S[0]", 40),
    "beyond the group": ("".join(down(k, 8) for k in (8, 4, 2, 1)) + "if t == 0:\n    B[0] = S[0]", 32),
    "with itself": (across(1)[: -len(" + S[0]\n")] + "\nS[0] = T.max(S[0], S[0])\nB[t] = S[0]", 32),
    "two kinds": (down(1) + across(2) + "if t == 0:\n    B[0] = S[0]", 32),
    "two operations": (down(2) + down(1, 32, "T.max(S[0], O[0])") + "if t == 0:\n    B[0] = S[0]", 32),
    "two widths": (down(2, 4) + down(1, 8) + "if t % 4 == 0:\n    B[t] = S[0]", 32),
    "upwards": (TREE.replace("_down", "_up") + "if t == 31:\n    B[0] = S[0]", 32),
    "of itself": ("S[0] = T.tvm_warp_shuffle_down(-1, S[0], 1, 32, 32)\nS[0] = S[0] + S[0]\n" + TO_ALL, 32),
    "of another element": (PAIR + down_of("V[0]", "V[0]", "V[1]", 1) + "if t == 0:\n    B[0] = V[0]", 32),
    "into another element": (PAIR + down_of("V[1]", "V[0]", "V[0]", 1) + "if t == 0:\n    B[0] = V[0]", 32),
    "now this, now that element": (
        PAIR + down_of("V[0]", "V[0]", "V[0]", 2) + down_of("V[1]", "V[1]", "V[1]", 1)
        + "if t == 0:\n    B[0] = V[0] * V[1]", 32,
    ),
    "beside what was handed on": (
        PAIR + "V[0] = T.tvm_warp_shuffle_down(-1, S[0], 1, 32, 32)\nS[0] = S[0] + V[1]\nif t == 0:\n    B[0] = S[0]",
        32,
    ),
    "read by one in the middle": (TREE + "if t == 5:\n    B[0] = S[0]", 32),
    "read by nobody": (TREE + "if t < 0:\n    B[0] = S[0]\nB[t] = S[0]", 32),
    "read in the condition": (TREE + "if S[0] > 3:\n    B[t] = S[0]", 32),
    "read before": ("B[t] = S[0]\n" + TREE + "if t == 0:\n    B[0] = S[0]", 32),
    "read behind": (TREE + "if t == 0:\n    B[0] = S[0]\nB[t] = B[t] + S[0]", 32),
    "handed on by the second": (TREE + TO_ALL.replace("S[0], 0", "S[0], 1"), 32),
    "handed on to another": (TREE + "O[0] = T.tvm_warp_shuffle(-1, S[0], 0, 32, 32)\nB[t] = S[0] + O[0]", 32),
    "what was handed on has another name": (VIEW.format("O") + TREE + "if t == 0:\n    B[0] = S[0]\nB[t] = W[0]", 32),
    "under a condition": ("if t < 16:\n" + "".join(f"    {line}\n" for line in (TREE + TO_ALL).splitlines()), 32),
    "round after round": (
        "for r in range(3):\n" + "".join(f"    {line}\n" for line in TREE.splitlines()) + "    if t == 0:\n"
        "        B[r] = S[0]", 32,
    ),
}  # fmt: skip


def lifted(body: str, size: int, element: str = "int32", numerics: str = "fast") -> tuple[ti.Lifted, list[np.ndarray]]:
    text = HEAD.format(size, element) + "".join(f"        {line}\n" for line in body.splitlines())
    func = ti.tir.parse(text)["main"]
    rng = np.random.default_rng(size)
    arrays = [rng.integers(-9, 9, size).astype(element) for _ in range(2)]
    program = ti.lift(func, numerics=numerics)
    np.testing.assert_array_equal(program(*arrays)[0], ti.tir.interpret(func, *arrays)[1])
    return program, arrays


@pytest.mark.parametrize("body, size", FOLDS.values(), ids=FOLDS)
def test_a_tree_of_shuffles_that_sums_up_is_a_fold(body: str, size: int):
    program, _ = lifted(body, size)
    assert costs_of(program).loops == 0


@pytest.mark.parametrize("body, size", TREES.values(), ids=TREES)
def test_any_other_row_of_shuffles_is_done_step_by_step(body: str, size: int):
    program, _ = lifted(body, size)
    assert "reduce" not in operations(program)


def test_a_warp_that_sums_up_for_all_is_the_sum():
    program, _ = lifted(TREE + "if t == 0:\n    B[0] = S[0]", 32)
    again, _ = lifted("".join(across(k) for k in (1, 2, 4, 8, 16)) + "if t == 0:\n    B[0] = S[0]", 32)
    assert figures(again) == figures(program)


def test_the_order_of_sums_is_told_and_kept_where_it_counts():
    body = TREE + "if t == 0:\n    B[0] = S[0]"
    program, _ = lifted(body, 32, "float32")
    assert "line 8: a tree of shuffles is one fold, which takes its terms in another order." in str(program.report)
    exact, _ = lifted(body, 32, "float32", "exact")
    assert "reduce" not in operations(exact)
