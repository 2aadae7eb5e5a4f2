"""Stories of users, from data to results and errors."""

import gc
import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.cbook import get_sample_data
from scipy import ndimage

import tensorir as ti
from stencils import data, meshes
from stencils.cli.files import together, write_arrays

# Series and images from matplotlib's samples


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
        wide = ti.extend(h, {I: 1, J: 1}, ti.boundary.neumann())
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
    found = returns(ti.drop_indexes(close, "T"))
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


# What goes wrong with data on an ordinary day


(I_WRONG,) = ti.dims("I")
DIFFERENCE = ti.field_operator(lambda a, b: a - b)
RISE = ti.field_operator(lambda h: h(I_WRONG + 1) - h)


def labelled(labels, **attrs):
    return xr.DataArray(np.arange(float(len(labels))), dims="I", coords={"I": labels}, attrs=attrs)


def daily(*days):
    return labelled(pd.to_datetime([f"2024-03-{day:02d}" for day in days]))


WRONG = {
    "labels that differ": (
        lambda: DIFFERENCE(labelled([50.0, 52.5, 55.0]), labelled([55.0, 52.5, 50.0])),
        "error[A25]: the labels along I differ: 'a' has 50.0 where 'b' has 55.0.\n"
        "help: xr.align(a, b, join='inner') aligns them, b.drop_vars('I') leaves labels out, ti.drop_indexes(b) goes "
        "by position.",
    ),
    "labels that are there twice": (
        lambda: DIFFERENCE(labelled([50.0, 52.5, 52.5]), labelled([50.0, 52.5])),
        "error[A26]: the labels of 'a' along I repeat 52.5, so they do not say where others meet it.\n"
        "help: leave one of each: a.drop_duplicates('I').",
    ),
    "days that are missing": (
        lambda: RISE(daily(1, 2, 3, 6)),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have unequal steps: 2024-03-02, "
        "2024-03-03, 2024-03-06.\n"
        "help: h.reindex(...) fills what is missing, ti.drop_indexes(h, 'I') goes by position.",
    ),
    "names that have no neighbours": (
        lambda: RISE(labelled(["Bern", "Graz", "Trento"])),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have no steps: 'Bern', 'Graz'.\n"
        "help: h.reindex(...) fills what is missing, ti.drop_indexes(h, 'I') goes by position.",
    ),
    "years that are missing": (
        lambda: RISE(labelled([1990, 1991, 1994])),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have unequal steps: 1990, 1991, 1994.\n"
        "help: h.reindex(...) fills what is missing, ti.drop_indexes(h, 'I') goes by position.",
    ),
    "units that clash": (
        lambda: DIFFERENCE(labelled([0, 1], units="K"), labelled([0, 1], units="m")),
        "error[A32]: 'a' in K and 'b' in m meet in minus, which needs equal units.\n"
        "help: convert one of them, or leave units out: x.drop_attrs().",
    ),
    "a mesh file without a table": (
        lambda: meshes.read(xr.Dataset({"vertex_of_cell": (("nv", "cell"), [[1], [2], [3]])})),
        "error[F08]: the Dataset has no 'edge_vertices', which a mesh of ICON needs.\n"
        "help: read the file of the grid: that of fields alone has no mesh.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_it_is_said_in_a_sentence(what):
    """A user who mixes up labels, days, units or files is told in one sentence what differs where, and in another
    what to do."""
    call, message = WRONG[what]
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    (found,) = refused.value.diagnostics
    assert f"error[{found.code}]: {found.message}\nhelp: {found.help}".replace("'<lambda>'", "'rise'") == message


@pytest.mark.parametrize("labels", [daily(1, 2, 3).I.values, daily(1, 8, 15).I.values, [10, 20, 30], [0.0, 0.7, 9.0]])
def test_labels_with_equal_steps_and_those_of_stretched_grids_are_neighbours(labels):
    """A user who has days, weeks, tens or a stretched grid gets differences of neighbours without a question."""
    np.testing.assert_array_equal(RISE(labelled(labels)), [1.0, 1.0])


AVERAGE = "f(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← 0.5 × ⟪I, -1⟫(x) + 0.5 × ⟪I, 1⟫(x); }"
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
sys.argv = ["tensorir", *sys.argv[1:]]
from stencils.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
@pytest.mark.parametrize("name", ["y.nc", "y.npz"])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, name):
    """A user of the command line who fills the disk is told in two lines, and keeps the file that was there."""
    (tmp_path / "f.fencil").write_text(AVERAGE, encoding="utf-8")
    x = np.random.default_rng(0).normal(size=100_000)
    xr.Dataset({"x": ("I", x)}).to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    (tmp_path / name).write_bytes(b"as it was")
    command = [sys.executable, "-c", LIMITED, "run", "f.fencil", "-i", "x.nc", "-o", name, "--overwrite"]
    here = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": here, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error[F04]: '{name}' cannot be written: ") and done.stderr.count("\n") == 2
    assert (tmp_path / name).read_bytes() == b"as it was"
    assert sorted(os.listdir(tmp_path)) == sorted(["f.fencil", "x.nc", name])


def test_snapshots_that_find_no_room_say_so_and_keep_those_before(tmp_path, monkeypatch):
    """A modeller who runs out of room in a long run is told which file, and keeps the snapshots that were written."""
    from lowering.loops import snapshots

    write, written = snapshots.Snapshots._to_netcdf, []

    def full(self, at, *snapshot):
        written.append(at)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(self, at, *snapshot)

    monkeypatch.setattr(snapshots.Snapshots, "_to_netcdf", full)
    path = tmp_path / "run.nc"
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 40, every=10, keep=True, to=path, progress=False)
    assert str(refused.value) == (
        f"error[A31]: a snapshot cannot be written to '{path}': No space left on device.\n"
        "help: make room, or close it where it is open."
    )
    with xr.open_dataset(path, engine="netcdf4") as kept:
        assert kept.time.values.tolist() == [0.0, 10.0]


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
def test_a_store_that_finds_no_room_says_so_once(tmp_path, caplog):
    """A user of Zarr who runs out of room is told once, and nothing goes on in the background."""
    import resource

    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    noise = np.random.default_rng(0).normal(size=(1000, 1000))
    try:
        with pytest.raises(ti.DiagnosticError) as refused:
            ti.iterate(lambda h: h, noise, 1, keep=True, to=tmp_path / "run.zarr", progress=False)
        with pytest.raises(ti.DiagnosticError, match=r"F04.*cannot be written: File too large"), together() as write:
            write_arrays(tmp_path / "results.zarr", {"x": noise}, {}, write)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    written = sorted(tmp_path.rglob("*"))
    time.sleep(0.1)
    gc.collect()
    assert str(refused.value) == (
        f"error[A31]: a snapshot cannot be written to '{tmp_path}/run.zarr': File too large.\n"
        "help: make room, or close it where it is open."
    )
    assert os.listdir(tmp_path) == ["run.zarr"]
    assert sorted(tmp_path.rglob("*")) == written and not [r for r in caplog.records if r.name == "asyncio"]


def test_an_output_that_is_there_or_open_elsewhere_is_not_lost(tmp_path):
    """A modeller who starts a run twice is told that the output is there already, and keeps it, also while another
    reads it."""
    path = tmp_path / "run.nc"
    ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 4, every=2, keep=True, to=path, progress=False)
    with xr.open_dataset(path, engine="netcdf4") as reader:
        with pytest.raises(ti.DiagnosticError, match=r"A31\]: '.*run.nc' is there already"):
            ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 4, every=2, keep=True, to=path, progress=False)
        assert reader.sizes["time"] == 3


# What is asked of elevations

HILLS = data.jacksboro_fault().isel(J=slice(0, 120), I=slice(0, 150))
COAST = data.topobathy()
DX, DY = data.spacing(HILLS)
AROUND = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]


@ti.field_operator
def slopes(h, dx, dy):
    east = (h(I + 1) - h(I - 1)) / (2.0 * dx)
    north = (h(J + 1) - h(J - 1)) / (2.0 * dy)
    return east, north


def test_how_steep_it_is():
    """A geographer who asks for the slope of hills gets NumPy's gradient, on the latitudes inside."""
    steepness = ti.field_operator(lambda h, dx, dy: ti.sqrt(slopes(h, dx, dy)[0] ** 2.0 + slopes(h, dx, dy)[1] ** 2.0))
    found = steepness(HILLS, DX, DY)
    north, east = np.gradient(HILLS.values, DY, DX)
    expected = np.hypot(north, east)[1:-1, 1:-1]
    np.testing.assert_allclose(found.transpose("J", "I"), expected, rtol=1e-12)
    np.testing.assert_array_equal(found.lat, HILLS.lat[1:-1])


def test_where_the_sun_of_an_afternoon_shines():
    """A cartographer who shades hills by an afternoon's sun gets the product of normals and sun, without metres as
    its unit."""
    height, azimuth = np.radians(30.0), np.radians(225.0)

    @ti.field_operator
    def shade(h, dx, dy):
        east, north = slopes(h, dx, dy)
        toward = -east * np.sin(azimuth) * np.cos(height) - north * np.cos(azimuth) * np.cos(height) + np.sin(height)
        return ti.maximum(toward / ti.sqrt(1.0 + east * east + north * north), 0.0)

    found = shade(HILLS, DX, DY).transpose("J", "I")
    north, east = (g[1:-1, 1:-1] for g in np.gradient(HILLS.values, DY, DX))
    normal = np.stack([-east, -north, np.ones_like(east)]) / np.sqrt(1 + east**2 + north**2)
    sun = [np.sin(azimuth) * np.cos(height), np.cos(azimuth) * np.cos(height), np.sin(height)]
    np.testing.assert_allclose(found, np.maximum(np.einsum("c,cji->ji", sun, normal), 0.0), atol=1e-13)
    assert "units" not in found.attrs  # not metres


def test_how_rough_it_is_within_a_window():
    """A geographer who asks for highest less lowest in a window of nine points gets xarray's rolling maximum and
    minimum."""

    @ti.field_operator
    def roughness(h):
        high = low = h
        for a, b in AROUND:
            high = ti.maximum(high, h(I + a)(J + b))
            low = ti.minimum(low, h(I + a)(J + b))
        return high - low

    window = HILLS.rolling(J=3, I=3, center=True).construct(J="j", I="i")
    expected = (window.max(("j", "i")) - window.min(("j", "i")))[1:-1, 1:-1]
    np.testing.assert_array_equal(roughness(HILLS).transpose("J", "I"), expected)


def test_what_stands_out_of_its_surroundings():
    """A geographer who takes the mean of eight neighbours off a height gets SciPy's convolution, in metres."""

    @ti.field_operator
    def position(h):
        return h - sum(h(I + a)(J + b) for a, b in AROUND) / 8.0

    weights = np.full((3, 3), -1 / 8)
    weights[1, 1] = 1.0
    expected = ndimage.convolve(HILLS.values, weights)[1:-1, 1:-1]
    found = position(HILLS).transpose("J", "I")
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.attrs["units"] == "m"


def test_the_points_of_a_coast():
    """An oceanographer who counts the sea beside each point of land gets the coast that NumPy finds."""

    @ti.field_operator
    def coast(h):
        def sea(a):
            return ti.where(a < 0.0, 1.0, 0.0)

        return (1.0 - sea(h)) * (sea(h(I + 1)) + sea(h(I - 1)) + sea(h(J + 1)) + sea(h(J - 1)))

    wet = (COAST < 0).values.astype(float)
    beside = wet[1:-1, 2:] + wet[1:-1, :-2] + wet[2:, 1:-1] + wet[:-2, 1:-1]
    found = coast(COAST).transpose("J", "I")
    np.testing.assert_array_equal(found, (1 - wet[1:-1, 1:-1]) * beside)
    assert 0 < int((found > 0).sum()) < found.size


def test_a_mean_over_land_alone():
    """An ecologist who averages over land alone gets SciPy's masked means, and missing values where there is none."""

    @ti.field_operator
    def mean_of_land(h):
        land = ti.where(h > 0.0, 1.0, 0.0)
        total, count = h * land, land
        for shift in (I + 1, I - 1, J + 1, J - 1):
            total = total + (h * land)(shift)
            count = count + land(shift)
        return ti.where(count > 0.0, total / ti.maximum(count, 1.0), np.nan)

    cross = ndimage.generate_binary_structure(2, 1)
    land = (COAST > 0).values
    total, count = (ndimage.convolve(a.astype(float), cross)[1:-1, 1:-1] for a in (COAST.values * land, land))
    expected = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    np.testing.assert_allclose(mean_of_land(COAST).transpose("J", "I"), expected, rtol=1e-12)


def test_which_way_water_runs():
    """A hydrologist who asks which neighbour lies lowest gets NumPy's argmin."""

    @ti.field_operator
    def downhill(h):
        lowest, way = h, 0.0
        for k, shift in enumerate((I + 1, I - 1, J + 1, J - 1)):
            way = ti.where(h(shift) < lowest, float(k + 1), way)
            lowest = ti.minimum(h(shift), lowest)
        return way

    h = HILLS.values
    around = [h[1:-1, 1:-1], h[1:-1, 2:], h[1:-1, :-2], h[2:, 1:-1], h[:-2, 1:-1]]
    np.testing.assert_array_equal(downhill(HILLS).transpose("J", "I"), np.argmin(around, axis=0))


def test_smoothing_that_keeps_every_point():
    """A cartographer who smooths three times with a halo gets SciPy's convolution on all points, with the
    attributes."""

    @ti.field_operator
    def smooth(h):
        wide = ti.extend(h, {I: 1, J: 1}, ti.boundary.neumann())
        return (wide(I + 1) + wide(I - 1) + wide(J + 1) + wide(J - 1) + wide) / 5.0

    found = smooth(smooth(smooth(HILLS)))
    cross = ndimage.generate_binary_structure(2, 1) / 5.0
    expected = HILLS.values
    for _ in range(3):
        expected = ndimage.convolve(expected, cross, mode="nearest")
    np.testing.assert_allclose(found.transpose("J", "I"), expected, rtol=1e-12)
    assert found.attrs == HILLS.attrs and dict(found.sizes) == dict(HILLS.sizes)


def test_what_a_flood_reaches():
    """A hydrologist who lets water spread from a spring over low ground gets SciPy's dilation after 200 steps."""
    low = xr.where(HILLS < 400.0, 1.0, 0.0)
    spring = xr.zeros_like(low)
    spring[60, 140] = 1.0

    @ti.field_operator
    def spread(wet, low):
        wide = ti.extend(wet, {I: 1, J: 1}, ti.boundary.dirichlet(0.0))
        return low * ti.maximum(
            wide, ti.maximum(ti.maximum(wide(I + 1), wide(I - 1)), ti.maximum(wide(J + 1), wide(J - 1)))
        )

    found, _ = ti.iterate(lambda s: (spread(s[0], s[1]), s[1]), (spring, low), 200)
    start = (spring * low).values.astype(bool)
    expected = ndimage.binary_dilation(start, mask=low.values.astype(bool), iterations=200)
    np.testing.assert_array_equal(found.transpose("J", "I"), expected)


def test_a_section_along_a_parallel():
    """A geographer who takes differences along one parallel gets NumPy's, with the latitude at which the section was
    taken."""
    section = COAST.isel(J=45)
    rise = ti.field_operator(lambda h: h(I + 1) - h)
    found = rise(section)
    np.testing.assert_array_equal(found, np.diff(section))
    assert float(found.lat) == float(COAST.lat[45])  # where the section was taken
    whole = rise(COAST).isel(J=45)
    xr.testing.assert_identical(found.drop_vars("I", errors="ignore"), whole.drop_vars("I", errors="ignore"))


def test_terrain_that_does_not_fit_into_memory_goes_block_by_block():
    """A user of dask who has terrain in chunks gets the curvature of the whole, block by block, with its longitudes."""
    curvature = ti.field_operator(lambda h: h(I + 1) + h(I - 1) + h(J + 1) + h(J - 1) - 4.0 * h)
    found = ti.map_blocks(curvature, HILLS.chunk(J=40, I=64))
    h = HILLS.values
    expected = h[1:-1, 2:] + h[1:-1, :-2] + h[2:, 1:-1] + h[:-2, 1:-1] - 4 * h[1:-1, 1:-1]
    np.testing.assert_allclose(found.compute().transpose("J", "I"), expected, atol=1e-10)
    np.testing.assert_array_equal(found.lon, HILLS.lon[1:-1])


def test_only_what_is_asked_for_is_written_into_an_array_of_ones_own():
    """A user of GT4Py who passes out and a domain gets this part written, and the rest as it was."""
    out = xr.zeros_like(HILLS)
    rise = ti.field_operator(lambda h: h(I + 1) - h)
    rise(HILLS, out=out, domain={I: (10, 20), J: (0, 120)})
    expected = np.zeros(HILLS.shape)
    expected[:, 10:20] = HILLS.values[:, 11:21] - HILLS.values[:, 10:20]
    np.testing.assert_array_equal(out, expected)
