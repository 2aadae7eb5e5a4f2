"""Files of a time loop: times and dates, snapshots in NetCDF and Zarr, checkpoints.

The time axis of a loop: numbers of steps as elapsed times, or as dates of a calendar.

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
import importlib.util
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lowering.distribution.meshes import on_host
from lowering.labelled import numbers, with_numbers
from lowering.loops.states import labelled_arrays, left, names_of, stacked_dataset
from tensorir.binding.arrays import PACKING
from tensorir.binding.labels import calendar_of
from tensorir.runtime.errors import DiagnosticError, refuse

# Stores of Zarr whose failures are told once.
#
# Chunks are written side by side. Zarr raises at the first one that finds no room, while others are still being
# written: they would come after what is done about the failure, each with a traceback of its own.


def to_zarr(dataset: Any, path: str | Path, **options: Any) -> None:
    """`dataset.to_zarr`; raises the first OSError when nothing of it is under way any more."""
    with store(path) as found:
        dataset.to_zarr(found, **options)


@contextmanager
def store(path: str | Path) -> Iterator[Any]:
    """A store to write to; raises the first OSError at the end, when nothing is under way any more."""
    from zarr.storage import LocalStore

    failures: list[OSError] = []

    class Store(LocalStore):
        async def set(self, key: str, value: Any) -> None:
            if failures:
                return
            try:
                await super().set(key, value)
            except OSError as failure:
                failures.append(failure)

    try:
        yield Store(Path(path))
    except Exception:
        # what comes of a part that was not written is no news
        if not failures:
            raise
    if failures:
        raise failures[0]


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
        """The time after some steps."""
        if self.start is None:
            return self.step * steps
        if isinstance(self.start, np.datetime64):
            return self.start + self.step * steps
        return self.start + datetime.timedelta(microseconds=nanoseconds(self.step) * steps // 1000)  # of cftime

    @property
    def units(self) -> str | None:
        """Of the time axis in a file, so fine that all times are whole; None for plain numbers."""
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
    length = nanoseconds(step)
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
    begin = 0 if date is None else nanoseconds(date)
    unit: Any = next((u for u in RESOLUTIONS if _held(u, length, begin, length * n, begin + length * n)), None)
    if unit is None:
        raise _too_far(n, dt, date)
    in_unit = length // RESOLUTIONS[unit]
    began = None if date is None else np.datetime64(begin // RESOLUTIONS[unit], unit)
    return Clock(np.timedelta64(in_unit, unit), began)


def _too_far(n: int, dt: Any, date: Any) -> DiagnosticError:
    where = "are more than a length of time holds" if date is None else f"from {date} end at no date that there is"
    return refuse("A42", f"{n:,} steps of {dt!r} {where}.", "make fewer or shorter ones, or give dt as a number.")


def nanoseconds(time: Any) -> int:
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
            moment = nanoseconds(value) if own.dtype.kind == "M" else value
            dates[moment, calendar_of(own.values.reshape(1))] = value
        return x

    labelled_arrays(look, state)
    return dates


def _own_date(dates: Mapping[tuple[Any, str], Any]) -> Any:
    """The date of a state."""
    calendars = sorted({calendar for _, calendar in dates})
    if len(calendars) > 1:
        message = f"the state has dates of the calendars {' and '.join(calendars)}."
        raise refuse("A44", message, "give all the same: x.assign_coords(time=...).")
    if len(dates) > 1:
        message = f"the state has the dates {' and '.join(sorted(str(date) for date in dates.values())[:2])}."
        raise refuse("A42", message, "give that of all, start=..., or x.assign_coords(time=...).")
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
            length = count * nanoseconds(pd.Timedelta(None if isinstance(dt, (bool, np.timedelta64)) else one).asm8)
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
        message = f"the start {start} is a date of the calendar {calendar}, and the state has one of {other}."
        hint = f"write it in that calendar: cftime.datetime(2026, 1, 1, calendar='{other}')."
        raise refuse(
            "A44", message, hint if other != "proleptic_gregorian" else 'write it as start="2026-01-01T12:00".'
        )
    return found


def _date_of_numpy(start: Any) -> Any:
    try:
        found = start.to_datetime64() if hasattr(start, "to_datetime64") else np.datetime64(start)
    except (TypeError, ValueError):
        found = np.datetime64("NaT")
    if np.isnat(found):
        raise refuse("A42", f"the start is {start!r}, which is no date.", 'write it as start="2026-01-01T12:00".')
    return found


# Steps after which a record is due: as numbers of steps, lengths, frequencies of pandas and xarray, and dates say.


def due_steps(every: Any, clock: Clock, n: int) -> Sequence[int]:
    """The numbers of steps, of 0 to n in ascending order, after which a record is due.

    `every` is a number of steps; a length of time ("1 D", a timedelta), counted from the start; a frequency ("MS",
    "QS-DEC", an offset of pandas), whose dates are at midnight; or dates, in an array, an index or a list, and as texts
    in the calendar of the clock, or lengths from the start, or numbers of steps. Raises A19 for anything else, for
    dates between two steps or outside of the loop, and for lengths and dates where the clock has none.

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
        return _steps_at(_axis(every, clock), every, clock, n)
    length = nanoseconds_of(every if offset is None else offset)
    if length is None and offset is None:
        hint = 'write a number of steps, every="1 D", "MS", or dates.'
        raise refuse("A19", f"every is {every!r}, which is no number of steps, length, frequency or dates.", hint)
    if not isinstance(clock.step, np.timedelta64):
        raise refuse("A19", f"every is {every!r}, and dt is {clock.step!r} without a unit.", 'write dt="90 s".')
    if length is None:
        return _steps_at(_dates_of(offset, every, clock, n), every, clock, n)
    count, rest = divmod(length, abs(nanoseconds(clock.step)))
    if rest or not count:
        raise refuse("A19", f"every is {every!r}, which is no multiple of dt, {clock.step}.", "make it one.")
    return range(0, n + 1, count)


def _offset(every: Any) -> Any:
    """A frequency as an offset of pandas; None for what is none."""
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
    """The nanoseconds of a length, of an offset of as many as that; None for others."""
    import pandas as pd

    if isinstance(every, pd.offsets.Day):  # a length of no fixed number of hours in some versions
        return every.n * 86400 * 10**9
    if isinstance(every, pd.offsets.BaseOffset):
        return every.nanos if isinstance(every, pd.offsets.Tick) else None
    try:
        return nanoseconds(_length(every))
    except DiagnosticError:
        return None


def _axis(every: Any, clock: Clock) -> list[Any]:
    """The times in an array, an index or a list; texts are dates of the calendar of the clock."""
    values = getattr(every, "values", every)
    try:
        listed = list(values)
    except TypeError:
        listed = [values]
    if hasattr(clock.start, "calendar"):
        listed = [_date_in(x, clock.start) if isinstance(x, str) else x for x in listed]
    return [_date_of_numpy(x) if isinstance(x, (str, datetime.date)) else x for x in listed]


def _date_in(text: str, start: Any) -> Any:
    """A date in the calendar of another one, of cftime."""
    try:
        return type(start)(*map(int, re.split("[-T: ]", text)), calendar=start.calendar)
    except (TypeError, ValueError):
        message = f"every has {text!r}, which is no date of the calendar {start.calendar}."
        raise refuse("A19", message, 'write it as "2026-01-01T12:00".') from None


def _dates_of(offset: Any, every: Any, clock: Clock, n: int) -> list[Any]:
    """The dates of a frequency between the start and the end of a loop."""
    import pandas as pd
    import xarray as xr

    if clock.start is None:
        raise refuse(
            "A19", f"every is {every!r}, and the loop has no dates.", 'say when it begins: start="2026-01-01".'
        )
    first, last = sorted((clock.start, clock.at(n)))
    if isinstance(clock.start, np.datetime64):
        # in microseconds, which hold dates that nanoseconds do not
        ends = (pd.Timestamp(t.astype("datetime64[us]")) for t in (first, last))
        dates = list(pd.date_range(*ends, freq=offset, normalize=True, unit="us").values)
    else:
        calendar = clock.start.calendar
        text = every if isinstance(every, str) else offset.freqstr
        try:
            dates = list(xr.date_range(first, last, freq=text, normalize=True, calendar=calendar, use_cftime=True))
        except ValueError as problem:
            message = f"every is {every!r}, of which xarray makes no dates of the calendar {calendar}: {problem}."
            raise refuse("A19", message, "give the dates themselves.") from None
    return [t for t in dates if first <= t <= last]


def _steps_at(times: list[Any], every: Any, clock: Clock, n: int) -> list[int]:
    """The numbers of steps after which a loop is at some times."""
    due: set[int] = set()
    for moment in times:
        steps, rest = _steps_to(moment, every, clock)
        if rest or not 0 <= steps <= n:
            where = f"between the steps {steps} and {steps + 1}" if rest and 0 <= steps < n else "outside of the loop"
            message = f"every has {moment}, {where}, which goes from {clock.at(0)} to {clock.at(n)} by {clock.step}."
            raise refuse("A19", message, "give times at which a step ends.")
        due.add(steps)
    return sorted(due)


def _steps_to(time: Any, every: Any, clock: Clock) -> tuple[int, int]:
    """The number of steps to a time, and the rest in nanoseconds."""
    if isinstance(time, (int, np.integer)) and not isinstance(time, (bool, np.timedelta64)):
        return int(time), 0
    if isinstance(clock.step, np.timedelta64):
        length = nanoseconds(clock.step)
        if isinstance(time, (np.timedelta64, datetime.timedelta)):
            return divmod(nanoseconds(_length(time)), length)
        if isinstance(time, np.datetime64) and isinstance(clock.start, np.datetime64):
            return divmod(nanoseconds(time) - nanoseconds(clock.start), length)
        if (own := getattr(clock.start, "calendar", None)) and own == getattr(time, "calendar", None):
            return divmod((time - clock.start) // datetime.timedelta(microseconds=1) * 1000, length)
    begins = "has no dates" if clock.start is None else f"begins at {clock.start}"
    calendar = calendar_of(np.array([clock.start]))
    of_calendar = f" of the calendar {calendar}" if calendar else ""
    message = f"every is {every!r}, of {type(time).__name__}, and the loop {begins}{of_calendar}."
    raise refuse("A19", message, "give times of its kind, or a number of steps.")


# Snapshots of a time loop in a file, appended along time as they come: NetCDF, or Zarr where it is installed.
#
# All of them go through xarray's encoding by the CF conventions, the first as those behind it. What is returned reads
# the file where it is looked at, and holds it open no longer than that, so a run that goes on can append to it.

LIBRARIES = {".nc": "netCDF4", ".zarr": "zarr"}
NUMBERS = frozenset({"bool", "float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))})
HELD = {".nc": NUMBERS, ".zarr": NUMBERS | {"float16", "complex64", "complex128"}}
"""The element types of each format."""
ENGINES = {".nc": "netcdf4", ".zarr": "zarr"}
SENT_TO_ONE = 2**30
"""Bytes of a snapshot that several processes send to one, which writes it to a file that is no store."""


class Snapshots:
    """A file with one entry per snapshot; nothing of it stays in memory."""

    def __init__(self, path: str | os.PathLike[str], resumed: bool, done: int = 0) -> None:
        """`done` is after how many steps a run goes on, of which the file has the snapshots."""
        self.path, self.written = Path(path), resumed and Path(path).exists()
        if self.path.suffix not in LIBRARIES:
            raise refuse("A31", f"'{path}' ends in '{self.path.suffix}', and snapshots are .nc or .zarr.")
        library = LIBRARIES[self.path.suffix]
        if importlib.util.find_spec(library) is None:
            raise refuse("A31", f"'{path}' needs {library}, which is not installed.", f"pip install {library}.")
        if self.path.exists() and not resumed:
            raise refuse("A31", f"'{path}' is there already.", "remove it, or name another file.")
        if done and not self.path.exists():
            message = (
                f"the run goes on after {done:,} steps, and '{path}', which would have their snapshots, is not there"
            )
            raise refuse("A31", f"{message}.", "name the file of the run, or give it another checkpoint_dir.")
        if not self.path.parent.is_dir():
            raise refuse("A31", f"there is no folder '{self.path.parent}' to write '{self.path.name}' to.")

    def in_blocks(self, parts: Any, time: Any, units: str | None) -> tuple[Any, dict[str, Any]]:
        """A Dataset along an axis of one of what several processes keep, and its arrays that stay in their blocks.

        Raises A31 for what is too large to go through one process.
        """
        some = [x for x in numbers(parts) if isinstance(x, jax.Array) and not x.is_fully_replicated]
        size = sum(x.nbytes for x in some)
        if self.path.suffix != ".zarr" and size > SENT_TO_ONE:
            message = f"a snapshot has {size / 2**30:.1f} GiB, which would go through one process to '{self.path}'"
            raise refuse("A31", f"{message}.", f"let each write its blocks: to='{self.path.with_suffix('.zarr')}'.")
        whole = [on_host(x) if self.path.suffix != ".zarr" else x for x in numbers(parts)]
        while True:
            blank = [_blank(x) for x in whole]
            first = left(with_numbers(parts, blank))
            snapshot = stacked_dataset(first, [x[None] for x in blank], [time], units)
            each = zip(names_of(first), whole, blank, strict=True)
            blocks = {n: x for n, x, own in each if not own.flags.writeable}
            if all(snapshot[n].shape[1:] == x.shape for n, x in blocks.items()):
                return snapshot, blocks
            whole = [on_host(x) for x in whole]  # labels that others do not have are filled in the whole array

    def fill(self, at: int, blocks: Mapping[str, Any]) -> None:
        """Write the blocks that this process holds into the entry at a place, which `write` has laid out."""
        import tensorstore

        try:
            writes: list[Any] = []
            for name, x in blocks.items():
                place = {"driver": "file", "path": f"{self.path / name}/"}
                array = tensorstore.open({"driver": "zarr", "kvstore": place}, open=True).result()
                kind = array.dtype.numpy_dtype
                own = [(s.index, np.asarray(s.data)) for s in x.addressable_shards if s.replica_id == 0]
                writes += [array[(at, *index)].write(block.astype(kind)) for index, block in own]
            for write in writes:
                write.result()
        except ValueError as problem:
            message = f"a snapshot cannot be written to '{self.path}': {reason(problem)}"
            raise refuse("A31", f"{message}.", "make room, or close it where it is open.") from None

    def write(self, at: int, snapshot: Any, blocks: Any = ()) -> None:
        """A Dataset along an axis of one, the first of its variables, as the entry at a place, without `blocks`."""
        for name, variable in snapshot.data_vars.items():
            if variable.dtype.name not in HELD[self.path.suffix]:
                message = f"'{name}' is {variable.dtype}, which '{self.path}' cannot hold"
                raise refuse("A31", f"{message}.", "convert what is kept: keep=lambda s: ti.astype(s, ti.float32).")
        # numbers that were not unpacked have their packing as attributes, and it was made for those of the start
        own = {n: {k: a for k, a in v.attrs.items() if k not in PACKING} for n, v in snapshot.data_vars.items()}
        data = {n: _laid_out(blocks[n]) if n in blocks else v.values for n, v in snapshot.data_vars.items()}
        snapshot = snapshot.assign({n: (v.dims, data[n], own[n]) for n, v in snapshot.data_vars.items()})
        axis = next(iter(snapshot.data_vars.values())).dims[0]
        try:
            if self.path.suffix == ".zarr":
                self._to_zarr(at, snapshot, axis, blocks)
            elif self.written:
                self._to_netcdf(at, snapshot, axis)
            else:
                snapshot.to_netcdf(self.path, engine="netcdf4", unlimited_dims=[axis])
        except (OSError, RuntimeError) as problem:  # the NetCDF library has no error of its own for a full disk
            message = f"a snapshot cannot be written to '{self.path}': {reason(problem)}"
            raise refuse("A31", f"{message}.", "make room, or close it where it is open.") from None
        self.written = True

    def _to_netcdf(self, at: int, snapshot: Any, axis: str) -> None:
        import netCDF4
        from xarray.conventions import encode_cf_variable

        try:
            file = netCDF4.Dataset(self.path, "a")
        except OSError:
            held = f"'{self.path}' cannot be opened for the next snapshot: it is open elsewhere, or is no NetCDF"
            raise refuse("A31", f"{held}.", "close the Dataset, or end the program, that has it open.") from None
        with file:
            file.set_auto_maskandscale(False)
            for name, variable in snapshot.variables.items():
                if variable.dims[:1] == (axis,):
                    file[name][at : at + 1] = np.asarray(encode_cf_variable(variable, name=name).data)

    def _to_zarr(self, at: int, snapshot: Any, axis: str, blocks: Any) -> None:
        how: dict[str, Any] = {"compute": False, "safe_chunks": False} if blocks else {}
        if not self.written:
            # version 2 of the format: all that read Zarr read it, its metadata in one place too
            to_zarr(snapshot, self.path, mode="w", zarr_format=2, **how)
            return
        with _read(self.path) as there:
            known = at < there.sizes[axis]
        along = snapshot.drop_vars([n for n, v in snapshot.variables.items() if axis not in v.dims or n in blocks])
        with _far_dates():
            if known:
                if along.data_vars:
                    to_zarr(along, self.path, region={axis: slice(at, at + 1)})
                self._write_labels(at, along, axis)
            else:
                to_zarr(snapshot, self.path, append_dim=axis, **how)

    def _write_labels(self, at: int, along: Any, axis: str) -> None:
        """The labels of an entry that is written again, which xarray leaves out of regions."""
        import zarr
        from xarray.conventions import encode_cf_variable

        group = zarr.open_group(self.path, mode="r+")
        for name in along.indexes:
            entries: Any = group[name]
            entries[at : at + 1] = np.asarray(encode_cf_variable(along.variables[name], name=name).data)

    def opened(self) -> Any:
        """The file as a Dataset that is read where it is looked at."""
        import xarray as xr
        from xarray.core.indexing import LazilyIndexedArray

        with _read(self.path) as file:
            entries: dict[str, Any] = {}
            for name, v in file.data_vars.items():
                lazy = LazilyIndexedArray(_entries(self.path, str(name), v.shape, v.dtype))
                entries[str(name)] = xr.Variable(v.dims, lazy, v.attrs)
            return _with_times(xr.Dataset(entries, file.coords, file.attrs).drop_encoding())


def _blank(x: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy; of one in blocks of several processes only its shape and type, which cannot be written to."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable and not x.is_fully_replicated:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return on_host(x)


def _laid_out(x: Any) -> Any:
    """An entry whose chunks in a store are the blocks of an array, so that no two processes write to one."""
    import dask.array

    return dask.array.zeros((1, *x.shape), dtype=x.dtype, chunks=(1, *x.sharding.shard_shape(x.shape)))


def reason(problem: Exception) -> str:
    """The words of an operating system in what a store says."""
    number = re.search(r"(?:os_error_code='|OS error )(\d+)", str(problem))
    own = os.strerror(int(number[1])) if number else getattr(problem, "strerror", None)
    return own or str(problem).splitlines()[0].rstrip(".")


def _with_times(file: Any) -> Any:
    """The file with the times of a loop as such: an axis that was written as one."""
    for name in ("time", "elapsed"):
        attrs = file.coords[name].attrs if name in file.dims and name in file.coords else {}
        if str(attrs.get("dtype", "")).startswith("timedelta64"):
            size = UNITS[attrs["units"]]
            unit: Any = next(u for u, k in RESOLUTIONS.items() if k == size)
            values = file.coords[name].values
            in_ns = int(np.abs(values).max(initial=0)) * size < 2**63
            length = np.timedelta64(size, "ns") if in_ns else np.timedelta64(1, unit)
            return file.assign_coords({name: values * length})
    return file


def _read(path: Path) -> Any:
    """The file as it stands; numbers with a unit of time stay numbers, and dates are NumPy's where it has them."""
    import xarray as xr

    options: dict[str, Any] = {"engine": ENGINES[path.suffix], "decode_timedelta": False}
    with _far_dates():
        file = xr.open_dataset(path, **options)
    own = [v for v in file.coords.values() if v.encoding.get("calendar") == "proleptic_gregorian"]
    coders: Any = getattr(xr, "coders", None)
    if coders is None or all(v.dtype.kind != "O" for v in own):
        return file
    file.close()
    return xr.open_dataset(path, decode_times=coders.CFDatetimeCoder(time_unit="us"), **options)


@contextmanager
def _far_dates() -> Iterator[None]:
    """Without the warning of xarray that dates are none of nanoseconds."""
    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)
        yield


def _entries(path: Path, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """The numbers of a variable, each read when it is asked for."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Entries(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = shape, dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, shape, indexing.IndexingSupport.OUTER, self.part)

        def part(self, key: Any) -> Any:
            with _read(path) as file:
                whole = file.variables[name]
                # there may be more of them by now
                return whole.isel({d: slice(0, n) for d, n in zip(whole.dims, shape, strict=True)})[key].values

        def __reduce__(self) -> Any:
            return _entries, (path, name, shape, dtype)

    return Entries()
