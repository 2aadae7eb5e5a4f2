"""Meshes of the devices that there are, of pretended ones, and of several processes."""

from __future__ import annotations

import contextlib
import hashlib
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tensorir.runtime.errors import refuse

# Meshes of the devices that there are, or of pretended ones on a CPU.

HEARTBEAT = 10
"""Seconds after which the processes know that one of them stands still, and end."""


def join(address: str | None, count: int | None, place: int | None, devices: int, heartbeat: int | None) -> bool:
    """Join processes that have so many devices together; whether this is the first of them.

    Without an address Slurm, MPI or another launcher that JAX knows says who takes part. Raises ValueError where none
    does, and RuntimeError where the others do not come.
    """
    if count is not None:
        jax.config.update("jax_num_cpu_devices", max(1, devices // count))
    seconds = heartbeat or HEARTBEAT
    jax.distributed.initialize(address, count, place, initialization_timeout=60, heartbeat_timeout_seconds=seconds)
    heed_signals()
    return jax.process_index() == 0


def available(count: int) -> int:
    """The number of devices; a CPU is as many as are asked for, where nothing has run on it yet."""
    with contextlib.suppress(RuntimeError):  # something has run, or processes have joined
        if not jax.distributed.is_initialized():
            jax.config.update("jax_num_cpu_devices", count)
    return len(jax.devices())


def mesh_of(extents: Sequence[int]) -> Mesh:
    """A mesh with axes p0, p1, ... of these extents, of the first devices."""
    devices = np.array(jax.devices()[: prod(extents)])
    return Mesh(devices.reshape(extents), [f"p{k}" for k in range(len(extents))])


# Meshes whose devices belong to several processes, as `jax.distributed.initialize()` joins them.
#
# Every process calls the same programs in the same order. Of an array that is given whole each process puts its own
# blocks on its devices; what a caller of NumPy or xarray gets back is whole in every process.


def heed_signals() -> None:
    """Let SIGTERM do what it did before `jax.distributed.initialize`, whose own handler ends nothing."""
    with contextlib.suppress(ValueError, TypeError):  # in another thread, and where another library handles it
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def taking_part() -> tuple[int, int, int, str]:
    """The number of this process and how many there are, its devices and their kind."""
    return jax.process_index(), jax.process_count(), jax.local_device_count(), jax.devices()[0].device_kind


def of_all(text: str) -> list[str]:
    """A text of each process, of 200 bytes at most; all call this together."""
    packed = np.frombuffer(text.encode()[:200].ljust(200), np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(packed)).reshape(-1, 200)
    return [bytes(row).decode().strip() for row in rows]


def is_shared(mesh: Mesh) -> bool:
    """True if some devices of a mesh are those of other processes."""
    return any(d.process_index != jax.process_index() for d in mesh.devices.flat)


def blocks_of(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array whose blocks lie on the devices: each process reads those of its own devices from what it has."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return jax.device_put(array, sharding)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: np.asarray(array[part]))


@dataclass(frozen=True, slots=True)
class Placement:
    """The axes of a mesh along which the dims of arrays with names lie."""

    mesh: Mesh
    axes: Mapping[str, str]

    def sharding(self, dims: Sequence[Any], shape: Sequence[int]) -> NamedSharding:
        """Blocks along the dims whose extents the devices divide; along others an array is whole on each device."""
        axes = [self.axes.get(str(d)) for d in dims]
        fits = [None if a is None or n % self.mesh.shape[a] else a for a, n in zip(axes, shape, strict=True)]
        return NamedSharding(self.mesh, PartitionSpec(*fits))

    def read(self, array: Any, dims: Sequence[Any]) -> jax.Array:
        """An array of NumPy, or in a file, in blocks, of which each process reads its own."""
        return blocks_of(array, self.sharding(dims, array.shape))


def on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array as one of NumPy, whole in every process; all processes that have blocks of it call this together.

    Of random keys it is their numbers.
    """
    if isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    if isinstance(array, jax.Array) and array.is_fully_replicated:
        array = array.addressable_data(0)
    elif isinstance(array, jax.Array) and not array.is_fully_addressable:
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.array(array)


def agree(name: str, text: str, mesh: Mesh) -> None:
    """Raise D07 where other processes are about to run another text than this one, D08 where one has no device."""
    taking_part = {d.process_index for d in mesh.devices.flat}
    if without := [str(k) for k in range(jax.process_count()) if k not in taking_part]:
        message = f"the mesh has no device of process {', '.join(without)}."
        raise refuse("D08", message, 'make it of the devices of all: jax.make_mesh((jax.device_count(),), ("px",)).')
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.int32)
    with ThreadPoolExecutor(1) as outside:  # a first call may be within a trace, of which other threads know nothing
        every = np.asarray(outside.submit(multihost_utils.process_allgather, digest).result()).reshape(-1, 2)
    others = [str(k) for k, theirs in enumerate(every) if (theirs != every[jax.process_index()]).any()]
    if others:
        said = f"process {others[0]}" if len(others) == 1 else f"processes {', '.join(others)}"
        message = (
            f"'{name}' of process {jax.process_index()} is another program, or has other sizes, than that of {said}."
        )
        hint = "let every process call the same programs, in the same order, on arrays of the same extents."
        raise refuse("D07", message, hint)
