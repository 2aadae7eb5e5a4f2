"""Kernels: threads in lockstep, memory per block and per thread, barriers, reductions across threads, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'


def run(body: str, values: Any = range(8), checked: bool = True) -> list[int]:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    module = tir.parse(HEAD + lines)
    return tir.interpret(module["main"], np.array(values, np.int32), np.zeros(8, np.int32), checked=checked)[1].tolist()


def test_threads_see_what_others_loaded_before():
    body = """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[t] = A[b * 4 + t]
        B[b * 4 + t] = S[3 - t]
"""
    assert run(body) == [3, 2, 1, 0, 7, 6, 5, 4]


def test_shared_memory_outside_of_the_kernel_is_one_per_block():
    body = """
S = T.alloc_buffer((1,), "int32", scope="shared")
for b in T.thread_binding(8, thread="blockIdx.x"):
    S[0] = A[b]
    B[b] = S[0]
"""
    assert run(body) == list(range(8))


def test_local_memory_outside_of_the_kernel_is_one_per_thread():
    body = """
S = T.alloc_buffer((1,), "int32", scope="local")
for t in T.thread_binding(8, thread="threadIdx.x"):
    S[0] = A[t]
    for k in range(3):
        S[0] = S[0] + t
    B[t] = S[0]
"""
    assert run(body) == [4 * t for t in range(8)]


def test_two_loops_of_one_tag_are_one_index():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    S = T.alloc_buffer((8,), "int32", scope="shared")
    for u in T.thread_binding(8, thread="threadIdx.x"):
        S[u] = A[u]
    B[t] = S[7 - t]
"""
    assert run(body) == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_reduction_over_threads_runs_thread_by_thread():
    body = """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.sblock("sum"):
            vi = T.axis.spatial(2, b)
            vk = T.axis.reduce(4, t)
            T.reads(A[vi * 4 + vk])
            T.writes(B[vi])
            with T.init():
                B[vi] = 100
            B[vi] = B[vi] * 2 + A[vi * 4 + vk]
"""
    assert run(body)[:2] == [1611, 1671]


def test_launched_threads_are_threads():
    body = """
with T.launch_thread("blockIdx.x", 2) as bx:
    tx = T.launch_thread("threadIdx.x", 4)
    B[bx * 4 + tx] = A[bx * 4 + tx] + tx
"""
    assert run(body) == [0, 2, 4, 6, 4, 6, 8, 10]


def test_threads_add_atomically():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    T.evaluate(T.atomic_add(B.access_ptr("rw"), A[t]))
"""
    assert run(body)[0] == 28


def test_without_barriers_of_its_own_every_statement_is_one():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    S = T.alloc_buffer((4,), "int32", scope="shared")
    for k in range(3):
        S[t] = A[t] + k
        B[t] = B[t] + S[3 - t]
"""
    assert run(body)[:4] == [12, 9, 6, 3]


def test_a_missing_barrier_is_a_race():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    S = T.alloc_buffer((4,), "int32", scope="shared")
    S[t] = A[t]
    B[t] = S[3 - t]
    T.tvm_storage_sync("shared")
"""
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    assert caught.value.diagnostics[0].message == (
        "race: element 3 of 'S' is written at threadIdx.x = 3 and read at threadIdx.x = 0."
    )
    assert caught.value.diagnostics[0].help == "put a barrier between the two, or use an atomic."


def test_a_barrier_between_makes_it_right():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    S = T.alloc_buffer((4,), "int32", scope="shared")
    S[t] = A[t]
    T.tvm_storage_sync("shared")
    B[t] = S[3 - t]
"""
    assert run(body)[:4] == [3, 2, 1, 0]


def test_blocks_that_share_an_element_race_whatever_the_barriers():
    body = """
for b in T.thread_binding(4, thread="blockIdx.x"):
    B[b // 2] = A[b]
"""
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    assert caught.value.diagnostics[0].message == (
        "race: element 0 of 'B' is written at blockIdx.x = 0 and written at blockIdx.x = 1."
    )
    assert caught.value.diagnostics[0].help == "let each block write its own elements."


def test_virtual_threads_are_a_loop():
    body = """
for v in T.thread_binding(2, thread="vthread.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        B[v * 4 + t] = A[v * 4 + t]
"""
    assert run(body) == list(range(8))


def test_a_barrier_that_some_threads_never_reach_is_reported():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    S = T.alloc_buffer((4,), "int32", scope="shared")
    S[t] = A[t]
    if t < 2:
        T.tvm_storage_sync("shared")
        B[t] = S[t]
"""
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    found = caught.value.diagnostics[0]
    assert found.message == "not all threads of the block reach this barrier."
    assert found.notes == ("threadIdx.x = 2 does not.",)


def test_an_element_that_all_threads_read_and_one_writes_is_a_race():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    B[t] = A[t]
    T.tvm_storage_sync("shared")
    B[t] = B[0] + A[t]
"""
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    assert caught.value.diagnostics[0].message == (
        "race: element 0 of 'B' is read at threadIdx.x = 3 and written at threadIdx.x = 0."
    )


def test_what_all_threads_write_alike_is_written_once():
    body = """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        B[b] = A[b] + 1
        T.tvm_storage_sync("shared")
        B[b * 4 + t] = B[b] * 0 + t
"""
    with pytest.raises(DiagnosticError):
        run(body)
    assert run(body.replace("B[b * 4 + t] = B[b] * 0 + t", "B[b] = A[b] + 11"))[:2] == [11, 12]


def test_what_threads_reduce_together_each_has_summed_up_alone():
    body = """
for b in T.thread_binding(1, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        alone = T.alloc_buffer((1,), "int32", scope="local")
        together = T.alloc_buffer((1,), "int32", scope="local")
        alone[0] = 0
        for k in range(2):
            with T.sblock("alone"):
                vk = T.axis.reduce(8, k * 4 + t)
                T.reads(A[vk])
                T.writes(alone[0])
                alone[0] = alone[0] + A[vk]
        with T.sblock("together"):
            vt = T.axis.reduce(4, t)
            T.reads(alone[0])
            T.writes(together[0])
            T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0)
            T.tvm_thread_allreduce(T.uint32(1), alone[0], T.bool(True), together[0], t)
        if t == 0:
            B[0] = together[0]
"""
    assert run(body)[0] == 28


SPLIT = """@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main_kernel(A_ptr: T.handle("int32", "global"), B_ptr: T.handle("int32", "global"), n: T.int32):
        B = T.decl_buffer((8,), "int32", data=B_ptr)
        A = T.decl_buffer((8,), "int32", data=A_ptr)
        blockIdx_x = T.launch_thread("blockIdx.x", n)
        threadIdx_x = T.launch_thread("threadIdx.x", 4)
        B[blockIdx_x * 4 + threadIdx_x] = A[blockIdx_x * 4 + threadIdx_x] + blockIdx_x

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.call_ffi_kernel("KERNEL", A.data, B.data, 2, 2, launch_params=["blockIdx.x"], ret_ty="int32")
"""


def test_a_kernel_that_was_split_off_runs():
    main = tir.parse(SPLIT.replace("KERNEL", "main_kernel"))["main"]
    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    assert tir.interpret(main, a, b, checked=True)[1].tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert np.asarray(ti.lift(main)(a, b)[0]).tolist() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_kernel_that_is_not_in_the_module_is_refused():
    main = tir.parse(SPLIT.replace("KERNEL", "other"))["main"]
    with pytest.raises(DiagnosticError, match="the kernel is not in the module: its launch cannot be interpreted"):
        tir.interpret(main, np.zeros(8, np.int32), np.zeros(8, np.int32))


def test_a_loop_that_all_threads_run_alike_is_run_once():
    body = """
for t in T.thread_binding(4, thread="threadIdx.x"):
    for i in range(8):
        B[i] = A[i] + 1
"""
    assert run(body) == list(range(1, 9))
    with pytest.raises(DiagnosticError) as caught:
        run(body.replace("+ 1", "+ t"))
    assert caught.value.diagnostics[0].message == (
        "race: element 0 of 'B' is written at threadIdx.x = 0 and written at threadIdx.x = 3."
    )


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("place", ["t + 1", "t - 1", "A[t] + 8"])
@pytest.mark.parametrize("memory", ["B", "S"])
def test_an_atomic_update_outside_of_the_memory_is_told(memory: str, place: str, checked: bool):
    body = f"""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        S = T.alloc_buffer((8,), "int32", scope="shared")
        S[t] = 0
        T.call_extern("int32", "atomicAdd", T.address_of({memory}[{place}]), 1)
"""
    with pytest.raises(DiagnosticError) as caught:
        run(body, checked=checked)
    assert caught.value.diagnostics[0].code == "TR01"


def test_an_atomic_update_by_threads_that_a_condition_leaves_out_may_be_anywhere():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    if t < 7:
        T.call_extern("int32", "atomicAdd", T.address_of(B[t + 1]), A[t])
"""
    assert run(body) == [0, 0, 1, 2, 3, 4, 5, 6]


def test_a_sum_of_a_row_has_the_same_bits_however_many_blocks_run_side_by_side():
    text = """
@T.prim_func
def main(X: T.Buffer((BLOCKS * 4, 40)), Y: T.Buffer((BLOCKS * 4,))):
    for bx in T.thread_binding(BLOCKS, thread="blockIdx.x"):
        x = T.alloc_buffer((4, 40), scope="local.fragment")
        s = T.alloc_buffer((4,), scope="local.fragment")
        T.copy(T.region(X[bx * 4, 0], 1, 4, 40), T.region(x[0, 0], 2, 4, 40))
        T.reduce(T.region(x[0, 0], 1, 4, 40), T.region(s[0], 2, 4), "sum", 1, T.bool(True))
        T.copy(T.region(s[0], 1, 4), T.region(Y[bx * 4], 2, 4))
"""
    x = np.random.default_rng(0).normal(size=(12, 40)).astype(np.float32)
    several, alone = (tir.parse(text, names={"BLOCKS": count})["main"] for count in (3, 1))
    together = tir.interpret(several, x, np.zeros(12, np.float32))[1]
    by_rows = [tir.interpret(alone, x[k : k + 4], np.zeros(4, np.float32))[1] for k in (0, 4, 8)]
    np.testing.assert_array_equal(together, np.concatenate(by_rows))
    np.testing.assert_allclose(together, x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
