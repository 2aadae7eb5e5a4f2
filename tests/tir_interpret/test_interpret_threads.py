"""Kernels: threads in lockstep, memory per block and per thread, barriers, reductions across threads, atomics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir.interpret import threads
from tests.corpus import corpus

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'


def run(body: str, values: Any = range(8), checked: bool = True) -> list[int]:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    module = tir.parse(HEAD + lines)
    return tir.interpret(module["main"], np.array(values, np.int32), np.zeros(8, np.int32), checked=checked)[1].tolist()


CASES = corpus(Path(__file__).with_name("threads.txt"))
RIGHT = {title: case for title, case in CASES.items() if set(case[1]) <= set("-0123456789 ")}
"""Kernels with what B holds after them, as far as it is stated; the others with the message, notes and help."""


@pytest.mark.parametrize("portions", ["at once", "by threads", "by bytes"])
@pytest.mark.parametrize("title", RIGHT)
def test_a_kernel_gives_what_its_threads_give_in_any_portions(
    title: str, portions: str, monkeypatch: pytest.MonkeyPatch
):
    if portions != "at once":
        monkeypatch.setattr(threads, "MOST_THREADS" if portions == "by threads" else "PORTION_BYTES", 1)
    body, expected = RIGHT[title]
    numbers = [int(number) for number in expected.split()]
    for checked in (True, False):
        assert run(body, checked=checked)[: len(numbers)] == numbers


@pytest.mark.parametrize("title", [title for title in CASES if title not in RIGHT])
def test_a_kernel_that_is_wrong_is_refused_with_a_witness(title: str):
    body, expected = CASES[title]
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    (found,) = caught.value.diagnostics
    message, *more = expected.split("\n")
    assert found.message == message and set(more) <= {*found.notes, found.help}


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
