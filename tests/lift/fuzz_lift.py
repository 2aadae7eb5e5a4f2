"""Many random functions: `python -m tests.lift.fuzz_lift [first] [count]`; prints the seeds that disagree.

The lift is held against the interpreter, with loops made parallel against the interpreter of the serial text, and the
interpreter against TVM's build where TVM is there.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.generated import arrays, program
from tests.lift.generated_calls import call_arrays, call_module
from tests.lift.generated_conditions import condition_arrays, condition_program
from tests.lift.generated_counts import count_arrays, count_program
from tests.lift.generated_numbers import number_arrays, number_program
from tests.lift.generated_races import race_arrays, race_program
from tests.lift.generated_states import state_arrays, state_program
from tests.lift.generated_tasks import task_arrays, task_program
from tests.lift.generated_types import typed_arrays, typed_program
from tests.lift.generated_widths import width_arrays, width_program
from tests.peers.llvm import computed

__all__ = ["agree", "all_written", "in_parallel", "main"]

GENERATORS: list[tuple[Callable[[int], str], Callable[[int], list[Any]], bool]] = [
    (program, arrays, False),  # TVM's simplifier joins remainders that differ
    (state_program, state_arrays, True),
    (task_program, task_arrays, True),
    (condition_program, condition_arrays, False),  # blocks use loops around them, which TVM refuses
    (call_module, call_arrays, False),  # TVM passes no pointers between functions of a module as these do
    (typed_program, typed_arrays, True),
    (count_program, count_arrays, False),  # threads are none of the CPU's
    (race_program, race_arrays, False),  # nor here
    (number_program, number_arrays, False),  # TVM takes it that int32 does not wrap around
    (width_program, width_arrays, False),  # the same
]
"""Texts, arguments, and whether TVM keeps the numbers of such texts."""


def main(first: int, count: int) -> int:
    """How many functions are wrong, of `count` seeds from the first."""
    wrong = skipped = 0
    for seed in range(first, first + count):
        for text_of, arrays_of, builds in GENERATORS:
            text, given = text_of(seed), arrays_of(seed)
            try:
                wanted = ti.tir.interpret(ti.tir.parse(text)["main"], *given)
            except DiagnosticError:
                skipped += 1  # it accesses what is not there
                continue
            try:
                if not all_written(text):
                    skipped += 1  # what it reads may be anything
                    continue
                agree(text, given, wanted, "ignore")
                agree(in_parallel(text, seed), given, wanted, "sequential")
                if builds and find_spec("tvm"):
                    for theirs, ours in zip(computed(ti.tir.parse(text)["main"], given), wanted, strict=True):
                        np.testing.assert_array_equal(ours, theirs)
            except Exception as error:  # whatever goes wrong in what the interpreter runs is found
                wrong += 1
                print(f"seed {seed} disagrees:\n{text}\n{type(error).__name__}: {error}")
    print(f"{count * len(GENERATORS) - skipped} functions, {wrong} wrong, {skipped} that read what is not there")
    return wrong


def agree(text: str, given: Sequence[Any], wanted: Sequence[Any], on_hazard: str) -> None:
    """Lift a function and run it."""
    lifted = ti.lift(ti.tir.parse(text)["main"], on_hazard=on_hazard)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for place, got in zip(written, lifted(*given), strict=True):
        np.testing.assert_array_equal(got, wanted[place])


def all_written(text: str) -> bool:
    """Whether no read is known to find what nobody wrote."""
    try:
        ti.lift(ti.tir.parse(text)["main"])
    except DiagnosticError as error:
        return all(found.code != "TL11" for found in error.diagnostics)
    return True


def in_parallel(text: str, seed: int) -> str:
    """The text with loops that claim to be parallel, at random, whatever their iterations hand on."""
    r = random.Random(seed)

    def claimed(found: re.Match[str]) -> str:
        kinds = ["T.parallel", "T.vectorized"] if found[1].isdigit() else ["T.parallel"]
        return f"in {r.choice(['range', *kinds])}({found[1]}):"

    return re.sub(r"in range\(([^,\n]*)\):", claimed, text)


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    sys.exit(bool(main(numbers[0] if numbers else 0, numbers[1] if len(numbers) > 1 else 100)))
