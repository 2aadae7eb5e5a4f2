"""States of a time loop on disk: what a run that was killed goes on from, bit for bit.

One file, replaced as a whole: whenever the process ends, the folder holds a state that is complete.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tensorir.binding.arrays import refuse

__all__ = ["Checkpoints"]

NAME = "checkpoint.npz"
SECONDS = 5.0
"""How much work a kill may cost, about."""


class Checkpoints:
    """The checkpoints of one run in a folder of its own."""

    def __init__(self, folder: str | os.PathLike[str], state: Any, seconds: float = SECONDS) -> None:
        self.path = Path(folder) / NAME
        self.seconds, self.saved = seconds, time.monotonic()
        leaves, self.structure = jax.tree_util.tree_flatten(state)
        self.kinds = [(tuple(x.shape), np.dtype(x.dtype)) for x in leaves]
        self.run = _digest(self.structure, leaves)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise refuse("A30", f"'{folder}' cannot hold checkpoints: {problem.strerror}.", "name a folder.") from None

    def resumed(self) -> tuple[int, Any] | None:
        """The number of steps and the state that the folder holds, None where it holds none.

        Raises A30 for a checkpoint of a run that began otherwise.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                done, run = int(file["steps"]), str(file["run"])
                raw = [file[f"leaf_{k}"] for k in range(len(self.kinds))] if run == self.run else []
        except (OSError, ValueError, KeyError, EOFError) as problem:
            raise refuse("A30", f"'{self.path}' is no checkpoint: {problem}.", "remove it.") from None
        if run != self.run:
            told = f"'{self.path.parent}' holds the checkpoint of a run that began with another state"
            raise refuse("A30", f"{told}.", "give each run a folder of its own, or remove it.")
        leaves = [np.frombuffer(r.tobytes(), d).reshape(s) for r, (s, d) in zip(raw, self.kinds, strict=True)]
        return done, jax.tree_util.tree_unflatten(self.structure, [jax.numpy.array(x, copy=True) for x in leaves])

    def due(self) -> bool:
        """Whether so much was computed since the last one that another is worth it."""
        return time.monotonic() - self.saved >= self.seconds

    def save(self, done: int, state: Any) -> None:
        """Replace the checkpoint; raises A30 where the disk is full, and keeps the one before."""
        leaves = [np.frombuffer(np.asarray(x).tobytes(), np.uint8) for x in jax.tree_util.tree_leaves(state)]
        partial = self.path.with_suffix(f".{os.getpid()}")
        try:
            with partial.open("wb") as file:
                entries: dict[str, Any] = {f"leaf_{k}": x for k, x in enumerate(leaves)}
                np.savez(file, steps=done, run=self.run, **entries)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        except OSError as problem:
            partial.unlink(missing_ok=True)
            told = f"a checkpoint cannot be written to '{self.path.parent}': {problem.strerror}"
            raise refuse("A30", f"{told}.", f"make room; the one of before is whole: {self.path}.") from None
        self.saved = time.monotonic()


def _digest(structure: Any, leaves: list[Any]) -> str:
    """What a run began with."""
    found = hashlib.sha256(str(structure).encode())
    for x in leaves:
        found.update(f"{x.shape}{x.dtype}".encode())
        found.update(np.asarray(x).tobytes())
    return found.hexdigest()
