"""What a source leaves undefined is 0 in every run, and told by the checked interpreter and by `checked` alike."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), X: T.Buffer((4,), "float32"),
         B: T.Buffer((4,), "int32")):
{}
"""
EACH = "for i in range(4):\n    B[i] = {}"
DIVISION, SHIFT = "division of an integer by zero.", "a shift by a number of places that int32 does not have."
CAST = "a float that int32 does not hold becomes int32."
UNDEFINED = {
    "a quotient": (EACH.format("A[i] // D[i]"), "TR08", DIVISION),
    "a remainder": (EACH.format("T.truncmod(A[i], D[i])"), "TR08", DIVISION),
    "a remainder of lanes": ("for i in T.vectorized(4):\n    B[i] = A[i] % D[i]", "TR08", DIVISION),
    "a quotient that is written over": (EACH.format("A[i] // D[i]") + "\n" + EACH.format("3"), "TR08", DIVISION),
    "a quotient as an index": ("B[A[3] // D[2]] = 1\nB[A[3] // D[0]] = 2", "TR08", DIVISION),
    "a quotient in a sum": ("B[0] = 0\nfor i in range(4):\n    B[0] = B[0] + A[i] // D[i]", "TR08", DIVISION),
    "a quotient in a recurrence": ("for i in range(1, 4):\n    B[i] = B[i - 1] + A[i] // D[i - 1]", "TR08", DIVISION),
    "a quotient in a condition": ("B[0] = 2\nwhile B[0] // D[0] > 3:\n    B[0] = B[0] + 1", "TR08", DIVISION),
    "a quotient in a while": (
        "B[0] = 2\nB[1] = 0\nwhile B[0] < 10:\n    B[0] = B[0] + 1\n    B[1] = 10 // (5 - B[0])", "TR08", DIVISION,
    ),
    "a shift": (EACH.format("T.shift_left(A[i], D[i])"), "TR19", SHIFT),
    "a shift by less than nothing": (EACH.format("A[i] >> (D[i] - 1)"), "TR19", SHIFT),
    "a shift by a number": (EACH.format("T.shift_left(A[i], 40)"), "TR19", SHIFT),
    "a float": (EACH.format('T.Cast("int32", X[i])'), "TR26", CAST),
    "a number": (EACH.format('T.Cast("int32", T.float32(3e20))'), "TR26", CAST),
}  # fmt: skip
DEFINED = {
    "under a choice": EACH.format("T.if_then_else(D[i] == 0, 0, A[i] // D[i])"),
    "under a guard": "for i in range(4):\n    B[i] = 0\n    if D[i] != 0:\n        B[i] = A[i] // D[i]",
    "a fitting divisor": EACH.format("A[i] // (D[i] + 1)"),
    "a guarded shift": EACH.format("T.if_then_else(D[i] < 32, T.shift_left(A[i], D[i]), 0)"),
    "a float that is clamped": EACH.format('T.Cast("int32", T.max(T.min(X[i], T.float32(100)), T.float32(0)))'),
}


def _func(body: str):
    return ti.tir.parse(TEXT.format("\n".join(f"    {line}" for line in body.split("\n"))))["main"]


def _arguments():
    numbers = [np.array([1, 2, 3, 4], np.int32), np.array([0, 1, 40, 2], np.int32)]
    return [*numbers, np.array([1.5, -3e20, np.inf, 2], np.float32), np.zeros(4, np.int32)]


@pytest.mark.parametrize("body, code, message", UNDEFINED.values(), ids=UNDEFINED)
def test_what_is_undefined_is_zero_and_told_where_that_is_asked_for(body: str, code: str, message: str):
    func = _func(body)
    wanted = ti.tir.interpret(func, *_arguments())[3]
    with pytest.raises(DiagnosticError, match=code):
        ti.tir.interpret(func, *_arguments(), checked=True)
    program = ti.lift(func)
    error, (result,) = program.checked(*_arguments())
    assert isinstance(error, DiagnosticError) and message in str(error)
    assert error.diagnostics[0].span.line in range(5, 13)
    for got in (result, program(*_arguments())[0], jax.jit(lambda *args: program(*args))(*_arguments())[0]):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("body", DEFINED.values(), ids=DEFINED)
def test_what_is_computed_where_it_is_defined_leaves_nothing_to_be_told(body: str):
    func = _func(body)
    wanted = ti.tir.interpret(func, *_arguments(), checked=True)[3]
    error, (result,) = ti.lift(func).checked(*_arguments())
    assert error is None
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    "expression, message, iteration",
    [
        ("A[i] // D[i]", "division of an integer by zero.", "i = 0"),
        ("T.shift_left(A[i], D[i])", "a shift by 40 places, of int32, which has 32.", "i = 2"),
        ("A[i] >> (D[i] - 1)", "a shift by -1 places, of int32, which has 32.", "i = 0"),
        ('T.Cast("int32", X[i])', "-3e+20 becomes int32, which holds -2147483648 to 2147483647.", "i = 1"),
    ],
)
def test_the_checked_interpreter_names_the_value_and_the_iteration(expression: str, message: str, iteration: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.interpret(_func(EACH.format(expression)), *_arguments(), checked=True)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.message, diagnostic.notes) == (message, (f"in the iteration {iteration}.",))


def test_what_a_kernel_of_relax_leaves_undefined_is_told():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def divide(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[i] // D[i]

    @R.function
    def main(a: R.Tensor((4,), "int32"), d: R.Tensor((4,), "int32")) -> R.Tensor((4,), "int32"):
        cls = Module
        out = R.call_tir(cls.divide, (a, d), out_sinfo=R.Tensor((4,), "int32"))
        return out
"""
    program = ti.lift(ti.tir.parse(text)["main"])
    given = _arguments()[:2]
    error, (result,) = program.checked(*given)
    assert DIVISION in str(error)
    np.testing.assert_array_equal(result, [0, 2, 0, 2])
    np.testing.assert_array_equal(program(*given)[0], [0, 2, 0, 2])


LETS = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
"""


def test_a_division_by_zero_in_a_vector_is_told_with_its_lane():
    text = LETS + "    v: T.let[T.int32x4] = A[T.Ramp(0, 1, 4)] // B[T.Ramp(0, 1, 4)]\n    B[T.Ramp(4, 1, 4)] = v\n"
    function = ti.tir.parse(text)["main"]
    a, b = np.arange(1, 9, dtype=np.int32), np.array([3, 1, 0, -1, 5, 9, 2, 6], np.int32)
    with pytest.raises(DiagnosticError, match="division of an integer by zero"):
        ti.tir.interpret(function, a, b, checked=True)
    error, _ = ti.lift(function).checked(a, b)
    assert "division of an integer by zero" in str(error)
    assert "it fails first at lane = 2." in str(error)


# A division of whole numbers by zero is told when a program is lifted, or by a call where data tell the divisor.


DIVIDED = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        {}
"""
A, B = np.arange(16, dtype=np.int32) - 5, np.zeros(16, np.int32)
WRONG = {
    "an index": "B[i] = A[i // 0]",
    "a place": "B[i % 0] = A[i]",
    "a quotient": "B[i] = A[i] // 0",
    "a remainder": "B[i] = A[i] % 0",
    "towards zero": "B[i] = T.truncdiv(A[i], 0)",
    "a sum that is zero": "B[i] = A[i] // (i - i)",
    "some iterations": "B[i] = T.if_then_else(i > 10, A[i] // 0, 3)",
    "a condition": "if i // 0 > 3:\n            B[i] = 2",
    "one iteration": "B[i] = A[i] // (i - 7)",
    "a remainder of one iteration": "B[i] = T.truncmod(A[i], 3 - i)",
    "a loop's bounds": "for j in range(8 // i):\n            B[i] = B[i] + j",
    "a loop that starts where it fails": "for j in range(8 // (i - 3), 9):\n            B[i] = B[i] + j",
    "a choice that looks at both": "B[i] = T.Select(i > 0, 8 // i, 0)",
    **{f"{by} in {loop}": f"for j in {loop}: B[i] = A[i] // ({by})" for loop, by in (
        ("T.serial(-7, 2)", "j + 7"), ("T.serial(-7, 2)", "1 - j"), ("range(3, 12, 4)", "j - 3"),
        ("range(3, 12, 4)", "11 - j"), ("T.serial(i // 2, i // 2 + 3)", "j"), ("T.serial(i // 2, i // 2 + 3)", "9 - j"),
        ("T.serial(T.min(i, 3), 5)", "j"), ("T.serial(T.min(i, 3), 5)", "j - 4"),
        ("range(1, i, 3)", "j - 13"), ("T.unroll(2, 5)", "4 - j"),
    )},
}  # fmt: skip
BESIDE = {
    "T.serial(-7, 2)": ("j + 8", "2 - j"), "range(3, 12, 4)": ("j - 2", "12 - j", "j - 4"),
    "T.unroll(2, 5)": ("5 - j", "j - 1"),
    "T.serial(i // 2, i // 2 + 3)": ("j + 1", "10 - j"), "T.serial(T.min(i, 3), 5)": ("j + 1", "j - 5"),
    "range(i * i % 7)": ("j + 1", "j - 4"), "range(1, i, 3)": ("j - 16", "j"),
}  # fmt: skip
"""Loops, and divisors that are zero in no round of them, but would be in the next one."""
RUNNING = {
    "data": "B[i] = 100 // A[i]",
    "a place": "B[3 % T.max(A[i], 0)] = 1",
    "a loop's bounds": "for j in range(8 // A[i]):\n            B[i] = B[i] + j",
    "a while": "while B[i] < 2:\n            B[i] = B[i] + 1 + T.max(T.min(8 // (B[i] - 1), 0), 0)",
    "a loop in a while": "while B[i] < 2:\n            for k in range(2):\n                B[i] = B[i] + 8 // k",
    "a while's condition": "while 8 // (B[i] - 2) < -2:\n            B[i] = B[i] + 1",
    "behind a condition": "if A[i] < 3:\n            B[i] = 8 // A[i]",
    "a choice that looks at both": "B[i] = T.Select(A[i] > 0, 8 // A[i], 0)",
    "a value with a name": "k: T.int32 = 8 // A[i]\n        B[i] = k + k",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_division_by_zero_is_told_in_the_words_of_the_checked_mode(body: str):
    func = ti.tir.parse(DIVIDED.format(body))
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.interpret(func, A, B, checked=True)
    (told,) = caught.value.diagnostics
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(func)
    (lifted,) = caught.value.diagnostics
    assert (told.code, lifted.code, lifted.message) == ("TR08", "TL14", told.message)
    assert lifted.span == told.span
    assert ti.lift(func, on_hazard="ignore") is not None
    assert told.message in str(ti.lift(func, on_hazard="sequential").report)


@pytest.mark.parametrize(("loop", "by"), [(loop, by) for loop, divisors in BESIDE.items() for by in divisors])
def test_a_divisor_that_is_zero_beside_the_rounds_of_a_loop_is_none(loop: str, by: str):
    func = ti.tir.parse(DIVIDED.format(f"for j in {loop}: B[i] = A[i] // ({by}) + B[i]"))
    program = ti.lift(func)
    error, (result,) = program.checked(A, B)
    assert error is None
    np.testing.assert_array_equal(result, ti.tir.interpret(func, A, B, checked=True)[1])


@pytest.mark.parametrize("body", RUNNING.values(), ids=RUNNING)
def test_a_divisor_that_data_make_zero_is_told_where_that_is_asked_for(body: str):
    func = ti.tir.parse(DIVIDED.format(body))
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.interpret(func, A, B, checked=True)
    (told,) = caught.value.diagnostics
    program, wanted = ti.lift(func), ti.tir.interpret(func, A, B)[1]
    error, (result,) = program.checked(A, B)
    assert isinstance(error, DiagnosticError)
    assert (error.diagnostics[0].message, error.diagnostics[0].span) == (told.message, told.span)
    said = "division of an integer by zero where data ask for it: the result is 0, and `checked` says so."
    assert said in str(program.report)
    for got in (result, program(A, B)[0], ti.lift(func, on_hazard="ignore")(A, B)[0]):
        np.testing.assert_array_equal(got, wanted)


def test_the_division_and_an_iteration_are_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(DIVIDED.format(WRONG["some iterations"])))
    assert (
        str(caught.value)
        == """<tir>:5:39: error[TL14]: division of an integer by zero.
          B[i] = T.if_then_else(i > 10, A[i] // 0, 3)
                                        ^^^^^^^^^
note: in the iteration i = 11.
help: give it a divisor that is not zero, or guard it."""
    )
