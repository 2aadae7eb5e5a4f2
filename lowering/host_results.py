"""Results for callers with NumPy arrays: the memory that XLA wrote, as arrays that can be changed."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numpy as np

__all__ = ["on_host"]

COPIED = 1 << 14
"""Bytes. A copy of less costs no more than handing on the memory."""


def on_host(array: jax.Array) -> np.ndarray:
    """A new result, which nobody else holds, as a NumPy array that its holder may change.

    NumPy shows arrays of JAX as read-only, since others may hold them. This one is handed on with its memory, which is
    aligned as XLA wants it, so that a call that is given the result does not copy it.

    >>> result = on_host(jax.numpy.ones(1 << 16))
    >>> result[0] = 2.0
    >>> float(result.sum()), result.ctypes.data % 64
    (65537.0, 0)
    """
    seen = np.asarray(array)
    if seen.nbytes < COPIED or seen.dtype.isbuiltin != 1:
        return seen.copy()
    memory: Any = (ctypes.c_char * seen.nbytes).from_address(seen.ctypes.data)
    memory.array = array  # it lives as long as what looks into it
    return np.frombuffer(memory, seen.dtype).reshape(seen.shape)
