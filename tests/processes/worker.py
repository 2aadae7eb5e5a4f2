"""A process of a long loop: `worker.py PLACE COUNT PORT OPTIONS`, what it says as lines of JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax
import numpy as np

import tensorir as ti
from stencils import library


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    place, count, port = map(int, sys.argv[1:4])
    options = json.loads(sys.argv[4])
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, place, heartbeat_timeout_seconds=20)
    mesh = jax.make_mesh((count,), ("px",))
    d = ti.distribute(library.load("hdiff"), mesh, {"I": "px"}, numerics="exact")
    u, c = np.random.default_rng(0).random((17, 8, 2)), np.full((17, 8, 2), 0.02)

    def step(u: Any) -> Any:
        return d(inp=u, coeff=c)["out"]

    seen: list[int] = []

    def look(k: int, now: Any) -> None:
        if not seen:
            say(began=k)
        seen.append(k)
        if place == 1:
            time.sleep(options.get("slow", 0))
        if place == 1 and k >= options.get("fails", k + 1):
            raise ValueError("the disk of this process is full")

    if "to" in options:
        _, kept = ti.iterate(step, u, options["steps"], every=50, keep=True, to=options["to"], progress=False)
        say(
            times=kept["time"].values.tolist(),
            means=kept["state"].mean(["state_0", "state_1", "state_2"]).values.tolist(),
        )
        return

    try:
        last = ti.iterate(
            step, u, options["steps"], every=options.get("every", 50), callback=look, progress=False,
            checkpoint_dir=options.get("folder"),
        )  # fmt: skip
        say(done=options["steps"], digest=np.asarray(last).tobytes().hex()[-64:], total=float(np.asarray(last).sum()))
    except ti.Interrupted as stopped:
        say(stopped=stopped.steps, signal=stopped.signal)
    except (ti.DiagnosticError, ValueError) as problem:
        say(problem=str(problem), seen=seen[-1])


if __name__ == "__main__":
    main()
