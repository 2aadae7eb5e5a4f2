"""Functions of a module that return a value to an expression."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import steps_of

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


def test_the_value_has_a_gradient():
    program = ti.lift(ti.tir.parse(MODULE)["main"])
    a = np.array([1.5, -2.0, 0.5, -0.25, 3.0], np.float32)
    slopes = jax.grad(lambda x: program(x, None)[0].sum())(a)
    # of twice(A[i]), and of leaky(A[i], 4 - i), by hand
    np.testing.assert_array_equal(slopes, [2 + 1, 1 + 3, 2 + 1, 1 + 1, 2 + 1])


RUNS = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def total(a: T.handle, n: T.int32) -> T.float32:
        A = T.match_buffer(a, (6,), "float32")
        s = T.alloc_buffer((1,), "float32")
        s[0] = T.float32(0)
        for i in range(6):
            if i < n:
                s[0] = s[0] + A[i]
        T.ret(s[0])

    @T.prim_func(private=True)
    def first(a: T.handle, least: T.float32) -> T.int32:
        A = T.match_buffer(a, (6,), "float32")
        for i in range(6):
            if A[i] > least:
                T.ret(i)
        T.ret(-1)

    @T.prim_func(private=True)
    def doubled(a: T.handle) -> T.float32:
        A = T.match_buffer(a, (6,), "float32")
        A[0] = A[0] * T.float32(2)
        T.ret(A[0])

    @T.prim_func(private=True)
    def power(x: T.float32, n: T.int32) -> T.float32:
        y = T.alloc_buffer((1,), "float32")
        y[0] = T.float32(1)
        for i in range(4):
            if i < n:
                y[0] = y[0] * x
        T.ret(y[0])

    @T.prim_func
    def main(A: T.Buffer((6,), "float32"), B: T.Buffer((4,), "float32")):
{}
"""


def running(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(RUNS.format("".join(f"        {line}\n" for line in body.split("\n"))))["main"]


def test_a_sum_that_a_function_returns_is_one_of_the_program():
    assert steps_of(ti.lift(running("for i in range(4):\n    B[i] = Module.total(A.data, 6)"))) == 0


ASKING = """@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(a: T.handle, n: T.int32) -> T.int32:
        A = T.match_buffer(a, (4,), "int32")
        A[0] = A[0] + 1
        A[1] = 5
        T.ret(A[2] + n)

    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        {}
"""


@pytest.mark.parametrize(
    ("body", "divides"),
    [
        ("C[0] = T.if_then_else(A[0] != 0, 7 // B[1], Module.f(A.data, 1))", False),
        ("C[0] = Module.f(A.data, 7 // A[1])", True),
        ("C[0] = T.if_then_else(B[0] == 0, Module.f(A.data, 7 // A[1]), 1)", True),
        ("C[0] = T.if_then_else(B[0] == 1, Module.f(A.data, 7 // A[1]), 1)", False),
    ],
)
def test_what_a_call_asks_is_asked_before_it_runs(body: str, divides: bool):
    function = ti.tir.parse(ASKING.format(body))["main"]
    given = np.array([0, 0, 3, 4], np.int32), np.zeros(4, np.int32), np.zeros(4, np.int32)
    if divides:
        with pytest.raises(DiagnosticError, match="division of an integer by zero"):
            ti.tir.interpret(function, *given, checked=True)
    else:
        ti.tir.interpret(function, *given, checked=True)
    error, _ = ti.lift(function).checked(*given)
    assert (error is not None) == divides
