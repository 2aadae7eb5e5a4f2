"""A process that steps what it opens in stores: `reader.py PLACE COUNT PORT OPTIONS`, its findings as JSON."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from xarray.backends.zarr import ZarrArrayWrapper

import tensorir as ti
from lowering.distribution.meshes import on_host
from stencils import library, meshes
from stencils.cli import main as cli

READ: dict[str, int] = {}
"""Elements by the name of a variable with several dims, as xarray's reader of Zarr hands them out."""


def count_what_is_read() -> None:
    read = ZarrArrayWrapper.__getitem__

    def counting(self: Any, key: Any) -> Any:
        made = read(self, key)
        name = self._array.name.strip("/")
        if self._array.ndim > 1:
            READ[name] = READ.get(name, 0) + np.size(made)
        return made

    ZarrArrayWrapper.__getitem__ = counting


def main() -> None:
    place, count, port = map(int, sys.argv[1:4])
    options = json.loads(sys.argv[4])
    count_what_is_read()
    if "command" in options:
        processes = ["--processes", f"localhost:{port},{count},{place}"] if count > 1 else []
        with contextlib.suppress(SystemExit):
            cli([*options["command"], *processes])
        print(json.dumps(READ))
        return
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, place)
    mesh = jax.make_mesh((count,), ("px",))

    def opened(name: str) -> Any:
        chunks = {} if options.get("dask") else None
        return xr.open_dataset(Path(options["stores"], name), engine="zarr", chunks=chunks)

    found: dict[str, Any] = {}

    def said(name: str, result: Any) -> None:
        whole = np.ascontiguousarray(on_host(result.data))
        found[name] = {"digest": hashlib.sha256(whole.tobytes()).hexdigest(), "read": {**READ}}
        READ.clear()

    d = ti.distribute(library.load("hdiff"), mesh, {"I": "px"}, numerics="exact")
    state, forcing = opened("state.zarr"), opened("forcing.zarr")
    said("call", d(inp=state["inp"], coeff=state["coeff"])["out"])
    uneven = state.isel(I=slice(1, None))
    said("extents that do not divide", d(inp=uneven["inp"], coeff=uneven["coeff"])["out"])

    def step(s: Any, forced: Any) -> Any:
        return s.assign(inp=d(inp=s["inp"], coeff=s["coeff"])["out"] + forced["heat"])

    options_of_loop = {"forcing": forcing, "dt": "1 h", "start": "2020-01-01", "progress": False}
    last = ti.iterate(step, state, 5, **options_of_loop)
    said("loop", last["inp"])
    found["loop"]["labels"] = [last["inp"].dims, last["I"].values.tolist()[:2], str(last.attrs.get("title"))]
    folder = Path(options["stores"], f"checkpoints-{count}")
    said("checkpoints", ti.iterate(step, opened("state.zarr"), 3, checkpoint_dir=folder, **options_of_loop)["inp"])

    net = meshes.rectangle(7, 4)
    program: Any = library.load("mesh_laplacian")
    lengths = {name: np.linspace(1, 2, net.sizes["Edge"]) for name in ("edge_length", "dual_edge_length")}
    tables = {name: net.tables[name] for name in ("V2E", "E2V")}
    program = program.bind(**tables, **lengths, sign=net.signs["V2E"], vertex_area=np.ones(40))
    on = ti.distribute(
        program, mesh, {"Vertex": "px", "Edge": "px"}, partition=ti.partition(net, count), numerics="exact"
    ).dealt(inp=opened("mesh.zarr")["inp"])
    said("mesh", xr.DataArray(on.whole(inp=on["inp"])["inp"]))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
