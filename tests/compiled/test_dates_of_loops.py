"""Time loops with times and dates: axes in memory and in files, states that go on from their date, calendars."""

import datetime

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti

WARM = xr.DataArray([1.0, 2.0], dims="I", name="h", attrs={"units": "K"})


def double(x):
    return 2.0 * x


def run(n, state=WARM, every=2, **options):
    return ti.iterate(double, state, n, every=every, keep=True, progress=False, **options)


def numbers(dates):
    """Dates as xarray counts them."""
    return [str(d.astype("timedelta64[ns]") if isinstance(d, np.timedelta64) else d) for d in dates]


NOLEAP = cftime.DatetimeNoLeap(2000, 2, 28, 23, 59)
CLOCKS = {
    "times": ({"dt": "90 s"}, list(pd.to_timedelta([0, 180, 360], "s").values)),
    "a timedelta": ({"dt": datetime.timedelta(minutes=1)}, list(pd.to_timedelta([0, 120, 240], "s").values)),
    "dates": (
        {"dt": "12 h", "start": "2024-02-28"},
        list(pd.to_datetime(["2024-02-28", "2024-02-29", "2024-03-01"]).values.astype("datetime64[ns]")),
    ),
    "dates of Python": (
        {"dt": "12 h", "start": datetime.datetime(2024, 2, 28)},
        list(pd.to_datetime(["2024-02-28", "2024-02-29", "2024-03-01"]).values.astype("datetime64[ns]")),
    ),
    "a calendar without leap days": (
        {"dt": "90 s", "start": NOLEAP},
        [NOLEAP, cftime.DatetimeNoLeap(2000, 3, 1, 0, 2), cftime.DatetimeNoLeap(2000, 3, 1, 0, 5)],
    ),
    "parts of seconds": (
        {"dt": "1 s", "start": np.datetime64("2026-01-01T00:00:00.25")},
        list(pd.to_datetime([f"2026-01-01T00:00:0{k}.25" for k in (0, 2, 4)]).values.astype("datetime64[ns]")),
    ),
}


DAY = np.timedelta64(1, "D")
FAR = {
    "0001-01-01": (DAY, [0, 2, 4]),
    "1500-01-01": ("1 D", [0, 2, 4]),
    "3000-01-01": (datetime.timedelta(days=1), [0, 2, 4]),
    "2000-01-01": (np.timedelta64(36525, "D"), [0, 2 * 36525, 4 * 36525]),
    "2000": ("36525 D", [0, 2 * 36525, 4 * 36525]),
    None: (np.timedelta64(200_000, "D"), [0, 400_000, 800_000]),
}
"""Dates and lengths beyond those that 64 bits of nanoseconds hold, by their start, with the days of snapshots."""


@pytest.mark.parametrize("start", FAR)
@pytest.mark.parametrize("to", [None, "run.nc", "run.zarr"])
def test_dates_and_lengths_are_right_in_all_years(start, to, tmp_path):
    dt, days = FAR[start]
    last, kept = run(4, dt=dt, start=start, **({} if to is None else {"to": tmp_path / to}))
    begin = np.timedelta64(0, "D") if start is None else np.datetime64(start, "D")
    want = [begin + k * DAY for k in days]
    assert list(kept["time"].values) == want
    assert list(kept["time"].values.astype(want[0].dtype)) == want
    if start is not None:
        assert last["time"].values == want[-1]
        again, _ = run(2, last, dt=dt)
        assert again["time"].values == want[-1] + (want[1] - want[0])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_states_go_on_from_dates_of_every_resolution(unit):
    state = WARM.assign_coords(time=np.datetime64("2026-01-01T06", unit))
    assert ti.iterate(double, state, 2, dt="90 s", progress=False)["time"].values == np.datetime64("2026-01-01T06:03")
    both = xr.Dataset({"h": WARM}).assign_coords(time=np.datetime64("1026-01-01", "s"))
    assert ti.iterate(lambda s: s, both, 1, dt=DAY, progress=False)["time"].values == np.datetime64("1026-01-02")


@pytest.mark.parametrize("of", CLOCKS)
@pytest.mark.parametrize("to", [None, "run.nc", "run.zarr"])
def test_the_axis_of_a_loop_is_that_of_its_clock(of, to, tmp_path):
    options, want = CLOCKS[of]
    last, kept = run(4, **options, **({} if to is None else {"to": tmp_path / to}))
    assert list(kept["time"].values) == want
    np.testing.assert_array_equal(kept["h"], [[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
    assert ("time" in last.coords) == ("start" in options)
    if "start" in options:
        assert last["time"].item() == xr.DataArray(want[-1]).item()
    if to is not None:
        with xr.open_dataset(tmp_path / to, decode_timedelta=True) as file:
            assert numbers(file["time"].values) == numbers(want)


def test_a_loop_goes_on_from_the_date_of_its_state():
    state = xr.Dataset({"h": WARM, "u": 3 * WARM})
    first = ti.iterate(lambda s: s, state, 3, dt="1 h", start="2026-01-01", progress=False)
    assert str(first["time"].values) == "2026-01-01T03:00:00.000000000"
    seen = []
    look = lambda k, s: seen.append((k, str(s["h"]["time"].values)[11:16]))
    last, kept = run(2, first["h"], every=1, dt="30 min")
    assert [t[11:16] for t in numbers(kept["time"].values)] == ["03:00", "03:30", "04:00"]
    assert str(last["time"].values)[11:16] == "04:00" and last.attrs == WARM.attrs
    ti.iterate(lambda s: s, first, 2, every=1, dt="30 min", callback=look, progress=False)
    assert seen == [(1, "03:30"), (2, "04:00")]
    # a number has no unit, and says nothing of dates
    assert ti.iterate(double, first["h"], 1, dt=2.0, progress=False)["time"].equals(first["time"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"dt": "90"},
            "error[A42]: dt is '90', which is no length of time.\n"
            'help: write a number, or one with a unit: dt="90 s".',
        ),
        (
            {"dt": "1 MS"},
            "error[A42]: dt is '1 MS', which is no length of time.\n"
            'help: write a number, or one with a unit: dt="90 s".',
        ),
        (
            {"dt": float("nan")},
            'error[A42]: dt is nan, which is no length of time.\nhelp: write a number, or one with a unit: dt="90 s".',
        ),
        (
            {"dt": "90 foo"},
            "error[A42]: dt is '90 foo', which is no length of time.\n"
            'help: write a number, or one with a unit: dt="90 s".',
        ),
        (
            {"start": "2026-01-01"},
            'error[A42]: the start is 2026-01-01, and dt is 1, which has no unit.\nhelp: give it one: dt="90 s".',
        ),
        (
            {"dt": np.timedelta64(2**62, "D"), "start": "2026-01-01"},
            "error[A42]: 1 steps of np.timedelta64(4611686018427387904,'D') from 2026-01-01 end at no date that there "
            "is.\nhelp: make fewer or shorter ones, or give dt as a number.",
        ),
        (
            {"dt": "10000000 D", "start": cftime.DatetimeNoLeap(1, 1, 1), "n": 2**20},
            "error[A42]: 1,048,576 steps of '10000000 D' from 0001-01-01 00:00:00 end at no date that there is.\n"
            "help: make fewer or shorter ones, or give dt as a number.",
        ),
        (
            {"dt": "1 h", "start": "yesterday"},
            "error[A42]: the start is 'yesterday', which is no date.\nhelp: write it as start=\"2026-01-01T12:00\".",
        ),
        (
            {"dt": "10 ns", "start": NOLEAP},
            "error[A42]: dt is '10 ns', and dates of cftime count microseconds.\nhelp: make it a multiple of these.",
        ),
        (
            {"dt": "1 h", "state": [WARM.assign_coords(time=np.datetime64(f"2026-01-0{k}", "ns")) for k in (1, 2)]},
            "error[A42]: the state has the dates 2026-01-01T00:00:00.000000000 and 2026-01-02T00:00:00.000000000.\n"
            "help: give that of all, start=..., or x.assign_coords(time=...).",
        ),
        (
            {
                "dt": "1 h",
                "state": [
                    WARM.assign_coords(time=cftime.datetime(2026, 1, 1, calendar=c)) for c in ("noleap", "360_day")
                ],
            },
            "error[A44]: the state has dates of the calendars 360_day and noleap.\n"
            "help: give all the same: x.assign_coords(time=...).",
        ),
        (
            {"dt": "1 h", "start": "2026-01-01", "state": WARM.assign_coords(time=NOLEAP)},
            "error[A44]: the start 2026-01-01 is a date of the calendar proleptic_gregorian, and the state has one of "
            "noleap.\nhelp: write it in that calendar: cftime.datetime(2026, 1, 1, calendar='noleap').",
        ),
    ],
)
def test_what_is_no_time_is_named(options, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        run(**{"n": 1, **options})
    assert str(refused.value) == told
