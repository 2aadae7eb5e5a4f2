"""Whiles of iterations that do not meet are one while; those of iterations that hand something on stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.gradients import compared

HEAD = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8, 3), "int32")):
    x = T.alloc_buffer((1,), "int32")
    y = T.alloc_buffer((2,), "int32")
    x[0] = 5
    for i in range(8):
"""
ONE = {
    "greatest common divisors": """
x[0] = A[i]
y[0] = B[i]
while y[0] != 0:
    y[1] = x[0] % y[0]
    x[0] = y[0]
    y[0] = y[1]
B[i] = x[0]""",
    "places that are searched": """
x[0] = 0
y[0] = 8
while x[0] < y[0]:
    y[1] = (x[0] + y[0]) // 2
    if A[y[1]] < B[i] * 4:
        x[0] = y[1] + 1
    else:
        y[0] = y[1]
B[i] = x[0]""",
    "in place": """
while A[i] > 1:
    A[i] = T.if_then_else(A[i] % 2 == 0, A[i] // 2, A[i] * 3 + 1)
    B[i] = B[i] + 1""",
    "under a guard": """
if A[i] % 3 != 0:
    x[0] = A[i]
    while x[0] > 3:
        x[0] = x[0] - 1 - x[0] % 3
    B[i] = x[0]""",
    "two loops": """
for j in range(3):
    x[0] = A[i] + j
    while x[0] > 5:
        x[0] = x[0] // 2
    C[i, j] = x[0]""",
    "a triangle": """
for j in range(T.min(i, 3)):
    x[0] = A[i] + j
    while x[0] > 5:
        x[0] = x[0] // 2
    C[i, j] = x[0]""",
    "loops inside": """
x[0] = A[i]
y[1] = 0
while x[0] > 4:
    y[0] = 0
    for j in range(3):
        y[0] = y[0] + C[i, j]
    x[0] = x[0] - T.max(y[0] % 4, 1)
    y[1] = y[1] + 1
B[i] = y[1]""",
    "as many turns as data tell": """
x[0] = 0
for k in range(A[i]):
    if k * k > B[i]:
        break
    x[0] = x[0] + k
B[i] = x[0]""",
}
SEVERAL = {
    "one after the other inside": """
x[0] = A[i]
for j in range(3):
    while x[0] > 9 - j * 3:
        x[0] = x[0] - 2
    C[i, j] = x[0]""",
    "a while inside": """
x[0] = A[i]
y[0] = 0
while x[0] > 2:
    y[1] = x[0]
    while y[1] > 3:
        y[1] = y[1] - 2
        y[0] = y[0] + 1
    x[0] = x[0] - y[1]
B[i] = y[0]""",
    "two whiles": """
x[0] = A[i]
while x[0] > 9:
    x[0] = x[0] - 4
B[i] = x[0]
while B[i] > 2:
    B[i] = B[i] - 3""",
}
KEPT = {
    "a counter of all": """
while A[i] > 5:
    A[i] = A[i] // 2
    x[0] = x[0] + 1
B[i] = x[0]""",
    "what no round may have written": """
y[0] = A[i]
while y[0] > 7:
    x[0] = y[0]
    y[0] = y[0] // 2
B[i] = x[0]""",
    "what an earlier round of another loop wrote": """
for j in range(3):
    y[0] = A[i] * j % 4
    while y[0] > 0:
        C[i, j] = x[0]
        y[0] = y[0] - 2
        x[0] = A[i] + j""",
    "what a condition fills": """
if A[i] % 3 == 0:
    x[0] = A[i]
while x[0] > 3:
    x[0] = x[0] - 2
B[i] = x[0]""",
    "a neighbour": """
while B[i] > 2:
    B[i] = B[i] - 2
    B[(i + 1) % 8] = B[(i + 1) % 8] + 1""",
    "an element that data tell": """
x[0] = A[i]
while x[0] > 2:
    B[x[0] % 8] = B[x[0] % 8] + i
    x[0] = x[0] - 3""",
}
CASES = [
    *(pytest.param(body, 1, id=name) for name, body in ONE.items()),
    *(pytest.param(body, None, id=name) for name, body in (SEVERAL | KEPT).items()),
]


@pytest.mark.parametrize(("body", "whiles"), CASES)
def test_whiles_of_iterations_compute_what_they_compute_one_after_the_other(body: str, whiles: int | None):
    function = ti.tir.parse(HEAD + body.replace("\n", "\n        ").removeprefix("\n") + "\n")["main"]
    arrays = (
        np.array([12, 7, 0, 31, 8, 9, 18, 40], np.int32), np.array([8, 21, 6, 0, 3, 2, 7, 9], np.int32),
        np.arange(24, dtype=np.int32).reshape(8, 3) % 5,
    )  # fmt: skip
    program = ti.lift(function)
    wanted = ti.tir.interpret(function, *arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for k, got in zip(written, program(*arrays), strict=True):
        np.testing.assert_array_equal(got, wanted[k])
    if whiles is not None:
        assert ti.compile(program.fencil).stablehlo().count("stablehlo.while") == whiles
        assert all(d.loop.title == "while" or d.loop.title == "j" for d in program.report.sequential)


def test_an_index_that_leaves_its_buffer_in_one_of_the_iterations_is_an_error_in_its_round():
    body = "x[0] = A[i]\n        while x[0] != 0:\n            x[0] = B[x[0]]\n        C[i, 0] = x[0]\n"
    program = ti.lift(ti.tir.parse(f"{HEAD}        {body}")["main"])
    steps, starts = np.array([0, 0, 1, 2, 9, 3, 5, 6], np.int32), np.arange(8, dtype=np.int32)
    counts = np.zeros((8, 3), np.int32)
    starts[4] = 3
    program(starts, steps, counts)
    with pytest.raises(ti.DiagnosticError, match="an index leaves 'B', which has 8 elements"):
        program(np.arange(8, dtype=np.int32), steps, counts)


def test_the_gradient_goes_through_rounds_that_only_some_iterations_have():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), N: T.Buffer((6,), "int32"), C: T.Buffer((6,), "float32")):
    x = T.alloc_buffer((1,), "float32")
    for i in range(6):
        x[0] = A[i]
        for k in range(T.min(N[i], 9)):
            x[0] = T.float32(0.5) * (x[0] + A[i] / x[0])
        C[i] = x[0]
""")["main"]
    program = ti.lift(ti.tir.retype(function, float32="float64"))
    a, rounds = np.arange(2.0, 8.0), np.array([0, 1, 2, 5, 9, 3], np.int32)
    assert compared(program, [a, rounds, a], [0], [0]).right


def test_exact_dataflow_has_one_while_for_all_iterations():
    step = "A[i] = T.if_then_else(A[i] % 2 == 0, A[i] // 2, 3 * A[i] + 1)"
    body = f"while A[i] > 1:\n            {step}\n            B[i] += 1\n"
    program = ti.lift(ti.tir.parse(f"{HEAD}        {body}")["main"])
    # of the other loops one asks whether any iteration goes on
    assert {(d.loop.title, d.strategy) for d in program.report.decisions} == {
        ("while", "sequential"), ("i", "reduction"), ("i", "parallel"),
    }  # fmt: skip
    starts = np.array([1, 2, 3, 7, 9, 27, 97, 6], np.int32)
    known = [0, 1, 7, 16, 19, 111, 118, 8]  # the Collatz sequence's lengths, OEIS A006577
    _, lengths = program(starts, np.zeros(8, np.int32), np.zeros((8, 3), np.int32))
    assert lengths.tolist() == known
