"""Recurrences whose first element is stored apart: one scan from the neutral element, which reads no output."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of

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
