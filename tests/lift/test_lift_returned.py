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


def test_the_value_stands_in_the_place_of_the_call():
    function = ti.tir.parse(MODULE)["main"]
    program = ti.lift(function)
    assert steps_of(program) == 0
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
        ("T.ret(y)", "T.ret(Module.leaky(y, slope))", "calls of 'leaky' nest more than 64 deep"),
        ("        T.ret(y)\n", "", "'leaky' stands in an expression, and does not return a value on all ways."),
    ],
)
def test_what_is_no_value_is_refused_by_name(before: str, after: str, said: str):
    with pytest.raises(DiagnosticError, match=said):
        ti.lift(ti.tir.parse(MODULE.replace(before, after))["main"])


def test_a_function_of_functions_that_do_more_does_more():
    stored = 'y = T.alloc_buffer((1,), "float32")\n        y[0] = slope * x\n        T.ret(y[0])'
    function = ti.tir.parse(MODULE.replace("y: T.let[T.float32] = slope * x\n        T.ret(y)", stored))["main"]
    a = np.array([1.5, -2.0, 0.0, -0.25, 3.0], np.float32)
    np.testing.assert_array_equal(ti.lift(function)(a, None)[0], ti.tir.interpret(function, a, np.zeros_like(a))[1])


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


@pytest.mark.parametrize(
    "body",
    [
        "B[1] = B[2] * Module.total(A.data, 3) + Module.total(A.data, 5)",
        "for i in range(4):\n    B[i] = Module.total(A.data, i + 1) - A[i]",
        "for i in range(4):\n    B[i] = T.Cast('float32', Module.first(A.data, T.Cast('float32', i)))",
        "if Module.total(A.data, 2) > T.float32(0):\n    B[0] = T.float32(7)\nelse:\n    B[1] = T.float32(3)",
        "x: T.let[T.float32] = Module.total(A.data, 4)\nB[2] = x * x",
        "B[1] = Module.total(A.data, Module.first(A.data, T.float32(0)) + 2)",
        "B[1] = Module.doubled(A.data) - Module.doubled(A.data) * T.float32(3)",
        "for i in range(4):\n    B[i] = Module.doubled(A.data)",
        "for i in range(4):\n    B[i] = Module.power(A[i], i) + Module.power(B[i], 2)",
        "for i in range(Module.first(A.data, T.float32(0)) + 2):\n    B[i] = T.float32(9)",
        "B[Module.first(A.data, T.float32(0))] = T.float32(9)",
        """for i in range(4):
    B[i] = T.if_then_else(i > 1, Module.doubled(A.data), T.float32(3)) + T.float32(1)""",
        """for i in range(4):
    B[i] = T.if_then_else(i > 2, T.float32(3), T.if_then_else(i == 1, Module.doubled(A.data), A[i]))""",
        """for i in range(4):
    if i % 2 == 0 and Module.doubled(A.data) < T.float32(-4):
        B[i] = T.float32(7)""",
        """for i in range(4):
    if B[i] > T.float32(2) or Module.doubled(A.data) < T.float32(-3):
        B[i] = T.float32(7)""",
        "B[T.if_then_else(B[0] < T.float32(2), Module.first(A.data, T.float32(0)), 0)] = T.float32(9)",
        """while Module.total(A.data, 3) < T.float32(9):
    A[0] = A[0] + T.float32(1)
    B[0] = B[0] + A[1]""",
        """while Module.doubled(A.data) > T.float32(-9) and Module.total(A.data, 2) > T.float32(-8):
    if A[0] < T.float32(-5):
        B[1] = T.float32(8)
        continue
    B[0] = B[0] + A[0]""",
        """for i in range(4):
    while Module.doubled(A.data) > T.float32(-9) * T.Cast('float32', i):
        if A[0] < T.float32(-20):
            break
        B[i] = B[i] + A[0]""",
    ],
)
def test_a_function_that_does_more_runs_before_the_statement(body: str):
    function = running(body)
    a, b = np.array([-1.5, 2, 0.5, 3, -2, 1], np.float32), np.arange(1, 5, dtype=np.float32)
    program = ti.lift(function)
    wanted = ti.tir.interpret(function, a, b)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written, program(a, b), strict=True):
        np.testing.assert_array_equal(got, wanted[place])


def test_a_sum_that_a_function_returns_is_one_of_the_program():
    assert steps_of(ti.lift(running("for i in range(4):\n    B[i] = Module.total(A.data, 6)"))) == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("B[1] = A[0] + Module.doubled(A.data)", "this statement reads 'A', which 'doubled' writes."),
        (
            "B[1] = A[0] + T.if_then_else(B[0] > T.float32(0), Module.doubled(A.data), T.float32(0))",
            "this statement reads 'A', which a choice here writes.",
        ),
        (
            "B[T.Ramp(0, 1, 4)] = T.if_then_else(\n"
            "    B[0] > T.float32(0), T.Broadcast(Module.total(A.data, 3), 4), T.Broadcast(T.float32(0), 4))",
            "a choice among vectors decides whether this is done.",
        ),
    ],
    ids=["a read of what it writes", "a read of what a choice writes", "a choice among vectors"],
)
def test_a_function_that_cannot_run_before_the_statement_is_refused(body: str, said: str):
    with pytest.raises(DiagnosticError, match=said):
        ti.lift(running(body))


LEAVING = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(6):
        B[1] = B[1] + T.float32(1)
        if A[i] > T.float32(0):
            B[0] = A[i]
            T.ret(i)
    B[2] = T.float32(-1)
"""


@pytest.mark.parametrize("a", [[-1.5, 2, 0.5, 3, -2, 1], [-1, -2, -3, -4, -5, -6], [4, 5, 6, 7, 8, 9]])
def test_what_stands_before_a_return_in_a_loop_does_nothing_in_later_iterations(a: list[float]):
    function = ti.tir.parse(LEAVING)["main"]
    given = np.array(a, np.float32), np.zeros(3, np.float32)
    np.testing.assert_array_equal(ti.lift(function)(*given)[0], ti.tir.interpret(function, *given)[1])


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
