"""Time loops with a forcing: the value at the time at which a step begins, beside xarray's `interp` in a plain loop."""

import datetime

import cftime
import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from lowering.loops import forcing as forcings

RNG = np.random.default_rng(0)
DATES = np.array(["2000-01-01", "2000-02-01", "2000-03-01", "2000-05-01"], "datetime64[ns]")
FORCING = xr.Dataset(
    {"q": (("time", "lat", "lon"), RNG.normal(size=(4, 3, 2))), "a": (("lon", "lat"), RNG.normal(size=(2, 3)))},
    coords={"time": DATES, "lat": [1.0, 2.0, 4.0], "lon": [0.0, 10.0]},
)
STATE = FORCING.q.isel(time=0, drop=True)
NOLEAP = FORCING.assign_coords(
    time=xr.date_range("2000-01-01", periods=4, freq="MS", calendar="noleap", use_cftime=True)
)
LENGTHS = FORCING.assign_coords(time=DATES - DATES[0])
NUMBERS = FORCING.assign_coords(time=[0.0, 0.3, 0.5, 2.0])
DAYS = datetime.timedelta(days=5)
LINEAR = {
    "dates": (FORCING, np.datetime64("2000-01-03"), np.timedelta64(6, "D"), {"dt": "6 D", "start": "2000-01-03"}),
    "dates of a calendar": (
        NOLEAP, cftime.DatetimeNoLeap(2000, 1, 3), DAYS, {"dt": DAYS, "start": cftime.DatetimeNoLeap(2000, 1, 3)},
    ),
    "lengths": (LENGTHS, np.timedelta64(0, "ns"), np.timedelta64(5, "D"), {"dt": "5 D"}),
    "numbers": (NUMBERS, 0.0, 0.1, {"dt": 0.1}),
}  # fmt: skip


def step(h, f):
    return h + 0.1 * f["q"] * f["a"] - 0.01 * h * h.lat


def loop(forcing, at, dt, n, method):
    h = STATE
    for k in range(n):
        time = at + k * dt
        h = step(h, forcing.interp(time=time) if method == "linear" else forcing.sel(time=time, method="ffill"))
    return h.drop_vars("time", errors="ignore").transpose(*STATE.dims)


@pytest.mark.parametrize("method", ["linear", "held"])
@pytest.mark.parametrize("times", LINEAR)
def test_a_step_reads_the_forcing_at_the_time_at_which_it_begins(times, method):
    forcing, at, dt, options = LINEAR[times]
    last = ti.iterate(step, STATE, 18, forcing=forcing, forcing_method=method, progress=False, **options)
    np.testing.assert_allclose(last, loop(forcing, at, dt, 18, method), rtol=1e-12)
    assert last.indexes["lat"].equals(STATE.indexes["lat"]) and last.dims == STATE.dims


def test_a_record_is_itself_beside_one_that_is_missing():
    gap = xr.DataArray([1.0, np.nan, 3.0, 4.0], dims="time", coords={"time": [0.0, 2.0, 4.0, 6.0]})
    _, kept = ti.iterate(lambda h, f: f, xr.DataArray(0.0), 7, forcing=gap, keep=True, every=1, progress=False)
    np.testing.assert_array_equal(kept["state"][1:], [1.0, np.nan, np.nan, np.nan, 3.0, 3.5, 4.0])


@pytest.mark.parametrize("method", ["linear", "held"])
@pytest.mark.parametrize("chunks", [{}, {"time": 1}, {"time": 2}])
def test_a_series_of_numbers_is_read_from_dask_as_from_memory(chunks, method, tmp_path):
    series = xr.Dataset({"q": ("time", [0.0, 1.0, 2.0, 3.0]), "p": 5.0}, {"time": np.arange(4.0)})
    series.chunk(chunks).to_zarr(tmp_path / "s.zarr", zarr_format=2)
    stored = xr.open_dataset(tmp_path / "s.zarr", engine="zarr", chunks=chunks)
    for forcing in (series.chunk(chunks), stored):
        step = lambda h, f: h + f["q"] * f["p"]
        found = ti.iterate(step, xr.zeros_like(STATE), 3, forcing=forcing, forcing_method=method, progress=False)
        np.testing.assert_array_equal(found, 15.0)


@pytest.mark.parametrize("chunks", [None, {"time": 3}], ids=["lazy", "dask"])
def test_a_store_is_read_in_windows(chunks, tmp_path, monkeypatch):
    whole = xr.Dataset({"q": (("time", "x"), RNG.normal(size=(40, 5)).astype("float32"))}, {"time": np.arange(40.0)})
    whole.chunk(time=3).to_zarr(tmp_path / "f.zarr", zarr_format=2)
    monkeypatch.setattr(forcings, "WINDOW", 120)
    sizes = []
    read = forcings.Forcing._read
    monkeypatch.setattr(forcings.Forcing, "_read", lambda self, a, b: sizes.append(b - a) or read(self, a, b))
    lazy = xr.open_dataset(tmp_path / "f.zarr", engine="zarr", chunks=chunks)
    advance = lambda x, f: 0.9 * x + f["q"]
    start = np.zeros(5, "float32")
    given = xr.DataArray(start, dims="x")
    last, kept = ti.iterate(advance, given, 77, forcing=lazy, dt=0.5, keep=True, every=20, progress=False)
    assert set(sizes) == {6} and len(sizes) == 8
    x = given
    for k in range(77):
        x = np.float32(0.9) * x + whole.q.interp(time=0.5 * k).astype("float32")
    np.testing.assert_allclose(last, x, rtol=1e-5)
    assert kept.time.values.tolist() == [0.0, 10.0, 20.0, 30.0, 38.5]


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_windows_hold_what_steps_read_and_are_read_once_on_the_way(seed, linear, monkeypatch):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(1, 9, 13))
    q = xr.DataArray(rng.normal(size=(13, 2)), dims=("time", "x"), coords={"time": times}, name="q")
    forward, by = seed % 2 == 0, int(rng.integers(1, 4))
    # steps are counted from the loop's start on, before which the times of records lie where it goes back
    clock = times - (times[0] if forward else times[-1])
    n = int(np.ptp(times)) // by + 1
    forcing = forcings.Forcing([q], (True,), None, clock, by if forward else -by, linear)
    length = int(rng.integers(3, 6))
    monkeypatch.setattr(forcings, "WINDOW", length * 16)
    windows = []
    read = forcings.Forcing._read
    monkeypatch.setattr(forcings.Forcing, "_read", lambda self, a, b: windows.append((a, b)) or read(self, a, b))
    at = forcing.step * np.arange(n)
    if linear:
        expected = np.stack([np.interp(at, clock, q.values[:, k]) for k in range(2)], 1)
    else:
        expected = q.values[[np.flatnonzero(clock <= t)[-1] for t in at]]
    done = 0
    while done < n:
        records, steps = forcing.window(done, n - done)
        assert steps >= 1
        for k in range(steps):
            (found,) = [np.asarray(records._read(x, k)) for x in records.arrays]
            np.testing.assert_allclose(found, expected[done + k], rtol=1e-5, atol=1e-6)
        done += steps
    needed = [{k for k in range(13) for t in [step] if clock[k] <= t and (k == 12 or t < clock[k + 1])} for step in at]
    assert all(b - a == length for a, b in windows) and len(set(windows)) == len(windows)
    limit = -(-(len(set.union(*needed)) + 1) // (length - 1)) + 1
    assert len(windows) <= limit
    assert windows == sorted(windows, reverse=not forward)


def test_gradients_by_a_forcing_are_finite_differences():
    forcing, _, _, options = LINEAR["dates of a calendar"]
    loss = lambda f: ti.iterate(step, STATE, 3, forcing=f, **options).sum()
    slope = ti.grad(loss)(forcing)
    moved = forcing.copy(deep=True)
    moved["q"][1, 2, 1] += 1.0  # the loss is linear in it
    there, here = (
        ti.iterate(step, STATE, 3, forcing=f, progress=False, **options).sum().item() for f in (moved, forcing)
    )
    np.testing.assert_allclose(slope["q"][1, 2, 1], there - here, rtol=1e-9)
    assert slope["q"].coords["time"].identical(forcing["time"]) and not slope["q"][3].any()


def test_gradients_beside_a_forcing_and_in_jit_are_those_of_the_plain_loop():
    options = LINEAR["dates"][3]

    def loss(scale):
        with jax.enable_x64(True):
            scaled = lambda h, f: step(h, {**f, "q": scale * f["q"]})
            return ti.iterate(scaled, STATE, 9, forcing=FORCING, **options).sum().data

    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(loss))(1.0)
    _, at, dt, _ = LINEAR["dates"]
    plain = loop(FORCING, at, dt, 9, "linear").sum().item()
    assert value == pytest.approx(plain, rel=1e-12)
    without = loop(FORCING.assign(q=0.0 * FORCING.q), at, dt, 9, "linear").sum().item()
    assert slope == pytest.approx(plain - without, rel=1e-9)


def test_a_run_goes_on_from_its_checkpoint_and_refuses_another_forcing(tmp_path):
    options = LINEAR["dates"][3] | {"progress": False}
    ti.iterate(step, STATE, 9, forcing=FORCING, checkpoint_dir=tmp_path, **options)
    last = ti.iterate(step, STATE, 18, forcing=FORCING, checkpoint_dir=tmp_path, **options)
    assert last.identical(ti.iterate(step, STATE, 18, forcing=FORCING, **options))
    other = FORCING.copy(deep=True)
    other["q"][3, 0, 0] = 0.0
    with pytest.raises(ti.DiagnosticError, match="a run that began with another forcing"):
        ti.iterate(step, STATE, 18, forcing=other, checkpoint_dir=tmp_path, **options)


# as GRIB files are read
FORECAST = FORCING.rename(time="step").assign_coords(
    step=DATES - DATES[0], valid_time=("step", DATES), time=((), DATES[0])
)  # fmt: skip


def test_the_remedies_for_times_give_forcings():
    options = {"start": "2000-01-01", "dt": "1 D", "progress": False}
    expected = ti.iterate(step, STATE, 60, forcing=FORCING, **options)
    texts = FORCING.assign_coords(time=[str(t)[:10] for t in DATES])
    for forcing in (
        FORECAST.drop_vars("time", errors="ignore").swap_dims(step="valid_time").rename(valid_time="time"),
        FORCING.isel(time=[0, 1, 1, 2, 3]).drop_duplicates("time"),
        texts.assign_coords(time=texts.time.astype("datetime64[ns]")),
    ):
        xr.testing.assert_identical(ti.iterate(step, STATE, 60, forcing=forcing, **options), expected)


REFUSED = {
    "beyond the end": (
        {"start": "2000-04-01"},
        "error[A46]: the forcing has the times 2000-01-01T00:00:00 to 2000-05-01T00:00:00, and the steps begin from "
        "2000-04-01T00:00:00 to 2000-05-30T00:00:00.\n"
        "help: make fewer steps, begin elsewhere with start=..., or give a forcing of these times.",
    ),
    "beyond what the last record holds": (
        {"start": "2000-04-01", "dt": "12 D", "forcing_method": "held"},
        "error[A46]: the forcing has the times 2000-01-01T00:00:00 to 2000-05-01T00:00:00, and the steps begin from "
        "2000-04-01T00:00:00 to 2002-03-10T00:00:00.\n"
        "help: make fewer steps, begin elsewhere with start=..., or give a forcing of these times.",
    ),
    "no start": (
        {},
        "error[A46]: the forcing has dates, from 2000-01-01T00:00:00 on, and the loop has none.\n"
        'help: say when the first step begins and how long it is: start="2000-01-01T00:00:00", dt="1 h".',
    ),
    "another calendar": (
        {"start": "2000-01-01", "forcing": NOLEAP},
        "error[A44]: the calendars along time differ: the forcing has noleap and the loop has proleptic_gregorian.\n"
        "help: convert one: ds.convert_calendar(...).",
    ),
    "no unit": (
        {"forcing": LENGTHS, "dt": 1},
        "error[A46]: the forcing has times, and dt is 1 without a unit.\nhelp: write dt=\"90 s\".",
    ),
    "numbers and a unit": (
        {"forcing": NUMBERS},
        "error[A46]: dt has a unit, and the forcing has times without one, from 0.0 on.\n"
        "help: make them times: ds.assign_coords(time=ds.time * np.timedelta64(1, 's')).",
    ),
    "numbers and a date": (
        {"forcing": NUMBERS, "start": "2000-01-01"},
        "error[A46]: the loop has dates, from 2000-01-01T00:00:00 on, and the forcing has none.\n"
        "help: give the forcing dates, or leave out start and the date of the state.",
    ),
    "no labels": (
        {"forcing": FORCING.q.values},
        "error[A46]: the forcing has ndarray, whose dims have no names.\n"
        'help: name its dims: xr.DataArray(x, dims=("time", ...), coords={"time": times}).',
    ),
    "no coordinate": (
        {"forcing": FORCING.drop_vars("time")},
        "error[A46]: the forcing has no coordinate 'time', which says when its records are.\n"
        "help: give it one: x.assign_coords(time=...).",
    ),
    "no coordinate, since it is a field": (
        {"forcing": ti.as_field({"time": 3}, np.zeros(3))},
        "error[A46]: the forcing has no coordinate 'time', which says when its records are.\n"
        "help: make it a DataArray: xr.DataArray(x.data, dims=x.dims.names, coords={'time': times}).",
    ),
    "no dim": (
        {"forcing": FORCING.rename(time="t")},
        "error[A46]: the forcing has no dim 'time'.\nhelp: rename the dim of its times: ds.rename(t='time').",
    ),
    "not in order": (
        {"forcing": FORCING.isel(time=[1, 0, 2]), "start": "2000-01-01"},
        "error[A46]: the times of the forcing do not ascend.\nhelp: sort them: ds.sortby(\"time\").",
    ),
    "a time twice": (
        {"forcing": FORCING.isel(time=[0, 1, 1, 2]), "start": "2000-01-01"},
        "error[A46]: the forcing has the time 2000-02-01T00:00:00 twice.\n"
        'help: leave one of each: ds.drop_duplicates("time").',
    ),
    "no records": (
        {"forcing": FORCING.isel(time=slice(0, 0)), "start": "2000-01-01"},
        "error[A46]: the forcing has no records: its dim 'time' has no points.\nhelp: give it one at least.",
    ),
    "texts": (
        {"forcing": FORCING.assign_coords(time=[str(t)[:10] for t in DATES]), "start": "2000-01-01"},
        "error[A46]: the times of the forcing are texts, from 2000-01-01 on.\n"
        'help: make them dates: ds.assign_coords(time=ds.time.astype("datetime64[ns]")).',
    ),
    "texts as objects": (
        {"forcing": FORCING.assign_coords(time=np.array([str(t)[:10] for t in DATES], object)), "start": "2000-01-01"},
        "error[A46]: the times of the forcing are texts, from 2000-01-01 on.\n"
        'help: make them dates: ds.assign_coords(time=ds.time.astype("datetime64[ns]")).',
    ),
    "steps of a forecast": (
        {"forcing": FORECAST},
        "error[A46]: the forcing goes along 'step', the steps of a forecast, and has no dim 'time'.\n"
        "help: make their times the dim: ds.drop_vars('time', errors='ignore')"
        ".swap_dims(step='valid_time').rename(valid_time='time').",
    ),
    "steps alone": (
        {"forcing": FORECAST.drop_vars(["time", "valid_time"])},
        "error[A46]: the forcing goes along 'step', the steps of a forecast, and has no dim 'time'.\n"
        "help: make their times the dim: ds.drop_vars('time', errors='ignore').rename(step='time').",
    ),
    "a time that is none": (
        {"forcing": FORCING.assign_coords(time=[*DATES[:3], np.datetime64("NaT")]), "start": "2000-01-01"},
        "error[A46]: the forcing has times that are none (NaT).\nhelp: leave them out: ds.dropna(\"time\").",
    ),
    "different times": (
        {"forcing": [FORCING.q, FORCING.q[:3]], "start": "2000-01-01"},
        "error[A46]: the arrays of the forcing have different times.\nhelp: interpolate one to those of another.",
    ),
    "integers": (
        {"forcing": FORCING.q.astype("int32"), "start": "2000-01-01"},
        "error[A46]: the forcing has int32 along time, and only floats are interpolated.\n"
        'help: write forcing_method="held", or convert it: x.astype("float64").',
    ),
    "a method": (
        {"forcing_method": "cubic", "start": "2000-01-01"},
        "error[A19]: forcing_method is 'cubic'.\nhelp: it is \"linear\" or \"held\".",
    ),
    "labels": (
        {"forcing": FORCING.assign_coords(lat=[1.0, 2.0, 5.0]), "start": "2000-01-01"},
        "error[A20]: the step turns the state from lat[0:3], lon[0:2] into lat[0:2], lon[0:2].\n"
        "note: along lat the label 4.0 is gone: xarray's arithmetic keeps those that all operands have.\n"
        "help: a step keeps domains: ti.extend and ti.with_boundary put back what shifts take.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_forcing_that_says_nothing_of_the_steps_is_refused(case):
    options, message = REFUSED[case]
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.iterate(step, STATE, 60, **{"forcing": FORCING, "dt": "1 D", **options})
    assert str(refused.value) == message


def test_a_compiled_program_takes_a_forcing():
    run = lambda f: ti.iterate(step, STATE, 3, forcing=f, dt="1 D", start="2000-01-01")
    xr.testing.assert_allclose(ti.jit(run)(FORCING), run(FORCING), rtol=1e-14)
