"""Arrays for the parameters of generated programs: special values, and tables and indices that stay inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tensorir.binding.arrays import nested
from tensorir.integers.dims import Interval
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES, Scalar

__all__ = ["Entries", "arguments", "copied", "special_values"]


@dataclass(frozen=True)
class Entries:
    """What a table or an array of indices may hold."""

    inside: Interval
    holes: bool = False
    """Whether -1 stands for an absent neighbour."""


def special_values(scalar: Scalar) -> np.ndarray:
    """The values at which operations of an element type are most likely to go wrong; no subnormal ones."""
    dtype = DTYPES[scalar]
    if scalar.kind == "bool":
        return np.array([False, True])
    if scalar.is_integer:
        low, high = scalar.range.start, scalar.range.stop - 1
        wanted = [
            0,
            1,
            -1,
            2,
            -2,
            3,
            5,
            -7,
            8,
            15,
            16,
            31,
            32,
            33,
            63,
            64,
            100,
            low,
            low + 1,
            high,
            high - 1,
            high // 3,
        ]
        return np.array([v for v in dict.fromkeys(wanted) if low <= v <= high], dtype)
    limits = ml_dtypes.finfo(dtype)
    wanted = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, 2, 3, -7, 0.1, -0.3, 10, 100, 1e-3, 0.9999, 1.0001, 3.14159]
    wanted += [-20, 88, 127, 128, -700, 1e4, 1e6, 255, 256, -129, 65504, 1e19, 1e30, 2.0**31, -(2.0**31), 2.0**63]
    wanted += [float(limits.max), float(limits.min), float(limits.eps), np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        found = np.array([float(v) for v in wanted]).astype(dtype)
    tiny = float(limits.tiny)
    return found[(np.abs(found.astype(np.float64)) >= 4 * tiny) | (found == 0) | np.isnan(found)]


def _data(scalar: Scalar, shape: tuple[int, ...], values: str, rng: np.random.Generator) -> np.ndarray:
    dtype = DTYPES[scalar]
    if scalar.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if values == "gentle" and scalar.is_float:
        return rng.uniform(0.5, 2.0, shape).astype(dtype)
    if values == "special":
        found = rng.choice(special_values(scalar), shape)
        plain = rng.normal(size=shape) * 3 if scalar.is_float else rng.integers(0, 9, shape)
        return np.where(rng.uniform(size=shape) < 0.4, found, plain.astype(dtype)).astype(dtype)
    return rng.integers(-2 if scalar.kind != "uint" else 0, 3, shape).astype(dtype)


def _entries(entries: Entries, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    found = rng.integers(entries.inside.start, entries.inside.stop, shape)
    return np.where(rng.uniform(size=shape) < 0.4, -1, found) if entries.holes else found


def arguments(
    fencil: Fencil, entries: Mapping[str, Entries], values: str, seed: int, passed: set[str] | None = None
) -> dict[str, Any]:
    """Arrays for every parameter that must be passed; tuples as nested tuples of arrays."""
    rng = np.random.default_rng(seed)
    needed = {p.name for p in fencil.inputs} | (passed or set())
    return {p.name: _argument(p, entries, values, rng) for p in fencil.params if p.name in needed}


def _argument(p: Var, entries: Mapping[str, Entries], values: str, rng: np.random.Generator) -> Any:
    shape = p.type.dims.shape
    if p.name in entries:
        return _entries(entries[p.name], shape, rng).astype(DTYPES[p.type.leaves[0]])
    return nested(p.type.element, [_data(s, shape, values, rng) for s in p.type.leaves])


def copied(value: Any) -> Any:
    """The same arrays apart: a call may write into its buffers."""
    if isinstance(value, dict):
        return {name: copied(v) for name, v in value.items()}
    return tuple(map(copied, value)) if isinstance(value, tuple) else np.array(value)
