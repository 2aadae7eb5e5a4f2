"""A division of whole numbers by the number zero is told when a program is lifted, where an iteration comes to it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

TEXT = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        {}
"""
WRONG = {
    "an index": "B[i] = A[i // 0]",
    "a place": "B[i % 0] = A[i]",
    "a quotient": "B[i] = A[i] // 0",
    "a remainder": "B[i] = A[i] % 0",
    "towards zero": "B[i] = T.truncdiv(A[i], 0)",
    "a sum that is zero": "B[i] = A[i] // (i - i)",
    "some iterations": "B[i] = T.if_then_else(i > 10, A[i] // 0, 3)",
    "a condition": "if i // 0 > 3:\n            B[i] = 2",
}
LEFT = {
    "no iteration": "B[i] = T.if_then_else(i > 20, A[i] // 0, 3)",
    "what data never choose": "if A[i] > 100:\n            B[i] = A[i] % 0",
    "floats": 'B[i] = T.Cast("int32", T.Cast("float32", A[i]) / T.float32(2))',
}
A, B = np.arange(16, dtype=np.int32) - 5, np.zeros(16, np.int32)


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
    assert ti.lift(func, on_hazard="ignore") is not None
    assert told.message in str(ti.lift(func, on_hazard="sequential").report)


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_what_never_divides_by_zero_is_lifted(body: str):
    func = ti.tir.parse(TEXT.format(body))
    wanted = ti.tir.interpret(func, A, B, checked=True)[1]
    np.testing.assert_array_equal(ti.lift(func)(A, B)[0], wanted)


def test_the_statement_and_an_iteration_are_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(TEXT.format(WRONG["some iterations"])))
    assert (
        str(caught.value)
        == """<tir>:5:9: error[TL14]: division of an integer by zero.
          B[i] = T.if_then_else(i > 10, A[i] // 0, 3)
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: in the iteration i = 11.
help: give it a divisor that is not zero, or guard it."""
    )
