"""Functions of a module that return a value to an expression."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

MODULE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def leaky(x: T.float32, slope: T.float32) -> T.float32:
        if x > T.float32(0):
            T.ret(x)
        y: T.let[T.float32] = slope * x
        T.ret(y)

    @T.prim_func(private=True)
    def twice(x: T.float32) -> T.float32:
        T.ret(Module.leaky(x, T.float32(0.5)) * T.float32(2))

    @T.prim_func
    def main(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
        for i in range(5):
            B[i] = Module.twice(A[i]) + Module.leaky(A[4 - i], T.Cast("float32", i))
"""


def test_the_value_stands_in_the_place_of_the_call():
    function = ti.tir.parse(MODULE)["main"]
    program = ti.lift(function)
    assert "loop(" not in str(program)
    a = np.array([1.5, -2.0, 0.0, -0.25, 3.0], np.float32)
    (found,) = program(a, None)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, a, np.zeros_like(a))[1])


def test_the_value_has_a_gradient():
    program = ti.lift(ti.tir.parse(MODULE)["main"])
    a = np.array([1.5, -2.0, 0.5, -0.25, 3.0], np.float32)
    slopes = jax.grad(lambda x: program(x, None)[0].sum())(a)
    # of twice(A[i]), and of leaky(A[i], 4 - i), by hand
    np.testing.assert_array_equal(slopes, [2 + 1, 1 + 3, 2 + 1, 1 + 1, 2 + 1])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("T.ret(y)", "T.ret(Module.leaky(y, slope))", "'leaky' calls itself in an expression."),
        ("        T.ret(y)\n", "", "'leaky' stands in an expression, and does not return a value on all ways."),
        (
            "y: T.let[T.float32] = slope * x\n        T.ret(y)",
            'y = T.alloc_buffer((1,), "float32")\n        T.ret(x)',
            "'leaky' stands in an expression, and does more than to return a value.",
        ),
    ],
)
def test_what_is_no_value_is_refused_by_name(before: str, after: str, said: str):
    with pytest.raises(DiagnosticError, match=said):
        ti.lift(ti.tir.parse(MODULE.replace(before, after))["main"])
