"""An index that leaves a view is told, though it stays inside of the memory that the view is a part of."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):\n'
A, B = np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros((4, 4), np.int32)
PART = 'for i in range(4):\n    with T.sblock("x"):\n        vi = T.axis.spatial(4, i)\n'
PART += '        R = T.match_buffer(A[vi, 0:3], (3,), "int32")\n        for j in range(4):\n'


def test_a_buffer_over_a_pool_may_go_on_behind_its_shape():
    function = parsed(
        HEAD,
        'P = T.alloc_buffer((40,), "int32")\nV = T.decl_buffer((16,), "int32", data=P.data)\n'
        "for i in range(16):\n    V[i + 20] = A[i // 4, i % 4]\nfor i in range(16):\n"
        "    B[i // 4, i % 4] = V[35 - i]\n",
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
