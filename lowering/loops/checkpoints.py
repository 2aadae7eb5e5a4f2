"""Checkpoints of a time loop on disk: what a run that was killed goes on from, bit for bit, on any number of processes.

A checkpoint is a folder with an array of Zarr for each array of the state, whose chunks are parts of blocks with a
checksum each, and with `run.json`: all that decides the run, with a digest. Each process writes the blocks of its own
devices, next to the next steps, under a name that nobody reads. That becomes the name of a checkpoint when all of them
have written, so whenever processes end, the folder holds states that are complete.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import os
import platform
import re
import shutil
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, prod
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np

import tensorir
from lowering.distribution.meshes import on_host
from lowering.kernels import without_kernels
from lowering.labelled import is_key
from lowering.loops.agreement import Agreement
from lowering.loops.clock import nanoseconds_of
from lowering.loops.snapshots import reason
from tensorir.runtime.errors import DiagnosticError, refuse

READABLE = ("dt", "start", "every", "versions")
"""What decides a run and is no digest."""
CHUNK = 2**24
"""Bytes of a chunk, about: a process that holds another part of the state reads little besides it."""
KEPT = 2
"""The number of checkpoints in a folder."""


# Arrays in blocks, on disk and as numbers that identify them.


@dataclass(frozen=True, slots=True)
class Stored:
    """An array in a store: its element type is that of Zarr which has as many bits."""

    shape: tuple[int, ...]
    type: str
    chunks: tuple[int, ...]

    @staticmethod
    def of(x: Any) -> Stored:
        """The layout of an array in a store: chunks of about `CHUNK` bytes that divide its blocks on the devices."""
        block = tuple(x.sharding.shard_shape(x.shape))
        first_extent, size = (block or (1,))[0], prod(block) * x.dtype.itemsize
        fewest_parts = max(1, ceil(size / CHUNK))
        parts = next((k for k in range(fewest_parts, 4 * fewest_parts) if first_extent % k == 0), 1)
        kind = x.dtype.name if np.dtype(x.dtype).kind in "biufc" else f"uint{8 * x.dtype.itemsize}"
        return Stored(x.shape, kind, tuple(max(1, n // (1 if k else parts)) for k, n in enumerate(block)))

    def opened(self, path: Path, **how: bool) -> Any:
        """The Zarr array at a path, opened by `how`; reading a chunk that is missing is an error."""
        import tensorstore

        grid = {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}}
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        kind = {"shape": list(self.shape), "data_type": self.type, "chunk_grid": grid, "codecs": codecs}
        place = {"driver": "file", "path": f"{path}/"}
        spec = {"driver": "zarr3", "kvstore": place, "metadata": kind, "fill_missing_data_reads": False}
        return tensorstore.open({**spec, "store_data_equal_to_fill_value": True, **how}).result()


def _raw(x: Any) -> Any:
    """The numbers of an array, of random keys too."""
    return jax.random.key_data(x) if is_key(x) else x


def _blocks(x: Any, leads: bool) -> Iterator[tuple[tuple[slice, ...], Any]]:
    """The blocks of an array that this process writes, each with its index; every block is written by exactly one
    process.

    `leads`: this process writes the arrays that all processes have whole.
    """
    if leads or not x.is_fully_addressable:
        yield from ((s.index, s.data) for s in x.addressable_shards if s.replica_id == 0)


def _hashed(z: Any) -> Any:
    """64-bit integers mixed so that each bit of the result depends on all bits of the input."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def digest_of_blocks(arrays: Sequence[Any], agreement: Agreement) -> str:
    """A digest of arrays that is equal on any number of processes: a sum over hashed elements and their positions.

    No process needs a whole array.
    """
    digest = hashlib.sha256()
    for x in map(_raw, arrays):
        is_distributed = not x.is_fully_addressable
        bits = sum(_sum_of_bits(np.asarray(b), at, x.shape) for at, b in _blocks(x, True)) % 2**64
        halves = (
            agreement.gathered(bits >> 32, bits % 2**32) if is_distributed else np.array([[bits >> 32, bits % 2**32]])
        )
        total = sum((int(high) << 32) + int(low) for high, low in halves) % 2**64
        digest.update(f"{tuple(x.shape)}{x.dtype}{total}".encode())
    return digest.hexdigest()


def _sum_of_bits(block: np.ndarray[Any, Any], at: Sequence[slice], shape: Sequence[int]) -> int:
    """The sum, modulo 2**64, of a block's hashed elements, each combined with its position in the array; `at`: the
    block's index.
    """
    words_per_element = max(1, block.dtype.itemsize // 8)  # complex numbers are two
    starts, extents = [s.start or 0 for s in at] or [0], [*shape] or [1]
    starts[-1], extents[-1] = words_per_element * starts[-1], words_per_element * extents[-1]
    bits = np.ascontiguousarray(np.atleast_1d(block)).view(f"u{block.dtype.itemsize // words_per_element}")
    rows, total = max(1, 2**18 // max(1, prod(bits.shape[1:]))), 0
    for begin in range(0, bits.shape[0], rows):
        rows_of_bits, positions = bits[begin : begin + rows].astype(np.uint64), np.uint64(1)
        for k, n in enumerate(rows_of_bits.shape):
            first = starts[k] + (0 if k else begin)
            axis = np.arange(first, first + n, dtype=np.uint64) * np.uint64(prod(extents[k + 1 :]))
            positions = positions + axis.reshape(-1, *[1] * (rows_of_bits.ndim - 1 - k))
        total += int(_hashed(rows_of_bits ^ _hashed(positions * np.uint64(0x9E3779B97F4A7C15))).sum(dtype=np.uint64))
    return total


# The checkpoints of a run.


def interval_of(every: Any) -> tuple[float, int]:
    """(seconds, steps) between two checkpoints, one of which bounds them; raises A19 for anything but steps and
    lengths of time.

    >>> interval_of("2 min"), interval_of(500)
    ((120.0, 0), (inf, 500))
    """
    if isinstance(every, (int, np.integer)) and not isinstance(every, (bool, np.timedelta64)) and every > 0:
        return inf, int(every)
    length = None if isinstance(every, (int, float, np.number)) else nanoseconds_of(every)
    if not length or length < 0:
        hint = 'write checkpoint_every=1000 for steps, or "10 min" for the time that they take.'
        raise refuse("A19", f"checkpoint_every is {every!r}, which is no number of steps, and no length of time.", hint)
    return length / 1e9, 0


class Checkpoints:
    """The checkpoints of one run in a folder of its own."""

    def __init__(
        self, folder: str | os.PathLike[str], state: Sequence[Any], run: Mapping[str, str], agreement: Agreement,
        every: Any = "5 s", source: str = "",
    ) -> None:  # fmt: skip
        """The checkpoints of a run in `folder`, one every `every` (`interval_of`) steps or seconds.

        `run`: all that decides the run besides the state, as digests or texts by the name that messages use. `source`:
        the step's source, for messages. All processes call each method together, and see the same folder; the leading
        one names checkpoints.
        """
        self.folder, self.agreement, self.state, self.source = Path(folder), agreement, state, source
        self.seconds, self.steps = interval_of(every)
        self.saved, self.last = time.monotonic(), -1
        versions = f"tensorir {tensorir.__version__}, jax {jax.__version__}"
        self.run = {"state": digest_of_blocks(state, agreement), **run, "versions": versions}
        self.every: int | None = None
        """After how many steps snapshots are taken, where there are any."""
        self.pending: tuple[int, list[Stored]] | None = None
        """A checkpoint that is written, and has no name yet."""
        self.problem: Exception | None = None
        self._thread: threading.Thread | None = None
        self._lock: Any = None
        self._damage = ""

    def names(self) -> list[int]:
        """The numbers of steps of the checkpoints in the folder, ascending."""
        matches = (re.fullmatch(r"checkpoint-(\d+)", name) for name in os.listdir(self.folder))
        return sorted(int(m[1]) for m in matches if m)

    def _path(self, done: int, suffix: str = "") -> Path:
        return self.folder / f"checkpoint-{done}{suffix}"

    # Going on.

    def resumed(self, n: int) -> tuple[int, list[Any]] | None:
        """The number of steps done and the state of the last complete checkpoint; None if the folder has none.

        A checkpoint that one process cannot read is set aside by all, and the one before it is taken. Raises A30 for a
        checkpoint of another run or of more than n steps, and if another run uses the folder.
        """
        self.agreement.on_all(self._taken)
        earliest_damaged = inf
        while True:
            done = max((k for k in self.names() if k < earliest_damaged), default=-1)
            if (self.agreement.gathered(done) != done).any():
                message = f"the processes of this run read different checkpoints in '{self.folder}'"
                raise refuse("A30", f"{message}.", "name a folder that all of them see.")
            if done < 0 and earliest_damaged == inf:
                return self.agreement.on_all(lambda: self._of_last_release(n))
            if done < 0:
                message = f"'{self.folder}' holds no checkpoint that is whole: {self._damage}"
                raise refuse("A30", f"{message}.", "remove it, and the run begins anew.")
            state = self.agreement.on_all(lambda k=done: self._read(k, n))
            if not self.agreement.any(state is None):
                break
            earliest_damaged = done
            if self.agreement.leads:
                damage = self._damage or "another process cannot read it"
                warnings.warn(f"'{self._path(done)}' is damaged ({damage}), and the one before is taken", stacklevel=4)
        if self.agreement.leads and earliest_damaged < inf:
            for damaged in [k for k in self.names() if k > done]:
                shutil.rmtree(self._path(damaged, ".damaged"), ignore_errors=True)
                self._path(damaged).rename(self._path(damaged, ".damaged"))
        self.last = done
        assert state is not None
        return done, state

    def _taken(self) -> None:
        """Create the folder and lock it for this run, in the leading process; removes incomplete checkpoints. Raises
        A30.
        """
        if not self.agreement.leads:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("a+")
        except OSError as problem:
            message = f"'{self.folder}' cannot hold checkpoints: {problem.strerror}."
            raise refuse("A30", message, "name a folder.") from None
        if not _lock_acquired(self._lock):
            self._lock.seek(0)
            owner = self._lock.read() or "another run"
            self.close()
            message = f"'{self.folder}' is used by a run that is under way, {owner}."
            raise refuse("A30", message, "give each run a folder of its own, or end that one.")
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()} of {platform.node()}")
        self._lock.flush()
        self._without_partial()

    def _without_partial(self, before: float = inf) -> None:
        """Remove incomplete checkpoints; with `before`, only those of fewer steps, since others may be being
        written.
        """
        for partial_folder in self.folder.glob("checkpoint-*.partial"):
            steps = partial_folder.stem.removeprefix("checkpoint-")
            if before == inf or (steps.isdecimal() and int(steps) < before):
                shutil.rmtree(partial_folder, ignore_errors=True)

    def _read(self, done: int, n: int) -> list[Any] | None:
        """The state of the checkpoint after `done` steps; None if it is damaged, with the reason in `_damage`."""
        try:
            stored = json.loads((self._path(done) / "run.json").read_text())
            facts = stored["facts"]
            if stored["digest"] != _digest_of_facts(facts) or facts["steps"] != done:
                raise ValueError("run.json is another one than was written")
            self._check(facts["run"], int(facts["every"]), done, n, facts["source"])
            return [self._placed(self._path(done) / f"array_{k}", x, *a) for k, (x, a) in
                    enumerate(zip(self.state, facts["arrays"], strict=True))]  # fmt: skip
        except DiagnosticError:
            raise
        except (ValueError, OSError, LookupError, TypeError) as problem:
            self._damage = str(problem).splitlines()[0].partition(" [tensorstore_spec")[0]
            return None

    def _placed(self, path: Path, model: Any, shape: Any, kind: str, chunks: Any) -> Any:
        """The stored array, on the devices and with the sharding of `model`; each process reads its own blocks."""
        raw, array = _raw(model), Stored(tuple(shape), kind, tuple(chunks)).opened(path, open=True)

        def block(at: Any) -> np.ndarray[Any, Any]:
            """One block of the array, read from the store."""
            return array[at].read().result().view(raw.dtype)

        if len(model.sharding.device_set) == 1:
            placed = jax.numpy.array(block(()), copy=True)
        else:
            placed = jax.make_array_from_callback(raw.shape, raw.sharding, block)
        return placed if raw is model else jax.random.wrap_key_data(placed, impl=jax.random.key_impl(model))

    def _check(self, run: Mapping[str, str], every: int, done: int, n: int, source: str = "") -> None:
        """Raise A30 if a checkpoint is of another run, or after more than n steps; takes its interval of snapshots."""
        if run != self.run:
            self._refuse_another(run, self.run, source)
        if done > n:
            message = f"'{self.folder}' holds the state after {done:,} steps, and {n:,} are asked for"
            raise refuse("A30", f"{message}.", "ask for as many or more, or give each run a folder of its own.")
        if self.every is None:
            self.every = every or None
        elif every != self.every:
            self._refuse_another({"every": str(every)}, {"every": str(self.every)})

    def _refuse_another(self, run: Mapping[str, str], expected: Mapping[str, str], source: str = "") -> None:
        """Raise A30 with the names in which the stored `run` differs from the expected one, and the first different
        source lines.
        """
        different = [n for n, value in expected.items() if run.get(n) != value]
        if "versions" in different:  # on which the digest of a step depends
            different = ["versions"]
        words = [f"{n} ({run.get(n)}, and here {expected[n]})" if n in READABLE else n for n in different]
        listed = " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
        message = f"'{self.folder}' holds the checkpoint of a run that began with another {listed}"
        stored_source = source if "step" in different else self.source
        lines = [*difflib.ndiff(stored_source.splitlines(), self.source.splitlines())]
        words = {"-": "its step had the line", "+": "the step of this call has"}
        notes = [f"{words[s]}: {x[2:].strip()}" for s in words for x in [x for x in lines if x[0] == s][:1]]
        raise refuse("A30", f"{message}.", "give each run a folder of its own, or remove it.", notes=notes)

    def _of_last_release(self, n: int) -> tuple[int, list[Any]] | None:
        """Steps done and state of a checkpoint of version 0.1, one .npz file; None if there is none."""
        path = self.folder / "checkpoint.npz"
        if not path.exists():
            return None
        raw = [on_host(_raw(x)) for x in self.state]
        expected = {**self.run, "state": digest_of_arrays(jax.tree_util.tree_structure([*raw]), raw)}
        try:
            with np.load(path, allow_pickle=False) as file:
                done, every, run = int(file["steps"]), int(file["every"]), json.loads(str(file["run"]))
                bits = [file[f"leaf_{k}"].tobytes() for k in range(len(raw)) if f"leaf_{k}" in file]
        except (OSError, ValueError, KeyError, EOFError) as problem:
            raise refuse("A30", f"'{path}' is no checkpoint: {problem}.", "remove it.") from None
        if {**run, "versions": ""} != {**expected, "versions": ""}:
            self._refuse_another({**run, "versions": expected["versions"]}, expected)
        self._check(self.run, every, done, n)
        self.last = done
        arrays = [np.frombuffer(b, x.dtype).reshape(x.shape) for b, x in zip(bits, raw, strict=True)]
        return done, [jax.numpy.array(x, copy=True) for x in arrays]

    # Saving.

    def vote(self, done: int) -> int:
        """2 while this process writes a checkpoint; 1 if the next one is due after `done` steps; else 0."""
        if self._thread is not None and self._thread.is_alive():
            return 2
        if not self.agreement.leads or self.pending:
            return 0
        by_steps = self.steps > 0 and done - self.last >= self.steps
        return int(by_steps or time.monotonic() - self.saved >= self.seconds)

    def most(self, done: int) -> int:
        """The most steps until a checkpoint is due by their number; unbounded if it is due by time."""
        remaining = self.last + self.steps - done
        return remaining if remaining > 0 and self.steps else sys.maxsize

    def save(self, done: int, state: Sequence[Any]) -> None:
        """Begin to write this process's blocks of the state, as copies, in another thread; nothing if that state is
        saved.
        """
        if done == self.last:
            return
        self._wait()
        raw = [_raw(x) for x in state]
        blocks = [[(at, np.array(b)) for at, b in _blocks(x, self.agreement.leads)] for x in raw]
        self.last, self.saved = done, time.monotonic()
        self.pending = done, [Stored.of(x) for x in raw]
        self._begin(self._write, self._path(done, ".partial"), self.pending[1], blocks)

    def named(self) -> None:
        """Begin to name the pending checkpoint, in the leading process, after all have written their blocks."""
        if self.pending and self.agreement.leads:
            self._begin(self._name, *self.pending)
        self.pending = None

    def end(self) -> Exception | None:
        """Wait until the pending checkpoint is complete; returns the error of this process, if any."""
        self._wait()
        if not self.agreement.any(self.problem is not None):
            self.named()
            self._wait()
        return self.problem

    def close(self) -> None:
        """Give the folder to other runs."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _begin(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run an action in another thread; its error becomes `problem`, A30."""

        def tried() -> None:
            """The action, with its error noted."""
            try:
                action(*arguments)
            except Exception as problem:  # all processes learn of it with the next chunk of steps
                message = f"a checkpoint cannot be written to '{self.folder}': {reason(problem)}"
                last_complete = [f"; the one of before is whole: {self._path(k)}" for k in self.names()[-1:]]
                self.problem = refuse("A30", f"{message}.", f"make room{''.join(last_complete)}.")

        self._thread = threading.Thread(target=tried, daemon=True)
        self._thread.start()

    def _write(self, partial: Path, arrays: Sequence[Stored], blocks: Sequence[Any]) -> None:
        """Write this process's blocks of all arrays into the folder `partial`."""
        open_mode = {"create": True} if self.agreement.leads else {"open": True, "assume_metadata": True}
        writes: list[Any] = []
        for k, (stored, array_blocks) in enumerate(zip(arrays, blocks, strict=True)):
            array = stored.opened(partial / f"array_{k}", **open_mode)
            kind = array.dtype.numpy_dtype
            writes += [
                array[at].write(b.view(kind), can_reference_source_data_indefinitely=True) for at, b in array_blocks
            ]
        for write in writes:
            write.result()

    def _name(self, done: int, arrays: Sequence[Stored]) -> None:
        """Complete the checkpoint: write `run.json`, rename the folder, and remove older checkpoints."""
        partial = self._path(done, ".partial")
        kinds = [(a.shape, a.type, a.chunks) for a in arrays]
        facts = {"steps": done, "every": self.every or 0, "run": self.run, "source": self.source, "arrays": kinds}
        partial.mkdir(exist_ok=True)
        with (partial / "run.json").open("w") as file:
            json.dump({"facts": facts, "digest": _digest_of_facts(facts)}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self._path(done))
        for old in self.names()[:-KEPT]:
            shutil.rmtree(self._path(old))
        self._without_partial(done)  # another process may write its blocks of the next one already
        (self.folder / "checkpoint.npz").unlink(missing_ok=True)


def _digest_of_facts(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _lock_acquired(file: Any) -> bool:
    """True if the file is locked for this process, or the system has no locks; False if another process holds the
    lock.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError) as problem:
        return not isinstance(problem, BlockingIOError)
    return True


# Digests of what decides a run.


def source_of(function: Callable[..., Any]) -> str:
    """The source text of a function; empty if it is not available."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        return ""


def digest_of_arrays(structure: Any, arrays: Iterable[Any]) -> str:
    """A digest of arrays and of the text of their structure, equal in any process."""
    digest = hashlib.sha256(_without_addresses(str(structure)).encode())
    for x in map(np.asarray, arrays):
        digest.update(f"{x.shape}{x.dtype}".encode())
        digest.update(repr(x.tolist()).encode() if x.dtype.hasobject else x.tobytes())
    return digest.hexdigest()


def digest_of_function(function: Callable[..., Any], *arguments: Any) -> str:
    """A digest of a function of some arguments, equal in any process: of its StableHLO, with all captured values.

    If it cannot be traced, of its bytecode. The devices of the arguments do not matter.
    """
    kind = lambda x: jax.typeof(x).update(sharding=None) if isinstance(x, jax.Array) else x
    arguments = jax.tree_util.tree_map(kind, arguments)
    try:
        with without_kernels():
            lowered = jax.jit(lambda *operands: function(*operands)).lower(*arguments)
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
