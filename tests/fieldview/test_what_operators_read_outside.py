"""Cells of a notebook that are run again: an operator has the numbers and the functions of when it is called."""

import math
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tensorir as ti

(I,) = ti.dims("I")
X = ti.as_field({I: (0, 3)}, np.array([1.0, 2.0, 4.0]))
FIRST = """
step = 0.5

def scaled(x):
    return step * x

@ti.field_operator
def inner(x):
    return scaled(x) + 1.0

@ti.field_operator
def outer(x):
    return 10.0 * inner(x)

@ti.program
def write(x: ti.Field[[I], ti.float64], out: ti.Field[[I], ti.float64]):
    outer(x, out=out)
"""
AGAIN = {
    "a number": ("step = 2.0", 10 * (2.0 * X.data + 1)),
    "a function": ("def scaled(x):\n    return -x", 10 * (-X.data + 1)),
    "an operator": ("@ti.field_operator\ndef inner(x):\n    return x - 3.0", 10 * (X.data - 3)),
}


@pytest.mark.parametrize(("cell", "expected"), AGAIN.values(), ids=AGAIN)
def test_what_a_cell_changes_is_seen_by_operators_of_another(cell, expected):
    scope = {"ti": ti, "I": I}
    exec(FIRST, scope)
    before = 10 * (0.5 * X.data + 1)
    np.testing.assert_array_equal(scope["outer"](X).data, before)
    np.testing.assert_array_equal(scope["write"](X.data, np.zeros(3))["out"], before)
    exec(cell, scope)
    np.testing.assert_array_equal(scope["outer"](X).data, expected)
    np.testing.assert_array_equal(scope["write"](X.data, np.zeros(3))["out"], expected)


def test_a_variable_of_the_function_around_an_operator_may_change():
    factor = 2.0

    @ti.field_operator
    def scaled(x):
        return factor * x

    np.testing.assert_array_equal(scaled(X).data, 2 * X.data)
    factor = 3.0
    np.testing.assert_array_equal(scaled(X).data, 3 * X.data)


class Settings:
    rate = 2.0


def test_a_number_of_an_object_or_of_a_module_may_change(monkeypatch):
    settings = SimpleNamespace(offset=1.0)
    constants = ModuleType("constants")
    monkeypatch.setattr(constants, "scale", 1.0, raising=False)

    @ti.field_operator
    def f(x):
        return constants.scale * (Settings.rate * x + settings.offset)

    np.testing.assert_array_equal(f(X).data, 2 * X.data + 1)
    settings.offset = 5.0
    np.testing.assert_array_equal(f(X).data, 2 * X.data + 5)
    monkeypatch.setattr(Settings, "rate", 3.0)
    np.testing.assert_array_equal(f(X).data, 3 * X.data + 5)
    monkeypatch.setattr(constants, "scale", 10.0)
    np.testing.assert_array_equal(f(X).data, 10 * (3 * X.data + 5))


LIMITS = (math.nan, 1, "text", None)


def test_what_stays_as_it_is_is_traced_once():
    @ti.field_operator
    def limited(x):
        return ti.where(x > LIMITS[1], x, LIMITS[0])

    for _ in range(2):
        limited(X)
    assert len(limited.plans) == 1
