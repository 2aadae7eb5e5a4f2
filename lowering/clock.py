"""The time axis of a loop: numbers of steps as elapsed times, or as dates of a calendar.

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.xarray_states import labelled_arrays
from tensorir.binding.arrays import refuse
from tensorir.binding.labels import calendar_of
from tensorir.runtime.errors import DiagnosticError

__all__ = ["Clock", "clock_of"]

UNITS = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
"""Of a time axis in a file, in nanoseconds."""

RESOLUTIONS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Of dates and lengths in memory, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How long a step is, a number or a `numpy.timedelta64`, and when the first one begins, if that has a date."""

    step: Any
    start: Any = None

    def at(self, steps: int) -> Any:
        """The time after some steps."""
        if self.start is None:
            return self.step * steps
        if isinstance(self.start, np.datetime64):
            return self.start + self.step * steps
        return self.start + datetime.timedelta(microseconds=_nanoseconds(self.step) * steps // 1000)  # of cftime

    @property
    def units(self) -> str | None:
        """Of the time axis in a file, so fine that all times are whole; None for plain numbers."""
        if not isinstance(self.step, np.timedelta64):
            return None
        parts = [_nanoseconds(self.step)]
        if isinstance(self.start, np.datetime64):
            parts.append(_nanoseconds(self.start))
        elif self.start is not None:
            parts.append(1000 * self.start.microsecond)
        unit = next(u for u, size in UNITS.items() if not any(n % size for n in parts))
        if self.start is None:
            return unit
        date = str(self.start)[:19].replace("T", " ")
        return f"{unit} since {date}"

    def dated(self, state: Any, steps: int) -> Any:
        """A state whose DataArrays have the date after some steps as a coordinate without dims."""
        if self.start is None:
            return state
        now = self.at(steps)

        def one(x: Any) -> Any:
            own = x.coords.get("time")
            if own is not None and own.dims:
                return x
            return x.assign_coords(time=((), now, {} if own is None else own.attrs))

        return labelled_arrays(one, state)


def clock_of(dt: Any, start: Any, state: Any, n: int = 0) -> Clock:
    """The clock of a loop of n steps; a state whose DataArrays have a date goes on from it.

    Raises A42 for what is no length of time or no date, for a date without a length in units of time, for arrays of
    several dates, and for dates that no resolution holds, and A44 for dates of several calendars.
    """
    step = _length(dt)
    if start is not None and not isinstance(step, np.timedelta64):
        raise refuse("A42", f"the start is {start}, and dt is {dt!r}, which has no unit.", 'give it one: dt="90 s".')
    if not isinstance(step, np.timedelta64):
        return Clock(step)
    date = _own_date(_dates(state)) if start is None else _date(start, _dates(state))
    length = _nanoseconds(step)
    if hasattr(date, "calendar"):
        if length % 1000:
            raise refuse(
                "A42", f"dt is {dt!r}, and dates of cftime count microseconds.", "make it a multiple of these."
            )
        try:
            Clock(step, date).at(n)
        except (OverflowError, ValueError):
            raise _too_far(n, dt, date) from None
        return Clock(step, date)
    begin = 0 if date is None else _nanoseconds(date)
    unit: Any = next((u for u in RESOLUTIONS if _held(u, length, begin, length * n, begin + length * n)), None)
    if unit is None:
        raise _too_far(n, dt, date)
    in_unit = length // RESOLUTIONS[unit]
    began = None if date is None else np.datetime64(begin // RESOLUTIONS[unit], unit)
    return Clock(np.timedelta64(in_unit, unit), began)


def _too_far(n: int, dt: Any, date: Any) -> DiagnosticError:
    where = "are more than a length of time holds" if date is None else f"from {date} end at no date that there is"
    return refuse("A42", f"{n:,} steps of {dt!r} {where}.", "make fewer or shorter ones, or give dt as a number.")


def _nanoseconds(time: Any) -> int:
    """A length or a date of NumPy in nanoseconds, dates from 1970."""
    unit = np.datetime_data(time.dtype)[0]
    size = {**RESOLUTIONS, "m": 60 * 10**9, "h": 3600 * 10**9, "D": 86400 * 10**9, "W": 7 * 86400 * 10**9}.get(unit)
    if size is None:  # months and years of dates
        return int(time.astype("datetime64[D]").astype(np.int64)) * 86400 * 10**9
    return int(time.astype(np.int64)) * size * np.datetime_data(time.dtype)[1]


def _held(unit: str, *nanoseconds: int) -> bool:
    size = RESOLUTIONS[unit]
    return all(not k % size and -(2**63) < k // size < 2**63 for k in nanoseconds)


def _dates(state: Any) -> dict[tuple[Any, str], Any]:
    """The dates that the DataArrays of a state have, by the moment and their calendar."""
    dates: dict[tuple[Any, str], Any] = {}

    def look(x: Any) -> Any:
        own = x.coords.get("time")
        if own is not None and not own.dims and own.dtype.kind in "MO":
            value = own.values[()]
            moment = _nanoseconds(value) if own.dtype.kind == "M" else value
            dates[moment, calendar_of(own.values.reshape(1))] = value
        return x

    labelled_arrays(look, state)
    return dates


def _own_date(dates: Mapping[tuple[Any, str], Any]) -> Any:
    """The date of a state."""
    calendars = sorted({calendar for _, calendar in dates})
    if len(calendars) > 1:
        told = f"the state has dates of the calendars {' and '.join(calendars)}."
        raise refuse("A44", told, "give all the same: x.assign_coords(time=...).")
    if len(dates) > 1:
        told = f"the state has the dates {' and '.join(sorted(str(date) for date in dates.values())[:2])}."
        raise refuse("A42", told, "give that of all, start=..., or x.assign_coords(time=...).")
    return next(iter(dates.values()), None)


def _length(dt: Any) -> Any:
    if isinstance(dt, (int, float, np.number)) and not isinstance(dt, (bool, np.timedelta64)):
        return dt
    import pandas as pd

    if isinstance(dt, np.timedelta64) and np.datetime_data(dt.dtype)[0] in ("W", "D", "h", "m", *RESOLUTIONS):
        found: Any = dt
    else:
        # pandas reads no more than 292 years, and counts of them are its units times a number
        counted = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]+)\s*", dt) if isinstance(dt, str) else None
        count, one = (1, dt) if counted is None else (int(counted[1]), f"1 {counted[2]}")
        try:
            length = count * _nanoseconds(pd.Timedelta(None if isinstance(dt, (bool, np.timedelta64)) else one).asm8)
            unit: Any = next((u for u in RESOLUTIONS if _held(u, length)), None)
            found = pd.NaT if unit is None else np.timedelta64(length // RESOLUTIONS[unit], unit)
        except (AttributeError, TypeError, ValueError, OverflowError):
            found = pd.NaT
    if isinstance(found, np.timedelta64) and not np.isnat(found):
        return found
    raise refuse("A42", f"dt is {dt!r}, which is no length of time.", 'write a number, or one with a unit: dt="90 s".')


def _date(start: Any, dates: Mapping[tuple[Any, str], Any]) -> Any:
    """The date that a loop starts at, in the calendar of the dates of its state."""
    found = start if hasattr(start, "calendar") and hasattr(start, "timetuple") else _date_of_numpy(start)
    calendar = calendar_of(np.array([found]))
    other = next((own for _, own in dates if own != calendar), None)
    if other is not None:
        told = f"the start {start} is a date of the calendar {calendar}, and the state has one of {other}."
        hint = f"write it in that calendar: cftime.datetime(2026, 1, 1, calendar='{other}')."
        raise refuse("A44", told, hint if other != "proleptic_gregorian" else 'write it as start="2026-01-01T12:00".')
    return found


def _date_of_numpy(start: Any) -> Any:
    try:
        found = start.to_datetime64() if hasattr(start, "to_datetime64") else np.datetime64(start)
    except (TypeError, ValueError):
        found = np.datetime64("NaT")
    if np.isnat(found):
        raise refuse("A42", f"the start is {start!r}, which is no date.", 'write it as start="2026-01-01T12:00".')
    return found
