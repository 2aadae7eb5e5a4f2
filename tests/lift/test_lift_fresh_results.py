"""Results that `R.call_tir` makes: nothing is in them before the callee stores to them, and it is told where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

X = np.array([1, 2, 3, 4], np.float32)

READ_FIRST = {
    "every element": "for i in range(4):\n    B[i] = B[i] + A[i]",
    "one that a later round writes": "for i in range(3):\n    B[i] = A[i] + B[i + 1]\nB[3] = A[3]",
    "the last": "for i in range(3):\n    B[i] = A[i]\nfor i in range(4):\n    B[i] = B[i] * A[i]",
}
READ_FIRST_BY_DATA = {
    "where a condition did not hold": """for i in range(4):
    if A[i] > 2.0:
        B[i] = A[i]
for i in range(4):
    B[i] = B[i] + A[i]""",
    "at a place of data": """for i in range(4):
    B[i] = A[i]
    B[T.int32(A[i]) % 4] = B[T.int32(A[3 - i]) % 4] * 2.0""",
}
WRITTEN_FIRST = {
    "a sum": "for i in range(4):\n    B[i] = T.float32(0)\n    for k in range(4):\n        B[i] = B[i] + A[k]",
    "rounds": "B[0] = A[0]\nfor i in range(3):\n    B[i + 1] = B[i] + A[i + 1]",
    "where it was written": "for i in range(4):\n    if A[i] > 2.0:\n        B[i] = A[i]\n        B[i] = B[i] + 1.0",
}
PARTLY = {
    "two of four": "for i in range(2):\n    B[i] = A[i]",
    "those of data": "for i in range(4):\n    if A[i] > 2.0:\n        B[i] = A[i]",
}


def parsed(body: str, call: str = 'R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((4,), "float32"))') -> Any:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return ti.tir.parse(f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
{lines}
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        z = {call}
        return z
""")["main"]


def refused_by_the_interpreter(function: Any) -> None:
    with pytest.raises(DiagnosticError, match="TR02"):
        ti.tir.interpret(function, X, X, checked=True)


@pytest.mark.parametrize("body", READ_FIRST.values(), ids=READ_FIRST)
def test_a_result_that_is_read_first_is_an_error(body: str):
    function = parsed(body)
    refused_by_the_interpreter(function)
    with pytest.raises(DiagnosticError, match=r"TL11[^\n]*nothing has written it"):
        ti.lift(function)(X, X)


@pytest.mark.parametrize("body", READ_FIRST_BY_DATA.values(), ids=READ_FIRST_BY_DATA)
def test_a_result_that_data_let_be_read_first_is_told_by_the_call(body: str):
    function = parsed(body)
    refused_by_the_interpreter(function)
    program = ti.lift(function)
    with pytest.raises(DiagnosticError, match="an element of 'B' is read, and nothing has written it"):
        program(X, X)
    error, _ = program.checked(X, X)
    assert error is not None


@pytest.mark.parametrize("body", [*WRITTEN_FIRST.values(), *PARTLY.values()], ids=[*WRITTEN_FIRST, *PARTLY])
def test_a_result_that_is_written_first_has_the_interpreters_numbers(body: str):
    function = parsed(body)
    (wanted,) = ti.tir.interpret(function, X, X, checked=True)
    (found,) = ti.lift(function)(X, X)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("body", PARTLY.values(), ids=PARTLY)
def test_a_result_that_is_partly_written_is_noted(body: str):
    program = ti.lift(parsed(body))
    program(X, X)
    assert "line 5: not every element of 'B' is known to be written" in str(program.report)


@pytest.mark.parametrize("body", ["for i in range(4):\n    B[3 - i] = A[i]", WRITTEN_FIRST["rounds"]])
def test_a_result_that_is_written_is_not(body: str):
    program = ti.lift(parsed(body))
    program(X, X)
    assert "not every element" not in str(program.report)


def test_what_is_updated_in_place_holds_what_was_passed():
    call = 'R.call_tir_inplace(cls.f, (x, y), inplace_indices=1, out_sinfo=R.Tensor((4,), "float32"))'
    (found,) = ti.lift(parsed(READ_FIRST["every element"], call))(X, 10 * X)
    np.testing.assert_array_equal(found, 11 * X)
