"""`if` of one truth value, lifted: what both branches fill is filled, and only the branch that is taken is computed."""

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import costs_of

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


@pytest.mark.parametrize("c", [True, False])
def test_what_an_if_of_relax_gives_is_computed_in_one_conditional(c):
    function = ti.tir.parse(TUPLE)["main"]
    program = ti.lift(function)
    x = np.random.default_rng(1).normal(size=(90, 90)).astype(np.float32)
    for got, want in zip(program(np.array(c), x), ti.tir.interpret(function, np.array(c), x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    text = str(ti.compile(program.fencil).pipeline().result)
    assert text.count("cond(") == len(program(np.array(c), x))  # results of the same two functions


def test_an_index_that_is_wrong_in_the_other_branch_is_no_error():
    program = ti.lift(ti.tir.parse(OUTSIDE)["main"])
    x, i = np.arange(5, dtype=np.float32), np.array([1, 7])
    np.testing.assert_array_equal(program(np.int64(4), i, x)[0], [0.5, 0.5])
    with pytest.raises(ti.DiagnosticError, match="an index leaves"):
        program(np.int64(2), i, x)


def nested(depth: int) -> str:
    """Choices whose conditions and branches all read what the choice before gave."""
    lines = [
        f"        v{k}: T.let[T.int32] = T.if_then_else(v{k - 1} > {k % 4}, A[v{k - 1}], A[7 - v{k - 1}])\n"
        for k in range(1, depth)
    ]
    return f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        v0: T.let[T.int32] = I[i]
{"".join(lines)}        B[i] = v{depth - 1}
"""


def test_programs_that_check_choices_in_choices_grow_with_their_number():
    programs = [program.at(program.static).built(True).fencil for program in map(nested_lift, (6, 12, 24))]
    sizes = [costs_of(p).operations for p in programs]
    assert sizes[2] - sizes[1] < 3 * (sizes[1] - sizes[0])
    a, i = np.arange(8, dtype=np.int32)[::-1].copy(), (np.arange(16, dtype=np.int32) * 3) % 8
    func = ti.tir.parse(nested(6))["main"]
    wanted = ti.tir.interpret(func, a, i, np.zeros(16, np.int32))[2]
    np.testing.assert_array_equal(ti.lift(func)(a, i, None)[0], wanted)


def nested_lift(depth: int):
    return ti.lift(ti.tir.parse(nested(depth))["main"])
