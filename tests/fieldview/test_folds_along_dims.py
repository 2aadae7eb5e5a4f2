"""Folds of fields along dims of their own, and elements of parameter arrays, beside xarray and NumPy."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

LAT, LON, K, L = ti.dims("lat lon K L")
T = xr.DataArray(
    np.random.default_rng(0).normal(size=(4, 6)), dims=("lat", "lon"), name="t", attrs={"units": "K"},
    coords={"lat": ("lat", [-60.0, -20.0, 20.0, 60.0], {"units": "degrees_north"}), "lon": np.arange(6) * 60.0},
)  # fmt: skip
COSINE = np.cos(np.deg2rad(T.lat))


@ti.field_operator
def anomaly(t):
    return t - t.mean(LON)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (anomaly.function, T - T.mean("lon")),
        (lambda t: ti.sum(t, LAT), T.sum("lat")),
        (lambda t: t.sum(), T.sum()),
        (lambda t: t.sum(["lat", LON]), T.sum()),
        (lambda t: t - ti.max(t, "lon"), T - T.max("lon")),
        (lambda t: t.min(LAT), T.min("lat")),
        (lambda t: ti.any(t > 1.0, LAT), (T > 1.0).any("lat")),
        (lambda t: (t > -9.0).all(), (T > -9.0).all()),
        (lambda t: ti.mean(t, LAT, weights=ti.cos(ti.radians(ti.coord(t, "lat")))), T.weighted(COSINE).mean("lat")),
        (lambda t: ti.mean(t, weights=ti.cos(ti.radians(ti.coord(t, "lat")))), T.weighted(COSINE).mean()),
        (
            lambda t: ti.mean(t(LON + 1), weights=t(LON - 1)),
            (T[:, 2:].values * T[:, :-2].values).sum() / T[:, :-2].sum(),
        ),
        (lambda t: ti.astype(t * 10.0, ti.int32).max(LON), (T * 10).astype("int32").max("lon")),
    ],
)
def test_a_fold_is_that_of_xarray(body, expected):
    found = ti.field_operator(body)(T)
    np.testing.assert_allclose(found.transpose(*expected.dims), expected, rtol=1e-13, atol=1e-14)
    assert set(found.coords) == set(expected.coords) or not expected.dims


def test_a_fold_keeps_units_and_is_differentiated():
    assert anomaly(T).attrs == {"units": "K"}
    slope = ti.grad(lambda t: (anomaly(t) ** 2).sum())(T)
    np.testing.assert_allclose(slope, 2.0 * (T - T.mean("lon")), atol=1e-14)


def test_a_fold_takes_the_whole_of_its_dim_in_blocks():
    xr.testing.assert_allclose(ti.map_blocks(anomaly, T.chunk(lat=2)).compute(), anomaly(T))
    with pytest.raises(ti.DiagnosticError, match=r"A35.*needs the whole of lon at once"):
        ti.map_blocks(anomaly, T.chunk(lon=3))


def test_steps_of_a_time_loop_fold():
    last = ti.iterate(lambda t: t - 0.5 * anomaly(t), T, 2)
    xr.testing.assert_allclose(last, T - 0.75 * (T - T.mean("lon")))


def test_elements_of_a_parameter_array_are_weights():
    weights = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("K", "L"))

    @ti.field_operator
    def learned(h, w):
        return w[1, 2] * h + w[-2, 0] * h(LON + 1) + w[0, -1] * h(LAT + 1)

    found = learned(T, weights)
    h, w = T.values, weights.values
    want = w[1, 2] * h[:-1, :-1] + w[0, 0] * h[:-1, 1:] + w[0, 2] * h[1:, :-1]
    np.testing.assert_allclose(found.transpose("lat", "lon"), want)
    slope = ti.grad(lambda h, w: learned(h, w).sum(), argnums=1)(T, weights)
    np.testing.assert_allclose(slope, [[h[:-1, 1:].sum(), 0.0, h[1:, :-1].sum()], [0.0, 0.0, h[:-1, :-1].sum()]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda t: t.sum("x"), "V17]: the field has no dim x to fold along, only lat, lon."),
        (lambda t: ti.any(t), "V17]: ti.any is for fields of bools, and this is one of float64."),
        (lambda t: ti.sum(t > 0.0), "V17]: ti.sum is for fields of numbers, and this is one of bool."),
        (lambda t: ti.sum(ti.astype(t, ti.int8)), "V17]: a sum of int8 would wrap around in int8"),
        (lambda t: ti.mean(t > 0.0), "V17]: a mean is one of floats, and this is bool."),
        (lambda t: ti.mean(t.sum(LAT), weights=t), "V17]: the weights vary along lat, and the field does not."),
        (lambda t: t[1], "V03]: a field is indexed by whole numbers, one for each of its dims (lat, lon)."),
        (lambda t: t[0, 9], "V03]: there is no element 9 along lon, which has 6."),
    ],
)
def test_a_fold_that_has_no_meaning_is_refused(body, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(body)(T)
    assert message in str(refused.value)
