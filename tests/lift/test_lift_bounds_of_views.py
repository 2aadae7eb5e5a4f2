"""An index that leaves a view is told, though it stays inside of the memory that the view is a part of."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):\n'
A, B = np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros((4, 4), np.int32)
ROW = 'R = T.decl_buffer((4,), "int32", data=T.address_of(A[1, 0]))\n'
ROWS = 'for i in range(3):\n    R = T.decl_buffer((4,), "int32", data=T.address_of(B[i, 0]))\n    for j in range(4):\n'
PART = 'for i in range(4):\n    with T.sblock("x"):\n        vi = T.axis.spatial(4, i)\n'
PART += '        R = T.match_buffer(A[vi, 0:3], (3,), "int32")\n        for j in range(4):\n'
HALVES = 'S = T.decl_buffer((2, 8), "int32", data=B.data)\nfor i in range(16):\n'
PROVEN = {
    "a row that is read": ROW + "for j in range(4):\n    B[0, j] = R[j + 1]\n",
    "rows that are written": ROWS + "        R[j + 1] = A[0, j]\n",
    "below": ROWS + "        R[j - 1] = A[0, j]\n",
    "a region": PART + "            B[vi, j] = R[j]\n",
    "a choice that looks at both": "for i in range(4):\n    B[0, i] = T.Select(i < 3, A[0, i + 1], 0)\n",
    "a condition": ROW + "for j in range(4):\n    if R[j + 1] > 0:\n        B[0, j] = 1\n",
    "a vector": ROW + "B[0, T.Ramp(0, 1, 4)] = R[T.Ramp(1, 1, 4)]\n",
}
TOLD_BY_DATA = {
    "read": ROW + "for j in range(4):\n    B[0, j] = R[A[0, j] + 1]\n",
    "written": ROWS + "        R[A[0, j] + 1] = 1\n",
    "behind a condition of data": ROW + "for j in range(4):\n    if A[0, j] > 0:\n        B[0, j] = R[j + 1]\n",
    "a choice that looks at both": ROW + "for j in range(4):\n    B[0, j] = T.Select(j > 5, R[A[0, j] + 1], 0)\n",
    "a while": ROW + "while B[0, 0] < 5:\n    B[0, 0] = B[0, 0] + R[B[0, 0]]\n    B[1, 1] = R[B[0, 0]]\n",
}
RIGHT = {
    "guarded": ROW + "for j in range(4):\n    if j < 3:\n        B[0, j] = R[j + 1]\n",
    "chosen": ROW + "for j in range(4):\n    B[0, j] = T.if_then_else(j < 3, R[j + 1], 7)\n",
    "data": ROW + "for j in range(4):\n    B[0, j] = R[A[0, j]]\n",
    "rows": ROWS + "        R[3 - j] = A[i, j]\n",
    "a region": PART + "            B[vi, j] = R[T.min(j, 2)]\n",
    "another shape": HALVES + "    S[i // 8, i % 8] = A[i // 4, i % 4]\n",
    "a choice that looks at both": "for i in range(4):\n    B[0, i] = T.Select(i < 3, A[0, (i + 1) % 4], 0)\n",
    "a choice behind another one": "for i in range(4):\n"
    "    B[0, i] = T.if_then_else(i < 3, T.Select(A[0, i] > 2, A[0, i + 1], 0), 1)\n",
}


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))["main"]


def told(function: ti.tir.PrimFunc) -> object:
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.interpret(function, A, B, checked=True)
    (found,) = caught.value.diagnostics
    assert found.code == "TR01"
    return found.span


@pytest.mark.parametrize("body", PROVEN.values(), ids=PROVEN)
def test_an_index_that_is_proven_to_leave_a_view_is_an_error(body: str):
    function = parsed(body)
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(function)
    (found,) = caught.value.diagnostics
    assert (found.code, found.span) == ("TL10", told(function))


@pytest.mark.parametrize("body", TOLD_BY_DATA.values(), ids=TOLD_BY_DATA)
def test_an_index_that_data_tell_is_checked_by_the_call(body: str):
    function = parsed(body)
    with pytest.raises(DiagnosticError, match="an index leaves 'R', which has 4 elements") as caught:
        ti.lift(function)(A, B)
    assert caught.value.diagnostics[0].span == told(function)


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_stays_inside_of_a_view_is_lifted(body: str):
    function = parsed(body)
    wanted = ti.tir.interpret(function, A, B, checked=True)[1]
    np.testing.assert_array_equal(ti.lift(function)(A, B)[0], wanted)


def test_a_buffer_over_a_pool_may_go_on_behind_its_shape():
    function = parsed(
        'P = T.alloc_buffer((40,), "int32")\nV = T.decl_buffer((16,), "int32", data=P.data)\n'
        "for i in range(16):\n    V[i + 20] = A[i // 4, i % 4]\nfor i in range(16):\n"
        "    B[i // 4, i % 4] = V[35 - i]\n"
    )
    np.testing.assert_array_equal(ti.lift(function)(A, B)[0], ti.tir.interpret(function, A, B)[1])


def test_a_row_that_is_passed_to_a_function_is_as_long_as_the_function_says():
    module = ti.tir.parse("""
@I.ir_module
class M:
    @T.prim_func
    def row(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        for j in range(4):
            y[j] = x[j + 1]

    @T.prim_func
    def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
        for i in range(4):
            M.row(T.address_of(A[i, 0]), T.address_of(B[i, 0]))
""")
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(module)
    assert (
        str(caught.value)
        == """<tir>:7:20: error[TL10]: an index leaves 'x', which has 4 elements.
              y[j] = x[j + 1]
                     ^^^^^^^^
note: in the iteration i = 0, j = 3.
help: guard the access, or correct the loop's bounds."""
    )
