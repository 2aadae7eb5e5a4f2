"""Loops as a page of a book has them: no loop is left, and the numbers are NumPy's and the interpreter's."""

import numpy as np
import pytest

import tensorir as ti
from tests.lift.textbook.loops import LOOPS, arrays_of


def function_of(text):
    return ti.tir.parse(f"@T.prim_func\ndef main({text}")["main"]


@pytest.mark.parametrize(("text", "expected", "reference"), LOOPS.values(), ids=LOOPS)
def test_a_textbook_loop_runs_at_once_as_a_fold_or_as_a_scan(text, expected, reference):
    function, arrays = function_of(text), arrays_of(text)
    lifted = ti.lift(function)
    assert {d.strategy for d in lifted.report.decisions} == expected
    wanted = [a.copy() for a in arrays]
    reference(*wanted)
    interpreted = ti.tir.interpret(function, *[a.copy() for a in arrays])
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for k, got in zip(written, lifted(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(got, interpreted[k], rtol=2e-5, atol=2e-5)
