"""The instances of a region: which variables it computes, at which positions, at which points.

A result at a point needs its operands at positions around the point, those need others, and each pair of a variable and
a position is computed once in a kernel. They are found from the results backwards, equation by equation, so that of
each the box of all points that need it is known before its operands are looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from jax.extend.core import Literal

from lowering.kernels.equations import Operand, Places, combined, operands_of, weight_of
from lowering.kernels.positions import Box, Entry, Position, hull
from lowering.kernels.program import Program, Variable, element_of

LOAD, GATHERED = 2, 8
"""The time of an access of memory that a cache holds, and of one at an index that was read, in additions."""


class TooMany(Exception):
    """More instances than a kernel may have."""


@dataclass(slots=True)
class Instances:
    """Instances that a region computes, and those that it loads."""

    computed: dict[int, dict[Position, Box]] = field(default_factory=dict[int, dict[Position, Box]])
    """By equation, in the order of the program."""
    loads: dict[Variable, dict[Position, Box]] = field(default_factory=dict[Variable, dict[Position, Box]])

    @property
    def count(self) -> int:
        return sum(map(len, self.computed.values())) + sum(map(len, self.loads.values()))

    def weight(self, program: Program) -> int:
        """The time of one point, in additions."""
        computed = sum(weight_of(program.equations[k]) * len(at) for k, at in self.computed.items())
        return computed + sum(GATHERED if is_gathered(p) else LOAD for at in self.loads.values() for p in at)

    @property
    def moves(self) -> bool:
        """True if an array is read at several positions, or at indices."""
        return any(len(at) > 1 or any(map(is_gathered, at)) for at in self.loads.values())


def is_gathered(position: Position) -> bool:
    """True if an array is read at a number that is read itself."""
    return any(isinstance(i.symbol, Entry) for i in position)


def instances_of(
    program: Program, operands_read: Iterable[Operand], stored: Container[Variable], most_instances: int | None = None,
    results: Container[Variable] = (),
) -> Instances:  # fmt: skip
    """The instances that `operands_read` operands depend on, down to inputs and to stored variables.

    `results`: stored variables that this region computes itself. Raises Unplaced for a variable that has to be stored,
    TooMany for more than `most_instances` instances.
    """
    instances, pending = Instances(), dict[int, dict[Variable, dict[Position, Box]]]()
    queue: list[int] = []
    count = 0

    def ask(operand: Operand) -> None:
        """Enter an operand into the loads, or into the instances to compute, with the hull of all boxes that need
        it.
        """
        nonlocal count
        v, position, box = operand
        if isinstance(v, Literal):
            return
        k = program.maker.get(v)
        if k is None or (v in stored and v not in results):
            at = instances.loads.setdefault(v, {})
        else:
            if k not in pending:
                pending[k] = {}
                heapq.heappush(queue, -k)
            at = pending[k].setdefault(v, {})
        count += position not in at
        at[position] = hull(box, at.get(position))
        if most_instances is not None and count > most_instances:
            raise TooMany

    for operand in operands_read:
        ask(operand)
    while queue:
        k = -heapq.heappop(queue)
        (places,) = pending[k].values()
        instances.computed[k] = places
        for position, box in places.items():
            for operand in operands_of(program.equations[k], position, box):
                ask(operand)
    instances.computed = dict(sorted(instances.computed.items()))
    return instances


class Points(Places):
    """The values of instances while a kernel is emitted: each is computed, or loaded, once."""

    def __init__(self) -> None:
        self.entries: dict[tuple[Variable, Position], Any] = {}
        self.boxes: dict[tuple[Variable, Position], Box] = {}
        """Points at which an entry is valid; all of them without a box."""

    def load(self, v: Variable, position: Position, box: Box) -> Any:
        """The elements of an array at a position, for the points of a box."""
        raise NotImplementedError

    def constant(self, value: Any, element: Any) -> Any:
        raise NotImplementedError

    def value(self, operand: Operand) -> Any:
        """The value of a literal, or of an instance that was computed or loaded before."""
        if isinstance(operand.value, Literal):
            return self.constant(operand.value.val, element_of(operand.value))
        return self.entries[operand.value, operand.position]

    def evaluate(self, program: Program, instances: Instances, inside: Callable[[Position], bool]) -> None:
        """Compute the instances of a region whose positions are `inside`, and load the arrays that they read; fills
        `entries`.
        """
        for v, asked in instances.loads.items():
            for position in filter(inside, asked):
                self._need(program, instances, v, position)
        for k, asked in instances.computed.items():
            for position in filter(inside, asked):
                self._need(program, instances, program.equations[k].outvars[0], position)

    def _need(self, program: Program, instances: Instances, v: Variable, position: Position) -> None:
        """Compute or load an instance unless an entry is valid at its box; first the indices in its position, and
        its operands.
        """
        if isinstance(v, Literal):
            return
        key, is_loaded = (v, position), v in instances.loads
        box = instances.loads[v][position] if is_loaded else instances.computed[program.maker[v]][position]
        if key in self.entries and (key not in self.boxes or hull(self.boxes[key], box) == self.boxes[key]):
            return
        self.boxes[key] = box
        for index in position:
            if isinstance(index.symbol, Entry):
                self._need(program, instances, index.symbol.of, index.symbol.at)
        if is_loaded:
            self.entries[key] = self.load(v, position, box)
            return
        e = program.equations[program.maker[v]]
        operands = operands_of(e, position, box)
        for operand in operands:
            self._need(program, instances, operand.value, operand.position)
        self.entries[key] = combined(e, position, box, list(map(self.value, operands)), self)
