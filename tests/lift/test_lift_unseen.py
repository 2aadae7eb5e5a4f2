"""What a statement reads and writes stays inside of its buffers, whether or not anybody sees what it computes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """
@T.prim_func
def main(idx: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        {}
"""


def test_an_assertion_holds_in_a_loop_that_leaves_nothing_behind():
    body = "t[idx[i]] = t[0] * B[i] + B[i]\n        assert t[0] >= T.float32(0), 'negative'"
    program = ti.lift(ti.tir.parse(HEAD.format(body))["main"], on_hazard="ignore")
    indices, ones = np.zeros(8, np.int32), np.ones(8, np.float32)
    program(indices, ones, ones)
    with pytest.raises(DiagnosticError, match="negative"):
        program(indices, -2 * ones, ones)


def test_a_result_that_is_seen_needs_no_check_of_its_own():
    rows = ti.tir.parse("""
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), at: T.Buffer((9,), "int32"), x: T.Buffer((7,), "float32"),
         y: T.Buffer((4,), "float32")):
    t = T.alloc_buffer((9,), "float32")
    for j in range(9):
        t[j] = x[at[j]]
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(9):
            y[i] = y[i] + t[j] * x[at[8 - j]]
""")["main"]
    program = ti.lift(rows)
    checked = program.at(program.static).built(True)
    assert checked.unchecked and "assert_" not in str(checked.fencil)
