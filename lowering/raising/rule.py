"""What a rule of the table is, and the row that says that one was used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowering.context import Context
from lowering.values import Value
from tensorir.ir.nodes import Call

__all__ = ["Raised", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One form that is recognised, and what becomes of it."""

    name: str
    op: str
    """The builtin whose calls the rule looks at."""
    says: str
    """What it recognises and what XLA gets, in one sentence."""
    lower: Callable[[Context, Call, Sequence[Any]], Value | None]
    """The value of a call, None where the rule does not fit."""
    reorders: bool = False
    """Whether results may round differently: such a rule is left out where `numerics="exact"`."""


class Raised(NamedTuple):
    """A rule that was used, and the expression that it was used for, in the notation."""

    rule: str
    expression: str
