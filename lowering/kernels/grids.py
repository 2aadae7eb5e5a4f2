"""Stencils as a kernel for CPUs, in the text of LLVM: stages of rows, each a function, and a loop over rows.

A stage is computed piece by piece, a vector of points of the innermost axis at a time; the last vector of a row ends
where the row does and may do points again. Blocks are rows, and tiles of the second axis where the rows that are read
again are larger than a cache. Every operation is rounded by itself, and blocks change no bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from lowering.kernels.blocks import Block, Number, strides_of
from lowering.kernels.native import Kernel
from lowering.kernels.positions import Box, Entry, Position, identity, symbols_of
from lowering.kernels.program import Program, Variable, element_of, identity_of, shape_of
from lowering.kernels.stages import HELD, OVERLAP, Piece, Reach, Stage, Staged
from lowering.kernels.vectors import Lanes, Vectors, kind_of, memory_of

WIDTH = 64
"""Bytes of a vector: two registers of 256 bits, or one of 512."""
AHEAD = 4096
"""Bytes further on that are fetched: processors fetch ahead by themselves up to the end of a page."""
PER_THREAD = 4
"""Blocks for each thread."""


def kernel_of(program: Program, region: Staged, results: Sequence[Variable], threads: int) -> Kernel:
    """A kernel of stages that stores `results`, with blocks for `threads` threads.

    A block is so many rows that those computed twice (`Reach.overlap`) are few; if the rows read again exceed a cache,
    it is a tile of the second axis, too.
    """
    reach = Reach(region, results)
    rows, columns = region.shape[0], region.shape[1]
    tile = columns
    if reach.is_tiled and reach.cached > HELD:
        overlap = max(high - low for low, high in reach.along(1).values())
        tile = min(columns, max(columns * HELD // reach.cached, 2 * overlap, 8))
    tiles = -(-columns // tile)
    blocks = max(1, min(rows // max(1, OVERLAP * reach.overlap), -(-threads * PER_THREAD // tiles)))
    blocks = max(blocks, min(-(-threads // tiles), rows))
    return _Rows(program, region, tuple(results), reach, -(-rows // blocks), tile).kernel()


@dataclass(eq=False)
class _Rows:
    """The text of a kernel while it is made."""

    program: Program
    region: Staged
    results: tuple[Variable, ...]
    reach: Reach
    rows: int
    """Of a block."""
    tile: int
    declared: dict[str, None] = field(default_factory=dict[str, None])
    work: int = 0

    def kernel(self) -> Kernel:
        """Emit one function per stage and the function of a block, which runs over rows and calls each stage that
        needs its row.

        A stage v is needed from `low` rows before to `high` rows after a row of the results (`Reach.rows[v]`), and is
        computed `high` rows ahead of the loop's row; the loop begins `overlap` rows before the block, so that the first
        rows of all stages are there. A row outside of the block is kept in its ring only (`own` is false).
        """
        reach, region = self.reach, self.region
        self.arrays = (*region.reads, *self.results)
        self.rings = {v: f"%r{k}" for k, v in enumerate(reach.window)}
        stages = [self._function(k, v, stage) for k, (v, stage) in enumerate(region.stages.items())]
        count, tiles = -(-region.shape[0] // self.rows), -(-region.shape[1] // self.tile)
        arrays = [f"ptr noalias %a{k}" for k in range(len(self.arrays))]
        arguments = ", ".join(
            [*(f"ptr %a{k}" for k in range(len(self.arrays))), *(f"ptr {r}" for r in self.rings.values())]
        )
        lines = [f"define internal void @block({', '.join(arrays)}, ptr noalias %buffer, i64 %block) {{", "entry:"]
        size = 0
        for v, name in self.rings.items():
            lines.append(f"  {name} = getelementptr i8, ptr %buffer, i64 {size}")
            # a line apart, so that rows of two rings do not share sets of a cache
            size += -(-reach.window[v] * prod(shape_of(v)[1:]) * element_of(v).itemsize // 64) * 64 + 64
        lines += [
            f"  %across = urem i64 %block, {tiles}",
            f"  %down = udiv i64 %block, {tiles}",
            f"  %j0 = mul i64 %across, {self.tile}",
            f"  %j1 = add i64 %j0, {self.tile}",
            f"  %i0 = mul i64 %down, {self.rows}",
            f"  %after = add i64 %i0, {self.rows}",
            f"  %i1 = call i64 @llvm.smin.i64(i64 %after, i64 {region.shape[0]})",
            f"  %first = sub i64 %i0, {reach.overlap}",
            "  br label %row",
            "row:",
            "  %i = phi i64 [%first, %entry], [%next, %end]",
        ]
        for k, (v, stage) in enumerate(region.stages.items()):
            low, high = reach.rows[v]
            lines += [
                f"  %row{k} = add i64 %i, {high}",
                f"  %least{k} = add i64 %i0, {low}",
                f"  %needed{k} = icmp sge i64 %row{k}, %least{k}",
                f"  %there{k} = icmp ult i64 %row{k}, {stage.shape[0]}",
                f"  %both{k} = and i1 %needed{k}, %there{k}",
                f"  %from{k} = icmp sge i64 %row{k}, %i0",
                f"  %to{k} = icmp slt i64 %row{k}, %i1",
                f"  %own{k} = and i1 %from{k}, %to{k}",
                f"  br i1 %both{k}, label %do{k}, label %done{k}",
                f"do{k}:",
                f"  call void @stage{k}({arguments}, i64 %row{k}, i1 %own{k}, i64 %j0, i64 %j1)",
                f"  br label %done{k}",
                f"done{k}:",
            ]
        lines += [
            "  br label %end",
            "end:",
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %i1",
            "  br i1 %more, label %row, label %out",
            "out:",
            "  ret void",
            "}",
        ]
        self.declared["declare i64 @llvm.smin.i64(i64, i64)"] = None
        text = "\n".join([*self.declared, *stages, *lines])
        return Kernel(text, self.arrays, self.results, count * tiles, size, self.work)

    def _function(self, k: int, v: Variable, stage: Stage) -> str:
        """Emit the function that computes one row of stage number k: the pieces that contain it, by their intervals
        of the first axis.
        """
        parameters = [f"ptr noalias %a{n}" for n in range(len(self.arrays))]
        parameters += [f"ptr noalias {r}" for r in self.rings.values()]
        head = f"define internal void @stage{k}({', '.join(parameters)}, i64 %i, i1 %own, i64 %j0, i64 %j1)"
        # rows of a mesh are a few vectors, and a call takes as long as one
        head += " alwaysinline {" if stage.gathers else " {"
        lines, allocas, count = list[str](), list[str](), 0
        for start, stop in pairwise(sorted({end for piece in stage.pieces for end in piece.box[0]})):
            lines += [
                f"  %in{stop} = icmp slt i64 %i, {stop}",
                f"  br i1 %in{stop}, label %rows{stop}, label %not{stop}",
            ]
            label = f"rows{stop}"
            lines.append(f"{label}:")
            pieces_and_intervals = [
                (p, interval)
                for p in stage.pieces
                if p.box[0][0] <= start and stop <= p.box[0][1]
                for interval in _in_vectors(stage, p, p.box[-1])
            ]
            if stage.fold is not None and len(pieces_and_intervals) > 1:
                lines += self._blank(v, stage.fold, label)
                label = f"blank{stop}.end"
            for piece, interval in pieces_and_intervals:
                text = _Piece(self, v, stage, piece, interval, count, len(pieces_and_intervals) == 1)
                label = text.emit(label)
                lines += text.text.lines
                allocas += text.kept
                count = text.text.count
                points = prod(b - a for a, b in (*piece.box[:-1], interval))
                self.work += len(text.text.lines) * points // text.lanes
            lines += ["  ret void", f"not{stop}:"]
        return "\n".join([head, "entry:", *allocas, *lines, "  ret void", "}"])

    def _blank(self, v: Variable, fold: JaxprEqn, label: str) -> list[str]:
        """Emit a loop that fills a row of a folded result with the identity; `label` names the block of code before
        it.
        """
        name, element = label.replace("rows", "blank"), element_of(v).name
        count, memory = prod(shape_of(v)[1:]), memory_of(element)
        text = Vectors(1)
        identity_constant = text.constant(_identity(fold, element), "uint8" if element == "bool" else element).name
        return [
            f"  %{name}.row = mul i64 %i, {count}",
            f"  br label %{name}",
            f"{name}:",
            f"  %{name}.k = phi i64 [0, %{label}], [%{name}.next, %{name}]",
            f"  %{name}.at = add i64 %{name}.row, %{name}.k",
            f"  %{name}.place = getelementptr {memory}, ptr %a{self.arrays.index(v)}, i64 %{name}.at",
            f"  store <1 x {memory}> {identity_constant}, ptr %{name}.place, align {np.dtype(element).itemsize}",
            f"  %{name}.next = add i64 %{name}.k, 1",
            f"  %{name}.more = icmp slt i64 %{name}.next, {count}",
            f"  br i1 %{name}.more, label %{name}, label %{name}.end",
            f"{name}.end:",
        ]


def _in_vectors(stage: Stage, piece: Piece, interval: tuple[int, int]) -> list[tuple[int, int]]:
    """The intervals of the last axis of a piece; for a fold they are parts of whole vectors, so that no point is
    counted twice.
    """
    start, stop = interval
    end = stop - (stop - start) % _lanes(stage, piece, interval)
    if stage.fold is None or end in (start, stop):
        return [interval]
    return [(start, end), *_in_vectors(stage, piece, (end, stop))]


def _lanes(stage: Stage, piece: Piece, interval: tuple[int, int]) -> int:
    """Points of a vector: as many of the widest elements as `WIDTH` holds, or half; 1 if the interval is shorter."""
    widths = [element_of(v).itemsize for v in (stage.value, *piece.instances.loads)] + [stage.widest]
    count = WIDTH // max(widths)
    return next((n for n in (count, count // 2) if n <= interval[1] - interval[0]), 1)


class _Piece(Block):
    """The text that computes a piece of a row."""

    def __init__(
        self,
        rows: _Rows,
        v: Variable,
        stage: Stage,
        piece: Piece,
        interval: tuple[int, int],
        count: int,
        is_only_piece: bool,
    ) -> None:
        """Prepare the piece of a row, restricted to `interval` along the last axis.

        `count`: the number of names used in the function so far. `is_only_piece`: no other piece contributes to the
        folds of this row.
        """
        super().__init__()
        self.kernel, self.program, self.variable, self.stage, self.piece = rows, rows.program, v, stage, piece
        self.arrays, self.is_only_piece = rows.arrays, is_only_piece
        self.intervals = (*piece.box[:-1], interval)
        self.lanes = _lanes(stage, piece, interval)
        self.lane = len(piece.box) - 1
        self.text = Vectors(self.lanes, declared=rows.declared, count=count, contracted=False)
        self.kept: list[str] = []
        """Memory of the function: what is folded."""

    def emit(self, label: str) -> str:
        """Emit the loops over all axes but the first, and their body; returns the label of the code behind them.

        `label`: the label of the code before. Values are computed in the outermost loop that they need.
        """
        box, fold = self.piece.box, self.stage.fold
        first_folded_axis = len(box) if fold is None else min(fold.params["axes"])
        self.axes = ["%i"]
        outer: list[_Loop] = []
        inner: list[_Loop] = []
        for axis in range(1, len(box)):
            # loop-invariant code motion: what varies along none of the axes to come stands before their loops
            self.evaluate(self.program, self.piece.instances, lambda p: symbols_of(p) <= set(range(len(self.axes))))
            if fold is not None and axis == first_folded_axis:
                label = self._begin_fold(label)
            label = self._begin(axis, label, outer if axis < first_folded_axis else inner)
        self.evaluate(self.program, self.piece.instances, lambda position: True)
        value = self.entries[self.stage.value, identity(len(box))]
        if fold is None:
            label = self._store(value, label)
        else:
            name = self.text.loaded(self.text.vector(kind_of(value.element)), self.kept[0].split()[0], value.element)
            total = self.fold(fold, Lanes(name, value.element), value)
            self.text.store(
                self.text.vector(kind_of(value.element)), total.name, self.kept[0].split()[0], value.element
            )
            label = self._end(inner, label)
            label = self._store_fold(fold, value.element, label)
        return self._end(outer, label)

    def _end(self, loops: Sequence[_Loop], label: str) -> str:
        """Close loops, the innermost first; returns the label of the code behind them."""
        for loop in reversed(loops):
            n = loop.number
            self.text.lines += [
                f"  br label %end{n}",
                f"end{n}:",
                f"  %c{n}.next = add i64 %c{n}, {loop.step}",
                f"  %c{n}.more = icmp slt i64 %c{n}.next, {loop.stop}",
                f"  br i1 %c{n}.more, label %loop{n}, label %out{n}",
                f"out{n}:",
            ]
            label = f"out{n}"
        return label

    def _begin(self, axis: int, label: str, loops: list[_Loop]) -> str:
        """Open the loop over an axis, within the columns of the block for axis 1 of tiles; appends to `loops` and
        `axes`.

        Returns the label of its body. The last vector of an axis is moved back to end with it, and may compute points
        twice.
        """
        text, interval = self.text, self.intervals[axis]
        text.count += 1
        n, is_lane = text.count, axis == self.lane
        first, stop = map(str, interval)
        if axis == 1 and self.kernel.tile < self.kernel.region.shape[1]:
            low, high = self.kernel.reach.along(1)[self.variable]
            begin, end = text.put(f"add i64 %j0, {low}"), text.put(f"add i64 %j1, {high}")
            first = text.call("i64", "llvm.smax.i64", f"i64 {begin}", f"i64 {first}")
            stop = text.least(end, stop)
            is_not_empty = text.put(f"icmp slt i64 {first}, {stop}")
            text.lines += [f"  br i1 {is_not_empty}, label %some{n}, label %out{n}", f"some{n}:"]
            label = f"some{n}"
        text.lines += [
            f"  br label %loop{n}",
            f"loop{n}:",
            f"  %c{n} = phi i64 [{first}, %{label}], [%c{n}.next, %end{n}]",
        ]
        overlaps = is_lane and (interval[1] - interval[0]) % self.lanes
        self.axes.append(text.least(f"%c{n}", interval[1] - self.lanes) if overlaps else f"%c{n}")
        loops.append(_Loop(n, stop, self.lanes if is_lane else 1))
        return f"loop{n}"

    def _pointer(self, v: Variable) -> str:
        return self.kernel.rings.get(v) or super()._pointer(v)

    def _row(self, v: Variable, number: Number) -> Number:
        """The row of v in its ring, whose number of rows is a power of two: the row's number by a bit mask; itself
        without a ring.
        """
        if v not in self.kernel.rings:
            return number
        kind, rows = self.text.vector("i64") if number.wide else "i64", self.kernel.reach.window[v]
        slot = self._widened(Number(str(rows - 1)), number.wide)
        return Number(self.text.put(f"and {kind} {number.name}, {slot}"), number.wide)

    def load(self, v: Variable, position: Position, box: Box) -> Lanes:
        """The elements of v at a position, with a prefetch for whole vectors of arrays."""
        partial = {k for k in symbols_of(position) if box[k] != self.piece.box[k]}
        clamped = [bool(partial & symbols_of((i,))) for i in position]
        if v not in self.kernel.rings and not partial and self.step(v, position) == 1 < self.lanes:
            self._prefetch(v, position)
        return self.loaded(v, position, clamped, self.lane in partial)

    def _prefetch(self, v: Variable, position: Position) -> None:
        """Prefetch the array `AHEAD` bytes further on, at the largest of the offsets at which the stage reads it."""
        same_access = [p for p in self.stage.loads[v] if [i.symbol for i in p] == [i.symbol for i in position]]
        if any(isinstance(i.symbol, Entry) for i in position):
            return
        if position == max(same_access, key=lambda p: [i.offset for i in p]):
            element = element_of(v)
            numbers = [self._number(i) for i in position]
            terms = zip(self._first_lane(position, numbers), strides_of(v), strict=True)
            place = self._at(self._pointer(v), element.name, self._linear(terms, AHEAD // element.itemsize).name)
            self.text.call("void", "llvm.prefetch.p0", f"ptr {place}", "i32 0", "i32 3", "i32 1")

    def _store(self, value: Lanes, label: str) -> str:
        """Write a value to its ring, and to its array if the row is the block's own; returns the label of the code
        behind it.
        """
        v, text = self.variable, self.text
        name, kind = self._as_stored(value), text.vector(memory_of(value.element))
        ring = self.kernel.rings.get(v)
        if ring is not None:
            rows = [self._row(v, Number("%i")), *map(Number, self.axes[1:])]
            place = self._linear(zip(rows, strides_of(v), strict=True), 0)
            text.store(kind, name, self._at(ring, value.element, place.name), value.element)
        if v not in self.kernel.results:
            return label
        if ring is not None:
            # a row that another block has, too, is its own
            text.count += 1
            label = f"kept{text.count}"
            text.lines += [f"  br i1 %own, label %keep{text.count}, label %{label}", f"keep{text.count}:"]
        text.store(kind, name, self._result(value.element, len(self.piece.box)), value.element)
        if ring is not None:
            text.lines += [f"  br label %{label}", f"{label}:"]
        return label

    def _result(self, element: str, axes: int) -> str:
        """The pointer to the result at the current numbers of its first `axes` axes."""
        v, results = self.variable, self.kernel.results
        number = self._linear(zip(map(Number, self.axes[:axes]), strides_of(v), strict=True), 0)
        return self._at(f"%a{len(self.arrays) - len(results) + results.index(v)}", element, number.name)

    # Folds: in vectors along the axes that are folded, then over their lanes, then over pieces

    def _begin_fold(self, label: str) -> str:
        """Reserve a vector for the fold, and set it to the identity."""
        fold, text = self.stage.fold, self.text
        assert fold is not None
        element = element_of(fold.outvars[0]).name
        text.count += 1
        kind = text.vector(kind_of(element))
        self.kept.append(f"  %f{text.count} = alloca {kind}, align 64")
        text.store(kind, text.constant(_identity(fold, element), element).name, f"%f{text.count}", element)
        return label

    def _store_fold(self, fold: JaxprEqn, element: str, label: str) -> str:
        """Fold the lanes of the accumulated vector, then the result of earlier pieces, and write it."""
        text, kind = self.text, kind_of(element)
        accumulator = text.loaded(text.vector(kind), self.kept[0].split()[0], element)
        lanes = [text.put(f"extractelement {text.vector(kind)} {accumulator}, i64 {k}") for k in range(self.lanes)]
        scalar_text = Vectors(1, text.contracted, text.lines, text.declared, count=text.count)
        partial_results = [
            Lanes(scalar_text.put(f"insertelement <1 x {kind}> poison, {kind} {x}, i64 0"), element) for x in lanes
        ]
        text, self.text = self.text, scalar_text
        while len(partial_results) > 1:
            half = len(partial_results) // 2
            partial_results = [
                self.fold(fold, a, b) for a, b in zip(partial_results[:half], partial_results[half:], strict=True)
            ]
        (total,) = partial_results
        place = self._result(element, min(fold.params["axes"]))
        if not self.is_only_piece:
            earlier_result = self._as_value(scalar_text.loaded(f"<1 x {memory_of(element)}>", place, element), element)
            total = self.fold(fold, earlier_result, total)
        scalar_text.store(f"<1 x {memory_of(element)}>", self._as_stored(total), place, element)
        self.text = text
        text.count = scalar_text.count
        return label


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over an axis: its number, where it ends, points of a round."""

    number: int
    stop: str
    step: int


def _identity(fold: JaxprEqn, element: str) -> Any:
    name = fold.primitive.name.removeprefix("reduce_")
    return identity_of({"sum": "add", "prod": "mul"}.get(name, name), np.dtype(element))
