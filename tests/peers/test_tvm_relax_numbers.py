"""Numbers with names in Relax: shapes, slices, calls and conditions hold them, as in TVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.array([1.5, -2, 3], np.float32)
HEAD = "@I.ir_module\nclass Module:\n"
OFFSET = """
    @T.prim_func(s_tir=True)
    def offset(a: T.handle, m: T.int64, b: T.handle):
        n = T.int64()
        k = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (k,), "float32")
        for i in range(k):
            with T.sblock("b"):
                v = T.axis.spatial(k, i)
                B[v] = A[v % n] + T.Cast("float32", m)
"""
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a parameter": (
        """
    @R.function
    def main(x: R.Tensor((3,), "float32"), k: T.int64):
        z = R.full(R.shape([k, 2]), R.const(1.5, "float32"))
        m = k + 1
        w = R.full(R.shape([m, k * 2]), R.const(2.5, "float32"))
        return (x, z, w)
""",
        (X, 3),
    ),
    "a member of a tuple": (
        """
    @R.function
    def main(x: R.Tensor((3,), "float32"), k: T.int64):
        t = (x, k + 1)
        j = t[1]
        y = R.zeros(R.shape([j, 2]), "float32")
        return (y, t[0])
""",
        (X, 3),
    ),
    "an argument": (
        """
    @R.function
    def filled(x: R.Tensor(("n",), "float32"), k: T.int64) -> R.Tensor(dtype="float32", ndim=1):
        n = T.int64()
        y = R.full(R.shape([k + n]), R.const(2.0, "float32"))
        return y
    @R.function
    def main(x: R.Tensor((3,), "float32"), k: T.int64):
        cls = Module
        z: R.Tensor(dtype="float32", ndim=1) = cls.filled(x, k)
        w: R.Tensor(dtype="float32", ndim=1) = cls.filled(x, k + 5)
        return (z, w)
""",
        (X, 2),
    ),
    "an argument of a kernel": (
        f"""{OFFSET}
    @R.function
    def main(x: R.Tensor(("k",), "float32"), s: T.int64):
        k = T.int64()
        cls = Module
        d = s * k
        y = R.call_tir(cls.offset, (x, d), out_ty=R.Tensor((d,), "float32"))
        return y
""",
        (X, 2),
    ),
}


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [value.numpy()] if hasattr(value, "numpy") else [leaf for item in value for leaf in leaves(item)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_of_tvms_build(name: str):
    from tvm import relax

    body, given = PROGRAMS[name]
    module = tvm.script.from_source(HEAD + body)
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    wanted = leaves(machine["main"](*(tvm.runtime.tensor(x) if x is X else x for x in given)))
    ours = tir.parse(module.script())
    assert tir.parse(str(ours)) == ours
    for found in (tir.interpret(ours["main"], *given), ti.lift(ours["main"])(*given)):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)


NAMED = """
@R.function
def main(x: R.Tensor(("n",), "float32"), b: T.bool, k: T.int8):
    n = T.int64()
    with R.dataflow():
        q = n - 1
        z = R.strided_slice(x, axes=[0], begin=[q - 1], end=[n], strides=[1])
        R.output(q, z)
    if b:
        y = R.zeros((q, 2), "float32")
    else:
        y = R.ones((q, 2), "float32")
    return (y, z, q, k)
"""


@pytest.mark.parametrize("holds", [False, True])
def test_a_number_is_an_output_of_a_dataflow_block_a_condition_and_a_result(holds: bool):
    function: Any = tir.parse(NAMED)["main"]
    assert tir.parse(str(tir.parse(NAMED)))["main"] == function
    for found in (tir.interpret(function, X, holds, 7), ti.lift(function)(X, holds, 7)):
        y, z, q, k = map(np.asarray, found)
        assert (y == (not holds)).all() and y.shape == (2, 2)
        assert z.tolist() == [-2, 3] and (q, k) == (2, 7) and (q.dtype, k.dtype) == (np.int64, np.int8)


def test_a_number_that_does_not_fit_its_type_is_refused():
    function: Any = tir.parse(NAMED)["main"]
    for call in (tir.interpret, lambda function, *given: ti.lift(function)(*given)):
        with pytest.raises(DiagnosticError) as caught:
            call(function, X, True, 300)
        assert caught.value.diagnostics[0].message == "'k' is of type int8, which 300 does not fit."
