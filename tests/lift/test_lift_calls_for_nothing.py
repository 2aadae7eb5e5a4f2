"""Functions that are called where nobody takes a value: what they store is stored."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def grow(B: T.Buffer((2,), "int32")) -> T.int32:
        B[0] = B[0] + 5
        T.ret(1)

    @T.prim_func
    def main(B: T.Buffer((2,), "int32")) -> T.int32:
        {}
"""
BODIES = {
    "returned": "T.ret(Module.grow(B.data))",
    "in a sum that is returned": "T.ret(1 + Module.grow(B.data) + Module.grow(B.data))",
    "by a choice": "T.evaluate(T.if_then_else(B[1] > 3, Module.grow(B.data), 0))",
    "in a sum": "T.evaluate(1 + Module.grow(B.data))",
    "by a function of numbers": "T.evaluate(T.abs(Module.grow(B.data)))",
    "behind a condition": "if B[1] > 3:\n            T.ret(Module.grow(B.data))\n        B[1] = 9",
    "in a loop": """for i in range(3):
            if i == 1:
                T.ret(Module.grow(B.data))
            B[1] = i""",
}


@pytest.mark.parametrize("second", [0, 4])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_a_function_stores_is_stored(body: str, second: int):
    func = ti.tir.parse(TEXT.format(body))["main"]
    given = np.array([7, second], np.int32)
    (wanted,) = ti.tir.interpret(func, given)
    np.testing.assert_array_equal(ti.lift(func)(given)[0], wanted)


def test_recursion_without_an_end_is_refused_where_nobody_takes_the_value():
    func = ti.tir.parse(TEXT.format("T.ret(Module.main(B.data))"))["main"]
    with pytest.raises(DiagnosticError, match="calls of 'main' nest more than 64 deep"):
        ti.lift(func)
