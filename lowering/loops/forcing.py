"""Forcing of a time loop: labelled arrays along `time`, from which each step gets its value at the time it begins at.

Times are compared on the host, those of dates as whole numbers, and XLA gets for each step a record and the weight of
the next one. A loop by itself holds a window of consecutive records in memory; one in a transformation holds all.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.distribution.meshes import Placement
from lowering.field import Field
from lowering.labelled import is_data_array, is_dataset, is_named, is_numeric, whole, with_numbers
from lowering.loops.agreement import Agreement
from lowering.loops.checkpoints import digest_of_blocks
from lowering.loops.clock import Clock, nanoseconds
from lowering.loops.states import entered
from lowering.tracing import left_to_xla
from tensorir.binding.arrays import Unread, is_traced, native, refuse_packed
from tensorir.binding.labels import calendar_of
from tensorir.runtime.errors import DiagnosticError, refuse

METHODS = ("linear", "held")
WINDOW = 2**27
"""Bytes of the records that are in memory at once; there are at least two, and a chunk of the store."""
LAUNCH = 1024
"""The number of steps that one launch of XLA makes at most."""


class Records(eqx.Module):
    """Records along time and the steps that read them, as arrays of a program."""

    arrays: tuple[Any, ...]
    low: Any
    weight: Any
    """Of the record after `low`, by step; None where records are held."""
    model: Any
    """One record without its numbers, as `Parts` and Fields."""
    along: tuple[bool, ...] = eqx.field(static=True)

    def at(self, k: Any) -> Any:
        """The forcing of step number k of those of `low`, labelled."""
        each = zip(self.arrays, self.along, strict=True)
        return whole(with_numbers(self.model, [self._read(x, k) if along else x for x, along in each]))

    def _read(self, x: Any, k: Any) -> Any:
        """The value of one array at step k: its record, or the interpolation to the next one."""
        low = lax.dynamic_index_in_dim(x, self.low[k], keepdims=False)
        if self.weight is None:
            return low
        high = lax.dynamic_index_in_dim(x, jnp.minimum(self.low[k] + 1, x.shape[0] - 1), keepdims=False)
        # at a record it is that one, whatever the next one is
        return jnp.where(self.weight[k] > 0, low + self.weight[k].astype(x.dtype) * (high - low), low)


@dataclass(eq=False)
class Forcing:
    """The arrays of a forcing, its times on the clock of a loop, and the window that is in memory."""

    leaves: list[Any]
    """DataArrays and Fields, those along time with it as their first dim."""
    along: tuple[bool, ...]
    model: Any
    """One record without its numbers, as `Parts` and Fields."""
    times: Any
    step: Any
    linear: bool
    placement: Placement | None = None
    """The blocks that the devices of a loop read."""
    begin: int = -1
    held: tuple[Any, ...] = field(default=())

    @staticmethod
    def on_clock(forcing: Any, method: str, clock: Clock, n: int) -> Forcing:
        """The forcing, checked for a loop of n steps on a clock; `method` is "linear" or "held".

        Raises A46 for arrays without dim names or times, for times that do not ascend or that do not cover the steps,
        and for integers to be interpolated.
        """
        named = jax.tree_util.tree_leaves(forcing, is_leaf=is_named)
        leaves = [v for x in named for v in (_numeric_variables(x) if is_dataset(x) else [x])]
        for x in leaves:
            if not is_named(x):
                hint = 'name its dims: xr.DataArray(x, dims=("time", ...), coords={"time": times}).'
                raise refuse("A46", f"the forcing has {type(x).__name__}, whose dims have no names.", hint)
            refuse_packed(x, str(getattr(x, "name", None) or "forcing"))
        along = tuple("time" in _dim_names(x) for x in leaves)
        leaves = [
            x.transpose("time", ...) if timed and is_data_array(x) else x
            for x, timed in zip(leaves, along, strict=True)
        ]
        axes = [_times_of(x) for x, timed in zip(leaves, along, strict=True) if timed]
        if not axes:
            raise _without_time(leaves)
        if any(len(a) != len(axes[0]) or (a != axes[0]).any() for a in axes):
            message = "the arrays of the forcing have different times."
            raise refuse("A46", message, "interpolate one to those of another.")
        for x, timed in zip(leaves, along, strict=True):
            if timed and method == "linear" and not jnp.issubdtype(x.dtype, jnp.inexact):
                message = f"the forcing has {x.dtype} along time, and only floats are interpolated."
                raise refuse("A46", message, 'write forcing_method="held", or convert it: x.astype("float64").')
        times, step = _on_clock(axes[0], clock)
        if (np.diff(times) < 0).any():
            raise refuse("A46", "the times of the forcing do not ascend.", 'sort them: ds.sortby("time").')
        if len(repeated_times := np.flatnonzero(np.diff(times) == 0)):
            message = f"the forcing has the time {_in_words(axes[0][repeated_times[0]])} twice."
            raise refuse("A46", message, 'leave one of each: ds.drop_duplicates("time").')
        record = entered(jax.tree_util.tree_map(_record_template, forcing, is_leaf=is_named))
        model = with_numbers(record, [np.zeros((), x.dtype) for x in leaves])
        forced = Forcing(leaves, along, model, times, step, method == "linear")
        if n:
            forced._check(axes[0], clock, n)
        return forced

    def _check(self, axis: Any, clock: Clock, n: int) -> None:
        """Raise A46 if a step begins before the first record or after the last one's validity.

        Held, the last record is valid as long as the one before.
        """
        # the last record holds as long as the one before it
        end = self.times[-1] + (0 if self.linear else np.diff(self.times)[-1] if len(self.times) > 1 else np.inf)
        earliest, latest = sorted((0 * self.step, (n - 1) * self.step))
        ends_too_late = latest > end + self._slack if self.linear else latest >= end - self._slack
        if earliest < self.times[0] - self._slack or ends_too_late:
            begins = f"the steps begin from {_in_words(clock.at(0))} to {_in_words(clock.at(n - 1))}"
            message = f"the forcing has the times {_in_words(axis[0])} to {_in_words(axis[-1])}, and {begins}."
            hint = "make fewer steps, begin elsewhere with start=..., or give a forcing of these times."
            raise refuse("A46", message, hint)

    @property
    def _slack(self) -> Any:
        """Times that are computed as floats are equal where they differ by rounding."""
        return 1e-9 * abs(self.step) if self.times.dtype.kind == "f" else 0

    @property
    def first(self) -> Any:
        """The shape and type of one record of each array."""
        arrays = zip(self.leaves, self.along, strict=True)
        return [jax.ShapeDtypeStruct(x.shape[timed:], x.dtype.newbyteorder("=")) for x, timed in arrays]

    def schedule(self, begin: int, n: int) -> tuple[Any, Any, Any]:
        """For n steps from number `begin` on: the record before each, the record after it, and the weight of the
        latter.
        """
        step_begins = self.step * np.arange(begin, begin + n)
        low = np.clip(np.searchsorted(self.times, step_begins + self._slack, side="right") - 1, 0, None)
        if not self.linear:
            return low, low, np.zeros(n)
        high = np.minimum(low + 1, len(self.times) - 1)
        span = np.where(high > low, self.times[high] - self.times[low], 1)
        return low, high, np.clip((step_begins - self.times[low]) / span, 0.0, 1.0)

    def records(self, n: int) -> Records:
        """All records, for n steps from the first on."""
        low, _, weight = self.schedule(0, n)
        return self._records(self._read(0, len(self.times)), low, weight)

    def window(self, done: int, steps: int) -> tuple[Records, int]:
        """The records in memory for the next steps after `done`, and the number of steps, at most `some`, for which
        they suffice.

        Reads another window of records if the next step needs it; the window is kept in `held`.
        """
        steps, length = min(steps, LAUNCH), self._length()
        low, high, weight = self.schedule(done, LAUNCH)
        if self.begin < 0 or low[0] < self.begin or high[0] >= self.begin + length:
            self.begin = int(min(low[0], len(self.times) - length) if self.step >= 0 else max(0, high[0] + 1 - length))
            self.held = ()  # before others are read
            self.held = self._read(self.begin, self.begin + length)
        steps_outside = np.flatnonzero((low < self.begin) | (high >= self.begin + length))
        covered_steps = min(steps, int(steps_outside[0])) if len(steps_outside) else steps
        return self._records(self.held, np.clip(low - self.begin, 0, length - 1), weight), covered_steps

    def _length(self) -> int:
        """The number of records in a window: as many as fit `WINDOW` bytes, two or a chunk of the store at least."""
        timed = [x for x, along in zip(self.leaves, self.along, strict=True) if along]
        chunks = [getattr(x, "encoding", {}).get("preferred_chunks", {}).get("time", 1) for x in timed]
        fit = WINDOW // max(1, sum(x.dtype.itemsize * int(np.prod(x.shape[1:])) for x in timed))
        return min(len(self.times), max(2, fit, *chunks))

    def _read(self, begin: int, end: int) -> tuple[Any, ...]:
        """The arrays of the records from `begin` up to `end`; arrays without times are read whole."""
        arrays = zip(self.leaves, self.along, strict=True)
        return tuple(self._placed(x, slice(begin, end) if timed else ...) for x, timed in arrays)

    def _placed(self, x: Any, records: Any) -> Any:
        """A part of an array on the devices, in the blocks of the placement; arrays of JAX stay where they are."""
        source = x.data if isinstance(x, Field) else Unread.in_file(x) or x.variable._data
        if isinstance(source, jax.Array) or is_traced(source):
            return left_to_xla(source[records])
        block = native(source[records])
        return jnp.asarray(np.asarray(block)) if self.placement is None else self.placement.read(block, _dim_names(x))

    def _records(self, arrays: tuple[Any, ...], low: Any, weight: Any) -> Records:
        """The arrays of records with the schedule of the steps that read them."""
        weights = jnp.asarray(weight) if self.linear else None
        return Records(arrays, jnp.asarray(low, jnp.int32), weights, self.model, self.along)

    def digest(self, agreement: Agreement) -> str:
        """A digest of times, labels and numbers, equal on any number of processes; reads pieces, each process in its
        own blocks.
        """
        structure = jax.tree_util.tree_structure(self.model)
        digest = hashlib.sha256(f"{structure} {self.linear}".encode() + self.times.tobytes())
        for x, timed in zip(self.leaves, self.along, strict=True):
            coordinates = [] if isinstance(x, Field) else [c for c in x.coords.values() if c.name != "time"]
            digest.update(repr([(c.name, c.dims, c.values.tolist()) for c in coordinates]).encode())
            digest.update(f"{_dim_names(x)}{x.shape}{x.dtype}".encode())
            for k in range(0, len(self.times) if timed else 1, self._length()):
                records = self._placed(x, slice(k, k + self._length()) if timed else ...)
                digest.update(digest_of_blocks([records], agreement).encode())
        return digest.hexdigest()


def _without_time(leaves: list[Any]) -> DiagnosticError:
    """The error A46 for a forcing without the dim `time`; for a forecast along `step` it says how to rename."""
    dims = [d for x in leaves for d in _dim_names(x)]
    if "step" not in dims:
        return refuse("A46", "the forcing has no dim 'time'.", "rename the dim of its times: ds.rename(t='time').")
    valid = any("valid_time" in getattr(x, "coords", ()) for x in leaves)
    rename = "swap_dims(step='valid_time').rename(valid_time='time')" if valid else "rename(step='time')"
    message = "the forcing goes along 'step', the steps of a forecast, and has no dim 'time'."
    return refuse("A46", message, f"make their times the dim: ds.drop_vars('time', errors='ignore').{rename}.")


def _dim_names(x: Any) -> tuple[str, ...]:
    return x.dims.names if isinstance(x, Field) else tuple(map(str, x.dims))


def _numeric_variables(whole: Any) -> list[Any]:
    """The variables of a Dataset that hold numbers."""
    return [v for v in whole.data_vars.values() if is_numeric(v.variable)]


def _record_template(x: Any) -> Any:
    """An array at one record without its numbers, which a view without memory replaces; coordinates are kept."""
    if not is_named(x):
        return x
    if isinstance(x, Field):
        return Field(np.broadcast_to(np.zeros((), x.dtype), x.dims.shape), x.dims)
    blanks = {v.name: _placeholder(v) for v in _numeric_variables(x)} if is_dataset(x) else {}
    template = x.assign(blanks) if is_dataset(x) else x.copy(data=_placeholder(x).data)
    return template.isel(time=0, drop=True) if "time" in template.dims else template


def _placeholder(x: Any) -> Any:
    """A variable with the dims, shape and attributes of x, and zeros without memory."""
    import xarray as xr

    return xr.Variable(x.dims, np.broadcast_to(np.zeros((), native(np.zeros((), x.dtype)).dtype), x.shape), x.attrs)


def _times_of(x: Any) -> Any:
    """The times of an array along its first dim, as numbers, lengths or dates; raises A46 without them, for texts
    and NaT.
    """
    times = None if isinstance(x, Field) or "time" not in x.coords else x.coords["time"].values
    if times is None:
        of_a_field = "make it a DataArray: xr.DataArray(x.data, dims=x.dims.names, coords={'time': times})."
        hint = of_a_field if isinstance(x, Field) else "give it one: x.assign_coords(time=...)."
        raise refuse("A46", "the forcing has no coordinate 'time', which says when its records are.", hint)
    times = np.asarray(times)
    if not len(times):
        raise refuse("A46", "the forcing has no records: its dim 'time' has no points.", "give it one at least.")
    if times.dtype.kind in "US" or (times.dtype.kind == "O" and isinstance(times[0], str)):
        hint = 'make them dates: ds.assign_coords(time=ds.time.astype("datetime64[ns]")).'
        raise refuse("A46", f"the times of the forcing are texts, from {times[0]!s} on.", hint)
    if (times != times).any():
        raise refuse("A46", "the forcing has times that are none (NaT).", 'leave them out: ds.dropna("time").')
    return times


def _on_clock(times: Any, clock: Clock) -> tuple[Any, Any]:
    """Times after the loop's start, and the length of a step, in one unit: integers, or floats for a clock without
    units.

    Raises A46 if only one of forcing and loop has dates or units, A44 if their calendars differ.
    """
    are_dates, are_lengths = bool(calendar_of(times)), times.dtype.kind == "m"
    if are_dates and clock.start is None:
        hint = f'say when the first step begins and how long it is: start="{str(times[0])[:19]}", dt="1 h".'
        raise refuse("A46", f"the forcing has dates, from {_in_words(times[0])} on, and the loop has none.", hint)
    if not are_dates and clock.start is not None:
        hint = "give the forcing dates, or leave out start and the date of the state."
        raise refuse("A46", f"the loop has dates, from {_in_words(clock.start)} on, and the forcing has none.", hint)
    if are_dates and calendar_of(times) != (calendar := calendar_of(np.array([clock.start]))):
        message = f"the calendars along time differ: the forcing has {calendar_of(times)} and the loop has {calendar}."
        raise refuse("A44", message, "convert one: ds.convert_calendar(...).")
    if are_dates or are_lengths:
        if not isinstance(clock.step, np.timedelta64):
            raise refuse("A46", f"the forcing has times, and dt is {clock.step!r} without a unit.", 'write dt="90 s".')
        counts = [nanoseconds(clock.step), *_nanoseconds_after(times, clock.start)]
        unit = int(np.gcd.reduce(np.array(counts, object))) or 1
        step, *counts = (c // unit for c in counts)
        try:
            return np.array(counts, np.int64), np.int64(step)
        except OverflowError:
            raise refuse("A46", "the times of the forcing are too far from the start.", "give fewer of them.") from None
    if isinstance(clock.step, np.timedelta64):
        hint = "make them times: ds.assign_coords(time=ds.time * np.timedelta64(1, 's'))."
        raise refuse("A46", f"dt has a unit, and the forcing has times without one, from {times[0]} on.", hint)
    return times.astype(np.float64), np.float64(clock.step)


def _nanoseconds_after(times: Any, start: Any) -> list[int]:
    """Nanoseconds from the start to each time, exactly; lengths count from 0."""
    if times.dtype.kind in "mM":
        begin = 0 if start is None else nanoseconds(start)
        return [nanoseconds(t) - begin for t in times]
    return [(t - start) // datetime.timedelta(microseconds=1) * 1000 for t in times]


def _in_words(time: Any) -> str:
    return str(time)[:19] if isinstance(time, np.datetime64) else str(time)
