"""`make demo`: real terrain through a program of the library, from the command line, in the folder `demo`."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path

from stencils import data
from stencils.cli import main


def run(folder: Path = Path("demo")) -> None:
    """Write the terrain, filter it with the command line, and say what was done."""
    folder.mkdir(exist_ok=True)
    terrain, filtered, picture = folder / "terrain.nc", folder / "filtered.nc", folder / "terrain.png"
    data.jacksboro_fault().rename("inp").to_netcdf(terrain, engine="netcdf4")
    with as_file(files("stencils") / "programs" / "terrain_filter.fencil") as program:
        command = [
            "run", str(program), "--input", str(terrain), "--cast", "--set", "strength=0.015", "--steps", "200",
            "--next", "inp=out", "--out", str(filtered), "--plot", str(picture), "--overwrite",
        ]  # fmt: skip
        print("Horizontal diffusion with a flux limiter, 200 steps over the terrain around the Jacksboro fault:\n")
        print(f"  tensorir {' '.join(command)}\n")
        begin = time.perf_counter()
        try:
            main(command)
        except SystemExit as end:
            if end.code:
                raise
        print(f"\n{time.perf_counter() - begin:.1f} s in all. What to try next:\n")
        print(f"  look at {picture}")
        print(f"  tensorir print {program}")
        print(f"  tensorir info {program} --set n=344 --set m=403")
        print(f"  tensorir lower {program} --to stablehlo --set n=344 --set m=403")


if __name__ == "__main__":
    run()
