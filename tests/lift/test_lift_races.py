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
