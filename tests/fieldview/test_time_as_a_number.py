"""Dates as numbers: `ti.coord(t, "time", units=...)`, derivatives by time over unequal months, calendars of cftime."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

TIME = ti.Dimension("time")
MONTHS = np.array(["2000-01-01", "2000-02-01", "2000-03-01", "2000-04-01"], "datetime64[ns]")
T = xr.DataArray(np.arange(4.0) ** 2, dims="time", coords={"time": MONTHS}, name="t", attrs={"units": "K"})
OTHER = T.assign_coords(time=xr.date_range("2000-01-01", periods=4, freq="MS", calendar="360_day", use_cftime=True))


@ti.field_operator
def rate(t):
    days = ti.coord(t, "time", units="days since 2000-01-01")
    return (t(TIME + 1) - t) / (days(TIME + 1) - days)


@pytest.mark.parametrize(("t", "days"), [(T, [31, 29, 31]), (OTHER, [30, 30, 30])], ids=["numpy", "360_day"])
def test_a_derivative_by_time_divides_by_the_lengths_of_months(t, days):
    found = rate(t)
    np.testing.assert_allclose(found, np.diff(T.values) / days, rtol=1e-14)
    assert found.attrs == {"units": "K days-1"} and list(found.time.values) == list(t.time.values[:-1])


@pytest.mark.parametrize("units", ["hours since 2000-01-01", "seconds since 1999-12-31 12:00"])
def test_numbers_are_those_of_xarray(units):
    expected = xr.coding.times.encode_cf_datetime(MONTHS, units)[0]
    np.testing.assert_allclose(ti.coord(T, "time", units=units), expected, rtol=1e-13)
    inside = ti.field_operator(lambda t: 0.0 * t + ti.coord(t, "time", units=units))(T)
    np.testing.assert_allclose(inside, expected, rtol=1e-13)


@pytest.mark.parametrize("t", [T, OTHER], ids=["numpy", "360_day"])
def test_loops_gradients_and_blocks_know_dates(t):
    days = ti.coord(t, "time", units="days since 2000-01-01").values

    @ti.field_operator
    def aged(t):
        return t + ti.coord(t, "time", units="days since 2000-01-01")

    np.testing.assert_allclose(ti.iterate(aged, t.drop_attrs(), 2), t.values + 2.0 * days)
    weights = 1.0 / np.diff(days)
    slope = ti.grad(lambda t: rate(t).sum())(t)
    np.testing.assert_allclose(slope, np.append(-weights, 0.0) + np.append(0.0, weights), rtol=1e-12)
    np.testing.assert_allclose(ti.map_blocks(rate, t.chunk(time=2)).compute(), rate(t))


@pytest.mark.parametrize("t", [T, OTHER], ids=["numpy", "360_day"])
def test_an_operator_that_asks_for_the_time_reads_neighbours_along_months_however_it_gets_it(t):
    days = ti.coord(t, "time", units="days since 2000-01-01")
    expected = np.diff(T.values) / np.diff(days)
    by_argument = ti.field_operator(lambda t, days: (t(TIME + 1) - t) / (days(TIME + 1) - days))
    np.testing.assert_allclose(by_argument(t, days), expected, rtol=1e-14)

    @ti.field_operator
    def beside_a_number_of_its_name(t, time):
        days = ti.coord(t, "time", units="days since 2000-01-01")
        return time * (t(TIME + 1) - t) / (days(TIME + 1) - days)

    np.testing.assert_allclose(beside_a_number_of_its_name(t, 2.0), 2.0 * expected, rtol=1e-14)
    other = ti.Dimension("valid time")

    @ti.field_operator
    def along_another_name(t):
        days = ti.coord(t, "valid time", units="days since 2000-01-01")
        return (t(other + 1) - t) / (days(other + 1) - days)

    np.testing.assert_allclose(along_another_name(t.rename({"time": "valid time"})), expected, rtol=1e-14)
    with pytest.raises(ti.DiagnosticError, match="A27"):
        by_argument(T, ti.coord(T, "time", units="days since 2000-01-01").rename("lengths"))


def test_a_program_that_does_not_read_the_dates_is_still_refused():
    with pytest.raises(ti.DiagnosticError, match="A27"):
        ti.field_operator(lambda t: t(TIME + 1) - t)(T)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("days", "'days' are no units of time since a date."),
        ("furlongs since 2000-01-01", "'furlongs since 2000-01-01' are no units of time since a date."),
        ("days since noon", "'noon' is no date"),
    ],
)
def test_units_that_are_none_are_refused(units, message):
    with pytest.raises(ti.DiagnosticError, match="V37") as refused:
        ti.field_operator(lambda t: t * ti.coord(t, "time", units=units))(T)
    assert message in str(refused.value)


def test_numbers_have_no_dates():
    with pytest.raises(ti.DiagnosticError, match="holds int64, and no dates"):
        ti.coord(T.assign_coords(time=np.arange(4)), "time", units="days since 2000-01-01")
