"""DataArrays and Datasets of pint, as MetPy makes them: operators and the units of results, beside those of pint."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

pint = pytest.importorskip("pint")
UNITS = pint.UnitRegistry()
X = {"x": np.arange(5) * 10.0}
VALUES = np.arange(5.0) ** 2
(XDIM,) = ti.dims("x")
T, U = (xr.DataArray(UNITS.Quantity(VALUES + 1.0, u), X, dims="x", attrs={"source": "buoy"}) for u in ("K", "m/s"))


@ti.field_operator
def rise(t):
    return t(XDIM + 1) - t


@ti.field_operator
def flux(t, u):
    return t * u, u * u / t


@pytest.mark.parametrize("unit", ["K", "m/s", "kg * m**-2 * s**-1", "hPa", "degree", "1"])
def test_a_difference_has_the_unit_of_its_argument(unit):
    t = xr.DataArray(UNITS.Quantity(VALUES, unit), X, dims="x")
    found = rise(t)
    assert found.data.units == UNITS.Unit(unit) and "units" not in found.attrs
    np.testing.assert_array_equal(found.data.magnitude, np.diff(VALUES))
    np.testing.assert_array_equal(found.x, X["x"][:-1])


def test_products_and_datasets_have_the_units_that_pint_gives_them():
    product, ratio = flux(T, u=U)
    for found, own in ((product, T.data * U.data), (ratio, U.data * U.data / T.data)):
        assert found.data.units == own.units
        np.testing.assert_allclose(found.data.magnitude, own.magnitude)
    both = rise(xr.Dataset({"t": T, "u": U, "plain": T.copy(data=VALUES)}))
    assert [getattr(both[n].data, "units", None) for n in both] == [UNITS.K, UNITS.m / UNITS.s, None]


def test_two_units_do_not_meet():
    with pytest.raises(ti.DiagnosticError, match=r"A32.* K"):
        ti.field_operator(lambda t, u: t + u)(T, U)


def test_a_scale_with_an_offset_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"A33.*degree_Celsius, a scale with an offset(.|\n)*t.pint.to"):
        rise(T.copy(data=T.data.to("degC")).rename("t"))


def test_a_loop_says_what_to_write():
    with pytest.raises(ti.DiagnosticError, match=r"A33(.|\n)*state.pint.dequantify\(\)"):
        ti.iterate(lambda t: t, T, 1)
