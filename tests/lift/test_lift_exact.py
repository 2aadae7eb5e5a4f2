"""`numerics="exact"` keeps the order in which the source adds up: bit for bit what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti

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
"""


def test_the_report_says_where_terms_are_taken_in_another_order_and_where_nan_is_kept():
    report = str(ti.lift(ti.tir.parse(SPLIT)["main"]).report)
    assert report.splitlines()[-2:] == [
        "note: line 12: a fold in parts is one fold, which takes its terms in another order.",
        'note: line 14: max may keep a NaN on its left, which a comparison drops; numerics="exact" drops it.',
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
