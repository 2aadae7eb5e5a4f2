"""Schedules undone: what was made from other modules steps, looks up and computes as these do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import Costs, costs_of, kept
from tests.lift.harness import near, steps_of
from tests.lift.schedules import Pair, pairs

ABSENT = pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in pairs()] or [ABSENT])
def test_a_scheduled_module_takes_no_more_than_its_base(pair: Pair):
    one, base = (Costs.parse(kept()[f"TIR: {name}"]) for name in (pair.name, pair.base))
    assert one.near(base) and one.gathers <= base.gathers


POOL = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    P = T.alloc_buffer((10,), "float32")
    for i in range(10):
        P[i] = T.if_then_else(1 <= i and i < 9, A[i - 1], T.float32(-9))
    for i, r in T.grid(4, 3):
        with T.sblock("B"):
            vi, vr = T.axis.remap("SR", [i, r])
            with T.init():
                B[vi] = T.float32(-9)
            B[vi] = T.max(B[vi], P[vi * 2 + vr])
"""


def test_a_margin_of_which_no_window_reads_the_end_is_as_long_as_what_is_read():
    lines = POOL.splitlines(keepends=True)
    inlined = "".join(lines[:3] + lines[6:]).replace(
        "P[vi * 2 + vr]",
        "T.if_then_else(1 <= vi * 2 + vr and vi * 2 + vr < 9, A[vi * 2 + vr - 1], T.float32(-9))",
    )
    one, other = (ti.lift(ti.tir.parse(text)["main"]) for text in (POOL, inlined))
    near(other, one)
    near(one, other)
    a = np.arange(8, dtype=np.float32)[::-1].copy()
    for program in (one, other):
        np.testing.assert_array_equal(program(a, None)[0], [7, 6, 4, 2])


SPREAD = """
@T.prim_func
def main(A: T.Buffer((4, 5), "float32"), W: T.Buffer((4, 3), "float32"), B: T.Buffer((2, 10), "float32")):
    {0}
    for g, i, c, r in T.grid(2, 10, 2, 3):
        with T.sblock("B"):
            vg, vi, vc, vr = T.axis.remap("SSRR", [g, i, c, r])
            with T.init():
                B[vg, vi] = T.float32(0)
            B[vg, vi] = B[vg, vi] + {1} * W[vg * 2 + vc, vr]
"""
APART = """D = T.alloc_buffer((4, 9), "float32")
    P = T.alloc_buffer((4, 12), "float32")
    for c, i in T.grid(4, 9):
        D[c, i] = T.if_then_else(i % 2 == 0, A[c, i // 2], T.float32(0))
    for c, i in T.grid(4, 12):
        P[c, i] = T.if_then_else(1 <= i and i < 10, D[c, i - 1], T.float32(0))
"""
FLAT = """D = T.alloc_buffer((36,), "float32")
    P = T.alloc_buffer((48,), "float32")
    for c, i in T.grid(4, 9):
        D[c * 9 + i] = T.if_then_else(i % 2 == 0, A[c, i // 2], T.float32(0))
    for c, i in T.grid(4, 12):
        P[c * 12 + i] = T.if_then_else(1 <= i and i < 10, D[c * 9 + (i - 1)], T.float32(0))
"""
INSIDE = "1 <= vi + vr and vi + vr < 10"
EVEN = "(vi + vr - 1) % 2 == 0"
READ, NOTHING = "A[vg * 2 + vc, (vi + vr - 1) // 2]", "T.float32(0)"


@pytest.mark.parametrize(
    ("storage", "value"),
    [
        (FLAT, "P[vg * 24 + vc * 12 + vi + vr]"),
        ("", f"T.if_then_else({INSIDE}, T.if_then_else({EVEN}, {READ}, {NOTHING}), {NOTHING})"),
        ("", f"T.if_then_else({INSIDE} and {EVEN}, {READ}, {NOTHING})"),
    ],
    ids=["flat", "inside", "inside at once"],
)
def test_what_is_spread_and_padded_is_so_wherever_it_stands(storage: str, value: str):
    base, other = (
        ti.tir.parse(SPREAD.format(*parts))["main"] for parts in ((APART, "P[vg * 2 + vc, vi + vr]"), (storage, value))
    )
    one, two = ti.lift(base), ti.lift(other)
    near(two, one)
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    wanted = ti.tir.interpret(base, a, w, np.zeros((2, 10), np.float32), checked=True)[2]
    for program in (one, two):
        np.testing.assert_allclose(program(a, w, None)[0], wanted, rtol=1e-5, atol=1e-6)


PARTS = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((8,), "float32")):
    {0}
"""
ONE = """
    for i in range({0}, {1}):
        C[i] = T.float32(0)
        for j in range({2}, {3}):
            B[i, j] = A[T.if_then_else(i < 3, 3 - i, i - 3), j] + T.float32(j)
            C[i] = C[i] + A[i, j]
"""


@pytest.mark.parametrize("cuts", [(0, 2, 8), (0, 1, 4, 8), (0, 1, 2, 8)])
def test_a_loop_that_was_cut_in_parts_is_one_loop(cuts: tuple[int, ...]):
    parts = [ONE.format(a, b, 0, 6) for a, b in pairwise(cuts)]
    base, other = (ti.tir.parse(PARTS.format(text))["main"] for text in (ONE.format(0, 8, 0, 6), "".join(parts)))
    one, two = ti.lift(base), ti.lift(other)
    near(two, one)
    a = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    wanted = ti.tir.interpret(base, a, np.zeros((8, 6), np.float32), np.zeros(8, np.float32), checked=True)[1:]
    for found, value in zip(two(a, None, None), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6)


def test_parts_of_a_loop_that_do_other_things_or_do_not_meet_stay_apart():
    more = (
        ONE.format(0, 3, 0, 6),
        ONE.format(5, 8, 0, 6),
        ONE.format(3, 5, 0, 6).replace("+ T.float32(j)", "- T.float32(j)"),
    )
    func = ti.tir.parse(PARTS.format("".join(more)))["main"]
    a = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    b, c = np.zeros((8, 6), np.float32), np.zeros(8, np.float32)
    for found, value in zip(ti.lift(func)(a, b, c), ti.tir.interpret(func, a, b, c, checked=True)[1:], strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6)


BY_DIGITS = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16, 14), "float32")):
    for b, t, a in T.grid(7, 8, 4):
        C[b * 2 + {0} // 14, {0} % 14] = A[{0} % 14] * A[{0} % 14 + 1] * A[{0} % 14 + 2]
"""


def test_a_number_whose_first_digit_a_divisor_took_apart_is_one_number():
    program = ti.lift(ti.tir.parse(BY_DIGITS.format("(b * 4 + t * 4 + a)"))["main"])
    assert steps_of(program) == 0 and costs_of(program).gathers == 1
    a = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(program(a, None)[0], np.tile(a[:14] * a[1:15] * a[2:], (16, 1)))
