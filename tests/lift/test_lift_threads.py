"""Kernels whose threads share memory: trees of sums, prefix sums, transposes, threads that trade places."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of
from tests.lift.harness import figures

TRANSPOSE = """
@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 64), "float32")):
    S = T.alloc_buffer((16, 17), "float32", scope="shared")
    for by in T.thread_binding(4, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    S[ty, tx] = A[by * 16 + ty, bx * 16 + tx]
                    T.tvm_storage_sync("shared")
                    B[bx * 16 + ty, by * 16 + tx] = S[tx, ty]
"""
TREE = """
@T.prim_func
def main(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((128,), "float32", scope="shared")
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            S[tx] = A[bx, tx]
            T.tvm_storage_sync("shared")
            for s in range(7):
                if tx < T.shift_right(64, s):
                    S[tx] = S[tx] + S[tx + T.shift_right(64, s)]
                T.tvm_storage_sync("shared")
            if tx == 0:
                B[bx] = S[0]
"""
PREFIX = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    S = T.alloc_buffer((2, 64), "float32", scope="shared")
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S[0, tx] = A[tx]
        T.tvm_storage_sync("shared")
        for s in range(6):
            if tx >= T.shift_left(1, s):
                S[(s + 1) % 2, tx] = S[s % 2, tx] + S[s % 2, tx - T.shift_left(1, s)]
            else:
                S[(s + 1) % 2, tx] = S[s % 2, tx]
            T.tvm_storage_sync("shared")
        B[tx] = S[0, tx]
"""
MOVED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), "float32", scope="shared")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        S[tx] = S[I[tx]] + T.float32(1)
        T.tvm_storage_sync("shared")
        B[tx] = S[tx]
"""


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (TRANSPOSE, arrays((64, 32), (32, 64))),
        (TREE, arrays((8, 128), (8,))),
        (PREFIX, arrays((64,), (64,))),
    ],
    ids=["transpose", "tree", "prefix"],
)
def test_threads_that_share_memory_run_at_once(text: str, given: list[np.ndarray]):
    func = ti.tir.parse(text)["main"]
    program = ti.lift(func)
    wanted = ti.tir.interpret(func, *given, checked=True)
    np.testing.assert_allclose(program(*given)[0], wanted[-1], rtol=1e-4, atol=1e-5)
    assert costs_of(program).loops == 0


def test_a_transpose_through_shared_memory_is_no_operation():
    assert figures(ti.lift(ti.tir.parse(TRANSPOSE)["main"])) == "0 0 0 0"


def test_all_threads_read_before_any_writes():
    func = ti.tir.parse(MOVED)["main"]
    (a, b), index = arrays((8,), (8,)), np.array([7, 0, 1, 2, 3, 4, 5, 6], np.int32)
    program = ti.lift(func)
    np.testing.assert_array_equal(program(a, index, b)[0], a[index] + 1)
    np.testing.assert_array_equal(ti.tir.interpret(func, a, index, b)[2], a[index] + 1)
    assert "in lockstep: all read S before any writes" in str(program.report)


JOINED = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((2,), "float32")):
    S = T.alloc_buffer((1,), "float32", scope="local")
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        with T.block("sum"):
            v = T.axis.reduce(16, tx)
            with T.init():
                S[0] = T.float32(0)
            S[0] = S[0] + A[v]
        B[0] = S[0] / T.float32(16)
        B[1] = A[1] + T.float32(1)
"""
ALIKE = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((2,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            B[0] = A[3]
            B[1] = A[1] + T.float32(1)
"""


def test_threads_that_sum_up_together_have_one_sum_and_store_it_once():
    f, (a, b) = ti.tir.parse(JOINED)["main"], arrays((16,), (2,))
    wanted = ti.tir.interpret(f, a, b, checked=True)[1]
    np.testing.assert_allclose(wanted, [a.mean(), a[1] + 1], rtol=1e-5)
    np.testing.assert_allclose(ti.lift(f)(a, b)[0], wanted, rtol=1e-6)


def test_threads_and_blocks_that_do_one_thing_do_it_once():
    f, (a, b) = ti.tir.parse(ALIKE)["main"], arrays((16,), (2,))
    np.testing.assert_array_equal(ti.lift(f)(a, b)[0], [a[3], a[1] + 1])
    np.testing.assert_array_equal(ti.tir.interpret(f, a, b, checked=True)[1], [a[3], a[1] + 1])


def test_lanes_of_a_vector_that_are_stored_to_one_element_follow_each_other():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((2,), "float32")):
    B[T.Broadcast(0, 4)] = A[0:4] * T.Broadcast(T.float32(2), 4)
"""
    f, (a, b) = ti.tir.parse(text)["main"], arrays((4,), (2,))
    np.testing.assert_array_equal(ti.lift(f)(a, b)[0], [a[3] * 2, b[1]])
    np.testing.assert_array_equal(ti.tir.interpret(f, a, b)[1], [a[3] * 2, b[1]])


REUSED = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((1,), "int32", scope="local")
        O = T.alloc_buffer((1,), "int32", scope="local")
        S[0] = A[t]
        for r in range(3):
            O[0] = S[0] * 2
            S[0] = S[0] + O[0]
            O[0] = S[0] + 1
            S[0] = S[0] + O[0]
            if t == 0:
                B[r] = S[0]
"""


def test_what_every_thread_keeps_for_one_round_stays_that_of_the_thread():
    f, a, b = ti.tir.parse(REUSED)["main"], np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    np.testing.assert_array_equal(ti.lift(f)(a, b)[0], ti.tir.interpret(f, a, b, checked=True)[1])


LARGEST = """
@T.prim_func
def main(A: T.Buffer((3, 4, 16), "float32"), C: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "float32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        v = T.alloc_buffer((1,), "int32", scope="local")
        w = T.alloc_buffer((1,), "float32", scope="local")
        v_all = T.alloc_buffer((1,), "int32", scope="local")
        w_all = T.alloc_buffer((1,), "float32", scope="local")
        for y in T.thread_binding(4, thread="threadIdx.y"):
            for x in T.thread_binding(20, thread="threadIdx.x"):
                v[0] = -1
                w[0] = T.float32(-10000)
                if x < 16:
                    v[0] = x
                    w[0] = A[b, y, x]
                with T.attr(T.comm_reducer(lambda x0, x1, y0, y1: (T.Select(x1 >= y1, x0, y0), T.Select(x1 >= y1, x1, y1)), [-1, T.float32(-10000)]), "reduce_scope", 0):
                    T.tvm_thread_allreduce(T.uint32(2), v[0], w[0], PART, v_all[0], w_all[0], x)
                if x == 0:
                    C[b, y] = v_all[0]
                    D[b, y] = w_all[0]
"""  # noqa: E501


@pytest.mark.parametrize("part", ["T.bool(True)", "x % 2 == 1"], ids=["all", "some"])
def test_threads_that_reduce_several_values_combine_all_of_them_at_once(part: str):
    f = ti.tir.parse(LARGEST.replace("PART", part))["main"]
    a = np.random.default_rng(2).normal(size=(3, 4, 16)).astype(np.float32)
    given = [a, np.zeros((3, 4), np.int32), np.zeros((3, 4), np.float32)]
    found = ti.lift(f)(*given)
    for ours, theirs in zip(found, ti.tir.interpret(f, *given)[1:], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    taken = a if part == "T.bool(True)" else np.where(np.arange(16) % 2 == 1, a, -np.inf)
    np.testing.assert_array_equal(found[0], taken.argmax(-1))


CROSSING = """
@T.prim_func
def main(A: T.Buffer((4, 6, 16), "float32"), C: T.Buffer((4, 6), "float32")):
    x = T.alloc_buffer((1,), "float32", scope="local")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in range(6):
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.sblock("crossing"):
                    vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                    T.reads(A[vi, vj, vk])
                    T.writes(x[0])
                    T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", 0)
                    T.tvm_thread_allreduce(T.uint32(1), A[vi, vj, vk], T.bool(True), x[0], k)
                with T.sblock("back"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.where(k == 0)
                    T.reads(x[0])
                    T.writes(C[vi, vj])
                    C[vi, vj] = x[0]
"""


def test_a_block_in_which_threads_reduce_together_is_not_run_thread_by_thread():
    program = ti.lift(ti.tir.parse(CROSSING)["main"])
    a = np.arange(384, dtype=np.float32).reshape(4, 6, 16)
    (found,) = program(a, None)  # what they reduce is read and no result
    np.testing.assert_array_equal(found, a.sum(-1))
    assert figures(program) == "0 0 0 1"


@pytest.mark.parametrize(
    "turns",
    ["tx + 1", "tx, tx + 3", "tx, 12 - tx", "0, tx % 3 * 4, 2", "tx, 12, 3", "T.Select(tx % 3 == 0, 5, tx)"],
)
@pytest.mark.parametrize("waits", [False, True])
def test_threads_that_take_turns_by_their_number_are_bounded_by_it(turns: str, waits: bool):
    f = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((16,), "float32", scope="shared")
    for i in range(3):
        B[i] = A[i]
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S[tx] = A[tx]
        S[tx + 8] = A[tx + 8]
        {'T.tvm_storage_sync("shared")' if waits else "S[tx] = S[tx] + T.float32(1)"}
        B[tx] = T.float32(0)
        for i in range({turns}):
            B[tx] = B[tx] + S[i] * S[tx]
    for i in range(8):
        B[i] = B[i] + T.float32(i)
""")["main"]
    a, b = arrays((16,), (8,))
    program = ti.lift(f)
    np.testing.assert_allclose(program(a, b)[0], ti.tir.interpret(f, a, b, checked=True)[1], rtol=1e-5)
    assert costs_of(program).loops == 0


KEPT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    s = T.alloc_buffer((8,), "float32", scope="{scope}")
    for bx in T.thread_binding({blocks}, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            {statement}
"""
AGAIN = """
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s[tx] = A[bx, tx]
            B[bx, tx] = s[tx] * T.float32(2)
"""


@pytest.mark.parametrize("again", ["", AGAIN], ids=["alone", "and another kernel"])
@pytest.mark.parametrize(
    ("scope", "blocks", "statement"),
    [
        ("local", 4, "s[tx] = A[0, tx]"),
        ("shared", 4, "s[tx] = A[0, tx]"),
        ("local", 4, "s[tx] = A[bx, tx]"),
        (
            "local",
            1,
            "s[0] = T.float32(0)\n            while s[0] < T.float32(3):\n                s[0] = s[0] + A[0, tx]",
        ),
    ],
)
def test_a_kernel_may_keep_all_to_its_threads(scope: str, blocks: int, statement: str, again: str):
    text = KEPT.format(scope=scope, blocks=blocks, statement=statement) + again.lstrip("\n")
    a = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    results = ti.lift(ti.tir.parse(text)["main"])(a, np.zeros_like(a))
    assert len(results) == bool(again)
    for result in results:
        np.testing.assert_array_equal(result, 2 * a)
