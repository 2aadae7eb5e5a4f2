"""Sums of products in Relax: what subscripts name, with ellipses and dimensions of size 1, as NumPy reads them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorir as ti

SUMS = [
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (6, 2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (3, 1, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (3, 4), (4, 5)),
    ("...ij,jk", (2, 3, 4), (4, 5)),
    ("...ij -> ij...", (2, 3, 4)),
    ("...ij->...", (2, 3, 4)),
    ("...ii->...i", (2, 3, 3)),
    ("...ba", (2, 3, 4)),
    ("a...b,b...c->...ac", (2, 7, 3), (3, 7, 4)),
    ("...,...->...", (2, 3), (3,)),
    ("ab...->...", (2, 3)),
    ("A...i,...iB->AB", (2, 3), (3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("ij,ij->ij", (1, 4), (3, 1)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
]


def function(subscripts, shapes):
    names = [f"x{k}" for k in range(len(shapes))]
    params = ", ".join(f'{n}: R.Tensor({s}, "float32")' for n, s in zip(names, shapes, strict=True))
    text = f'def main({params}):\n    r = R.einsum(({", ".join(names)},), subscripts="{subscripts}")\n    return r\n'
    return ti.tir.parse(f"@R.function\n{text}")["main"]


@pytest.mark.parametrize("case", SUMS, ids=str)
def test_sums_are_those_of_numpy(case):
    subscripts, *shapes = case
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    main = function(subscripts, shapes)
    for got in (ti.tir.interpret(main, *arrays)[0], ti.lift(main)(*arrays)[0]):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)
    assert str(ti.tir.parse(str(main))["main"]) == str(main)


def test_a_sum_over_what_an_operand_has_once_is_differentiated():
    lifted = ti.lift(function("...ij,...jk->...ik", [(3, 1, 2, 4), (2, 4, 5)]))
    x, y = np.ones((3, 1, 2, 4), "float32"), np.full((2, 4, 5), 2.0, "float32")
    slopes = jax.grad(lambda x, y: lifted(x, y)[0].sum(), (0, 1))(x, y)
    np.testing.assert_allclose(slopes[0], np.full(x.shape, 20.0))
    np.testing.assert_allclose(slopes[1], np.full(y.shape, 6.0))


WRONG = {
    ("...ij->ij", (2, 3, 4)): "the result 'ij' has no place for the dimensions of '...'",
    ("ij->i", (2, 3, 4)): "'ij' names 2 dimensions of a tensor of 3",
    ("ijk->i", (2, 3)): "'ijk' names 3 dimensions of a tensor of 2",
    ("ij,jk->ik", (2, 3)): "subscripts of 2 operands, and there are 1",
    ("i.j->i", (2, 3)): "'i.j' is not letters with one '...'",
    ("i......->i", (2, 3)): "'i......' is not letters with one '...'",
    ("ij->ik", (2, 3)): "the result names 'k' twice, or no operand has it",
    ("ij->iij", (2, 3)): "the result names 'i' twice, or no operand has it",
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_subscripts_that_name_no_sum_are_refused(case):
    subscripts, shape = case
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.lift(function(subscripts, [shape]))
    assert f"R.einsum cannot be applied: {WRONG[case]}.\n" in str(refused.value)
    assert "        ^^^^^^^^" in str(refused.value)


def test_sizes_that_differ_are_told():
    with pytest.raises(ti.DiagnosticError, match=r"R\.einsum gives 'j' the sizes 4 and 5\."):
        ti.lift(function("ij,jk->ik", [(3, 4), (5, 2)]))
