"""Sums of indices that an int32 does not hold: computed in the type that the source has."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.fuzz_lift import agree
from tests.lift.generated_widths import width_arrays, width_program

TEXT = """@T.prim_func
def main(A: T.Buffer((24,), "{0}"), C: T.Buffer((24,), "{0}")):
{1}
"""
VALUES = [
    ("int64", "T.Cast('int64', i) * T.int64(200000000)"),
    ("int64", "T.Cast('int64', i) * T.int64(2147483648)"),
    ("int64", "T.Cast('int64', i) * T.int64(2000000000) - T.int64(4000000000)"),
    ("int64", "T.Cast('int64', i) + T.int64(4000000000)"),
    ("int64", "T.int64(9000000000) - T.Cast('int64', i) * T.int64(1000000000)"),
    ("int64", "T.Cast('int64', i) * T.int64(3000000000) // T.int64(7000000000)"),
    ("int64", "(T.Cast('int64', i) * T.int64(700000000) + A[i]) % T.int64(1000)"),
    ("int64", "T.Select(T.Cast('int64', i) * T.int64(500000000) < T.int64(3000000000), A[i], T.int64(2))"),
    (
        "int64",
        "T.Select(T.Cast('int64', i) * T.int64(500000000) < T.Cast('int64', i) + T.int64(900000000), A[i], A[0])",
    ),
    ("uint32", "T.Cast('uint32', i) * T.uint32(150000000)"),
    ("uint32", "T.Cast('uint32', i) + T.uint32(4000000000)"),
    ("uint64", "T.Cast('uint64', i - 5) - A[0]"),
    ("uint64", "(A[i] + T.Cast('uint64', -7)) - T.Cast('uint64', i) * T.uint64(2)"),
    ("uint64", "T.Select(T.Cast('uint64', i - 30) < T.Cast('uint64', -20), A[i], T.uint64(9223372036854775809))"),
    ("int32", "(0 - i * 2) // 3 % 2147483647"),
    ("float32", "T.Cast('float32', T.Cast('int64', i) * T.int64(200000000))"),
]
BODIES = [
    ("int64", "for i in range(23):\n    C[i + 1] = C[i] + T.Cast('int64', i) * T.int64(700000000)"),
    ("int64", "for i, j in T.grid(24, 3):\n    C[i] = C[i] + T.Cast('int64', i * 3 + j) * T.int64(100000000)"),
    ("int64", "for i in range(24):\n    C[(T.Cast('int64', i) * T.int64(3000000000)) % T.int64(23)] = A[i]"),
    (
        "int64",
        "for i in range(24):\n    if T.Cast('int64', i) * T.int64(2147483648) < T.int64(3):\n"
        "        C[T.Cast('int64', i) * T.int64(2147483648)] = A[T.Cast('int64', i) * T.int64(2147483648)]",
    ),
    ("int64", "for i in range(2):\n    C[i + 7] = T.Cast('int64', i) * T.int64(1000000000)"),
    ("uint32", "for i in range(3):\n    C[i + 3] = T.Cast('uint32', i) * T.uint32(1000000000)"),
    (
        "uint64",
        "for i in range(-7, -2):\n    for j in range(5):\n"
        "        C[j + 8] = T.if_then_else(j == 3, T.Cast('uint64', j), T.Cast('uint64', i))",
    ),
    ("int64", "for i in range(T.int64(24)):\n    C[i] = i * T.int64(1000000000) + A[i]"),
]


@pytest.mark.parametrize(
    ("element", "body"), [*((e, f"for i in range(24):\n    C[i] = {value}") for e, value in VALUES), *BODIES]
)
def test_a_sum_is_what_its_own_type_holds(element: str, body: str):
    function = ti.tir.parse(TEXT.format(element, "".join(f"    {line}\n" for line in body.split("\n"))))["main"]
    a, c = np.arange(7, 31).astype(element), np.arange(24).astype(element)
    (found,), wanted = ti.lift(function)(a, c), ti.tir.interpret(function, a, c)[1]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", [*range(26), 43, 77, 102, 111])
def test_numbers_as_large_as_types_hold_are_what_they_hold(seed: int):
    text, given = width_program(seed), width_arrays(seed)
    agree(text, given, ti.tir.interpret(ti.tir.parse(text)["main"], *given), "ignore")
