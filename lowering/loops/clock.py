"""The clock of a time loop: numbers of steps as elapsed times, or as dates of a calendar.

Lengths and dates of NumPy are counted in nanoseconds, in whole numbers of any size, and have the finest unit of NumPy's
that holds all of them to the end of the loop: dates of the year 1500 have microseconds.

>>> clock = clock_of("90 s", "2026-01-01", None)
>>> str(clock.at(2)), clock.units
('2026-01-01T00:03:00.000000000', 'seconds since 2026-01-01 00:00:00')
>>> str(clock_of("1 D", "1500-01-01", None).at(2))
'1500-01-03T00:00:00.000000'
>>> clock_of(0.5, None, None).at(3)
1.5
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.loops.states import labelled_arrays
from tensorir.binding.labels import calendar_of
from tensorir.runtime.errors import DiagnosticError, refuse

UNITS = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
"""Of a time axis in a file, in nanoseconds."""

RESOLUTIONS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Of dates and lengths in memory, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The length of a step, a number or a `numpy.timedelta64`, and the start of the first one, if that has a date."""

    step: Any
    start: Any = None

    def at(self, steps: int) -> Any:
        """The time after so many steps: a number, a length, or a date of NumPy or cftime."""
        if self.start is None:
            return self.step * steps
        if isinstance(self.start, np.datetime64):
            return self.start + self.step * steps
        return self.start + datetime.timedelta(microseconds=nanoseconds(self.step) * steps // 1000)  # of cftime

    @property
    def units(self) -> str | None:
        """The CF units of the time axis ('hours since …' or a unit alone), so fine that all times are whole; None
        for plain numbers.
        """
        if not isinstance(self.step, np.timedelta64):
            return None
        parts = [nanoseconds(self.step)]
        if isinstance(self.start, np.datetime64):
            parts.append(nanoseconds(self.start))
        elif self.start is not None:
            parts.append(1000 * self.start.microsecond)
        unit = next(u for u, size in UNITS.items() if not any(n % size for n in parts))
        if self.start is None:
            return unit
        date = str(self.start)[:19].replace("T", " ")
        return f"{unit} since {date}"

    def dated(self, state: Any, steps: int) -> Any:
        """The state, its DataArrays and Datasets with the date after so many steps as the coordinate `time` without
        dims.

        Unchanged if the clock has no dates; arrays with a dim `time` keep that.
        """
        if self.start is None:
            return state
        now = self.at(steps)

        def one(x: Any) -> Any:
            """One array with the date."""
            date = x.coords.get("time")
            if date is not None and date.dims:
                return x
            return x.assign_coords(time=((), now, {} if date is None else date.attrs))

        return labelled_arrays(one, state)


def clock_of(dt: Any, start: Any, state: Any, n: int = 0) -> Clock:
    """The clock of a loop of n steps of length `dt` from the date `start`, or else from the one date that the
    state's arrays have.

    Raises A42 if dt is no length of time, if start is no date or dt has no unit, for arrays of several dates and for
    dates that no resolution holds, and A44 for dates of several calendars.
    """
    step = _step_length(dt)
    if start is not None and not isinstance(step, np.timedelta64):
        raise refuse("A42", f"the start is {start}, and dt is {dt!r}, which has no unit.", 'give it one: dt="90 s".')
    if not isinstance(step, np.timedelta64):
        return Clock(step)
    date = _common_date(_dates(state)) if start is None else _start_date(start, _dates(state))
    length = nanoseconds(step)
    if hasattr(date, "calendar"):
        if length % 1000:
            message = f"dt is {dt!r}, and dates of cftime count microseconds."
            raise refuse("A42", message, "make it a multiple of these.")
        try:
            Clock(step, date).at(n)
        except (OverflowError, ValueError):
            raise _too_far(n, dt, date) from None
        return Clock(step, date)
    begin = 0 if date is None else nanoseconds(date)
    unit: Any = next((u for u in RESOLUTIONS if _fits(u, length, begin, length * n, begin + length * n)), None)
    if unit is None:
        raise _too_far(n, dt, date)
    in_unit = length // RESOLUTIONS[unit]
    began = None if date is None else np.datetime64(begin // RESOLUTIONS[unit], unit)
    return Clock(np.timedelta64(in_unit, unit), began)


def _too_far(n: int, dt: Any, date: Any) -> DiagnosticError:
    """The error A42 for a loop whose end cannot be represented."""
    where = "are more than a length of time holds" if date is None else f"from {date} end at no date that there is"
    return refuse("A42", f"{n:,} steps of {dt!r} {where}.", "make fewer or shorter ones, or give dt as a number.")


def nanoseconds(time: Any) -> int:
    """A length, or the time of a date since 1970, of NumPy, as an exact number of nanoseconds."""
    unit = np.datetime_data(time.dtype)[0]
    size = {**RESOLUTIONS, "m": 60 * 10**9, "h": 3600 * 10**9, "D": 86400 * 10**9, "W": 7 * 86400 * 10**9}.get(unit)
    if size is None:  # months and years of dates
        return int(time.astype("datetime64[D]").astype(np.int64)) * 86400 * 10**9
    return int(time.astype(np.int64)) * size * np.datetime_data(time.dtype)[1]


def _fits(unit: str, *nanoseconds: int) -> bool:
    """True if all the numbers are whole in a unit of `RESOLUTIONS`, and fit 64 bits in it."""
    size = RESOLUTIONS[unit]
    return all(not k % size and -(2**63) < k // size < 2**63 for k in nanoseconds)


def _dates(state: Any) -> dict[tuple[Any, str], Any]:
    """The dates that the DataArrays of a state have as a coordinate without dims, by moment and calendar."""
    dates: dict[tuple[Any, str], Any] = {}

    def look(x: Any) -> Any:
        """Enter the date of one array, which is returned unchanged."""
        date = x.coords.get("time")
        if date is not None and not date.dims and date.dtype.kind in "MO":
            value = date.values[()]
            moment = nanoseconds(value) if date.dtype.kind == "M" else value
            dates[moment, calendar_of(date.values.reshape(1))] = value
        return x

    labelled_arrays(look, state)
    return dates


def _common_date(dates: Mapping[tuple[Any, str], Any]) -> Any:
    """The one date of a state, None if it has none; raises A42 for several dates, A44 for several calendars."""
    calendars = sorted({calendar for _, calendar in dates})
    if len(calendars) > 1:
        message = f"the state has dates of the calendars {' and '.join(calendars)}."
        raise refuse("A44", message, "give all the same: x.assign_coords(time=...).")
    if len(dates) > 1:
        message = f"the state has the dates {' and '.join(sorted(str(date) for date in dates.values())[:2])}."
        raise refuse("A42", message, "give that of all, start=..., or x.assign_coords(time=...).")
    return next(iter(dates.values()), None)


def _step_length(dt: Any) -> Any:
    """The length of a step as a plain number, or as a `numpy.timedelta64` in the finest unit that holds it; raises
    A42 for others.

    Accepts numbers, lengths of NumPy and Python, and texts such as "90 s" or "1000 D", which may exceed pandas' 292
    years.
    """
    if isinstance(dt, (int, float, np.number)) and not isinstance(dt, (bool, np.timedelta64)) and np.isfinite(dt):
        return dt
    import pandas as pd

    if isinstance(dt, np.timedelta64) and np.datetime_data(dt.dtype)[0] in ("W", "D", "h", "m", *RESOLUTIONS):
        step: Any = dt
    else:
        # pandas reads no more than 292 years, and counts of them are its units times a number
        counted = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]+)\s*", dt) if isinstance(dt, str) else None
        count, unit_text = (1, dt) if counted is None else (int(counted[1]), f"1 {counted[2]}")
        try:
            # pandas takes numbers, and texts of a number alone, for nanoseconds, and MS, the start of a month, for ms
            is_bare = isinstance(dt, (bool, float, np.number)) or str(unit_text).strip().replace("_", "").isdigit()
            length = count * nanoseconds(pd.Timedelta(None if is_bare or unit_text == "1 MS" else unit_text).asm8)
            unit: Any = next((u for u in RESOLUTIONS if _fits(u, length)), None)
            step = pd.NaT if unit is None else np.timedelta64(length // RESOLUTIONS[unit], unit)
        except (AttributeError, TypeError, ValueError, OverflowError):
            step = pd.NaT
    if isinstance(step, np.timedelta64) and not np.isnat(step):
        return step
    raise refuse("A42", f"dt is {dt!r}, which is no length of time.", 'write a number, or one with a unit: dt="90 s".')


def _start_date(start: Any, dates: Mapping[tuple[Any, str], Any]) -> Any:
    """The date at which a loop starts, which must have the calendar of the state's `dates`; raises A42 or A44."""
    date = start if hasattr(start, "calendar") and hasattr(start, "timetuple") else _date_of_numpy(start)
    calendar = calendar_of(np.array([date]))
    other = next((theirs for _, theirs in dates if theirs != calendar), None)
    if other is not None:
        message = f"the start {start} is a date of the calendar {calendar}, and the state has one of {other}."
        hint = f"write it in that calendar: cftime.datetime(2026, 1, 1, calendar='{other}')."
        if other == "proleptic_gregorian":
            hint = 'write it as start="2026-01-01T12:00".'
        raise refuse("A44", message, hint)
    return date


def _date_of_numpy(start: Any) -> Any:
    """A date of pandas, Python or a text as `numpy.datetime64`; raises A42 for anything else."""
    try:
        date = start.to_datetime64() if hasattr(start, "to_datetime64") else np.datetime64(start)
    except (TypeError, ValueError):
        date = np.datetime64("NaT")
    if np.isnat(date):
        raise refuse("A42", f"the start is {start!r}, which is no date.", 'write it as start="2026-01-01T12:00".')
    return date


# Steps after which a record is due: as numbers of steps, lengths, frequencies of pandas and xarray, and dates say.


def due_steps(every: Any, clock: Clock, n: int) -> Sequence[int]:
    """The numbers of steps, of 0 to n in ascending order, after which a record is due.

    `every` is a number of steps; a length of time ("1 D", a timedelta), counted from the start; a frequency ("MS",
    "QS-DEC", an offset of pandas), whose dates are at midnight; or dates, lengths from the start, or numbers of steps,
    in an array, an index or a list. Dates as texts are of the calendar of the clock. Raises A19 for anything else, for
    dates between two steps or outside of the loop, and for lengths and dates if the clock has none.

    >>> clock = clock_of("12 h", "2026-01-30", None)
    >>> list(due_steps(3, clock, 10)), list(due_steps("1 D", clock, 5)), list(due_steps("MS", clock, 90))
    ([0, 3, 6, 9], [0, 2, 4], [4, 60])
    >>> list(due_steps(["2026-01-31", "2026-02-02T12:00"], clock, 10))
    [2, 7]
    """
    if isinstance(every, (int, float, np.number)) and not isinstance(every, np.timedelta64):
        if isinstance(every, bool) or not float(every).is_integer() or every < 1:
            raise refuse("A19", f"every is {every!r}, which is no number of steps.", "give 1 or more.")
        return range(0, n + 1, int(every))
    offset = _offset(every)
    if offset is None and not isinstance(every, (str, np.timedelta64, datetime.timedelta)):
        return _steps_at(_listed_times(every, clock), every, clock, n)
    length = nanoseconds_of(every if offset is None else offset)
    if length is None and offset is None:
        hint = 'write a number of steps, every="1 D", "MS", or dates.'
        raise refuse("A19", f"every is {every!r}, which is no number of steps, length, frequency or dates.", hint)
    if not isinstance(clock.step, np.timedelta64):
        raise refuse("A19", f"every is {every!r}, and dt is {clock.step!r} without a unit.", 'write dt="90 s".')
    if length is None:
        return _steps_at(_dates_of(offset, every, clock, n), every, clock, n)
    count, remainder = divmod(length, abs(nanoseconds(clock.step)))
    if remainder or not count:
        raise refuse("A19", f"every is {every!r}, which is no multiple of dt, {clock.step}.", "make it one.")
    return range(0, n + 1, count)


def _offset(every: Any) -> Any:
    """The pandas offset of a frequency such as "MS"; None for a text that is no frequency, and for other values."""
    import pandas as pd

    if not isinstance(every, (str, pd.offsets.BaseOffset)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old spellings, which some versions of pandas warn of
        try:
            return pd.tseries.frequencies.to_offset(every)
        except ValueError:
            return None


def nanoseconds_of(every: Any) -> int | None:
    """The nanoseconds of a length of time or of an offset with a fixed length; None for anything else."""
    import pandas as pd

    if isinstance(every, pd.offsets.Day):  # a length of no fixed number of hours in some versions
        return every.n * 86400 * 10**9
    if isinstance(every, pd.offsets.BaseOffset):
        return every.nanos if isinstance(every, pd.offsets.Tick) else None
    try:
        return nanoseconds(_step_length(every))
    except DiagnosticError:
        return None


def _listed_times(every: Any, clock: Clock) -> list[Any]:
    """The times in `every` (an array, an index, a list or a single one), as dates of the kind of the clock's.

    Texts are parsed in the calendar of the clock's start; raises A19 for one that is no date there.
    """
    values = getattr(every, "values", every)
    try:
        listed = list(values)
    except TypeError:
        listed = [values]
    if hasattr(clock.start, "calendar"):
        listed = [_date_in(x, clock.start) if isinstance(x, str) else x for x in listed]
    return [_date_of_numpy(x) if isinstance(x, (str, datetime.date)) else x for x in listed]


def _date_in(text: str, start: Any) -> Any:
    """A text as a cftime date in the calendar of `start`; raises A19 if it is no date there."""
    try:
        return type(start)(*map(int, re.split("[-T: ]", text)), calendar=start.calendar)
    except (TypeError, ValueError):
        message = f"every has {text!r}, which is no date of the calendar {start.calendar}."
        raise refuse("A19", message, 'write it as "2026-01-01T12:00".') from None


def _dates_of(offset: Any, every: Any, clock: Clock, n: int) -> list[Any]:
    """The dates of a frequency from the start to the end of a loop of n steps; raises A19 if the loop has no dates.

    `offset`: the frequency as an offset of pandas; `every`: as the caller gave it.
    """
    import pandas as pd
    import xarray as xr

    if clock.start is None:
        message = f"every is {every!r}, and the loop has no dates."
        raise refuse("A19", message, 'say when it begins: start="2026-01-01".')
    earliest, latest = sorted((clock.start, clock.at(n)))
    if isinstance(clock.start, np.datetime64):
        # in microseconds, which hold dates that nanoseconds do not
        ends = (pd.Timestamp(t.astype("datetime64[us]")) for t in (earliest, latest))
        dates = list(pd.date_range(*ends, freq=offset, normalize=True, unit="us").values)
    else:
        calendar = clock.start.calendar
        text = every if isinstance(every, str) else offset.freqstr
        try:
            dates = list(xr.date_range(earliest, latest, freq=text, normalize=True, calendar=calendar, use_cftime=True))
        except ValueError as problem:
            message = f"every is {every!r}, of which xarray makes no dates of the calendar {calendar}: {problem}."
            raise refuse("A19", message, "give the dates themselves.") from None
    return [t for t in dates if earliest <= t <= latest]


def _steps_at(times: list[Any], every: Any, clock: Clock, n: int) -> list[int]:
    """The numbers of steps after which the loop is at the times, ascending; raises A19 for times at which no step
    ends.
    """
    due: set[int] = set()
    for moment in times:
        steps, remainder = _steps_to(moment, every, clock)
        if remainder or not 0 <= steps <= n:
            where = (
                f"between the steps {steps} and {steps + 1}" if remainder and 0 <= steps < n else "outside of the loop"
            )
            message = f"every has {moment}, {where}, which goes from {clock.at(0)} to {clock.at(n)} by {clock.step}."
            raise refuse("A19", message, "give times at which a step ends.")
        due.add(steps)
    return sorted(due)


def _steps_to(time: Any, every: Any, clock: Clock) -> tuple[int, int]:
    """The number of steps from the start to a time, and the remainder in nanoseconds; raises A19 for a time of
    another kind.
    """
    if isinstance(time, (int, np.integer)) and not isinstance(time, (bool, np.timedelta64)):
        return int(time), 0
    if isinstance(clock.step, np.timedelta64):
        length = nanoseconds(clock.step)
        if isinstance(time, (np.timedelta64, datetime.timedelta)):
            return divmod(nanoseconds(_step_length(time)), length)
        if isinstance(time, np.datetime64) and isinstance(clock.start, np.datetime64):
            return divmod(nanoseconds(time) - nanoseconds(clock.start), length)
        if (calendar := getattr(clock.start, "calendar", None)) and calendar == getattr(time, "calendar", None):
            return divmod((time - clock.start) // datetime.timedelta(microseconds=1) * 1000, length)
    begins = "has no dates" if clock.start is None else f"begins at {clock.start}"
    calendar = calendar_of(np.array([clock.start]))
    of_calendar = f" of the calendar {calendar}" if calendar else ""
    message = f"every is {every!r}, of {type(time).__name__}, and the loop {begins}{of_calendar}."
    raise refuse("A19", message, "give times of its kind, or a number of steps.")
