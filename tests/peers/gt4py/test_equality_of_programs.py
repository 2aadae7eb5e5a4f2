"""Programs of GT4Py compared with stencils and kernels: parameters are matched by name, whatever their order is."""

import gt4py.next as gtx
import numpy as np

import tensorir as ti
from tensorir.equality.verdict import Level

I, J = gtx.Dimension("I"), gtx.Dimension("J")
Plane = gtx.Field[gtx.Dims[I, J], gtx.float64]


@gtx.field_operator
def combined(a: Plane, b: Plane) -> Plane:
    return a * 2.0 - b


@gtx.program
def program(b: Plane, a: Plane, out: Plane):
    combined(a, b, out=out)


def lifted() -> object:
    field = gtx.as_field([I, J], np.zeros((6, 5)))
    return ti.lift(ti.iterator.from_gt4py(program), args=(field, field, field))


STENCIL = """
f(out: tensor<float, I[0:6], J[0:5]>, a: tensor<float, I[0:6], J[0:5]>, b: tensor<float, I[0:6], J[0:5]>) {{
  out ← {};
}}"""
KERNEL = """
@T.prim_func
def main(a: T.Buffer((6, 5), "float64"), b: T.Buffer((6, 5), "float64"), out: T.Buffer((6, 5), "float64")):
    for i, j in T.grid(6, 5):
        out[i, j] = {}
"""


def test_a_program_has_the_bits_of_a_stencil_and_of_a_kernel():
    for other in (
        ti.parse(STENCIL.format("2.0 × a - b")),
        ti.tir.parse(KERNEL.format("a[i, j] * 2.0 - b[i, j]"))["main"],
    ):
        assert ti.equivalent(lifted(), other).level == Level.BITS
        assert ti.equivalent(other, lifted()).level == Level.BITS


def test_a_program_is_equal_over_the_reals_or_told_apart():
    assert ti.equivalent(lifted(), ti.parse(STENCIL.format("a + a - b"))).level == Level.REALS
    found = ti.equivalent(lifted(), ti.parse(STENCIL.format("2.0 × b - a")))
    assert found.level == Level.DIFFERENT and found.counterexample is not None
    assert set(found.counterexample) == {"a", "b"}
