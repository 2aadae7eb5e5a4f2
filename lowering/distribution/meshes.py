"""Meshes of the devices that there are, or of pretended ones on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import prod

import jax
import numpy as np
from jax.sharding import Mesh

__all__ = ["available", "join", "mesh_of"]


HEARTBEAT = 20
"""Seconds after which the processes know that one of them is gone, and end."""


def join(address: str | None, count: int | None, place: int | None, devices: int) -> bool:
    """Join processes that have so many devices together; whether this is the first of them.

    Without an address Slurm, MPI or another launcher that JAX knows says who takes part. Raises ValueError where none
    does, and RuntimeError where the others do not come.
    """
    if count is not None:
        jax.config.update("jax_num_cpu_devices", max(1, devices // count))
    jax.distributed.initialize(address, count, place, initialization_timeout=60, heartbeat_timeout_seconds=HEARTBEAT)
    return jax.process_index() == 0


def available(count: int) -> int:
    """How many devices there are; a CPU is as many as are asked for, where nothing has run on it yet."""
    with contextlib.suppress(RuntimeError):  # something has run, or processes have joined
        if not jax.distributed.is_initialized():
            jax.config.update("jax_num_cpu_devices", count)
    return len(jax.devices())


def mesh_of(extents: Sequence[int]) -> Mesh:
    """A mesh with axes p0, p1, ... of these extents, of the first devices."""
    found = jax.devices()[: prod(extents)]
    return Mesh(np.array(found).reshape(extents), [f"p{k}" for k in range(len(extents))])
