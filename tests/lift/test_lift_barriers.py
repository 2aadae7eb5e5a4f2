"""Barriers of kernels: what is missing is told before anything runs, and what the checked mode lets pass is no race."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S = T.alloc_buffer((4,), "int32", scope="shared")
            L = T.alloc_buffer((1,), "int32", scope="local")
"""
SYNC = 'T.tvm_storage_sync("shared")\n'
FILL, READ = "S[t] = A[b * 4 + t]\n", "B[b * 4 + t] = S[3 - t]\n"


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(HEAD + "".join(f"            {line}\n" for line in body.splitlines()))["main"]


A, B = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)


def test_a_missing_barrier_is_told_with_both_lines():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(FILL + READ + SYNC))
    assert (
        str(caught.value)
        == """<tir>:9:28: error[TL12]: S[0] is written by one thread and read by another, without a barrier between.
              B[b * 4 + t] = S[3 - t]
                             ^^^^^^^^
note: written in the iteration blockIdx_x = 0, threadIdx_x = 0.
  at <tir>:8:13:
              S[t] = A[b * 4 + t]
              ^^^^^^^^^^^^^^^^^^^
note: read in the iteration blockIdx_x = 0, threadIdx_x = 3.
  at <tir>:9:28:
              B[b * 4 + t] = S[3 - t]
                             ^^^^^^^^
help: put T.tvm_storage_sync between the two."""
    )


def test_a_missing_barrier_may_be_taken_for_lockstep():
    func = parsed(FILL + READ + SYNC)
    program = ti.lift(func, on_hazard="sequential")
    np.testing.assert_array_equal(program(A, B)[0], [3, 2, 1, 0, 7, 6, 5, 4])
    assert "without a barrier between" in str(program.report)


def test_a_barrier_that_is_missing_at_the_end_of_a_round_is_told_with_both_rounds():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed("for k in range(2):\n    " + FILL + "    " + SYNC + "    " + READ))
    assert (
        str(caught.value)
        == """<tir>:9:17: error[TL12]: S[3] is read by one thread and written by another, without a barrier between.
                  S[t] = A[b * 4 + t]
                  ^^^^^^^^^^^^^^^^^^^
note: read in the iteration blockIdx_x = 0, k = 0, threadIdx_x = 0.
  at <tir>:11:32:
                  B[b * 4 + t] = S[3 - t]
                                 ^^^^^^^^
note: written in the iteration blockIdx_x = 0, k = 1, threadIdx_x = 3.
  at <tir>:9:17:
                  S[t] = A[b * 4 + t]
                  ^^^^^^^^^^^^^^^^^^^
help: put T.tvm_storage_sync between the two."""
    )


def test_a_barrier_in_a_condition_is_told_with_a_thread_that_does_not_come():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(FILL + "if b * 4 + t < 6:\n    " + SYNC))
    assert (
        str(caught.value)
        == """<tir>:10:17: error[TL13]: not all threads of the block reach this barrier.
                  T.tvm_storage_sync("shared")
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: blockIdx_x = 1, threadIdx_x = 2 and the first thread of its block do not both come to it.
help: move the barrier out of the condition."""
    )


OWN = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S = T.alloc_buffer((4,), "int32", scope="shared")
            r = T.alloc_buffer((1,), "int32", scope="local")
            r[0] = {0}
            S[t] = A[b * 4 + t]
            {1}
                T.tvm_storage_sync("shared")
            B[b * 4 + t] = S[t]
"""


@pytest.mark.parametrize("condition", ["if r[0] < 3:", "while r[0] > 2:\n                r[0] = r[0] - 9"])
@pytest.mark.parametrize(
    "value, all_come", [("t + 1", False), ("A[b * 4 + t]", False), ("A[b]", True), ("b * 7", True)]
)
def test_a_barrier_behind_what_each_thread_has_for_itself_is_checked(value: str, all_come: bool, condition: str):
    function = ti.tir.parse(OWN.format(value, condition))["main"]
    a, zeros = np.array([0, 9, 2, 7, 7, 3, 9, 0], np.int32), np.zeros(8, np.int32)
    program = ti.lift(function)
    if all_come:
        wanted = ti.tir.interpret(function, a, zeros, checked=True)[1]
        np.testing.assert_array_equal(program(a, zeros)[0], wanted)
        return
    with pytest.raises(DiagnosticError, match="TR14"):
        ti.tir.interpret(function, a, zeros, checked=True)
    with pytest.raises(DiagnosticError, match="not all threads of the block reach"):
        program(a, zeros)
    wanted = ti.tir.interpret(function, a, zeros)[1]
    np.testing.assert_array_equal(ti.lift(function, on_hazard="ignore")(a, zeros)[0], wanted)
