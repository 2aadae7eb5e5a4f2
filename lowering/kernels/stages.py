"""Stages: stencils of one kernel on CPUs, each of which runs some rows ahead of its readers.

A kernel takes blocks of rows. In each round it computes a row of every stage, of the first ones a few rows further on,
so that what the others read is there; it lies in a *ring*, as many rows as are read at once, which a cache holds. Rows
that two blocks need are computed by both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from jax.extend.core import JaxprEqn

from lowering.kernels.equations import FOLDING, NATIVE_ELEMENTS, Operand, folded
from lowering.kernels.instances import Instances, instances_of, is_gathered
from lowering.kernels.positions import Box, Index, Position, identity, is_empty
from lowering.kernels.program import Program, Variable, element_of, shape_of

THIN = 16
"""A piece of as small a part of a stage keeps its conditions but along vectors: more take longer to compile."""
MOST_PIECES = 128
"""Pieces of a stage, each of which is compiled by itself."""
MOST_ROWS = 64
"""Rows of a ring."""
WRITTEN_OUT = 8
"""Elements of an innermost axis that are folded one by one."""
HELD = 1 << 19
"""Bytes of rows that are read again from which on blocks are tiles: the second cache holds as many beside the rest."""
OVERLAP = 8
"""Blocks have so many times the rows that two of them compute."""


@dataclass(frozen=True)
class Piece:
    """Points of a stage that are computed by the same text: without conditions on the position, where it is large."""

    box: Box
    instances: Instances


@dataclass(frozen=True)
class Stage:
    """A value at the points of a box, and its pieces; stored as it is, or folded along its last axes."""

    value: Variable
    pieces: list[Piece]
    fold: JaxprEqn | None = None
    widest: int = 1
    """Bytes of the widest element on the way."""

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value)

    @cached_property
    def loads(self) -> dict[Variable, set[Position]]:
        """The positions at which the stage reads each array, or stage, over all pieces."""
        asked: dict[Variable, set[Position]] = {}
        for piece in self.pieces:
            for v, at in piece.instances.loads.items():
                asked.setdefault(v, set()).update(at)
        return asked

    @property
    def gathers(self) -> bool:
        """True if it reads at indices."""
        return any(is_gathered(p) for at in self.loads.values() for p in at)


class NoPieces(Exception):
    """A stage that is not made of pieces: it has too many, or reads outside of an array."""


def folds_rows(e: JaxprEqn) -> bool:
    """True if an equation folds the last axes of an array, not the first, and more than `WRITTEN_OUT` elements for
    each of its own.
    """
    if e.primitive.name not in FOLDING or element_of(e.invars[0]).name not in NATIVE_ELEMENTS:
        return False
    axes, count = sorted(e.params["axes"]), len(shape_of(e.invars[0]))
    return folded(e) > WRITTEN_OUT and axes[0] > 0 and axes == list(range(axes[0], count))


def stage_of(program: Program, e: JaxprEqn, stored: Collection[Variable]) -> Stage:
    """The stage that computes the result of an equation, as pieces of boxes; raises NoPieces.

    `stored`: the variables in memory, at which its computation begins. The box of all points is cut until no point of a
    piece needs a condition on its position, or the piece is thin; folds of rows are stages of their operand.

    >>> import jax
    >>> from lowering.kernels.program import flattened, program_of
    >>> padded = jax.make_jaxpr(lambda x: jax.numpy.pad(x, 1))(jax.numpy.zeros((4, 9)))
    >>> program = program_of(flattened(padded))
    >>> [p.box for p in stage_of(program, program.equations[-1], ()).pieces]
    [((0, 1), (0, 11)), ((1, 5), (0, 1)), ((1, 5), (1, 10)), ((1, 5), (10, 11)), ((5, 6), (0, 11))]
    """
    fold = e if folds_rows(e) else None
    v = e.invars[0] if fold else e.outvars[0]
    pieces: list[Piece] = []
    pending: list[Box] = [tuple((0, n) for n in shape_of(v))]
    while pending:
        box = pending.pop()
        instances = instances_of(program, [Operand(v, identity(len(box)), box)], stored, None, () if fold else (v,))
        is_thin = prod(b - a for a, b in box) * THIN <= prod(shape_of(v))
        axis_and_end = _longest_cut(box, instances, len(box) - 1 if is_thin else 0)
        if axis_and_end is not None:
            axis, end = axis_and_end
            start, stop = box[axis]
            pending += [(*box[:axis], ends, *box[axis + 1 :]) for ends in ((end, stop), (start, end))]
        elif all(
            _is_inside(p, shape_of(x), box)
            for x, boxes in instances.loads.items()
            for p, b in boxes.items()
            if b == box
        ):
            pieces.append(Piece(box, instances))
        else:
            raise NoPieces
        if len(pieces) + len(pending) > MOST_PIECES:
            raise NoPieces
    computed = (program.equations[k].outvars[0] for piece in pieces for k in piece.instances.computed)
    return Stage(v, pieces, fold, max((element_of(x).itemsize for x in computed), default=1))


def inner_instances(program: Program, v: Variable, stored: Collection[Variable], instances: Instances) -> Instances:
    """The instances of the widest piece of a variable: of its points far from all ends, which are most.

    `instances`: those for all its points.
    """
    box: Box = tuple((0, n) for n in shape_of(v))
    while (at := _longest_cut(box, instances)) is not None:
        axis, end = at
        start, stop = box[axis]
        longest_ends = max((start, end), (end, stop), key=lambda ends: ends[1] - ends[0])
        box = (*box[:axis], longest_ends, *box[axis + 1 :])
        instances = instances_of(program, [Operand(v, identity(len(box)), box)], stored, None, (v,))
    return instances


def _longest_cut(box: Box, instances: Instances, first_axis: int = 0) -> tuple[int, int] | None:
    """The axis and the number at which to cut a box so that its longest part has fewer conditions; None without
    conditions.

    Conditions are the ends of the boxes of instances that lie inside of `box`; axes before `first_axis` are not cut.
    The cut is at the start of the longest part, or at its end if it starts with the box.
    """
    ends = [{start, stop} for start, stop in box]
    for asked in (*instances.computed.values(), *instances.loads.values()):
        for needed_box in asked.values():
            if not is_empty(needed_box):
                for ends_along_axis, (start, stop), (a, b) in zip(ends, box, needed_box, strict=True):
                    ends_along_axis.update(end for end in (a, b) if start < end < stop)
    for axis, (ends_along_axis, (start, _)) in enumerate(zip(ends, box, strict=True)):
        if len(ends_along_axis) > 2 and axis >= first_axis:
            first, last = max(pairwise(sorted(ends_along_axis)), key=lambda ends: ends[1] - ends[0])
            return axis, int(first if first > start else last)
    return None


def _is_inside(position: Position, shape: Sequence[int], box: Box) -> bool:
    """True if a position is within an array of that shape at all points of a box; False for positions that are read
    of tables.
    """
    for index, n in zip(position, shape, strict=True):
        match index:
            case Index(None, _, offset):
                ends = [offset]
            case Index(int(axis), factor, offset):
                ends = [factor * p + offset for p in (box[axis][0], box[axis][1] - 1)]
            case _:
                ends = []
        if not all(0 <= p < n for p in ends):
            return False
    return True


@dataclass(slots=True)
class Staged:
    """A kernel over rows of points: its stages, by the variable that each makes, in an order in which they can run."""

    stages: dict[Variable, Stage]
    level: int

    @property
    def defines(self) -> list[Variable]:
        return list(self.stages)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(max, zip(*(s.shape for s in self.stages.values()), strict=True)))

    @property
    def reads(self) -> list[Variable]:
        return list(dict.fromkeys(v for s in self.stages.values() for v in s.loads if v not in self.stages))


@dataclass(frozen=True)
class Reach:
    """Rows of each stage that a row of the results needs, from and to, and the same along the next axis.

    A stage is computed `rows[v][1]` rows ahead of the row of the round; rings have `window[v]` rows.
    """

    region: Staged
    wanted: Collection[Variable]
    """Stages that are stored whole."""

    def _between(self) -> Iterator[tuple[Variable, Variable, set[Position]]]:
        """Pairs of stages (reader, stage read) with the positions read, the last reader first."""
        for reader in reversed(self.region.stages):
            for v, asked in self.region.stages[reader].loads.items():
                if v in self.region.stages:
                    yield reader, v, asked

    def along(self, axis: int) -> dict[Variable, tuple[int, int]]:
        """Per stage, the least and the largest offset along an axis from a point of the results at which it is
        needed.
        """
        reach: dict[Variable, tuple[int, int]] = dict.fromkeys(self.wanted, (0, 0))
        for reader, v, asked in self._between():
            low, high = reach.get(reader, (0, 0))
            offsets = [p[axis].offset for p in asked]
            ends = (low + min(offsets), high + max(offsets))
            known_ends = reach.get(v, ends)
            reach[v] = min(known_ends[0], ends[0]), max(known_ends[1], ends[1])
        return {v: reach.get(v, (0, 0)) for v in self.region.stages}

    @cached_property
    def rows(self) -> dict[Variable, tuple[int, int]]:
        return self.along(0)

    @cached_property
    def window(self) -> dict[Variable, int]:
        """Rows of the ring of each stage that others read: from the row being computed back to the oldest row read;
        a power of two.
        """
        rows = dict[Variable, int]()
        for reader, v, asked in self._between():
            oldest_row = self.rows[reader][1] + min(p[0].offset for p in asked)
            rows[v] = max(rows.get(v, 0), self.rows[v][1] - oldest_row + 1)
        return {v: 1 << (n - 1).bit_length() for v, n in rows.items()}

    @property
    def held(self) -> dict[Variable, int]:
        """Bytes of rings."""
        return {v: n * row_bytes(v) for v, n in self.window.items()}

    @property
    def overlap(self) -> int:
        """Rows that a block computes besides its own."""
        return max(high - low for low, high in self.rows.values())

    @cached_property
    def is_tiled(self) -> bool:
        """True if blocks may be cut along axis 1, too: it is not the last axis, which is vectorised, and no stage
        folds rows.

        Every read between stages must have unit stride on axis 1.
        """
        positions = (p for _, _, asked in self._between() for p in asked)
        if len(self.region.shape) < 3 or any(s.fold for s in self.region.stages.values()):
            return False
        return all(p[1].symbol == 1 and p[1].factor == 1 for p in positions)

    @property
    def cached(self) -> int:
        """Bytes of the rows that are read again: all rings, and the rows of arrays between the lowest and highest
        row offset read.
        """
        ring_bytes = sum(self.held.values())
        ends = dict[Variable, tuple[int, int]]()
        for stage in self.region.stages.values():
            for v, at in stage.loads.items():
                offsets = [p[0].offset for p in at if p and p[0].symbol == 0]
                if v not in self.region.stages and offsets:
                    low, high = ends.get(v, (offsets[0], offsets[0]))
                    ends[v] = min(low, *offsets), max(high, *offsets)
        return ring_bytes + sum((high - low) * row_bytes(v) for v, (low, high) in ends.items())


OUTSIDE = 1 << 22
"""Bytes of the arrays of a step from which on several are one kernel: the second cache of all processors holds less."""
MOST_STEPS, MOST_COMPILED = 8, 64
"""Steps that are one kernel, and pieces of such a kernel."""


def steps_at_once(region: Staged, results: Collection[Variable]) -> int:
    """The number of steps of a time loop that one kernel computes: a power of two up to `MOST_STEPS`, 1 if more do
    not pay.

    `results`: the variables that a step stores. Several pay if the arrays of a step exceed a cache, the rings of all
    steps fit, and blocks are large against the rows that two of them compute.
    """
    if any(s.gathers for s in region.stages.values()):
        return 1  # what is read through a table may be any row of the step before
    reach, count = Reach(region, results), MOST_STEPS
    size = sum(row_bytes(v) * shape_of(v)[0] for v in {*results, *region.reads} if shape_of(v))
    pieces = sum(len(s.pieces) for s in region.stages.values())
    bytes_per_step = reach.cached + sum(map(row_bytes, results))
    overlap = max(high - low for low, high in reach.along(1).values()) if reach.is_tiled else 0

    def pays(count: int) -> bool:
        """True if that many steps in one kernel fit the cache and are few enough pieces to compile."""
        # several steps behind each other need as many rows more, and in tiles as many columns
        rows, columns = count * (reach.overlap + 2) * OVERLAP, count * (overlap + 2) * OVERLAP
        tile = region.shape[1] * HELD // (count * bytes_per_step)
        fits = rows <= region.shape[0] and (count * bytes_per_step <= HELD or (reach.is_tiled and tile >= columns))
        return fits and count * pieces <= MOST_COMPILED

    while count > 1 and (size < OUTSIDE or not pays(count)):
        count //= 2
    return count


def follows(region: Staged, stage: Stage) -> bool:
    """True if a stage may run in a kernel behind its stages: it reads them at row offsets below `MOST_ROWS`, and no
    folds.

    The extents of rows must be close, and ranks equal.
    """
    if len(stage.shape) != len(region.shape) or abs(stage.shape[0] - region.shape[0]) > MOST_ROWS:
        return False
    stage_reads = {x: asked for x, asked in stage.loads.items() if x in region.stages}
    positions = [p for asked in stage_reads.values() for p in asked]
    return all(region.stages[x].fold is None for x in stage_reads) and all(
        p[0].symbol == 0 and p[0].factor == 1 and abs(p[0].offset) < MOST_ROWS for p in positions
    )


def row_bytes(v: Variable) -> int:
    """Bytes of a row, which is all points at one number of the first axis."""
    return prod(shape_of(v)[1:]) * element_of(v).itemsize
