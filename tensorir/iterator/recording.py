"""What runs while a step is recorded: calls of programs on fields, and what else changes these fields.

A field is told by its memory. Of each there is what it held when a call met it first, and what it held after the last
call that stored in it: where a later call finds something else there, no program of this backend wrote it.
"""

# Arrays are of NumPy, and their element types are known to calls alone.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.binding.arrays import host_array
from tensorir.ir.types import Dims
from tensorir.iterator.lift.arguments import is_strided, offsets
from tensorir.iterator.lift.graph import Table
from tensorir.iterator.refusals import refused
from tensorir.iterator.shared_memory import Window, key_of, shared, window
from tensorir.runtime.errors import DiagnosticError

__all__ = ["TAPE", "Call", "Form", "Known", "Passed", "Root", "Set", "Tape", "roots_of"]


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
    given: Any
    numbers: Any

    def refuse_changed(self) -> None:
        """Raise TI15 where the array that was passed holds something else by now."""
        if not np.array_equal(_numbers(self.given), self.numbers):
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
            said = f"the step is recorded by one thread, and '{program}' is called by another."
            raise refused("TI16", said, help="record in each thread by itself, each on fields of its own.")
        self.calls += 1
        self._same_tables(program, tables, provider)
        fields = {place: self._met(program, *of, flat[place].ndarray) for place, of in leaves.items()}
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
        if _same(one.array, one.now):
            return
        if self.host_writes == "refuse":
            after = "it was met first" if one.last is None else f"call {one.last[0]}, of '{one.last[1]}',"
            said = f"'{one.leaf}' was written after {after} and before {reader} by what is no program of this backend."
            help = 'write it in a program, or keep it as a constant: record(host_writes="constant").'
            raise refused("TI14", said, help=help)
        one.now = np.array(one.array)
        self.events.append(Set(key, one.now, self.calls))
        for other in one.sharing:
            self.known[other].now = np.array(self.known[other].array)

    def _met(self, program: str, leaf: str, dims: Dims, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            said = f"'{leaf}' of '{program}' lies in the memory of a device, and steps are recorded on the host."
            raise refused("TI16", said, help="record with fields of xla_cpu; the step itself runs anywhere.")
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

    def _same_tables(self, program: str, tables: Mapping[str, Table], provider: Any) -> None:
        for table in tables.values():
            name, given = table.name, provider[table.name]
            if name not in self.tables:
                current: Any = given if isinstance(given, Table) else offsets({name: given})[name]
                if not _equal(table, current):
                    raise _changed(name)
                self.tables[name] = Passed(
                    f"call {self.calls}, of '{program}'", table, given, np.array(_numbers(given))
                )
            known = self.tables[name]
            if known.given is not given and not _equal(known.table, table):
                said = f"'{name}' of call {self.calls}, of '{program}', is another table than that of {known.first}."
                raise refused("TI15", said, help="record the programs of each grid as a step of its own.")


TAPE: ContextVar[Tape | None] = ContextVar("tensorir: the step that is recorded", default=None)
"""What is recorded by the running thread."""


def _changed(name: str) -> DiagnosticError:
    said = f"'{name}' was changed after its program was compiled."
    return refused("TI15", said, help="make a connectivity of its own for another grid, and record again.")


def _numbers(given: Any) -> Any:
    """What the array of a table holds; nothing where no array does."""
    if isinstance(given, Table):
        return given.entries
    return () if is_strided(given) else host_array(given.ndarray)


def _equal(a: Table, b: Table) -> bool:
    return a is b or (a.origin == b.origin and np.array_equal(a.entries, b.entries))


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits: a NaN is equal to itself."""
    bits = f"u{a.dtype.itemsize}"
    return np.array_equal(a.view(bits), b.view(bits))


@dataclass(eq=False)
class Root:
    """Memory of a step: a field that no other holds, what it held at first, and the parts of it that are fields."""

    known: Known
    first: Any
    windows: dict[Any, Window | None]
    """By memory; None is the whole."""


def roots_of(known: Mapping[Any, Known]) -> list[Root]:
    """Fields that share memory as one and its parts; raises TI17 where none of them holds all others."""
    result: list[Root] = []
    left = dict(known)
    while left:
        together = [next(iter(left))]
        for key in together:
            together += [k for k in known[key].sharing if k not in together]
        for key in together:
            del left[key]
        result.append(_root({k: known[k] for k in known if k in together}))
    return result


def _root(together: Mapping[Any, Known]) -> Root:
    largest = max(together, key=lambda k: together[k].array.size)
    whole = together[largest]
    windows: dict[Any, Window | None] = {largest: None}
    first = np.array(whole.first)
    before = list(together)[: list(together).index(largest)]
    for key, one in together.items():
        if key == largest:
            continue
        windows[key] = found = window(whole.array, one.array)
        if found is None:
            said = f"'{whole.leaf}' of '{whole.program}' and '{one.leaf}' of '{one.program}' share memory"
            raise refused("TI17", f"{said}, and neither holds the other.", help="allocate each field by itself.")
    # what was met before the whole was may be stored in by then; of two parts, the one that was met first is older
    for key in reversed(before):
        part = windows[key]
        assert part is not None
        part.of(first)[...] = together[key].first
    return Root(whole, first, windows)
