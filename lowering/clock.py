"""The time axis of a loop: numbers of steps as elapsed times, or as dates of a calendar.

>>> clock = clock_of("90 s", "2026-01-01", None)
>>> str(clock.at(2)), clock.units
('2026-01-01T00:03:00.000000000', 'seconds since 2026-01-01 00:00:00')
>>> clock_of(0.5, None, None).at(3)
1.5
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.xarray_states import labelled_arrays
from tensorir.binding.arrays import refuse
from tensorir.binding.labels import calendar_of

__all__ = ["Clock", "clock_of"]

UNITS = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
"""Of a time axis in a file, in nanoseconds."""


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
        nanoseconds = int(self.step.astype(np.int64)) * steps
        return self.start + datetime.timedelta(microseconds=nanoseconds // 1000)  # of cftime

    @property
    def units(self) -> str | None:
        """Of the time axis in a file, so fine that all times are whole; None for plain numbers."""
        if not isinstance(self.step, np.timedelta64):
            return None
        parts = [int(self.step.astype(np.int64))]
        if isinstance(self.start, np.datetime64):
            parts.append(int(self.start.astype(np.int64)))
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


def clock_of(dt: Any, start: Any, state: Any) -> Clock:
    """The clock of a loop; a state whose DataArrays have a date goes on from it.

    Raises A42 for what is no length of time or no date, for a date without a length in units of time, and for arrays
    of several dates, and A44 for dates of several calendars.
    """
    step = _length(dt)
    if start is not None and not isinstance(step, np.timedelta64):
        raise refuse("A42", f"the start is {start}, and dt is {dt!r}, which has no unit.", 'give it one: dt="90 s".')
    if not isinstance(step, np.timedelta64):
        return Clock(step)
    date = _own_date(_dates(state)) if start is None else _date(start, _dates(state))
    if hasattr(date, "calendar") and int(step.astype(np.int64)) % 1000:
        raise refuse("A42", f"dt is {dt!r}, and dates of cftime count microseconds.", "make it a multiple of these.")
    return Clock(step, date)


def _dates(state: Any) -> dict[tuple[str, str], Any]:
    """The dates that the DataArrays of a state have, by how they are written and their calendar."""
    dates: dict[tuple[str, str], Any] = {}

    def look(x: Any) -> Any:
        own = x.coords.get("time")
        if own is not None and not own.dims and own.dtype.kind in "MO":
            value = own.values[()]
            dates[str(value), calendar_of(own.values.reshape(1))] = (
                value.astype("datetime64[ns]") if own.dtype.kind == "M" else value
            )
        return x

    labelled_arrays(look, state)
    return dates


def _own_date(dates: Mapping[tuple[str, str], Any]) -> Any:
    """The date of a state."""
    calendars = sorted({calendar for _, calendar in dates})
    if len(calendars) > 1:
        told = f"the state has dates of the calendars {' and '.join(calendars)}."
        raise refuse("A44", told, "give all the same: x.assign_coords(time=...).")
    if len(dates) > 1:
        told = f"the state has the dates {' and '.join(sorted(date for date, _ in dates)[:2])}."
        raise refuse("A42", told, "give that of all, start=..., or x.assign_coords(time=...).")
    return next(iter(dates.values()), None)


def _length(dt: Any) -> Any:
    if isinstance(dt, (int, float, np.number)) and not isinstance(dt, (bool, np.timedelta64)):
        return dt
    import pandas as pd

    try:
        found = pd.Timedelta(dt)
    except (TypeError, ValueError):
        found = pd.NaT
    if isinstance(found, pd.Timedelta) and not isinstance(dt, bool):
        return np.timedelta64(found.value, "ns")
    raise refuse("A42", f"dt is {dt!r}, which is no length of time.", 'write a number, or one with a unit: dt="90 s".')


def _date(start: Any, dates: Mapping[tuple[str, str], Any]) -> Any:
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
        found = np.datetime64(start, "ns")
    except (TypeError, ValueError):
        found = np.datetime64("NaT", "ns")
    if np.isnat(found):
        raise refuse("A42", f"the start is {start!r}, which is no date.", 'write it as start="2026-01-01T12:00".')
    return found
