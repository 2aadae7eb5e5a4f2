"""Operators of Relax whose shapes only data tell are refused; assertions are kept by programs that check."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HELP = {
    "R.nonzero(x)": "keep the mask, and use R.where.",
    "R.unique(x)": "use R.sort, and compare neighbours.",
    "R.dynamic_strided_slice(x, b, b, b)": ("use R.strided_slice with bounds that are numbers, or R.take at indices."),
    "R.tensor_to_shape(b)": "pass the shape as a parameter: s: R.Shape(ndim=2).",
}


@pytest.mark.parametrize("value", HELP)
def test_an_operator_whose_shape_depends_on_data_is_refused_by_name(value: str):
    text = (
        '@R.function\ndef main(x: R.Tensor((4,), dtype="int64"), b: R.Tensor((1,), dtype="int64")):\n'
        f"    y = {value}\n    return y\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    name = value.split("(")[0]
    assert str(caught.value) == (
        f"<tir>:3:9: error[TL01]: the shape of what {name} gives depends on data, "
        "and shapes are known before data are.\n"
        f"      y = {value}\n          {'^' * len(value)}\nhelp: {HELP[value]}"
    )


ASSERTED = """
@R.function
def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
    _ = R.assert_op(c, format="c must hold")
    y = R.add(x, x)
    return y
"""

IN_A_BRANCH = """
@R.function
def main(
    c: R.Tensor((), dtype="bool"), d: R.Tensor((), dtype="bool"), x: R.Tensor((3,), dtype="float32")
) -> R.Tensor((3,), dtype="float32"):
    if c:
        _ = R.assert_op(d, format="d must hold where c does")
        y = R.add(x, x)
    else:
        y = R.exp(x)
    return y
"""


def test_an_assertion_is_checked_when_the_program_is_called():
    program = ti.lift(ti.tir.parse(ASSERTED)["main"])
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program(np.bool_(True), x)[0], x + x)
    with pytest.raises(DiagnosticError, match="c must hold"):
        program(np.bool_(False), x)


def test_an_assertion_of_a_branch_holds_where_the_branch_is_taken():
    program = ti.lift(ti.tir.parse(IN_A_BRANCH)["main"])
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(program(np.bool_(False), np.bool_(False), x)[0], np.exp(x), rtol=1e-6)
    with pytest.raises(DiagnosticError, match="d must hold where c does"):
        program(np.bool_(True), np.bool_(False), x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('(5,), dtype="float32"', "dimension 0 of 'A' has 5 elements, but must have 4."),
        ('(4, 1), dtype="float32"', "'A' has 1 dimensions, but the array has 2."),
        ('(4,), dtype="int32"', "'A' holds float32, but the array holds int32."),
    ],
)
def test_a_tensor_that_is_no_argument_of_the_function_that_is_called_is_refused(given: str, message: str):
    module = ti.tir.parse(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] * T.float32(2)
    @R.function
    def main(x: R.Tensor({given})) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        y = R.call_tir(cls.double, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        return y
""")
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(module["main"])
    (found,) = caught.value.diagnostics
    assert (found.message, found.span.line) == (message, 11)
