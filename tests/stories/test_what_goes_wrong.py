"""What goes wrong with data on an ordinary day: one sentence each, and nothing is lost."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti
from stencils import meshes
from stencils.cli.files import together, write_arrays

(I,) = ti.dims("I")
DIFFERENCE = ti.field_operator(lambda a, b: a - b)
RISE = ti.field_operator(lambda h: h(I + 1) - h)


def labelled(labels, **attrs):
    return xr.DataArray(np.arange(float(len(labels))), dims="I", coords={"I": labels}, attrs=attrs)


def daily(*days):
    return labelled(pd.to_datetime([f"2024-03-{day:02d}" for day in days]))


WRONG = {
    "labels that differ": (
        lambda: DIFFERENCE(labelled([50.0, 52.5, 55.0]), labelled([55.0, 52.5, 50.0])),
        "error[A25]: the labels along I differ: 'a' has 50.0 where 'b' has 55.0.\n"
        "help: xr.align(a, b, join='inner') aligns them, b.drop_vars('I') leaves labels out, ti.positional(b) goes by "
        "position.",
    ),
    "labels that are there twice": (
        lambda: DIFFERENCE(labelled([50.0, 52.5, 52.5]), labelled([50.0, 52.5])),
        "error[A26]: the labels of 'a' along I repeat 52.5, so they do not say where others meet it.\n"
        "help: leave one of each: a.drop_duplicates('I').",
    ),
    "days that are missing": (
        lambda: RISE(daily(1, 2, 3, 6)),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have unequal steps: 2024-03-02, "
        "2024-03-03, 2024-03-06.\n"
        "help: h.reindex(...) fills what is missing, ti.positional(h, 'I') goes by position.",
    ),
    "names that have no neighbours": (
        lambda: RISE(labelled(["Bern", "Graz", "Trento"])),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have no steps: 'Bern', 'Graz'.\n"
        "help: h.reindex(...) fills what is missing, ti.positional(h, 'I') goes by position.",
    ),
    "years that are missing": (
        lambda: RISE(labelled([1990, 1991, 1994])),
        "error[A27]: 'rise' reads neighbours along I, and the labels of 'h' have unequal steps: 1990, 1991, 1994.\n"
        "help: h.reindex(...) fills what is missing, ti.positional(h, 'I') goes by position.",
    ),
    "units that clash": (
        lambda: DIFFERENCE(labelled([0, 1], units="K"), labelled([0, 1], units="m")),
        "error[A32]: 'a' in K and 'b' in m meet in minus, which needs equal units.\n"
        "help: convert one of them, or leave units out: x.drop_attrs().",
    ),
    "a mesh file without a table": (
        lambda: meshes.read(xr.Dataset({"vertex_of_cell": (("nv", "cell"), [[1], [2], [3]])})),
        "error[F08]: the Dataset has no 'edge_vertices', which a mesh of ICON needs.\n"
        "help: read the file of the grid: that of fields alone has no mesh.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_it_is_said_in_a_sentence(what):
    """A user who mixes up labels, days, units or files is told in one sentence what differs where, and in another
    what to do."""
    call, message = WRONG[what]
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    (found,) = refused.value.diagnostics
    assert f"error[{found.code}]: {found.message}\nhelp: {found.help}".replace("'<lambda>'", "'rise'") == message


@pytest.mark.parametrize("labels", [daily(1, 2, 3).I.values, daily(1, 8, 15).I.values, [10, 20, 30], [0.0, 0.7, 9.0]])
def test_labels_with_equal_steps_and_those_of_stretched_grids_are_neighbours(labels):
    """A user who has days, weeks, tens or a stretched grid gets differences of neighbours without a question."""
    np.testing.assert_array_equal(RISE(labelled(labels)), [1.0, 1.0])


AVERAGE = "f(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← 0.5 × ⟪I, -1⟫(x) + 0.5 × ⟪I, 1⟫(x); }"
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
sys.argv = ["tensorir", *sys.argv[1:]]
from stencils.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
@pytest.mark.parametrize("name", ["y.nc", "y.npz"])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, name):
    """A user of the command line who fills the disk is told in two lines, and keeps the file that was there."""
    (tmp_path / "f.fencil").write_text(AVERAGE, encoding="utf-8")
    x = np.random.default_rng(0).normal(size=100_000)
    xr.Dataset({"x": ("I", x)}).to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    (tmp_path / name).write_bytes(b"as it was")
    command = [sys.executable, "-c", LIMITED, "run", "f.fencil", "-i", "x.nc", "-o", name, "--overwrite"]
    here = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": here, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error[F04]: '{name}' cannot be written: ") and done.stderr.count("\n") == 2
    assert (tmp_path / name).read_bytes() == b"as it was"
    assert sorted(os.listdir(tmp_path)) == sorted(["f.fencil", "x.nc", name])


def test_snapshots_that_find_no_room_say_so_and_keep_those_before(tmp_path, monkeypatch):
    """A modeller who runs out of room in a long run is told which file, and keeps the snapshots that were written."""
    from lowering.loops import snapshots

    write, written = snapshots.Snapshots._to_netcdf, []

    def full(self, at, *snapshot):
        written.append(at)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(self, at, *snapshot)

    monkeypatch.setattr(snapshots.Snapshots, "_to_netcdf", full)
    path = tmp_path / "run.nc"
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 40, every=10, keep=True, to=path, progress=False)
    assert str(refused.value) == (
        f"error[A31]: a snapshot cannot be written to '{path}': No space left on device.\n"
        "help: make room, or close it where it is open."
    )
    with xr.open_dataset(path, engine="netcdf4") as kept:
        assert kept.time.values.tolist() == [0.0, 10.0]


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
def test_a_store_that_finds_no_room_says_so_once(tmp_path, caplog):
    """A user of Zarr who runs out of room is told once, and nothing goes on in the background."""
    import resource

    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    noise = np.random.default_rng(0).normal(size=(1000, 1000))
    try:
        with pytest.raises(ti.DiagnosticError) as refused:
            ti.iterate(lambda h: h, noise, 1, keep=True, to=tmp_path / "run.zarr", progress=False)
        with pytest.raises(ti.DiagnosticError, match=r"F04.*cannot be written: File too large"), together() as write:
            write_arrays(tmp_path / "results.zarr", {"x": noise}, {}, write)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    written = sorted(tmp_path.rglob("*"))
    time.sleep(0.1)
    gc.collect()
    assert str(refused.value) == (
        f"error[A31]: a snapshot cannot be written to '{tmp_path}/run.zarr': File too large.\n"
        "help: make room, or close it where it is open."
    )
    assert os.listdir(tmp_path) == ["run.zarr"]
    assert sorted(tmp_path.rglob("*")) == written and not [r for r in caplog.records if r.name == "asyncio"]


def test_an_output_that_is_there_or_open_elsewhere_is_not_lost(tmp_path):
    """A modeller who starts a run twice is told that the output is there already, and keeps it, also while another
    reads it."""
    path = tmp_path / "run.nc"
    ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 4, every=2, keep=True, to=path, progress=False)
    with xr.open_dataset(path, engine="netcdf4") as reader:
        with pytest.raises(ti.DiagnosticError, match=r"A31\]: '.*run.nc' is there already"):
            ti.iterate(lambda h: 0.5 * h, labelled([0, 1]), 4, every=2, keep=True, to=path, progress=False)
        assert reader.sizes["time"] == 3
