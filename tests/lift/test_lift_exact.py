"""`numerics="exact"` keeps the order in which the source adds up: bit for bit what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti

SUMS = {
    "loops in order": ("for j, k in T.grid(9, 11):", "A[i, j, k]"),
    "loops changed in order": ("for k, j in T.grid(11, 9):", "A[i, j, k]"),
    "backwards": ("for k, j in T.grid(11, 9):", "A[i, 8 - j, 10 - k]"),
    "digits of an index changed in order": (
        "for a, b, j in T.grid(3, 4, 9):",
        "T.if_then_else(b * 3 + a < 11, A[i, j, b * 3 + a], T.float32(0))",
    ),
    "two terms at once": ("for j, k in T.grid(9, 11):", "A[i, j, k] + A[i, 8 - j, k]"),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_is_added_up_in_the_order_of_the_source(name: str):
    loops, term = SUMS[name]
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((7, 9, 11), "float32"), B: T.Buffer((7,), "float32")):
    for i in range(7):
        B[i] = T.float32(0)
        {loops}
            B[i] = B[i] + {term}
""")["main"]
    given = np.random.default_rng(0).normal(size=(7, 9, 11)).astype(np.float32), np.zeros(7, np.float32)
    (found,) = ti.lift(function, numerics="exact")(*given)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, *given)[1])


ROWS = """
@T.prim_func
def main(A: T.Buffer((5, 40), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 40):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32({})
            B[vi] = {}
"""


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("operands", ["B[vi], A[vi, vk]", "A[vi, vk], B[vi]"])
def test_a_comparison_drops_a_nan_as_the_source_does(op: str, operands: str):
    start = {"max": "-3.0e38", "min": "3.0e38"}[op]
    function = ti.tir.parse(ROWS.format(start, f"T.{op}({operands})"))["main"]
    a = np.random.default_rng(0).normal(size=(5, 40)).astype(np.float32)
    a[1, 3], a[2, 39], a[3] = np.nan, np.nan, np.nan
    (found,) = ti.lift(function, numerics="exact")(a, None)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, a, np.zeros(5, np.float32))[1])


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


PRODUCTS = {
    "a product of matrices": "for i, j, k in T.grid(6, 7, 30):\n    C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "a stencil": "for i, j in T.grid(4, 28):\n    C[i + 1, j] = (A[i, j] * T.float32(0.3) + A[i + 2, j]) / B[j, 0]",
    "a recurrence": "for i, k in T.grid(6, 29):\n    C[i, k + 1] = C[i, k] * A[i, k] - B[k, i] * T.float32(1.7)",
    "steps that data lead": "for k in range(29):\n    C[k % 5, 0] = C[k % 3, 0] * A[k % 6, k] + C[k % 5, 0] * B[k, 1]",
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["", "unrolled"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_rounded_before_it_is_added(name: str, schedule: str):
    body = PRODUCTS[name].replace("\n", "\n    ")
    body = body.replace("for k in range(29)", "for k in T.unroll(29)") if schedule else body
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((6, 30), "float32"), B: T.Buffer((30, 7), "float32"), C: T.Buffer((6, 30), "float32")):
    {body}
""")["main"]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=shape).astype(np.float32) for shape in ((6, 30), (30, 7), (6, 30))]
    (found,) = ti.lift(function, numerics="exact")(*given)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, *given)[2])


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


def test_short_loops_that_round_as_written_compile_where_buffers_wait_for_each_other():
    function = ti.tir.parse("""
@T.prim_func
def main(S: T.Buffer((1,), "float32"), X: T.Buffer((6,), "float32")):
    for i in range(6):
        for j in range(6):
            S[0] = T.max(X[i] + S[0], T.float32(1))
            X[j] = S[0] / T.float32(3)
""")["main"]
    arrays = np.zeros(1, np.float32), np.linspace(-1, 2, 6).astype(np.float32)
    found = ti.lift(function, numerics="exact")(*arrays)
    for got, want in zip(found, ti.tir.interpret(function, *arrays), strict=True):
        np.testing.assert_array_equal(got, want)
