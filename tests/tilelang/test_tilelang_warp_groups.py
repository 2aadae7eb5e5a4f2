"""Groups of warps with statements of their own: the order that their mbarriers leave, against NumPy."""

import numpy as np
import pytest

import tensorir as ti

PIPELINE = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16, 8 * {rounds}), "float32"), B: T.Tensor((8 * {rounds}, 16), "float32"),
         C: T.Tensor((16, 16), "float32")):
    with T.Kernel(1, threads=256) as bx:
        a = T.alloc_shared(({stages}, 16, 8), "float32")
        b = T.alloc_shared(({stages}, 8, 16), "float32")
        c = T.alloc_fragment((16, 16), "float32")
        full = T.alloc_barrier([128] * {stages})
        free = T.alloc_barrier([128] * {stages})
        with T.ws({first}):
            {first_body}
        with T.ws({second}):
            {second_body}
"""
PRODUCER = """for k in range({rounds}):
                T.barrier_wait(free[k % {stages}], (k // {stages} + 1) % 2)
                T.copy(A[:, k * 8 : k * 8 + 8], a[k % {stages}, :, :])
                T.copy(B[k * 8 : k * 8 + 8, :], b[k % {stages}, :, :])
                T.barrier_arrive(full[k % {stages}])"""
CONSUMER = """T.clear(c)
            for j in range({rounds}):
                T.barrier_wait(full[j % {stages}], j // {stages} % 2)
                T.gemm(a[j % {stages}, :, :], b[j % {stages}, :, :], c)
                T.barrier_arrive(free[j % {stages}])
            T.copy(c, C[0, 0])"""


def pipeline(rounds, stages, consumer_first=False, producer=PRODUCER):
    parts = (CONSUMER, producer) if consumer_first else (producer, CONSUMER)
    bodies = [part.format(rounds=rounds, stages=stages) for part in parts]
    group = int(consumer_first)
    text = PIPELINE.format(
        rounds=rounds, stages=stages, first=1 - group, second=group, first_body=bodies[0], second_body=bodies[1]
    )
    return ti.tir.parse(text, "k.py")["main"]


@pytest.mark.parametrize(
    ("rounds", "stages", "consumer_first"), [(5, 1, False), (5, 2, True), (7, 3, False), (2, 3, True)]
)
def test_producer_and_consumer_take_turns_at_any_depth_of_the_pipeline(rounds, stages, consumer_first):
    r = np.random.default_rng(rounds)
    a, b = r.normal(size=(16, 8 * rounds)).astype(np.float32), r.normal(size=(8 * rounds, 16)).astype(np.float32)
    func = pipeline(rounds, stages, consumer_first)
    for made in (ti.lift(func)(a, b, np.full((16, 16), np.nan, np.float32)),
                 ti.tir.interpret(func, a, b, np.full((16, 16), np.nan, np.float32))[2]):  # fmt: skip
        np.testing.assert_allclose(np.asarray(made).reshape(16, 16), a @ b, rtol=1e-4, atol=1e-5)


TALK = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor(({blocks}, 4, 8), "float32"), B: T.Tensor(({blocks}, 8), "float32")):
    with T.Kernel({blocks}, threads=256) as bx:
        s = T.alloc_shared((8,), "float32")
        t = T.alloc_shared((8,), "float32")
        asked = T.alloc_barrier(128)
        answered = T.alloc_barrier(128)
        for k in range({extent}):
            with T.ws(0):
                T.barrier_wait(asked, k % 2)
                for i in T.Parallel(8):
                    t[i] = 2 * s[7 - i]
                T.barrier_arrive(answered)
            with T.ws(1):
                T.copy(A[bx, k, 0], s)
                T.barrier_arrive(asked)
                T.barrier_wait(answered, {parity})
                for i in T.Parallel(8):
                    B[bx, i] = B[bx, i] + t[i]
"""


@pytest.mark.parametrize("extent", ["4", "T.min(4, bx + 1)"])
def test_groups_that_ask_and_answer_in_every_round_are_interleaved(extent):
    func = ti.tir.parse(TALK.format(extent=extent, parity="k % 2", blocks=3), "k.py")["main"]
    a = np.random.default_rng(1).normal(size=(3, 4, 8)).astype(np.float32)
    rounds = np.arange(4) < (4 if extent == "4" else np.arange(1, 4)[:, None])
    want = (2 * a[:, :, ::-1] * rounds.reshape(-1, 4, 1)).sum(1)
    np.testing.assert_allclose(ti.lift(func)(a, np.zeros((3, 8), np.float32))[0], want, rtol=1e-5)


APART = "T.fill belongs to all threads of a block, and here threads differ."


def refusal(text):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text, "k.py")["main"])
    (problem,) = caught.value.diagnostics
    return f"{problem.code} {problem.message}"


def test_groups_that_wait_for_each_other_for_ever_are_refused():
    text = TALK.format(extent="4", parity="k % 2", blocks=1)
    before = """                T.barrier_arrive(asked)
                T.barrier_wait(answered, k % 2)
"""
    first, second = before.splitlines(keepends=True)
    assert before in text
    told = "TT04 T.parallel belongs to all threads of a block, and here threads differ."
    assert refusal(text.replace(before, second + first)) == told


SHARED = """
import tilelang.language as T

@T.prim_func
def main(B: T.Tensor((2, 8), "float32")):
    with T.Kernel(1, threads=256) as bx:
        c = T.alloc_fragment((8,), "float32")
        with T.ws(0):
            T.fill(c, 1)
        with T.ws(1):
            T.fill(c, 2)
        with T.ws(0):
            T.copy(c, B[0, 0])
        with T.ws(1):
            T.copy(c, B[1, 0])
"""


def test_registers_of_one_name_in_two_groups_are_not_taken_for_the_same():
    assert refusal(SHARED) == f"TT04 {APART}"


THREADS = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 256), "float32"), C: T.Tensor((4, 8), "float32")):
    with T.Kernel(1, threads=256) as bx:
        s = T.alloc_shared((8,), "float32")
        tx = T.get_thread_binding(0)
        with T.ws(1):
            for k in range(4):
                T.copy(A[k, 0], s)
                B[k, tx] = s[k] + 1.0
                T.copy(s, C[k, 0])
"""


def test_what_each_thread_of_a_group_does_beside_its_tiles_no_other_thread_does():
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    b, c = ti.lift(ti.tir.parse(THREADS, "k.py")["main"])(a, np.zeros((4, 256), np.float32), np.zeros_like(a))
    want = np.where(np.arange(256) < 128, 0.0, np.diag(a)[:, None] + 1.0)
    assert np.array_equal(b, want) and np.array_equal(c, a)


def test_a_branch_on_data_with_tiles_and_threads_is_refused():
    text = THREADS.replace("T.copy(A[k, 0], s)\n", "T.copy(A[k, 0], s)\n                if A[k, 0] > 0.0:\n    ", 1)
    text = text.replace("                T.copy(s, C", "                    T.copy(s, C")
    assert refusal(text) == "TT04 T.copy belongs to all threads of a block, and here threads differ."
