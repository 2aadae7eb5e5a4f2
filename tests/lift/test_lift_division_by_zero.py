"""A division of whole numbers by zero is told when a program is lifted, or by a call where data tell the divisor."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """
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
    func = ti.tir.parse(TEXT.format(body))
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
    func = ti.tir.parse(TEXT.format(f"for j in {loop}: B[i] = A[i] // ({by}) + B[i]"))
    program = ti.lift(func)
    error, (result,) = program.checked(A, B)
    assert error is None
    np.testing.assert_array_equal(result, ti.tir.interpret(func, A, B, checked=True)[1])


@pytest.mark.parametrize("body", RUNNING.values(), ids=RUNNING)
def test_a_divisor_that_data_make_zero_is_told_where_that_is_asked_for(body: str):
    func = ti.tir.parse(TEXT.format(body))
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
        ti.lift(ti.tir.parse(TEXT.format(WRONG["some iterations"])))
    assert (
        str(caught.value)
        == """<tir>:5:39: error[TL14]: division of an integer by zero.
          B[i] = T.if_then_else(i > 10, A[i] // 0, 3)
                                        ^^^^^^^^^
note: in the iteration i = 11.
help: give it a divisor that is not zero, or guard it."""
    )
