"""The agreement of the processes of a time loop: the steps of the next chunk, a checkpoint, and a stop.

Each process has its own clock, gets its own signals and meets its own errors, and all must run the same program the
same number of times. So one collective goes along with each chunk of steps, in the compiled call: every process votes,
the steps and whether a checkpoint is due are those of the first one, and a vote to stop is everybody's.

>>> agreement = Agreement.of([], None)
>>> [agreement.decided(agreement.votes(8, False, vote)).tolist() for vote in (Vote.CONTINUE, Vote.SIGNAL)]
[[8, 0, 0], [0, 0, 1]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tensorir.binding.arrays import refuse


class Vote(IntEnum):
    """A vote of a process: to go on, to stop since somebody asked for it, or to stop after an error."""

    CONTINUE = 0
    SIGNAL = 1
    ERROR = 2


@dataclass(frozen=True)
class Agreement:
    """The devices of a loop, in an order that all processes know."""

    devices: tuple[Any, ...]

    @staticmethod
    def of(arrays: Sequence[Any], mesh: Mesh | None) -> Agreement:
        """The devices of a mesh, or those on which arrays are; one of this process where there are neither."""
        some = set() if mesh is None else set(mesh.devices.flat)
        for x in arrays:
            some |= x.devices() if isinstance(x, jax.Array) and not x.is_fully_addressable else set()
        return Agreement(tuple(sorted(some, key=lambda d: d.id)))

    @property
    def several_processes(self) -> bool:
        return len({d.process_index for d in self.devices}) > 1

    @property
    def leads(self) -> bool:
        """True in the process whose clock counts, which writes files."""
        return not self.several_processes or jax.process_index() == self.devices[0].process_index

    def votes(self, steps: int, due: bool, vote: Vote) -> Any:
        """The votes of this process, one for each of its devices: steps, a checkpoint that is due, a stop."""
        own = np.array([[steps if self.leads else -1, self.leads and due, vote]], np.int32)
        if not self.several_processes:
            return own
        along = NamedSharding(self._mesh, PartitionSpec("all"))
        return jax.make_array_from_callback((len(self.devices), 3), along, lambda at: own)

    def decided(self, votes: Any) -> Any:
        """Of the votes of all, within the compiled call: the steps, 0 where somebody stops, a checkpoint, and why."""
        steps, due, stop = jnp.max(jnp.asarray(votes), axis=0)
        agreed = jnp.stack([jnp.where(stop > 0, 0, steps), due, stop])
        if not self.several_processes:
            return agreed
        return lax.with_sharding_constraint(agreed, NamedSharding(self._mesh, PartitionSpec()))

    def on_all(self, resumed: Callable[[], tuple[int, Any] | None], folder: str) -> tuple[int, Any] | None:
        """The checkpoint that every process reads; raises the error of one in all, and A30 where they differ."""
        if not self.several_processes:
            return resumed()
        problem, own = None, None
        try:
            own = resumed()
        except Exception as error:  # the others wait in the same call
            problem = error
        done = -2 if problem else -1 if own is None else own[0]
        every = np.asarray(multihost_utils.process_allgather(np.int64(done)))
        if problem is not None:
            raise problem
        if (every != done).any():
            message = f"the processes of this run read different checkpoints in '{folder}'"
            raise refuse("A30", f"{message}.", "name a folder that all of them see.")
        return own

    def met(self, failed: bool) -> bool:
        """True if some process failed, once all are here: files that one of them writes are whole for the others."""
        if not self.several_processes:
            return failed
        return bool(np.asarray(multihost_utils.process_allgather(np.int32(failed))).any())

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("all",))
