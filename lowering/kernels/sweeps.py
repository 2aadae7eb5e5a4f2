"""Scans whose step a kernel computes: the columns side by side, the levels one after the other, states in registers."""

from __future__ import annotations

from dataclasses import dataclass

from jax.extend.core import JaxprEqn

from lowering.kernels.equations import Operand, Unplaced, is_fusible
from lowering.kernels.instances import Instances, TooMany, instances_of
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
    """What a step computes, and reads of its own inputs."""
    reads: tuple[Operand, ...]
    """What a step reads of the variables around the scan."""
    begins: tuple[Operand, ...]
    """What the states are before the first step."""

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
    def constants(self) -> int:
        return states_of(self.equation)[0]

    @property
    def box(self) -> Box:
        return box_of(self.equation, self.columns)

    def outer(self, v: Variable, at: tuple[Index, ...]) -> tuple[Variable, tuple[Index, ...]] | None:
        """What an input of the step is at a position: a variable around the scan there; None for the state."""
        return outer(self.equation, self.body, v, at)


def box_of(e: JaxprEqn, columns: tuple[int, ...]) -> Box:
    return (*((0, n) for n in columns), (0, e.params["length"]))


def outer(e: JaxprEqn, body: Program, v: Variable, at: tuple[Index, ...]) -> tuple[Variable, tuple[Index, ...]] | None:
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
    """A scan as a sweep, `native` for one on CPUs; None where XLA has to run its loop."""
    if e.primitive.name != "scan" or not e.params["length"] or e.effects:
        return None
    body = program_of(flattened(e.params["jaxpr"]))
    shapes = {shape_of(v) for v in body.results}
    if len(shapes) != 1 or not all(is_fusible(one, native) for one in body.equations):
        return None
    (columns,) = shapes
    if native and 0 in columns:
        return None
    own, box = identity(len(columns)), box_of(e, columns)
    try:
        inner = instances_of(
            body, [Operand(v, own, box) for v in body.results], (), MOST_IN_NATIVE_STEP if native else MOST_IN_STEP
        )
    except (Unplaced, TooMany):
        return None
    reads: list[Operand] = []
    for v, asked in inner.loads.items():
        for position, part in asked.items():
            found = outer(e, body, v, position)
            if any(isinstance(i.symbol, Entry) for i in position):
                return None  # at an index that the step computes
            if found is not None:
                reads.append(Operand(*found, part))
            elif position != own:
                return None
    first, states = states_of(e)
    begins = tuple(Operand(v, own, box) for v in e.invars[first : first + states])
    return Sweep(e, body, inner, tuple(reads), begins)
