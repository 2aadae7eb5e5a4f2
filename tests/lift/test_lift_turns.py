"""Loops whose bounds depend on data: as many turns as their accesses leave them, or a while."""

from __future__ import annotations

import subprocess
import sys
from itertools import zip_longest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of
from tests.lift.gradients import compared

ROWS = """
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), x: T.Buffer((9,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(ptr[i], ptr[i + 1]):
            y[i] = y[i] + x[j] * x[j]
"""
PTR = np.array([0, 2, 2, 8, 9], np.int32)


def lowered(text: str) -> str:
    return ti.compile(ti.lift(ti.tir.parse(text)["main"]).fencil).stablehlo()


def test_rows_of_a_sparse_matrix_are_laid_side_by_side():
    program = ti.lift(ti.tir.parse(ROWS)["main"])
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(program(PTR, x, None)[0], [1, 0, 139, 64])
    assert "stablehlo.while" not in lowered(ROWS)
    slope = jax.grad(lambda x: program(jnp.asarray(PTR), x, jnp.zeros(4, "float32"))[0].sum())(jnp.asarray(x))
    np.testing.assert_array_equal(slope, 2 * x)


# Loops that data end, with checks inside: a check that fails ends them, as it ends the program.


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


# Loops inside of each other that run step by step: each stands once in the text and in XLA's program.


NESTED = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((7,), "float32"), C: T.Buffer((8,), "float32")):
    for t in range(5):
        for u in range(4):
            for w in range(3):
                A[(t + u + w) % 6] = A[(t * u) % 6] * T.float32(0.5) + B[(w * w + t) % 7]
                B[(t * w + u) % 7] = B[(u + w) % 7] * T.float32(0.25) + C[(t + w) % 8]
                C[(t * 3 + w) % 8] = C[(u * w) % 8] * T.float32(0.125) + A[(u * 2) % 6]
"""

CHECKED = """
@T.prim_func
def main(X: T.Buffer((3, 4), "int32"), A: T.Buffer((6,), "float32"), B: T.Buffer((7,), "float32")):
    for t in range(3):
        for u in range(4):
            A[X[t, u]] = A[(t * u) % 6] * T.float32(0.5) + B[(u * u + t) % 7]
            B[(t + u) % 7] = B[(u * t) % 7] + A[X[t, u]]
"""


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, n).astype(np.float32) for n in (6, 7, 8)]


def test_the_gradient_of_loops_inside_of_loops():
    program = ti.lift(ti.tir.retype(ti.tir.parse(NESTED)["main"], float32="float64"))
    assert compared(program, [a.astype(np.float64) for a in arrays()], [0, 1, 2], [0, 1, 2]).right


@pytest.mark.parametrize("by_steps", [False, True])
def test_an_index_in_an_inner_loop_is_checked(by_steps: bool):
    function = ti.tir.parse(CHECKED)["main"]
    program = ti.lift(function)
    index = np.arange(12, dtype=np.int32).reshape(3, 4) % 6
    a, b, _ = arrays()
    with jax.disable_jit(by_steps):
        for got, wanted in zip(program(index, a, b), ti.tir.interpret(function, index, a, b)[1:], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
        index[1, 2] = 6
        with pytest.raises(ti.DiagnosticError, match=r"6 .*t = 1.*u = 2|t = 1, u = 2"):
            program(index, a, b)


# Recurrences whose first element is stored apart: one scan from the neutral element, which reads no output.


TEXT = """
@T.prim_func
def main(A: T.Buffer((5, 7), "{0}"), O: T.Buffer((5, 7), "{0}")):
    for i in range(5):
        O[i, 0] = {1}
        for k in range(6):
            O[i, k + 1] = {2}
"""
SUM, PRODUCT, LARGEST = "O[i, k] + A[i, k + 1]", "O[i, k] * A[i, k + 1]", "T.max(O[i, k], A[i, k + 1])"


def numbers(element: str) -> np.ndarray:
    found = np.random.default_rng(5).normal(size=(5, 7)) * 4
    found[0, :2], found[1, 0] = -0.0, -3
    return found.astype(element)


@pytest.mark.parametrize("element", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("step", [SUM, PRODUCT, LARGEST])
def test_a_prefix_is_one_scan(element: str, step: str):
    func = ti.tir.parse(TEXT.format(element, "A[i, 0]", step))["main"]
    program = ti.lift(func)
    costs = costs_of(program)
    assert (costs.loops, costs.folds, costs.gathers) == (0, 1, 0)
    a = numbers(element)
    (found,) = program(a, None)
    wanted = ti.tir.interpret(func, a, np.zeros_like(a))[1]
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "step"),
    [
        ("A[i, 1]", SUM),  # another first element
        ("A[i, 0] * A[i, 0]", SUM),
        ("A[i, 0]", "O[i, k] + A[i, k]"),  # another distance
        ("A[i, 0]", "O[i, k] * A[i, 3] + A[i, k + 1]"),  # another recurrence
    ],
)
def test_what_only_looks_like_a_prefix_is_none(first: str, step: str):
    func = ti.tir.parse(TEXT.format("float32", first, step))["main"]
    a = numbers("float32")
    np.testing.assert_allclose(ti.lift(func)(a, None)[0], ti.tir.interpret(func, a, np.zeros_like(a))[1], rtol=1e-5)


def test_parts_that_make_a_whole_need_nothing_of_it():
    func = ti.tir.parse(TEXT.format("float32", "A[i, 6]", "A[i, k + 1] - A[i, k]"))["main"]
    a = numbers("float32")
    np.testing.assert_array_equal(ti.lift(func)(a, None)[0], ti.tir.interpret(func, a, np.zeros_like(a))[1])
