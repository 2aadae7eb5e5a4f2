"""State and forcing that are opened in stores are read by block: each process reads what its devices hold."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

WORKER = Path(__file__).with_name("reader.py")
EXTENTS = (24, 16, 4)
SIZE = 24 * 16 * 4
VERTICES = 80


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of a state and a forcing on a grid, in chunks that blocks do not share, and of a field on a mesh."""
    folder, random = tmp_path_factory.mktemp("stores"), np.random.default_rng(0)
    labels = {"I": 10.0 + np.arange(24), "J": np.arange(16)}
    fields = {"inp": (("I", "J", "K"), random.random(EXTENTS)), "coeff": (("I", "J", "K"), np.full(EXTENTS, 0.02))}
    state = xr.Dataset(fields, labels, {"title": "a state"}).chunk({"I": 6})
    times = np.datetime64("2020-01-01", "ns") + np.arange(9) * np.timedelta64(1, "h")
    # its dims are in another order than those of the program
    heat = (("time", "J", "I", "K"), random.random((9, 16, 24, 4)))
    forcing = xr.Dataset({"heat": heat}, {**labels, "time": times}).chunk({"I": 6, "time": 3})
    mesh = xr.Dataset({"inp": (("Vertex", "K"), random.random((VERTICES // 2, 2)))})
    for name, dataset in {"state": state, "forcing": forcing, "mesh": mesh}.items():
        dataset.to_zarr(folder / f"{name}.zarr", mode="w", zarr_format=2)
    return folder


def facts(count, **options):
    """The findings of some processes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(k), str(count), str(port), json.dumps(options)], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for k in range(count)
    ]  # fmt: skip
    said = [p.communicate(timeout=200) for p in started]
    assert not any(p.returncode for p in started), "\n".join(err[-3000:] for _, err in said)
    return [json.loads(next(line for line in out.splitlines() if line.startswith("{"))) for out, _ in said]


@pytest.fixture(scope="module")
def alone(stores):
    return facts(1, stores=str(stores))[0]


@pytest.mark.parametrize("dask", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_two_processes_read_half_of_each_array_and_compute_the_bits_of_one(dask, stores, alone):
    for place, own in enumerate(facts(2, stores=str(stores), dask=dask)):
        assert {case: some["digest"] for case, some in own.items()} == {c: some["digest"] for c, some in alone.items()}
        read = {case: some["read"] for case, some in own.items()}
        half = {"inp": SIZE // 2, "coeff": SIZE // 2}
        rows = (12, 11)[place] * SIZE // 24  # 23 rows, in blocks of 12
        assert read["call"] == half and read["extents that do not divide"] == {"inp": rows, "coeff": rows}
        assert read["loop"] == {**half, "heat": 9 * SIZE // 2}
        # a checkpoint has a digest of the whole forcing, of which each process looks at its half
        assert read["checkpoints"] == {**half, "heat": 2 * 9 * SIZE // 2}
        assert read["mesh"] == {"inp": VERTICES // 2}
        assert own["loop"]["labels"] == [["I", "J", "K"], [10.0, 11.0], "a state"]


WARMED = """warmed(out: tensor<float, I[1:n-1], J[0:m], K[0:l]>, inp: tensor<float, I[0:n], J[0:m], K[0:l]>,
       coeff: tensor<float, I[0:n], J[0:m], K[0:l]>, heat: tensor<float, I[0:n], J[0:m], K[0:l]>) {
  out ← coeff × (⟪I, -1⟫(inp) + ⟪I, 1⟫(inp)) + heat;
}"""


def test_the_command_line_reads_half_of_each_array_too(stores, tmp_path):
    (tmp_path / "warmed.fencil").write_text(WARMED, encoding="utf-8")
    command = ["run", str(tmp_path / "warmed.fencil"), "-i", str(stores / "state.zarr"), "--steps", "6"]
    command += ["--forcing", str(stores / "forcing.zarr"), "--next", "inp=out", "--dt", "1 h", "--start", "2020-01-01"]
    facts(1, command=[*command, "-o", str(tmp_path / "one.zarr")])
    many = [*command, "-o", str(tmp_path / "two.zarr"), "--devices", "2", "--dims", "I"]
    for read in facts(2, command=many):
        assert read == {"inp": SIZE // 2, "coeff": SIZE // 2, "heat": 9 * SIZE // 2}
    with xr.open_zarr(tmp_path / "one.zarr") as one, xr.open_zarr(tmp_path / "two.zarr") as two:
        np.testing.assert_allclose(two["out"], one["out"], rtol=1e-14)
        assert two["I"].values.tolist() == one["I"].values.tolist()
