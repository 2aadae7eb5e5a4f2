"""`if` of one truth value, lifted: what both branches fill is filled, and only the branch that is taken is computed."""

import numpy as np
import pytest

import tensorir as ti

FILLED = """
@T.prim_func
def main(c: T.int32, A: T.Buffer((40, 30), "float32"), B: T.Buffer((30, 40), "float32"), C: T.Buffer((40, 40), "float32")):
    if c > 0:
        for i, j, k in T.grid(40, 40, 30):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    else:
        for i, j in T.grid(40, 40):
            C[i, j] = T.float32(c)
"""  # noqa: E501

TUPLE = """
@I.ir_module
class M:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((90, 90), "float32")) -> R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")):
        if c:
            y: R.Tensor((90, 90), "float32") = R.matmul(x, x)
            w: R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")) = (y, R.sum(y, axis=[1]))
        else:
            z: R.Tensor((90, 90), "float32") = R.sort(x, axis=-1)
            w: R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")) = (z, R.max(z, axis=[1]))
        return w
"""  # noqa: E501

OUTSIDE = """
@I.ir_module
class M:
    @R.function
    def main(n: R.Tensor((), "int64"), i: R.Tensor((2,), "int64"), x: R.Tensor((5,), "float32")) -> R.Tensor((2,), "float32"):
        c: R.Tensor((), "bool") = R.less(n, R.const(3, "int64"))
        if c:
            y: R.Tensor((2,), "float32") = R.take(x, i, axis=0, mode="fast")
        else:
            y: R.Tensor((2,), "float32") = R.full((2,), R.const(0.5, "float32"), "float32")
        return y
"""  # noqa: E501


@pytest.mark.parametrize("c", [-3, 2])
def test_an_output_that_both_branches_fill_need_not_be_given(c):
    function = ti.tir.parse(FILLED)["main"]
    program = ti.lift(function)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 30)).astype(np.float32), rng.normal(size=(30, 40)).astype(np.float32)
    want = ti.tir.interpret(function, c, a, b, np.zeros((40, 40), np.float32))[3]
    np.testing.assert_allclose(program(c, a, b, None)[0], want, rtol=1e-4, atol=1e-5)
    assert "C ← if c > 0 then reduce(+, 0.0f, k)(A × B) else cast(c, float32);" in str(program)


@pytest.mark.parametrize("c", [True, False])
def test_what_an_if_of_relax_gives_is_computed_in_one_conditional(c):
    function = ti.tir.parse(TUPLE)["main"]
    program = ti.lift(function)
    x = np.random.default_rng(1).normal(size=(90, 90)).astype(np.float32)
    for got, want in zip(program(np.array(c), x), ti.tir.interpret(function, np.array(c), x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert str(program.report).count("raised: conditional: ") == 1


def test_an_index_that_is_wrong_in_the_other_branch_is_no_error():
    program = ti.lift(ti.tir.parse(OUTSIDE)["main"])
    x, i = np.arange(5, dtype=np.float32), np.array([1, 7])
    np.testing.assert_array_equal(program(np.int64(4), i, x)[0], [0.5, 0.5])
    with pytest.raises(ti.DiagnosticError, match="an index leaves"):
        program(np.int64(2), i, x)
