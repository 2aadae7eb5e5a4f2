"""A step of a model as one pure function: the programs that ran in a block, on all fields that they touched.

Fields may share memory, one as a part of another: a step has an entry for the whole, and windows for its parts.

>>> step = record()
>>> with step:
...     pass
Traceback (most recent call last):
    ...
tensorir.runtime.errors.DiagnosticError: error[TI16]: no program of this backend was called while the step was recorded.
help: call programs with backend=xla_cpu inside of the block.
>>> whole = np.arange(12.0).reshape(3, 4)
>>> part = window(whole, whole[1:, 2])
>>> part.index, part.shape
((slice(1, 3, 1), slice(2, 3, 1)), (2,))
>>> part.of(whole)
array([ 6., 10.])
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tensorir.backends import backend
from tensorir.binding.arrays import host_array
from tensorir.integers.dims import Dims
from tensorir.ir.types import DTYPES, scalar_of
from tensorir.iterator.lift.arguments import is_strided, offsets
from tensorir.iterator.lift.graph import Table
from tensorir.runtime.errors import DiagnosticError, did_you_mean, refuse

WORK = 100_000
"""How long two arrays are looked at before they count as sharing memory."""


def shared(a: Any, b: Any) -> bool:
    """True if two arrays have an element of memory in common; interleaved columns of a matrix have none."""
    exact: Any = np.shares_memory  # its types know no bound
    try:
        return exact(a, b, max_work=WORK)
    except np.exceptions.TooHardError:
        return True


def key_of(array: Any) -> Any:
    """The identity of an array's memory, valid until it is freed."""
    return array.ctypes.data, array.shape, array.strides, array.dtype


@dataclass(frozen=True, slots=True)
class Window:
    """A part of an array: where, the order in which its axes are taken, and its shape then."""

    index: tuple[slice, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, whole: Any) -> Any:
        """The part of an array."""
        return whole[self.index].transpose(self.order).reshape(self.shape)

    def put(self, whole: Any, part: Any) -> Any:
        """`whole`, an array of the backend, with `part` in place of this window."""
        extents = whole[self.index].shape
        turned = part.reshape(tuple(extents[k] for k in self.order))
        return whole.at[self.index].set(turned.transpose(tuple(int(k) for k in np.argsort(self.order))))


def window(whole: Any, part: Any) -> Window | None:
    """Slices, axis order and shape such that whole[index].transpose(order).reshape(shape) is `part`, a view of it.

    Recovered from addresses and strides; None if there are none.
    """
    if whole.dtype != part.dtype or min(whole.strides, default=1) < 1:
        return None
    left = part.ctypes.data - whole.ctypes.data
    if left < 0:
        return None
    slowest_first = sorted((k for k in range(whole.ndim) if whole.shape[k] > 1), key=lambda k: -whole.strides[k])
    starts = dict.fromkeys(range(whole.ndim), 0)
    for k in slowest_first:
        starts[k], left = divmod(left, whole.strides[k])
    if left or any(starts[k] >= whole.shape[k] for k in starts):
        return None
    taken: dict[int, tuple[int, int]] = {}
    order: list[int] = []
    for extent, stride in zip(part.shape, part.strides, strict=True):
        if extent == 1:
            continue
        fits = (
            k for k in slowest_first
            if k not in taken and stride % whole.strides[k] == 0 and stride > 0
            and starts[k] + (extent - 1) * (stride // whole.strides[k]) < whole.shape[k]
        )  # fmt: skip
        axis = next(fits, None)
        if axis is None:
            return None
        taken[axis] = extent, stride // whole.strides[axis]
        order.append(axis)
    index = tuple(
        slice(starts[k], starts[k] + (extent - 1) * step + 1, step)
        for k in range(whole.ndim)
        for extent, step in (taken.get(k, (1, 1)),)
    )
    rest = tuple(k for k in range(whole.ndim) if k not in taken)
    return Window(index, (*order, *rest), tuple(part.shape))


# What runs while a step is recorded: calls of programs on fields, and what else changes these fields.
#
# A field is told by its memory. Of each there is what it held when a call met it first, and what it held after the
# last call that stored in it: where a later call finds something else there, no program of this backend wrote it.

# Arrays are of NumPy, and their element types are known to calls alone.


@dataclass(frozen=True, slots=True)
class Form:
    """A program for the fields of a call, compiled, of arrays by name in the order of their dims."""

    call: Callable[..., Any]
    inputs: tuple[tuple[str, int, Any], ...]
    """Per input its name, its place in a call, and the element type of a number, None for a field."""
    outputs: tuple[tuple[str, int, tuple[slice, ...]], ...]
    """Per result its name, the place of its field, and the part that is stored."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a program: the memory of its fields by place, its numbers, and what it comes to."""

    program: str
    fields: Mapping[int, Any]
    numbers: Mapping[int, Any]
    form: Form


@dataclass(frozen=True, slots=True)
class Set:
    """A field that was given other values between calls, before the call of a number."""

    key: Any
    value: Any
    before: int


@dataclass(eq=False)
class Known:
    """A field that was met: its array, held so that its memory stays its own, and what it holds."""

    array: Any
    leaf: str
    program: str
    dims: Dims
    first: Any
    """What it held when it was met."""
    now: Any
    last: tuple[int, str] | None = None
    """The call that stored in it last."""
    sharing: list[Any] = field(default_factory=list[Any])
    """The fields of which a part lies in its memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A table: the call that led through it first, what was passed for it, and what that held."""

    first: str
    table: Table
    source: Any
    numbers: Any

    def refuse_changed(self) -> None:
        """Raise TI15 where the array that was passed holds something else by now."""
        if not np.array_equal(_numbers(self.source), self.numbers):
            raise _changed(self.table.name)


@dataclass(eq=False)
class Tape:
    """Calls in their order, of one thread."""

    host_writes: str
    thread: int = field(default_factory=threading.get_ident)
    events: list[Call | Set] = field(default_factory=list["Call | Set"])
    known: dict[Any, Known] = field(default_factory=dict[Any, Known])
    tables: dict[str, Passed] = field(default_factory=dict[str, Passed])
    """By offset."""
    calls: int = 0

    def run(self, program: str, leaves: Mapping[int, tuple[str, Dims]], flat: list[Any], stored: set[int],
            tables: Mapping[str, Table], provider: Any, form: Form, run: Callable[[], None]) -> None:  # fmt: skip
        """Run a call, and keep it: `leaves` are its fields by place, `stored` the places of those that it stores in."""
        if threading.get_ident() != self.thread:
            message = f"the step is recorded by one thread, and '{program}' is called by another."
            raise refuse("TI16", message, "record in each thread by itself, each on fields of its own.")
        self.calls += 1
        self._check_tables(program, tables, provider)
        fields = {place: self._meet(program, *of, flat[place].ndarray) for place, of in leaves.items()}
        for key in dict.fromkeys(fields.values()):
            self.as_left(key, f"call {self.calls}, of '{program}',")
        run()
        for place in stored:
            for key in (fields[place], *self.known[fields[place]].sharing):
                one = self.known[key]
                one.now, one.last = np.array(one.array), (self.calls, program)
        numbers = {k: getattr(v, "value", v) for k, v in enumerate(flat) if k not in leaves}
        self.events.append(Call(program, fields, numbers, form))

    def as_left(self, key: Any, reader: str) -> None:
        """Look whether a field holds what the last call left; other values are an error, or are kept."""
        one = self.known[key]
        bits = f"u{one.array.dtype.itemsize}"  # a NaN is equal to itself
        if np.array_equal(one.array.view(bits), one.now.view(bits)):
            return
        if self.host_writes == "refuse":
            after = "it was met first" if one.last is None else f"call {one.last[0]}, of '{one.last[1]}',"
            when = f"after {after} and before {reader}"
            message = f"'{one.leaf}' was written {when} by what is no program of this backend."
            help = 'write it in a program, or keep it as a constant: record(host_writes="constant").'
            raise refuse("TI14", message, help)
        one.now = np.array(one.array)
        self.events.append(Set(key, one.now, self.calls))
        for other in one.sharing:
            self.known[other].now = np.array(self.known[other].array)

    def _meet(self, program: str, leaf: str, dims: Dims, array: Any) -> Any:
        """The key of an array's memory; at the first meeting its numbers are kept and the fields that share its memory
        noted.

        `program`, `leaf`: who passes it, for messages. Raises TI16 for an array that is not NumPy's.
        """
        if not isinstance(array, np.ndarray):
            message = f"'{leaf}' of '{program}' lies in the memory of a device, and steps are recorded on the host."
            raise refuse("TI16", message, "record with fields of xla_cpu; the step itself runs anywhere.")
        key = key_of(array)
        if key not in self.known:
            held = np.array(array)
            one = self.known[key] = Known(array, leaf, program, dims, held, held)
            for other, known in self.known.items():
                if other != key and shared(array, known.array):
                    self.as_left(other, f"call {self.calls}, of '{program}',")
                    one.sharing.append(other)
                    known.sharing.append(key)
        return key

    def _check_tables(self, program: str, tables: Mapping[str, Table], provider: Any) -> None:
        """Note the tables of a call, and raise TI15 for one that was changed since its program was compiled, or differs
        from that of an earlier call under the same name.
        """
        for table in tables.values():
            name, source = table.name, provider[table.name]
            if name not in self.tables:
                current: Any = source if isinstance(source, Table) else offsets({name: source})[name]
                if not _equal(table, current):
                    raise _changed(name)
                self.tables[name] = Passed(
                    f"call {self.calls}, of '{program}'", table, source, np.array(_numbers(source))
                )
            known = self.tables[name]
            if known.source is not source and not _equal(known.table, table):
                message = f"'{name}' of call {self.calls}, of '{program}', is another table than that of {known.first}."
                raise refuse("TI15", message, "record the programs of each grid as a step of its own.")


TAPE: ContextVar[Tape | None] = ContextVar("tensorir: the step that is recorded", default=None)
"""What is recorded by the running thread."""


def _changed(name: str) -> DiagnosticError:
    message = f"'{name}' was changed after its program was compiled."
    return refuse("TI15", message, "make a connectivity of its own for another grid, and record again.")


def _numbers(source: Any) -> Any:
    """The numbers of the array of a table; nothing where no array has them."""
    if isinstance(source, Table):
        return source.entries
    return () if is_strided(source) else host_array(source.ndarray)


def _equal(a: Table, b: Table) -> bool:
    """True if two tables have the same entries from the same origin."""
    return a is b or (a.origin == b.origin and np.array_equal(a.entries, b.entries))


@dataclass(eq=False)
class Root:
    """Memory of a step: a field that no other holds, what it held at first, and the parts of it that are fields."""

    known: Known
    first: Any
    windows: dict[Any, Window | None]
    """By memory; None is the whole."""


def roots_of(known: Mapping[Any, Known]) -> list[Root]:
    """Groups of fields that share memory, directly or through others, each as the largest field and windows in it.

    `known`: the recorded fields by key of their memory. Raises TI17 for a group in which no field contains all others.
    """
    result: list[Root] = []
    left = dict(known)
    while left:
        together = [next(iter(left))]
        for key in together:
            together += [k for k in known[key].sharing if k not in together]
        for key in together:
            del left[key]
        result.append(_merge({k: known[k] for k in known if k in together}))
    return result


def _merge(together: Mapping[Any, Known]) -> Root:
    """One group of fields that share memory as a `Root`: the largest field, the windows of the others in it, and the
    numbers that its memory held before any call.

    Each field's numbers were kept when a call first passed it. For a part that was passed before the whole they are
    older than those kept for the whole, and replace them. Raises TI17 for a field that is no window of the largest.
    """
    largest = max(together, key=lambda k: together[k].array.size)
    whole = together[largest]
    windows: dict[Any, Window | None] = {largest: None}
    first = np.array(whole.first)
    before = list(together)[: list(together).index(largest)]
    for key, one in together.items():
        if key == largest:
            continue
        windows[key] = piece = window(whole.array, one.array)
        if piece is None:
            message = f"'{whole.leaf}' of '{whole.program}' and '{one.leaf}' of '{one.program}' share memory"
            raise refuse("TI17", f"{message}, and neither holds the other.", "allocate each field by itself.")
    # what was met before the whole was may be stored in by then; of two parts, the one that was met first is older
    for key in reversed(before):
        part = windows[key]
        assert part is not None
        part.of(first)[...] = together[key].first
    return Root(whole, first, windows)


# Arrays are those of callers, of any library.


NOTHING: Mapping[str, Any] = {}


def record(*, names: Mapping[str, Any] = NOTHING, host_writes: str = "refuse", checkpoint: bool = True) -> RecordedStep:
    """The calls of GT4Py's programs in a `with` block, as one pure function of all fields that they touch.

    Programs run as ever, those of this backend, and are kept with the domains of their fields, their numbers and their
    tables. `names` has fields by the name that they get; others are called as the parameter of the first program that
    takes them, behind the program's name where two fields would have one. A field that something else changes between
    two calls (NumPy, another backend, another thread) is an error, or, with `host_writes="constant"`, is set there to
    what it was set to, which is an entry of the state by the name of the field and the number of the call that follows.
    With `checkpoint` gradients keep the fields between programs, and compute what is inside of one again.

    Raises TI14 for such a write, TI15 for tables of several grids under one name and for tables that were changed,
    TI16 for a block that calls nothing and for calls of another thread, TI17 for fields that overlap in part.
    """
    if host_writes not in ("refuse", "constant"):
        raise refuse("TI16", f"host_writes is {host_writes!r}.", 'it is "refuse" or "constant".')
    return RecordedStep(names, host_writes, checkpoint)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a field of a call: an entry of the state, and the part of it."""

    name: str
    window: Window | None


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the state: its dims and element type, what it held first, and its field as long as that lives."""

    dims: Dims
    dtype: Any
    first: Any
    array: weakref.ref[Any] | None


@dataclass(eq=False)
class RecordedStep:
    """A step: of a state, a dict of arrays by name, the state after it.

    `step(step.state)` are the fields as the recorded step left them. `reads` are the entries that it needs, `writes`
    those that it changes. It may be called inside of `jit`, `grad`, `vmap` and `ti.iterate`.
    """

    named: Mapping[str, Any] = field(repr=False)
    host_writes: str
    checkpoint: bool
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    _tape: Tape | None = field(default=None, repr=False)
    _token: Token[Tape | None] | None = field(default=None, repr=False)
    _events: tuple[Call | Set, ...] = field(default=(), repr=False)
    _places: dict[Any, _Place] = field(default_factory=dict[Any, _Place], repr=False)
    _entries: dict[str, _Entry] = field(default_factory=dict[str, _Entry], repr=False)
    _tables: Mapping[str, Passed] = field(default_factory=dict[str, Passed], repr=False)
    _placed: Callable[[Any], Any] | None = field(default=None, repr=False)
    """From a compiled program to the program on many devices."""

    # Recording

    def __enter__(self) -> RecordedStep:
        """Begin to record the calls of this thread; raises TI16 within another recording, and for a second one."""
        if TAPE.get() is not None:
            raise refuse("TI16", "a step is recorded already.", "end its block first; the whole is one step.")
        if self._entries or self._tape is not None:
            raise refuse("TI16", "this step is recorded already.", "begin another: ti.iterator.record().")
        self._tape = Tape(self.host_writes)
        self._token = TAPE.set(self._tape)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """End recording and make the step of what was recorded; raises TI16 where no program was called, TI14 for a
        field that something else wrote. After an exception nothing is kept.
        """
        tape, token = self._tape, self._token
        assert tape is not None and token is not None
        TAPE.reset(token)
        self._tape = self._token = None
        if kind is None:
            if not tape.calls:
                message = "no program of this backend was called while the step was recorded."
                raise refuse("TI16", message, "call programs with backend=xla_cpu inside of the block.")
            tape.calls += 1
            for key in list(tape.known):
                tape.as_left(key, "the end of the step")
            self._keep(tape)

    def _keep(self, tape: Tape) -> None:
        """The entries, places, events and tables of the step from a tape.

        Each group of fields in one memory is one entry, named by `named` or by its field; every write by the host
        becomes an entry, too.
        """
        wanted = {key_of(getattr(f, "ndarray", f)): n for n, f in self.named.items()}
        for root in roots_of(tape.known):
            whole = next(key for key, part in root.windows.items() if part is None)
            name = wanted.get(whole) or self._free(root)
            self._entries[name] = _Entry(root.known.dims, root.first.dtype, root.first, weakref.ref(root.known.array))
            self._places.update({key: _Place(name, part) for key, part in root.windows.items()})
        self._events, self._tables = tuple(tape.events), dict(tape.tables)
        for event in tape.events:
            if isinstance(event, Set):
                dims, value = tape.known[event.key].dims, event.value
                self._entries[self._set_name(event)] = _Entry(dims, value.dtype, value, None)
        self.reads, self.writes = self._find_traffic()

    def _free(self, root: Root) -> str:
        """A name that no other entry has."""
        known, taken = root.known, {*self._entries, *self.named}
        names = [known.leaf, f"{known.program}.{known.leaf}"]
        names += [f"{names[1]}_{k}" for k in range(2, len(taken) + 3)]
        return next(n for n in names if n not in taken)

    def _set_name(self, event: Set) -> str:
        """The name of the entry for a write of the host: `h@3` before call 3, `h[1:4, 0:5]@3` of a part."""
        place = self._places[event.key]
        part = "" if place.window is None else f"[{', '.join(f'{s.start}:{s.stop}' for s in place.window.index)}]"
        return f"{place.name}{part}@{event.before}"

    def _find_traffic(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The entries that are read before all of them was written, and those that are written."""
        read: dict[str, None] = {}
        written: dict[str, bool] = {}

        def writes(place: _Place, whole: bool) -> None:
            covered = whole and place.window is None
            if not covered and not written.get(place.name):
                read[place.name] = None
            written[place.name] = covered or written.get(place.name, False)

        for event in self._events:
            if isinstance(event, Set):
                read[self._set_name(event)] = None
                writes(self._places[event.key], True)
                continue
            form = event.form
            for _, k, _ in form.inputs:
                if k in event.fields and not written.get(self._places[event.fields[k]].name):
                    read[self._places[event.fields[k]].name] = None
            for _, k, where in form.outputs:
                place = self._places[event.fields[k]]
                shape = self._entries[place.name].dims.shape
                writes(place, all((s.start, s.stop) == (0, n) for s, n in zip(where, shape, strict=False)))
        return tuple(read), tuple(written)

    # What it is

    @property
    def state(self) -> dict[str, Any]:
        """The entries as the recorded step met them: a copy, which the step does not change."""
        return {n: np.array(e.first) for n, e in self._require_entries().items()}

    @property
    def domains(self) -> dict[str, Dims]:
        """The dims of each entry with their intervals, in the order of its axes."""
        return {n: e.dims for n, e in self._require_entries().items()}

    def split(self, *names: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The state as two: the entries of some names, and all others, for `step(state, rest)`."""
        state = self.state
        self._refuse_unknown(names)
        return {n: state[n] for n in names}, {n: a for n, a in state.items() if n not in names}

    def distributed_by(self, placed: Callable[[Any], Any]) -> RecordedStep:
        """The step of the same programs on many devices, which is what `ti.distribute` makes of a step."""
        self._require_entries()
        other = copy(self)
        other.__dict__.pop("_function", None)
        other._placed = placed
        return other

    def name_of(self, field: Any) -> str:
        """The name of the entry whose memory a field has; raises TI18 for one that no program of the step took."""
        place = self._places.get(key_of(getattr(field, "ndarray", field)))
        if place is None:
            message = "no program of the step took this field."
            raise refuse("TI18", message, "print(step) has those that they took.")
        return place.name

    def current(self) -> dict[str, Any]:
        """The present values of the fields, as a state; raises TI18 where one was freed."""
        return {n: np.array(e.first if e.array is None else self._array(n)) for n, e in self._require_entries().items()}

    def store(self, state: Mapping[str, Any]) -> None:
        """Write the entries of a state into the fields that were recorded; raises TI18 where one was freed."""
        self._refuse_other(state)
        targets = {n: self._array(n) for n in state if self._require_entries()[n].array is not None}
        for n, target in targets.items():
            target[...] = np.asarray(self._fit(n, state[n]))

    def _array(self, name: str) -> Any:
        """The array of an entry's field; raises TI18 where it was freed."""
        reference = self._entries[name].array
        array = reference() if reference is not None else None
        if array is None:
            message = f"the field of '{name}' was freed since the step was recorded."
            raise refuse("TI18", message, "keep it while its memory is asked for; the step itself needs no field.")
        return array

    def _require_entries(self) -> dict[str, _Entry]:
        if not self._entries:
            raise refuse("TI16", "the step is not recorded yet.", "use it after its block: with record().")
        return self._entries

    def _refuse_unknown(self, names: Any) -> None:
        for name in names:
            if name not in self._require_entries():
                raise refuse("TI18", f"the step has no entry '{name}'.", did_you_mean(name, self._entries))

    def _refuse_other(self, state: Any) -> None:
        """Raise TI11 for what is no dict of arrays, TI18 for entries that the step does not have."""
        if not isinstance(state, Mapping):
            message = f"a state has arrays by name, and this is of type {type(state).__name__}."
            raise refuse("TI11", message, "pass a dict: step(step.state).")
        self._refuse_unknown(state)

    def _fit(self, name: str, value: Any) -> Any:
        """An array for an entry; raises TI11 for another shape or element type."""
        entry = self._require_entries()[name]
        array = getattr(value, "ndarray", value)
        element = scalar_of(array.dtype) if hasattr(array, "dtype") else None
        if np.shape(array) != entry.dims.shape or element is None or DTYPES[element] != entry.dtype:
            kind = f"{element or type(array).__name__} of the shape {np.shape(array)}"
            message = f"'{name}' was recorded as {scalar_of(entry.dtype)} on {entry.dims}, and {kind} is passed."
            raise refuse("TI11", message, "record the step on fields of that size and type.")
        return array

    def __str__(self) -> str:
        """A line for each call: number, program, entries that it stores and that it reads."""
        lines: list[str] = []
        for number, event in enumerate((e for e in self._events if isinstance(e, Call)), 1):
            form = event.form
            read = dict.fromkeys(self._places[event.fields[k]].name for _, k, _ in form.inputs if k in event.fields)
            stored = dict.fromkeys(self._places[event.fields[k]].name for _, k, _ in form.outputs)
            lines.append(f"{number}: {event.program}: {', '.join(stored)} of {', '.join(read) or 'nothing'}")
        return "\n".join(lines)

    # Running

    def __call__(self, state: Mapping[str, Any], rest: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
        """The state after the step: all entries of `state` and of `writes`, but for those that are in `rest` alone.

        Raises TI11 for an entry that is read and not given, or has another shape or element type than was recorded,
        TI15 where a table was changed since.
        """
        for table in self._tables.values():
            table.refuse_changed()
        self._refuse_other(rest)
        self._refuse_other(state)
        both = {**rest, **state}
        missing = [n for n in self.reads if n not in both]
        if missing:
            message = f"the step reads '{missing[0]}', which is not given."
            raise refuse("TI11", message, "step.state has all that it reads.")
        used = {*self.reads, *self.writes}
        arrays = {n: self._fit(n, a) for n, a in both.items() if n in used}
        written = self._function(arrays)
        return {**state, **{n: a for n, a in written.items() if n in state or n not in rest}}

    @cached_property
    def _function(self) -> Any:
        """Entries to those that are written, as one program."""
        compiling = backend("jax")
        forms = {id(form): form for form in (event.form for event in self._events if isinstance(event, Call))}

        def part(call: Any) -> Any:
            """A compiled program as a function of a dict, placed on devices if the step is, and a unit of
            checkpointing.
            """
            placed = call if self._placed is None else self._placed(call)

            def run(arrays: Mapping[str, Any]) -> Any:
                return placed(**arrays)

            return compiling.part(run, checkpoint=self.checkpoint)

        runs = {k: part(form.call) for k, form in forms.items()}

        def step(entries: Mapping[str, Any]) -> dict[str, Any]:
            """The entries that are written, after all events in order: programs on the parts that their fields are, and
            writes of the host.
            """
            env = dict(entries)
            for event in self._events:
                if isinstance(event, Set):
                    self._put(env, self._places[event.key], None, entries[self._set_name(event)])
                else:
                    arguments: dict[str, Any] = {}
                    for name, k, dtype in event.form.inputs:
                        if k in event.fields:
                            place = self._places[event.fields[k]]
                            whole = env[place.name]
                            arguments[name] = whole if place.window is None else place.window.of(whole)
                        else:
                            arguments[name] = np.asarray(event.numbers[k], dtype)
                    results = runs[id(event.form)](arguments)
                    for name, k, where in event.form.outputs:
                        self._put(env, self._places[event.fields[k]], where, results[name])
            return {n: env[n] for n in self.writes}

        return compiling.one_program(step)

    def _put(self, env: dict[str, Any], place: _Place, where: tuple[slice, ...] | None, part: Any) -> None:
        """Replace in `env` the part of an entry that a place and slices `where` within it name (None: all of the
        place).
        """
        if place.window is not None:
            old = place.window.of(env[place.name])
            env[place.name] = place.window.put(env[place.name], part if where is None else _store(old, where, part))
        else:
            env[place.name] = part if where is None else _store(env.get(place.name), where, part)


def _store(old: Any, where: tuple[slice, ...], part: Any) -> Any:
    if old is None or old.shape == part.shape:
        return part
    return old.at[where].set(part)
