"""Iterations that meet: the lift tells of them where the checked interpreter does, whichever of two comes first."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError
from tests.lift.generated_races import race_arrays, race_program

CODES = {"TR01": "TL10", "TR02": "TL11", "TR03": "TL12"}
"""What the interpreter and the lift call the same."""


@pytest.mark.parametrize("seed", range(80))
def test_generated_loops_race_in_the_lift_where_they_do_in_the_interpreter(seed: int):
    text, given = race_program(seed), race_arrays(seed)
    func = ti.tir.parse(text)["main"]
    try:
        wanted = ti.tir.interpret(func, *given, checked=True)
    except DiagnosticError as error:
        told = {CODES[d.code] for d in error.diagnostics}
        with pytest.raises(DiagnosticError) as caught:
            ti.lift(func)
        assert told <= {d.code for d in caught.value.diagnostics}, text
        return
    lifted = ti.lift(func)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for place, got in zip(written, lifted(*given), strict=True):
        np.testing.assert_array_equal(got, wanted[place], text)


MEET = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in T.parallel(4):
        {first}
        {second}
    C[4] = {last}
"""
MEETING = {
    "a read of what a later iteration has written before": ("A[i] = 1", "C[i] = A[i + 1]", "A[0]", "A[1]"),
    "a write behind a read, of what a later iteration reads": ("C[i] = A[i]", "A[i + 1] = 1", "A[0]", "A[1]"),
    "a read of what another iteration wrote": ("B[i] = A[i]", "C[i] = B[i // 2]", "B[0]", "B[0]"),
    "writes of one value": ("B[i // 2] = A[i // 2]", "C[i] = A[i]", "B[0]", "B[0]"),
}


@pytest.mark.parametrize("first, second, last, element", MEETING.values(), ids=MEETING)
def test_iterations_meet_whichever_of_two_statements_comes_first(first: str, second: str, last: str, element: str):
    func = ti.tir.parse(MEET.format(first=first, second=second, last=last))["main"]
    given = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    with pytest.raises(DiagnosticError, match="TR03"):
        ti.tir.interpret(func, *given, checked=True)
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(func)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TL12"
    assert diagnostic.message.endswith(f"touch {element}.")
