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
    """Join the processes of a run, which have `devices` devices together; returns True in the first of them.

    `count`, `place`: the number of processes, and this one's. Without an address the launcher (Slurm, MPI or another
    that JAX knows) says who takes part. Raises ValueError if there is none, and RuntimeError if the others do not come.
    """
    if count is not None:
        jax.config.update("jax_num_cpu_devices", max(1, devices // count))
    seconds = heartbeat or HEARTBEAT
    jax.distributed.initialize(address, count, place, initialization_timeout=60, heartbeat_timeout_seconds=seconds)
    heed_signals()
    return jax.process_index() == 0


def available(count: int) -> int:
    """The number of devices; a CPU becomes `count` devices if JAX has not started yet."""
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
    """Restore the SIGTERM handler that `jax.distributed.initialize` replaced by its own, which ends nothing."""
    with contextlib.suppress(ValueError, TypeError):  # in another thread, and where another library handles it
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def taking_part() -> tuple[int, int, int, str]:
    """Number of this process, number of processes, its devices, and their kind."""
    return jax.process_index(), jax.process_count(), jax.local_device_count(), jax.devices()[0].device_kind


def of_all(text: str) -> list[str]:
    """The texts of all processes, at most 200 bytes each; a collective that all processes call together."""
    packed = np.frombuffer(text.encode()[:200].ljust(200), np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(packed)).reshape(-1, 200)
    return [bytes(row).decode().strip() for row in rows]


def is_shared(mesh: Mesh) -> bool:
    """True if some devices of a mesh are those of other processes."""
    return any(d.process_index != jax.process_index() for d in mesh.devices.flat)


def blocks_of(array: Any, sharding: NamedSharding) -> jax.Array:
    """The array with its blocks on the devices; each process reads the blocks of its own devices only."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return jax.device_put(array, sharding)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: np.asarray(array[part]))


@dataclass(frozen=True, slots=True)
class Placement:
    """The axes of a mesh along which the dims of arrays with names lie."""

    mesh: Mesh
    axes: Mapping[str, str]

    def sharding(self, dims: Sequence[Any], shape: Sequence[int]) -> NamedSharding:
        """The sharding of an array: blocks along dims that have a mesh axis which divides their extent, whole along
        the others.
        """
        axes = [self.axes.get(str(d)) for d in dims]
        fits = [None if a is None or n % self.mesh.shape[a] else a for a, n in zip(axes, shape, strict=True)]
        return NamedSharding(self.mesh, PartitionSpec(*fits))

    def read(self, array: Any, dims: Sequence[Any]) -> jax.Array:
        """An array of NumPy, or in a file, with its blocks on the devices; each process reads its own."""
        return blocks_of(array, self.sharding(dims, array.shape))


def on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array as a NumPy array, whole in every process; a collective for distributed arrays. Random keys give their
    data.
    """
    if isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    if isinstance(array, jax.Array) and array.is_fully_replicated:
        array = array.addressable_data(0)
    elif isinstance(array, jax.Array) and not array.is_fully_addressable:
        array = multihost_utils.process_allgather(array, tiled=True)
    return np.array(array)


def agree(name: str, text: str, mesh: Mesh) -> None:
    """Raise D07 if another process is about to run another `text`, and D08 if a process has no device in the mesh.

    A collective that all processes call together.
    """
    taking_part = {d.process_index for d in mesh.devices.flat}
    if absent_processes := [str(k) for k in range(jax.process_count()) if k not in taking_part]:
        message = f"the mesh has no device of process {', '.join(absent_processes)}."
        raise refuse("D08", message, 'make it of the devices of all: jax.make_mesh((jax.device_count(),), ("px",)).')
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.int32)
    with ThreadPoolExecutor(
        1
    ) as thread_pool:  # a first call may be within a trace, of which other threads know nothing
        digests = np.asarray(thread_pool.submit(multihost_utils.process_allgather, digest).result()).reshape(-1, 2)
    differing_processes = [
        str(k)
        for k, digest_of_process in enumerate(digests)
        if (digest_of_process != digests[jax.process_index()]).any()
    ]
    if differing_processes:
        subject = (
            f"process {differing_processes[0]}"
            if len(differing_processes) == 1
            else f"processes {', '.join(differing_processes)}"
        )
        message = (
            f"'{name}' of process {jax.process_index()} is another program, or has other sizes, than that of {subject}."
        )
        hint = "let every process call the same programs, in the same order, on arrays of the same extents."
        raise refuse("D07", message, hint)
