"""A process of a long loop: `worker.py PLACE COUNT PORT OPTIONS`, what it says as lines of JSON."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import sys
import time
import warnings
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import tensorir as ti
from lowering.distribution.meshes import on_host
from lowering.loops import snapshots
from lowering.loops.checkpoints import Checkpoints
from stencils import library


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


READ: list[int] = []
"""Bytes of the parts of checkpoints that this process reads."""


def watch(seconds: float) -> None:
    """Count what is read of checkpoints, and let their writing take longer."""
    placed, write = Checkpoints._placed, Checkpoints._write

    def counting(self: Any, path: Any, *arguments: Any) -> Any:
        made = placed(self, path, *arguments)
        READ.extend(s.data.nbytes for s in made.addressable_shards)
        return made

    def slowly(self: Any, *arguments: Any) -> None:
        time.sleep(seconds)
        write(self, *arguments)

    Checkpoints._placed, Checkpoints._write = counting, slowly


def main() -> None:
    place, count, port = map(int, sys.argv[1:4])
    options = json.loads(sys.argv[4])
    beat = options.get("heartbeat", 20)
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, place, heartbeat_timeout_seconds=beat)
    mesh = jax.make_mesh((count,), ("px",))
    d = ti.distribute(library.load("hdiff"), mesh, {"I": "px"}, numerics="exact")
    rows = options.get("rows", 17)
    u, c = np.random.default_rng(0).random((rows, 8, 2)), np.full((rows, 8, 2), 0.02)
    if options.get("blocks"):
        along = NamedSharding(mesh, PartitionSpec("px"))
        with jax.enable_x64(True):
            u = jax.make_array_from_callback(u.shape, along, lambda at, whole=u: whole[at])
    if "room" in options and place == 1:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["room"], resource.RLIM_INFINITY))

    traced: list[Any] = []

    def announce() -> None:
        if not traced:
            say(compiling=True)
        traced.append(True)

    def step(u: Any) -> Any:
        announce()
        return d(inp=u, coeff=c)["out"]

    if options.get("another"):

        def step(u: Any) -> Any:
            announce()
            return 2.0 * d(inp=u, coeff=c)["out"]

    seen: list[int] = []

    def look(k: int, now: Any) -> None:
        if not seen:
            say(began=k)
        seen.append(k)
        time.sleep(options.get("pause", 0))
        if options.get("slow") and place == 1:
            time.sleep(0.01)
        if place == 1 and k >= options.get("fails", k + 1):
            raise ValueError("the disk of this process is full")

    watch(options.get("slow_writes", 0) if place == 1 else 0)
    if "to" in options:
        snapshots.SENT_TO_ONE = options.get("sent", snapshots.SENT_TO_ONE)
        try:
            _, kept = ti.iterate(
                step, u, options["steps"], every=50, keep=True, to=options["to"], checkpoint_dir=options.get("folder"),
                progress=False,
            )  # fmt: skip
        except ti.DiagnosticError as problem:
            say(problem=str(problem))
            return
        say(
            times=kept["time"].values.tolist(),
            means=kept["state"].mean(["state_0", "state_1", "state_2"]).values.tolist(),
        )
        return

    warnings.showwarning = lambda message, *_: say(warned=str(message))
    try:
        last = ti.iterate(
            step, u, options["steps"], every=options.get("every", 50), callback=look, progress=False,
            checkpoint_dir=options.get("folder"), checkpoint_every=options.get("checkpoint_every", "5 s"),
        )  # fmt: skip
        last = np.ascontiguousarray(on_host(last))
        say(done=options["steps"], read=sum(READ), digest=hashlib.sha256(last.tobytes()).hexdigest())
    except ti.Interrupted as stopped:
        say(stopped=stopped.steps, signal=stopped.signal)
    except (ti.DiagnosticError, ValueError) as problem:
        say(problem=str(problem), seen=max(seen, default=-1))


if __name__ == "__main__":
    main()
