"""Scans whose step a kernel computes: the columns side by side, the levels one after the other, states in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.core import JaxprEqn

from lowering.kernels.equations import Operand, Unplaced, is_fusible
from lowering.kernels.instances import Instances, Points, TooMany, instances_of
from lowering.kernels.positions import Box, Entry, Index, identity
from lowering.kernels.program import Program, Variable, flattened, program_of, shape_of, states_of

MOST_IN_STEP, MOST_IN_NATIVE_STEP = 400, 4000
"""Instances of a step, on GPUs and on CPUs."""


@dataclass(frozen=True)
class Sweep:
    """A scan as a loop within a kernel, whose points are columns; the levels are one more axis behind theirs."""

    equation: JaxprEqn
    body: Program
    inner: Instances
    """Instances that a step computes, and loads of its own inputs."""
    reads: tuple[Operand, ...]
    """Operands of a step among the variables around the scan."""
    begins: tuple[Operand, ...]
    """Initial states."""

    @property
    def columns(self) -> tuple[int, ...]:
        return shape_of(self.body.results[0])

    @property
    def length(self) -> int:
        return self.equation.params["length"]

    @property
    def states(self) -> int:
        return states_of(self.equation)[1]

    @property
    def box(self) -> Box:
        return box_of(self.equation, self.columns)

    def bind(self, points: Points, states: Sequence[Any]) -> None:
        """Enter the inputs of the step into `points`: its `states`, and accesses of variables around the scan."""
        for v, asked in self.inner.loads.items():
            for position in asked:
                access = outer_access(self.equation, self.body, v, position)
                if access is None:
                    points.entries[v, position] = states[self.body.inputs.index(v) - states_of(self.equation)[0]]
                elif v not in self.body.constants:
                    points.entries[v, position] = points.value(Operand(*access, self.box))


def box_of(e: JaxprEqn, columns: tuple[int, ...]) -> Box:
    return (*((0, n) for n in columns), (0, e.params["length"]))


def outer_access(
    e: JaxprEqn, body: Program, v: Variable, at: tuple[Index, ...]
) -> tuple[Variable, tuple[Index, ...]] | None:
    """The variable around a scan that an input v of its step is, and its position there; None if v is a state.

    `at`: the position within the step. An input with levels gets the level as its first index.
    """
    if v in body.constants:
        return v, at
    k, (constants, states) = body.inputs.index(v), states_of(e)
    if k < constants:
        return e.invars[k], at
    if k < constants + states:
        return None
    level = len(shape_of(body.results[0]))
    return e.invars[k], (Index(level, 1, 0), *at)


def swept(e: JaxprEqn, native: bool = False) -> Sweep | None:
    """The scan as a sweep; None where XLA has to run its loop, or the equation is no scan. `native`: on CPUs.

    It must have at least one level and no effects, all results of its step have one shape, and each equation is
    fusible; the step reads states at its own column only, and computes no index.
    """
    if e.primitive.name != "scan" or not e.params["length"] or e.effects:
        return None
    body = program_of(flattened(e.params["jaxpr"]))
    shapes = {shape_of(v) for v in body.results}
    if len(shapes) != 1 or not all(is_fusible(one, native) for one in body.equations):
        return None
    (columns,) = shapes
    if native and 0 in columns:
        return None
    column, box = identity(len(columns)), box_of(e, columns)
    try:
        inner = instances_of(
            body, [Operand(v, column, box) for v in body.results], (), MOST_IN_NATIVE_STEP if native else MOST_IN_STEP
        )
    except (Unplaced, TooMany):
        return None
    reads: list[Operand] = []
    for v, asked in inner.loads.items():
        for position, needed_box in asked.items():
            access = outer_access(e, body, v, position)
            if any(isinstance(i.symbol, Entry) for i in position):
                return None  # at an index that the step computes
            if access is not None:
                reads.append(Operand(*access, needed_box))
            elif position != column:
                return None
    first, states = states_of(e)
    begins = tuple(Operand(v, column, box) for v in e.invars[first : first + states])
    return Sweep(e, body, inner, tuple(reads), begins)
