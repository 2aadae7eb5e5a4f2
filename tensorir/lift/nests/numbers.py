"""Numbers of terms without loads: evaluated on all iterations at once, for bounds that are no sums of indices.

>>> from tensorir.lift.nests.terms import Index, Number, Op
>>> from tensorir.types import INT32
>>> i = Index("i", INT32)
>>> extremes(Op("mod", (Op("multiplies", (i, i), INT32), Number(5, INT32)), INT32), {"i": (0, 9)})
(0, 4)
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorir.lift.nests.affine import Affine
from tensorir.lift.nests.linear import Ranges, linear
from tensorir.lift.nests.terms import Index, Linear, Load, Number, Op, Term, index_names, walk
from tensorir.types import DTYPES

__all__ = ["extremes", "values"]

MOST_POINTS = 1 << 20

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plus": np.add,
    "minus": np.subtract,
    "multiplies": np.multiply,
    "neg": np.negative,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "eq": np.equal,
    "not_eq": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "if": np.where,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


def _division(op: str, a: Any, b: Any) -> Any:
    safe: Any = np.where(b == 0, np.ones_like(b), b)
    match op:
        case "floordiv":
            return np.floor_divide(a, safe)
        case "mod":
            return np.mod(a, safe)
        case "rem":
            return np.fmod(a, safe)
        case _:
            return a / b if np.asarray(a).dtype.kind == "f" else (a - np.fmod(a, safe)) // safe


def values(term: Term, grid: Mapping[str, Any]) -> Any | None:
    """The values of a term where its indices have the values of the grid; None where it reads data."""
    known: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for t in reversed(list(walk(term))):
            found = _value(t, grid, known)
            if found is None:
                return None
            known[id(t)] = found
    return known[id(term)]


def _value(t: Term, grid: Mapping[str, Any], known: dict[int, Any]) -> Any | None:
    match t:
        case Number(value, element):
            return DTYPES[element].type(value)
        case Index(name):
            return grid.get(name)
        case Linear(affine):
            return _affine(affine, grid)
        case Load():
            return None
        case Op(op, args, element):
            parts: list[Any] = []
            for a in args:
                if id(a) not in known:
                    inner = values(a, grid)
                    if inner is None:
                        return None
                    known[id(a)] = inner
                parts.append(known[id(a)])
            if op in ("floordiv", "mod", "divides", "rem"):
                return _division(op, *parts)
            if op == "cast":
                return np.asarray(parts[0]).astype(DTYPES[element])
            function = _FUNCTIONS.get(op)
            return None if function is None else function(*parts)


def _affine(affine: Affine, grid: Mapping[str, Any]) -> Any | None:
    total: Any = np.int64(affine.constant)
    for atom, c in affine.terms:
        if isinstance(atom, str):
            value = grid.get(atom)
        else:
            inner = _affine(atom.inner, grid)
            value = None if inner is None else np.floor_divide(inner, atom.by)
        if value is None:
            return None
        total = total + np.asarray(value, np.int64) * c
    return total


def extremes(term: Term, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest value of a whole-number term; None where it reads data, or has too many."""
    found = linear(term, ranges)
    if found is not None and found.is_linear:
        return found.range(ranges)
    names = sorted(index_names(term))
    if any(name not in ranges for name in names):
        return None
    count = 1
    for name in names:
        count *= max(0, ranges[name][1] - ranges[name][0] + 1)
    if not count or count > MOST_POINTS:
        return None
    grid = {
        name: np.arange(ranges[name][0], ranges[name][1] + 1).reshape([-1 if k == j else 1 for k in range(len(names))])
        for j, name in enumerate(names)
    }
    result = values(term, grid)
    if result is None:
        return None
    return int(np.min(result)), int(np.max(result))
