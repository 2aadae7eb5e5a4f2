"""What a statement reads and writes stays inside of its buffers, whether or not anybody sees what it computes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """
@T.prim_func
def main(idx: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        {}
"""
OVER = "\n    for i in range(8):\n        A[i] = T.float32(2)"
STATEMENTS = {
    "a store that is written over": "A[idx[i]] = B[i]" + OVER,
    "a read that is written over": "A[i] = B[idx[i]]" + OVER,
    "written over in two parts": "A[i] = B[idx[i]]"
    "\n    for i in range(4):\n        A[i] = T.float32(2)\n    for i in range(4):\n        A[i + 4] = T.float32(3)",
    "written over by later rounds": "for k in range(8):\n            A[i] = B[idx[k]]",
    "storage that nobody reads": "t[idx[i]] = B[i]",
    "storage that is read in part": "t[i] = B[idx[i]]\n    for i in range(4):\n        A[i] = t[i]",
    "storage that is read under a condition": "t[i] = B[idx[i]]"
    "\n    for i in range(8):\n        if B[i] > T.float32(4):\n            A[i] = t[i]",
    "what leads to nothing": "t[i] = B[idx[i]]\n    for i in range(8):\n        A[i] = t[i]" + OVER,
    "one of many that are alike": "t[i] = T.float32(2)\n    for i in range(8):\n        A[i] = t[idx[i]]",
    "one of a row that is alike": "t[i] = B[3]\n    for i in range(8):\n        A[i] = A[i] + t[idx[i]]",
    "under a guard": "if B[i] > T.float32(4):\n            A[idx[i]] = B[i]" + OVER,
    "a sum": "A[0] = A[0] + B[idx[i]]" + OVER,
    "step by step": "A[idx[i]] = A[i] * A[7 - i] + B[i]" + OVER,
    "in a loop that runs step by step": "t[i] = A[idx[i]]"
    "\n        t[i] = B[i]\n        A[(i + 1) % 8] = A[i] * A[(i + 1) % 8] + t[i]",
    "in the condition of a while": "t[0] = T.float32(0)\n        while t[0] < B[idx[i]]:"
    "\n            t[0] = t[0] + T.float32(1)" + OVER,
    "in a while": "t[0] = T.float32(0)\n        while t[0] < T.float32(2):"
    "\n            t[0] = t[0] + T.float32(1)\n            A[idx[i]] = B[i]" + OVER,
}


@pytest.mark.parametrize("indices", [[0, 7, 1, 6, 2, 5, 3, 4], [0, 1, 2, 3, 4, -1, 8, 0]])
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_an_index_that_leaves_its_buffer_is_an_error_where_nobody_sees_the_result(statement: str, indices: list[int]):
    function = ti.tir.parse(HEAD.format(statement))["main"]
    arrays = np.array(indices, np.int32), np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    program = ti.lift(function)
    try:
        wanted = ti.tir.interpret(function, *arrays, checked=True)
    except DiagnosticError as error:
        with pytest.raises(DiagnosticError) as found:
            program(*arrays)
        assert [d.span.line for d in found.value.diagnostics] == [d.span.line for d in error.diagnostics]
    else:
        for argument, got in zip(
            [k for k, a in enumerate(program.arguments) if a.written], program(*arrays), strict=True
        ):
            np.testing.assert_allclose(got, wanted[argument])


def test_an_assertion_holds_in_a_loop_that_leaves_nothing_behind():
    body = "t[idx[i]] = t[0] * B[i] + B[i]\n        assert t[0] >= T.float32(0), 'negative'"
    program = ti.lift(ti.tir.parse(HEAD.format(body))["main"], on_hazard="ignore")
    indices, ones = np.zeros(8, np.int32), np.ones(8, np.float32)
    program(indices, ones, ones)
    with pytest.raises(DiagnosticError, match="negative"):
        program(indices, -2 * ones, ones)


def test_a_result_that_is_seen_needs_no_check_of_its_own():
    rows = ti.tir.parse("""
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), at: T.Buffer((9,), "int32"), x: T.Buffer((7,), "float32"),
         y: T.Buffer((4,), "float32")):
    t = T.alloc_buffer((9,), "float32")
    for j in range(9):
        t[j] = x[at[j]]
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(9):
            y[i] = y[i] + t[j] * x[at[8 - j]]
""")["main"]
    program = ti.lift(rows)
    checked = program.at(program.static).built(True)
    assert checked.unchecked and "assert_" not in str(checked.fencil)
