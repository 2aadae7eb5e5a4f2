"""Limits of memory, steps and depth that hold for texts and kernels of any size, and for threads that meet."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir.interpret import machine, threads
from tensorir.tir.script import syntax
from tensorir.tir.trees import walk

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n'


def peak_of(run: Any) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_room_for_deep_expressions_stays_until_the_last_thread_is_done():
    before, inside, left, seen = sys.getrecursionlimit(), threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        inside.set()
        assert left.wait(20)
        seen.append(sys.getrecursionlimit())

    late = threading.Thread(target=lambda: machine.deep(wait))

    def start() -> None:
        late.start()
        assert inside.wait(20)

    machine.deep(start)
    left.set()
    late.join()
    assert seen[0] >= machine.FRAMES
    assert sys.getrecursionlimit() == before


def test_a_long_number_takes_no_memory_of_its_own():
    def refused() -> None:
        with pytest.raises(DiagnosticError, match="this number has more than 400 characters"):
            ti.tir.parse(f"{HEAD}    A[0] = {'1' * 1_000_000}\n")

    assert peak_of(refused) < 20_000_000


def test_the_columns_of_a_line_are_counted_once(monkeypatch: pytest.MonkeyPatch):
    counted: list[str] = []
    count = syntax._columns  # type: ignore[reportPrivateUsage]
    monkeypatch.setattr(syntax, "_columns", lambda line: counted.append(line) or count(line))
    sums = " + ".join(["A[1]"] * 300)
    module = ti.tir.parse(f'{HEAD}    T.func_attr({{"é": "ö"}}); A[0] = {sums}\n')
    assert len(counted) == 1
    store = next(node for node in walk(module["main"].body) if type(node).__name__ == "BufferStore")
    assert store.span.text == f"A[0] = {sums}"


def test_a_kernel_of_too_many_threads_is_refused_with_their_number():
    function = ti.tir.parse(
        f'{HEAD}    for x in T.thread_binding(1000000000, thread="threadIdx.x"):\n        A[x % 8] = x\n'
    )["main"]

    def refused() -> None:
        with pytest.raises(DiagnosticError) as caught:
            ti.tir.interpret(function, np.zeros(8, np.int32))
        assert str(caught.value) == (
            "<tir>:3:5: error[TR06]: 1000000000 threads run side by side here, more than the 4194304 there are.\n"
            '      for x in T.thread_binding(1000000000, thread="threadIdx.x"):\n'
            "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "help: bind the outer loop to blockIdx: blocks run in portions."
        )

    assert peak_of(refused) < 20_000_000


def test_blocks_of_a_large_kernel_take_memory_in_portions_only():
    function = ti.tir.parse(
        f'{HEAD}    for x in T.thread_binding(20000000, thread="blockIdx.x"):\n'
        "        if x < 8:\n            A[x] = x\n"
    )["main"]
    assert peak_of(lambda: ti.tir.interpret(function, np.zeros(8, np.int32))) < 40_000_000
    assert ti.tir.interpret(function, np.zeros(8, np.int32))[0].tolist() == list(range(8))


UNCOMPACTED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32")):
    S = T.sblock_alloc_buffer((N, N), scope="shared")
    L = T.sblock_alloc_buffer((N, N), scope="local")
    for b in T.thread_binding(N, thread="blockIdx.x"):
        for t in T.thread_binding(N, thread="threadIdx.x"):
            S[b, t] = A[b, t]
            L[b, t] = S[b, t] * T.float32(2)
            B[b, t] = L[b, t]
"""
"""What `sch.mod` shows: storage of threads and blocks has its whole extent still."""


def test_blocks_with_much_storage_of_their_own_run_in_portions():
    size = 128
    function = ti.tir.parse(UNCOMPACTED.replace("N", str(size)))["main"]
    a = np.arange(size * size, dtype=np.float32).reshape(size, size)
    everything = size * size * 4 * size * size
    assert everything > threads.PORTION_BYTES
    assert peak_of(lambda: ti.tir.interpret(function, a, 0 * a)) < 2 * threads.PORTION_BYTES + 30_000_000 < everything
    np.testing.assert_array_equal(ti.tir.interpret(function, a, 0 * a)[1], a * 2)


def test_storage_that_cannot_be_is_refused_with_its_size():
    function = ti.tir.parse(UNCOMPACTED.replace("N", "2048"))["main"]

    zeros = np.zeros((2048, 2048), np.float32)

    def refused() -> None:
        with pytest.raises(DiagnosticError) as caught:
            ti.tir.interpret(function, zeros, zeros)
        assert str(caught.value) == (
            "<tir>:6:5: error[TR06]: 'L' needs 34359738368 bytes, more than the 4294967296 there are.\n"
            '      for b in T.thread_binding(2048, thread="blockIdx.x"):\n'
            "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "help: each of 2048 iterations or threads has 16777216 bytes of its own: allocate of it what one of them"
            " touches, as TVM's CompactBufferAllocation does."
        )

    assert peak_of(refused) < 90_000_000
