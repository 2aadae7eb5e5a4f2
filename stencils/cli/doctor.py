"""`tensorir doctor`: what a run on several processes needs, said by as many as there are."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from stencils.cli.options import Devices
from stencils.cli.processes import LAUNCHED, launched

PACKAGES = ("jax", "jaxlib", "numpy", "xarray", "tensorstore", "zarr", "netCDF4")
CLOCKS = 1.0
"""Seconds by which clocks may differ before records of machines cannot be compared."""


def examine(processes: str | None, folder: Path | None, say: Callable[[str], None]) -> bool:
    """Say what is there and what is missing; False where something is.

    Each process writes a file, and looks for those of all: a folder that one does not see is no place for checkpoints.
    """
    first = Devices({}, processes).join()
    from lowering.distribution.meshes import of_all, taking_part

    place, count, devices, kind = taking_part()
    good = True

    def report(right: bool, text: str) -> None:
        nonlocal good
        good = good and right
        if first:
            say(f"{'ok     ' if right else 'MISSING'} {text}")

    report(True, ", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    by = next((name.partition("_")[0] for name in LAUNCHED if os.environ.get(name)), None)
    reason = f"started by {by}" if by else "no launcher around this process" if count == 1 else "as --processes says"
    report(count > 1 or not launched(os.environ), f"{count} process{'es' if count > 1 else ''}: {reason}")
    machines = of_all(platform.node())
    counts = [int(n) for n in of_all(str(devices))]
    report(min(counts) > 0 and len(set(counts)) == 1, f"devices of each: {', '.join(map(str, counts))} ({kind})")
    report(len(machines) == count, f"the coordinator answers on {', '.join(dict.fromkeys(machines))}")
    versions = of_all(" ".join(map(_version, PACKAGES)))
    report(len(set(versions)) == 1, "the same versions on all" if len(set(versions)) == 1 else "versions differ")
    clocks = [float(t) for t in of_all(repr(time.time()))]
    apart = max(clocks) - min(clocks)
    report(apart < CLOCKS, f"clocks are {apart:.3f} s apart, the time of asking included")
    if folder is None:
        report(True, "no folder is looked at: add --folder, the one of checkpoints and results")
        return good
    name = of_all(uuid4().hex)[0]
    mark = folder / f"doctor-{name}-{place}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(str(place))
        problem = ""
    except OSError as refused:
        problem = f"process {place}: {refused.strerror}"
    problems = [p for p in of_all(problem) if p]
    seen = len(list(folder.glob(f"doctor-{name}-*"))) if folder.is_dir() else 0
    counted = [int(n) for n in of_all(str(seen))]
    if not problem:
        mark.unlink(missing_ok=True)
    shared = not problems and set(counted) == {count}
    few = f"process {counted.index(min(counted))} sees files of {min(counted)} of {count}"
    report(shared, f"'{folder}' is shared" if shared else f"'{folder}' is not shared: {'; '.join(problems) or few}")
    return good


def _version(name: str) -> str:
    """The version of an installed package, else "missing"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
