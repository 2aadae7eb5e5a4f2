"""`numerics="exact"` keeps the order in which the source adds up: bit for bit what the interpreter computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir

SPLIT = """
@T.prim_func
def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    P = T.alloc_buffer((4, 3), "float32")
    for i, o in T.grid(4, 3):
        P[i, o] = T.float32(0)
        for k in range(4):
            P[i, o] = P[i, o] + A[i, o * 4 + k]
    for i in range(4):
        B[i] = T.float32(0)
        for o in range(3):
            B[i] = B[i] + P[i, o]
    for i in range(4):
        C[i] = T.max(B[i], T.float32(0)) + T.min(T.float32(6), B[i])
        for k in range(12):
            C[i] = T.max(C[i], A[i, k])
"""


def test_the_report_says_where_terms_are_taken_in_another_order_and_what_it_decides():
    report = str(ti.lift(ti.tir.parse(SPLIT)["main"]).report)
    assert report.splitlines()[-2:] == [
        "note: line 12: a fold in parts is one fold, which takes its terms in another order.",
        "note: line 16: a fold by max goes in any order, which may keep or drop a NaN and change the sign of a zero; "
        'numerics="exact" keeps the order.',
    ]


def test_parts_of_a_sum_stay_apart_where_numerics_are_exact():
    function = ti.tir.parse(SPLIT)["main"]
    program = ti.lift(function, numerics="exact")
    assert "note" not in str(program.report)
    given = np.random.default_rng(1).normal(size=(4, 12)).astype(np.float32), *np.zeros((2, 4), np.float32)
    given[0][2, 5] = np.nan
    for got, want in zip(program(*given), ti.tir.interpret(function, *given)[1:], strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_function_of_relax_keeps_the_order_of_its_callees():
    module = ti.tir.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def total(A: T.Buffer((200,), "float32"), B: T.Buffer((), "float32")):
        B[()] = T.float32(0)
        for i, j in T.grid(20, 10):
            B[()] = B[()] + A[j * 20 + i]

    @R.function
    def main(x: R.Tensor((200,), "float32")):
        cls = Module
        y = R.call_tir(cls.total, (x,), out_ty=R.Tensor((), "float32"))
        return y
""")
    x = np.random.default_rng(2).normal(size=200).astype(np.float32)
    np.testing.assert_array_equal(
        ti.lift(module["main"], numerics="exact")(x)[0], ti.tir.interpret(module["main"], x)[0]
    )


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_nothing_times_a_truth_value_that_is_false_stays_what_it_is(numerics: str):
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        B[i] = A[i] * T.Cast("float32", A[i] > T.float32(0))
""")["main"]
    a = np.array([np.nan, np.inf, -np.inf, -2, -0.0, 3], np.float32)
    (found,) = ti.lift(function, numerics=numerics)(a, None)
    np.testing.assert_array_equal(found, [np.nan, np.inf, np.nan, 0, 0, 3])
    np.testing.assert_array_equal(np.signbit(found[3:]), [True, True, False])


ROWS = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 8), "float32")):
"""
SPECIAL = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1, -1, np.nan], np.float32)
SELECTED = (
    "T.max(A[i, j], A[j, i])", "T.min(A[i, j], A[j, i])", "T.max(A[i, j], T.float32(0))",
    "T.max(T.float32(0), A[i, j])",
    "T.min(T.max(A[i, j], T.float32(-1)), A[j, i])", "T.Select(A[i, j] >= A[j, i], A[i, j], A[j, i])",
    "T.if_then_else(A[i, j] <= A[j, i], A[i, j], A[j, i])", "T.float32(0) - A[i, j]", "A[i, j] + T.float32(0)",
)  # fmt: skip
FOLDED = (
    "S[i] = T.max(S[i], A[i, j])", "S[i] = T.min(S[i], A[i, j])", "S[i] = T.max(A[i, j], S[i])",
    "S[i] = T.min(A[i, j], S[i])", "S[i] = S[i] + A[i, j]", "S[i] = S[i] - A[i, j]",
    "if A[i, j] > T.float32(0): S[i] = S[i] + A[i, j]", "if A[i, j] > T.float32(2): S[i] = S[i] - A[i, j]",
    "if A[j, i] < T.float32(0): S[i] = T.min(S[i], A[i, j])",
    "S[i] = T.if_then_else(A[i, j] > A[j, i], S[i] + A[i, j], S[i])",
)  # fmt: skip


EACH = "for i in range(8):\n        "
ROW = "for i, j in T.grid(8, 8):\n        "
IN_ORDER = (
    f"{EACH}S[i] = T.max(S[i], A[i, 0])", f"{EACH}S[i] = T.min(A[i, 0], S[i])",
    f"{EACH}S[i] = T.max(T.max(S[i], A[i, 0]), A[i, 1])", f"{EACH}S[i] = T.max(A[i, 0], T.max(S[i], A[i, 1]))",
    f"{EACH}S[i] = T.max(S[0], A[i, 0])",
    f"{EACH}S[i] = T.max(S[i], A[i, 0])\n        S[i] = T.min(S[i], A[i, 1])",
    f"{EACH}if A[i, 1] < T.float32(2):\n            S[i] = T.max(S[i], A[i, 0])",
    f"{EACH}B[i, 0] = A[i, 0]\n    for i, j in T.grid(8, 7):\n        B[i, j + 1] = T.max(B[i, j], A[i, j + 1])",
    f"{EACH}B[i, 0] = A[i, 0]\n    for i, j in T.grid(8, 7):\n        B[i, j + 1] = T.min(A[i, j + 1], B[i, j])",
    f"{ROW}S[i] = T.if_then_else(A[i, j] >= S[i], A[i, j], S[i])",
)  # fmt: skip
"""Statements whose comparisons each numerics takes in the source's order."""
IN_ANY_ORDER = (
    *(f"{ROW}{line}" for line in FOLDED[:4]),
    f"{ROW}if A[j, i] < T.float32(0):\n            S[i] = T.max(S[i], A[i, j])",
    f"{ROW}S[i] = T.if_then_else(A[i, j] > S[i], A[i, j], S[i])",
    f"{ROW}if A[i, j] > S[i]:\n            S[i] = A[i, j]",
    f"{ROW}S[i] = T.max(S[i], T.max(A[i, j], T.float32(0)))",
    "for i, j in T.grid(8, 3):\n        S[i] = T.max(S[i], A[i, j])",
    "for i, j in T.grid(8, 4):\n        S[i] = T.max(S[i], T.max(A[i, j], A[i, j + 4]))",
    f"{EACH}S[i] = T.float32(0)\n    {ROW}S[i] = T.min(S[i], A[i, j])",
    f'{EACH}S[i] = T.float32("-inf")\n    {ROW}S[i] = T.max(S[i], A[i, j])',
    f'{EACH}S[i] = T.float32("nan")\n    {ROW}S[i] = T.max(S[i], A[i, j])',
)
"""Folds that default numerics take in any order, as a line of the report says: NaN and signs of zeros may differ."""
STARTS = np.array([-0.0, 0.0] * 4, np.float32), np.full(8, np.nan, np.float32), SPECIAL


def kernels_of_statements(text: str) -> Iterator[tuple[Any, list[np.ndarray]]]:
    """A kernel, and arrays in which NaN comes first, in between and last, or not at all, behind each start."""
    function = ti.tir.parse(f"{ROWS}    {text}\n")["main"]
    numbers = np.where(np.isnan(SPECIAL), np.float32(2), SPECIAL)
    rows = np.stack([np.roll(numbers if k % 2 else SPECIAL, k) for k in range(8)])
    for start in STARTS:
        yield function, [rows, start, np.zeros((8, 8), np.float32)]


def kernel_of_rows(line: str) -> tuple[Any, list[np.ndarray]]:
    """A kernel with a line in its two loops; arrays give choices each pair of special values, folds eight orders."""
    function = ti.tir.parse(f"{ROWS}    for i, j in T.grid(8, 8):\n        {line}\n")["main"]
    turned = np.stack([np.roll(SPECIAL, k) for k in range(8)])
    a = np.tile(SPECIAL, (8, 1)) if line.startswith("B") else turned
    return function, [a, np.array([-0.0, 0.0] * 4, np.float32), np.zeros((8, 8), np.float32)]


def assert_same_values_and_signs(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(found, wanted)
    sure = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[sure], np.signbit(wanted)[sure])


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("value", SELECTED)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_comparisons_select_keeps_nan_and_the_signs_of_zeros_as_the_source_does(value: str, numerics: str):
    function, arrays = kernel_of_rows(f"B[i, j] = {value}")
    (found,) = ti.lift(function, numerics=numerics)(*arrays)
    assert_same_values_and_signs(found, ti.tir.interpret(function, *arrays)[2])


@pytest.mark.parametrize("update", FOLDED)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_exact_folds_keep_nan_and_the_signs_of_zeros_as_the_source_does(update: str):
    function, arrays = kernel_of_rows(update)
    (found,) = ti.lift(function, numerics="exact")(*arrays)
    assert_same_values_and_signs(found, ti.tir.interpret(function, *arrays)[1])


@pytest.mark.parametrize("text", [*IN_ORDER, *IN_ANY_ORDER])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_and_signs_of_zeros_are_those_of_the_source_but_for_folds_that_the_report_names(text: str):
    cases = [*kernels_of_statements(text)]
    for numerics in ("fast", "exact"):
        program = ti.lift(cases[0][0], numerics=numerics)
        named = "change the sign of a zero" in str(program.report)
        assert named == (numerics == "fast" and text in IN_ANY_ORDER)
        for function, arrays in cases:
            (found,), (place,) = program(*arrays), [k for k, a in enumerate(program.arguments) if a.written]
            wanted = tir.interpret(function, *arrays)[place]
            if named:
                # where nothing is NaN, only a sign may differ
                usual = ~np.isnan(arrays[0]).any(1) & ~np.isnan(arrays[1]) & ('"nan"' not in text)
                np.testing.assert_array_equal(found[usual], wanted[usual])
            else:
                assert_same_values_and_signs(found, wanted)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("count", [9, 40, 5000])
def test_default_folds_give_the_extremes_of_rows_without_nan(op: str, count: int):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((4, {count}), "float32"), S: T.Buffer((4,), "float32")):
    for i in range(4):
        S[i] = A[i, 0]
        for j in range({count}):
            S[i] = T.{op}(S[i], A[i, j])
""")["main"]
    a = np.random.default_rng(3).normal(size=(4, count)).astype(np.float32)
    a[1, 2], a[2, 3], a[3, 4] = np.nan, np.inf, -np.inf
    (found,) = ti.lift(function)(a, None)
    np.testing.assert_array_equal(found[[0, 2, 3]], getattr(a, op)(1)[[0, 2, 3]])
