"""Memory, buffers as views of it, and the log of who touched what.

Memory, and buffers as views of it.

A `Memory` is one allocation: bytes, of which lanes (threads, or iterations that run side by side) may each have a copy
of their own. A `View` is a buffer at run time: a memory with an element type, a shape, strides and an offset. Several
views of one memory are aliases.

>>> memory = Memory.of(np.arange(6, dtype=np.int32), "A")
>>> view = View(memory, np.dtype(np.int32), 1, (2, 3), (3, 1), 0)
>>> memory.typed(view.dtype)[view.address([np.int32(1), np.int32(2)], False)]
np.int32(5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir.interpret.values import Value, is_array

_ALIGNMENT = 16


@dataclass(eq=False, slots=True)
class Memory:
    """One allocation of `size` bytes per copy; `copy` says which copy each lane uses, `own` that every lane has one.

    `born` counts allocations: what is older has a smaller number.
    """

    raw: np.ndarray[Any, Any]
    size: int
    unit: int
    name: str
    element: int
    """The bytes of an element as it was allocated, by which messages count."""
    scope: str = "global"
    copy: Value = 0
    known: np.ndarray[Any, Any] | None = None
    allocated: bool = True
    own: bool = False
    born: int = 0
    logs: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    views: dict[np.dtype[Any], np.ndarray[Any, Any]] = field(default_factory=dict[Any, Any])

    @staticmethod
    def new(count: int, dtype: np.dtype[Any], name: str, scope: str, copies: int = 1, copy: Value = 0) -> Memory:
        """Fresh memory for `count` elements, in as many copies."""
        size = -(-max(count, 1) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        raw = np.zeros(size * copies, np.uint8)
        return Memory(raw, size, dtype.itemsize, name, dtype.itemsize, scope, copy)

    @staticmethod
    def of(elements: np.ndarray[Any, Any], name: str) -> Memory:
        """Memory that holds the elements, all of which are known."""
        memory = Memory.new(elements.size, elements.dtype, name, "global")
        memory.typed(elements.dtype)[: elements.size] = elements.ravel()
        memory.allocated = False
        return memory

    def typed(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The whole memory as elements of a type."""
        found = self.views.get(dtype)
        if found is None:
            found = self.views[dtype] = self.raw.view(dtype)
        return found

    def refine(self, itemsize: int) -> None:
        """Units of fewer bytes, since somebody sees the memory as narrower elements."""
        if itemsize >= self.unit:
            return
        by = self.unit // itemsize
        if self.known is not None:
            self.known = np.repeat(self.known, by)
        for depth, arrays in self.logs.items():
            self.logs[depth] = tuple(None if a is None else np.repeat(a, by) for a in arrays)
        self.unit = itemsize

    def knowledge(self) -> np.ndarray[Any, Any]:
        """One flag per unit: whether somebody has written it."""
        if self.known is None:
            self.known = np.full(self.raw.size // self.unit, not self.allocated)
        return self.known


@dataclass(frozen=True, slots=True)
class Pointer:
    """A handle: a place in a memory, counted in bytes, with the shape of the buffer that it was taken from."""

    memory: Memory
    offset: Value = 0
    view: View | None = None


@dataclass(eq=False, slots=True)
class View:
    """A buffer at run time; strides and offset count elements, which are `lanes` scalars of `dtype` each."""

    memory: Memory
    dtype: np.dtype[Any]
    lanes: int
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    offset: Value

    def address(self, indices: Sequence[Value], vector: bool) -> Value:
        """The address of an element, counted in scalars; `vector` says that the last index is a vector."""
        total: Value = self.offset
        if vector and is_array(total):
            total = total[..., None]
        last = len(indices) - 1
        for place, (index, stride) in enumerate(zip(indices, self.strides, strict=True)):
            index = index.astype(np.int64) if is_array(index) else int(index)
            if vector and place != last and is_array(index):
                index = index[..., None]
            if vector and is_array(stride):
                stride = stride[..., None]
            total = total + index * stride
        if self.lanes != 1:
            within = np.arange(self.lanes)
            whole = np.asarray(total)[..., None] * self.lanes + within
            total = whole.reshape(*whole.shape[:-2], -1) if vector else whole
        return total


def strided(elements: np.ndarray[Any, Any], shape: Sequence[int], strides: Sequence[int]) -> np.ndarray[Any, Any]:
    """Contiguous elements seen with a shape and strides in bytes; unlike NumPy's own function, of any narrow type.

    >>> import ml_dtypes
    >>> strided(np.arange(6).astype(ml_dtypes.float8_e5m2), (2, 2), (3, 1)).astype(int).tolist()
    [[0, 1], [3, 4]]
    """
    return np.ndarray(shape, elements.dtype, elements.view(np.uint8), strides=strides)


def strides_of(array: Any) -> tuple[int, ...]:
    """The strides of an array in elements: those that it has; of one that runs backwards, those of a compact copy.

    >>> strides_of(np.zeros((2, 3), order="F")), strides_of(np.zeros(6)[::-1])
    ((1, 2), (1,))
    """
    if isinstance(array, np.ndarray) and array.size and not array.flags.c_contiguous and min(array.strides) >= 0:
        return tuple(step // array.itemsize for step in array.strides)
    return row_major(tuple(int(extent) for extent in np.shape(cast("Any", array))))


def row_major(shape: Sequence[Value]) -> tuple[Value, ...]:
    """The strides of a compact array.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Value] = []
    step: Value = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


# Who touched what: the log by which iterations that run side by side are shown to be independent.
#
# Lanes are iterations (or threads); each has a number. A `Level` notes for every element of a memory which lane wrote
# it and which read it. An element that one lane writes and another touches is a `Conflict`: then the iterations
# depend on each other, and a loop that claimed to be parallel has a race.


class _Marks:
    """The first numbers of the next level, so that old logs need not be wiped."""

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
    `alike` says where the stores stand that write one value in all lanes: these do not matter to each other. `folds`
    says that lanes are in the order of the text, so that one may update what an earlier one has written.
    """

    axes: tuple[Axis, ...]
    depth: int
    numbers: Value
    memories: set[int] | None
    once: bool = False
    enabled: bool = True
    sites: list[Span] | None = None
    alike: frozenset[Span] = frozenset()
    folds: bool = False
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
        """The number that stands for several lanes."""
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
            self._meet(memory, places, lanes, reader, ("read", read_at), "updated atomically", span)
            before = writer[places]
            clash = (before >= self.start) & (before > lanes if self.folds else before != lanes)
            if clash.any():
                self._clash(memory, places, lanes, clash, before, ("written", wrote_at), "updated atomically", span)
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
        """A mask of elements whose last write is by a statement, by the log."""
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
        """A mask of lanes that belong to sets of lanes (those that wrote one value together)."""
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
