"""What is said of loops."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.lifting.dataflow.statements import Statement

__all__ = ["Decided"]


@dataclass(frozen=True, slots=True)
class Decided:
    """How a loop runs for a statement."""

    dim: str
    strategy: str
    statement: Statement
    reason: str = ""
