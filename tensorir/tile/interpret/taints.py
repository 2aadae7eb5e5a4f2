"""Which elements of a result are unspecified, given which of its operands' elements are."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import Operation

__all__ = ["taints_of"]

_MOVING = {"broadcast", "reshape", "permute", "cat"}
"""Operations that move elements as they are, whatever they hold."""


def taints_of(op: Operation, taints: Sequence[Any], values: Sequence[Any], result: Any) -> Any:
    """Which elements of a result are unspecified; None where none is."""
    if all(t is None for t in taints):
        return None
    shapes = [np.shape(v) for v in values]
    full: list[Any] = [np.zeros(s, bool) if t is None else t for t, s in zip(taints, shapes, strict=True)]
    found: Any
    if op.name == "select":
        # what is not chosen does not matter
        found = full[0] | np.where(values[0], full[1], full[2])
    elif op.name in _MOVING:
        found = MEANINGS[op.name](op, None, *full)
    elif op.name == "extract" and taints[0] is not None and all(t is None for t in taints[1:]):
        found = MEANINGS[op.name](op, None, full[0], tuple(values[1:]))
    elif op.name in ("mmaf", "mmai"):
        rows = full[0].any(axis=-1)[..., :, None] | full[1].any(axis=-2)[..., None, :]
        found = rows | full[2]
    elif op.name in ("andi", "muli"):
        # a zero that is known decides the result
        known = [(~t) & (np.asarray(v) == 0) for t, v in zip(full, values, strict=True)]
        found = (full[0] | full[1]) & ~(known[0] | known[1])
    elif op.row.elementwise:
        found = np.logical_or.reduce([np.broadcast_to(t, np.shape(result)) for t in full])
    else:
        found = np.full(np.shape(result), any(np.any(t) for t in full))
    return found if np.any(found) else None
