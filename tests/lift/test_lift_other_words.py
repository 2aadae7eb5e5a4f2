"""One element under two names: an iteration that writes it reads it back, whatever the indices are called."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize(
    ("written", "read"),
    [("i * 3 % 2", "i"), ("i", "i * 3 % 2"), ("i + i - i", "i"), ("1 - i", "(i + 1) % 2"), ("i // 1", "i % 2"),
     ("i", "i * i"), ("i", "1 - i"), ("i", "T.min(i + 1, 1)")],
)  # fmt: skip
def test_what_an_iteration_wrote_is_what_it_reads(written: str, read: str, numerics: str):
    """`L` is a state that rounds of k hand on: read before it is written it holds what the round before wrote."""
    function = ti.tir.parse(f"""
@T.prim_func
def main(B: T.Buffer((2,), "int32")):
    L = T.alloc_buffer((2,), "int32")
    for z in range(2):
        L[z] = 11
    for i in range(2):
        for k in range(5):
            L[{written}] = k
            B[i] = L[{read}]
""")["main"]
    given = np.zeros(2, np.int32)
    (found,) = ti.lift(function, numerics=numerics)(given)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, given)[0])
