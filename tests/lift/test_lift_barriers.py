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


LOOPED = {
    "at the end of a round": ("for k in range(2):\n    " + FILL + "    " + SYNC + "    " + READ, True),
    "at the end of a round and nowhere else": (
        "for k in range(2):\n    " + FILL + "    " + SYNC + "    " + READ + "    " + SYNC,
        False,
    ),
    "at the end of the only round": ("for k in range(1):\n    " + FILL + "    " + SYNC + "    " + READ, False),
    "of two buffers that take turns": (
        "for k in range(3):\n    D[k % 2, t] = A[k]\n    " + SYNC + "    B[b * 4 + t] = D[k % 2, 3 - t]\n",
        False,
    ),
    "of two buffers of which one is enough": (
        "for k in range(3):\n    D[k % 2, t] = A[k]\n    " + SYNC + "    B[b * 4 + t] = D[0, 3 - t]\n",
        True,
    ),
    "before the first round": (FILL + "for k in range(2):\n    " + READ + "    " + SYNC, True),
    "before the first round, of elements that the second reads": (
        "D[1, t] = A[t]\nD[0, t] = 3\n"
        "for k in range(2):\n    B[b * 4 + t] = D[k, T.if_then_else(k == 1, 3 - t, t)]\n    " + SYNC,
        False,
    ),
    "behind the last round": ("for k in range(2):\n    " + SYNC + "    S[t] = A[k]\n" + READ, True),
    "behind rounds of which the last does nothing": (
        "S[t] = A[t]\nfor k in range(3):\n    " + SYNC + "    if k < 2:\n        S[t] = A[k]\n" + READ,
        False,
    ),
    "between rounds of loops inside of loops": (
        "for k in range(2):\n    for j in range(2):\n        " + FILL + "        " + SYNC + "    " + READ,
        True,
    ),
    "between iterations of a loop without any": (
        SYNC + "for k in range(4):\n    S[(t + k) % 4] = k\n" + SYNC + READ,
        True,
    ),
    "between iterations of a loop that keeps to its own": (
        SYNC + "for k in range(4):\n    S[t] = k\n" + SYNC + READ,
        False,
    ),
    "in one statement": (FILL + SYNC + "S[t] = S[3 - t]\n" + SYNC, True),
    "of a name for what was read before it": (
        "S[t] = A[b * 4 + t]\nv: T.let[T.int32] = S[3 - t]\n" + SYNC + "B[b * 4 + t] = v\n",
        True,
    ),
    "of a name for what is read between two": (
        "S[t] = A[b * 4 + t]\n" + SYNC + "v: T.let[T.int32] = S[3 - t]\n" + SYNC + "B[b * 4 + t] = v\nS[t] = 1\n",
        False,
    ),
    "of a condition": (FILL + "if S[3 - t] > 2:\n    B[b * 4 + t] = 1\n" + SYNC, True),
    "of a condition around a barrier": (
        "S[0] = 3\n" + SYNC + "if S[0] > 2:\n    " + SYNC + "    B[b * 4 + t] = 1\n    S[t] = 1\n",
        False,
    ),
}


@pytest.mark.parametrize("body, missing", LOOPED.values(), ids=LOOPED)
def test_rounds_of_loops_are_told_as_in_the_checked_mode(body: str, missing: bool):
    func = parsed('D = T.alloc_buffer((2, 4), "int32", scope="shared")\n' + body)
    if not missing:
        wanted = ti.tir.interpret(func, A, B, checked=True)[1]
        np.testing.assert_array_equal(ti.lift(func)(A, B)[0], wanted)
        return
    for run, code in ((lambda: ti.tir.interpret(func, A, B, checked=True), "TR03"), (lambda: ti.lift(func), "TL12")):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert caught.value.diagnostics[0].code == code


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


LAST = "B[b * 4 + t] = B[b * 4 + t] + 1\n"
STRAYING = {
    "a condition": FILL + "if t < 2:\n    " + SYNC,
    "the other branch": FILL + "if t < 2:\n    B[b * 4 + t] = 1\nelse:\n    " + SYNC,
    "one block of them": FILL + "if b * 4 + t < 6:\n    " + SYNC,
    "a loop of turns of its own": "for k in range(t + 1):\n    S[t] = k\n    " + SYNC,
    "a predicate": FILL
    + 'with T.sblock("x"):\n    vt = T.axis.spatial(4, t)\n    T.where(t < 3)\n    '
    + SYNC
    + "    B[b * 4 + vt] = 1\n",
}
STRAYING_BY_DATA = {
    "a condition": FILL + "if A[b * 4 + t] > 2:\n    " + SYNC,
    "memory that threads share": "S[t] = A[t]\n" + SYNC + "if S[t] > 2:\n    " + SYNC + "B[b * 4 + t] = S[3 - t]\n",
    "threads that left": "S[t] = A[t]\nif A[t] == 1:\n    T.evaluate(T.thread_return())\n"
    + SYNC
    + "B[b * 4 + t] = 1\n",
}
TOGETHER = {
    "a block that does": FILL + "if b == 0:\n    " + SYNC + READ.replace("3 - t", "t"),
    "data alike for all": FILL + "if A[b] == 0:\n    " + SYNC + READ.replace("3 - t", "t"),
    "a condition that always holds": FILL + "if t < 4:\n    " + SYNC + "    " + READ,
    "as many turns for all": "S[t] = 0\nfor k in range(A[2]):\n    "
    + SYNC
    + "    S[t] = S[t] + k\nB[b * 4 + t] = S[t]\n",
    "data that are alike": FILL + "if A[t] >= 0:\n    " + SYNC + "B[b * 4 + t] = 5\n",
    "threads of a warp that wait for each other": FILL
    + 'if t < 2:\n    S[t] = S[t] + 1\n    T.tvm_storage_sync("warp")\n'
    + SYNC
    + READ,
    "all threads of a block left": FILL + "if A[b] == 0:\n    T.evaluate(T.thread_return())\n" + SYNC + READ,
}


@pytest.mark.parametrize("body", STRAYING.values(), ids=STRAYING)
def test_a_barrier_that_only_some_threads_reach_is_told(body: str):
    func = parsed(body + LAST)
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(func, A, B, checked=True)
    with pytest.raises(DiagnosticError) as found:
        ti.lift(func)
    (told,), (lifted,) = wanted.value.diagnostics, found.value.diagnostics
    assert (told.code, lifted.code, lifted.span.line) == ("TR14", "TL13", told.span.line)
    np.testing.assert_array_equal(ti.lift(func, on_hazard="sequential")(A, B)[0], ti.tir.interpret(func, A, B)[1])
    np.testing.assert_array_equal(ti.lift(func, on_hazard="ignore")(A, B)[0], ti.tir.interpret(func, A, B)[1])


@pytest.mark.parametrize("body", STRAYING_BY_DATA.values(), ids=STRAYING_BY_DATA)
def test_a_barrier_that_data_keep_threads_from_is_told_when_the_program_runs(body: str):
    func = parsed(body + LAST)
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(func, A, B, checked=True)
    program = ti.lift(func)
    with pytest.raises(DiagnosticError, match="not all threads of the block reach this barrier") as found:
        program(A, B)
    assert found.value.diagnostics[0].span.line == wanted.value.diagnostics[0].span.line
    np.testing.assert_array_equal(ti.lift(func, on_hazard="ignore")(A, B)[0], ti.tir.interpret(func, A, B)[1])


@pytest.mark.parametrize("body", TOGETHER.values(), ids=TOGETHER)
def test_a_barrier_that_all_threads_reach_together_may_stand_in_a_condition(body: str):
    func = parsed(body)
    wanted = ti.tir.interpret(func, A, B, checked=True)[1]
    np.testing.assert_array_equal(ti.lift(func)(A, B)[0], wanted)


def test_a_barrier_in_a_condition_is_told_with_a_thread_that_does_not_come():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(STRAYING["one block of them"]))
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
