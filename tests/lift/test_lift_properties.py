"""Functions made at random: lifted, they compute what the interpreter computes.

More: `python -m tests.lift.fuzz_lift`.
"""

from __future__ import annotations

import pytest

import tensorir as ti
from tests.lift.fuzz_lift import agree, in_parallel
from tests.lift.generated import arrays, program
from tests.lift.generated_calls import call_arrays, call_module
from tests.lift.generated_conditions import condition_arrays, condition_program
from tests.lift.generated_states import state_arrays, state_program
from tests.lift.generated_tasks import task_arrays, task_program
from tests.lift.generated_types import typed_arrays, typed_program

SEEDS = [7, 21, 50, 200, 226, *range(400, 405)]
"""Seeds that once found something, and a few more."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_function_lifts_to_what_it_computes(seed: int):
    agree(program(seed), arrays(seed), ti.tir.interpret(ti.tir.parse(program(seed))["main"], *arrays(seed)), "ignore")


@pytest.mark.parametrize("seed", range(8))
def test_states_in_odd_loops_lift_to_what_they_hold(seed: int):
    text, given = state_program(seed), state_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given), "ignore")


@pytest.mark.parametrize("seed", [*range(8), 5400326])
def test_loops_tied_by_conditions_lift_to_what_they_compute(seed: int):
    text, given = condition_program(seed), condition_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given), "error")


@pytest.mark.parametrize("seed", range(6))
def test_functions_that_call_each_other_lift_to_what_they_compute(seed: int):
    text, given = call_module(seed), call_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given), "ignore")


@pytest.mark.parametrize("seed", range(8))
def test_tiles_as_tasks_lift_to_what_they_compute(seed: int):
    text, given = task_program(seed), task_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given, checked=True), "error")


@pytest.mark.parametrize("seed", range(5))
def test_types_views_and_vectors_lift_to_what_they_hold(seed: int):
    text, given = typed_program(seed), typed_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given, checked=True), "error")


@pytest.mark.parametrize("seed", range(20, 24))
def test_iterations_that_race_run_in_the_order_of_the_text_where_that_is_asked_for(seed: int):
    text, given = state_program(seed), state_arrays(seed)
    wanted = ti.tir.interpret(ti.tir.parse(text)["main"], *given)
    agree(in_parallel(text, seed), given, wanted, "sequential")
