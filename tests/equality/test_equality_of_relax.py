"""Functions of Relax are compared at sizes that they leave open, with each other and with programs of TIR."""

from __future__ import annotations

from typing import Any

import pytest

import tensorir as ti
from tensorir.equality.verdict import Level


def relax(params: str, *body: str) -> Any:
    text = "\n".join(f"    {line}" for line in body)
    return ti.tir.parse(f"@R.function\ndef main({params}):\n{text}\n")["main"]


MATRIX = 'x: R.Tensor(("n", "m"), "float32")'


def test_the_same_function_has_one_form_at_every_size_that_is_tried():
    f = relax(MATRIX, "y = R.exp(x)", "return R.sum(y, axis=[1])")
    g = relax('a: R.Tensor(("p", "q"), "float32")', "return R.sum(R.exp(a), axis=[-1])")
    found = ti.equivalent(f, g)
    assert found.level == Level.BITS and not found
    assert str(found) == (
        "equal in every bit at (n, m) = (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (3, 1), "
        "(1, 4), (2, 3), (3, 2), (4, 1), (1, 5), (2, 4), (8, 8), (17, 17)"
    )


def test_a_difference_is_found_at_the_smallest_size_that_shows_it():
    f = relax('x: R.Tensor(("n",), "float32")', "return R.sum(x)")
    g = relax('x: R.Tensor(("n",), "float32")', "return R.max(x)")
    assert ti.equivalent(f, g).sizes == ({"n": 0},)  # a sum of nothing is 0


def test_sums_in_another_order_agree_on_inputs():
    f = relax(MATRIX, "return R.sum(x)")
    g = relax(MATRIX, "return R.sum(R.sum(x, axis=[0]))")
    found = ti.equivalent(f, g)
    assert found.level == Level.REALS and len(found.sizes) >= 10


def test_a_function_is_compared_with_a_program_of_tir_of_symbolic_sizes():
    f = relax(MATRIX, "return R.multiply(x, x)")
    tir = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    for i, j in T.grid(n, m):
        B[i, j] = A[i, j] * A[i, j]{more}
"""
    assert ti.equivalent(f, ti.tir.parse(tir.format(more=""))["main"]).level >= Level.REALS
    other = ti.tir.parse(tir.format(more=" + T.Cast('float32', i // 3)"))["main"]
    assert ti.equivalent(f, other).level == Level.DIFFERENT


def test_a_function_of_sizes_is_compared_with_one_of_fixed_sizes():
    f = relax(MATRIX, "return R.add(x, x)")
    g = relax('x: R.Tensor((3, 4), "float32")', "return R.add(x, x)")
    assert str(ti.equivalent(f, g)) == "equal in every bit at (n, m) = (3, 4)"


def test_shapes_and_numbers_that_are_parameters_are_sizes():
    f = relax('x: R.Tensor(("n",), "float32"), s: R.Shape(["n", "m"])', "return R.broadcast_to(x, R.shape([m, n]))")
    g = relax('x: R.Tensor(("n",), "float32"), s: R.Shape(["n", "m"])', "return R.broadcast_to(x, R.shape([m, n]))")
    assert ti.equivalent(f, g).level == Level.BITS


def test_a_rank_alone_leaves_every_extent_open():
    f = relax('x: R.Tensor("float32", ndim=2)', "return R.exp(x)")
    g = relax(MATRIX, "return R.exp(x)")
    assert ti.equivalent(f, g).level == Level.BITS


def test_tables_that_programs_bring_along_are_no_inputs():
    of = 'x: R.Tensor((1, 2, 4, 5), "float32")'
    f = relax(of, "return R.image.resize2d(x, R.shape([7, 9]))")
    g = relax(of, "y = R.image.resize2d(x, R.shape([7, 9]))", "return y")
    h = relax(of, 'return R.image.resize2d(x, R.shape([7, 9]), coordinate_transformation_mode="asymmetric")')
    assert ti.equivalent(f, g).level == Level.BITS
    assert ti.equivalent(f, h).level == Level.DIFFERENT


def test_what_a_function_prints_is_no_result():
    f = relax(MATRIX, "_ = R.print(x)", "return R.exp(x)")
    g = relax(MATRIX, "return R.exp(x)")
    assert ti.equivalent(f, g).level == Level.BITS


def test_a_float_that_specialises_a_function_is_no_size():
    f = relax('x: R.Tensor(("n",), "float32"), a: R.Prim("float32")', "return R.exp(x)")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.equivalent(f, f)
    assert str(caught.value) == (
        "error[TL02]: 'main' has sizes that only a call tells.\n"
        "help: compare it at one set of sizes: declare them as numbers."
    )
