"""States of a time loop on disk: what a run that was killed goes on from, bit for bit.

One file, replaced as a whole: whenever the process ends, the folder holds a state that is complete. With it stands all
that decides the run, and a call that differs in any of it is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np

import tensorir
from tensorir.binding.arrays import refuse

__all__ = ["Checkpoints", "digest_of_arrays", "digest_of_function"]

NAME = "checkpoint.npz"
READABLE = ("dt", "start", "every", "versions")
"""What decides a run and is no digest."""
SECONDS = 5.0
"""How much work a kill may cost, about."""


class Checkpoints:
    """The checkpoints of one run in a folder of its own."""

    def __init__(
        self, folder: str | os.PathLike[str], state: Any, run: Mapping[str, str], seconds: float = SECONDS
    ) -> None:
        """`run` has what decides the run besides the state, by the words of the caller."""
        self.path = Path(folder) / NAME
        self.seconds, self.saved = seconds, time.monotonic()
        leaves, self.structure = jax.tree_util.tree_flatten(state)
        self.kinds = [(tuple(x.shape), np.dtype(x.dtype)) for x in leaves]
        versions = f"tensorir {tensorir.__version__}, jax {jax.__version__}"
        self.run = {"state": digest_of_arrays(self.structure, leaves), **run, "versions": versions}
        self.every: int | None = None
        """After how many steps snapshots are taken, where there are any."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise refuse("A30", f"'{folder}' cannot hold checkpoints: {problem.strerror}.", "name a folder.") from None

    def resumed(self, n: int) -> tuple[int, Any] | None:
        """The number of steps and the state that the folder holds, None where it holds none.

        Raises A30 for a checkpoint of another run, and for one of more than n steps.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                done, every, run = int(file["steps"]), int(file["every"]), json.loads(str(file["run"]))
                same = run == self.run
                raw = [file[f"leaf_{k}"] for k in range(len(self.kinds))] if same else []
        except (OSError, ValueError, KeyError, EOFError) as problem:
            raise refuse("A30", f"'{self.path}' is no checkpoint: {problem}.", "remove it.") from None
        if not same:
            self._refuse_another(run, self.run)
        if done > n:
            told = f"'{self.path.parent}' holds the state after {done:,} steps, and {n:,} are asked for"
            raise refuse("A30", f"{told}.", "ask for as many or more, or give each run a folder of its own.")
        if self.every is None:
            self.every = every or None
        elif every != self.every:
            self._refuse_another({"every": str(every)}, {"every": str(self.every)})
        leaves = [np.frombuffer(r.tobytes(), d).reshape(s) for r, (s, d) in zip(raw, self.kinds, strict=True)]
        return done, jax.tree_util.tree_unflatten(self.structure, [jax.numpy.array(x, copy=True) for x in leaves])

    def _refuse_another(self, run: Mapping[str, str], own: Mapping[str, str]) -> None:
        other = [n for n, value in own.items() if run.get(n) != value]
        if "versions" in other:  # on which the digest of a step depends
            other = ["versions"]
        words = [f"{n} ({run.get(n)}, and here {own[n]})" if n in READABLE else n for n in other]
        listed = " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
        told = f"'{self.path.parent}' holds the checkpoint of a run that began with another {listed}"
        raise refuse("A30", f"{told}.", "give each run a folder of its own, or remove it.")

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
                np.savez(file, steps=done, every=self.every or 0, run=json.dumps(self.run), **entries)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        except OSError as problem:
            partial.unlink(missing_ok=True)
            told = f"a checkpoint cannot be written to '{self.path.parent}': {problem.strerror}"
            raise refuse("A30", f"{told}.", f"make room; the one of before is whole: {self.path}.") from None
        self.saved = time.monotonic()


def digest_of_arrays(structure: Any, arrays: Iterable[Any]) -> str:
    """What tells arrays in a structure from others, in any process."""
    digest = hashlib.sha256(_without_addresses(str(structure)).encode())
    for x in map(np.asarray, arrays):
        digest.update(f"{x.shape}{x.dtype}".encode())
        digest.update(repr(x.tolist()).encode() if x.dtype.hasobject else x.tobytes())
    return digest.hexdigest()


def digest_of_function(function: Callable[[Any], Any], state: Any) -> str:
    """What tells a function of a state from others, in any process: what XLA is given of it, with all that it reads.

    Of a function that cannot be traced it is the code.
    """
    try:
        lowered = jax.jit(lambda s: function(s)).lower(state)
        text = f"{lowered.out_tree} {lowered.as_text()}"
    except Exception:  # it is the caller's, and may do anything
        code = getattr(function, "__code__", None)
        text = repr(function) if code is None else _text_of(code)
    return hashlib.sha256(_without_addresses(text).encode()).hexdigest()


def _text_of(code: CodeType) -> str:
    constants = (_text_of(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return f"{code.co_code.hex()} {code.co_names} {' '.join(constants)}"


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)
