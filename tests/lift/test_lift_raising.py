"""Kernels of TIR whose loops are operations of XLA: the report names them, and the numbers are those of the text."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti

ALL = """
@T.prim_func
def main(A: T.Buffer((3, 4, 5, 6), "bool"), B: T.Buffer((6,), "bool"), C: T.Buffer((6,), "bool")):
    for i, a, b, c in T.grid(6, 3, 4, 5):
        with T.sblock("all"):
            v, va, vb, vc = T.axis.remap("SRRR", [i, a, b, c])
            with T.init():
                B[v] = T.bool(True)
                C[v] = T.bool(False)
            B[v] = B[v] and A[va, vb, vc, v]
            C[v] = C[v] or A[va, vb, vc, v]
"""


def test_truth_values_are_folded_over_several_dims_at_once():
    program = ti.lift(ti.tir.parse(ALL)["main"])
    assert "stablehlo.while" not in ti.compile(program.fencil).stablehlo()
    a = np.random.default_rng(0).random((3, 4, 5, 6)) < [0, 0.01, 0.02, 0.98, 0.99, 1]
    for found, wanted in zip(program(a, None, None), (a.all((0, 1, 2)), a.any((0, 1, 2))), strict=True):
        np.testing.assert_array_equal(found, wanted)


# Kernels as people write them: what they leave early, add up in every block, and store at indices of any type.


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
