"""GT4Py's arithmetic: whole numbers of all widths, truth values, casts, constants, branches on scalars."""

from __future__ import annotations

import numpy as np
import pytest

from tests.peers.gt4py.sides import I, J, both, field, gtx, ours

from gt4py.eve.utils import FrozenNamespace  # isort: skip
from gt4py.next import (  # isort: skip
    abs,
    astype,
    bool,
    broadcast,
    float32,
    float64,
    fmod,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    power,
    where,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

F = gtx.Field[[I], gtx.float64]
F32 = gtx.Field[[I], gtx.float32]
N = gtx.Field[[I], gtx.int32]
L = gtx.Field[[I], gtx.int64]
B = gtx.Field[[I], gtx.bool]
IJ = gtx.Field[[I, J], gtx.float64]

A = np.array([7, -7, 7, -7, 6, 0, 2**31 - 1, -(2**31)], np.int32)
D = np.array([2, 2, -2, -2, 3, 5, 7, 3], np.int32)


def whole(data: np.ndarray) -> object:
    return field({I: len(data)}, data=data)


@gtx.field_operator
def divided(a: N, b: N) -> tuple[N, N]:
    return a // b, a % b


def test_quotients_round_down_and_remainders_have_the_divisors_sign() -> None:
    out = (whole(0 * A), whole(0 * A))
    both(divided, whole(A), whole(D), out=out)


@gtx.field_operator
def divided_long(a: L, b: L) -> tuple[L, L, L]:
    return a // b, a % b, a * b - a


def test_whole_numbers_of_64_bits() -> None:
    a, b = A.astype(np.int64) * 2**20, D.astype(np.int64)
    both(divided_long, whole(a), whole(b), out=(whole(a * 0), whole(a * 0), whole(a * 0)))


@gtx.field_operator
def remainders(a: F, b: F) -> tuple[F, F, F]:
    return a // b, -a // b, fmod(a, b)


def test_remainders_of_floats() -> None:
    a = np.array([7.5, -7.5, 7.5, -7.5, 1e3])
    b = np.array([2.0, 2.0, -2.0, -2.0, 0.3])
    both(remainders, whole(a), whole(b), out=(whole(a), whole(a), whole(a)))


@gtx.field_operator
def powers_of(a: F, n: N, x: F) -> tuple[F, F, N, F, N]:
    return power(a, x), a**x, n**2, a**3, power(n, 3)


def test_powers() -> None:
    a, x = np.array([0.5, 1.5, 2.0]), np.array([0.5, -1.5, 3.0])
    n = np.array([-3, 0, 9], np.int32)
    out = (whole(a), whole(a), whole(n), whole(a), whole(n))
    both(powers_of, whole(a), whole(n), whole(x), out=out)


@gtx.field_operator
def extremes(a: F, b: F, m: N, n: N) -> tuple[F, F, N, N, F]:
    return minimum(a, b), maximum(a, b), minimum(m, n), maximum(m, 3), maximum(minimum(a, 1.0), 0.75)


def test_smaller_and_larger() -> None:
    a, b = field({I: 8}), field({I: 8})
    both(extremes, a, b, whole(A), whole(D), out=(a, b, whole(A), whole(D), a))


@gtx.field_operator
def signs(a: F, n: N) -> tuple[F, F, N, N, N]:
    return -a, abs(-a), -n, abs(n), +n


def test_signs() -> None:
    n = np.array([-3, 0, 9, 2], np.int32)
    both(signs, field({I: 4}), whole(n), out=(field({I: 4}), field({I: 4}), whole(n), whole(n), whole(n)))


@gtx.field_operator
def predicates(a: F) -> tuple[B, B, B, F]:
    return isnan(a), isinf(a), isfinite(a), where(isnan(a), 0.0, a)


def test_numbers_that_are_none() -> None:
    a = np.array([1.0, np.nan, np.inf, -np.inf])
    flags = [whole(np.zeros(4, np.bool_)) for _ in range(3)]
    both(predicates, whole(a), out=(*flags, whole(a)))


@gtx.field_operator
def logic(p: B, q: B) -> tuple[B, B, B, B, B]:
    return p & q, p | q, p ^ q, ~p, ~(p ^ q) & (p | ~q)


def test_truth_values() -> None:
    p, q = np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)
    both(logic, whole(p), whole(q), out=tuple(whole(p) for _ in range(5)))


@gtx.field_operator
def compared(a: N, b: N) -> tuple[B, B, B, B, B, B]:
    return a < b, a <= b, a > b, a >= b, a == b, a != b


def test_comparisons() -> None:
    both(compared, whole(A), whole(A[::-1].copy()), out=tuple(whole(A > 0) for _ in range(6)))


@gtx.field_operator
def converted(a: F, n: N) -> tuple[L, N, B, F32, F, B]:
    return astype(a, int64), astype(a, int32), astype(a, bool), astype(a, float32), astype(n, float64), astype(n, bool)


def test_casts_cut_towards_zero() -> None:
    a, n = np.array([-2.7, -0.5, 0.0, 0.5, 2.7]), np.array([-2, -1, 0, 1, 2], np.int32)
    kinds = (np.int64, np.int32, np.bool_, np.float32, np.float64, np.bool_)
    out = tuple(whole(np.zeros(5, k)) for k in kinds)
    both(converted, whole(a), whole(n), out=out)


@gtx.field_operator
def pair(a: F) -> tuple[F, F]:
    return a, a * 2.0


@gtx.field_operator
def converted_tuple(a: F) -> tuple[N, N, N]:
    result = astype((a, pair(a)), int32)
    return result[0], result[1][0], result[1][1]


def test_a_cast_of_a_tuple_casts_its_members() -> None:
    a = np.array([-2.7, 0.4, 3.6])
    both(converted_tuple, whole(a), out=tuple(whole(np.zeros(3, np.int32)) for _ in range(3)))


@gtx.field_operator
def scalar_cast(x: gtx.float64, n: gtx.int32) -> tuple[B, F32]:
    return broadcast(astype(x, bool), (I,)), broadcast(astype(n, float32) + float32(0.5), (I,))


@pytest.mark.parametrize("x", [0.0, 2.0])
def test_casts_of_scalars(x: float) -> None:
    out = (whole(np.zeros(3, np.bool_)), whole(np.zeros(3, np.float32)))
    both(scalar_cast, x, np.int32(3), out=out)


SMALL = gtx.Field[[I], gtx.int8], gtx.Field[[I], gtx.uint8], gtx.Field[[I], gtx.int16], gtx.Field[[I], gtx.uint32]
I8, U8, I16, U32 = SMALL


@gtx.field_operator
def narrow(a: I8, b: U8, c: I16, d: U32) -> tuple[I8, U8, I16, U32]:
    return a + a, b + b, c * c, d * d


def test_narrow_whole_numbers_wrap() -> None:
    kinds = (np.int8, np.uint8, np.int16, np.uint32)
    args = [np.array([100, 3, 250 % 128], np.int64).astype(k) for k in kinds]
    both(narrow, *map(whole, args), out=tuple(map(whole, args)))


constants = FrozenNamespace(PI=np.float64(3.142), HALF=np.float32(0.5), COUNT=np.int32(3), OUTSIDE=2.5, N4=4)


@gtx.field_operator
def with_constants(a: F, b: F32, n: N) -> tuple[F, F32, N]:
    return constants.PI * a + constants.OUTSIDE, constants.HALF * b, n * constants.COUNT - constants.N4


def test_constants_around_an_operator() -> None:
    a, b, n = field({I: 3}), field({I: 3}, np.float32), field({I: 3}, np.int32)
    both(with_constants, a, b, n, out=(a, b, n))


@gtx.field_operator
def literals(a: F) -> F:
    numbers = 1.5, float64(5.0), float64("3.25"), float(2)
    return (a * numbers[0] + a * numbers[1]) * numbers[2] - numbers[3]


def test_numbers_that_are_written() -> None:
    a = field({I: 3})
    both(literals, a, out=a)


@gtx.field_operator
def branched(a: N, b: N, first: gtx.bool, second: gtx.bool, a_is_small: gtx.bool) -> N:
    result = b + 1
    if first:
        inner = a
        if second:
            inner = b
        else:
            if a_is_small:
                return a + 2
        result = inner * 3
    return result


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("third", [True, False])
def test_branches_on_scalars(first: bool, second: bool, third: bool) -> None:
    a, b = np.array([1, 2], np.int32), np.array([5, 6], np.int32)
    both(branched, whole(a), whole(b), first, second, third, out=whole(a))


@gtx.field_operator
def ternaries(a: N, b: N, left: gtx.int32, right: gtx.int32) -> tuple[N, N]:
    return (a, b + 1) if left < right else ((b, a) if left == right else (b + 7, a + 7))


@pytest.mark.parametrize("left", [1, 2, 3])
def test_choices_of_tuples_by_scalars(left: int) -> None:
    a, b = np.array([1, 2], np.int32), np.array([5, 6], np.int32)
    both(ternaries, whole(a), whole(b), np.int32(left), np.int32(2), out=(whole(a), whole(b)))


@gtx.field_operator
def chosen_tuples(p: B, a: F, b: F) -> tuple[tuple[F, F], F]:
    return where(p, ((a, b), 3.0), ((b, 7.0), a))


def test_where_of_nested_tuples() -> None:
    p, a, b = np.array([True, False, True]), np.arange(3.0), np.arange(3.0) + 10
    both(chosen_tuples, whole(p), whole(a), whole(b), out=((whole(a), whole(a)), whole(a)))


@gtx.field_operator
def chosen_by_column(p: B, a: IJ, b: gtx.Field[[J], gtx.float64]) -> IJ:
    return where(p, a, b)


def test_where_widens_all_three() -> None:
    p, a, b = np.array([True, False, True]), np.arange(6.0).reshape(3, 2), np.array([-1.0, -2.0])
    both(chosen_by_column, whole(p), field({I: 3, J: 2}, data=a), field({J: 2}, data=b), out=field({I: 3, J: 2}))


@gtx.field_operator
def starred(a: F) -> tuple[F, F, F, F]:
    first, *rest = (a, a + 1.0, a + 2.0, a + 3.0)
    *front, last = (a * 2.0, a * 3.0, a * 4.0)
    return first, rest[1], front[0], last


def test_tuples_are_taken_apart() -> None:
    a = np.arange(3.0)
    both(starred, whole(a), out=tuple(whole(a) for _ in range(4)))


@gtx.field_operator
def mixed_scalars(a: tuple[gtx.int32, tuple[gtx.int32, N, gtx.int32]]) -> N:
    return a[0] + 2 * a[1][0] + 3 * a[1][1] + 5 * a[1][2]


def test_tuples_of_scalars_and_fields() -> None:
    n = np.arange(4, dtype=np.int32)
    both(mixed_scalars, (np.int32(1), (np.int32(2), whole(n), np.int32(3))), out=whole(n))


@gtx.field_operator
def integer_quotient(a: N, b: N) -> N:
    return a / b


def test_a_quotient_of_whole_numbers_is_cut_as_in_c() -> None:
    # the embedded mode gives floats there, GT4Py's C++ what C++ does
    found = ours(integer_quotient, whole(A), whole(D), out=whole(0 * A))[-1]
    np.testing.assert_array_equal(found, np.trunc(A.astype(float) / D).astype(np.int32))
