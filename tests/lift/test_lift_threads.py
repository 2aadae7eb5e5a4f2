"""Kernels whose threads share memory: trees of sums, prefix sums, transposes, threads that trade places."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti

KEPT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    s = T.alloc_buffer((8,), "float32", scope="{scope}")
    for bx in T.thread_binding({blocks}, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            {statement}
"""
AGAIN = """
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s[tx] = A[bx, tx]
            B[bx, tx] = s[tx] * T.float32(2)
"""


@pytest.mark.parametrize("again", ["", AGAIN], ids=["alone", "and another kernel"])
@pytest.mark.parametrize(
    ("scope", "blocks", "statement"),
    [
        ("local", 4, "s[tx] = A[0, tx]"),
        ("shared", 4, "s[tx] = A[0, tx]"),
        ("local", 4, "s[tx] = A[bx, tx]"),
        (
            "local",
            1,
            "s[0] = T.float32(0)\n            while s[0] < T.float32(3):\n                s[0] = s[0] + A[0, tx]",
        ),
    ],
)
def test_a_kernel_may_keep_all_to_its_threads(scope: str, blocks: int, statement: str, again: str):
    text = KEPT.format(scope=scope, blocks=blocks, statement=statement) + again.lstrip("\n")
    a = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    results = ti.lift(ti.tir.parse(text)["main"])(a, np.zeros_like(a))
    assert len(results) == bool(again)
    for result in results:
        np.testing.assert_array_equal(result, 2 * a)
