"""Meshes whose devices belong to several processes, as `jax.distributed.initialize()` joins them.

Every process calls the same programs in the same order. Of an array that is given whole each process puts its own
blocks on its devices; what a caller of NumPy or xarray gets back is whole in every process.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["agree", "blocks_of", "is_shared", "on_host"]


def is_shared(mesh: Mesh) -> bool:
    """Whether some devices of a mesh are those of other processes."""
    return any(d.process_index != jax.process_index() for d in mesh.devices.flat)


def blocks_of(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array whose blocks lie on the devices: each process reads those of its own devices from what it has."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return jax.device_put(array, sharding)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: np.asarray(array[part]))


def on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array as one of NumPy, whole in every process; all processes that have blocks of it call this together."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.array(array)


def agree(name: str, text: str, mesh: Mesh) -> None:
    """Raise D07 where other processes are about to run another text than this one, D08 where one has no device."""
    taking_part = {d.process_index for d in mesh.devices.flat}
    if without := [str(k) for k in range(jax.process_count()) if k not in taking_part]:
        told = f"the mesh has no device of process {', '.join(without)}."
        hint = 'make it of the devices of all: jax.make_mesh((jax.device_count(),), ("px",)).'
        raise DiagnosticError(Diagnostic("D08", told, help=hint))
    own = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.int32)
    with ThreadPoolExecutor(1) as outside:  # a first call may be within a trace, of which other threads know nothing
        every = np.asarray(outside.submit(multihost_utils.process_allgather, own).result()).reshape(-1, 2)
    others = [str(k) for k, theirs in enumerate(every) if (theirs != every[jax.process_index()]).any()]
    if others:
        said = f"process {others[0]}" if len(others) == 1 else f"processes {', '.join(others)}"
        told = f"'{name}' of process {jax.process_index()} is another program, or has other sizes, than that of {said}."
        hint = "let every process call the same programs, in the same order, on arrays of the same extents."
        raise DiagnosticError(Diagnostic("D07", told, help=hint))
