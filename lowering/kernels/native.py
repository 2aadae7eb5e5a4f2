"""A sweep as a kernel for CPUs, in the text of LLVM: columns side by side in vector registers, level after level.

One block of columns is one call of a function: all scans of a region run over it, one after the other, and what they
hand on stays in a buffer that fits the first cache. Arrays whose levels lie innermost are turned, tile by tile, on the
way into such a buffer and out of it; everything else is read and written where it lies. The last block of an axis ends
where the axis does and may do columns again: each column is computed of its own inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from lowering.kernels.blocks import Block, Number, strides_of
from lowering.kernels.equations import Operand
from lowering.kernels.instances import Instances
from lowering.kernels.positions import Box, Entry, Index, Position, identity, symbols_of
from lowering.kernels.program import Program, Variable, element_of, shape_of
from lowering.kernels.regions import Swept
from lowering.kernels.sweeps import Sweep
from lowering.kernels.vectors import Lanes, Vectors, kind_of, memory_of

COLUMNS = 8
"""Columns of a block: two registers of 256 bits in float64, so that one waits while the other divides."""
TILE = 32
"""Bytes of a row of the tiles that are turned."""
PAGE = 4096
SHORT = 60
"""Instances of steps that are compiled for more columns where their levels lie pages apart."""
SMALL = 1 << 17
"""Bytes of buffers from which on blocks have half as many columns: beyond, the second cache does not hold them."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The text of a function of arrays, a buffer and the number of a block; what it takes."""

    text: str
    """`@block(ptr, ..., ptr buffer, i64 block)`, and what it declares."""
    arrays: tuple[Variable, ...]
    """Inputs, and then results."""
    results: tuple[Variable, ...]
    blocks: int
    buffer: int
    """Bytes."""
    work: int
    """Instructions of all blocks."""


def kernel_of(program: Program, region: Swept, results: Sequence[Variable]) -> Kernel:
    """A kernel of columns that stores `results`; blocks have as many columns as fit `SMALL` bytes of buffers, and
    `COLUMNS` at most, or four times as many if levels lie pages apart.
    """
    widest = 1 << (max(region.shape, default=1).bit_length() - 1)
    # levels that lie pages apart share few sets of a cache: more of each is read at once
    lanes = min(4 * COLUMNS if _shares_sets(region) else COLUMNS, widest)
    while True:
        kernel = _Columns(program, region, tuple(results), lanes).kernel()
        if kernel.buffer <= SMALL or lanes <= COLUMNS // 2:
            return kernel
        lanes //= 2


def _shares_sets(region: Swept) -> bool:
    """True if the step is short and it reads levels that lie whole memory pages apart, which share few sets of a
    cache.
    """
    level = len(region.shape)
    return sum(s.inner.count for s in region.sweeps) < SHORT and any(
        i.symbol == level and stride * element_of(v).itemsize % PAGE == 0
        for instances in region.instances
        for v, asked in instances.loads.items()
        for position in asked
        for i, stride in zip(position, strides_of(v), strict=True)
    )


@dataclass(eq=False)
class _Columns(Block):
    """The text of a kernel while it is made."""

    program: Program
    region: Swept
    results: tuple[Variable, ...]
    lanes: int
    buffers: dict[Any, str] = field(default_factory=dict[Any, str])
    """Pointers to levels of a block: made ones by variable, turned ones by variable and position."""
    size: int = 0
    work: int = 0

    def __post_init__(self) -> None:
        """Begin the function: parameters, the lane axis, and the coordinates of the block from its number."""
        super().__init__()
        self.text = Vectors(self.lanes)
        shape = self.region.shape
        constants = [v for s in self.region.sweeps for v in s.body.constants]
        self.ahead: list[tuple[Variable, str, int, int]] = []
        """Arrays that are turned, a pointer, how far columns lie apart, and how far behind the pointer they begin."""
        self.arrays = (*self.region.reads, *constants, *self.results)
        # the innermost axis that is wide enough
        wide = [k for k, n in enumerate(shape) if n >= self.lanes]
        self.lane = wide[-1] if wide else None
        self.text.lines.append("entry:")
        counts = [-(-n // self.lanes) if k == self.lane else n for k, n in enumerate(shape)]
        self.blocks = prod(counts)
        self.axes: list[str] = [""] * len(shape)
        rest = "%block"
        for k in reversed(range(len(shape))):
            number = self.text.put(f"urem i64 {rest}, {counts[k]}")
            rest = self.text.put(f"udiv i64 {rest}, {counts[k]}")
            if k == self.lane:
                first = self.text.put(f"mul i64 {number}, {self.lanes}")
                number = self.text.least(first, shape[k] - self.lanes)
            self.axes[k] = number

    # Memory

    def load(self, v: Variable, position: Position, box: Box) -> Lanes:
        """The elements of v at a position: from a buffer if v is a result of the region, or is transposed, else from
        its array.
        """
        element, level = element_of(v).name, len(self.region.shape)
        partial = {k for k in symbols_of(position) if box[k] != (0, self._extent(k))}
        clamped = [bool(partial & symbols_of((i,))) for i in position]
        if v in self.region.defines or self._is_turned(v, position, partial):
            (k,) = [k for k, i in enumerate(position) if i.symbol == level or self._is_level(v, k)]
            key = v if v in self.region.defines else (v, (*position[:k], *position[k + 1 :]))
            number = self._in_range(self._number(position[k]), shape_of(v)[k], clamped[k])
            kind = self.text.vector(memory_of(element))
            pointer = self.text.put(f"getelementptr {kind}, ptr {self.buffers[key]}, i64 {number.name}")
            return self._as_value(self.text.loaded(kind, pointer, element), element)
        return self.loaded(v, position, clamped, self.lane in partial)

    def _is_level(self, v: Variable, k: int) -> bool:
        """An axis of what was made has the levels."""
        return v in self.region.defines and k == self.region.axis.get(v, 0)

    def _extent(self, axis: int) -> int:
        shape = self.region.shape
        return shape[axis] if axis < len(shape) else self.levels

    def store(self, v: Variable, value: Lanes) -> None:
        """Write a result at the current point, to its buffer and its array; a result that is transposed is written
        to its buffer only.
        """
        element, memory, strides = value.element, memory_of(value.element), strides_of(v)
        name, kind = self._as_stored(value), self.text.vector(memory)
        if v in self.buffers:
            place = self.text.put(f"getelementptr {kind}, ptr {self.buffers[v]}, i64 {self.axes[-1]}")
            self.text.store(kind, name, place, element)
        if v not in self.results or self._is_turned_out(v):
            return
        levelled = len(strides) > len(self.region.shape)
        position = self.region.place(v) if levelled else identity(len(self.region.shape))
        terms = [(Number(self.axes[i.symbol]), s) for i, s in zip(position, strides, strict=True)]  # type: ignore[index]
        pointer = self._at(self._pointer(v), element, self._linear(terms, 0).name)
        step = self._lane_stride(v)
        if step == 1 or self.lanes == 1:
            self.text.store(kind, name, pointer, element)
            return
        for k in range(self.lanes):
            one = self.text.put(f"extractelement {kind} {name}, i64 {k}")
            self.text.store(memory, one, self._at(pointer, element, str(step * k)), element)

    def _lane_stride(self, v: Variable) -> int:
        """The distance, in elements of the result v, of two columns of the block."""
        rank = len(self.region.shape)
        position = self.region.place(v) if len(shape_of(v)) > rank else identity(rank)
        return next((s for s, i in zip(strides_of(v), position, strict=True) if i.symbol == self.lane), 1)

    # Levels that lie innermost

    def _is_turned(self, v: Variable, position: Position, partial: set[int]) -> bool:
        """True if v is transposed on the way into a buffer: the levels read are contiguous, and the columns of the
        block are not.

        `partial`: axes on which the position is not read at all points; a lane among them excludes the buffer, as do
        indices read of tables.
        """
        level = len(self.region.shape)
        if self.lanes == 1 or self.lane in partial or any(isinstance(i.symbol, Entry) for i in position):
            return False
        *outer, last_index = position or (Index(None, 0, 0),)
        lane = [i.factor for i in outer if i.symbol == self.lane]
        return last_index.symbol == level and lane == [1] and all(i.symbol != level for i in outer)

    def _is_turned_out(self, v: Variable) -> bool:
        """True if the result v is transposed on the way out of a buffer: its levels are the last axis, and a block
        has several columns.
        """
        shape, rank = shape_of(v), len(self.region.shape)
        return len(shape) > rank and self.region.axis.get(v, 0) == rank and self.lanes > 1

    def _buffer(self, key: Any, levels: int, element: str) -> None:
        """Reserve a buffer of `levels` vectors for `key`, at the next multiple of 64 bytes, unless it has one."""
        if key not in self.buffers:
            self.buffers[key] = self.text.put(f"getelementptr i8, ptr %buffer, i64 {self.size}")
            size = levels * self.lanes * np.dtype(element).itemsize
            self.size += -(-size // 64) * 64

    def _turn(self, v: Variable, pointer: str, stride: int, buffer: str, inwards: bool) -> None:
        """Emit code that transposes the columns of a block into `buffer` (`inwards`) or out of it, in square tiles.

        `pointer`: the first level of the first column. `stride`: the distance of columns, in elements.
        """
        element, levels = element_of(v).name, shape_of(v)[-1]
        kind, row = memory_of(element), self.text.vector(memory_of(element))
        side = min(self.lanes, TILE // np.dtype(element).itemsize)
        if levels < side:
            for k in range(levels):
                place_of_row = self.text.put(f"getelementptr {row}, ptr {buffer}, i64 {k}")
                places = [self._at(pointer, element, str(stride * j + k)) for j in range(self.lanes)]
                if inwards:
                    names = [self.text.loaded(kind, place, element) for place in places]
                    self.text.store(row, self.text.gathered(names, kind), place_of_row, element)
                    continue
                row_vector = self.text.loaded(row, place_of_row, element)
                for j, place in enumerate(places):
                    one = self.text.put(f"extractelement {row} {row_vector}, i64 {j}")
                    self.text.store(kind, one, place, element)
            return
        with _Loop(self, -(-levels // side), {}) as loop:
            first = self.text.least(self.text.put(f"mul i64 {loop.counter}, {side}"), levels - side)
            for group in range(0, self.lanes, side):
                array_places = [
                    self._at(pointer, element, self.text.put(f"add i64 {first}, {stride * (group + j)}"))
                    for j in range(side)
                ]
                buffer_places = [
                    self._at(
                        buffer,
                        element,
                        self.text.put(
                            f"add i64 {self.text.put(f'mul i64 {first}, {self.lanes}')}, {self.lanes * j + group}"
                        ),
                    )
                    for j in range(side)
                ]
                for place in array_places if inwards else ():
                    # the columns of the next block, which no prefetcher of the processor expects
                    ahead = self._at(place, element, str(stride * self.lanes))
                    self.text.call("void", "llvm.prefetch.p0", f"ptr {ahead}", "i32 0", "i32 3", "i32 1")
                tile = f"<{side} x {kind}>"
                sources, targets = (array_places, buffer_places) if inwards else (buffer_places, array_places)
                rows = [self.text.loaded(tile, p, element) for p in sources]
                for name, place in zip(self.text.transposed(rows, tile), targets, strict=True):
                    self.text.store(tile, name, place, element)

    def _prefetch(self, k: str) -> None:
        """Emit a prefetch of one cache line for each array in `ahead`, in each round `k` of a loop, and clear
        `ahead`.

        The lines are those that the next block transposes, or that this one writes: fetched only when needed, memory
        would wait for the computation, and the computation for memory.
        """
        for v, pointer, stride, ahead in self.ahead:
            element = element_of(v).name
            column, line = self.text.put(f"urem i64 {k}, {self.lanes}"), self.text.put(f"udiv i64 {k}, {self.lanes}")
            terms = [(Number(column), stride), (Number(line), 64 // np.dtype(element).itemsize)]
            place = self._at(pointer, element, self._linear(terms, ahead).name)
            self.text.call("void", "llvm.prefetch.p0", f"ptr {place}", "i32 0", "i32 2", "i32 1")
        self.ahead.clear()

    # Sweeps

    def kernel(self) -> Kernel:
        """Emit the function of a block: per sweep the transposed inputs, the loads that no level changes, and its
        loop; then the transposed results.
        """
        region, column = self.region, identity(len(self.region.shape))
        read_by_later_sweeps = {v for v in region.loads if v in region.defines and len(shape_of(v)) > len(column)}
        for v in region.defines:
            if v in read_by_later_sweeps or (v in self.results and self._is_turned_out(v)):
                self._buffer(v, max(shape_of(v)[region.axis.get(v, 0)], 1), element_of(v).name)
        for sweep, outer_instances, results_by_level in zip(region.sweeps, region.instances, region.after, strict=True):
            self.levels = sweep.length
            self._turn_inwards(sweep, [outer_instances, *results_by_level.values()])
            self.evaluate(self.program, outer_instances, lambda position: len(column) not in symbols_of(position))
            for v in self.results if sweep is region.sweeps[0] else ():
                if self._is_turned_out(v):
                    pointer = self._at(self._pointer(v), element_of(v).name, self._column(v))
                    self.ahead.append((v, pointer, self._lane_stride(v), 0))
            start = [self.value(o) for o in sweep.begins]
            final_states = self._swept(sweep, outer_instances, results_by_level, start)
            for v, state in zip(sweep.equation.outvars[: sweep.states], final_states, strict=True):
                self.entries[v, column] = state
                if v in self.results:
                    self.store(v, state)
        for v in self.results:
            if self._is_turned_out(v):
                pointer = self._at(self._pointer(v), element_of(v).name, self._column(v))
                self._turn(v, pointer, self._lane_stride(v), self.buffers[v], False)
        parameters = [f"ptr noalias %a{k}" for k in range(len(self.arrays))]
        head = f"define internal void @block({', '.join([*parameters, 'ptr noalias %buffer', 'i64 %block'])}) {{"
        text = "\n".join([*self.text.declared, head, *self.text.lines, "  ret void", "}"])
        return Kernel(text, self.arrays, self.results, self.blocks, self.size, self.work * self.blocks)

    def _column(self, v: Variable) -> str:
        """The offset, in elements, of the first column of the block in the result v."""
        position, level = self.region.place(v), len(self.region.shape)
        terms = [
            (Number(self.axes[i.symbol]), s)  # type: ignore[index]
            for i, s in zip(position, strides_of(v), strict=True)
            if i.symbol != level
        ]
        return self._linear(terms, 0).name

    def _turn_inwards(self, sweep: Sweep, read: Iterable[Instances]) -> None:
        """Transpose into buffers the arrays that a sweep reads, in the instances `read`, and whose levels are
        contiguous.
        """
        defined = set(self.region.defines)
        for instances in read:
            for v, asked in instances.loads.items():
                for position, box in asked.items():
                    partial = {k for k in symbols_of(position) if box[k] != (0, self._extent(k))}
                    key = v, position[:-1]
                    if v in defined or key in self.buffers or not self._is_turned(v, position, partial):
                        continue
                    clamped = [bool(partial & symbols_of((i,))) for i in position]
                    numbers = [
                        self._in_range(self._number(i), n, c)
                        for i, n, c in zip(position[:-1], shape_of(v), clamped, strict=False)
                    ]
                    strides = strides_of(v)[:-1]
                    first = self._linear(zip(self._first_lane(position[:-1], numbers), strides, strict=True), 0)
                    pointer = self._at(self._pointer(v), element_of(v).name, first.name)
                    stride = next(s for s, i in zip(strides, position, strict=False) if i.symbol == self.lane)
                    self._buffer(key, shape_of(v)[-1], element_of(v).name)
                    self._turn(v, pointer, stride, self.buffers[key], True)
                    self.ahead.append((v, pointer, stride, self.lanes * stride))

    def _swept(
        self,
        sweep: Sweep,
        outer_instances: Instances,
        results_by_level: Mapping[Variable, Instances],
        start: Sequence[Lanes],
    ) -> list[Lanes]:
        """Emit the loop of a sweep, with the results computed in it level by level; returns the names of the final
        states.

        `outer_instances`: the instances outside of its step that it reads. `start`: the initial states.
        """
        e, column, count = sweep.equation, identity(len(sweep.columns)), sweep.length
        carried = {f"%s{self.text.count}.{k}": x for k, x in enumerate(start)}
        with _Loop(self, count, carried) as loop:
            level = self.text.put(f"sub i64 {count - 1}, {loop.counter}") if e.params["reverse"] else loop.counter
            self.axes.append(level)
            states = [Lanes(name, x.element) for name, x in carried.items()]
            self._prefetch(loop.counter)
            self.evaluate(self.program, outer_instances, lambda position: True)
            sweep.bind(self, states)
            self.evaluate(sweep.body, sweep.inner, lambda position: True)
            results = [self.value(Operand(v, column, sweep.box)) for v in sweep.body.results]
            for v, value in zip(e.outvars[sweep.states :], results[sweep.states :], strict=True):
                self.entries[v, (Index(len(column), 1, 0), *column)] = value
                self.store(v, value)
            for v, instances in results_by_level.items():
                self.evaluate(self.program, instances, lambda position: True)
                self.store(v, self.entries[v, self.region.place(v)])
            loop.carry(results[: sweep.states])
            self.axes.pop()
        return [Lanes(name, x.element) for name, x in zip(loop.last, start, strict=True)]


class _Loop:
    """A loop of a known number of rounds, more than none, whose body is written in between.

    What is known inside is forgotten behind it.
    """

    def __init__(self, kernel: _Columns, rounds: int, carried: Mapping[str, Lanes]) -> None:
        self.kernel, self.rounds, self.carried = kernel, rounds, carried
        self.last: list[str] = []

    def __enter__(self) -> _Loop:
        """Begin the body: its lines are collected apart, and the known values saved."""
        k, text = self.kernel, self.kernel.text
        text.count += 1
        self.label, self.before = f"loop{text.count}", text.lines
        self.counter = f"%k{text.count}"
        self.kept = dict(text.known), dict(k.entries), dict(k.boxes)
        text.lines = []
        return self

    def carry(self, values: Sequence[Lanes]) -> None:
        """The states of the next round."""
        self.last = [v.name for v in values]

    def __exit__(self, *problem: object) -> None:
        """Emit the loop around the body's lines, with a phi node for each carried value, and restore the values
        known before.
        """
        k, text, label = self.kernel, self.kernel.text, self.label
        body, text.lines = text.lines, self.before
        k.work += len(body) * self.rounds
        entry = next(f"%{line[:-1]}" for line in reversed(text.lines) if line.endswith(":"))
        text.lines += [f"  br label %{label}", f"{label}:"]
        text.lines.append(f"  {self.counter} = phi i64 [0, {entry}], [{self.counter}.next, %{label}]")
        for (name, x), after in zip(self.carried.items(), self.last, strict=True):
            kind = text.vector(kind_of(x.element))
            text.lines.append(f"  {name} = phi {kind} [{x.name}, {entry}], [{after}, %{label}]")
        text.lines += body
        text.lines += [
            f"  {self.counter}.next = add i64 {self.counter}, 1",
            f"  {self.counter}.more = icmp slt i64 {self.counter}.next, {self.rounds}",
            f"  br i1 {self.counter}.more, label %{label}, label %{label}.end",
            f"{label}.end:",
        ]
        text.known, k.entries, k.boxes = self.kept
