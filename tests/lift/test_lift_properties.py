"""Functions made at random: lifted, they compute what the interpreter computes.

More: `python -m tests.lift.fuzz_lift`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.generated import arrays, program
from tests.lift.generated_states import state_arrays, state_program

SEEDS = [7, 21, 50, 200, 226, *range(400, 411)]
"""Seeds that once found something, and a few more."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_function_lifts_to_what_it_computes(seed: int):
    agree(program(seed), arrays(seed))


@pytest.mark.parametrize("seed", range(16))
def test_states_in_odd_loops_lift_to_what_they_hold(seed: int):
    agree(state_program(seed), state_arrays(seed))


def agree(text: str, given: Sequence[Any]) -> None:
    function = ti.tir.parse(text)["main"]
    wanted = ti.tir.interpret(function, *given)
    lifted = ti.lift(function, on_hazard="ignore")
    found = lifted(*given)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for place, got in zip(written, found, strict=True):
        np.testing.assert_array_equal(got, wanted[place])
