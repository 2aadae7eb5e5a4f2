"""Series and images from matplotlib's samples: brains, a price, an old photograph; compared with pandas and SciPy."""

import gzip

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.cbook import get_sample_data
from scipy import ndimage

import tensorir as ti

I, J, T = ti.dims("I J T")


def brain():
    """A slice through a head, 256 by 256, of 16-bit numbers."""
    with gzip.open(get_sample_data("s1045.ima.gz", asfileobj=False)) as file:
        values = np.frombuffer(file.read(), np.uint16).reshape(256, 256)
    return xr.DataArray(values, dims=("J", "I"), name="signal")


def waves():
    """Four channels of an electroencephalogram, 800 samples each."""
    values = np.fromfile(get_sample_data("eeg.dat", asfileobj=False)).reshape(800, 4)
    return xr.DataArray(values, dims=("T", "channel"), coords={"channel": ["PG3", "PG5", "PG7", "PG9"]}, name="eeg")


def price():
    """Closing prices of a share by day of trading."""
    with np.load(get_sample_data("goog.npz", asfileobj=False)) as file:
        table = file["price_data"]
    return xr.DataArray(table["close"], dims="T", coords={"T": table["date"].astype("M8[ns]")}, name="close")


def test_edges_of_an_image():
    """A radiologist who looks for edges in a scan gets SciPy's Sobel filter."""

    @ti.field_operator
    def edges(h):
        x = h(J - 1)(I + 1) + 2.0 * h(I + 1) + h(J + 1)(I + 1) - h(J - 1)(I - 1) - 2.0 * h(I - 1) - h(J + 1)(I - 1)
        y = h(J + 1)(I - 1) + 2.0 * h(J + 1) + h(J + 1)(I + 1) - h(J - 1)(I - 1) - 2.0 * h(J - 1) - h(J - 1)(I + 1)
        return ti.sqrt(x * x + y * y)

    image = brain().astype("float64")
    found = edges(image).transpose("J", "I")
    expected = np.hypot(ndimage.sobel(image.values, 0), ndimage.sobel(image.values, 1))[1:-1, 1:-1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_image_of_small_integers_stays_one():
    """A radiologist who erodes a scan of uint16 gets SciPy's minimum filter, in uint16."""

    @ti.field_operator
    def eroded(h):
        across = ti.minimum(ti.minimum(h(I - 1), h), h(I + 1))
        return ti.minimum(ti.minimum(across(J - 1), across), across(J + 1))

    found = eroded(brain()).transpose("J", "I")
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, ndimage.minimum_filter(brain().values, 3)[1:-1, 1:-1])


def test_an_unsharp_mask_that_is_clipped():
    """A radiologist who sharpens a scan, and clips it, gets what SciPy and NumPy give, edges among it."""

    @ti.field_operator
    def sharper(h):
        wide = ti.extend(h, {I: 1, J: 1}, ti.neumann())
        blurred = (wide(I + 1) + wide(I - 1) + wide(J + 1) + wide(J - 1)) / 4.0
        return ti.minimum(ti.maximum(h + 0.8 * (h - blurred), 0.0), 800.0)

    image = brain().astype("float64")
    cross = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) / 4.0
    blurred = ndimage.convolve(image.values, cross, mode="nearest")
    expected = np.clip(image.values + 0.8 * (image.values - blurred), 0.0, 800.0)
    np.testing.assert_allclose(sharper(image).transpose("J", "I"), expected, atol=1e-9)


def test_every_channel_of_a_series_has_its_own_baseline_taken_away():
    """A neurologist who takes the running mean off each channel gets what xarray's rolling gives, with the channels'
    names."""

    @ti.field_operator
    def without_baseline(x):
        return x - (x(T - 2) + x(T - 1) + x + x(T + 1) + x(T + 2)) / 5.0

    x = waves()
    found = without_baseline(x).transpose("T", "channel")
    expected = (x - x.rolling(T=5, center=True).mean()).dropna("T")
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert list(found.channel.values) == ["PG3", "PG5", "PG7", "PG9"]


@ti.scan_operator(axis=T, forward=True, init=0.0)
def follow(state, x, first, weight):
    return ti.where(first > 0.0, x, state + weight * (x - state))


def test_exponential_smoothing_of_a_price():
    """An analyst who smooths a price exponentially, by a scan, gets pandas' ewm on the same days."""
    close = price()
    first = xr.zeros_like(close)
    first[0] = 1.0
    found = ti.field_operator(lambda x, first: follow(x, first, 0.1))(close, first)
    np.testing.assert_allclose(found, close.to_pandas().ewm(alpha=0.1, adjust=False).mean(), rtol=1e-12)
    np.testing.assert_array_equal(found["T"], close["T"])


@ti.scan_operator(axis=T, forward=True, init=0.0)
def highest(state, x):
    return ti.maximum(state, x)


def test_how_far_a_price_fell_from_its_height():
    """An analyst who asks how far a price fell from its height gets NumPy's running maximum under it."""
    close = price()
    found = ti.field_operator(lambda x: 1.0 - x / highest(x))(close)
    np.testing.assert_allclose(found, 1.0 - close.values / np.maximum.accumulate(close.values), atol=1e-15)


def test_days_without_trade_are_no_neighbours_unless_one_says_so():
    """An analyst who takes daily returns is told that weekends make unequal steps, and gets them by position once
    that is said."""
    close = price()
    returns = ti.field_operator(lambda x: x(T + 1) / x)
    with pytest.raises(ti.DiagnosticError, match=r"A27.*unequal steps: 2004-08-19, 2004-08-20, 2004-08-23"):
        returns(close)
    found = returns(ti.positional(close, "T"))
    np.testing.assert_array_equal(found, close.values[1:] / close.values[:-1])


def test_hours_of_a_year_and_the_change_over_a_day():
    """An observer who takes the change over 24 hours gets xarray's shift and difference, in degrees."""
    hours = pd.date_range("2023-01-01", periods=24 * 60, freq="h")
    day = 10.0 + 5.0 * np.sin(2 * np.pi * hours.hour / 24) + 0.01 * np.arange(len(hours))
    air = xr.DataArray(day, dims="T", coords={"T": hours}, attrs={"units": "degC"})
    change = ti.field_operator(lambda t: t(T + 24) - t)
    found = change(air)
    np.testing.assert_allclose(found, 0.24, atol=1e-12)
    expected = air.shift(T=-24) - air
    np.testing.assert_array_equal(found, expected.dropna("T"))
    assert found.attrs == {"units": "degC"}


def test_anomalies_from_the_mean_of_each_month_by_xarray_and_their_steps_by_us():
    """A climatologist who takes anomalies by xarray's groupby, and their gradients by an operator, gets every day in
    kelvins."""
    days = pd.date_range("2021-01-01", periods=730)
    field = (
        np.random.default_rng(2).normal(size=(730, 6, 8))
        + 10 * np.cos(2 * np.pi * days.day_of_year / 365.0).values[:, None, None]
    )
    air = xr.DataArray(field, dims=("time", "J", "I"), coords={"time": days}, name="air", attrs={"units": "K"})
    anomaly = air.groupby("time.month") - air.groupby("time.month").mean("time")
    found = ti.field_operator(lambda a: a(I + 1) - a(I - 1))(anomaly.drop_vars("month").assign_attrs(units="K"))
    np.testing.assert_allclose(found.transpose("time", "J", "I"), anomaly.values[..., 2:] - anomaly.values[..., :-2])
    assert found.attrs == {"units": "K"} and found.sizes["time"] == 730
