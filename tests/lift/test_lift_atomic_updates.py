"""The old values of atomic updates: threads take their turns in ascending order, and each keeps what it found."""

from __future__ import annotations

import numpy as np

import tensorir as ti
from tests.lift.harness import parsed

HEAD = """@T.prim_func
def main(
    A: T.Buffer((4, 4), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")
):
"""
THREADS = (
    'for b in T.thread_binding(4, thread="blockIdx.x"):\n    for t in T.thread_binding(4, thread="threadIdx.x"):\n'
)
ADD = "T.atomic_add(T.address_of(C[{}]), {})"
PLACES = THREADS + f"        if A[b, t] > 2:\n            p: T.int32 = {ADD.format(0, 1)}\n            B[p] = A[b, t]\n"


def test_blocks_take_their_turns_one_after_the_other():
    function = parsed(HEAD, PLACES)
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    zeros = [np.zeros(8, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)]
    assert ti.tir.interpret(function, a, *zeros)[3].tolist()[:14] == [*range(3, 16), 0]


def test_the_order_of_updates_is_in_the_report():
    report = str(ti.lift(parsed(HEAD, PLACES)).report)
    assert "note: line 8: T.atomic_add updates thread by thread, in ascending order." in report
