"""What the text stores to is given back, whether or not any iteration stores to it."""

from __future__ import annotations

import numpy as np

from tests.lift.harness import agree, parsed

A = np.array([1, 2, 5, 9, 1], np.int32)


def test_a_size_at_which_no_iteration_stores_changes_no_result_but_its_own():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n - 3):
        B[i + 3] = A[i]
    for i in range(n):
        C[i] = A[i]
"""
    for n in (2, 3, 5):
        agree(parsed(text), A[:n], np.arange(n, dtype=np.int32), np.zeros(n, np.int32))
