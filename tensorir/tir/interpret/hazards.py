"""Who touched what: the log by which iterations that run side by side are shown to be independent.

Lanes are iterations (or threads); each has a number. A `Level` notes for every element of a memory which lane wrote it
and which read it. An element that one lane writes and another touches is a `Conflict`: then the iterations depend on
each other, and a loop that claimed to be parallel has a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir.interpret.arithmetic import Value, is_array
from tensorir.tir.interpret.memory import Memory

__all__ = ["Axis", "Conflict", "Level", "lane_numbers"]


class _Marks:
    """Where the numbers of the next level start, so that old logs need not be wiped."""

    next = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop, or one index of threads, whose iterations are lanes: `values` out of `extent`, started at `low`."""

    name: str
    low: int
    extent: int
    values: np.ndarray[Any, Any]
    depth: int
    step: int = 1


class Conflict(Exception):
    """Two lanes touched one element, and one of them wrote it; `depth` is the outermost level that tells them apart.

    `level` is the one that noticed.
    """

    level: Level
    depth: int
    memory: Memory
    element: int
    first: Access
    second: Access

    def __init__(self, level: Level, depth: int, memory: Memory, element: int, first: Access, second: Access) -> None:
        super().__init__(memory.name)
        self.level, self.depth, self.memory, self.element = level, depth, memory, element
        self.first, self.second = first, second


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a conflict: what the lane did, in which iteration, and where the text says so."""

    verb: str
    iteration: str
    span: Span | None


def lane_numbers(axes: Sequence[Axis]) -> Value:
    """The number of each lane; outer axes count more. Inner axes are in front, as everywhere here."""
    number: Value = 0
    for place, axis in enumerate(axes):
        values = axis.values.reshape(-1, *([1] * place))
        number = number * axis.extent + values
    return number


@dataclass(eq=False, slots=True)
class Level:
    """The log of one set of lanes; `memories` None means all of them.

    `once` says that lanes which do the same thing with the same element do it once (threads), and not one by one: such
    a set of lanes has the number of its first lane, and `span` more for every pattern of axes along which it extends.
    `alike` says where the stores stand that write one value in all lanes: these do not matter to each other.
    """

    axes: tuple[Axis, ...]
    depth: int
    numbers: Value
    memories: set[int] | None
    once: bool = False
    enabled: bool = True
    sites: list[Span] | None = None
    alike: frozenset[Span] = frozenset()
    span: int = 0
    start: int = field(default=0)

    def __post_init__(self) -> None:
        self.span = 1
        for axis in self.axes:
            self.span *= axis.extent
        self.restart()

    def restart(self) -> None:
        """Forget what happened so far: a barrier."""
        self.start = _Marks.next
        _Marks.next += self.several + 1

    @property
    def several(self) -> int:
        """What stands for lanes that have nothing in common."""
        return self.span << (len(self.axes) if self.once else 0)

    def watches(self, memory: Memory) -> bool:
        if not self.enabled or (self.once and memory.own):  # threads cannot meet in memory that each has for itself
            return False
        return self.memories is None or id(memory) in self.memories

    def note(
        self,
        memory: Memory,
        address: Value,
        mask: Value,
        write: bool,
        span: Span,
        shape: tuple[int, ...],
        vector: bool,
        atomic: bool = False,
    ) -> None:
        """An access to units of a memory; raises `Conflict` if another lane touched one of them in a way that matters.

        `shape` is that of the lanes that the access tells apart. Updates that are atomic do not matter to each other.
        """
        writer, reader, updater, wrote_at, read_at, updated_at = self._log(memory)
        numbers = self._lanes(shape)
        if vector and is_array(numbers):
            numbers = numbers[..., None]
        parts = np.broadcast_arrays(address, numbers) if mask is None else np.broadcast_arrays(address, numbers, mask)
        if mask is None:
            places, lanes = parts[0].ravel(), parts[1].ravel()
        else:
            places, lanes = parts[0][parts[2]], parts[1][parts[2]]
        if not places.size:
            return
        lanes = lanes + self.start
        if atomic:
            for log, verb, sites in ((writer, "written", wrote_at), (reader, "read", read_at)):
                self._meet(memory, places, lanes, log, (verb, sites), "updated atomically", span)
            self._read(updater, updated_at, places, lanes, span)
            return
        self._meet(memory, places, lanes, updater, ("updated atomically", updated_at), _verb(write), span)
        before = writer[places]
        clash = (before >= self.start) & (before != lanes)
        if not write and self.once and clash.any():
            clash &= ~self._among(lanes, before)
        writers = lanes
        if write and span in self.alike and clash.any():
            again = clash & self._written_at(span, wrote_at[places])
            writers = np.where(again, self.start + self.several, lanes)
            clash &= ~again
        if clash.any():
            self._clash(memory, places, lanes, clash, before, ("written", wrote_at), _verb(write), span)
        if not write:
            self._read(reader, read_at, places, lanes, span)
            return
        before = reader[places]
        # lanes that together write what they together have read: one may be done before another one reads
        together = lanes - self.start >= self.span if self.once else False
        clash = (before >= self.start) & ((before != lanes) | together)
        if clash.any():
            self._clash(memory, places, lanes, clash, before, ("read", read_at), _verb(write), span)
        writer[places] = writers
        if wrote_at is not None:
            wrote_at[places] = self._site(span)
        before = writer[places]
        clash = before != writers
        if clash.any():
            self._clash(memory, places, lanes, clash, before, ("written", wrote_at), _verb(write), span)

    def _written_at(self, span: Span, sites: Value) -> Value:
        """Where the log names a statement as what wrote last."""
        assert self.sites is not None
        named: set[int] = set(sites.tolist())
        return np.isin(sites, [site for site in named if self.sites[site] == span])

    def _meet(
        self, memory: Memory, places: Value, lanes: Value, log: Any, earlier: tuple[str, Any], verb: str, span: Span
    ) -> None:
        """Raise where the log names another lane."""
        before = log[places]
        clash = (before >= self.start) & (before != lanes)
        if clash.any():
            self._clash(memory, places, lanes, clash, before, earlier, verb, span)

    def _read(self, reader: Value, read_at: Value, places: Value, lanes: Value, span: Span) -> None:
        many = self.start + self.several
        before = reader[places]
        new = np.where((before < self.start) | (before == lanes), lanes, many)
        reader[places] = new
        several = reader[places] != new
        if several.any():
            reader[places[several]] = many
        if read_at is not None:
            read_at[places] = self._site(span)

    def _log(self, memory: Memory) -> tuple[Any, Any, Any, Any, Any, Any]:
        found = memory.logs.get(self.depth)
        if found is None or (self.sites is not None and found[3] is None):
            units = memory.raw.size // memory.unit
            sites = [np.zeros(units, np.int32) for _ in range(3)] if self.sites is not None else [None] * 3
            found = memory.logs[self.depth] = (*(np.full(units, -1) for _ in range(3)), *sites)
        return found  # type: ignore[return-value]

    def _site(self, span: Span) -> int:
        assert self.sites is not None
        if not self.sites or self.sites[-1] is not span:
            self.sites.append(span)
        return len(self.sites) - 1

    def _lanes(self, shape: tuple[int, ...]) -> Value:
        """The numbers of the lanes that take part, or of the sets of lanes that do one thing."""
        numbers = self.numbers
        if not self.once or not is_array(numbers):
            return numbers
        wanted = (1,) * (numbers.ndim - len(shape)) + shape[max(0, len(shape) - numbers.ndim) :]
        chosen = tuple(slice(0, 1) if w == 1 else slice(None) for w in wanted)
        pattern = 0
        for place in range(len(self.axes)):
            if wanted[-1 - place] == 1 and numbers.shape[-1 - place] > 1:
                pattern |= 1 << place
        return numbers[chosen] + self.span * pattern

    def _among(self, lanes: Value, sets: Value) -> Value:
        """Where the lanes belong to sets of lanes (those that wrote one value together)."""
        lane_pattern, lane = np.divmod(lanes - self.start, self.span)
        set_pattern, first = np.divmod(sets - self.start, self.span)
        inside = lane_pattern & ~set_pattern == 0
        stride = self.span
        for place, axis in enumerate(self.axes):
            stride //= axis.extent
            along = (lane // stride) % axis.extent - (first // stride) % axis.extent
            inside &= (along == 0) | ((set_pattern >> place) & 1 == 1)
        return inside

    def _clash(
        self,
        memory: Memory,
        places: Value,
        lanes: Value,
        clash: Value,
        before: Value,
        earlier: tuple[str, Any],
        now: str,
        span: Span,
    ) -> None:
        at = int(np.flatnonzero(clash)[0])
        mine = int(lanes[at]) - self.start
        other = int(before[at]) - self.start
        verb, sites = earlier
        if now == verb == "written" and mine < other < self.span:  # both in one statement: in the order of the lanes
            mine, other = other, mine
        known = other < self.several
        mine_at = self.decode(mine)
        other_at = self.decode(other, mine_at) if known else ()
        if mine_at == other_at:
            mine_at = self.decode(mine, other_at)
        depth = self.depth
        for axis, a, b in zip(self.axes, mine_at, other_at, strict=False):
            if a != b:
                depth = axis.depth
                break
        where = None if sites is None or self.sites is None else self.sites[int(sites[int(places[at])])]
        raise Conflict(
            self,
            depth,
            memory,
            int(places[at]),
            Access(verb, self.describe(other_at) if known else "several iterations", where),
            Access(now, self.describe(mine_at), span),
        )

    def decode(self, number: int, unlike: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The index along each axis of a lane; of a set of lanes, of one that is not `unlike`."""
        pattern, number = divmod(number, self.span)
        found: list[int] = []
        for axis in reversed(self.axes):
            number, index = divmod(number, axis.extent)
            found.append(index)
        lane = tuple(reversed(found))
        if lane == unlike:
            last = enumerate(zip(lane, self.axes, strict=True))
            lane = tuple(axis.extent - 1 if pattern >> place & 1 else index for place, (index, axis) in last)
        return lane

    def describe(self, lane: tuple[int, ...]) -> str:
        """A lane as iterations of its loops: `i = 3, j = 0`."""
        pairs = zip(self.axes, lane, strict=True)
        return ", ".join(f"{axis.name} = {axis.low + index * axis.step}" for axis, index in pairs)


def _verb(write: bool) -> str:
    return "written" if write else "read"
