"""States that are kept for each iteration: what only reads them runs for all iterations at once, with equal results."""

import numpy as np
import pytest

import tensorir as ti
from tests.lift.harness import steps_of

# the distances in O differ, which dataflow does not cover: all is left to the dependences of statements
HEAD = """
@T.prim_func
def main(X: T.Buffer((6, 5, 16)), Y: T.Buffer((6, 5, 16)), Z: T.Buffer((6, 5, 16)), O: T.Buffer((12,))):
    m = T.alloc_buffer((5,))
    for i in range(11):
        O[i + 1] = O[(i + 1) // 2] * T.float32(2.0) + T.float32(1.0)
    for r in range(5):
        m[r] = T.float32(-1.0)
    for t in range(6):
        {before}
        for r, k in T.grid(5, 16):
            m[r] = T.max(m[r], X[t, r, k])
        {after}
"""
LATE = """for r, k in T.grid(5, 16):
            Z[t, r, k] = T.exp(X[t, r, k] - m[r])"""
EARLY = """for r, k in T.grid(5, 16):
            Y[t, r, k] = X[t, r, k] * m[r]"""
GUARDED = """for r, k in T.grid(5, 16):
            if k < t:
                Z[t, r, k] = X[t, r, k] - m[r]"""
TURNED = """for r, k in T.grid(5, 16):
            Z[t, r, k] = X[t, r, k] - m[4 - r]"""
SMALL = """for r in range(5):
            Z[t, r, 0] = m[r]"""
FED_BACK = """for r, k in T.grid(5, 16):
            Z[t, r, k] = X[t, r, k] - m[r]
        for r in range(5):
            m[r] = m[r] + Z[t, r, 3]"""
DATA = """for r, k in T.grid(5, 16):
            Z[t, r, k] = X[t, r, k] - m[T.min(T.max(T.Cast("int32", X[t, r, k]), 0), 4)]"""


def program(before="pass", after="pass"):
    return ti.tir.parse(HEAD.format(before=before, after=after))["main"]


def assert_equal_to_a_run(func, lifted):
    x, y, z = np.random.default_rng(0).normal(size=(3, 6, 5, 16)).astype(np.float32)
    arrays = x, y, z, np.ones(12, np.float32)
    found = lifted(*arrays)
    wanted = [w for w, a in zip(ti.tir.interpret(func, *arrays), arrays, strict=True) if not np.array_equal(w, a)]
    assert len(found) == len(wanted) > 0
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


KEPT = {
    "behind the writer": ("pass", LATE),
    "in front of it": (EARLY, "pass"),
    "on both sides": (EARLY, LATE),
    "under a condition": ("pass", GUARDED),
    "in another order": ("pass", TURNED),
}
TOGETHER = {
    "as much as is kept": ("pass", SMALL),
    "what it makes of it comes back": ("pass", FED_BACK),
    "places that data tell": ("pass", DATA),
}


@pytest.mark.parametrize("where", KEPT)
def test_what_only_reads_a_state_leaves_its_loop(where):
    func = program(*KEPT[where])
    lifted = ti.lift(func)
    assert steps_of(lifted) == 2
    assert_equal_to_a_run(func, lifted)


@pytest.mark.parametrize("what", TOGETHER)
def test_what_does_not_pay_or_is_not_told_stays_in_its_loop(what):
    func = program(*TOGETHER[what])
    assert_equal_to_a_run(func, ti.lift(func))
