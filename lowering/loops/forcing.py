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
from tensorir.integers.dims import Dims
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
        """The forcing of the k-th of the steps."""
        each = zip(self.arrays, self.along, strict=True)
        return whole(with_numbers(self.model, [self._read(x, k) if along else x for x, along in each]))

    def _read(self, x: Any, k: Any) -> Any:
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
        """Raises A46 for arrays that have no times, and for times that do not hold those of n steps."""
        if method not in METHODS:
            raise refuse("A46", f"forcing_method is {method!r}.", 'it is "linear" or "held".')
        named = jax.tree_util.tree_leaves(forcing, is_leaf=is_named)
        leaves = [v for x in named for v in (_variables(x) if is_dataset(x) else [x])]
        for x in leaves:
            if not is_named(x):
                hint = 'name its dims: xr.DataArray(x, dims=("time", ...), coords={"time": times}).'
                raise refuse("A46", f"the forcing has {type(x).__name__}, whose dims have no names.", hint)
            refuse_packed(x, str(getattr(x, "name", None) or "forcing"))
        along = tuple("time" in _names(x) for x in leaves)
        leaves = [_time_first(x) if timed else x for x, timed in zip(leaves, along, strict=True)]
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
        if len(twice := np.flatnonzero(np.diff(times) == 0)):
            message = f"the forcing has the time {_shown(axes[0][twice[0]])} twice."
            raise refuse("A46", message, 'leave one of each: ds.drop_duplicates("time").')
        record = entered(jax.tree_util.tree_map(_record, forcing, is_leaf=is_named))
        model = with_numbers(record, [np.zeros((), x.dtype) for x in leaves])
        forced = Forcing(leaves, along, model, times, step, method == "linear")
        if n:
            forced._check(axes[0], clock, n)
        return forced

    def _check(self, axis: Any, clock: Clock, n: int) -> None:
        # the last record holds as long as the one before it
        end = self.times[-1] + (0 if self.linear else np.diff(self.times)[-1] if len(self.times) > 1 else np.inf)
        first, last = sorted((0 * self.step, (n - 1) * self.step))
        late = last > end + self._slack if self.linear else last >= end - self._slack
        if first < self.times[0] - self._slack or late:
            begins = f"the steps begin from {_shown(clock.at(0))} to {_shown(clock.at(n - 1))}"
            message = f"the forcing has the times {_shown(axis[0])} to {_shown(axis[-1])}, and {begins}."
            hint = "make fewer steps, begin elsewhere with start=..., or give a forcing of these times."
            raise refuse("A46", message, hint)

    @property
    def _slack(self) -> Any:
        """Times that are computed as floats are equal where they differ by rounding."""
        return 1e-9 * abs(self.step) if self.times.dtype.kind == "f" else 0

    @property
    def first(self) -> Any:
        """Of one record the numbers, as JAX knows them while it traces."""
        some = zip(self.leaves, self.along, strict=True)
        return [jax.ShapeDtypeStruct(x.shape[timed:], x.dtype.newbyteorder("=")) for x, timed in some]

    def schedule(self, begin: int, n: int) -> tuple[Any, Any, Any]:
        """Of steps from `begin` on the records that they are between, and the weight of the later one."""
        now = self.step * np.arange(begin, begin + n)
        low = np.clip(np.searchsorted(self.times, now + self._slack, side="right") - 1, 0, None)
        if not self.linear:
            return low, low, np.zeros(n)
        high = np.minimum(low + 1, len(self.times) - 1)
        span = np.where(high > low, self.times[high] - self.times[low], 1)
        return low, high, np.clip((now - self.times[low]) / span, 0.0, 1.0)

    def records(self, n: int) -> Records:
        """All records, for n steps from the first on."""
        low, _, weight = self.schedule(0, n)
        return self._records(self._read(0, len(self.times)), low, weight)

    def window(self, done: int, some: int) -> tuple[Records, int]:
        """The records of the next steps, and for how many of these they are enough: `some` or fewer."""
        some, length = min(some, LAUNCH), self._length()
        low, high, weight = self.schedule(done, LAUNCH)
        if self.begin < 0 or low[0] < self.begin or high[0] >= self.begin + length:
            self.begin = int(min(low[0], len(self.times) - length) if self.step >= 0 else max(0, high[0] + 1 - length))
            self.held = ()  # before others are read
            self.held = self._read(self.begin, self.begin + length)
        outside = np.flatnonzero((low < self.begin) | (high >= self.begin + length))
        enough = min(some, int(outside[0])) if len(outside) else some
        return self._records(self.held, np.clip(low - self.begin, 0, length - 1), weight), enough

    def _length(self) -> int:
        """The number of records in a window, the same for all."""
        timed = [x for x, along in zip(self.leaves, self.along, strict=True) if along]
        chunks = [getattr(x, "encoding", {}).get("preferred_chunks", {}).get("time", 1) for x in timed]
        fit = WINDOW // max(1, sum(x.dtype.itemsize * int(np.prod(x.shape[1:])) for x in timed))
        return min(len(self.times), max(2, fit, *chunks))

    def _read(self, begin: int, end: int) -> tuple[Any, ...]:
        some = zip(self.leaves, self.along, strict=True)
        return tuple(self._placed(x, slice(begin, end) if timed else ...) for x, timed in some)

    def _placed(self, x: Any, part: Any) -> Any:
        """The numbers of an array, or of some records, in the blocks of the devices; those of JAX lie where they do."""
        held = x.data if isinstance(x, Field) else Unread.in_file(x) or x.variable._data
        if isinstance(held, jax.Array) or is_traced(held):
            return left_to_xla(held[part])
        block = native(held[part])
        return jnp.asarray(np.asarray(block)) if self.placement is None else self.placement.read(block, _names(x))

    def _records(self, arrays: tuple[Any, ...], low: Any, weight: Any) -> Records:
        weights = jnp.asarray(weight) if self.linear else None
        return Records(arrays, jnp.asarray(low, jnp.int32), weights, self.model, self.along)

    def digest(self, agreement: Agreement) -> str:
        """A digest of times, labels and numbers, which are read in pieces, and by each process in its blocks."""
        structure = jax.tree_util.tree_structure(self.model)
        digest = hashlib.sha256(f"{structure} {self.linear}".encode() + self.times.tobytes())
        for x, timed in zip(self.leaves, self.along, strict=True):
            coordinates = [] if isinstance(x, Field) else [c for c in x.coords.values() if c.name != "time"]
            digest.update(repr([(c.name, c.dims, c.values.tolist()) for c in coordinates]).encode())
            digest.update(f"{_names(x)}{x.shape}{x.dtype}".encode())
            for k in range(0, len(self.times) if timed else 1, self._length()):
                part = self._placed(x, slice(k, k + self._length()) if timed else ...)
                digest.update(digest_of_blocks([part], agreement).encode())
        return digest.hexdigest()


def _without_time(leaves: list[Any]) -> DiagnosticError:
    """The error for a forcing along another dim; forecasts have steps, and the times of these beside them."""
    dims = [d for x in leaves for d in _names(x)]
    if "step" not in dims:
        return refuse("A46", "the forcing has no dim 'time'.", "rename the dim of its times: ds.rename(t='time').")
    valid = any("valid_time" in getattr(x, "coords", ()) for x in leaves)
    rename = "swap_dims(step='valid_time').rename(valid_time='time')" if valid else "rename(step='time')"
    message = "the forcing goes along 'step', the steps of a forecast, and has no dim 'time'."
    return refuse("A46", message, f"make their times the dim: ds.drop_vars('time', errors='ignore').{rename}.")


def _names(x: Any) -> tuple[str, ...]:
    return x.dims.names if isinstance(x, Field) else tuple(map(str, x.dims))


def _time_first(x: Any) -> Any:
    if is_data_array(x):
        return x.transpose("time", ...)
    at = x.dims.names.index("time")
    items = (x.dims.items[at], *x.dims.items[:at], *x.dims.items[at + 1 :])
    return Field(jnp.moveaxis(x.data, at, 0), Dims(items))


def _variables(whole: Any) -> list[Any]:
    """The variables of a Dataset that are numbers."""
    return [v for v in whole.data_vars.values() if is_numeric(v.variable)]


def _record(x: Any) -> Any:
    """One record without its numbers, but for the coordinates: an array without memory in the place of each."""
    if not is_named(x):
        return x
    if isinstance(x, Field):
        along = x.dims.names.index("time") if "time" in x.dims else None
        items = tuple(item for k, item in enumerate(x.dims.items) if k != along)
        dims = Dims(items)
        return Field(np.broadcast_to(np.zeros((), x.dtype), dims.shape), dims)
    blanks = {v.name: _blank(v) for v in _variables(x)} if is_dataset(x) else {}
    one = x.assign(blanks) if is_dataset(x) else x.copy(data=_blank(x).data)
    return one.isel(time=0, drop=True) if "time" in one.dims else one


def _blank(x: Any) -> Any:
    import xarray as xr

    return xr.Variable(x.dims, np.broadcast_to(np.zeros((), native(np.zeros((), x.dtype)).dtype), x.shape), x.attrs)


def _times_of(x: Any) -> Any:
    """The times of an array along its first dim: numbers, lengths or dates."""
    times = None if isinstance(x, Field) or "time" not in x.coords else x.coords["time"].values
    if times is None:
        hint = "give it one: x.assign_coords(time=...)."
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
    """Times after the start of the loop and the length of a step, in one unit: whole numbers, or floats without one."""
    dated, lengths = bool(calendar_of(times)), times.dtype.kind == "m"
    if dated and clock.start is None:
        hint = f'say when the first step begins and how long it is: start="{str(times[0])[:19]}", dt="1 h".'
        raise refuse("A46", f"the forcing has dates, from {_shown(times[0])} on, and the loop has none.", hint)
    if not dated and clock.start is not None:
        hint = "give the forcing dates, or leave out start and the date of the state."
        raise refuse("A46", f"the loop has dates, from {_shown(clock.start)} on, and the forcing has none.", hint)
    if dated and calendar_of(times) != (calendar := calendar_of(np.array([clock.start]))):
        message = f"the calendars along time differ: the forcing has {calendar_of(times)} and the loop has {calendar}."
        raise refuse("A44", message, "convert one: ds.convert_calendar(...).")
    if dated or lengths:
        if not isinstance(clock.step, np.timedelta64):
            raise refuse("A46", f"the forcing has times, and dt is {clock.step!r} without a unit.", 'write dt="90 s".')
        counts = [nanoseconds(clock.step), *_after(times, clock.start)]
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


def _after(times: Any, start: Any) -> list[int]:
    """Nanoseconds from the start to each of some times; times that are lengths have no start."""
    if times.dtype.kind in "mM":
        begin = 0 if start is None else nanoseconds(start)
        return [nanoseconds(t) - begin for t in times]
    return [(t - start) // datetime.timedelta(microseconds=1) * 1000 for t in times]


def _shown(time: Any) -> str:
    return str(time)[:19] if isinstance(time, np.datetime64) else str(time)
