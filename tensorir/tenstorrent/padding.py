"""Kernels on buffers whose extents are multiples of the hardware's tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorir.tenstorrent.defaults import DEFAULTS
from tensorir.tenstorrent.grid import number, with_attributes
from tensorir.tenstorrent.shard import matrix_extents
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.walk import substitute

__all__ = ["pad_arrays", "padded", "padded_shape"]


def padded_shape(func: n.PrimFunc, buffer: n.Buffer) -> tuple[int, ...]:
    """The extents of a buffer with the last two (of one dim: the last) rounded up to multiples of the tile.

    Raises TN02 for extents that only a call tells.
    """
    whole = with_attributes(func, DEFAULTS)
    tile = [number(whole, f"tt_tile_{side}", "defaults") for side in ("height", "width")]
    matrix_extents(buffer)
    fixed = [e.value if isinstance(e, n.IntImm) else 1 for e in buffer.shape]
    inner = tile[-len(fixed) :] if fixed else []
    outer = fixed[: len(fixed) - len(inner)]
    return (*outer, *(-(-e // t) * t for e, t in zip(fixed[len(outer) :], inner, strict=True)))


def padded(func: n.PrimFunc) -> n.PrimFunc:
    """The kernel on padded buffers; its body is the same, so that what it guards by the extents it reads as padding.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((3, 40, 64))):\\n    A[0, 0, 0] = 1.0')["main"]
    >>> next(iter(padded(main).buffer_map.values())).shape
    (3, 64, 64)
    """
    made: dict[n.Buffer, n.Buffer] = {}
    for buffer in func.buffer_map.values():
        shape = padded_shape(func, buffer)
        sizes = tuple(const(e, old.dtype) for e, old in zip(shape, buffer.shape, strict=True))
        made[buffer] = replace(buffer, shape=sizes, strides=())
    return replace(
        func,
        buffer_map={param: made[buffer] for param, buffer in func.buffer_map.items()},
        body=substitute(func.body, {}, made),
    )


def pad_arrays(func: n.PrimFunc, arrays: Sequence[Any]) -> list[Any]:
    """The arguments of a kernel for the padded one: zeros behind the elements that there are."""
    found: list[Any] = []
    for param, value in zip(func.params, arrays, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            found.append(value)
            continue
        array = np.asarray(value)
        whole = np.zeros(padded_shape(func, buffer), array.dtype)
        whole[tuple(slice(e) for e in array.shape)] = array
        found.append(whole)
    return found
