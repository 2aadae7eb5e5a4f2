"""A stencil over a Zarr store that does not fit into memory, beside dask: `python -m tests.benchmarks.stores`.

`tensorir run --chunks`, `ti.map_blocks` and dask's own `map_overlap` go from one store into stores of their own, in
processes of their own, one after the other, `--rounds` times. Results are compared block by block. The store has 4 MB
for each field: 5,000 of them are 20 GB (`--size 5000`), and take 16 GB of disk with all results.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK, POINTS = 50, 1000
LAPLACIAN = """lap(out: tensor<float32, lat[1:ny - 1], lon[1:nx - 1]>, h: tensor<float32, lat[0:ny], lon[0:nx]>) {
  out ← ⟪lat, 1⟫(h) + ⟪lat, -1⟫(h) + ⟪lon, 1⟫(h) + ⟪lon, -1⟫(h) - 4.0f × h;
}
"""
BY_DASK = """import dask, xarray as xr
dask.config.set(scheduler="threads", num_workers=2)
h = xr.open_zarr("in.zarr").h
def laplacian(h):
    out = h.copy()  # what lies within a point of an edge is cut off
    out[:, 1:-1, 1:-1] = h[:, 2:, 1:-1] + h[:, :-2, 1:-1] + h[:, 1:-1, 2:] + h[:, 1:-1, :-2] - 4 * h[:, 1:-1, 1:-1]
    return out
out = h.data.map_overlap(laplacian, depth={0: 0, 1: 1, 2: 1}, boundary="none", dtype=h.dtype)[:, 1:-1, 1:-1]
xr.Dataset({"out": (h.dims, out)}).to_zarr("dask.zarr", mode="w", zarr_format=2)
"""
BY_MAP_BLOCKS = """import dask, tensorir as ti, xarray as xr
dask.config.set(scheduler="threads", num_workers=2)
lat, lon = ti.dims("lat lon")
@ti.field_operator
def laplacian(h):
    return h(lat + 1) + h(lat - 1) + h(lon + 1) + h(lon - 1) - 4 * h
out = ti.map_blocks(laplacian, xr.open_zarr("in.zarr").h)
out.drop_encoding().to_dataset(name="out").to_zarr("blocks.zarr", mode="w", zarr_format=2)
"""


def made(folder: Path, fields: int) -> None:
    """A store whose numbers compress well, since it is about memory and not about a disk."""
    import dask.array
    import xarray as xr
    import zarr

    places = np.arange(float(POINTS))
    still = (np.round(256 * (np.sin(places[:, None] / 50) + np.cos(places / 70))) / 256).astype(np.float32)
    empty = dask.array.zeros((fields, POINTS, POINTS), dtype=np.float32, chunks=(BLOCK, POINTS, POINTS))
    coords = {"time": np.arange(float(fields)), "lat": places, "lon": places}
    data = xr.Dataset({"h": (("time", "lat", "lon"), empty)}, coords)
    data.to_zarr(folder / "in.zarr", compute=False, zarr_format=2)
    h = zarr.open_array(folder / "in.zarr" / "h", mode="r+")
    for k in range(0, fields, BLOCK):
        times = np.arange(k, min(k + BLOCK, fields))
        h[k : k + BLOCK] = still + (times % 97 / 8).astype(np.float32)[:, None, None]


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of a process, and the most memory it had, in GB."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        most = max([most, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.05)
    if process.wait():
        raise SystemExit(f"{command[:4]} ended with {process.returncode}.")
    return time.perf_counter() - begin, most / 1e6


def main(fields: int, rounds: int) -> None:
    import xarray as xr

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder, fields)
        (folder / "lap.fencil").write_text(LAPLACIAN, encoding="utf-8")
        ours = ["run", "lap.fencil", "--input", "in.zarr", "--chunks", "auto", "--out", "out.zarr", "--overwrite"]
        sizes = ["--set", f"ny={POINTS}", "--set", f"nx={POINTS}"]
        commands = {
            "tensorir run": [sys.executable, "-m", "tensorir", *ours, *sizes],
            "ti.map_blocks": [sys.executable, "-c", BY_MAP_BLOCKS],
            "dask": [sys.executable, "-c", BY_DASK],
        }
        for _ in range(rounds):
            for way, command in commands.items():
                seconds, memory = timed(command, folder)
                size = fields * POINTS**2 * 4 / 1e9
                print(f"{way:13}  {size:.1f} GB  {seconds:.1f} s  {memory:.2f} GB of memory", flush=True)
        with xr.open_zarr(folder / "dask.zarr") as theirs:
            for store in ("out.zarr", "blocks.zarr"):
                with xr.open_zarr(folder / store) as found:
                    for k in range(0, fields, BLOCK):
                        part = slice(k, k + BLOCK)
                        np.testing.assert_array_equal(found.out[part].values, theirs.out[part].values)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=5000, help="fields of 4 MB")
    options.add_argument("--rounds", type=int, default=1)
    given = options.parse_args()
    main(given.size, given.rounds)
