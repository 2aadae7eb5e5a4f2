"""Accesses to memory and to views: refused outside of them, watched in checked mode.

Index spaces of views, and where the elements of a tile stand (the type document, section 5.4, and its examples).

>>> from tensorir.tile.types import PartitionView, TensorView, f32
>>> index_space(PartitionView((128, 128), TensorView(f32, (64, 256), (256, 1)), (0, 1)), (64, 256))
(1, 2)
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tensorir.runtime.errors import Diagnostic, Note, refuse
from tensorir.tile.interpret.elements import Array
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element, GatherScatterView, PartitionView, StridedView, TileView

SHIFT = 40
"""Half bytes between two allocations, as a power of two: 512 GB."""


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes that a name stands for; `size` of them are used."""

    name: str
    number: int
    size: int
    data: Array
    element: Element
    given: bool = False
    """Whether it is an argument: what it holds at the end is a result."""
    constant: bool = False
    shadow: Any = field(default=None, repr=False)
    """What the watch keeps of its bytes, in checked mode."""

    @property
    def base(self) -> int:
        return (self.number << SHIFT) + (1 << (SHIFT - 1))

    def element_at(self, byte: int) -> int:
        """The element that holds a byte."""
        return 2 * byte // (self.element.width // 4)


def dims_of(view: TileView) -> tuple[int, ...]:
    """The tensor dim along which each tile dim runs."""
    return tuple(range(len(view.tile))) if isinstance(view, GatherScatterView) else view.dim_map


def steps_of(view: TileView) -> tuple[int, ...]:
    """The distances, in elements, of two neighbouring tiles along each tile dim."""
    match view:
        case PartitionView(tile):
            return tile
        case StridedView(_, traversal):
            return traversal
        case GatherScatterView(tile):
            return (1,) * len(tile)


def index_space(view: TileView, extents: Sequence[int]) -> tuple[int, ...]:
    """The index space of a view: the number of indices along each tile dim, for the extents of its tensor."""
    return tuple(-(-extents[d] // step) for d, step in zip(dims_of(view), steps_of(view), strict=True))


def coordinates(view: TileView, index: Sequence[Any], extents: Sequence[int]) -> list[tuple[Any, Any]]:
    """For each tile dim the coordinates in the tensor of its elements, and whether they are inside.

    `index` has a number for each tile dim, and an array of them for the sparse dim of a gather_scatter_view.

    >>> from tensorir.tile.types import TensorView, f32
    >>> view = StridedView((2,), (3,), TensorView(f32, (16,), (1,)), (0,))
    >>> [(c.tolist(), inside.tolist()) for c, inside in coordinates(view, (5,), (16,))]
    [([15, 0], [True, False])]
    """
    found: list[tuple[Any, Any]] = []
    for k, (d, step) in enumerate(zip(dims_of(view), steps_of(view), strict=True)):
        extent = extents[d]
        if isinstance(view, GatherScatterView) and k == view.sparse_dim:
            rows = np.asarray(index[k]).astype(np.uint64)
            inside = rows < np.uint64(extent)
            at = np.where(inside, rows, np.uint64(0)).astype(np.int64)
        else:
            start = int(index[k]) * step
            count = max(0, min(view.tile[k], extent - start))
            inside = np.arange(view.tile[k]) < count
            at = np.where(inside, np.arange(view.tile[k], dtype=np.int64) + (start if count else 0), 0)
        found.append((at, inside))
    return found


# Accesses to memory: refused outside of it, and in checked mode watched for races and for what nobody wrote.
#
# Unchecked, an access only knows how to say what is wrong with it. In checked mode each byte remembers its last write
# and its last reads. Two accesses of one block are ordered by a path of tokens alone; accesses of two blocks only if
# one released what the other acquired. What is unspecified (memory that nobody wrote, padding without a value) is
# followed through every operation, and reported where it decides a branch or an address, or is left in an argument.


MAX_FINDINGS = 20
"""Findings of one kind at one operation that are kept."""


@dataclass(slots=True, eq=False)
class Event:
    """One run of one memory operation in one block."""

    number: int
    block: tuple[int, int, int]
    index: int
    """Which memory operation of its block it is."""
    op: Operation
    weak: bool
    before: int
    """The events of its block that tokens order before it, a bit for each."""
    known: dict[tuple[int, int, int], int]
    """For each other block, how many of its events happen before."""


@dataclass(slots=True, eq=False)
class Access:
    """One access of a memory operation, in one block."""

    op: Operation
    block: tuple[int, int, int]
    kind: str
    """read, write or atomic."""
    watch: Watch | None = None
    event: Event | None = None
    tainted: Any = None
    """Of a write: which lanes hold what is unspecified; of a read: filled with which lanes do."""

    def _where(self) -> str:
        return f"in block {self.block}"

    def fail(self, code: str, message: str, help: str = "") -> NoReturn:
        raise refuse(code, message, help, at=self.op.span)

    def refuse_pointer(self, lanes: Any) -> NoReturn:
        lane = 0 if lanes is ... else int(lanes[0])
        self.fail("TH02", f"{self.op.name} follows a pointer to no memory {self._where()}, in lane {lane}.")

    def refuse_outside(self, allocation: Allocation, offset: int, element: Element, lanes: Any, k: int) -> NoReturn:
        lane = k if lanes is ... else int(lanes[k])
        count = 2 * allocation.size // (element.width // 4)
        place = offset // (element.width // 4)
        what = {"read": "reads", "write": "writes", "atomic": "changes"}[self.kind]
        lane_in = f"{self._where()}, in lane {lane}"
        message = f"{self.op.name} {what} element {place} of '{allocation.name}' {lane_in}, which has {count}."
        self.fail("TH01", message, "mask the lanes that are outside, or pass a larger array.")

    def refuse_misaligned(self, allocation: Allocation, offsets: Any, element: Element) -> NoReturn:
        self.fail(
            "TH03",
            f"{self.op.name} follows a pointer into '{allocation.name}' not aligned to {element} {self._where()}.",
        )

    def refuse_constant(self, allocation: Allocation) -> NoReturn:
        self.fail("TH04", f"{self.op.name} writes to '{allocation.name}' {self._where()}, which is constant.")

    def whole_bytes(self, allocation: Allocation, offsets: Any, element: Element) -> None:
        """4-bit elements are accessed in pairs that make whole bytes."""
        if self.watch is not None and 2 * np.unique(offsets >> 1).size != np.unique(offsets).size:
            what = f"accesses elements of '{allocation.name}' that are no whole bytes of {element}"
            self.watch.found("TH16", self.op, f"{self.op.name} {what} {self._where()}.")

    def touched(self, allocation: Allocation, offsets: Any, element: Element, lanes: Any) -> None:
        if self.watch is not None:
            self.watch.touched(self, allocation, offsets, element, lanes)


@dataclass(slots=True, eq=False)
class _Shadow:
    """Shadow memory of each half byte: its last writer, its last reader, and if it is unspecified."""

    writer: Any
    reader: Any
    other_reader: Any
    unknown: Any


@dataclass(slots=True, eq=False)
class Watch:
    """The state of checked mode in a launch, and its hazards."""

    events: list[Event] = field(default_factory=list[Event])
    findings: dict[tuple[str, int], Diagnostic] = field(default_factory=dict[tuple[str, int], Diagnostic])
    block: tuple[int, int, int] = (0, 0, 0)
    counts: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    known: dict[tuple[int, int, int], dict[tuple[int, int, int], int]] = field(default_factory=dict)  # type: ignore[type-arg]
    released: dict[tuple[int, int], dict[tuple[int, int, int], int]] = field(default_factory=dict)  # type: ignore[type-arg]

    def found(self, code: str, op: Operation, message: str, *notes: Note) -> None:
        """Keep a finding; one of each kind for each operation."""
        self.findings.setdefault((code, id(op)), Diagnostic(code, message, op.span, notes))

    def undefined(self, op: Operation, lanes: Any, said: str) -> None:
        """Tell of lanes whose result is undefined."""
        if np.any(lanes):
            at = (
                tuple(int(k) for k in np.unravel_index(int(np.argmax(lanes)), np.shape(lanes)))
                if np.ndim(lanes)
                else ()
            )
            where = f", at element {list(at)}" if at else ""
            self.found("TH10", op, f"{op.name} {said} in block {self.block}{where}.")

    def begin(self, op: Operation, before: int, ordering: str) -> Event:
        """A new event of the running block."""
        index = self.counts.get(self.block, 0)
        self.counts[self.block] = index + 1
        event = Event(
            len(self.events), self.block, index, op, ordering == "weak", before, dict(self.known.get(self.block, {}))
        )
        self.events.append(event)
        return event

    def shadow(self, allocation: Allocation, unknown: bool) -> None:
        """Begin to watch an allocation; `unknown` where nobody wrote it yet."""
        size = 2 * len(allocation.data)
        allocation.shadow = _Shadow(
            np.full(size, -1, np.int32),
            np.full(size, -1, np.int32),
            np.full(size, -1, np.int32),
            np.full(size, unknown),
        )

    def touched(self, access: Access, allocation: Allocation, offsets: Any, element: Element, lanes: Any) -> None:
        """An access to bytes of an allocation: look for conflicts, and remember it."""
        shadow, event = allocation.shadow, access.event
        assert event is not None
        halves = element.width // 4
        spots = (offsets[:, None] + np.arange(halves)).reshape(-1) if halves > 1 else offsets
        if access.kind == "write":
            firsts = np.unique(offsets)
            if firsts.size != offsets.size and not access.op.name.startswith("atomic"):
                self._repeated(access, allocation, offsets, element)
        self._conflicts(access, allocation, shadow.writer[spots], spots, "writes")
        if access.kind != "read":
            for reader in (shadow.reader, shadow.other_reader):
                self._conflicts(access, allocation, reader[spots], spots, "reads")
        self._synchronise(access, allocation, offsets)
        if access.kind != "write":
            unknown = shadow.unknown[spots].reshape(-1, halves).any(axis=1)
            if access.tainted is not None and unknown.any():
                access.tainted.reshape(-1)[lanes] |= unknown
            if access.kind == "read":
                last = shadow.reader[spots]
                numbers, where = np.unique(last, return_inverse=True)
                others = np.array([n >= 0 and self.events[n].block != event.block for n in numbers.tolist()])
                foreign = others[where.reshape(-1)]
                shadow.other_reader[spots[foreign]] = last[foreign]
                shadow.reader[spots] = event.number
        if access.kind != "read":
            shadow.writer[spots] = event.number
            dirty = access.tainted.reshape(-1)[lanes] if access.tainted is not None and access.kind == "write" else None
            shadow.unknown[spots] = False if dirty is None else np.repeat(dirty.reshape(-1), halves)

    def _repeated(self, access: Access, allocation: Allocation, offsets: Any, element: Element) -> None:
        values, counts = np.unique(offsets, return_counts=True)
        place = int(values[counts > 1][0]) // (element.width // 4)
        self.found(
            "TH14",
            access.op,
            f"{access.op.name} writes element {place} of '{allocation.name}' more than once in block {access.block}.",
        )

    def _conflicts(self, access: Access, allocation: Allocation, earlier: Any, spots: Any, did: str) -> None:
        now = access.event
        assert now is not None
        for number in np.unique(earlier).tolist():
            if number < 0 or number == now.number:
                continue
            then = self.events[number]
            if self._ordered(then, now):
                continue
            spot = int(spots[int(np.argmax(earlier == number))])
            place = allocation.element_at(spot // 2)
            does = {"read": "reads", "write": "writes", "atomic": "changes"}[access.kind]
            if then.block == now.block:
                where = f"element {place} of '{allocation.name}' in block {now.block}"
                message = f"{now.op.name} {does} {where}, and no token orders it after what {did} it."
                self.found("TH12", now.op, message, Note(f"{then.op.name} {did} it.", then.op.span))
            else:
                where = f"element {place} of '{allocation.name}'"
                message = f"{now.op.name} in block {now.block} {does} {where}, and block {then.block} {did} it."
                self.found("TH13", now.op, message, Note(f"{then.op.name} {did} it.", then.op.span))

    def _ordered(self, then: Event, now: Event) -> bool:
        if then.block == now.block:
            return bool(now.before >> then.index & 1) or not (then.weak or now.weak)
        if not then.weak and not now.weak:
            return True
        return now.known.get(then.block, 0) > then.index

    def _synchronise(self, access: Access, allocation: Allocation, offsets: Any) -> None:
        """A release publishes the writes before it, and an acquire at the same place sees them."""
        event = access.event
        assert event is not None
        if event.weak:
            return
        ordering = event.op.attribute("memory_ordering_semantics")
        for offset in np.unique(offsets).tolist():
            key = (allocation.number, offset)
            if ordering in ("acquire", "acq_rel") and key in self.released:
                mine = self.known.setdefault(event.block, {})
                for block, count in self.released[key].items():
                    mine[block] = max(mine.get(block, 0), count)
                event.known.update(mine)
            if ordering in ("release", "acq_rel"):
                mine = {**self.known.get(event.block, {}), event.block: event.index + 1}
                known = self.released.setdefault(key, {})
                for block, count in mine.items():
                    known[block] = max(known.get(block, 0), count)
            elif access.kind == "write" and key in self.released:
                del self.released[key]

    def left(self, allocation: Allocation) -> None:
        """At the end of a launch: what is unspecified and was left in an argument."""
        spots = np.flatnonzero(allocation.shadow.unknown[: 2 * allocation.size])
        if spots.size:
            writer = self.events[int(allocation.shadow.writer[spots[0]])]
            place = allocation.element_at(int(spots[0]) // 2)
            where = f"element {place} of '{allocation.name}'"
            message = f"{writer.op.name} in block {writer.block} leaves an unspecified value in {where}."
            self.found("TH11", writer.op, message)
