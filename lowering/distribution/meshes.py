"""Meshes of the devices that there are, or of pretended ones on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import prod

import jax
import numpy as np
from jax.sharding import Mesh

__all__ = ["mesh_of"]


def mesh_of(extents: Sequence[int]) -> Mesh | int:
    """A mesh with axes p0, p1, ... of these extents, of the first devices; how many there are, where they are too few.

    A CPU is as many devices as are asked for, where nothing has run on it yet.
    """
    count = prod(extents)
    with contextlib.suppress(RuntimeError):  # something has run
        jax.config.update("jax_num_cpu_devices", count)
    found = jax.devices()
    if len(found) < count:
        return len(found)
    return Mesh(np.array(found[:count]).reshape(extents), [f"p{k}" for k in range(len(extents))])
