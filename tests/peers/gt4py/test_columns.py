"""GT4Py's programs on columns: scans in both directions, concat_where in all relations, vertical shifts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.peers.gt4py.sides import I, J, K, both, field, gtx, ours

from gt4py.next import where  # isort: skip
from gt4py.next.experimental import concat_where  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

KField = gtx.Field[[K], gtx.float64]
IKField = gtx.Field[[I, K], gtx.float64]
IField = gtx.Field[[I], gtx.float64]
IJKField = gtx.Field[[I, J, K], gtx.float64]


def columns(levels: object = 6, **options: object) -> object:
    return field({I: 4, K: levels}, **options)


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def running_sum(state: float, x: float) -> float:
    return state + x


@gtx.scan_operator(axis=K, forward=False, init=1.0)
def backward_product(state: float, x: float) -> float:
    return state * x


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0))
def thomas_forward(state: tuple[float, float], a: float, b: float, c: float, d: float) -> tuple[float, float]:
    return c / (b - a * state[0]), (d - a * state[1]) / (b - a * state[0])


@gtx.scan_operator(axis=K, forward=False, init=0.0)
def thomas_backward(x: float, cp: float, dp: float) -> float:
    return dp - cp * x


@gtx.field_operator
def solved(a: IKField, b: IKField, c: IKField, d: IKField) -> IKField:
    cp, dp = thomas_forward(a, b, c, d)
    return thomas_backward(cp, dp)


def test_a_tridiagonal_system_is_solved() -> None:
    a, c, d = columns(), columns(), columns()
    b = columns(data=5.0 + np.zeros((4, 6)))
    both(solved, a, b, c, d, out=columns())
    matrices = np.zeros((4, 6, 6))
    k = np.arange(6)
    matrices[:, k, k] = 5.0
    matrices[:, k[1:], k[:-1]], matrices[:, k[:-1], k[1:]] = a.asnumpy()[:, 1:], c.asnumpy()[:, :-1]


@gtx.scan_operator(axis=K, forward=True, init=(1, (2.0, True)))
def nested_state(state: tuple[gtx.int32, tuple[float, bool]], x: float) -> tuple[gtx.int32, tuple[float, bool]]:
    flag = state[1][1]
    return state[0] + 1, (state[1][0] + x if flag else state[1][0] * 0.5, state[1][0] < 5.0)


@gtx.field_operator
def added(state: float, x: float) -> float:
    return state + 2.0 * x


@gtx.scan_operator(axis=K, forward=True, init=0.5)
def with_inner(state: float, x: tuple[float, float], y: float) -> float:
    inner = added(state, x[0] * x[1])
    return inner if inner < 30.0 else y


@gtx.field_operator
def scanned_and_shifted(x: IKField, y: IField) -> IKField:
    total = running_sum(x(K + 1) * y)
    return total(K - 1) + x


def test_a_scan_of_shifted_levels_is_shifted() -> None:
    found = ours(scanned_and_shifted, columns(9), field({I: 4}), out=columns((1, 7)))[-1]
    assert found.shape == (4, 6)


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def counted(state: float) -> float:
    return state + 1.0


def test_a_scan_without_arguments() -> None:
    np.testing.assert_array_equal(ours(counted, out=field({K: 5}))[-1], np.arange(1.0, 6.0))


@gtx.program
def heights(x: IKField, low: IKField, high: IKField, n: gtx.int32):
    running_sum(x, out=low, domain={I: (0, 4), K: (0, n)})
    backward_product(x, out=high, domain={I: (1, 3), K: (n, 6)})


def test_scans_on_parts_of_columns_of_different_heights() -> None:
    x, low, high = columns(), columns(), columns()
    both(heights, x, low, high, np.int32(4))


# concat_where in all relations


@gtx.field_operator
def below(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n > K, a, b)


@gtx.field_operator
def up_to(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n >= K, a, b)


@gtx.field_operator
def above(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n < K, a, b)


@gtx.field_operator
def from_on(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n <= K, a, b)


@gtx.field_operator
def at(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n == K, a, b)


@gtx.field_operator
def elsewhere(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where(n != K, a, b)


@gtx.field_operator
def between(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where((K > 1) & (n > K), a, b)


@gtx.field_operator
def outside(a: KField, b: KField, n: gtx.int32) -> KField:
    return concat_where((K < 2) | (n <= K), a, b)


RELATIONS = [
    (below, lambda k, n: k < n),
    (up_to, lambda k, n: k <= n),
    (above, lambda k, n: k > n),
    (from_on, lambda k, n: k >= n),
    (at, lambda k, n: k == n),
    (elsewhere, lambda k, n: k != n),
    (between, lambda k, n: (k > 1) & (k < n)),
    (outside, lambda k, n: (k < 2) | (k >= n)),
]


@pytest.mark.parametrize("n", [0, 3, 5, 8])
@pytest.mark.parametrize(("operator", "relation"), RELATIONS, ids=[f.__name__ for f, _ in RELATIONS])
def test_concat_where_chooses_by_the_level(operator: object, relation: object, n: int) -> None:
    a, b, k = field({K: 6}), field({K: 6}), np.arange(6)
    found = ours(operator, a, b, np.int32(n), out=field({K: 6}))[-1]
    np.testing.assert_array_equal(found, np.where(relation(k, n), a.asnumpy(), b.asnumpy()))


@gtx.field_operator
def with_ground(ground: IField, air: IKField, top: gtx.float64) -> IKField:
    return concat_where(K == 0, ground, concat_where(K > 4, top, air(K + 1) - air(K - 1)))


def test_fields_without_levels_and_numbers_fill_their_parts() -> None:
    ground, air = field({I: 4}), columns()
    found = ours(with_ground, ground, air, 3.0, out=columns())[-1]
    np.testing.assert_array_equal(found[:, 0], ground.asnumpy())
    np.testing.assert_array_equal(found[:, 1:5], air.asnumpy()[:, 2:] - air.asnumpy()[:, :-2])
    np.testing.assert_array_equal(found[:, 5], 3.0)


@gtx.field_operator
def framed(x: gtx.Field[[I, J], gtx.float64], edge: gtx.float64, n: gtx.int32) -> gtx.Field[[I, J], gtx.float64]:
    return concat_where((I == 0) | (n - 1 == I), edge, concat_where((J == 0) | (n - 1 == J), edge, x))


def test_a_frame_of_one_point() -> None:
    x = field({I: (1, 4), J: (1, 4)})
    found = ours(framed, x, -1.0, np.int32(5), out=field({I: 5, J: 5}))[-1]
    np.testing.assert_array_equal(found, np.pad(x.asnumpy(), 1, constant_values=-1.0))


@gtx.field_operator
def pairs(a: KField, b: KField) -> tuple[KField, KField]:
    return concat_where(K < 2, (a, b), (b, a))


@gtx.field_operator
def scan_on_part(x: IKField) -> IKField:
    return concat_where(K < 2, 0.0, running_sum(x))


def test_a_scan_starts_where_it_is_needed() -> None:
    x = columns()
    found = ours(scan_on_part, x, out=columns())[-1]
    np.testing.assert_allclose(found[:, 2:], np.cumsum(x.asnumpy()[:, 2:], 1), rtol=1e-14)


@gtx.field_operator
def advected(phi: IJKField, w: IJKField, dt: gtx.float64) -> IJKField:
    up = concat_where(K < 4, phi(K + 1), phi)
    down = concat_where(K > 0, phi(K - 1), phi)
    return phi - dt * where(w > 0.0, w * (phi - down), w * (up - phi))


@gtx.field_operator
def precipitation(q: float, flux: float) -> tuple[float, float]:
    kept = q - 0.1 * q * q if q > 1.0 else q
    return kept, flux + (q - kept)


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0, True))
def falling(state: tuple[float, float, bool], q: float) -> tuple[float, float, bool]:
    kept, flux = precipitation(q + 0.5 * state[1], state[1])
    return (kept, flux, False) if state[2] else (kept + state[0] * 0.0, flux, state[2])


@gtx.field_operator
def rained(q: IKField) -> tuple[IKField, IKField]:
    result = falling(q)
    return result[0], result[1]


CASES = [
    (running_sum, (columns(),), columns()),
    (backward_product, (columns(),), columns()),
    (nested_state, (columns(),), (field({I: 4, K: 6}, np.int32), (columns(), field({I: 4, K: 6}, bool)))),
    (with_inner, ((columns(), columns()), 1.5), columns()),
    (pairs, (field({K: 6}), field({K: 6})), (field({K: 6}), field({K: 6}))),
    (advected, (field({I: 3, J: 2, K: 5}), field({I: 3, J: 2, K: 5}), 0.1), field({I: 3, J: 2, K: 5})),
    (rained, (columns(),), (columns(), columns())),
]  # fmt: skip
"""Operators with arguments and outputs, which GT4Py's embedded mode fills as this project's backend does."""


@pytest.mark.parametrize(("operator", "arguments", "out"), CASES)
def test_scans_of_columns_are_those_of_the_embedded_mode(
    operator: object, arguments: tuple[object, ...], out: object
) -> None:
    both(operator, *arguments, out=out)
