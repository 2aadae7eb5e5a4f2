"""The agreement of the processes of a time loop: the steps of the next chunk, a checkpoint, and a stop.

Each process has its own clock, gets its own signals and meets its own errors, and all must run the same program the
same number of times. So one collective goes along with each chunk of steps, in the compiled call: every process votes,
the steps and whether a checkpoint is due are those of the first one, and a vote to stop is everybody's.

>>> agreement = Agreement.of([], None)
>>> [agreement.decided(agreement.votes(8, 0, vote)).tolist() for vote in (Vote.CONTINUE, Vote.SIGNAL)]
[[8, 0, 0], [0, 0, 1]]
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lowering.distribution.meshes import of_all
from tensorir.runtime.errors import refuse

T = TypeVar("T")


class Vote(IntEnum):
    """A vote of a process: to go on, to stop since somebody asked for it, or to stop after an error."""

    CONTINUE = 0
    SIGNAL = 1
    ERROR = 2


def lost_processes(peers: Sequence[str]) -> str:
    """The processes of a run that have ended on this machine, in words for a message; "another process" if none is
    known.

    `peers`: the process numbers and machines that `Agreement.peers` gives. Looks several times, since connections are
    closed before a process is gone.
    """
    processes = [(place, *peer.split(" ", 1)) for place, peer in enumerate(peers)]
    local = [p for p in processes if p[2] == platform.node()] if Path("/proc/self/stat").exists() else []
    for _ in range(10):  # connections are closed before the process is
        if ended := [f"process {place} (number {n} on {machine})" for place, n, machine in local if _is_over(n)]:
            return " and ".join(ended)
        time.sleep(0.02)
    return "another process"


def _is_over(number: str) -> bool:
    """True if the process with that number has ended; a zombie, whose parent has not asked for its exit status, has."""
    try:  # where it is a zombie, nobody has asked yet how it ended
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][:1] in "ZX"
    except OSError:
        return True


@dataclass(frozen=True)
class Agreement:
    """The devices of a loop, in an order that all processes know."""

    devices: tuple[Any, ...]

    @staticmethod
    def of(arrays: Sequence[Any], mesh: Mesh | None) -> Agreement:
        """The agreement of the processes of a mesh, or of the devices of distributed arrays; without devices for a
        single process.
        """
        devices = set() if mesh is None else set(mesh.devices.flat)
        for x in arrays:
            devices |= x.devices() if isinstance(x, jax.Array) and not x.is_fully_addressable else set()
        return Agreement(tuple(sorted(devices, key=lambda d: d.id)))

    @cached_property
    def several_processes(self) -> bool:
        return len({d.process_index for d in self.devices}) > 1

    @property
    def leads(self) -> bool:
        """True in the process whose clock counts, which writes files."""
        return not self.several_processes or jax.process_index() == self.devices[0].process_index

    def votes(self, steps: int, due: int, vote: Vote) -> Any:
        """The votes of this process, a row for each of its devices: (steps, checkpoint, stop); steps count of the
        leader only.

        `due`: 1 if a checkpoint is due, 2 while one is being written, else 0.
        """
        votes = np.array([[steps if self.leads else -1, due, vote]], np.int32)
        if not self.several_processes:
            return votes
        sharding = NamedSharding(self._mesh, PartitionSpec("all"))
        return jax.make_array_from_callback((len(self.devices), 3), sharding, lambda at: votes)

    def decided(self, votes: Any) -> Any:
        """The decision of all votes, within the compiled call: steps (0 if a process stops), checkpoint, and the
        strongest vote to stop.
        """
        steps, due, stop = jnp.max(jnp.asarray(votes), axis=0)
        agreed = jnp.stack([jnp.where(stop > 0, 0, steps), due, stop])
        if not self.several_processes:
            return agreed
        return lax.with_sharding_constraint(agreed, NamedSharding(self._mesh, PartitionSpec()))

    def gathered(self, *numbers: int) -> np.ndarray[Any, Any]:
        """The given 32-bit numbers of each process, one row per process; a collective that all processes call
        together.
        """
        row = np.array(numbers, np.int64)
        return multihost_utils.process_allgather(row).reshape(-1, len(row)) if self.several_processes else row[None]

    def any(self, holds: bool) -> bool:
        """True if `holds` is true in some process; all processes call this together, and wait for each other."""
        return bool(self.gathered(holds).any()) if self.several_processes else holds

    def on_all(self, action: Callable[[], T]) -> T:
        """The result of an action that may fail in some processes; all call this together.

        Raises the action's own error in the process where it fails, and A48 in all others.
        """
        problem: Exception | None = None
        results: list[T] = []
        try:
            results.append(action())
        except Exception as error:  # the others wait in the same call
            if not self.several_processes:
                raise
            problem = error
        failed = self.any(problem is not None)
        if problem is not None:
            raise problem
        if failed:
            raise refuse("A48", "another process of this run ended with an error.", "its own message says which.")
        return results[0]

    def peers(self) -> Sequence[str]:
        """Process number and machine of each process of a run; empty if there is only one."""
        return of_all(f"{os.getpid()} {platform.node()}") if self.several_processes else ()

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("all",))
