"""GT4Py's reductions over neighbours: nested, sparse, of tuples, with numbers, levels and missing neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from tests.peers.gt4py.sides import (
    C2E,
    E2V,
    V2E,
    C2EDim,
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
    xla_cpu,
)
from tests.peers.gt4py.test_unstructured import PRESENT, PROVIDER, V2E_TABLE

from gt4py.next import astype, broadcast, max_over, min_over, neighbor_sum, where  # isort: skip
from gt4py.next.experimental import concat_where  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

V = gtx.Field[[Vertex], gtx.float64]
E = gtx.Field[[Edge], gtx.float64]
C = gtx.Field[[Cell], gtx.float64]
VI = gtx.Field[[Vertex], gtx.int32]
EI = gtx.Field[[Edge], gtx.int32]
VB = gtx.Field[[Vertex], gtx.bool]
EB = gtx.Field[[Edge], gtx.bool]
VK = gtx.Field[[Vertex, K], gtx.float64]
EK = gtx.Field[[Edge, K], gtx.float64]
S = gtx.Field[[Vertex, V2EDim], gtx.float64]
SE = gtx.Field[[Edge, E2VDim], gtx.float64]


def at_neighbours(e: object) -> np.ndarray:
    """The values at the neighbours of each vertex; zero where there is none."""
    return np.where(PRESENT.reshape(*PRESENT.shape, *(1,) * (e.ndarray.ndim - 1)), e.asnumpy()[V2E_TABLE], 0)


def vertices(dtype: object = np.float64) -> object:
    return field({Vertex: 4}, dtype)


def edges(dtype: object = np.float64) -> object:
    return field({Edge: 5}, dtype)


@gtx.field_operator
def whole_sum(e: EI) -> VI:
    return neighbor_sum(e(V2E), axis=V2EDim)


@gtx.field_operator
def of_expressions(e: E) -> V:
    pair = e(V2E), e(V2E) * 2.0
    return 3.0 * neighbor_sum(-e(V2E) * pair[1] * 2.0, axis=V2EDim)


@gtx.field_operator
def masked(p: VB, a: E, b: E) -> V:
    return neighbor_sum(where(p, a(V2E), b(V2E)) + where(p, a(V2E), 1.0), axis=V2EDim)


@gtx.field_operator
def masked_tuples(p: VB, a: E, b: E) -> V:
    return neighbor_sum(where(p, (a(V2E), b(V2E)), (b(V2E), a(V2E)))[1], axis=V2EDim)


class Around(NamedTuple):
    near: S
    here: V


@gtx.field_operator
def of_collections(p: VB, a: E, b: E, c: V, d: V) -> tuple[V, V]:
    chosen = where(p, Around(near=a(V2E), here=c), Around(near=b(V2E), here=d))
    return neighbor_sum(chosen.near, axis=V2EDim), chosen.here


def test_collections_of_neighbours_and_points() -> None:
    p, a, b, c, d = vertices(bool), edges(), edges(), vertices(), vertices()
    found = ours(of_collections, p, a, b, c, d, out=(vertices(), vertices()), provider=PROVIDER)[-2:]
    q = p.asnumpy()
    np.testing.assert_allclose(found[0], np.where(q[:, None], at_neighbours(a), at_neighbours(b)).sum(1), rtol=1e-14)
    np.testing.assert_array_equal(found[1], np.where(q, c.asnumpy(), d.asnumpy()))


@gtx.field_operator
def of_a_choice(a: E, b: E, up: gtx.bool) -> V:
    return neighbor_sum(b(V2E) if up else a(V2E), axis=V2EDim)


@pytest.mark.parametrize("up", [True, False])
def test_neighbours_chosen_by_a_scalar(up: bool) -> None:
    a, b = edges(), edges()
    both(of_a_choice, a, b, up, out=vertices(), provider=PROVIDER)


@gtx.field_operator
def three_deep(v: V) -> C:
    e = neighbor_sum(v(E2V), axis=E2VDim)
    w = max_over(e(V2E), axis=V2EDim)
    again = min_over(w(E2V), axis=E2VDim)
    return neighbor_sum(again(C2E) * e(C2E), axis=C2EDim)


@gtx.field_operator
def sparse_and_numbers(e: E, s: S, x: gtx.float64) -> tuple[V, V]:
    return neighbor_sum(s * x * e(V2E), axis=V2EDim), max_over(s - x + 0.0 * e(V2E), axis=V2EDim)


@gtx.field_operator
def sparse_slot(s: S) -> tuple[V, V]:
    return s[V2EDim(0)], s[V2EDim(1)]


def test_a_slot_of_a_sparse_field() -> None:
    s = field({Vertex: 4, V2EDim: 3})
    found = ours(sparse_slot, s, out=(vertices(), vertices()), provider=PROVIDER)[-2:]
    np.testing.assert_array_equal(found, [s.asnumpy()[:, 0], s.asnumpy()[:, 1]])


@gtx.field_operator
def sparse_of_neighbours(s: SE) -> V:
    at_edges = neighbor_sum(s, axis=E2VDim)
    return neighbor_sum(at_edges(V2E), axis=V2EDim)


def test_sparse_fields_reduced_at_neighbours() -> None:
    s = field({Edge: 5, E2VDim: 2})
    found = ours(sparse_of_neighbours, s, out=vertices(), provider=PROVIDER)[-1]
    np.testing.assert_allclose(found, (s.asnumpy().sum(1)[V2E_TABLE] * PRESENT).sum(1), rtol=1e-14)


@gtx.field_operator
def with_levels(e: EK, v: VK, w: V, z: gtx.Field[[K], gtx.float64]) -> VK:
    return neighbor_sum(e(V2E) * v + w * z, axis=V2EDim)(K + 1) - v


def test_levels_points_and_columns_meet_in_a_sum() -> None:
    e, v, w, z = field({Edge: 5, K: 4}), field({Vertex: 4, K: 4}), vertices(), field({K: 4})
    both(with_levels, e, v, w, z, out=field({Vertex: 4, K: 3}), provider=PROVIDER)


@gtx.field_operator
def shifted_levels(e: EK) -> VK:
    return neighbor_sum(e(K + 1)(V2E) - e(V2E), axis=V2EDim)


@gtx.field_operator
def counted(e: EB) -> VI:
    return neighbor_sum(where(e(V2E), 1, 0), axis=V2EDim)


@gtx.field_operator
def averaged(e: E, n: VI) -> V:
    return neighbor_sum(e(V2E), axis=V2EDim) / astype(n, gtx.float64)


@gtx.field_operator
def inner(a: E, v: V) -> V:
    return neighbor_sum(a(V2E) * v, axis=V2EDim)


@gtx.field_operator
def outer(a: E, v: V) -> tuple[E, V]:
    once = inner(a, v)
    edge = once(E2V[0]) - once(E2V[1])
    return edge, inner(edge, once)


@gtx.field_operator
def bounded(e: EK, v: VK) -> VK:
    return concat_where(K < 2, neighbor_sum(e(V2E), axis=V2EDim), v)


def test_a_sum_on_part_of_the_levels() -> None:
    e, v = field({Edge: 5, K: 2}), field({Vertex: 4, K: (2, 5)})
    found = ours(bounded, e, v, out=field({Vertex: 4, K: 5}), provider=PROVIDER)[-1]
    np.testing.assert_allclose(found, np.concatenate([at_neighbours(e).sum(1), v.asnumpy()], 1), rtol=1e-14)


@gtx.field_operator
def on_edges_from_k(z: gtx.Field[[K], gtx.float64]) -> VK:
    wide = broadcast(z, (Edge, K))
    return neighbor_sum(wide(V2E), axis=V2EDim)


def test_neighbours_of_a_column_that_all_edges_share() -> None:
    z = field({K: 3})
    found = ours(on_edges_from_k, z, out=field({Vertex: 4, K: 3}), provider=PROVIDER)[-1]
    np.testing.assert_allclose(found, PRESENT.sum(1)[:, None] * z.asnumpy(), rtol=1e-14)


V2V = gtx.FieldOffset("V2V", source=Vertex, target=(Vertex, gtx.Dimension("V2V", kind=gtx.DimensionKind.LOCAL)))
V2VDim = V2V.target[1]
V2V_TABLE = np.array([[1, 2, 3], [0, 3, -1], [0, 3, -1], [0, 1, 2]], np.int32)
RING = {**PROVIDER, "V2V": gtx.as_connectivity([Vertex, V2VDim], Vertex, V2V_TABLE, skip_value=-1)}


@gtx.field_operator
def smoothed(v: V) -> V:
    once = v + 0.5 * neighbor_sum(v(V2V) - v, axis=V2VDim)
    return once + 0.5 * neighbor_sum(once(V2V) - once, axis=V2VDim)


def test_a_table_from_vertices_to_vertices() -> None:
    v = vertices()
    both(smoothed, v, out=vertices(), provider=RING)
    expected = v.asnumpy()
    for _ in range(2):
        expected = expected + 0.5 * ((expected[V2V_TABLE] - expected[:, None]) * (V2V_TABLE >= 0)).sum(1)


@gtx.field_operator
def two_tables(e: E, v: V) -> V:
    return neighbor_sum(e(V2E), axis=V2EDim) * max_over(v(V2V), axis=V2VDim)


def test_two_tables_of_one_dim() -> None:
    e, v = edges(), vertices()
    both(two_tables, e, v, out=vertices(), provider=RING)


@gtx.field_operator
def boundary(v: V, e: E) -> E:
    return concat_where(Edge < 2, e, v(E2V[0]) + v(E2V[1]))


@gtx.field_operator
def sum_of_tuple_members(a: tuple[E, tuple[E, V]]) -> V:
    return neighbor_sum(a[0](V2E) * a[1][0](V2E) + a[1][1], axis=V2EDim)


def test_members_of_a_tuple_have_neighbours() -> None:
    a, b, v = edges(), edges(), vertices()
    found = ours(sum_of_tuple_members, (a, (b, v)), out=vertices(), provider=PROVIDER)[-1]
    np.testing.assert_allclose(
        found, (at_neighbours(a) * at_neighbours(b) + v.asnumpy()[:, None] * PRESENT).sum(1), rtol=1e-14
    )


def test_a_sparse_field_that_is_part_of_a_wider_array() -> None:
    e, wide = edges(), np.random.default_rng(2).random((4, 8))
    s = gtx.as_field(gtx.domain({Vertex: 4, V2EDim: 3}), np.zeros((4, 3)))
    part = type(s).from_array(wide[:, :3], domain=s.domain)
    out = vertices()
    sparse_and_numbers.with_backend(xla_cpu)(e, part, 1.0, out=(out, vertices()), offset_provider=PROVIDER)
    np.testing.assert_allclose(out.asnumpy(), (wide[:, :3] * at_neighbours(e)).sum(1), rtol=1e-14)


CASES = [
    (whole_sum, (edges(np.int32),), vertices(np.int32)),
    (of_expressions, (edges(),), vertices()),
    (masked, (vertices(bool), edges(), edges()), vertices()),
    (masked_tuples, (vertices(bool), edges(), edges()), vertices()),
    (three_deep, (vertices(),), field({Cell: 2})),
    (sparse_and_numbers, (edges(), field({Vertex: 4, V2EDim: 3}), 1.5), (vertices(), vertices())),
    (shifted_levels, (field({Edge: 5, K: 4}),), field({Vertex: 4, K: 3})),
    (counted, (edges(bool),), vertices(np.int32)),
    (averaged, (edges(), field({Vertex: 4}, data=PRESENT.sum(1).astype(np.int32))), vertices()),
    (outer, (edges(), vertices()), (edges(), vertices())),
    (boundary, (vertices(), edges()), edges()),
]  # fmt: skip
"""Operators with arguments and outputs, which GT4Py's embedded mode fills as this project's backend does."""


@pytest.mark.parametrize(("operator", "arguments", "out"), CASES)
def test_reductions_of_neighbours_are_those_of_the_embedded_mode(
    operator: object, arguments: tuple[object, ...], out: object
) -> None:
    both(operator, *arguments, out=out, provider=PROVIDER)
