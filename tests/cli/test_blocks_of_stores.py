"""Runs block by block over stores of Zarr, beside the same run on whole arrays."""

import errno
import functools
import itertools
import os
import signal
import sys

import numpy as np
import pytest
import xarray as xr
from command import run

import tensorir as ti
from lowering.loops import progress
from stencils.cli import chunked
from tests.effort import device_work

SMOOTH = """
smooth(out: tensor<float, I[0:n], J[1:m-1]>, x: tensor<float, I[0:n], J[0:m]>, w: tensor<float>) {
  out ← subset(x, J[1:m-1]);
  out[I[2:n-2]] ← w × (⟪I, -2⟫(x) + ⟪I, 2⟫(x) + ⟪J, -1⟫(x) + ⟪J, 1⟫(x));
}
"""
TOTAL = "total(out: tensor<float, J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) { out ← reduce(+, 0.0, I)(x); }"
SUMS = """sums(out: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
out ← scan(λ(s: tensor<float, J[0:m]>, v: tensor<float, J[0:m]>) → s + v, true, 0.0, I)(x);
}"""
BOTH = """
both(u: tensor<float, I[1:n-1], J[0:m]>, v: tensor<float, I[0:n], J[0:m-1]>, t: tensor<float, J[0:m]>,
     x: tensor<float, I[0:n], J[0:m]>, w: tensor<float, J[0:m]>) {
  u ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
  v ← ⟪J, 1⟫(x) - x;
  t ← 2.0 × w;
}
"""
EDGES = """
edges(out: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
  out ← x × cast(pos(I, x) + 10 × pos(J, x), float);
  out[I[1:n-1], J[1:m-1]] ← ⟪I, -1⟫(x) + ⟪I, 1⟫(x) + ⟪J, -1⟫(x) + ⟪J, 1⟫(x);
}
"""
X = np.random.default_rng(3).normal(size=(5, 11, 9))
RUN = ("run", "smooth.fencil", "-i", "x.zarr", "--set", "w=0.5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smooth.fencil").write_text(SMOOTH, encoding="utf-8")
    for text in (TOTAL, SUMS, BOTH, EDGES):
        (tmp_path / f"{text.split('(')[0].strip()}.fencil").write_text(text, encoding="utf-8")
    grid = {"J": np.linspace(50.0, 58.0, 9), "time": np.arange(5) * 0.5}
    x = xr.DataArray(X, dims=("time", "I", "J"), coords=grid, attrs={"units": "m"}, name="x")
    x.to_zarr("x.zarr", zarr_format=2, encoding={"x": {"chunks": (2, 11, 9)}})
    return tmp_path


def opened(path):
    with xr.open_dataset(path, engine="zarr") as data:
        return data.load()


@pytest.mark.parametrize("chunks", [("auto",), ("I=4", "J=3", "time=2")])
def test_blocks_have_the_bits_of_the_whole_run_and_its_labels(folder, capsys, chunks):
    assert run(capsys, *RUN, "-o", "whole.zarr")[0] == 0
    options = [word for chunk in chunks for word in ("--chunks", chunk)]
    code, _, err = run(capsys, *RUN, *options, "-o", "y.zarr")
    assert (code, err) == (0, "")
    whole, found = opened("whole.zarr"), opened("y.zarr")
    xr.testing.assert_identical(found.drop_attrs(deep=False), whole.drop_attrs(deep=False))
    by_hand = 0.5 * (X[:, :-4, 1:-1] + X[:, 4:, 1:-1] + X[:, 2:-2, :-2] + X[:, 2:-2, 2:])
    np.testing.assert_allclose(found["out"][:, 2:-2], by_hand, rtol=1e-12)
    assert not (folder / "y.resume.json").exists()


def test_results_of_a_block_are_computed_at_once_from_what_is_read_once(folder, capsys, monkeypatch):
    import zarr

    y = np.arange(60.0).reshape(12, 5) ** 2
    xr.Dataset({"x": (("I", "J"), y), "w": ("J", y[3])}).to_zarr(
        "xw.zarr", zarr_format=2, encoding={"x": {"chunks": (4, 5)}}
    )
    read, get, calls = [], zarr.storage.LocalStore.get, []

    async def seen(self, key, *more, **options):
        read.append(key)
        return await get(self, key, *more, **options)

    monkeypatch.setattr(zarr.storage.LocalStore, "get", seen)
    computed = chunked.Chunked.computed

    def counted(self):
        compute = computed(self)
        return lambda block: calls.append(sorted(block.regions)) or compute(block)

    monkeypatch.setattr(chunked.Chunked, "computed", counted)
    code, _, err = run(capsys, "run", "both.fencil", "-i", "xw.zarr", "--chunks", "I=4", "-o", "y.zarr")
    assert (code, err) == (0, ""), err
    # the second and the third chunk also are the halos of the blocks before them
    assert sorted(k for k in read if k.startswith("x/") and k[2].isdigit()) == ["x/0.0", *["x/1.0"] * 2, *["x/2.0"] * 2]
    assert calls == [["u", "v"]] * 3 + [["t"]]
    found = opened("y.zarr")
    np.testing.assert_array_equal(found["u"], y[2:] - y[:-2])
    np.testing.assert_array_equal(found["v"], y[:, 1:] - y[:, :-1])
    np.testing.assert_array_equal(found["t"], 2.0 * y[3])


def test_blocks_that_lie_alike_to_the_boundaries_are_compiled_once(folder, capsys):
    x = np.random.default_rng(5).normal(size=(20, 15))
    xr.DataArray(x, dims=("I", "J"), name="x").to_dataset().to_zarr("grid.zarr", zarr_format=2)
    blocks = ("--chunks", "I=4", "--chunks", "J=3")
    work = device_work(lambda: run(capsys, "run", "edges.fencil", "-i", "grid.zarr", *blocks, "-o", "y.zarr"))
    assert (work.executed, work.compiled) == (25, 9)
    places = np.arange(20)[:, None] + 10 * np.arange(15)
    expected = x * places
    expected[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    np.testing.assert_allclose(opened("y.zarr")["out"], expected, rtol=1e-13, atol=1e-13)


def test_dims_and_inputs_may_have_names_of_their_own(folder, capsys):
    renamed = xr.open_zarr("x.zarr").rename(x="height", I="lat")
    renamed.drop_encoding().to_zarr("h.zarr", zarr_format=2)
    code, _, err = run(
        capsys, "run", "smooth.fencil", "-i", "x=h.zarr:height", "--set", "w=0.5", "--rename", "lat=I",
        "--chunks", "lat=4", "-o", "y.zarr",
    )  # fmt: skip
    assert (code, err) == (0, "")
    by_hand = 0.5 * (X[:, :-4, 1:-1] + X[:, 4:, 1:-1] + X[:, 2:-2, :-2] + X[:, 2:-2, 2:])
    np.testing.assert_allclose(opened("y.zarr")["out"].isel(lat=slice(2, -2)), by_hand, rtol=1e-12)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT"])
def test_netcdf_that_is_packed_goes_in_blocks(folder, capsys, kind):
    packed = np.random.default_rng(7).integers(-300, 300, size=X.shape).astype("i2")
    packed[1, 2, 3] = -999
    x = xr.DataArray(
        packed, dims=("time", "I", "J"), name="x", attrs={"scale_factor": 0.5, "_FillValue": np.int16(-999)}
    )
    x.to_dataset().to_netcdf("x.nc", format=kind, engine="netcdf4")
    code, _, err = run(
        capsys, "run", "smooth.fencil", "-i", "x.nc", "--set", "w=0.5", "--chunks", "time=2", "-o", "y.zarr"
    )
    assert (code, err) == (0, "")
    numbers = np.where(packed == -999, np.nan, 0.5 * packed)
    by_hand = 0.5 * (numbers[:, :-4, 1:-1] + numbers[:, 4:, 1:-1] + numbers[:, 2:-2, :-2] + numbers[:, 2:-2, 2:])
    np.testing.assert_array_equal(opened("y.zarr")["out"][:, 2:-2], by_hand)


def test_what_has_no_chunks_goes_in_blocks_of_the_dim_that_the_program_does_not_know(folder, capsys, monkeypatch):
    monkeypatch.setattr(chunked, "WHOLE", 2 * 11 * 9 * 8)
    xr.DataArray(X, dims=("time", "I", "J"), name="x").to_dataset().to_netcdf("x.nc", engine="netcdf4")
    code, out, _ = run(
        capsys, "run", "smooth.fencil", "-i", "x.nc", "--set", "w=0.5", "--chunks", "auto", "-o", "y.zarr"
    )
    assert code == 0 and "smooth, 3 blocks" in out


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_drawn_on_a_terminal_alone(folder, capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress, "Bar", functools.partial(progress.Bar, patience=0.0))
    code, _, err = run(capsys, *RUN, "--chunks", "auto", "-o", "y.zarr")
    assert code == 0 and ("3/3" in err) == terminal and bool(err) == terminal


# Runs that do not come to their end


def test_a_run_that_is_stopped_goes_on_to_the_same_bits(folder, capsys, monkeypatch):
    computed = chunked.Chunked.computed

    def interrupted(self):
        compute, calls = computed(self), itertools.count(1)

        def second(block):
            if next(calls) == 2:
                signal.raise_signal(signal.SIGINT)
            return compute(block)

        return second

    monkeypatch.setattr(chunked.Chunked, "computed", interrupted)
    code, _, err = run(capsys, *RUN, "--chunks", "auto", "-o", "y.zarr")
    assert (code, err) == (
        130,
        "stopped after 2 of 3 blocks; add --resume y.resume.json to the same command, and it goes on from there.\n",
    )
    resume = ("-o", "y.zarr", "--resume", "y.resume.json")
    code, _, err = run(capsys, *RUN[:-1], "w=0.25", "--chunks", "auto", *resume)
    assert code == 2 and err == (
        "error[F10]: 'y.resume.json' was left by another run: of another program, other arrays, or other --chunks.\n"
        "help: repeat the command that was stopped, or leave --resume out.\n"
    )
    monkeypatch.setattr(chunked.Chunked, "computed", computed)
    assert run(capsys, *RUN, "--chunks", "auto", *resume)[0] == 0
    assert run(capsys, *RUN, "--chunks", "auto", "-o", "again.zarr")[0] == 0
    assert opened("y.zarr")["out"].equals(opened("again.zarr")["out"])


@pytest.fixture
def stopped(folder, capsys, monkeypatch):
    """A run of three blocks of which one was written, and the others found no room."""
    import zarr

    put = zarr.storage.LocalStore.set

    async def until_it_is_full(self, key, value):
        if key.startswith("out/1."):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await put(self, key, value)

    with monkeypatch.context() as full:
        full.setattr(zarr.storage.LocalStore, "set", until_it_is_full)
        return run(capsys, *RUN, "--chunks", "auto", "-o", "y.zarr")


RESUME = ("--chunks", "auto", "-o", "y.zarr", "--resume", "y.resume.json")


def test_a_disk_that_is_full_says_at_which_block_and_the_run_goes_on_later(folder, capsys, stopped):
    assert stopped[::2] == (
        2,
        "error[F04]: block 2 of 3 (time 2:4, I 0:11, J 1:8) cannot be written to 'y.zarr': No space left on device; "
        "the block before it is kept.\n"
        "help: make room, and add --resume y.resume.json to the same command.\n",
    )  # fmt: skip
    assert run(capsys, *RUN, *RESUME)[0] == 0
    assert run(capsys, *RUN, "-o", "whole.zarr")[0] == 0
    np.testing.assert_array_equal(opened("y.zarr")["out"], opened("whole.zarr")["out"])


def test_an_input_that_has_changed_since_is_refused(folder, capsys, stopped):
    import zarr

    zarr.open_array("x.zarr", path="x", mode="r+")[4, 0, 0] = 7.0
    code, _, err = run(capsys, *RUN, *RESUME)
    assert (code, err) == (
        2,
        "error[F10]: the input 'x' has changed since 'y.resume.json' was left, and the first block is of what it was.\n"
        "help: leave --resume out, and all blocks are computed from what it is.\n",
    )


def test_another_version_is_refused(folder, capsys, stopped):
    held = (folder / "y.resume.json").read_text(encoding="utf-8")
    (folder / "y.resume.json").write_text(held.replace(f'"{ti.__version__}"', '"0.0.1"'), encoding="utf-8")
    code, _, err = run(capsys, *RUN, *RESUME)
    assert (code, err) == (
        2,
        f"error[F10]: 'y.resume.json' was left by version 0.0.1, and this is {ti.__version__}: their bits may differ.\n"
        "help: leave --resume out, and all blocks are computed.\n",
    )


def test_a_chunk_that_is_damaged_says_at_which_block_and_the_run_goes_on_when_it_is_mended(folder, capsys):
    chunk = folder / "x.zarr" / "x" / "1.0.0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:20])
    code, _, err = run(capsys, *RUN, "--chunks", "auto", "-o", "y.zarr")
    first, hint = err.splitlines()
    assert code == 2
    assert first.startswith("error[F02]: block 2 of 3 (time 2:4, I 0:11, J 1:8) cannot be read from 'x' of 'x.zarr': ")
    assert first.endswith("; the block before it is kept.")
    assert hint == "help: mend 'x.zarr' there alone, and add --resume y.resume.json to the same command."
    chunk.write_bytes(whole[:40])
    assert run(capsys, *RUN, *RESUME)[2].splitlines()[1] == hint
    chunk.write_bytes(whole)
    assert run(capsys, *RUN, *RESUME)[0] == 0
    assert run(capsys, *RUN, "-o", "whole.zarr")[0] == 0
    np.testing.assert_array_equal(opened("y.zarr")["out"], opened("whole.zarr")["out"])


def test_a_chunk_that_is_missing_is_told(folder, capsys):
    (folder / "x.zarr" / "x" / "1.0.0").unlink()
    code, _, err = run(capsys, *RUN, "--chunks", "auto", "-o", "y.zarr")
    assert (code, err) == (0, "warning: 'x' lacks 1 chunk of 3 in 'x.zarr': read as nan.\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (*RUN, "--chunks", "tim=2", "-o", "y.zarr"),
            "error[C15]: '--chunks tim=2' names a dim that no input has.\nhelp: did you mean 'time'?\n",
        ),
        (
            (*RUN, "--chunks", "time=0", "-o", "y.zarr"),
            "error[C04]: '--chunks time=0' gives no number of points.\nhelp: write --chunks time=1000.\n",
        ),
        (
            (*RUN, "--chunks", "auto", "-o", "y.nc"),
            "error[F03]: --chunks writes a Zarr store block by block.\nhelp: add --out result.zarr.\n",
        ),
        (
            (*RUN, "--chunks", "auto", "--cast", "-o", "y.zarr"),
            "error[C03]: --chunks runs a program once, block by block, without --cast.\nhelp: leave one out.\n",
        ),
        (
            ("run", "total.fencil", "-i", "x.zarr", "--chunks", "I=4", "-o", "y.zarr"),
            "total.fencil:1:77: error[A35]: 'total' needs the whole of I at once, and --chunks makes 3 blocks along it."
            f"\n  {TOTAL}\n  {' ' * 76}^^^^^^^^^^^^^^^^^^^^\nnote: 'reduce' along I takes all of its points.\n"
            "help: make one of them: --chunks I=11.\n",
        ),
        (
            ("run", "sums.fencil", "-i", "x.zarr", "--chunks", "I=4", "-o", "y.zarr"),
            "sums.fencil:2:7: error[A35]: 'sums' needs the whole of I at once, and --chunks makes 3 blocks along it."
            f"\n  {SUMS.splitlines()[1]}\n  {' ' * 6}{'^' * 84}\nnote: 'scan' along I takes all of its points.\n"
            "help: make one of them: --chunks I=11.\n",
        ),
        (
            (*RUN, "--chunks", "auto", "-o", "x.zarr", "--overwrite"),
            "error[F07]: 'x.zarr' is read block by block while 'x.zarr' is written, and one is in the other.\n"
            "help: name another store for the results.\n",
        ),
    ],
)
def test_what_does_not_go_in_blocks_is_refused_and_nothing_is_written(folder, capsys, arguments, told):
    code, _, err = run(capsys, *arguments)
    assert (code, err) == (2, told)
    assert not (folder / "y.zarr").exists()
