"""Functions made at random: the interpreter computes what TVM's LLVM build of them computes.

The lift is held against the interpreter on the same seeds, and more: `tests/lift/test_lift_properties.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm")

import tensorir.tir as tir
from tests.lift.generated_states import state_arrays, state_program
from tests.lift.generated_types import typed_arrays, typed_program
from tests.peers.llvm import computed

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(8))
def test_states_in_odd_loops_hold_what_tvm_makes_them_hold(seed: int):
    function, given = tir.parse(state_program(seed))["main"], state_arrays(seed)
    for ours, theirs in zip(tir.interpret(function, *given), computed(function, given), strict=True):
        np.testing.assert_array_equal(ours, theirs, state_program(seed))


@pytest.mark.parametrize("seed", range(8))
def test_types_views_and_vectors_hold_what_tvm_makes_them_hold(seed: int):
    function, given = tir.parse(typed_program(seed))["main"], typed_arrays(seed)
    for ours, theirs in zip(tir.interpret(function, *given), computed(function, given), strict=True):
        np.testing.assert_array_equal(ours, theirs, typed_program(seed))
