"""GT4Py's programs on meshes: shifts through tables, reductions with missing neighbours, sparse and nested."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from tests.peers.gt4py.sides import (
    C2E,
    E2V,
    V2E,
    Cell,
    E2VDim,
    Edge,
    K,
    V2EDim,
    Vertex,
    both,
    field,
    gtx,
    ours,
    values,
    xla_cpu,
)  # fmt: skip

from gt4py.next.iterator.embedded import StridedConnectivityField  # isort: skip
from gt4py.next import broadcast, max_over, min_over, neighbor_sum, where  # isort: skip
from gt4py.next.experimental import concat_where  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

VField = gtx.Field[[Vertex], gtx.float64]
EField = gtx.Field[[Edge], gtx.float64]
CField = gtx.Field[[Cell], gtx.float64]
EKField = gtx.Field[[Edge, K], gtx.float64]
VKField = gtx.Field[[Vertex, K], gtx.float64]
SparseField = gtx.Field[[Vertex, V2EDim], gtx.float64]

V2E_TABLE = np.array([[0, 1, 2], [0, 3, -1], [1, 3, 4], [2, 4, -1]], np.int32)
E2V_TABLE = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]], np.int32)
C2E_TABLE = np.array([[0, 1, 3], [1, 2, 4]], np.int32)
PROVIDER = {
    "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, V2E_TABLE, skip_value=-1),
    "E2V": gtx.as_connectivity([Edge, E2VDim], Vertex, E2V_TABLE),
    "C2E": gtx.as_connectivity([Cell, gtx.Dimension("C2E", kind=gtx.DimensionKind.LOCAL)], Edge, C2E_TABLE),
}
PRESENT = V2E_TABLE >= 0


def vertices(**options: object) -> object:
    return field({Vertex: 4}, **options)


def edges(**options: object) -> object:
    return field({Edge: 5}, **options)


@gtx.field_operator
def difference(v: VField) -> EField:
    return v(E2V[1]) - v(E2V[0])


@gtx.field_operator
def composed(v: VField) -> CField:
    return v(E2V[0])(C2E[2])


@gtx.field_operator
def summed(e: EField) -> VField:
    return neighbor_sum(e(V2E), axis=V2EDim)


@gtx.field_operator
def extremes(e: EField) -> tuple[VField, VField]:
    return max_over(e(V2E), axis=V2EDim), min_over(-e(V2E), axis=V2EDim)


@gtx.field_operator
def smallest(e: gtx.Field[[Edge], gtx.int32]) -> gtx.Field[[Vertex], gtx.int32]:
    return min_over(e(V2E), axis=V2EDim)


@gtx.field_operator
def weighted(e: EField, s: SparseField, v: VField) -> VField:
    return neighbor_sum(e(V2E) * s + v * s, axis=V2EDim)


@gtx.field_operator
def sparse_alone(s: SparseField) -> VField:
    return neighbor_sum(s, axis=V2EDim)


@gtx.field_operator
def sparse_sum(v: VField, s: SparseField) -> VField:
    return neighbor_sum(s * v, axis=V2EDim)


@gtx.field_operator
def sparse_twice(v: VField, s: SparseField) -> VField:
    return sparse_sum(sparse_sum(v, s), s)


@gtx.field_operator
def sparse_extremes(v: VField, s: SparseField) -> tuple[VField, VField]:
    low = min_over(s * v, axis=V2EDim)
    return max_over(s + low, axis=V2EDim), min_over(max_over(s, axis=V2EDim) - s, axis=V2EDim) * v


@gtx.field_operator
def sparse_chosen(v: VField, s: SparseField, e: EField) -> VField:
    return neighbor_sum(where(v > 1.0, s, e(V2E)) + where(e(V2E) > 1.0, s, v), axis=V2EDim)


@gtx.field_operator
def sparse_levels(v: VKField, s: SparseField, e: EKField) -> VKField:
    once = neighbor_sum(concat_where(K < 2, e(V2E), s * v), axis=V2EDim)
    return neighbor_sum(broadcast(s, (Vertex, V2EDim, K)) * once, axis=V2EDim)


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def running(state: float, x: float) -> float:
    return 0.5 * state + x


@gtx.field_operator
def sparse_scanned(v: VKField, s: SparseField) -> VKField:
    return neighbor_sum(s * running(neighbor_sum(s * v, axis=V2EDim)), axis=V2EDim)


@gtx.program
def sparse_steps(v: VField, s: SparseField, once: VField, out: VField):
    sparse_sum(v, s, out=once)
    sparse_sum(once, s, out=out)


@gtx.program
def sparse_in_place(v: VField, s: SparseField, out: VField):
    sparse_sum(v, s, out=out)
    sparse_sum(out, s, out=out)


V4, E5, S43, VK4, EK5 = {Vertex: 4}, {Edge: 5}, {Vertex: 4, V2EDim: 3}, {Vertex: 4, K: 4}, {Edge: 5, K: 4}


@pytest.mark.parametrize(
    ("operator", "given", "out"),
    [
        (sparse_twice, [V4, S43], V4),
        (sparse_extremes, [V4, S43], (V4, V4)),
        (sparse_chosen, [V4, S43, E5], V4),
        (sparse_levels, [VK4, S43, EK5], VK4),
        (sparse_scanned, [VK4, S43], VK4),
        (sparse_steps, [V4, S43, V4, V4], None),
        (sparse_in_place, [V4, S43, V4], None),
    ],
)
def test_what_a_table_leaves_empty_is_skipped_in_every_composition(operator: Any, given: Any, out: Any) -> None:
    made = {"out": tuple(map(field, out)) if isinstance(out, tuple) else field(out)} if out else {}
    both(operator, *map(field, given), provider=PROVIDER, **made)


@gtx.field_operator
def sparse_moved(s: SparseField, v: VField) -> EField:
    return neighbor_sum(s(E2V[0]) * v(E2V[0]) - 2.0 * s(E2V[1]), axis=V2EDim)


def test_a_sparse_field_that_is_shifted_lacks_the_neighbours_of_its_own_rows() -> None:
    s, v, t = field(S43), field(V4), E2V_TABLE
    found = ours(sparse_moved, s, v, out=edges(), provider=PROVIDER)[-1]
    terms = s.asnumpy()[t[:, 0]] * v.asnumpy()[t[:, 0], None] - 2.0 * s.asnumpy()[t[:, 1]]
    np.testing.assert_allclose(found, (terms * (PRESENT[t[:, 0]] & PRESENT[t[:, 1]])).sum(1), rtol=1e-12)


def test_sparse_sums_have_the_gradients_and_the_steps_of_their_values() -> None:
    v, s = field(V4), field(S43)
    weights = (s.asnumpy() * PRESENT).sum(1)
    twice = ti.as_jax(sparse_twice, offset_provider=PROVIDER)
    with jax.enable_x64(True):
        slope = jax.grad(lambda v: twice(v, s.asnumpy()).sum())(v.asnumpy())
    np.testing.assert_allclose(slope, weights**2, rtol=1e-14)
    with ti.iterator.record() as step:
        sparse_steps.with_backend(xla_cpu)(v, s, vertices(), vertices(), offset_provider=PROVIDER)
    owners = {"Vertex": np.zeros(4, int)}
    there = ti.distribute(step, jax.make_mesh((1,), ("px",)), {"Vertex": "px"}, partition=owners)
    for one in (step, there):
        np.testing.assert_allclose(one(step.state)["out"], v.asnumpy() * weights**2, rtol=1e-14)


@gtx.field_operator
def extremes_of_none(s: SparseField, e: EField) -> tuple[VField, VField, VField, VField]:
    return (
        max_over(s, axis=V2EDim), min_over(s, axis=V2EDim), max_over(e(V2E), axis=V2EDim), neighbor_sum(s, axis=V2EDim)
    )  # fmt: skip


def test_extremes_of_a_vertex_without_neighbours_are_the_ends_of_the_type() -> None:
    lonely = np.array([[0, 1, 2], [-1, -1, -1]], np.int32)
    provider = {"V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, lonely, skip_value=-1)}
    two = {Vertex: 2}
    out = tuple(field(two) for _ in range(4))
    found = ours(extremes_of_none, field({**two, V2EDim: 3}), edges(), out=out, provider=provider)[-4:]
    most = np.finfo(np.float64).max
    assert [x[1] for x in found] == [-most, most, -most, 0]


@gtx.field_operator
def twice(v: VField) -> VField:
    ends = neighbor_sum(v(E2V), axis=E2VDim)
    return neighbor_sum(ends(V2E), axis=V2EDim)


@gtx.field_operator
def reduced_then_shifted(e: EField, v: VField) -> EField:
    return neighbor_sum(e(V2E) + v, axis=V2EDim)(E2V[0])


@gtx.field_operator
def chosen_neighbours(e: EField, b: EField) -> VField:
    return neighbor_sum(where(e(V2E) > b(V2E), e(V2E), b(V2E) * 2.0), axis=V2EDim)


@gtx.field_operator
def levels(e: EKField, s: SparseField) -> VKField:
    return neighbor_sum(e(V2E) * s, axis=V2EDim) / max_over(e(V2E), axis=V2EDim)(K + 1)


@gtx.field_operator
def nabla(pp: VField, area: EField, sign: SparseField, volume: VField) -> VField:
    flux = area * (0.5 * (pp(E2V[0]) + pp(E2V[1])))
    return neighbor_sum(flux(V2E) * sign, axis=V2EDim) / volume


def test_the_finite_volume_gradient() -> None:
    pp, area, volume = vertices(), edges(), vertices()
    sign = field({Vertex: 4, V2EDim: 3}, data=np.where(PRESENT, 1.0, 0.0))
    both(nabla, pp, area, sign, volume, out=vertices(), provider=PROVIDER)


def test_a_table_may_lead_outside_of_a_field_where_nothing_is_stored() -> None:
    e = field({Edge: 4})
    found = ours(summed, e, out=field({Vertex: 2}), provider=PROVIDER)[-1]
    np.testing.assert_allclose(found, (e.asnumpy()[V2E_TABLE[:2]] * PRESENT[:2]).sum(1), rtol=1e-15)


@gtx.field_operator
def of_scalars(x: gtx.float64, e: EField) -> VField:
    return neighbor_sum(broadcast(x, (Edge,))(V2E) + e(V2E), axis=V2EDim)


def test_a_broadcast_number_has_neighbours_too() -> None:
    e = edges()
    found = ours(of_scalars, 2.0, e, out=vertices(), provider=PROVIDER)[-1]
    np.testing.assert_allclose(found, ((2.0 + e.asnumpy()[V2E_TABLE]) * PRESENT).sum(1), rtol=1e-15)


@gtx.program
def on_part(e: EField, out: VField, start: gtx.int32, stop: gtx.int32):
    summed(e, out=out, domain={Vertex: (start, stop)})


def test_a_part_of_a_mesh() -> None:
    both(on_part, edges(), vertices(), np.int32(1), np.int32(3), provider=PROVIDER)


@gtx.field_operator
def flags(e: gtx.Field[[Edge], bool], v: VField) -> VField:
    return where(e(V2E[0]) & e(V2E[1]), v, 0.0)


def test_a_table_whose_neighbours_lie_one_after_the_other_needs_no_array() -> None:
    strided = {**PROVIDER, "E2V": StridedConnectivityField((Edge, E2VDim), Vertex, 2)}
    v = values(10)
    found = ti.as_jax(difference, offset_provider=strided, domain={"Edge": 5})(v)
    np.testing.assert_array_equal(found, v[1::2] - v[::2])


def test_a_field_on_points_above_zero_is_read_through_tables() -> None:
    v, table = field({Vertex: (2, 7)}), np.array([[2, 3], [4, 6], [5, 5], [6, 2]], np.int32)
    around = {"E2V": gtx.as_connectivity([Edge, E2VDim], Vertex, table)}
    both(difference, v, out=field({Edge: 4}), provider=around)


CASES = [
    (difference, (vertices(),), edges()),
    (composed, (vertices(),), field({Cell: 2})),
    (summed, (edges(),), vertices()),
    (extremes, (edges(),), (vertices(), vertices())),
    (smallest, (field({Edge: 5}, np.int32),), field({Vertex: 4}, np.int32)),
    (weighted, (edges(), field({Vertex: 4, V2EDim: 3}), vertices()), vertices()),
    (sparse_alone, (field({Vertex: 4, V2EDim: 3}),), vertices()),
    (twice, (vertices(),), vertices()),
    (reduced_then_shifted, (edges(), vertices()), edges()),
    (chosen_neighbours, (edges(), edges()), vertices()),
    (levels, (field({Edge: 5, K: 5}), field({Vertex: 4, V2EDim: 3})), field({Vertex: 4, K: 4})),
    (flags, (field({Edge: 5}, bool), vertices()), vertices()),
]  # fmt: skip
"""Operators with arguments and outputs, which GT4Py's embedded mode fills as this project's backend does."""


@pytest.mark.parametrize(("operator", "arguments", "out"), CASES)
def test_operators_on_meshes_give_what_the_embedded_mode_does(
    operator: object, arguments: tuple[object, ...], out: object
) -> None:
    both(operator, *arguments, out=out, provider=PROVIDER)
