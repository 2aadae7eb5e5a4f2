"""GT4Py's arithmetic: whole numbers of all widths, truth values, casts, constants, branches on scalars."""

from __future__ import annotations

from itertools import product

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


@gtx.field_operator
def divided_long(a: L, b: L) -> tuple[L, L, L]:
    return a // b, a % b, a * b - a


@gtx.field_operator
def remainders(a: F, b: F) -> tuple[F, F, F]:
    return a // b, -a // b, fmod(a, b)


@gtx.field_operator
def powers_of(a: F, n: N, x: F) -> tuple[F, F, N, F, N]:
    return power(a, x), a**x, n**2, a**3, power(n, 3)


@gtx.field_operator
def extremes(a: F, b: F, m: N, n: N) -> tuple[F, F, N, N, F]:
    return minimum(a, b), maximum(a, b), minimum(m, n), maximum(m, 3), maximum(minimum(a, 1.0), 0.75)


@gtx.field_operator
def signs(a: F, n: N) -> tuple[F, F, N, N, N]:
    return -a, abs(-a), -n, abs(n), +n


@gtx.field_operator
def predicates(a: F) -> tuple[B, B, B, F]:
    return isnan(a), isinf(a), isfinite(a), where(isnan(a), 0.0, a)


@gtx.field_operator
def logic(p: B, q: B) -> tuple[B, B, B, B, B]:
    return p & q, p | q, p ^ q, ~p, ~(p ^ q) & (p | ~q)


@gtx.field_operator
def compared(a: N, b: N) -> tuple[B, B, B, B, B, B]:
    return a < b, a <= b, a > b, a >= b, a == b, a != b


@gtx.field_operator
def converted(a: F, n: N) -> tuple[L, N, B, F32, F, B]:
    return astype(a, int64), astype(a, int32), astype(a, bool), astype(a, float32), astype(n, float64), astype(n, bool)


@gtx.field_operator
def pair(a: F) -> tuple[F, F]:
    return a, a * 2.0


@gtx.field_operator
def converted_tuple(a: F) -> tuple[N, N, N]:
    result = astype((a, pair(a)), int32)
    return result[0], result[1][0], result[1][1]


@gtx.field_operator
def scalar_cast(x: gtx.float64, n: gtx.int32) -> tuple[B, F32]:
    return broadcast(astype(x, bool), (I,)), broadcast(astype(n, float32) + float32(0.5), (I,))


SMALL = gtx.Field[[I], gtx.int8], gtx.Field[[I], gtx.uint8], gtx.Field[[I], gtx.int16], gtx.Field[[I], gtx.uint32]
I8, U8, I16, U32 = SMALL


@gtx.field_operator
def narrow(a: I8, b: U8, c: I16, d: U32) -> tuple[I8, U8, I16, U32]:
    return a + a, b + b, c * c, d * d


constants = FrozenNamespace(PI=np.float64(3.142), HALF=np.float32(0.5), COUNT=np.int32(3), OUTSIDE=2.5, N4=4)


@gtx.field_operator
def with_constants(a: F, b: F32, n: N) -> tuple[F, F32, N]:
    return constants.PI * a + constants.OUTSIDE, constants.HALF * b, n * constants.COUNT - constants.N4


@gtx.field_operator
def literals(a: F) -> F:
    numbers = 1.5, float64(5.0), float64("3.25"), float(2)
    return (a * numbers[0] + a * numbers[1]) * numbers[2] - numbers[3]


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


@gtx.field_operator
def ternaries(a: N, b: N, left: gtx.int32, right: gtx.int32) -> tuple[N, N]:
    return (a, b + 1) if left < right else ((b, a) if left == right else (b + 7, a + 7))


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


X = np.array([0.5, 1.5, 2.0, 7.25])
SIGNED = np.array([7.5, -7.5, 7.5, -7.5, 1e3])
FRACTIONS = np.array([-2.7, -0.5, 0.0, 0.5, 2.7])
FEW = np.array([-3, 0, 9, 2], np.int32)
P, Q = np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)
NARROW = tuple(np.array([100, 3, 122]).astype(kind) for kind in "bBhI")

CASES = [
    (divided, (A, D), "ii"),
    (divided_long, (A.astype(np.int64) * 2**20, D.astype(np.int64)), "lll"),
    (remainders, (SIGNED, np.array([2.0, 2.0, -2.0, -2.0, 0.3])), "ddd"),
    (powers_of, (X, FEW, np.array([0.5, -1.5, 3.0, 0.0])), "ddidi"),
    (extremes, (SIGNED, SIGNED[::-1].copy(), A[:5], D[:5]), "ddiid"),
    (signs, (X, FEW), "ddiii"),
    (predicates, (np.array([1.0, np.nan, np.inf, -np.inf]),), "???d"),
    (logic, (P, Q), "?????"),
    (compared, (A, A[::-1].copy()), "??????"),
    (converted, (FRACTIONS, np.arange(-2, 3, dtype=np.int32)), "li?fd?"),
    (converted_tuple, (FRACTIONS,), "iii"),
    *[(scalar_cast, (x, np.int32(3)), "?f") for x in (0.0, 2.0)],
    (narrow, NARROW, "bBhI"),
    (with_constants, (X, X.astype(np.float32), FEW), "dfi"),
    (literals, (X,), "d"),
    *[(branched, (A, D, *flags), "i") for flags in product([True, False], repeat=3)],
    *[(ternaries, (A, D, np.int32(left), np.int32(2)), "ii") for left in (1, 2, 3)],
    (starred, (X,), "dddd"),
]
"""Operators with arguments, and the element types of their outputs."""


@pytest.mark.parametrize(("operator", "arguments", "kinds"), CASES)
def test_an_operator_gives_what_the_embedded_mode_does(
    operator: object, arguments: tuple[np.ndarray | float, ...], kinds: str
) -> None:
    extent = max(np.size(x) for x in arguments)
    out = tuple(whole(np.zeros(extent, kind)) for kind in kinds)
    both(operator, *(whole(x) if np.ndim(x) else x for x in arguments), out=out if len(out) > 1 else out[0])
