"""What a lifted program takes: how often it steps, and how many operations it has.

A schedule says how something is computed and not what, so what it makes of a function should lift to a program that
takes no more than the function's own, but for what says where data lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.nodes import Call, Lambda
from tensorir.ir.rewrite import postorder, values
from tensorir.lifting.program import Lifted

__all__ = ["Costs", "costs_of"]

FURTHER = 8
"""How many operations may say where data lie, beside twice those that there were."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Loops step by step, scans and folds by functions, and distinct operations."""

    loops: int
    folds: int
    operations: int

    def near(self, base: Costs) -> bool:
        """Whether this steps no more often, and has not many more operations."""
        most = 2 * base.operations + FURTHER
        return self.loops <= base.loops and self.folds <= base.folds and self.operations <= most


def costs_of(program: Lifted) -> Costs:
    calls = [e for e in postorder(*values(program.fencil.closures)) if isinstance(e, Call)]
    by_functions = [e for e in calls if e.op == "scan" or (e.op == "reduce" and isinstance(e.args[0], Lambda))]
    return Costs(sum(e.op == "loop" for e in calls), len(by_functions), len(calls))
