"""Functions made at random: lifted, they compute what the interpreter computes.

More: `python -m tests.lift.fuzz_lift`.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.generated import arrays, program

SEEDS = [7, 21, 50, 200, 226, *range(400, 411)]
"""Seeds that once found something, and a few more."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_function_lifts_to_what_it_computes(seed: int):
    function = ti.tir.parse(program(seed))["main"]
    given = arrays(seed)
    wanted = ti.tir.interpret(function, *given)
    lifted = ti.lift(function, on_hazard="ignore")
    found = lifted(*given)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for place, got in zip(written, found, strict=True):
        np.testing.assert_array_equal(got, wanted[place])
