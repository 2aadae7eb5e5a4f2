"""Operators in the form in which TVM's legalization leaves them: packed functions under `relax.run`."""

import numpy as np
import pytest

import tensorir as ti

UNIQUE = """
@R.function
def main(x: R.Tensor((6,), dtype="int32")):
    y = R.call_pure_packed("relax.run.unique", x, {ordered}, True, False, True, ty_args=(
        R.Tuple(R.Tensor(dtype="int32", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)),))
    return y
"""

NONZERO = """
@R.function
def main(x: R.Tensor((2, 3), dtype="int32")):
    y = R.call_pure_packed("relax.run.nonzero", x, ty_args=(R.Tensor(dtype="int64", ndim=2),))
    return y
"""

SAYS = """
@R.function(pure=False)
def main(x: R.Tensor((2,), dtype="int32"), c: R.Tensor((), dtype="bool")):
    R.call_packed("relax.run.print", R.str("x = {}"), x, ty_args=(R.Tuple,))
    R.call_packed("relax.run.assert_op", c, R.str("not {}"), x, ty_args=(R.Tuple,))
    return x
"""


def main(text):
    return ti.tir.parse(text)["main"]


@pytest.mark.parametrize("ordered", [True, False])
def test_unique_gives_what_numpy_does(ordered):
    x = np.array([3, 1, 3, 2, 1, 0], np.int32)
    values, first, counts = ti.tir.interpret(main(UNIQUE.format(ordered=ordered)), x)
    expected = [np.unique(x), np.array([5, 1, 3, 0]), np.array([1, 2, 1, 2])]
    if not ordered:
        expected = [part[[3, 1, 2, 0]] for part in expected]
    assert [values.tolist(), first.tolist(), counts.tolist()] == [part.tolist() for part in expected]


def test_nonzero_gives_the_places():
    (places,) = ti.tir.interpret(main(NONZERO), np.array([[1, 0, 2], [0, 0, 3]], np.int32))
    assert places.tolist() == [[0, 0, 1], [0, 2, 2]] and places.dtype == np.int64


@pytest.mark.parametrize("run", [ti.tir.interpret, lambda f, *arrays: ti.lift(f)(*arrays)])
def test_what_is_said_and_asserted_is(run, capfd):
    x = np.array([4, 5], np.int32)
    run(main(SAYS), x, np.array(True))
    assert capfd.readouterr().out == "x = [4 5]\n"
    with pytest.raises(ti.DiagnosticError, match="not"):
        run(main(SAYS), x, np.array(False))


def test_the_lift_says_what_to_write_in_the_place_of_a_shape_that_data_tell():
    with pytest.raises(ti.DiagnosticError, match=r"keep the mask, and use R\.where"):
        ti.lift(main(NONZERO))(np.ones((2, 3), np.int32))
