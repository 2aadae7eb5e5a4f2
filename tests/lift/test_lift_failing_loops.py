"""Loops that data end, with checks inside: a check that fails ends them, as it ends the program."""

import subprocess
import sys
from itertools import zip_longest

import jax
import numpy as np
import pytest

import tensorir as ti

HEAD = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32'), k: T.Buffer((1,), 'int32')):\n"

ENDLESS = {
    "a store": ("while k[0] < 3:\n        A[k[0] + 4] = k[0] + 1", 4),
    "an assertion": ("while k[0] < 3:\n        assert A[1] == 0\n        A[2] = 1", 4),
    "a condition": ("while A[k[0]] < 9:\n        k[0] = k[0] + 1", 3),
    "what stands before the loop": (
        "for j in range(3):\n        A[k[0] + j + 4] = 9\n    while A[2] < 9:\n        A[1] = A[1] + 1",
        4,
    ),
    "a round before of a loop around it": (
        "for i in range(4):\n        A[A[i] + 3] = 9\n        while A[i] < i:\n            k[0] = k[0] + 1",
        4,
    ),
}
"""Programs that go on for ever where what is outside of a buffer is let pass, and the line that is to blame."""

SCRIPT = """
import sys
import numpy as np
import tensorir as ti

for text in sys.argv[1:]:
    program = ti.lift(ti.tir.parse(text)["main"])
    try:
        program(np.arange(4, dtype=np.int32), np.zeros(1, np.int32))
    except ti.DiagnosticError as error:
        print(str(error).splitlines()[0], flush=True)
"""


def test_a_check_that_fails_ends_the_loops_that_it_would_have_ended():
    texts = [f"{HEAD}    {body}\n" for body, _ in ENDLESS.values()]
    command = [sys.executable, "-c", SCRIPT, *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            said = run.communicate(timeout=100)[0].splitlines()
        except subprocess.TimeoutExpired:  # the first without a line goes on for ever
            run.kill()
            said = run.communicate()[0].splitlines()
    for (which, (_, line)), first in zip_longest(ENDLESS.items(), said, fillvalue=""):
        assert f":{line}:" in first, which


@pytest.mark.parametrize("by_steps", [False, True])
def test_what_the_condition_of_a_loop_reads_outside_is_said_with_the_round(by_steps):
    source = HEAD + "    while A[k[0]] < 9 and A[0] < 50:\n        k[0] = k[0] + 2\n        A[0] = A[0] + 1\n"
    program = ti.lift(ti.tir.parse(source)["main"])
    with jax.disable_jit(by_steps), pytest.raises(ti.DiagnosticError) as error:
        program(np.zeros(4, np.int32), np.zeros(1, np.int32))
    (said,) = error.value.diagnostics
    assert (said.code, said.span.line) == ("R01", 3)
    assert said.notes == ("at round 2 it is 4.",)


def test_a_limit_ends_a_loop_before_its_condition_is_asked_again():
    f = ti.parse("""
      f(out: tensor<int>, x: tensor<int, I[0:3]>) {
        out ← loop(0, 3)(
          λ(step: tensor<int>, k: tensor<int>) → gather(I, checked)(x, k) < 9,
          λ(step: tensor<int>, k: tensor<int>) → k + 1,
          0);
      }""")
    assert f(x=np.zeros(3, np.int32))["out"] == 3
