"""Steps of a program that can be stopped: Ctrl-C and SIGTERM leave the last whole state in a file, for `--resume`.

The file is of one run: of a program, of what it began with, of how often snapshots are taken. Arrays are held as bytes,
so that a run that was stopped ends with the bits of one that was not.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from lowering.distribution.meshes import on_host
from lowering.loops.clock import Clock
from lowering.loops.run import interrupts
from stencils.cli.files import together
from tensorir.binding.arrays import nested
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import Interrupted, refuse
from tensorir.text.printer import print_fencil

State = Mapping[str, tuple[Any, ...]]
"""The leaves of each array by parameter."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: steps that are done, the state after them, and the snapshots until then."""

    done: int
    state: State
    snapshots: tuple[tuple[int, State], ...] = ()
    signal: int = 0
    """The number of the signal that stopped the run, 0 of one that came to its end."""


class Stopped(Exception):
    """A run that the user stopped."""

    def __init__(self, progress: Progress, run: str, steps: int) -> None:
        super().__init__(f"stopped after {progress.done:,} of {steps:,} steps")
        self.progress, self.run = progress, run


@dataclass(frozen=True)
class Steps:
    """A step, its state and constants, the number of steps, and the interval of snapshots and checkpoints."""

    step: Fencil
    pairs: Collection[str]
    """The arrays that steps change."""
    state: State
    constants: State
    count: int
    every: int | None
    backend: str
    run: Any
    """The step as a function of arrays."""
    forcing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arrays along time, by the parameter that takes them."""
    method: str = "linear"
    clock: Clock | None = None
    folder: Path | None = None
    often: int | str = "5 s"
    """Where checkpoints are kept, and how often there is one."""

    def kept(self, bar: Any) -> Progress:
        """Run all steps, or those until the user stops them, with checkpoints and a store of snapshots in `folder`."""
        assert self.folder is not None
        leaves = lambda now: {f"{n}.{j}": x for n, v in now.items() if n in self.pairs for j, x in enumerate(v)}
        options: dict[str, Any] = {"checkpoint_dir": self.folder, "checkpoint_every": self.often, "every": self.every}
        if self.every:
            options |= {"keep": leaves, "to": self.folder / "snapshots.zarr"}
        if self.clock is not None:
            options |= {"dt": self.clock.step, "start": self.clock.start}
        if self.forcing:
            options |= {"forcing": dict(self.forcing), "forcing_method": self.method}
        look = bar and (lambda k, _: bar.move(k))
        try:
            outcome = ti.iterate(self._once, dict(self.state), self.count, callback=look, progress=False, **options)
        except Interrupted as stopped:
            return Progress(stopped.steps, _copy_to_host(stopped.state), (), stopped.signal)
        finally:
            if bar:
                bar.close()
        if not self.every:
            return Progress(self.count, _copy_to_host(outcome))
        last, stored = outcome
        snapshots: list[tuple[int, State]] = []
        for k in range(self.every, self.count + 1, self.every):
            now = stored.isel({next(iter(stored.data_vars.values())).dims[0]: k // self.every})
            held = {n: tuple(now[f"{n}.{j}"].values for j, _ in enumerate(self.state[n])) for n in self.pairs}
            snapshots.append((k, held))
        return Progress(self.count, _copy_to_host(last), tuple(snapshots))

    def advance(self, begun: Progress, bar: Any) -> Progress:
        """Run the steps after the progress `begun`, or those until the user stops them.

        Snapshots are kept in memory.
        """
        done, state, snapshots, signal = begun.done, begun.state, list(begun.snapshots), 0

        def look(k: int, now: State) -> None:
            if bar:
                bar.move(k)
            if self.every and k % self.every == 0:
                snapshots.append((k, _copy_to_host(now)))

        try:
            while done < self.count:
                # snapshots are taken after as many steps of the whole run, wherever it was stopped
                some = self.every - done % self.every if self.every and done % self.every else self.count - done
                some = min(some, self.count - done)
                count, state, signal = self._advance_part(state, done, some, look)
                done += count
                if signal:
                    break
        finally:
            if bar:
                bar.close()
        return Progress(done, _copy_to_host(state), tuple(snapshots), signal)

    @property
    def _once(self) -> Callable[..., dict[str, tuple[Any, ...]]]:
        """The function (state, forcing) -> next state of one step, which refers to no lazy array of this object."""
        program, run, constants, pairs = self.step, self.run, self.constants, self.pairs

        def once(now: State, forcing: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
            forced = {n: (x.data,) for n, x in (forcing or {}).items()}
            arguments = {n: nested(program[n].type.element, v) for n, v in {**constants, **now, **forced}.items()}
            results = {**run(**arguments), **{n: v for n, v in now.items() if n not in pairs}}
            return {n: results[n] if isinstance(results[n], tuple) else (results[n],) for n in now}

        return once

    def _advance_part(self, state: State, before: int, count: int, look: Any) -> tuple[int, State, int]:
        """Run `count` steps after `before` ones: (steps done, state after them, signal that stopped them or 0).

        XLA calls `look(k, state)` at each multiple of `every` steps of this part, other backends after each step; so
        either `before` is a multiple of `every`, or `before + count` is the next one. A forcing needs XLA and a clock.
        """

        if self.backend != "jax":
            with interrupts() as interrupt:
                for k in range(count):
                    if interrupt.asked:
                        return k, state, interrupt.signal
                    state = self._once(state)
                    look(before + k + 1, state)
            return count, state, interrupt.signal
        options: dict[str, Any] = {}
        if self.forcing and self.clock is not None:
            # the steps of this part begin later
            dated, forcing = self.clock.start is not None, dict(self.forcing)
            if before and not dated:
                passed = self.clock.step * before
                forcing = {n: x.assign_coords(time=x["time"] - passed) for n, x in forcing.items()}
            options = {"forcing": forcing, "forcing_method": self.method, "dt": self.clock.step}
            options["start"] = self.clock.at(before) if dated else None
        try:
            last = ti.iterate(
                self._once, dict(state), count, every=self.every, callback=lambda k, now: look(before + k, now),
                progress=False, **options,
            )  # fmt: skip
        except Interrupted as stopped:
            return stopped.steps, stopped.state, stopped.signal
        return count, last, 0


def _copy_to_host(state: State) -> dict[str, tuple[Any, ...]]:
    return {n: tuple(np.array(on_host(getattr(a, "data", a))) for a in v) for n, v in state.items()}


def identity(step: Fencil, arrays: State, every: object) -> str:
    """The digest of a run: program, arrays, and the interval of snapshots (or any text that determines results)."""
    digest = hashlib.sha256(f"{print_fencil(step)} {every}".encode())
    for name, leaves in sorted(arrays.items()):
        for leaf in leaves:
            digest.update(f"{name}{leaf.shape}{leaf.dtype}".encode())
            digest.update(repr(leaf.tolist()).encode() if leaf.dtype.hasobject else leaf.tobytes())
    return digest.hexdigest()


# Files


def _entries(progress: Progress) -> Iterator[tuple[str, Any]]:
    """(name in the npz file, array) of the state, "state.x.0", and of the snapshot after k steps, "k.x.0"."""
    for place, state in [("state", progress.state), *((str(k), s) for k, s in progress.snapshots)]:
        for name, leaves in state.items():
            for j, leaf in enumerate(leaves):
                yield f"{place}.{name}.{j}", leaf


def keep(stopped: Stopped, path: Path, resumed_from: Path | None) -> Path:
    """Write the progress of a stopped run to a file for --resume, and return its path.

    It replaces the file that the run was resumed from; if another file is at `path`, a number is added to the name.
    """
    place, k = path, 1
    while place.exists() and not (resumed_from is not None and place.samefile(resumed_from)):
        k += 1
        place = path.with_name(f"{path.stem.removesuffix('.resume')}-{k}.resume.npz")
    entries = {n: np.frombuffer(np.asarray(a).tobytes(), np.uint8) for n, a in _entries(stopped.progress)}
    marks = np.array([k for k, _ in stopped.progress.snapshots], np.int64)
    with together() as write:
        write(
            place,
            lambda to: np.savez(
                to, allow_pickle=False, run=stopped.run, done=stopped.progress.done, marks=marks, **entries
            ),
        )
    return place


def resumed(path: Path, run: str, steps: Steps) -> Progress:
    """The progress in a file of --resume; raises F10 if it is no such file, of another run, or beyond `steps`."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            held = {name: data[name] for name in data.files}
        done, marks, theirs = int(held["done"]), held["marks"].tolist(), str(held["run"])
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
        raise refuse("F10", f"'{path}' holds no run that was stopped.", "leave --resume out.") from None
    if theirs != run:
        message = f"'{path}' was left by another run: of another program, other arrays, or another --every"
        raise refuse("F10", f"{message}.", "repeat the command that was stopped, or leave --resume out.")
    if done > steps.count:
        raise refuse("F10", f"'{path}' has {done:,} steps done, and {steps.count:,} are asked for.")

    def state(place: str) -> dict[str, tuple[Any, ...]]:
        return {
            n: tuple(
                np.frombuffer(held[f"{place}.{n}.{j}"].tobytes(), a.dtype).reshape(a.shape).copy()
                for j, a in enumerate(v)
            )
            for n, v in steps.state.items()
        }

    return Progress(done, state("state"), tuple((k, state(str(k))) for k in marks))
