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
GAPS = {
    "by some threads": "if t < 2:\n    L[0] = A[t]\nB[t] = L[0]",
    "by all but one": "if t != 2:\n    L[1] = A[t]\nB[t] = L[1]",
    "another element": "L[t % 2] = A[t]\nB[t] = L[0]",
    "handed on": "if t < 2:\n    L[0] = A[t]\nL[1] = L[0] + 1\nB[t] = L[1]",
    "counted up": "if t < 3:\n    L[0] = A[t]\nfor i in range(3):\n    L[0] = L[0] + i\nB[t] = L[0]",
    "in a condition": "if t < 2:\n    L[0] = A[t]\nif L[0] > 0:\n    B[t] = 2",
    "by some in a loop": "for i in range(2):\n    if i + t < 4:\n        L[i] = A[t]\nB[t] = L[0] + L[1]",
}
WHOLE = {
    "by all": "L[0] = A[t]\nB[t] = L[0]",
    "by those who read": "if t < 2:\n    L[0] = A[t]\nif t < 2:\n    B[t] = L[0]",
    "by all, the same": "L[0] = 3\nB[t] = L[0]",
    "by some, and by the others": "if t < 2:\n    L[0] = A[t]\nif t >= 2:\n    L[0] = -A[t]\nB[t] = L[0]",
    "in a loop": "for i in range(2):\n    L[i] = A[t] + i\nB[t] = L[0] + L[1]",
}


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


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x", "vthread.x"])
@pytest.mark.parametrize("body", GAPS.values(), ids=GAPS)
def test_a_gap_in_a_thread_s_own_storage_is_told(body: str, tag: str):
    function = parsed(body, tag)
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(function, np.arange(4, dtype=np.int32), np.zeros(4, np.int32), checked=True)
    with pytest.raises(DiagnosticError) as found:
        ti.lift(function)
    assert [d.code for d in wanted.value.diagnostics] == ["TR02"]
    assert [d.code for d in found.value.diagnostics] == ["TL11"]
    assert found.value.diagnostics[0].span.line == wanted.value.diagnostics[0].span.line


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x", "vthread.x"])
@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_what_each_thread_writes_it_may_read(body: str, tag: str):
    function = parsed(body, tag)
    given = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    np.testing.assert_array_equal(ti.lift(function)(*given)[0], ti.tir.interpret(function, *given, checked=True)[1])


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
