"""Numbers of element types, and values of terms at all points of a box.

Sums of indices as terms of an element type, whose numbers wrap around.

`i - 3`, for i from 0 on, is no number of a uint32: it stays an operation on one, and is computed as such. Without
bounds, the indices of a source (int32 and int64) are taken to keep to their type.

>>> from tensorir.integers.affine import number, variable
>>> from tensorir.lifting.nests.terms import show
>>> from tensorir.ir.types import INT32, Scalar
>>> narrow = Scalar("int8", "int", 8)
>>> i = variable("i")
>>> fitting(i.times(20), narrow, {"i": (0, 7)})
>>> show(fitting(i.times(20), INT32, {"i": (0, 7)})), show(fitting(number(200), narrow, {}))
('i*20', '-56')

Numbers of terms without loads: evaluated on many iterations at once, or once where no index is in them.

>>> from tensorir.lifting.nests.terms import Index, Number, Op
>>> from tensorir.ir.types import FLOAT32, INT32
>>> i = Index("i", INT32)
>>> print(values(Op("mod", (Op("multiplies", (i, i), INT32), Number(5, INT32)), INT32), {"i": np.arange(5)}))
[0 1 4 4 1]
>>> half = Op("divides", (Number(1.0, FLOAT32), Number(2.0, FLOAT32)), FLOAT32)
>>> folded(half).value
0.5
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine
from tensorir.ir.types import DTYPES, FLOAT32, FLOAT64, Scalar
from tensorir.lifting.nests.terms import Index, Linear, Load, Number, Op, Term, walk


def fits(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """True if a sum is a number of an element type wherever its variables are."""
    spread = affine.range(ranges)
    if spread is None:
        return element.bits >= 32 and element.range.start < 0
    return spread[0] in element.range and spread[1] in element.range


def fitting(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> Term | None:
    """The term of a sum, and of a number what it wraps around to; None where others might wrap around."""
    if affine.is_number:
        low = element.range.start
        return Number((affine.constant - low) % (element.range.stop - low) + low, element)
    return Linear(affine, element) if fits(affine, element, ranges) else None


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
    "bit_xor": np.bitwise_xor,
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
        case Linear(affine, element):
            found = _affine(affine, grid)
            # NumPy makes floats of int64 and uint64 together
            return None if found is None else found.astype(DTYPES[element])
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
                found = _division(op, *parts)
            elif op == "cast":
                found = np.asarray(parts[0]).astype(DTYPES[element])
            elif op in _FUNCTIONS:
                found = _FUNCTIONS[op](*parts)
            else:
                return None
            # whole numbers wrap around
            return np.asarray(found).astype(DTYPES[element]) if element.is_integer else found


_MOST = np.iinfo(np.int64).max


def _affine(affine: Affine, grid: Mapping[str, Any]) -> Any | None:
    if any(abs(n) > _MOST for n in (affine.constant, *(c for _, c in affine.terms))):
        return None
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


def folded(term: Op) -> Number | None:
    """The number that an operation on numbers is, some of them floats; None where rounding might be another's.

    Floats of other widths than 32 and 64 bits may be computed in wider ones, and tiny numbers as zeros.
    """
    numbers = [a for a in term.args if isinstance(a, Number)]
    floats = [x.element for x in (term, *numbers) if x.element.is_float]
    if len(numbers) != len(term.args) or not floats or not {FLOAT32, FLOAT64}.issuperset(floats):
        return None
    found = values(term, {})
    if found is None or not np.isfinite(found):
        return None
    value = found.item()
    match term:
        case Op("cast", (Number(x),), element) if element.is_integer:
            return Number(value, element) if np.isfinite(x) and int(x) == value else None
        case Op(_, _, element) if element.is_float:
            least = float(np.finfo(DTYPES[element]).tiny)
            return Number(value, element) if not value or abs(value) >= least else None
        case _:
            return Number(value, term.element)
