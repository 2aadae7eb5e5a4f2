"""Rows of flat memory that data tell."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import figures

ROWS = """
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), I: T.Buffer((3,), "int32"), B: T.Buffer((3, 4), "float32")):
    F = A.view(20)
    for i, j in T.grid(3, 4):
        B[i, j] = F[I[i] * 4 + j]
"""


def test_rows_of_flat_memory_that_data_tell_are_rows():
    program = ti.lift(ti.tir.parse(ROWS)["main"])
    assert figures(program) == "0 0 1 1"
    a = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(program(a, np.array([4, 0, 2], np.int32), None)[0], a[[4, 0, 2]])


@pytest.mark.parametrize("row", [-1, 5, 2**30])
def test_a_row_that_is_none_is_an_error_also_where_its_place_would_wrap_around(row: int):
    program = ti.lift(ti.tir.parse(ROWS)["main"])
    with pytest.raises(DiagnosticError, match="an index leaves axis 0 of 'A', which has 5 elements"):
        program(np.zeros((5, 4), np.float32), np.array([0, row, 1], np.int32), None)


def test_what_is_combined_in_rows_of_flat_memory_that_data_tell_is_one_scatter():
    text = """
@T.prim_func
def main(I: T.Buffer((3,), "int32"), U: T.Buffer((3, 4), "float32"), B: T.Buffer((5, 4), "float32")):
    for i, j in T.grid(3, 4):
        B[(I[i] * 4 + j) // 4, (I[i] * 4 + j) % 4] = T.max(B[(I[i] * 4 + j) // 4, (I[i] * 4 + j) % 4], U[i, j])
"""
    program = ti.lift(ti.tir.parse(text)["main"])
    assert figures(program) == "0 0 1 1"
    rows, u = np.array([4, 0, 4], np.int32), np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    wanted = np.zeros((5, 4), np.float32)
    np.maximum.at(wanted, rows, u)
    np.testing.assert_array_equal(program(rows, u, np.zeros((5, 4), np.float32))[0], wanted)
