"""GT4Py's programs on structured grids: shifts, arithmetic, tuples, domains, several statements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.peers.gt4py.mathematics import OPERATORS
from tests.peers.gt4py.sides import I, J, K, both, field, gtx, ours

from gt4py.next import broadcast, where  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

IField = gtx.Field[[I], gtx.float64]
IJField = gtx.Field[[I, J], gtx.float64]
IJKField = gtx.Field[[I, J, K], gtx.float64]


@gtx.field_operator
def laplacian(a: IJKField) -> IJKField:
    return 4.0 * a - (a(I + 1) + a(I - 1) + a(J + 1) + a(J - 1))


@gtx.field_operator
def horizontal_diffusion(a: IJKField, coefficient: IJKField) -> IJKField:
    lap = laplacian(a)
    flux_i = lap(I + 1) - lap
    flux_i = where(flux_i * (a(I + 1) - a) > 0.0, 0.0, flux_i)
    flux_j = lap(J + 1) - lap
    flux_j = where(flux_j * (a(J + 1) - a) > 0.0, 0.0, flux_j)
    return a - coefficient * (flux_i - flux_i(I - 1) + flux_j - flux_j(J - 1))


def test_horizontal_diffusion_is_the_embedded_one() -> None:
    a = field({I: (-2, 10), J: (-2, 9), K: 4})
    c, out = field({I: 8, J: 7, K: 4}), field({I: 8, J: 7, K: 4})
    both(horizontal_diffusion, a, c, out=out)


@gtx.field_operator
def ahead(a: IField) -> IField:
    return a(I + 2) - a


def test_a_domain_stores_nothing_outside_of_it() -> None:
    a, out = field({I: 8}, data=np.arange(8.0)), field({I: 8}, data=np.full(8, -1.0))
    both(ahead, a, out=out, domain={I: (2, 5)})


@gtx.field_operator
def doubled(a: IField) -> IField:
    return a + a


@gtx.program
def on_a_range(a: IField, out: IField, start: gtx.int32, stop: gtx.int32):
    doubled(a, out=out, domain={I: (start + 1, stop)})


@pytest.mark.parametrize(("start", "stop"), [(0, 8), (2, 5), (4, 5), (3, 4)])
def test_scalars_tell_the_domain(start: int, stop: int) -> None:
    a, out = field({I: 8}), field({I: 8})
    both(on_a_range, a, out, np.int32(start), np.int32(stop))


def test_an_empty_domain_stores_nothing() -> None:
    a, out = field({I: 8}), field({I: 8})
    np.testing.assert_array_equal(ours(on_a_range, a, out, np.int32(4), np.int32(5))[1], out.asnumpy())


@gtx.program
def two_statements(a: IField, b: IField, out: IField):
    doubled(a, out=b)
    ahead(b, out=out, domain={I: (0, 6)})


def test_a_statement_reads_what_one_before_it_stored() -> None:
    a = field({I: 8}, data=np.arange(8.0))
    both(two_statements, a, field({I: 8}), field({I: 8}))


@gtx.program
def in_place(a: IField):
    doubled(a, out=a)


def test_a_field_may_be_read_and_stored() -> None:
    both(in_place, field({I: 4}, data=np.arange(4.0)))


@gtx.field_operator
def swapped(a: IField, b: IField) -> tuple[IField, IField]:
    return b, a


@gtx.program
def swap(a: IField, b: IField):
    swapped(a, b, out=(a, b))


def test_members_of_a_tuple_are_stored_at_once() -> None:
    a, b = field({I: 4}), field({I: 4})
    found = ours(swap, a, b)  # the embedded mode stores one after the other
    np.testing.assert_array_equal(found, [b.asnumpy(), a.asnumpy()])


@gtx.field_operator
def nested(
    a: IField, b: tuple[IField, tuple[IField, gtx.float64]]
) -> tuple[IField, tuple[IField, tuple[IField, IField]]]:
    c = b[1]
    return a + b[0], (c[0] * c[1], (a, where(a > b[0], a, c[0])))


def test_tuples_nested_three_deep_go_in_and_out() -> None:
    f = [field({I: 5}) for _ in range(7)]
    both(nested, f[0], (f[1], (f[2], 2.5)), out=(f[3], (f[4], (f[5], f[6]))))


@gtx.field_operator
def outer(a: IField, b: gtx.Field[[J], gtx.float64]) -> IJField:
    return broadcast(a, (I, J)) * broadcast(b, (I, J)) + 1.0


@gtx.field_operator
def constant(x: gtx.float64) -> IJField:
    return broadcast(x, (I, J))


def test_a_scalar_fills_a_field() -> None:
    np.testing.assert_array_equal(both(constant, 2.5, out=field({I: 3, J: 4}))[-1], np.full((3, 4), 2.5))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_is_numpys(name: str) -> None:
    both(OPERATORS[name], field({I: 40}), out=field({I: 40}))


def test_sizes_may_change_from_call_to_call() -> None:
    for n in (4, 9, 4):
        a = field({I: (-1, n)})
        np.testing.assert_array_equal(ours(doubled, a, out=field({I: (-1, n)}))[-1], 2 * a.asnumpy())


CASES = [
    (ahead, (field({I: 8}, data=np.arange(8.0) ** 2),), field({I: 6})),
    (outer, (field({I: 3}), field({J: 4})), field({I: 3, J: 4})),
    (ahead, (field({I: (-5, 20)}),), field({I: (3, 9)})),
    (constant, (1.0,), field({I: 6, J: 5})[2:4, 1:]),
]  # fmt: skip
"""Operators with arguments and outputs, which GT4Py's embedded mode fills as this project's backend does."""


@pytest.mark.parametrize(("operator", "arguments", "out"), CASES)
def test_operators_on_grids_give_what_the_embedded_mode_does(
    operator: object, arguments: tuple[object, ...], out: object
) -> None:
    both(operator, *arguments, out=out)
