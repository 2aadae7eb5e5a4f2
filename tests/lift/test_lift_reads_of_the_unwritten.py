"""Reads of the program's own storage before anything is there: proven, or told by a call where data decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
OWN = 'f = T.alloc_buffer((8,), "int32")\n'
SHARED = """for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        L = T.alloc_buffer((2,), "int32", scope="local")
"""
SYNC = '        T.tvm_storage_sync("shared")\n'
KEPT = 'h = T.alloc_buffer((1,), "int32")\n'
TOLD = {
    "stores under conditions": OWN
    + "for i in range(8):\n    if A[i] > 2:\n        f[i] = A[i]\nfor i in range(8):\n    B[i] = f[i]\n",
    "stores at places": OWN + "for i in range(8):\n    f[A[i]] = A[i]\nfor i in range(8):\n    B[i] = f[i]\n",
    "reads at places": OWN + "for i in range(3):\n    f[i] = A[i]\nfor i in range(8):\n    B[i] = f[A[i]]\n",
    "a while": OWN + "while B[0] < 3:\n    B[0] = B[0] + f[0] + 1\n",
    "a while of which some rounds write": OWN
    + "while B[0] < 3:\n    f[B[0]] = 2\n    B[1] = f[B[0]] + f[1]\n    B[0] = B[0] + 1\n",
    "behind a while": OWN + "while B[0] + 3 < A[0]:\n    f[0] = 2\n    B[0] = B[0] + 1\nB[1] = f[0]\n",
    "a condition": OWN + "f[A[0]] = 1\nif f[0] > 0:\n    B[0] = 1\n",
    "the threads of a block": SHARED
    + "        if A[b * 4 + t] > 2:\n            S[t] = A[b * 4 + t]\n"
    + SYNC
    + "        B[b * 4 + t] = S[3 - t]\n",
    "what a thread has of its own": SHARED
    + "        if A[b * 4 + t] > 2:\n            L[0] = 1\n        B[b * 4 + t] = L[0]\n",
    "what a thread has of its own, stored at places": SHARED
    + "        L[A[b * 4 + t]] = 1\n        B[b * 4 + t] = L[0]\n",
    "what an iteration has of its own": "for i in range(8):\n    "
    + OWN
    + "    if A[i] > 2:\n        f[0] = A[i]\n    B[i] = f[0]\n",
    "under a condition that changes in between": OWN
    + KEPT
    + "for i in range(8):\n    h[0] = A[i]\n    if h[0] > 2:\n        f[i] = 1\n"
    + "    h[0] = 4\n    if h[0] > 2:\n        B[i] = f[i]\n",
    "under a condition that a loop changes": OWN
    + KEPT
    + "for i in range(4):\n    h[0] = A[i]\n    if h[0] > 2:\n        f[i] = 1\n"
    + "    for j in range(2):\n        if h[0] > 2:\n            B[i] = f[i]\n        h[0] = 4\n",
    "under a condition that a while changes": OWN
    + KEPT
    + "h[0] = A[0]\nif h[0] > 2:\n    f[0] = 1\nB[1] = 0\nwhile B[1] < 2:\n    if h[0] > 2:\n        B[0] = f[0]\n"
    + "    h[0] = 4\n    B[1] = B[1] + 1\n",
    "a sum that begins with nothing": OWN + "for i in range(8):\n    f[A[i]] = f[A[i]] + 1\n    B[i] = f[A[i]]\n",
}


def numbers(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 6, 8).astype(np.int32), np.zeros(8, np.int32)]


def told(function: ti.tir.PrimFunc, seed: int) -> Any:
    try:
        ti.tir.interpret(function, *numbers(seed), checked=True)
    except DiagnosticError as error:
        return error.diagnostics[0]
    return None


@pytest.mark.parametrize("body", TOLD.values(), ids=TOLD)
def test_a_read_that_data_let_come_first_is_told_by_the_call(body: str):
    function = parsed(HEAD, body)
    program = ti.lift(function)
    failed = 0
    for seed in range(4):
        wanted = told(function, seed)
        if wanted is None:
            found = program(*numbers(seed))[0]
            np.testing.assert_array_equal(found, ti.tir.interpret(function, *numbers(seed))[1])
            continue
        failed += 1
        with pytest.raises(DiagnosticError, match="is read, and nothing has written it") as caught:
            program(*numbers(seed))
        assert caught.value.diagnostics[0].span == wanted.span
    assert failed
    assert "note: line" in str(program.report) and "is written before it is read" in str(program.report)


@pytest.mark.parametrize(
    "body",
    [
        OWN + "for i in range(8):\n    f[i] = A[i]\nfor i in range(8):\n    if A[i] > 2:\n        B[i] = f[7 - i]\n",
        OWN + KEPT + "for i in range(8):\n    h[0] = A[i]\n    if h[0] > 2:\n        f[i] = 1\n        B[i] = f[i]\n",
        OWN
        + KEPT
        + "for i in range(8):\n    h[0] = A[i]\n    for j in range(h[0]):\n        f[i] = j\n        B[i] = f[i]\n",
    ],
    ids=["a condition of reads only", "a condition on a number that is kept", "a bound that is kept"],
)
def test_what_is_sure_to_be_written_needs_no_flag(body: str):
    assert "is written before it is read" not in str(ti.lift(parsed(HEAD, body)).report)


def test_the_place_and_the_round_are_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(HEAD, OWN + "f[0] = 1\nwhile B[0] < 3:\n    B[1] = f[B[0]]\n    B[0] = B[0] + 1\n"))(*numbers(0))
    assert (
        str(caught.value)
        == """<tir>:6:16: error[R02]: an element of 'f' is read, and nothing has written it.
          B[1] = f[B[0]]
                 ^^^^^^^
note: it fails first at round 1."""
    )
