"""Folds of fields along dims of their own, and elements of parameter arrays, beside xarray and NumPy."""

import ml_dtypes
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
        (lambda t: t[1], "V03]: a field is indexed by whole numbers, one for each of its dims (lat, lon)."),
        (lambda t: t[0, 9], "V03]: there is no element 9 along lon, which has 6."),
    ],
)
def test_a_fold_that_has_no_meaning_is_refused(body, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(body)(T)
    assert message in str(refused.value)


@pytest.mark.parametrize("dim", ["lat", ["lat", "lon"], "month", ["month", "lat"], None])
def test_weights_may_have_dims_of_their_own(dim):
    weights = xr.DataArray(np.random.default_rng(1).uniform(1.0, 2.0, (3, 4)), {"lat": T.lat}, ("month", "lat"))
    found = ti.field_operator(lambda t, w: ti.mean(t, dim, weights=w))(T, weights)
    expected = T.weighted(weights).mean(dim)
    assert set(found.dims) == set(expected.dims) and found.attrs == T.attrs
    np.testing.assert_allclose(found.transpose(*expected.dims), expected, rtol=1e-13)


def narrow(dtype):
    """Values whose sum leaves float16, and of which bfloat16 loses small ones beside large sums."""
    return np.random.default_rng(2).uniform(50.0, 150.0, (2, 3000)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dims", [[L], [K, L]])
def test_means_and_sums_of_narrow_floats_are_those_of_float64_rounded(dtype, dims):
    x = narrow(dtype)
    w = (narrow(dtype) / 100).astype(dtype)
    axes = tuple(range(2 - len(dims), 2))
    wide, weights = x.astype(float), w.astype(float)
    both = ti.field_operator(lambda x, w: (ti.mean(x, dims), ti.mean(x, dims, weights=w), ti.sum(x, dims)))
    found = both(ti.as_field([K, L], x), ti.as_field([K, L], w))
    with np.errstate(over="ignore"):
        expected = [wide.mean(axes), (wide * weights).sum(axes) / weights.sum(axes), wide.sum(axes)]
        expected = [np.asarray(e).astype(dtype) for e in expected]
    for result, rounded in zip(found, expected, strict=True):
        assert np.asarray(result.data).dtype == dtype
        np.testing.assert_allclose(
            np.asarray(result.data).astype(float), rounded.astype(float), rtol=1.01 * float(ml_dtypes.finfo(dtype).eps)
        )  # fmt: skip


def test_a_mean_of_more_points_than_float16_counts_is_that_of_numpy():
    x = np.full(70000, 3.0, np.float16)
    assert float(ti.field_operator(lambda x: x.mean())(ti.as_field([K], x)).data) == float(np.mean(x)) == 3.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_of_no_points_is_nan(dtype, weighted):
    x = xr.DataArray(np.ones((0, 2), dtype), dims=("K", "L"), attrs={"units": "K"})
    found = ti.field_operator(lambda x: ti.mean(x, K, weights=x if weighted else None))(x)
    np.testing.assert_array_equal(found, np.full(2, np.nan))
    assert found.dtype == dtype and found.attrs == {"units": "K"}


def test_neighbours_of_float16_are_summed_in_float32():
    x = np.array([2048.0, 1.0, 1.0, 1.0, 1.0], np.float16)
    offset = ti.FieldOffset(
        "V2E", source=ti.Dimension("E"), target=(ti.Dimension("V"), ti.Dimension("V2EDim", "local"))
    )
    total = ti.field_operator(lambda x: ti.neighbor_sum(x(offset), axis=offset.target[1]))
    found = total(ti.as_field([ti.Dimension("E")], x), offset_provider={"V2E": np.arange(5)[None]})
    assert np.asarray(found.data).tolist() == [np.float16(x.astype(np.float64).sum())] == [2052.0]
