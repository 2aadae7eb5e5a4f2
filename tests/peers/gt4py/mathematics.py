"""An operator per function: what GT4Py reads the source of must be a source."""

from __future__ import annotations

from tests.peers.gt4py.sides import I, gtx

# isort: split
from gt4py.next import (
    abs,
    arcsinh,
    arctan,
    cbrt,
    ceil,
    cos,
    cosh,
    exp,
    floor,
    gamma,
    log,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)

F = gtx.Field[[I], gtx.float64]


@gtx.field_operator
def apply_sin(x: F) -> F:
    return sin(x)


@gtx.field_operator
def apply_cos(x: F) -> F:
    return cos(x)


@gtx.field_operator
def apply_tan(x: F) -> F:
    return tan(x)


@gtx.field_operator
def apply_arctan(x: F) -> F:
    return arctan(x)


@gtx.field_operator
def apply_sinh(x: F) -> F:
    return sinh(x)


@gtx.field_operator
def apply_cosh(x: F) -> F:
    return cosh(x)


@gtx.field_operator
def apply_tanh(x: F) -> F:
    return tanh(x)


@gtx.field_operator
def apply_arcsinh(x: F) -> F:
    return arcsinh(x)


@gtx.field_operator
def apply_sqrt(x: F) -> F:
    return sqrt(x)


@gtx.field_operator
def apply_exp(x: F) -> F:
    return exp(x)


@gtx.field_operator
def apply_log(x: F) -> F:
    return log(x)


@gtx.field_operator
def apply_cbrt(x: F) -> F:
    return cbrt(x)


@gtx.field_operator
def apply_floor(x: F) -> F:
    return floor(x)


@gtx.field_operator
def apply_ceil(x: F) -> F:
    return ceil(x)


@gtx.field_operator
def apply_trunc(x: F) -> F:
    return trunc(x)


@gtx.field_operator
def apply_gamma(x: F) -> F:
    return gamma(x)


@gtx.field_operator
def apply_abs(x: F) -> F:
    return abs(x)


OPERATORS = {
    "sin": apply_sin,
    "cos": apply_cos,
    "tan": apply_tan,
    "arctan": apply_arctan,
    "sinh": apply_sinh,
    "cosh": apply_cosh,
    "tanh": apply_tanh,
    "arcsinh": apply_arcsinh,
    "sqrt": apply_sqrt,
    "exp": apply_exp,
    "log": apply_log,
    "cbrt": apply_cbrt,
    "floor": apply_floor,
    "ceil": apply_ceil,
    "trunc": apply_trunc,
    "gamma": apply_gamma,
    "abs": apply_abs,
}
