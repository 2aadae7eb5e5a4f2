"""A region as a kernel of Pallas, on Triton: index vectors for positions, masks for boxes, loads at offsets.

A program of a kernel computes a block of points along the last two axes of its grid; along the others it has one point.
Positions have 32 bits throughout. Arrays are flat, so that a position is one number and a shift is an offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.extend.core import JaxprEqn

from lowering.kernels.equations import FOLDING, POINTWISE, Operand, alike
from lowering.kernels.instances import Instances, Points
from lowering.kernels.positions import Box, Entry, Index, Position, identity, symbols_of
from lowering.kernels.program import Program, Variable, element_of, shape_of
from lowering.kernels.regions import Grid, Swept
from lowering.kernels.sweeps import Sweep
from lowering.tracing import axes_of, shaped, varying

POINTS = 256
"""Points of a program of a kernel: two for each thread of four warps."""
ROW = 16
"""Points along the last axis that fill the transactions of memory, in float64."""
PROGRAMS = 264
"""Programs that keep a device of 132 multiprocessors busy: with fewer, blocks are smaller."""
WARP = 32


def launched(
    program: Program, region: Grid | Swept, results: Sequence[Variable], env: Mapping[Any, Any], interpret: bool = False
) -> list[Any]:
    """The results of a kernel, as a Pallas call; `env` has the arrays by variable, `interpret` runs it without a
    GPU.
    """
    blocks = blocks_of(region.shape, ROW if isinstance(region, Grid) else POINTS)
    arrays = {v: env[v] for v in region.reads}
    if isinstance(region, Swept):
        arrays |= {v: x for s in region.sweeps for v, x in s.body.constants.items()}

    def kernel(*refs: Any) -> None:
        """One program of the kernel, of references to its operands and results."""
        names = [*arrays, *results]
        block = _Block(region.shape, blocks, dict(zip(names, refs, strict=True)))
        match region:
            case Grid():
                block.evaluate(program, region.instances, lambda position: True)
                position = identity(len(region.shape))
                for v in region.results:
                    block.store(v, position, block.entries[v, position])
            case Swept():
                _columns(program, region, block, set(results), interpret)

    flat = [lax.reshape(x, (prod(x.shape),)) for x in arrays.values()]
    flat = varying(flat, axes_of(flat))
    like = flat[0] if flat else lax.full((), False)
    shapes = [shaped((prod(shape_of(v)),), element_of(v), like) for v in results]
    count = prod(-(-n // b) for n, b in zip(region.shape, blocks, strict=True))
    params = triton.CompilerParams(num_warps=max(1, min(4, prod(blocks) // (2 * WARP))), num_stages=2)
    call = pl.pallas_call(kernel, out_shape=shapes, grid=(count,), interpret=interpret, compiler_params=params)
    return [lax.reshape(x, shape_of(v)) for x, v in zip(call(*flat), results, strict=True)]


def blocks_of(shape: Sequence[int], row: int) -> tuple[int, ...]:
    """Points of a program along each axis of the grid: powers of two, more than 1 along the last two axes only.

    `row`: the least extent along the last axis, if it has that many points; it is doubled while at most one point in
    sixteen lies outside of the array.

    >>> blocks_of((1024, 1024, 80), 16), blocks_of((8192, 8192), 16), blocks_of((512, 512), 256), blocks_of((1000,), 16)
    ((1, 16, 16), (4, 64), (1, 256), (32,))
    """
    if not shape:
        return ()
    points = POINTS
    while points > WARP and prod(shape) < points * PROGRAMS:
        points //= 2
    *outer, last = shape
    width = min(row, points, _next_power_of_two(last))
    while width * 2 <= min(64, points) and _padded(last, width * 2) * 16 <= last * 17:
        width *= 2
    if not outer:
        return (min(points, _next_power_of_two(last)),)
    height = min(points // width, _next_power_of_two(outer[-1]))
    return (*(1 for _ in outer[:-1]), height, width)


def _next_power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _padded(n: int, block: int) -> int:
    return -(-n // block) * block


@dataclass
class _Block(Points):
    """The points of one program of a kernel, and the memory that it sees."""

    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    refs: Mapping[Variable, Any]
    axes: list[Any] = field(default_factory=list[Any])
    """The coordinate along each axis: a number, or a vector along one dim of the block; the level behind them."""
    known: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Sums of positions, and masks."""
    levels: int = 1

    def __post_init__(self) -> None:
        """Compute the coordinates of the block's points from the number of the program."""
        super().__init__()
        wide = [k for k, b in enumerate(self.blocks) if b > 1]
        self.dims = tuple(self.blocks[k] for k in wide)
        rest, self.axes = pl.program_id(0), [None] * len(self.shape)
        for k in reversed(range(len(self.shape))):
            count = -(-self.shape[k] // self.blocks[k])
            number = lax.rem(rest, np.int32(count))
            rest = lax.div(rest, np.int32(count))
            if k in wide:
                vector = lax.broadcasted_iota("int32", (self.blocks[k],), 0)
                place = wide.index(k)
                spread = tuple(self.blocks[k] if p == place else 1 for p in range(len(wide)))
                number = lax.reshape(vector, spread) + number * np.int32(self.blocks[k])
            self.axes[k] = number

    def at_level(self, level: Any, levels: int) -> _Block:
        """A copy of the block at a level of its columns, whose entries are its own; `levels` is the number of
        levels.
        """
        inner = _Block.__new__(_Block)
        inner.shape, inner.blocks, inner.refs, inner.dims = self.shape, self.blocks, self.refs, self.dims
        inner.axes, inner.levels = [*self.axes[: len(self.shape)], level], levels
        inner.entries, inner.boxes, inner.known = dict(self.entries), dict(self.boxes), dict(self.known)
        return inner

    # Positions

    def symbol(self, symbol: int | Entry) -> Any:
        if isinstance(symbol, Entry):
            return lax.convert_element_type(self.entries[symbol.of, symbol.at], "int32")
        return self.axes[symbol]

    def number(self, index: Index) -> Any:
        """An index as int32: a number, or a vector along a dim of the block."""
        if index.symbol is None:
            return np.int32(index.offset)
        number = self.symbol(index.symbol)
        if index.factor != 1:
            number = number * np.int32(index.factor)
        return number + np.int32(index.offset) if index.offset else number

    def below(self, index: Index, limit: int) -> Any:
        """A mask of the points whose index is below a limit, made once."""
        key = ("below", index, limit)
        if key not in self.known:
            self.known[key] = self.number(index) < np.int32(limit)
        return self.known[key]

    def place(self, v: Variable, position: Position) -> Any:
        """The offset of an element in the flat array of v; sums of the same terms are made once."""
        shape, offset = shape_of(v), 0
        terms: dict[int | Entry, int] = {}
        for k, index in enumerate(position):
            stride = prod(shape[k + 1 :])
            offset += stride * index.offset
            if index.symbol is not None:
                terms[index.symbol] = terms.get(index.symbol, 0) + stride * index.factor
        key = ("sum", tuple(terms.items()))
        if terms and key not in self.known:
            self.known[key] = reduce(
                lambda a, b: a + b,
                (self.symbol(s) * np.int32(f) if f != 1 else self.symbol(s) for s, f in terms.items()),
            )
        element = self.known[key] if terms else np.int32(0)
        return element + np.int32(offset)

    def mask(self, box: Box, axes: frozenset[int]) -> Any:
        """A mask of the points of the block that are in a box, along some axes; None if all are."""
        mask = None
        for axis in sorted(axes):
            for one in self._bounds(axis, *box[axis]):
                mask = one if mask is None else mask & one
        return mask

    def _bounds(self, axis: int, start: int, stop: int) -> list[Any]:
        """The comparisons, made once, by which the points along an axis are in start … stop; none that hold for the
        whole block.
        """
        level = axis == len(self.shape)
        end = self.levels if level else _padded(self.shape[axis], self.blocks[axis])
        bounds: list[Any] = []
        for kind, needed, limit in (("from", start > 0, start), ("to", stop < end, stop)):
            if needed:
                key = (kind, axis, limit)
                if key not in self.known:
                    number = self.axes[axis]
                    self.known[key] = number >= np.int32(limit) if kind == "from" else number < np.int32(limit)
                bounds.append(self.known[key])
        return bounds

    # Memory

    def load(self, v: Variable, position: Position, box: Box) -> Any:
        """The elements of v at a position, 0 at points outside of the box."""
        place = self.place(v, position)
        mask = self.mask(box, symbols_of(position))
        if mask is None:
            return triton.load(self.refs[v].at[place])
        shape = np.broadcast_shapes(np.shape(place), np.shape(mask))
        place, mask = (jax.numpy.broadcast_to(x, shape) for x in (place, mask))
        return triton.load(self.refs[v].at[place], mask=mask, other=np.zeros((), element_of(v)))

    def store(self, v: Variable, position: Position, value: Any) -> None:
        """Write all points of the block that are there."""
        place = jax.numpy.broadcast_to(self.place(v, position), self.dims)
        value = jax.numpy.broadcast_to(value, self.dims)
        extents = shape_of(v)[-len(self.shape) :] if self.shape else ()
        mask = self.mask(tuple((0, n) for n in extents), frozenset(range(len(self.shape))))
        if mask is not None:
            mask = jax.numpy.broadcast_to(mask, self.dims)
        triton.store(self.refs[v].at[place], value, mask=mask)

    # Values

    def constant(self, value: Any, element: Any) -> Any:
        return np.asarray(value, element)

    def pointwise(self, e: JaxprEqn, values: Sequence[Any]) -> Any:
        """The result of an elementwise equation, by Triton's operation or the one of the table (`POINTWISE`)."""
        compute = POINTWISE[e.primitive.name].compute or (lambda *xs: e.primitive.bind(*xs, **e.params))
        if all(isinstance(x, np.ndarray) for x in values):
            # Triton has no operations on constants alone
            with jax.ensure_compile_time_eval():
                return np.asarray(compute(*alike(values)))
        return compute(*alike(values))

    def fold(self, e: JaxprEqn, a: Any, b: Any) -> Any:
        return FOLDING[e.primitive.name](*alike([a, b]))

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return lax.select(*alike([condition, a, b]))

    def cast(self, number: Any, element: Any) -> Any:
        return lax.convert_element_type(number, element)


def _columns(program: Program, region: Swept, block: _Block, written: set[Variable], interpret: bool) -> None:
    """Run the sweeps of a region for the columns of a block, one after the other; `written` results go to memory."""
    level, column = len(region.shape), identity(len(region.shape))
    earlier: set[Variable] = set()
    for sweep, outer_instances, results_by_level in zip(region.sweeps, region.instances, region.after, strict=True):
        if not interpret and earlier & set(region.loads):
            # what another thread of the program wrote is there
            triton.debug_barrier()
        block.evaluate(program, outer_instances, lambda position: level not in symbols_of(position))
        start = [jax.numpy.broadcast_to(block.value(o), block.dims) for o in sweep.begins]
        final_states = _sweep_loop(program, sweep, outer_instances, results_by_level, block, start, written)
        for v, state in zip(sweep.equation.outvars[: sweep.states], final_states, strict=True):
            if v in written:
                block.store(v, column, state)
            block.entries[v, column] = state
        earlier.update((*sweep.equation.outvars[sweep.states :], *results_by_level))


def _sweep_loop(
    program: Program, sweep: Sweep, outer_instances: Instances, results_by_level: Mapping[Variable, Instances],
    block: _Block, start: list[Any], written: set[Variable],
) -> list[Any]:  # fmt: skip
    """Run the loop of a sweep over its levels, and store the results that are computed level by level; returns the
    final states.

    `outer_instances`: the instances outside of its step that it reads. `start`: the initial states. `written`: the
    variables stored.
    """
    column, e, count = identity(len(sweep.columns)), sweep.equation, sweep.length

    def step(n: Any, states: Sequence[Any]) -> list[Any]:
        """The states after the n-th level."""
        level = np.int32(count - 1) - n if e.params["reverse"] else n
        inner = block.at_level(level, count)
        inner.evaluate(program, outer_instances, lambda position: True)
        sweep.bind(inner, states)
        inner.evaluate(sweep.body, sweep.inner, lambda position: True)
        results = [inner.value(Operand(v, column, sweep.box)) for v in sweep.body.results]
        own_level = (Index(len(column), 1, 0), *column)
        for v, value in zip(e.outvars[sweep.states :], results[sweep.states :], strict=True):
            inner.entries[v, own_level] = value
            if v in written:
                inner.store(v, own_level, value)
        for v, instances in results_by_level.items():
            inner.evaluate(program, instances, lambda position: True)
            inner.store(v, own_level, inner.entries[v, own_level])
        return [jax.numpy.broadcast_to(r, block.dims) for r in results[: sweep.states]]

    return lax.fori_loop(np.int32(0), np.int32(count), step, start)
