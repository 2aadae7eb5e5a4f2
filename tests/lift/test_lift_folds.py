"""Folds whose terms read the buffer that they fold into, at other elements, and folds of numbers that wrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.gradients import compared
from tests.lift.harness import steps_of

rng = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)


def program(text: str) -> Any:
    return ti.tir.parse(f"@T.prim_func\ndef main({text}")["main"]


def agree(function: Any, *arrays: Any, **options: Any) -> int:
    """Lifted and interpreted alike; how many loops are left."""
    lifted = ti.lift(function, **options)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    wanted = ti.tir.interpret(function, *arrays)
    for k, got in zip(written, lifted(*arrays), strict=True):
        tolerance = 0 if got.dtype.kind in "iu" else 1e-5
        np.testing.assert_allclose(got, wanted[k], rtol=tolerance, atol=tolerance)
    return ti.compile(lifted.fencil).stablehlo().count("stablehlo.while")


FINISHED = {
    "back substitution": (
        'L: T.Buffer((6, 6), "float32"), X: T.Buffer((6, 3), "float32")):\n'
        "    for i in range(6):\n        for j in range(3):\n            for k in range(i):\n"
        "                X[i, j] = X[i, j] - L[i, k] * X[k, j]\n            X[i, j] = X[i, j] / L[i, i]\n",
        (floats(6, 6), floats(6, 3)),
    ),
    "from the last row, under a guard": (
        'L: T.Buffer((6, 6), "float32"), X: T.Buffer((6,), "float32")):\n'
        "    for i in range(6):\n        for k in range(6):\n            if k > 5 - i:\n"
        "                X[5 - i] = X[5 - i] - L[5 - i, k] * X[k]\n        X[5 - i] = X[5 - i] / L[5 - i, 5 - i]\n",
        (floats(6, 6), floats(6)),
    ),
    "a recurrent network": (
        'W: T.Buffer((4, 4), "float32"), H: T.Buffer((6, 4), "float32")):\n'
        "    for t in range(5):\n        for j, k in T.grid(4, 4):\n"
        "            H[t + 1, j] = H[t + 1, j] + H[t, k] * W[k, j]\n"
        "        for j in range(4):\n            H[t + 1, j] = T.tanh(H[t + 1, j])\n",
        (floats(4, 4), floats(6, 4)),
    ),
    "a factor of a matrix": (
        'A: T.Buffer((5, 5), "float32")):\n'
        "    for j in range(5):\n        for k in range(j):\n            A[j, j] = A[j, j] - A[j, k] * A[j, k]\n"
        "        A[j, j] = T.sqrt(A[j, j])\n        for i in range(4 - j):\n            for k in range(j):\n"
        "                A[j + 1 + i, j] = A[j + 1 + i, j] - A[j + 1 + i, k] * A[j, k]\n"
        "            A[j + 1 + i, j] = A[j + 1 + i, j] / A[j, j]\n",
        (floats(5, 5) * 0.1 + 3 * np.eye(5, dtype=np.float32),),
    ),
    "the greatest so far of two rows": (
        'A: T.Buffer((5, 7), "float32"), M: T.Buffer((6,), "float32")):\n'
        "    for i in range(5):\n        for k in range(7):\n            M[i + 1] = T.max(M[i + 1], A[i, k] * M[i])\n",
        (floats(5, 7), floats(6)),
    ),
}


@pytest.mark.parametrize(("text", "arrays"), FINISHED.values(), ids=FINISHED)
def test_what_reads_only_finished_elements_is_a_fold_inside_of_the_loop_around(text: str, arrays: tuple[Any, ...]):
    assert agree(program(text), *arrays) == 1


def test_folds_over_finished_elements_keep_their_order_where_it_is_asked_for():
    text, arrays = FINISHED["back substitution"]
    agree(program(text), *arrays, numerics="exact")


def test_folds_over_finished_elements_have_right_gradients():
    text, arrays = FINISHED["back substitution"]
    lifted = ti.lift(ti.tir.retype(program(text), float32="float64"))
    varied = list(range(len(arrays)))
    assert compared(lifted, [a.astype(np.float64) for a in arrays], varied, [0]).right


UNFINISHED = {
    "its own element": "for k in range(i + 1):\n            X[i] = X[i] + L[i, k] * X[k]",
    "an element that is written later": "for k in range(i, 5):\n            X[k] = X[k] + L[i, k] * X[k + 1]",
    "an element that data tell": "for k in range(6):\n            X[i] = X[i] + L[i, k] * X[P[k]]",
    "an element of the same row": "for k in range(3):\n            X[k] = X[k] + L[i, k] * X[5 - k - i // 3]",
    "where its own element says": "for k in range(i):\n            if X[i] > T.float32(1):\n"
    "                X[i] = X[i] - L[i, k] * X[k]",
    "under a condition of another": "for k in range(i):\n            if X[k] > T.float32(1):\n"
    "                X[i] = X[i] - L[i, k] * X[k]",
}


@pytest.mark.parametrize("body", UNFINISHED.values(), ids=UNFINISHED)
def test_what_reads_elements_that_its_own_iterations_write_stays_right(body: str):
    head = 'P: T.Buffer((6,), "int32"), L: T.Buffer((6, 6), "float32"), X: T.Buffer((6,), "float32")):\n'
    places = np.array([3, 0, 5, 5, 1, 2], np.int32)
    agree(program(f"{head}    for i in range(6):\n        {body}\n"), places, floats(6, 6) - 1, floats(6))


NARROW = ["int8", "uint8", "int16"]
WRAPPING = {
    "sum": 'T.Cast("{0}", T.Cast("int32", s[j]) + x[j, i])',
    "difference": 'T.Cast("{0}", T.Cast("int32", s[j]) - x[j, i] * x[j, i])',
    "product": 'T.Cast("{0}", T.Cast("int64", s[j]) * T.Cast("int64", x[j, i]))',
    "exclusive or": 'T.Cast("{0}", T.bitwise_xor(T.Cast("int32", s[j]), x[j, i]))',
    "under a condition": 'T.Cast("{0}", T.if_then_else(x[j, i] > 5, T.Cast("int32", s[j]) + x[j, i],'
    ' T.Cast("int32", s[j])))',
}
KEPT = {
    "greatest": 'T.Cast("{0}", T.max(T.Cast("int32", s[j]), x[j, i]))',
    "through fewer bits": 'T.Cast("{0}", T.Cast("int32", T.Cast("int8", s[j])) + x[j, i])',
    "through floats": 'T.Cast("{0}", T.Cast("float32", s[j]) * T.float32(0.5)) + T.Cast("{0}", x[j, i] % 7)',
    "half": 'T.Cast("{0}", (T.Cast("int32", s[j]) + x[j, i]) // 2)',
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize(
    ("value", "loops"), [*((v, 0) for v in WRAPPING.values()), *((v, None) for v in KEPT.values())]
)
def test_numbers_that_wrap_at_every_step_are_folded_and_wrap_once(value: str, loops: int | None, name: str):
    text = f"""x: T.Buffer((3, 40), "int32"), s: T.Buffer((3,), "{name}")):
    for j in range(3):
        for i in range(40):
            s[j] = {value.format(name)}
"""
    x = rng.integers(-(1 << 31), 1 << 31, (3, 40)).astype(np.int32) | 1
    left = agree(program(text), x, np.array([1, 100, 7]).astype(name))
    assert loops is None or left == loops


@pytest.mark.parametrize(
    ("step", "operation"),
    [("C[0] + A[k] + B[k]", "+"), ("A[k] + (B[k] + C[0])", "+"), ("T.max(T.max(C[0], A[k]), B[k])", "max")],
)
def test_two_terms_of_one_step_are_one_fold(step: str, operation: str):
    text = 'A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32"), C: T.Buffer((1,), "int32")):\n'
    function = program(f"{text}    for k in range(9):\n        C[0] = {step}\n")
    arrays = [rng.integers(-9, 9, 9, np.int32), rng.integers(-9, 9, 9, np.int32), np.ones(1, np.int32)]
    agree(function, *arrays)
    assert steps_of(ti.lift(function)) == 0
