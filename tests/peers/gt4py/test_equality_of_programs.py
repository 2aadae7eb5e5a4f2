"""Programs of GT4Py compared with stencils and kernels: parameters are matched by name, whatever their order is."""

import gt4py.next as gtx
import numpy as np

import tensorir as ti
from tensorir.equality.verdict import Level
from tests.peers.gt4py.sides import V2E, Edge, V2EDim, Vertex

from gt4py.next import neighbor_sum  # isort: skip

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


@gtx.field_operator
def around(e: gtx.Field[[Edge], gtx.float64]) -> gtx.Field[[Vertex], gtx.float64]:
    return neighbor_sum(e(V2E), axis=V2EDim)


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


def test_a_program_that_is_not_lifted_yet_is_compared_with_its_neighbour_tables():
    def at(entries: object) -> object:
        table = gtx.as_connectivity([Vertex, V2EDim], Edge, np.array(entries, np.int32))
        sizes = {"Vertex": 2, "Edge": 3, "V2E": 2}
        return ti.iterator.from_gt4py(around, sizes=sizes, offset_provider={"V2E": table})

    assert ti.equivalent(at([[0, 1], [1, -1]]), at([[0, 1], [1, -1]])).level == Level.BITS
    assert ti.equivalent(ti.lift(at([[0, 1], [1, 2]])), at([[0, 1], [1, -1]])).level == Level.DIFFERENT
