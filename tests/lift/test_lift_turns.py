"""Loops whose bounds depend on data: as many turns as their accesses leave them, or a while."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti

ROWS = """
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), x: T.Buffer((9,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(ptr[i], ptr[i + 1]):
            y[i] = y[i] + x[j] * x[j]
"""
PTR = np.array([0, 2, 2, 8, 9], np.int32)


def lowered(text: str) -> str:
    return ti.compile(ti.lift(ti.tir.parse(text)["main"]).fencil).stablehlo()


def test_rows_of_a_sparse_matrix_are_laid_side_by_side():
    program = ti.lift(ti.tir.parse(ROWS)["main"])
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(program(PTR, x, None)[0], [1, 0, 139, 64])
    assert "stablehlo.while" not in lowered(ROWS)
    slope = jax.grad(lambda x: program(jnp.asarray(PTR), x, jnp.zeros(4, "float32"))[0].sum())(jnp.asarray(x))
    np.testing.assert_array_equal(slope, 2 * x)
