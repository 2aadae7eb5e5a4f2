"""Runs block by block over stores of Zarr, beside the same run on whole arrays."""

import itertools
import signal

import numpy as np
import pytest
import xarray as xr

from stencils.cli import chunked, main

SMOOTH = """
smooth(out: tensor<float, I[0:n], J[1:m-1]>, x: tensor<float, I[0:n], J[0:m]>, w: tensor<float>) {
  out ← subset(x, J[1:m-1]);
  out[I[2:n-2]] ← w × (⟪I, -2⟫(x) + ⟪I, 2⟫(x) + ⟪J, -1⟫(x) + ⟪J, 1⟫(x));
}
"""
TOTAL = "total(out: tensor<float, J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) { out ← reduce(+, 0.0, I)(x); }"
X = np.random.default_rng(3).normal(size=(5, 11, 9))
RUN = ("run", "smooth.fencil", "-i", "x.zarr", "--set", "w=0.5")


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code or 0
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smooth.fencil").write_text(SMOOTH, encoding="utf-8")
    (tmp_path / "total.fencil").write_text(TOTAL, encoding="utf-8")
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
            "error[A35]: 'total' needs the whole of I at once, and --chunks makes 3 blocks along it.\n"
            "help: make one of them: --chunks I=11.\n",
        ),
    ],
)
def test_what_does_not_go_in_blocks_is_refused_and_nothing_is_written(folder, capsys, arguments, told):
    code, _, err = run(capsys, *arguments)
    assert (code, err) == (2, told)
    assert not (folder / "y.zarr").exists()
