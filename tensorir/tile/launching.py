"""Launches of cuTile kernels on whatever device XLA has: compiled to Tile IR, lifted, and called like any function."""

# Arrays hold elements of any type here, so what they are of has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.runtime.memory import SIZES, RecentCache
from tensorir.tile.cutile import from_cutile, leaves_of

__all__ = ["launch", "lifted_kernel"]


LIFTED: RecentCache[Any, Any] = RecentCache("launched kernels", SIZES)
"""By kernel, grid and kind of arguments; the kernel stands beside its program, so that it lives as long."""


def launch(kernel: Any, grid: Sequence[int], args: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Run a kernel of cuTile (`@ct.kernel`) on a grid: what its arrays hold afterwards, those that it writes, in order.

    `args` has one for each parameter: arrays of any kind, lists of arrays, numbers, constants, tuples of these; no
    array is changed. It is a function of JAX like any other where it is called with its arrays: under `jit`, `grad` and
    `vmap`. `options` are those of `ti.lift`. Raises TK06 where cuTile refuses the kernel, TK07 where it is not
    installed, TK11 to TK13 for lists that are not taken apart.
    """
    program, given = lifted_kernel(kernel, tuple(grid), tuple(args), **options)
    return program(*given)


def lifted_kernel(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], **options: Any) -> tuple[Any, list[Any]]:
    """A kernel lifted for arguments like these, and those of them that it is called with."""
    from tensorir.tile.lift import lift

    if not hasattr(kernel, "_annotated_function"):
        from_cutile(kernel)  # says what is wrong with it
    found = leaves_of(kernel, args)
    given = [_number(value) for value, constant in found if not constant]
    key = (id(kernel), grid, _structure(args), tuple(map(_kind, found)), tuple(sorted(options.items())))
    known = LIFTED.get(key)
    if known is None:
        module = from_cutile(kernel, *args)
        known = kernel, lift(module, grid=grid, args=given, **options)
        LIFTED.put(key, known)
    return known[1], given


def _number(value: Any) -> Any:
    """A float as the element that cuTile takes it for."""
    return np.float32(value) if isinstance(value, float) else value


def _structure(args: tuple[Any, ...]) -> Any:
    """How tuples nest, and how long lists are."""
    return tuple(len(a) if isinstance(a, list) else _structure(a) if isinstance(a, tuple) else None for a in args)


def _kind(leaf: tuple[Any, bool]) -> Any:
    value, constant = leaf
    if constant:
        return type(value).__name__, value
    if hasattr(value, "dtype") and len(getattr(value, "shape", ())) > 0:
        strides = getattr(value, "strides", None)
        unit = strides is None or callable(strides) or strides[-1] == np.dtype(value.dtype).itemsize
        return tuple(value.shape), str(value.dtype), unit
    return type(value).__name__, str(getattr(value, "dtype", ""))
