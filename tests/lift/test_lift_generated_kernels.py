"""Generated kernels: the lift has the interpreter's numbers, and sees no race where checked mode sees none."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.generated_kernels import kernel


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
