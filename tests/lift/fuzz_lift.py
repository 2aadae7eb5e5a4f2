"""Many random functions: `python -m tests.lift.fuzz_lift [first] [count]`; prints the seeds that disagree."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

import tensorir as ti
from tensorir.errors import DiagnosticError
from tests.lift.generated import arrays, program
from tests.lift.generated_states import state_arrays, state_program

GENERATORS = ((program, arrays), (state_program, state_arrays))


def main(first: int, count: int) -> int:
    wrong = skipped = 0
    for seed, (text_of, arrays_of) in product(range(first, first + count), GENERATORS):
        text = text_of(seed)
        function, given = ti.tir.parse(text)["main"], arrays_of(seed)
        try:
            wanted = ti.tir.interpret(function, *given)
        except DiagnosticError:
            skipped += 1  # it accesses what is not there
            continue
        lifted = ti.lift(function, on_hazard="ignore")
        found = lifted(*given)
        written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
        if not all(np.array_equal(got, wanted[k]) for k, got in zip(written, found, strict=True)):
            wrong += 1
            print(f"seed {seed} disagrees:\n{text}")
    print(f"{count * len(GENERATORS) - skipped} functions, {wrong} wrong, {skipped} that the interpreter refuses")
    return wrong


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    sys.exit(bool(main(numbers[0] if numbers else 0, numbers[1] if len(numbers) > 1 else 100)))
