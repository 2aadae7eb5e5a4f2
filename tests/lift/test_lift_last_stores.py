"""Stores of which only those of a loop's last iteration stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti

SUM = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
    A = T.match_buffer(a, (4, 6), "float32")
    B = T.match_buffer(b, (4,), "float32")
    C = T.match_buffer(c, (4,), "float32")
    D = T.match_buffer(d, (4,), "float32")
    for i in range(4):
        B[i] = T.float32(0)
        for k in range(6):
            B[i] = B[i] + A[i, k]
"""
STAY = {
    "a sum so far": ["C[i] = B[i]"],
    "what the last iteration stored": ["C[i] = B[i] * T.float32(2)", "D[i] = C[i] + T.Cast('float32', k)"],
    "in a loop of its own": ["for j in range(4): C[j] = B[i] + T.Cast('float32', j)"],
}
READ = {
    "by what folds": ["C[i] = B[i]", "B[i] = B[i] + C[i]"],
    "before it is stored": ["D[i] = C[i]", "C[i] = B[i]"],
    "by itself": ["C[i] = C[i] * T.float32(0.5) + B[i]"],
    "where an iteration says": ["C[k % 4] = B[i]"],
    "so far as an iteration says": ["for j in range(4 - k): C[j] = B[i]"],
    "if an iteration says": ["if k < 3: C[i] = B[i]"],
    "if data say": ["if A[i, k] < T.float32(0): C[i] = B[i]"],
}


def lifted(stores: list[str]) -> Any:
    """The sum with stores behind each addition, lifted, and compared with the interpreter."""
    function = ti.tir.parse(SUM + "".join(f"            {store}\n" for store in stores))["main"]
    program = ti.lift(function)
    given = [np.random.default_rng(3).normal(size=s).astype(np.float32) for s in ((4, 6), (4,), (4,), (4,))]
    wanted = ti.tir.interpret(function, *given)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for k, got in zip(written, program(*given), strict=True):
        np.testing.assert_allclose(got, wanted[k], rtol=1e-5, atol=1e-5)
    return program


@pytest.mark.parametrize("stores", STAY.values(), ids=STAY)
def test_what_each_iteration_stores_anew_is_stored_after_the_loop(stores: list[str]):
    assert "reduce(+, 0.0f, k)(A)" in str(lifted(stores))


@pytest.mark.parametrize("stores", READ.values(), ids=READ)
def test_what_is_read_or_not_always_stored_stays_in_the_loop(stores: list[str]):
    lifted(stores)


def test_a_loop_of_which_the_last_iteration_stays_may_be_split():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((12, 12), "int32"), B: T.Buffer((12, 12), "int32"), I: T.Buffer((12,), "int32")):
    for i in range(12):
        for j in range(6):
            A[i * 2 % 12, T.min(i + 1, 11)] = A[I[i], i]
            for k in range(12):
                B[i, i] = A[j // 2, k] - A[k * 3 % 12, j] * j
""")["main"]
    r = np.random.default_rng(1)
    given = [r.integers(-9, 9, s).astype(np.int32) for s in ((12, 12), (12, 12))]
    given.append(r.integers(0, 12, 12).astype(np.int32))
    wanted = ti.tir.interpret(function, *given)
    for got, expected in zip(ti.lift(function)(*given), wanted[:2], strict=True):
        np.testing.assert_array_equal(got, expected)
