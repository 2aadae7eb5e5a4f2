"""Programs of iterator IR that GT4Py traces: positions, lifted stencils, lists, partial shifts, statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.gt4py.sides import E2VDim, Edge, I, K, V2EDim, Vertex, arrays, field, gtx, xla_cpu

from gt4py.next.iterator.builtins import (  # isort: skip
    as_fieldop,
    can_deref,
    cartesian_domain,
    cast_,
    deref,
    eq,
    float32,
    if_,
    lift,
    list_get,
    make_const_list,
    make_tuple,
    map_list,
    multiplies,
    named_range,
    neighbors,
    or_,
    plus,
    reduce,
    scan,
    shift,
    tuple_get,
    unstructured_domain,
)
from gt4py.next.iterator.runtime import fendef, fundef, if_stmt, offset, set_at  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Ioff, Koff, V2E, E2V = offset("Ioff"), offset("Koff"), offset("V2E"), offset("E2V")
V2E_TABLE = np.array([[0, 1, 2], [0, 3, -1], [1, 3, 4], [2, 4, -1]], np.int32)
E2V_TABLE = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]], np.int32)
GRID = {"Ioff": gtx.CartesianConnectivity(I), "Koff": gtx.CartesianConnectivity(K)}
MESH = {
    "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, V2E_TABLE, skip_value=-1),
    "E2V": gtx.as_connectivity([Edge, E2VDim], Vertex, E2V_TABLE),
}


def run(program: Any, *args: Any, provider: Any, column: Any = None) -> None:
    options = {} if column is None else {"column_axis": column}
    program(*args, backend=xla_cpu, offset_provider=provider, **options)


@fundef
def lap(x):
    return deref(shift(Ioff, 1)(x)) + deref(shift(Ioff, -1)(x)) - 2.0 * deref(x)


@fundef
def lap_of_lap(x):
    return lap(lift(lap)(x))


@fendef
def lapping(n, x, out):
    domain = cartesian_domain(named_range(I, 0, n))
    set_at(as_fieldop(lap_of_lap, domain)(x), domain, out)


def test_a_lifted_stencil_is_shifted() -> None:
    x, out = field({I: (-2, 8)}), field({I: 6})
    run(lapping, 6, x, out, provider=GRID)
    twice = np.diff(np.diff(np.diff(np.diff(x.asnumpy()))))
    np.testing.assert_allclose(out.asnumpy(), twice, rtol=1e-12)


@fundef
def previous(k, level):
    return if_(deref(k) > deref(level), deref(shift(Koff, -1)(k)), 0)


@fendef
def guarded(n, k, level, out):
    domain = cartesian_domain(named_range(K, 0, n))
    set_at(as_fieldop(previous, domain)(k, level), domain, out)


def test_a_read_that_a_condition_guards_may_leave_its_field() -> None:
    out = field({K: 5}, np.int32)
    run(guarded, 5, field({K: 5}, data=np.arange(5, dtype=np.int32)), np.int32(0), out, provider=GRID, column=K)
    np.testing.assert_array_equal(out.asnumpy(), [0, 0, 1, 2, 3])


@fundef
def summed(state, x):
    return make_tuple(tuple_get(0, state) + deref(x), tuple_get(0, state) * deref(shift(Koff, 1)(x)))


@fendef
def summing(low, high, x, out):
    domain = cartesian_domain(named_range(K, low, high))
    set_at(tuple_get(1, as_fieldop(scan(summed, True, (0.0, 0.0)), domain)(x)), domain, out)


def test_a_scan_that_shifts_its_argument() -> None:
    x, out = field({K: 8}), field({K: 8}, data=np.zeros(8))
    run(summing, 2, 7, x, out, provider=GRID, column=K)
    before = np.concatenate([[0], np.cumsum(x.asnumpy()[2:6])])
    np.testing.assert_allclose(out.asnumpy(), [0, 0, *(before * x.asnumpy()[3:8]), 0], rtol=1e-14)


@fendef
def choosing(x, out, flag):
    domain = cartesian_domain(named_range(I, 0, 4))

    def one():
        set_at(as_fieldop(lambda a: deref(a) * 2.0, domain)(x), domain, out)

    def other():
        set_at(as_fieldop(lambda a: deref(a) + 1.0, domain)(x), domain, out)

    if_stmt(flag, one, other)


@pytest.mark.parametrize("flag", [True, False])
def test_statements_that_depend_on_a_number(flag: bool) -> None:
    x, out = field({I: 4}), field({I: 4})
    run(choosing, x, out, flag, provider={})
    np.testing.assert_array_equal(out.asnumpy(), x.asnumpy() * 2 if flag else x.asnumpy() + 1)


@fendef
def listed(e, out):
    domain = unstructured_domain(named_range(Vertex, 0, 4))
    set_at(as_fieldop(doubled_neighbours, domain)(e), domain, out)


@fundef
def doubled_neighbours(e):
    found = map_list(multiplies)(neighbors(V2E, e), make_const_list(2.0))
    return reduce(plus, 0.0)(found) + list_get(0, found)


def test_lists_are_mapped_reduced_and_indexed() -> None:
    e, out = field({Edge: 5}), field({Vertex: 4})
    run(listed, e, out, provider=MESH)
    near = 2 * e.asnumpy()[V2E_TABLE]
    np.testing.assert_allclose(out.asnumpy(), (near * (V2E_TABLE >= 0)).sum(1) + near[:, 0], rtol=1e-14)


@fundef
def last_or_minus_one(e):
    shifted = shift(V2E, 2)(lift(lambda a: deref(a) * 3.0)(e))
    return if_(can_deref(shifted), deref(shifted), -1.0)


@fendef
def asked(e, out):
    domain = unstructured_domain(named_range(Vertex, 0, 4))
    set_at(as_fieldop(last_or_minus_one, domain)(e), domain, out)


def test_can_deref_of_a_shifted_lifted_stencil() -> None:
    e, out = field({Edge: 5}), field({Vertex: 4})
    run(asked, e, out, provider=MESH)
    expected = np.where(V2E_TABLE[:, 2] >= 0, 3 * e.asnumpy()[V2E_TABLE[:, 2]], -1.0)
    np.testing.assert_array_equal(out.asnumpy(), expected)


@fundef
def sign_at_edges(number, pole):
    here = deref(number)

    def one(near, flag):
        return if_(or_(deref(flag), eq(here, deref(shift(E2V, 0)(near)))), 1.0, -1.0)

    return reduce(plus, 0.0)(neighbors(V2E, lift(one)(number, pole)))


@fendef
def signs(number, pole, out):
    domain = unstructured_domain(named_range(Vertex, 0, 4))
    set_at(as_fieldop(sign_at_edges, domain)(number, pole), domain, out)


def test_the_sign_field_of_the_finite_volume_gradient() -> None:
    index, out = field({Vertex: 4}, data=np.arange(4, dtype=np.int32)), field({Vertex: 4})
    pole = field({Edge: 5}, data=np.array([False, True, False, False, False]))
    run(signs, index, pole, out, provider=MESH)
    own = E2V_TABLE[V2E_TABLE, 0] == np.arange(4)[:, None]
    sign = np.where(pole.asnumpy()[V2E_TABLE] | own, 1.0, -1.0)
    np.testing.assert_array_equal(out.asnumpy(), (sign * (V2E_TABLE >= 0)).sum(1))


@fundef
def narrowed(x):
    return cast_(deref(x), float32) + cast_(1.0, float32)


@fendef
def narrowing(x, out):
    domain = cartesian_domain(named_range(I, 0, 4))
    set_at(as_fieldop(narrowed, domain)(x), domain, out)


def test_a_cast_rounds_and_storing_widens() -> None:
    x, out = field({I: 4}), field({I: 4})
    run(narrowing, x, out, provider={})
    np.testing.assert_array_equal(out.asnumpy(), (x.asnumpy().astype(np.float32) + np.float32(1)).astype(float))
    assert arrays(out)[0].dtype == np.float64
