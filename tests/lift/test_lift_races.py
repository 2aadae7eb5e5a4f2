"""Iterations that meet: the lift tells of them where the checked interpreter does, whichever of two comes first."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
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


ALIKE = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in {loop}({extent}):
        {body}
"""
WRITES_OF_ONE_VALUE = {
    "a constant": ("B[0] = 7", {0: 7}),
    "an element of what nobody writes": ("B[0] = A[3]", {0: 3}),
    "in a serial loop inside": ("for j in range(3):\n            B[j + 1] = A[9]", {1: 9, 2: 9, 3: 9}),
}
WRITES_THAT_DIFFER = {
    "an element of each iteration": "B[0] = A[i]",
    "an element that each iteration updates": "B[0] = B[0] + 1",
    "two constants": "B[0] = 1\n        B[0] = 2",
    "another constant in one iteration": "B[0] = 1\n        if i == 3:\n            B[0] = 2",
    "a read of it": "B[0] = 1\n        B[i + 1] = B[0]",
    "what a loop inside left last": "for j in range(3):\n            B[0] = A[j]",
    "storage of each iteration": 'S = T.alloc_buffer((1,), "int32")\n        S[0] = A[i]\n        B[0] = S[0]',
}


@pytest.mark.parametrize("loop", ["T.parallel", "T.vectorized"])
@pytest.mark.parametrize("extent", [4, 16])
@pytest.mark.parametrize("body, values", WRITES_OF_ONE_VALUE.values(), ids=WRITES_OF_ONE_VALUE)
def test_iterations_that_write_one_value_do_not_race(body: str, values: dict[int, int], extent: int, loop: str):
    func = ti.tir.parse(ALIKE.format(loop=loop, extent=extent, body=body))["main"]
    given = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    wanted = np.array([values.get(k, 0) for k in range(16)], np.int32)
    np.testing.assert_array_equal(ti.tir.interpret(func, *given, checked=True)[1], wanted)
    np.testing.assert_array_equal(ti.lift(func)(*given)[0], wanted)


@pytest.mark.parametrize("loop", ["T.parallel", "T.vectorized"])
@pytest.mark.parametrize("extent", [4, 15])
@pytest.mark.parametrize("body", WRITES_THAT_DIFFER.values(), ids=WRITES_THAT_DIFFER)
def test_iterations_that_may_write_several_values_race(body: str, extent: int, loop: str):
    func = ti.tir.parse(ALIKE.format(loop=loop, extent=extent, body=body))["main"]
    given = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    with pytest.raises(DiagnosticError, match="TR03"):
        ti.tir.interpret(func, *given, checked=True)
    with pytest.raises(DiagnosticError, match="TL12"):
        ti.lift(func)
