"""Angles whose DataArrays say degrees: functions of angles take radians, and refuse them unconverted."""

import math

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.effort import count_calls

LAT = xr.DataArray([0.0, 30.0, 60.0], dims="lat", coords={"lat": [0.0, 30.0, 60.0]}, attrs={"units": "degrees_north"})
RADIANS = np.deg2rad(LAT.values)
(J,) = ti.dims("lat")

CONVERTED = {
    "an angle": (lambda x: ti.cos(ti.radians(x)), np.cos(RADIANS)),
    "twice": (lambda x: ti.sin(2.0 * ti.radians(x)), np.sin(2 * RADIANS)),
    "half": (lambda x: ti.tan(ti.radians(x) / 2.0), np.tan(RADIANS / 2)),
    "a colatitude": (lambda x: ti.sin(ti.radians(90.0 - x)), np.cos(RADIANS)),
    "by hand": (lambda x: ti.sin(x * math.pi / 180.0), np.sin(RADIANS)),
    "half way to the next": (lambda x: ti.cos(ti.radians(0.5 * (x + x))), np.cos(RADIANS)),
    "a choice": (lambda x: ti.sin(ti.radians(ti.where(x > 45.0, x, -x))), np.sin([0.0, -math.pi / 6, math.pi / 3])),
    "no angle": (lambda x: ti.exp(x / 90.0), np.exp(LAT.values / 90)),
    "of a sine": (lambda x: ti.sin(ti.sin(ti.radians(x))), np.sin(np.sin(RADIANS))),
}
DEGREES = {
    "an angle": lambda x: ti.cos(x),
    "its double": lambda x: ti.cos(2.0 * x),
    "a neighbour": lambda x: ti.cos(x(J + 1)),
    "a colatitude": lambda x: ti.cos(90.0 - x),
    "a mean": lambda x: ti.cos(0.5 * (x + x(J + 1))),
    "a choice": lambda x: ti.cos(ti.where(x > 45.0, x, -x)),
    "with an angle in radians": lambda x: ti.cos(x + ti.radians(x)),
    "some product": lambda x: ti.cos(1.3 * x),
}


@pytest.mark.parametrize("of", CONVERTED)
def test_angles_that_are_converted_are_taken(of):
    body, want = CONVERTED[of]
    operator = ti.field_operator(lambda x: body(x))
    for unit in ("degrees_north", "°", "radians", "", "m"):
        np.testing.assert_allclose(operator(LAT.assign_attrs(units=unit)), want, rtol=1e-14, atol=1e-15)


def refused(call):
    with pytest.raises(ti.DiagnosticError) as found:
        call()
    (one,) = found.value.diagnostics
    return one.code, one.message, one.help


@pytest.mark.parametrize("of", DEGREES)
def test_angles_in_degrees_are_refused(of):
    operator = ti.field_operator(lambda x: DEGREES[of](x))
    for unit in ("degrees_north", "degree_E", "degrees", "°"):
        assert refused(lambda unit=unit: operator(LAT.assign_attrs(units=unit))) == (
            "V36", "cos takes radians, and this is in degrees, as the units of an argument say.",
            'write ti.radians(x), or say what it is: x.assign_attrs(units="radians").',
        )  # fmt: skip
    assert operator(LAT.drop_attrs()).dtype == np.float64
    assert operator(LAT.assign_attrs(units="radians")).dtype == np.float64


def test_metric_terms_are_one_line():
    h = xr.DataArray(np.arange(6.0).reshape(3, 2), dims=("lat", "lon"), coords={"lat": LAT.lat})
    area = ti.field_operator(lambda h, lat: h * ti.cos(ti.radians(lat)))
    xr.testing.assert_allclose(area(h, h.lat.assign_attrs(units="degrees_north")), h * np.cos(np.deg2rad(h.lat)))


def test_an_operator_in_a_program_sees_the_units_of_its_arguments():
    cosine = ti.field_operator(lambda x: ti.cos(x))

    @ti.program
    def run(x, out):
        cosine(x, out=out)

    out = xr.zeros_like(LAT)
    assert refused(lambda: run(LAT, out))[0] == "V36"
    run(LAT.assign_attrs(units="radians"), out.drop_attrs())


def test_the_text_of_a_program_takes_radians():
    f = ti.parse("f(y: tensor<float64, lat[0:3]>, x: tensor<float64, lat[0:3]>) { y ← cos(x); }")
    assert refused(lambda: f(x=LAT)) == (
        "A43", "'x' is in degrees_north, and cos takes radians.",
        'multiply it by π/180, or say what it is: x.assign_attrs(units="radians").',
    )  # fmt: skip
    by_hand = ti.parse("f(y: tensor<float64, lat[0:3]>, x: tensor<float64, lat[0:3]>) { y ← cos(x × 0.0174532925); }")
    np.testing.assert_allclose(by_hand(x=LAT)["y"], np.cos(RADIANS), rtol=1e-8)


def test_a_trace_of_many_angles_is_linear_in_them():
    def calls(length):
        def body(x):
            y = ti.radians(x)
            for _ in range(length):
                y = ti.sin(y) + ti.radians(x)
            return y

        return count_calls(lambda: ti.field_operator(body).fencil(LAT))

    assert calls(80) < 2.3 * calls(40)
