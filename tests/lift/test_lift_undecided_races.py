"""Of races that only data know of the report says so, and that they follow the order of the text."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
THREADS = """for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[t] = A[b]
        T.tvm_storage_sync("shared")
"""
REST = '        T.tvm_storage_sync("shared")\n        B[b * 4 + t] = S[3 - t]\n'
UNDECIDED = {
    "places": ("B", "for i in T.parallel(8):\n    B[A[i]] = i\n"),
    "one place, under a condition": ("B", "for i in T.parallel(8):\n    if A[i] > 2:\n        B[0] = i\n"),
    "a read at a place": ("B", "for i in T.parallel(8):\n    B[i] = B[A[i]] + 1\n"),
    "shared memory": ("S", THREADS + "        S[A[b * 4 + t] % 4] = t\n" + REST),
}
DECIDED = {
    "serial": "for i in range(8):\n    B[A[i]] = i\n",
    "reads": "for i in T.parallel(8):\n    B[i] = A[A[i]]\n",
    "elements of their own": "for i in T.parallel(8):\n    if A[i] > 2:\n        B[i] = i\n",
    "elements of their own, at places that are no sums": "for i in T.parallel(8):\n    B[T.bitwise_xor(i, 1)] = A[i]\n",
    "updates": 'for t in T.thread_binding(8, thread="threadIdx.x"):\n'
    "    T.evaluate(T.atomic_add(T.address_of(B[A[t]]), 1))\n",
    "rows of their own": "for i in T.parallel(4):\n    for j in range(A[i]):\n        B[i] = B[i] + j\n",
    "shared memory": THREADS + "        if A[b * 4 + t] > 2:\n            S[t] = t\n" + REST,
}
NOTE = "data tell whether iterations of the parallel loop over"


@pytest.mark.parametrize("name, body", UNDECIDED.values(), ids=UNDECIDED)
def test_the_report_names_what_iterations_may_meet_in(name: str, body: str):
    function = parsed(HEAD, body)
    program = ti.lift(function)
    (note,) = (n for n in program.report.notes if NOTE in n)
    assert f"meet in '{name}'; they follow the order of the text." in note
    a, b = np.array([3, 5, 3, 0, 7, 5, 1, 3], np.int32), np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b)[1])


@pytest.mark.parametrize("body", DECIDED.values(), ids=DECIDED)
def test_the_report_says_nothing_of_iterations_that_cannot_meet(body: str):
    assert NOTE not in str(ti.lift(parsed(HEAD, body)).report)
