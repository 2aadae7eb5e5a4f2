"""Elementwise builtins on NumPy scalars."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.iterator.builtins import ARITHMETIC

__all__ = ["RULES"]


def _quotient(a: Any, b: Any) -> Any:
    """A quotient; of whole numbers it is cut towards zero."""
    if isinstance(a, (float, np.floating)) or isinstance(b, (float, np.floating)):
        return a / b
    size = abs(int(a)) // abs(int(b))
    return np.result_type(a, b).type(size if (a < 0) == (b < 0) else -size)


_BY_NAME: dict[str, Callable[..., Any]] = {
    "plus": operator.add, "minus": operator.sub, "multiplies": operator.mul, "divides": _quotient,
    "mod": np.mod, "floordiv": np.floor_divide, "fmod": np.fmod, "power": np.power, "minimum": np.minimum,
    "maximum": np.maximum, "and_": np.bitwise_and, "or_": np.bitwise_or, "xor_": np.bitwise_xor,
    "not_": np.invert, "gamma": math.gamma,
    "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "neg": operator.neg, "abs": abs,
}  # fmt: skip

RULES: dict[str, Callable[..., Any]] = {
    name: _BY_NAME.get(name) or getattr(np, name) for name in ARITHMETIC if name in _BY_NAME or hasattr(np, name)
}
