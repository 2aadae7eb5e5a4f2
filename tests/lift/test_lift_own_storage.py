"""Reads of what a thread has for itself and has not written: what other threads wrote into theirs does not count."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for t in T.thread_binding(4, thread="{1}"):
        L = T.alloc_buffer((2,), "int32", scope="local")
{0}
"""


UNUSED = {
    "handed on": "if t < 2:\n    L[0] = A[t]\nL[1] = L[0] + 1\nif t < 2:\n    B[t] = L[1]",
    "counted up": "if t < 3:\n    L[0] = A[t]\nfor i in range(3):\n    L[0] = L[0] + i\nif t < 3:\n    B[t] = L[0]",
    "compared": "if t < 3:\n    L[0] = A[t]\nL[1] = T.Select(L[0] > 1, L[0], 1)\nif t < 3:\n    B[t] = L[1]",
}
BY_DATA = {
    "a gap": ("if A[t] > 1:\n    L[0] = A[t]\nB[t] = L[0]", False),
    "no gap": ("if A[t] > 1:\n    L[0] = A[t]\nif A[t] > 1:\n    B[t] = L[0]", True),
    "no gap, by a quotient": ("if 1 // (1 + A[t]) == 0:\n    L[0] = A[t]\nif t > 0:\n    B[t] = L[0]", True),
}


def parsed(body: str, tag: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(TEXT.format("\n".join(f"        {line}" for line in body.split("\n")), tag))["main"]


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x"])
@pytest.mark.parametrize("body", UNUSED.values(), ids=UNUSED)
def test_a_gap_that_nobody_sees_is_none(body: str, tag: str):
    function = parsed(body, tag)
    given = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    error, found = ti.lift(function).checked(*given)
    assert error is None
    np.testing.assert_array_equal(found[0], ti.tir.interpret(function, *given)[1])


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x", "vthread.x"])
@pytest.mark.parametrize(("body", "whole"), BY_DATA.values(), ids=BY_DATA)
def test_a_gap_that_data_make_is_told_by_a_call(body: str, whole: bool, tag: str):
    function = parsed(body, tag)
    given = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    if whole:
        ti.tir.interpret(function, *given, checked=True)
    else:
        with pytest.raises(DiagnosticError, match="TR02"):
            ti.tir.interpret(function, *given, checked=True)
    error, _ = ti.lift(function).checked(*given)
    assert (error is None) == whole
