"""Folds that threads do step by step in shared memory are one fold, or one prefix."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import tensorir as ti
from tensorir.lifting.program import Lifted
from tests.lift.costs import costs_of
from tests.lift.harness import figures, steps_of

BARRIER = 'T.evaluate(T.tvm_storage_sync("shared"))'
STEPS = {
    "halves": """
            for k in range(4):
                if t < T.shift_right(8, k):
                    S[t] = S[t] + S[t + T.shift_right(8, k)]
                BARRIER
""",
    "pairs": """
            for k in range(4):
                if t % T.shift_left(2, k) == 0:
                    S[t] = S[t] + S[t + T.shift_left(1, k)]
                BARRIER
""",
    "pairs side by side": """
            for k in range(4):
                if T.shift_left(2, k) * t < 16:
                    S[T.shift_left(2, k) * t] += S[T.shift_left(2, k) * t + T.shift_left(1, k)]
                BARRIER
""",
    "in a while": """
            s = T.alloc_buffer((1,), "int32", scope="local")
            s[0] = 8
            while s[0] > 0:
                if t < s[0]:
                    S[t] = S[t] + S[t + s[0]]
                BARRIER
                s[0] = s[0] // 2
""",
    "in a while of uneven steps": """
            s = T.alloc_buffer((1,), "int32", scope="local")
            s[0] = 16
            while s[0] > 1:
                if t < s[0] * 2 // 5:
                    S[t] = S[t] + S[t + s[0] - s[0] * 2 // 5]
                BARRIER
                s[0] = T.min(s[0] - s[0] * 2 // 5, s[0] - 1)
            if t == 0:
                S[0] = S[0] + S[1]
            BARRIER
""",
    "each with its neighbour": """
            L = T.alloc_buffer((1,), "float32", scope="local")
            for k in range(4):
                L[0] = S[T.bitwise_xor(t, T.shift_left(1, k))]
                BARRIER
                S[t] = S[t] + L[0]
                BARRIER
""",
    "prefixes": """
            L = T.alloc_buffer((1,), "float32", scope="local")
            for k in range(4):
                if t >= T.shift_left(1, k):
                    L[0] = S[t - T.shift_left(1, k)]
                BARRIER
                if t >= T.shift_left(1, k):
                    S[t] = S[t] + L[0]
                BARRIER
""",
    "prefixes that each thread adds to": """
            L = T.alloc_buffer((1,), "float32", scope="local")
            for k in range(4):
                L[0] = S[t]
                if t >= T.shift_left(1, k):
                    L[0] = L[0] + S[t - T.shift_left(1, k)]
                BARRIER
                S[t] = L[0]
                BARRIER
""",
    "prefixes by way of another buffer": """
            R = T.alloc_buffer((16,), "float32", scope="shared")
            for k in range(2):
                if t >= T.shift_left(1, 2 * k):
                    R[t] = S[t] + S[t - T.shift_left(1, 2 * k)]
                else:
                    R[t] = S[t]
                BARRIER
                if t >= T.shift_left(2, 2 * k):
                    S[t] = R[t] + R[t - T.shift_left(2, 2 * k)]
                else:
                    S[t] = R[t]
                BARRIER
""",
    "prefixes up and down": """
            L = T.alloc_buffer((1,), "float32", scope="local")
            for k in range(4):
                if t < T.shift_right(8, k):
                    S[T.shift_left(2 * t + 2, k) - 1] += S[T.shift_left(2 * t + 1, k) - 1]
                BARRIER
            if t == 0:
                S[15] = T.float32(0)
            BARRIER
            for j in range(4):
                if t < T.shift_left(1, j):
                    L[0] = S[T.shift_left(2 * t + 1, 3 - j) - 1]
                    S[T.shift_left(2 * t + 1, 3 - j) - 1] = S[T.shift_left(2 * t + 2, 3 - j) - 1]
                    S[T.shift_left(2 * t + 2, 3 - j) - 1] += L[0]
                BARRIER
""",
    "two numbers at a time": """
            for k in range(3):
                if t < T.shift_right(8, k):
                    S[t] = S[t] + S[t + T.shift_right(8, k)]
                BARRIER
""",
}


def kernel(steps: str, behind: str) -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer((3, 16), "float32"), B: T.Buffer((3, 16), "float32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            S = T.alloc_buffer((16,), "float32", scope="shared")
            S[t] = A[b, t]
            BARRIER
{steps}
            B[b, t] = {behind}
""".replace("BARRIER", BARRIER)


def lifted(text: str, *shapes: tuple[int, ...], exactly: bool = True) -> Lifted:
    """The lifted kernel, of which the numbers are right: bit for bit, where asked for and each function is."""
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    rng = np.random.default_rng(7)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    wanted = ti.tir.interpret(function, *arrays, checked=True)[-1]
    np.testing.assert_allclose(program(*arrays)[-1], wanted, rtol=1e-5, atol=1e-5)
    if exactly:
        np.testing.assert_array_equal(ti.lift(function, numerics="exact")(*arrays)[-1], wanted)
    return program


@pytest.mark.parametrize("steps", [s for name, s in STEPS.items() if "prefixes" not in name and "two" not in name])
def test_a_tree_is_one_fold(steps: str):
    program = lifted(kernel(steps, "A[b, t] - S[0] / T.float32(16)"), (3, 16), (3, 16))
    assert figures(program) == "0 0 0 3"
    assert "a tree of steps is one fold, which takes its terms in another order" in str(program.report)


@pytest.mark.parametrize("steps", [s for name, s in STEPS.items() if "prefixes" in name])
def test_steps_that_leave_the_sums_of_all_places_before_are_a_scan(steps: str):
    program = lifted(kernel(steps, "S[t]"), (3, 16), (3, 16))
    costs = costs_of(program)
    assert (costs.loops, costs.folds, costs.gathers) == (0, 1, 0)


def test_places_that_hold_parts_are_folds_of_these():
    program = lifted(kernel(STEPS["two numbers at a time"], "S[0] - S[1]"), (3, 16), (3, 16))
    assert steps_of(program) == 0


def test_what_other_places_hold_is_what_the_steps_leave_there():
    assert steps_of(lifted(kernel(STEPS["halves"], "S[t]"), (3, 16), (3, 16)))


def test_steps_that_data_decide_stay_steps():
    steps = STEPS["halves"].replace("S[t] = S[t] +", "S[t] = S[t] + T.Cast('float32', S[t] > T.float32(0)) *")
    assert steps_of(lifted(kernel(steps, "S[0]"), (3, 16), (3, 16)))


BEHIND = """
                else:
                    L[0] = S[t]
                BARRIER
                S[t] = L[0]
                BARRIER
"""


def test_steps_that_count_a_place_twice_stay_steps():
    steps = STEPS["halves"].replace("if t < T.shift_right(8, k)", "if t + T.shift_right(8, k) < 16")
    steps = steps.replace("S[t] = S[t] + S[t + T.shift_right(8, k)]", "L[0] = S[t] + S[t + T.shift_right(8, k)]")
    steps = steps.replace("BARRIER", BEHIND.strip("\n "))
    program = lifted(
        kernel('            L = T.alloc_buffer((1,), "float32", scope="local")' + steps, "S[t]"), (3, 16), (3, 16)
    )
    assert steps_of(program)


def test_softmax_by_two_trees_over_one_buffer():
    largest = STEPS["halves"].replace("S[t] + S[t + T.shift_right(8, k)]", "T.max(S[t], S[t + T.shift_right(8, k)])")
    between = """
            M = T.alloc_buffer((1,), "float32", scope="local")
            M[0] = S[0]
            BARRIER
            S[t] = T.exp(A[b, t] - M[0])
            BARRIER
"""
    program = lifted(
        kernel(largest + between + STEPS["halves"], "T.exp(A[b, t] - M[0]) / S[0]"), (3, 16), (3, 16), exactly=False
    )
    assert figures(program) == "0 0 0 5"


def test_a_tree_in_a_loop_is_a_fold_of_every_iteration():
    text = f"""
@T.prim_func
def main(A: T.Buffer((3, 16), "float32"), B: T.Buffer((3,), "float32")):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        S = T.alloc_buffer((16,), "float32", scope="shared")
        for b in range(3):
            S[t] = A[b, t]
            {BARRIER}
            for k in range(4):
                if t < T.shift_right(8, k):
                    S[t] = S[t] + S[t + T.shift_right(8, k)]
                {BARRIER}
            if t == 0:
                B[b] = S[0]
            {BARRIER}
"""
    assert figures(lifted(text, (3, 16), (3,))) == "0 0 0 1"
    # what the steps leave is what the next iteration begins with
    carried = text.replace("S[t] = A[b, t]", "S[t] = T.if_then_else(b == 0, T.float32(0), S[t]) + A[b, t]")
    lifted(carried, (3, 16), (3,))


def test_trees_along_either_index_of_two():
    text = f"""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32")):
    for y in T.thread_binding(4, thread="threadIdx.y"):
        for x in T.thread_binding(8, thread="threadIdx.x"):
            S = T.alloc_buffer((32,), "float32", scope="shared")
            S[y * 8 + x] = A[y, x]
            {BARRIER}
            for k in range(2):
                if y < T.shift_right(2, k):
                    S[y * 8 + x] = S[y * 8 + x] + S[(y + T.shift_right(2, k)) * 8 + x]
                {BARRIER}
            if y == 0:
                B[x] = S[x]
"""
    assert figures(lifted(text, (4, 8), (8,))) == "0 0 0 1"
    rows = text.replace("(32,)", "(4, 8)").replace("S[y * 8 + x]", "S[y, x]").replace("T.Buffer((8,)", "T.Buffer((4,)")
    rows = rows.replace("range(2)", "range(3)").replace("if y < T.shift_right(2, k)", "if x < T.shift_right(4, k)")
    rows = rows.replace("S[(y + T.shift_right(2, k)) * 8 + x]", "S[y, x + T.shift_right(4, k)]")
    rows = rows.replace("if y == 0", "if x == 0").replace("B[x] = S[x]", "B[y] = S[y, 0]")
    assert figures(lifted(rows, (4, 8), (4,))) == "0 0 0 1"


def written_out(steps: str) -> str:
    declared, _, step = steps.rpartition("            for k in range(4):\n")
    rounds = [re.sub(r"\bk\b", str(k), textwrap.dedent(step)) for k in range(4)]
    return declared + textwrap.indent("".join(rounds), " " * 12)


@pytest.mark.parametrize("result", ["S[0]", "S[t]", "S[15 - t] - S[3]"])
@pytest.mark.parametrize("name", ["each with its neighbour", "prefixes", "halves", "pairs"])
def test_steps_that_are_written_out_leave_the_same(name: str, result: str):
    lifted(kernel(written_out(STEPS[name]), result), (3, 16), (3, 16))


def test_steps_that_are_written_out_begin_where_threads_take_what_they_fold():
    steps = written_out(STEPS["each with its neighbour"])
    assert figures(lifted(kernel(steps, "S[t]"), (3, 16), (3, 16))) == "0 0 0 1"
    added = written_out(STEPS["prefixes that each thread adds to"])
    assert figures(lifted(kernel(added, "S[t]"), (3, 16), (3, 16))) == "0 1 0 2"


def test_a_tree_over_what_threads_summed_in_strides_keeps_no_guard_of_the_last_stride():
    text = f"""
@T.prim_func
def main(A: T.Buffer((5, 100), "float32"), B: T.Buffer((5,), "float32")):
    for b in T.thread_binding(5, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            S = T.alloc_buffer((16,), "float32", scope="shared")
            L = T.alloc_buffer((1,), "float32", scope="local")
            L[0] = T.float32(0)
            for k in range(7):
                if k * 16 + t < 100:
                    L[0] = L[0] + A[b, k * 16 + t]
            S[t] = L[0]
            {BARRIER}
            {STEPS["halves"].strip().replace("BARRIER", BARRIER)}
            if t == 0:
                B[b] = S[0]
"""
    assert figures(lifted(text, (5, 100), (5,))) == "0 0 0 1"


def test_what_stands_between_the_steps_may_read_what_other_steps_leave():
    between = """
            R = T.alloc_buffer((16,), "float32", scope="shared")
            R[t] = A[b, t]
            BARRIER
            for k in range(2):
                if t < T.shift_right(8, k):
                    S[t] = S[t] + S[t + T.shift_right(8, k)]
                BARRIER
            R[t] = T.exp(A[b, 15 - t])
            BARRIER
            for k in range(2):
                if t < T.shift_right(2, k):
                    S[t] = S[t] + S[t + T.shift_right(2, k)]
                BARRIER
            if t < 8:
                S[t] = S[t] + R[t]
            BARRIER
"""
    lifted(kernel(between, "S[0] - S[t]"), (3, 16), (3, 16), exactly=False)


def test_places_are_read_in_a_loop_whose_bounds_an_outer_one_tells():
    text = f"""
@T.prim_func
def main(A: T.Buffer((3, 16), "float32"), B: T.Buffer((3, 16), "float32")):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        S = T.alloc_buffer((16,), "float32", scope="shared")
        for b in range(3):
            S[t] = A[b, t]
            {BARRIER}
            for k in range(4):
                if t < T.shift_right(8, k):
                    S[t] = S[t] + S[t + T.shift_right(8, k)]
                {BARRIER}
            B[b, t] = T.float32(0)
            for z in range(b + 1):
                B[b, t] = B[b, t] + S[z]
            {BARRIER}
"""
    lifted(text, (3, 16), (3, 16))


def test_a_triangle_of_places_that_are_stored_to_is_not_all_of_them():
    text = f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        S = T.alloc_buffer((16, 16), "float32", scope="shared")
        for j in range(16):
            S[t, j] = A[t]
        {BARRIER}
        for k in range(4):
            if t < T.shift_right(8, k):
                S[0, t] = S[0, t] + S[0, t + T.shift_right(8, k)]
            {BARRIER}
        B[t] = S[0, 0]
        {BARRIER}
        for j in range(t + 1):
            S[t, j] = T.float32(0)
        {BARRIER}
        B[t] = B[t] + S[0, t]
"""
    lifted(text, (16,), (16,))
