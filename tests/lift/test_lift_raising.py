"""Kernels of TIR whose loops are operations of XLA: the report names them, and the numbers are those of the text."""

from __future__ import annotations

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
