"""A stencil over a Zarr store that does not fit into memory, beside dask: `python -m tests.benchmarks.stores`.

`tensorir run --chunks` and dask's own arithmetic on shifted views go from the same store into stores of their own, in
processes of their own, one after the other. Results are compared block by block. The store has 4 MB for each field:
5,000 of them are 20 GB, and take 10 GB of disk with both results.
"""

from __future__ import annotations

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
def moved(lat, lon):
    return h.isel(lat=slice(1 + lat, h.lat.size - 1 + lat), lon=slice(1 + lon, h.lon.size - 1 + lon)).data
out = moved(1, 0) + moved(-1, 0) + moved(0, 1) + moved(0, -1) - 4 * moved(0, 0)
xr.Dataset({"out": (h.dims, out)}).to_zarr("dask.zarr", mode="w", zarr_format=2)
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


def main(fields: int) -> None:
    import xarray as xr

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder, fields)
        (folder / "lap.fencil").write_text(LAPLACIAN, encoding="utf-8")
        ours = ["run", "lap.fencil", "--input", "in.zarr", "--chunks", "auto", "--out", "out.zarr"]
        sizes = ["--set", f"ny={POINTS}", "--set", f"nx={POINTS}"]
        commands = {
            "ours": [sys.executable, "-m", "tensorir", *ours, *sizes],
            "dask": [sys.executable, "-c", BY_DASK],
        }
        for way, command in commands.items():
            seconds, memory = timed(command, folder)
            print(
                f"{way}  {fields * POINTS**2 * 4 / 1e9:.1f} GB  {seconds:.1f} s  {memory:.2f} GB of memory", flush=True
            )
        with xr.open_zarr(folder / "out.zarr") as found, xr.open_zarr(folder / "dask.zarr") as theirs:
            for k in range(0, fields, BLOCK):
                part = slice(k, k + BLOCK)
                np.testing.assert_array_equal(found.out[part].values, theirs.out[part].values)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
