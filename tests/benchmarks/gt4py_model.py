"""Programs of the kinds that a weather model has, on fields of both allocators, beside GT4Py's C++ backend.

`python -m tests.benchmarks.gt4py --model [--cells 20480 --levels 65 --only microphysics]`: the least of several runs in
turns, wall and processor time, and the ratio of the wall time to that of the C++ backend, which compiles for a minute.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gt4py.next as gtx
import numpy as np

from tensorir.iterator.gt4py_backend import xla_cpu
from tests.peers.gt4py.model.model_programs import CASES, Mesh

__all__ = ["model"]


def model(cells: int, levels: int, only: str, runs: int) -> None:
    mesh = Mesh(cells, levels)
    provider = mesh.provider()
    for name, case in CASES.items():
        if only and only != name:
            continue
        backends = {
            "xla_cpu": (xla_cpu, xla_cpu.allocator),
            "on GT4Py's fields": (xla_cpu, gtx.gtfn_cpu.allocator),
            "gtfn_cpu": (gtx.gtfn_cpu, gtx.gtfn_cpu.allocator),
        }
        given = {side: case.arguments(mesh, allocator) for side, (_, allocator) in backends.items()}
        sides = {
            side: partial(_run, case.program.with_backend(backend), given[side], provider)
            for side, (backend, _) in backends.items()
        }
        first = {side: run()[0] for side, run in sides.items()}
        for side in sides:
            for result in case.results:
                wanted = given["gtfn_cpu"][result].asnumpy()
                bound = 1e-10 * np.abs(wanted).max()
                np.testing.assert_allclose(given[side][result].asnumpy(), wanted, rtol=1e-10, atol=bound)
        taken: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for _ in range(runs):
            for side, run in sides.items():
                taken[side].append(run())
        least = {side: tuple(1e3 * min(column) for column in zip(*times, strict=True)) for side, times in taken.items()}
        shown = "; ".join(
            f"{side} {wall:.1f} ms, of processors {cpu:.1f} ({wall / least['gtfn_cpu'][0]:.2f}), "
            f"first {first[side]:.1f} s"
            for side, (wall, cpu) in least.items()
        )
        print(f"{name}: {shown}", flush=True)


def _run(program: Any, arguments: dict[str, Any], provider: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    program(**arguments, offset_provider=provider)
    return time.perf_counter() - wall, time.process_time() - cpu
