"""Barriers of kernels: what is missing is told before anything runs, and what the checked mode lets pass is no race."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

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
MISSING = {
    "behind a write": FILL + READ + SYNC,
    "before a write": FILL + SYNC + READ + "S[t] = t\n",
    "between writes": FILL + "S[(t + 1) % 4] = 3\n" + SYNC + READ,
    "in a loop": "for k in range(2):\n    " + FILL + "    " + READ + "    " + SYNC,
    "around a loop": FILL + "for k in range(4):\n    B[b * 4 + t] = B[b * 4 + t] + S[k]\n" + SYNC,
    "of one part": "if t < 2:\n    S[t] = 1\nif t >= 2:\n    S[t] = 2\n" + READ + SYNC,
}
RIGHT = {
    "between the two": FILL + SYNC + READ,
    "none at all": FILL + READ,
    "elements of its own": FILL + "B[b * 4 + t] = S[t]\n" + SYNC,
    "parts of its own": "for k in range(2):\n    S[t] = k\n    B[b * 4 + t] = S[t]\n" + SYNC,
    "memory of its own": "L[0] = A[b * 4 + t]\nB[b * 4 + t] = L[0] + L[0]\n" + SYNC,
    "one thread for itself": FILL + SYNC + "if t == 0:\n    S[0] = S[1] + S[2]\n    B[b * 4] = S[0]\n",
    "both sides of a loop": "for k in range(3):\n    S[t] = A[k]\n    "
    + SYNC
    + "    B[b * 4 + t] = S[3 - t]\n    "
    + SYNC,
    "before a loop with barriers": FILL + "for k in range(2):\n    " + SYNC + "    if k > 0:\n        " + READ,
    "from one thread to all": "if t == 0:\n    S[0] = A[b]\n" + SYNC + "B[b * 4 + t] = S[0]\n",
    "all alike": "S[0] = A[b]\n" + "B[b * 4 + t] = S[0]\n" + SYNC,
}


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(HEAD + "".join(f"            {line}\n" for line in body.splitlines()))["main"]


A, B = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)


@pytest.mark.parametrize("body", MISSING.values(), ids=MISSING)
def test_a_missing_barrier_is_told_as_in_the_checked_mode(body: str):
    func = parsed(body)
    for run, code in ((lambda: ti.tir.interpret(func, A, B, checked=True), "TR03"), (lambda: ti.lift(func), "TL12")):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_the_checked_mode_lets_pass_is_lifted_to_its_numbers(body: str):
    func = parsed(body)
    wanted = ti.tir.interpret(func, A, B, checked=True)[1]
    np.testing.assert_array_equal(ti.lift(func)(A, B)[0], wanted)


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
