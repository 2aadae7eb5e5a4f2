"""Whole numbers that wrap around: of loop variables, of data and of constants, in every element type."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tests.lift.generated_numbers import number_arrays, number_program
from tests.lift.harness import agree, parsed

WRAPPING = {
    "a hash": ("int32", "T.Cast('int32', T.shift_right(T.Cast('uint32', i) * T.uint32(2654435761), T.uint32(28)))"),
    "one comparison for two": ("int32", "T.if_then_else(T.Cast('uint32', i) - T.uint32(3) < T.uint32(5), A[i], 0)"),
    "a product": ("int32", "T.Cast('int32', T.Cast('int8', i) * T.int8(20))"),
    "less than nothing": ("int32", "T.Cast('int32', T.uint8(0) - T.Cast('uint8', i))"),
    "a sign": ("int32", "T.shift_right(T.shift_left(i, 29), 29)"),
    "a mean": ("int8", "(A[i] + A[i]) // T.int8(2)"),
    "a sum with a rest": ("uint8", "(A[i] * T.uint8(4) + T.uint8(3)) // T.uint8(4)"),
    "a rest": ("uint8", "(A[i] * T.uint8(6) + T.uint8(3)) % T.uint8(3)"),
    "a quotient towards zero": ("uint8", "T.truncdiv(A[i] + A[i], T.uint8(2))"),
    "numbers": ("int16", "T.Cast('int16', T.Cast('uint8', T.int16(100)) * T.uint8(16))"),
    "wide numbers": ("int64", "T.Cast('int64', T.Cast('int32', T.int64(100000)) * 100000)"),
    "wide sums": ("int64", "T.Cast('int64', (i + 100000) * 100000)"),
    "a choice": ("uint8", "T.uint8(4) - T.Select(T.uint8(7) != T.uint8(4), T.uint8(5), T.uint8(7))"),
    "a choice of sums": (
        "uint8", "T.Cast('uint8', i) - T.Select(A[i] > T.uint8(9), T.Cast('uint8', i) + T.uint8(1), T.uint8(7))"
    ),
    "a narrow cast": ("int8", "T.Cast('int8', T.Cast('uint32', i) * T.uint32(64)) % T.int8(100)"),
    "a comparison": ("uint8", "T.Select(T.uint8(3) < T.uint8(17) + T.Cast('uint8', i) * T.uint8(16), A[i], B[i])"),
    "a square": ("int64", "(A[i] * A[i]) // T.int64(64)"),
    "a square of few bits": ("int8", "T.truncmod(T.Cast('int8', i) * T.Cast('int8', i), T.int8(8))"),
    "a magnitude": ("int8", "T.abs(A[i] * T.int8(0) - T.int8(127) - T.int8(1)) // T.int8(8)"),
}  # fmt: skip


@pytest.mark.parametrize(("element", "value"), WRAPPING.values(), ids=WRAPPING)
def test_what_wraps_around_is_not_taken_for_what_does_not(element: str, value: str):
    declared = ", ".join(f'{name}: T.Buffer((24,), "{element}")' for name in "ABC")
    limits, rng = np.iinfo(element), np.random.default_rng(3)
    arrays = [rng.integers(limits.min, limits.max, 24, dtype=element, endpoint=True) for _ in range(3)]
    text = f"@T.prim_func\ndef main({declared}):\n    for i in range(24):\n        C[i] = {value}\n"
    agree(parsed(text), *arrays, checked=False)


def test_a_loop_of_few_bits_has_numbers_of_few_bits():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((16,), "int32")):
    for i in T.serial(T.uint8(16)):
        A[T.Cast("int32", i)] = T.Cast("int32", i * T.uint8(20))
""")["main"]
    np.testing.assert_array_equal(ti.lift(function)(None)[0], np.arange(16, dtype=np.uint8) * np.uint8(20))


def test_elements_beside_those_that_a_wrapped_index_leaves_out_are_read():
    """For k from 1 to 14: an index of k - 1 is none of -1."""
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for k in range(16):
        if T.Cast("uint32", k) - T.uint32(1) < T.uint32(14):
            B[k] = A[k - 1] + A[k + 1] * 3
""")["main"]
    a, b = np.arange(16, dtype=np.int32) ** 2, np.full(16, 7, np.int32)
    np.testing.assert_array_equal(ti.lift(function)(a, b)[0], ti.tir.interpret(function, a, b, checked=True)[1])


@pytest.mark.parametrize("seed", [292, 697, 765, 952, 1069, 1754, *range(40)])
def test_random_whole_numbers_wrap_as_the_interpreter_s_do(seed: int):
    agree(parsed(number_program(seed)), *number_arrays(seed), checked=False)
