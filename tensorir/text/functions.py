"""The types of a function's parameters where the notation leaves them out: they follow from what it is applied to.

>>> from tensorir.ir.types import FLOAT64, Dims
>>> x = TensorType(FLOAT64, Dims.of(V=(0, 5), _NB_0=(0, 7)))
>>> parameter_types("reduce", (None,), (TensorType(FLOAT64), x), ())
(tensor<float, V[0:5]>, tensor<float, V[0:5]>)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.ir.builtins import TABLE
from tensorir.ir.types import INT32, Complaint, TensorType, bcast
from tensorir.ir.typing_rules import reduced_dim

__all__ = ["function_count", "parameter_types"]

Declared = Sequence[TensorType | None]


def function_count(op: str, operands: int) -> int:
    """How many of the operands of a builtin are functions; they come first.

    >>> function_count("reduce", 3), function_count("loop", 4), function_count("plus", 2)
    (1, 2, 0)
    """
    if op in ("loop", "cond"):
        return min(2, operands)
    if op == "blocked":
        return min(1, operands)
    return sum(slot == "f" for group in TABLE[op].form for slot in group)


def parameter_types(
    op: str, static: tuple[Any, ...], operands: Sequence[TensorType], declared: Declared
) -> tuple[TensorType, ...] | None:
    """What a function gets in a call of a builtin with these operands; None where that cannot be told.

    `declared` are the types that its parameters are declared with, None for those that are left out. Raises a
    Complaint where the operands do not fit each other, or have no dim to fold.
    """
    match op, static, operands:
        case "reduce", (dim,), (init, *args) if args:
            return _folded(init, args, dim or reduced_dim(args))
        case "scan", (_, dim), (init, *args) if args:
            dim = dim or _scanned(args, declared)
            return None if dim is None else _folded(init, args, dim)
        case "scatter", _, (base, *_, updates):
            return TensorType(base.element), TensorType(updates.element)
        case "loop", _, carried:
            return TensorType(INT32), *carried
        case "blocked", _, operands:
            return tuple(operands)
        case "cond", _, (_, *operands):
            return tuple(operands)
        case _:
            return None


def _folded(init: TensorType, args: Sequence[TensorType], dim: str) -> tuple[TensorType, ...]:
    levels = [a.on(a.dims.without(dim)) for a in args]
    return init.on(bcast(levels)), *levels


def _scanned(args: Sequence[TensorType], declared: Declared) -> str | None:
    """The dim that arguments have and declared parameters lack; without any declared, the only dim that there is."""
    places = list(declared[1:])
    known = [(a, p) for a, p in zip(args, places, strict=False) if p is not None]
    if known:
        lacking = {d for a, p in known for d in a.dims if d not in p.dims}
    elif declared and (state := declared[0]) is not None:
        lacking = {d for a in args for d in a.dims if d not in state.dims}
    else:
        lacking = {d for a in args for d in a.dims}
    if len(lacking) > 1:
        raise Complaint(
            "T20",
            f"the scanned dim is not clear: the arguments have {', '.join(sorted(lacking))}.",
            help="name it: scan(f, true, init, K)(x).",
        )
    return next(iter(lacking), None)
