"""The steps after which a record is due, beside the dates of pandas and of xarray in calendars of cftime."""

import datetime

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti
from lowering.loops.clock import clock_of, due_steps

START = "2026-01-15"


def dates_after(every, dt="12 h", n=400, start=START):
    clock = clock_of(dt, start, None, n)
    return [clock.at(k) for k in due_steps(every, clock, n)]


@pytest.mark.parametrize("every", ["MS", "2MS", "QS-DEC", "ME", "YS", "W-MON", "SMS", pd.offsets.MonthBegin(2)])
@pytest.mark.parametrize("start", [START, "1500-01-15", "2026-02-01"])
def test_a_frequency_has_the_dates_of_pandas(every, start):
    first = np.datetime64(start, "us")
    expected = pd.date_range(first, first + np.timedelta64(12 * 400, "h"), freq=every, unit="us")
    np.testing.assert_array_equal(np.array(dates_after(every, start=start), "datetime64[us]"), expected.values)


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian", "all_leap"])
@pytest.mark.parametrize("every", ["MS", "QS-DEC", "YS", pd.offsets.MonthBegin(2)])
def test_a_frequency_has_the_dates_of_xarray_in_any_calendar(calendar, every):
    start = cftime.datetime(1999, 11, 15, calendar=calendar)
    end = start + datetime.timedelta(hours=12 * 400)
    text = every if isinstance(every, str) else every.freqstr
    expected = xr.date_range(start, end, freq=text, calendar=calendar, use_cftime=True)
    assert dates_after(every, start=start) == list(expected)


@pytest.mark.parametrize(
    "every", ["1 D", "D", "24h", "1440 min", "1 day", pd.Timedelta("1D"), np.timedelta64(1, "D"), datetime.timedelta(1),
              pd.offsets.Day(), pd.offsets.Hour(24), 2, 2.0, np.int32(2)],
)  # fmt: skip
@pytest.mark.parametrize("start", ["2026-01-15T06:00", None, cftime.datetime(2000, 2, 28, calendar="noleap")])
def test_a_length_counts_from_the_start(every, start):
    assert list(due_steps(every, clock_of("12 h", start, None, 7), 7)) == [0, 2, 4, 6]


def test_a_frequency_is_at_midnight_whenever_the_loop_begins():
    found = dates_after("MS", start="2026-01-15T06:00", dt="6 h")
    assert [str(t)[:13] for t in found] == ["2026-02-01T00", "2026-03-01T00", "2026-04-01T00"]


DATES = ["2026-01-15", "2026-01-16T12:00", "2026-02-01"]


@pytest.mark.parametrize(
    "every",
    [
        DATES, tuple(DATES), np.array(DATES, "datetime64[ns]"), np.array(DATES, "datetime64[m]"),
        pd.DatetimeIndex(DATES), [pd.Timestamp(t) for t in DATES], [datetime.datetime.fromisoformat(t) for t in DATES],
        xr.DataArray(np.array(DATES, "datetime64[ns]"), dims="time"), DATES[::-1], [0, 3, 34],
        pd.to_timedelta(["0h", "36h", "17D"]),
    ],
)  # fmt: skip
def test_dates_are_taken_as_pandas_and_xarray_hold_them(every):
    assert list(due_steps(every, clock_of("12 h", START, None, 40), 40)) == [0, 3, 34]


def test_dates_of_a_calendar_are_those_of_the_loop():
    start = cftime.datetime(2000, 2, 28, calendar="360_day")
    clock = clock_of("1 D", start, None, 10)
    days = xr.date_range(start, periods=3, freq="2D", calendar="360_day", use_cftime=True)
    for every in (days, list(days), xr.DataArray(days, dims="time"), ["2000-02-28", "2000-02-30", "2000-03-02"]):
        assert list(due_steps(every, clock, 10)) == [0, 2, 4]


def test_a_loop_that_goes_back_in_time_has_its_dates_in_its_order():
    found = dates_after("MS", dt="-12 h", n=120)
    assert [str(t)[:10] for t in found] == ["2026-01-01", "2025-12-01"]


REFUSED = {
    "no number": ((0, "12 h", START), "every is 0, which is no number of steps.", "give 1 or more."),
    "true": ((True, "12 h", START), "every is True, which is no number of steps.", "give 1 or more."),
    "no frequency": (
        ("often", "12 h", START), "every is 'often', which is no number of steps, length, frequency or dates.",
        'write a number of steps, every="1 D", "MS", or dates.',
    ),
    "no multiple": (
        ("1 D", "7 h", START), "every is '1 D', which is no multiple of dt, 25200000000000 nanoseconds.",
        "make it one.",
    ),
    "no unit": (("1 D", 0.5, None), "every is '1 D', and dt is 0.5 without a unit.", 'write dt="90 s".'),
    "no dates": (
        ("MS", "1 D", None), "every is 'MS', and the loop has no dates.", 'say when it begins: start="2026-01-01".',
    ),
    "between": (
        (["2026-01-15T06:00"], "12 h", START),
        "every has 2026-01-15T06:00, between the steps 0 and 1, which goes from 2026-01-15T00:00:00.000000000 to "
        "2026-01-20T00:00:00.000000000 by 43200000000000 nanoseconds.",
        "give times at which a step ends.",
    ),
    "outside": (
        (["2027-01-15"], "12 h", START),
        "every has 2027-01-15, outside of the loop, which goes from 2026-01-15T00:00:00.000000000 to "
        "2026-01-20T00:00:00.000000000 by 43200000000000 nanoseconds.",
        "give times at which a step ends.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_says_no_steps_is_refused(case):
    (every, dt, start), message, help = REFUSED[case]
    with pytest.raises(ti.DiagnosticError) as refused:
        due_steps(every, clock_of(dt, start, None, 10), 10)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message, found.help) == ("A19", message, help)


def test_dates_of_another_calendar_are_refused():
    clock = clock_of("1 D", cftime.datetime(2000, 1, 1, calendar="noleap"), None, 10)
    with pytest.raises(ti.DiagnosticError, match=r"A19.*of datetime64, and the loop begins at 2000-01-01(.|\n)*noleap"):
        due_steps(np.array(["2000-01-02"], "datetime64[ns]"), clock, 10)


def test_a_frequency_that_xarray_has_no_dates_of_is_refused():
    clock = clock_of("1 D", cftime.datetime(1999, 11, 15, calendar="360_day"), None, 100)
    with pytest.raises(
        ti.DiagnosticError, match=r"A19.*no dates of the calendar 360_day(.|\n)*give the dates themselves"
    ):
        due_steps("ME", clock, 100)
    with pytest.raises(ti.DiagnosticError, match=r"A19.*'2000-01-31', which is no date of the calendar 360_day"):
        due_steps(["2000-01-31"], clock, 100)


def test_many_steps_take_no_memory():
    assert len(due_steps(1, clock_of("1 s", None, None, 10**9), 10**9)) == 10**9 + 1


H = xr.DataArray([1.0, 2.0], dims="I", name="h")


@pytest.mark.parametrize(
    ("every", "days"),
    [
        ("MS", [17, 45]), ("10 D", [0, 10, 20, 30, 40, 50, 60]), (["2026-01-20", "2026-02-01"], [5, 17]),
        (25, [0, 25, 50, 60]),
    ],
    ids=["months", "length", "dates", "steps"],
)  # fmt: skip
def test_a_loop_keeps_its_state_when_it_is_due_with_gradients_through_it(every, days):
    run = lambda h: ti.iterate(lambda h: h + 1.0, h, 60, every=every, keep=True, dt="1 D", start="2026-01-15")
    last, kept = run(H)
    assert list(kept.time.values) == [np.datetime64("2026-01-15") + d for d in days]
    np.testing.assert_array_equal(kept.h, H.values + np.array(days)[:, None])
    np.testing.assert_array_equal(last, H + 60.0)
    (total, inside), slope = ti.value_and_grad(lambda h: (run(h)[1].h.sum(), run(h)[1]), has_aux=True)(H)
    xr.testing.assert_identical(inside.drop_encoding(), kept.drop_encoding())
    assert total == kept.h.sum() and slope.values.tolist() == [len(days)] * 2


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize(("first", "last", "every"), [(3, 9, 2), (5, 7, 3), (2, 3, 5)])
def test_records_behind_a_resume_have_their_own_times(suffix, first, last, every, tmp_path):
    for n in (first, last):
        _, kept = ti.iterate(
            lambda h: h + 1.0, H, n, every=every, keep=True, dt="1 D", start="2001-01-01", progress=False,
            to=tmp_path / f"run{suffix}", checkpoint_dir=tmp_path,
        )  # fmt: skip
    days = sorted({*range(0, last + 1, every), last})
    assert list(kept.time.values.astype("datetime64[D]")) == [np.datetime64("2001-01-01") + d for d in days]
    np.testing.assert_array_equal(kept.h, H.values + np.array(days)[:, None])
