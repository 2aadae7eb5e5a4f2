"""icon4py's stand-alone driver on this project's backend, beside another of GT4Py's.

PATH is a checkout of icon4py, revision c7ee8e2c62, which is no part of this project; beside GT4Py it needs pooch,
netCDF4, cattrs, pyyaml, serialbox4py and xarray. The wave of Jablonowski and Williamson runs on an icosahedral mesh;
after each step every prognostic field is set beside that of the other backend from the same start:

    python -m tests.peers.icon4py PATH --level 2 --levels 20 --steps 10 --beside gtfn
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = {2: 900.0, 3: 450.0, 4: 300.0}
"""Time steps by the level of a mesh whose root is 2."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of icon4py")
    parser.add_argument("--level", type=int, default=2, choices=SECONDS, help="of the mesh: 1,280 cells at 2")
    parser.add_argument("--levels", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--beside", choices=("gtfn",), help="another backend of GT4Py, which compiles for an hour")
    return parser.parse_args()


def prepare(checkout: Path) -> None:
    """Settings of icon4py and GT4Py, and their packages where Python finds them."""
    sources = sorted(
        {p.parent / "src" for p in checkout.glob("model/**/pyproject.toml") if (p.parent / "src").is_dir()}
    )
    if not sources:
        sys.exit(f"{checkout} has no packages of icon4py: a folder model with pyproject.toml and src is looked for.")
    sys.path[:0] = [str(p) for p in sources]
    sys.modules.setdefault("uxarray", types.ModuleType("uxarray"))
    for name, value in {
        "JAX_ENABLE_X64": "1", "ICON4PY_ENABLE_GRID_DOWNLOAD": "false", "ICON4PY_ENABLE_TESTDATA_DOWNLOAD": "false",
        "GT4PY_BUILD_JOBS_MODE": "serial", "GT4PY_BUILD_CACHE_LIFETIME": "persistent",
    }.items():  # fmt: skip
        os.environ.setdefault(name, value)
    sys.setrecursionlimit(100_000)


def main() -> None:
    options = arguments()
    prepare(options.checkout)
    from stencils import meshes
    from tensorir.iterator.gt4py_backend import xla_cpu
    from tests.peers.icon4py.driver import Run
    from tests.peers.icon4py.grid_file import write

    grid = Path(tempfile.mkdtemp()) / "grid.nc"
    write(meshes.icosahedral(options.level, 2), grid, options.level, 2)

    def run(backend: Any, like: Any = None) -> Any:
        started = time.perf_counter()
        made = Run(grid, options.levels, SECONDS[options.level], options.steps, backend, like)
        print(f"set up in {time.perf_counter() - started:.0f} s", flush=True)
        return made

    def stepped(made: Any) -> Any:
        for number in range(1, options.steps + 1):
            started = time.perf_counter()
            made.step()
            print(f"step {number}: {time.perf_counter() - started:.2f} s", flush=True)
            yield made.fields()

    ours = run(xla_cpu)
    kept = list(stepped(ours))
    for name, values in kept[-1].items():
        print(f"{name:8} {values.min():14.6g} to {values.max():14.6g}")
    if options.beside:
        from gt4py.next.program_processors.runners.gtfn import run_gtfn

        other = run(run_gtfn, like=run(xla_cpu))
        for mine, theirs in zip(kept, stepped(other), strict=True):
            apart = {n: np.abs(a - theirs[n]).max() / np.abs(theirs[n]).max() for n, a in mine.items()}
            print("  differs by", ", ".join(f"{n} {d:.1e}" for n, d in apart.items()), flush=True)


if __name__ == "__main__":
    main()
