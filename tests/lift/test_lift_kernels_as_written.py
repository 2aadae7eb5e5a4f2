"""Kernels as people write them: what they leave early, add up in every block, and store at indices of any type."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti


def test_a_numpy_buffer_may_stand_beside_what_is_traced():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        B[i] = B[i] + A[i] * A[i]
""")["main"]
    )
    b = np.ones(3, np.float32)
    np.testing.assert_array_equal(jax.grad(lambda a: program(a, b)[0].sum())(jnp.arange(3.0)), [0, 2, 4])
    np.testing.assert_array_equal(jax.jit(lambda a: program(a, b)[0])(jnp.arange(3.0)), [1, 2, 5])
    np.testing.assert_array_equal(b, 1)


def test_reverse_mode_goes_through_a_while_that_a_break_ends():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((1,), "float32")):
    while A[0] < T.float32(9):
        A[0] = A[0] * T.float32(1.5)
        if A[0] > T.float32(4):
            break
""")["main"]
    )
    slope = jax.vmap(jax.grad(lambda x: program(x)[0].sum()))(jnp.array([[1.0], [5.0], [10.0]]))
    np.testing.assert_allclose(slope, [[1.5**4], [1.5], [1]], rtol=1e-6)
