"""A lifted program: a fencil, how it came about, and a function of arrays."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tensorir.ir.nodes import Fencil
from tensorir.iterator.lift.compilation import compiled
from tensorir.iterator.lift.program import Specialised
from tensorir.iterator.lift.values import leaves
from tensorir.iterator.nodes import refused

__all__ = ["LiftedProgram"]


@dataclass(eq=False)
class LiftedProgram:
    """A program of iterator IR as a pure tensor program.

    Called with arrays for the parameters that are no outputs, in order, it gives what is stored, in order.
    """

    name: str
    special: Specialised
    places: tuple[Any, ...]
    """The leaves of each parameter."""

    @property
    def fencil(self) -> Fencil:
        """The tensor program; its neighbour tables are parameters."""
        if self.special.fencil is None:
            raise refused("TI06", f"'{self.name}' stores nothing on these domains, so there is no tensor program.")
        return self.special.fencil

    @property
    def tables(self) -> dict[str, Any]:
        """The neighbour tables that are read, by the names of their parameters."""
        return self.special.arrays

    @property
    def report(self) -> str:
        """What is stored where, and the domain of each tensor that is read at several offsets."""
        return "\n".join(self.special.report)

    @cached_property
    def compiled(self) -> Any:
        """The program with its tables, compiled."""
        return compiled(self.special)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The leaves that a call is given."""
        return self.special.inputs

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The stored tensors, in order, for the arguments of all parameters; what is only stored may be None."""
        given: dict[str, Any] = {}
        for place, value in zip(self.places, args, strict=True):
            if value is None:
                continue
            for leaf, part in zip(leaves(place), leaves(value), strict=True):
                if leaf.name in self.special.inputs:
                    given[leaf.name] = getattr(part, "ndarray", part)
        if self.special.fencil is None:
            return ()
        results = self.compiled(**given)
        return tuple(results[o.name] for o in self.special.outputs)

    def __str__(self) -> str:
        return str(self.fencil)
