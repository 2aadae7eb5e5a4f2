"""Angles whose DataArrays say degrees: functions of angles take radians, and refuse them unconverted."""

import math

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.binding.quantities import units_of
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


UNITS = {
    "an angle": (lambda x: ti.radians(x), "radians"),
    "a quotient": (lambda x: x / math.degrees(1.0), "radians"),
    "a difference": (lambda x: ti.radians(x(J + 1)) - ti.radians(x), "radians"),
    "its double": (lambda x: 2.0 * x, "degrees_north"),
}


@pytest.mark.parametrize("of", UNITS)
def test_a_converted_angle_says_radians(of):
    body, unit = UNITS[of]
    program = ti.field_operator(lambda x: body(x)).fencil(LAT)
    assert units_of(program, {"x": "degrees_north"}) == {"out": unit}
    assert units_of(program, {"x": "m"}) == {"out": "m"}


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


def scan(body, init=0.0):
    return ti.scan_operator(axis=J, init=init)(body)


IN_SCANS = {
    "an angle": (scan(lambda s, x: s + ti.cos(ti.radians(x))), np.cumsum(np.cos(RADIANS))),
    "of a sum": (scan(lambda s, x: s + ti.radians(x)), np.cumsum(RADIANS)),
    "of the state": (scan(lambda s, x: ti.sin(s) + ti.radians(x)), None),
}
IN_SCANS_DEGREES = {
    "an angle": scan(lambda s, x: s + ti.cos(x)),
    "of the state": scan(lambda s, x: ti.cos(s) + x),
    "of a member of the state": scan(lambda s, x: (x, ti.cos(s[0])), (0.0, 0.0)),
}


@pytest.mark.parametrize("of", IN_SCANS)
def test_angles_that_are_converted_are_taken_in_scans(of):
    operator, want = IN_SCANS[of]
    if want is None:
        want = RADIANS.copy()
        for k in (1, 2):
            want[k] += np.sin(want[k - 1])
    np.testing.assert_allclose(operator(LAT), want, rtol=1e-14)


@pytest.mark.parametrize("of", IN_SCANS_DEGREES)
def test_angles_in_degrees_are_refused_in_scans(of):
    code, message, _ = refused(lambda: IN_SCANS_DEGREES[of](LAT))
    assert (code, message.partition(",")[0]) == ("V36", "cos takes radians")
    IN_SCANS_DEGREES[of](LAT.assign_attrs(units="radians"))


def test_degrees_of_what_a_scan_adds_up_are_degrees():
    total = scan(lambda s, x: s + x)
    assert refused(lambda: ti.field_operator(lambda x: ti.sin(total(x)))(LAT))[0] == "V36"


def test_members_of_tuples_in_degrees_are_refused():
    cosine = ti.field_operator(lambda pair: pair[0] * ti.cos(pair[1]))
    assert refused(lambda: cosine((LAT, LAT)))[0] == "V36"
    assert refused(lambda: cosine((LAT.rename(lat="lon"), LAT)))[0] == "V36"
    cosine((LAT, LAT.assign_attrs(units="radians")))


@pytest.mark.parametrize(
    "text",
    [
        "y ← scan(λ(s: tensor<float>, v: tensor<float>) → s + cos(v), true, 0.0)(x);",
        "y ← reduce(λ(s: tensor<float>, v: tensor<float>) → s + cos(v), 0.0, lat)(x);",
        "y ← (λ(v: tensor<float, lat[0:3]>) → cos(v))(x);",
        "y ← cos(loop(0, 2)(λ(i: tensor<int>, a: tensor<float, lat[0:3]>) → true, "
        "λ(i: tensor<int>, a: tensor<float, lat[0:3]>) → a + x, 0.0 × x));",
        "y ← cond(0)(λ(v: tensor<float, lat[0:3]>) → v, λ(v: tensor<float, lat[0:3]>) → cos(v), false, x);",
        "y ← x; y ← cos(y);",
    ],
)
def test_the_text_of_a_program_takes_radians_in_functions(text):
    size = "lat[0:3]" if "reduce" not in text else ""
    f = ti.parse(f"f(y: tensor<float{', ' * bool(size)}{size}>, x: tensor<float, lat[0:3]>) {{ {text} }}")
    assert refused(lambda: f(x=LAT))[:2] == ("A43", "'x' is in degrees_north, and cos takes radians.")
    f(x=LAT.assign_attrs(units="radians"))
