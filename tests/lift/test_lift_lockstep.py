"""Threads that share memory and take turns of their own number, in lockstep; kernels that threads leave."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """
@T.prim_func
def main(A: T.Buffer((2, 8), "float32"), N: T.Buffer((2, 8), "int32"), B: T.Buffer((2, 8), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("k"):
                S = T.sblock_alloc_buffer((8,), "float32", scope="shared")
                x = T.sblock_alloc_buffer((1,), "float32", scope="local")
                n = T.sblock_alloc_buffer((1,), "int32", scope="local")
                S[tx] = A[bx, tx]
                x[0] = 0.0
                n[0] = N[bx, tx]
                T.tvm_storage_sync("shared")
"""
OWN = {
    "loops": """
for i in range(N[bx, tx]):
    x[0] = x[0] + S[(tx + i) % 8]
B[bx, tx] = x[0]""",
    "loops that start somewhere and are left": """
for i in range(N[bx, tx], N[bx, tx] + N[bx, (tx + 1) % 8]):
    if i > 4:
        break
    x[0] = x[0] + S[(tx + i) % 8]
B[bx, tx] = x[0]""",
    "loops under a condition that guards their bounds": """
if tx < 7:
    for i in range(N[bx, tx + 1]):
        x[0] = x[0] + S[(tx + i) % 8]
B[bx, tx] = x[0]""",
    "whiles": """
while n[0] > 0:
    x[0] = x[0] + S[(tx + n[0]) % 8]
    n[0] = n[0] - 1
B[bx, tx] = x[0]""",
    "whiles that are left and gone on with": """
while n[0] > 0:
    n[0] = n[0] - 1
    if n[0] == 2:
        continue
    if x[0] > 9.0:
        break
    x[0] = x[0] + S[(tx + n[0]) % 8]
B[bx, tx] = x[0]""",
    "whiles under a condition": """
if tx > 2:
    while n[0] > 0:
        x[0] = x[0] + S[(tx + n[0]) % 8]
        n[0] = n[0] - 1
B[bx, tx] = x[0]""",
    "whiles in loops": """
for i in range(N[bx, tx]):
    n[0] = i
    while n[0] > 0:
        x[0] = x[0] + S[(tx + n[0]) % 8]
        n[0] = n[0] - 2
B[bx, tx] = x[0]""",
    "whiles that end the thread": """
while n[0] > 0:
    if x[0] > 9.0:
        T.evaluate(T.thread_return())
    x[0] = x[0] + S[(tx + n[0]) % 8]
    n[0] = n[0] - 1
B[bx, tx] = x[0]""",
}
TOGETHER = {
    "loops": """
for i in range(N[bx, 0]):
    x[0] = x[0] + S[(tx + 1) % 8]
    T.tvm_storage_sync("shared")
    S[tx] = x[0]
    T.tvm_storage_sync("shared")
B[bx, tx] = x[0]""",
    "whiles": """
while n[0] > 0:
    x[0] = S[(tx + n[0]) % 8] * 0.5 + S[tx]
    T.tvm_storage_sync("shared")
    S[tx] = x[0]
    n[0] = n[0] - 1
    T.tvm_storage_sync("shared")
B[bx, tx] = S[(tx + 3) % 8]""",
}
A = np.arange(16, dtype=np.float32).reshape(2, 8)
APART = np.array([[0, 3, 1, 2, 5, 0, 1, 4], [2, 7, 2, 2, 2, 2, 0, 2]], np.int32)
ALIKE = np.repeat(np.array([[3], [5]], np.int32), 8, axis=1)


def kernel(body: str) -> str:
    return HEAD + "\n".join(" " * 16 + line for line in body.strip("\n").split("\n")) + "\n"


def agrees(text: str, *given: np.ndarray | int) -> None:
    function = ti.tir.parse(text)["main"]
    wanted = ti.tir.interpret(function, *given, checked=True)
    np.testing.assert_allclose(ti.lift(function)(*given)[0], wanted[-1], rtol=1e-6)


@pytest.mark.parametrize("name", OWN)
def test_threads_that_share_memory_take_turns_of_their_own_number(name: str):
    agrees(kernel(OWN[name]), A, APART, np.full((2, 8), 7, np.float32))


@pytest.mark.parametrize("name", TOGETHER)
def test_threads_wait_for_each_other_in_turns_that_data_tell(name: str):
    agrees(kernel(TOGETHER[name]), A, ALIKE, np.zeros((2, 8), np.float32))


@pytest.mark.parametrize("name", TOGETHER)
def test_a_barrier_that_not_all_threads_reach_is_said(name: str):
    function = ti.tir.parse(kernel(TOGETHER[name].replace("N[bx, 0]", "N[bx, tx]")))["main"]
    given = A, APART, np.zeros_like(A)
    with pytest.raises(DiagnosticError, match="TR14"):
        ti.tir.interpret(function, *given, checked=True)
    with pytest.raises(DiagnosticError, match="not all threads of the block reach the barriers in this loop"):
        ti.lift(function)(*given)


def test_a_thread_that_returns_leaves_the_others_alone():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        B[t] = 1
        if A[t] > 4:
            T.evaluate(T.thread_return())
        B[t] = B[t] + A[t]
    B[0] = B[0] + 100
"""
    agrees(text, np.array([3, 9, 1, 5, 0, 7, 2, 4], np.int32), np.zeros(8, np.int32))


@pytest.mark.parametrize("leave", ["T.ret(0)", "break"])
def test_a_while_is_left_for_good(leave: str):
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    x = T.alloc_buffer((1,), "int32")
    x[0] = A[7]
    while x[0] > 1:
        if x[0] == 6:
            {leave}
        x[0] = x[0] - 1
        B[0] = B[0] + 1
    B[0] = B[0] + 100
"""
    agrees(text, np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32))


LAUNCH = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int32, B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding((n + 7) // 8, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            S[tx] = A[bx * 8 + tx]
            T.tvm_storage_sync("shared")
            B[bx * 8 + tx] = S[7 - tx] * 2.0
"""


@pytest.mark.parametrize("n", [0, 5, 64])
def test_arguments_tell_how_many_blocks_are_launched(n: int):
    agrees(LAUNCH, np.arange(64, dtype=np.float32), n, np.full(64, -1, np.float32))


def test_parts_of_a_kernel_launch_as_many_blocks_as_each_asks_for():
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32, m: T.int64, B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            B[bx * 8 + tx] = A[bx * 8 + tx] * 2
        for by in T.thread_binding(m, thread="blockIdx.x"):
            B[by * 8 + tx] = B[by * 8 + tx] + 1
"""
    function = ti.tir.parse(text)["main"]
    a = np.arange(64, dtype=np.int32)
    for n, m in ((2, 5), (5, 2), (0, 3)):
        wanted = a.copy()
        wanted[: 8 * n] *= 2
        wanted[: 8 * m] += 1
        np.testing.assert_array_equal(ti.lift(function)(a, n, m, a.copy())[0], wanted)


def test_blocks_beyond_the_end_are_out_of_bounds():
    with pytest.raises(DiagnosticError, match="an index leaves the 64 elements of A"):
        ti.lift(ti.tir.parse(LAUNCH)["main"])(np.zeros(64, np.float32), 65, np.zeros(64, np.float32))


def test_arguments_do_not_tell_how_many_threads_a_block_has():
    text = LAUNCH.replace("(n + 7) // 8", "8").replace("T.thread_binding(8", "T.thread_binding(n")
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert str(caught.value) == (
        "<tir>:5:9: error[TL01]: the extent of threadIdx.x depends on data.\n"
        '          for tx in T.thread_binding(n, thread="threadIdx.x"):\n'
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: launch as many threads as there may be, with a condition inside."
    )


ATTENTION = """
@T.prim_func
def main(Q: T.Buffer((3, 8), "float64"), K: T.Buffer((24, 8), "float64"), V: T.Buffer((24, 8), "float64"),
         P: T.Buffer((4,), "int32"), O: T.Buffer((3, 8), "float64")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("k"):
                    Ks = T.sblock_alloc_buffer((4, 8), "float64", scope="shared")
                    Ss = T.sblock_alloc_buffer((4,), "float64", scope="shared")
                    m = T.sblock_alloc_buffer((2,), "float64", scope="local")
                    d = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    o = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    m[0] = -50000.0
                    d[0] = 0.0
                    o[0] = 0.0
                    for tile in range((P[bx + 1] - P[bx] + 3) // 4):
                        T.tvm_storage_sync("shared")
                        if tile * 4 + ty < P[bx + 1] - P[bx]:
                            Ks[ty, tx] = K[P[bx] + tile * 4 + ty, tx]
                        else:
                            Ks[ty, tx] = 0.0
                        T.tvm_storage_sync("shared")
                        if tx == 0:
                            Ss[ty] = -50000.0
                            if tile * 4 + ty < P[bx + 1] - P[bx]:
                                Ss[ty] = 0.0
                                for k in range(8):
                                    Ss[ty] = Ss[ty] + Q[bx, k] * Ks[ty, k]
                        T.tvm_storage_sync("shared")
                        m[1] = m[0]
                        for j in range(4):
                            m[0] = T.max(m[0], Ss[j])
                        d[0] = d[0] * T.exp(m[1] - m[0])
                        o[0] = o[0] * T.exp(m[1] - m[0])
                        for j in range(4):
                            if tile * 4 + j < P[bx + 1] - P[bx]:
                                d[0] = d[0] + T.exp(Ss[j] - m[0])
                                o[0] = o[0] + T.exp(Ss[j] - m[0]) * V[P[bx] + tile * 4 + j, tx]
                    if ty == 0:
                        O[bx, tx] = o[0] / d[0]
"""


def test_attention_over_sequences_of_their_own_length_is_that_of_numpy_and_has_gradients():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(3, 8)), rng.normal(size=(24, 8)), rng.normal(size=(24, 8))
    ends = np.array([0, 5, 15, 24], np.int32)
    program = ti.lift(ti.tir.parse(ATTENTION)["main"])

    def by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        rows = []
        for b in range(3):
            part = slice(int(ends[b]), int(ends[b + 1]))
            rows.append(jax.nn.softmax(q[b] @ k[part].T) @ v[part])
        return jnp.stack(rows)

    with jax.enable_x64(True):
        np.testing.assert_allclose(program(q, k, v, ends, np.zeros((3, 8)))[0], by_hand(q, k, v), rtol=1e-12)
        tangents = tuple(rng.normal(size=a.shape) for a in (q, k, v))
        ours = jax.jvp(lambda *a: program(*a, ends, jnp.zeros((3, 8)))[0], (q, k, v), tangents)[1]
        wanted = jax.jvp(by_hand, (q, k, v), tangents)[1]
        np.testing.assert_allclose(ours, wanted, rtol=1e-11)
