"""Functions made at random: lifted, they compute what the interpreter computes.

More: `python -m tests.lift.fuzz_lift`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.fuzz_lift import agree, in_parallel
from tests.lift.generated import arrays, program
from tests.lift.generated_calls import call_arrays, call_module
from tests.lift.generated_conditions import condition_arrays, condition_program
from tests.lift.generated_counts import count_arrays, count_program
from tests.lift.generated_kernels import kernel
from tests.lift.generated_numbers import number_arrays, number_program
from tests.lift.generated_states import state_arrays, state_program
from tests.lift.generated_tasks import task_arrays, task_program
from tests.lift.generated_types import typed_arrays, typed_program
from tests.lift.generated_widths import width_arrays, width_program

GENERATED: dict[str, tuple[Callable[[int], str], Callable[[int], Any], str, bool, Iterable[int]]] = {
    "functions": (program, arrays, "ignore", False, [7, 21, 50, 200, 226, *range(400, 405)]),
    "states in odd loops": (state_program, state_arrays, "ignore", False, range(8)),
    "loops tied by conditions": (condition_program, condition_arrays, "error", False, [*range(8), 5400326]),
    "functions that call each other": (call_module, call_arrays, "ignore", False, range(6)),
    "tiles as tasks": (task_program, task_arrays, "error", True, range(8)),
    "types, views and vectors": (typed_program, typed_arrays, "error", True, range(5)),
    "counts": (count_program, count_arrays, "error", True, range(12)),
    "numbers as large as types hold": (width_program, width_arrays, "ignore", False, [*range(16), 43, 77, 102, 111]),
    "numbers that wrap around": (
        number_program, number_arrays, "error", False, [292, 697, 765, 952, 1069, 1754, *range(20)],
    ),
}  # fmt: skip
"""Texts, arguments, what the lift does about hazards, whether the interpreter looks for them, and seeds: those that
once found something, and a few more."""


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, row in GENERATED.items() for seed in row[4]])
def test_programs_made_at_random_lift_to_what_they_compute(name: str, seed: int):
    text_of, arrays_of, on_hazard, checked, _ = GENERATED[name]
    text, given = text_of(seed), arrays_of(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given, checked=checked), on_hazard)


@pytest.mark.parametrize("seed", range(20, 24))
def test_iterations_that_race_run_in_the_order_of_the_text_where_that_is_asked_for(seed: int):
    text, given = state_program(seed), state_arrays(seed)
    wanted = ti.tir.interpret(ti.tir.parse(text)["main"], *given)
    agree(in_parallel(text, seed), given, wanted, "sequential")


# Generated kernels: the lift has the interpreter's numbers, and sees no race where checked mode sees none.


@pytest.mark.parametrize(
    ("seed", "leaving"), [*((seed, False) for seed in range(20)), *((seed, True) for seed in range(10))]
)
def test_threads_compute_what_the_interpreter_does(seed: int, leaving: bool):
    text, size = kernel(seed, leaving)
    func = ti.tir.parse(text)["main"]
    rng = np.random.default_rng(seed)
    given = [rng.integers(-5, 6, size).astype(np.int32) for _ in range(2)]
    wanted = ti.tir.interpret(func, *given)[1]
    try:
        ti.tir.interpret(func, *given, checked=True)
    except DiagnosticError:
        with_hazards = ti.lift(func, on_hazard="sequential")
        np.testing.assert_array_equal(with_hazards(*given)[0], wanted, text)
    else:
        np.testing.assert_array_equal(ti.lift(func)(*given)[0], wanted, text)


@pytest.mark.parametrize("seed", range(100, 108))
def test_as_many_blocks_compute_something_as_an_argument_says(seed: int):
    text, size = kernel(seed)
    text = text.replace('"int32")):', '"int32"), n: T.int32):', 1)
    text, found = re.subn(
        r'T.thread_binding\(\d+, thread="blockIdx.x"', 'T.thread_binding(n, thread="blockIdx.x"', text
    )
    assert found == 1
    func = ti.tir.parse(text)["main"]
    rng = np.random.default_rng(seed)
    given = [rng.integers(-5, 6, size).astype(np.int32) for _ in range(2)]
    program = ti.lift(func, on_hazard="sequential")
    for n in (0, 1, 2, size):
        try:
            wanted = ti.tir.interpret(func, *given, n)[1]
        except DiagnosticError:
            with pytest.raises(DiagnosticError, match="an index leaves"):
                program(*given, n)
        else:
            np.testing.assert_array_equal(program(*given, n)[0], wanted, text)
