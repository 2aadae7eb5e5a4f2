"""Elementwise builtins on NumPy scalars."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.iterator.builtins import ARITHMETIC

__all__ = ["RULES"]

_BY_NAME: dict[str, Callable[..., Any]] = {
    "plus": operator.add, "minus": operator.sub, "multiplies": operator.mul, "divides": operator.truediv,
    "mod": np.mod, "floordiv": np.floor_divide, "fmod": np.fmod, "power": np.power, "minimum": np.minimum,
    "maximum": np.maximum, "and_": np.logical_and, "or_": np.logical_or, "xor_": np.logical_xor,
    "not_": np.logical_not, "eq": operator.eq, "not_eq": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "neg": operator.neg, "abs": abs,
}  # fmt: skip

RULES: dict[str, Callable[..., Any]] = {
    name: rule for name in ARITHMETIC if (rule := _BY_NAME.get(name, getattr(np, name, None))) is not None
}
