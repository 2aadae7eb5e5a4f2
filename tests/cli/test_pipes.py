"""Arrays from standard input and to standard output."""

import io
import sys

import numpy as np
import pytest
import xarray as xr

from stencils.cli import main

PROGRAM = "average(out: tensor<float, I[1:n]>, x: tensor<float, I[0:n]>) { out ← 0.5 × (⟪I, -1⟫(x) + x); }"
X = np.arange(6.0) ** 2


@pytest.fixture
def tensorir(capsysbinary, monkeypatch):
    """A command with bytes on standard input: its exit code, and what is on standard output and error."""

    def run(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        try:
            main(["run", *arguments])
            code = 0
        except SystemExit as end:
            code = end.code
        out, err = capsysbinary.readouterr()
        return code or 0, out, err.decode()

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "average.fencil").write_text(PROGRAM, encoding="utf-8")
    xr.DataArray(X, dims="I", coords={"I": range(6)}, name="x").to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    return tmp_path


def test_results_of_one_command_are_the_input_of_the_next(folder, tensorir):
    code, piped, told = tensorir("average.fencil", "-i", "x.nc", "-o", "-")
    assert (code, piped[:4]) == (0, b"\x89HDF") and told.endswith("written to standard output\n")
    (folder / "first.nc").write_bytes(piped)
    with xr.open_dataset(folder / "first.nc") as first:
        np.testing.assert_array_equal(first["out"], 0.5 * (X[:-1] + X[1:]))
        np.testing.assert_array_equal(first["I"], range(1, 6))
        moved = first.assign_coords(I=range(5)).load()
    moved.to_netcdf(folder / "moved.nc", engine="netcdf4")
    code, piped, _ = tensorir("average.fencil", "-i", "x=-:out", "-o", "-", given=(folder / "moved.nc").read_bytes())
    (folder / "second.nc").write_bytes(piped)
    with xr.open_dataset(folder / "second.nc") as second:
        np.testing.assert_array_equal(second["out"], 0.25 * (X[:-2] + 2 * X[1:-1] + X[2:]))


def test_what_is_piped_may_be_npz(folder, tensorir):
    held = io.BytesIO()
    np.savez(held, x=X)
    assert tensorir("average.fencil", "-i", "-", "-o", "y.npz", given=held.getvalue())[0] == 0
    with np.load(folder / "y.npz") as data:
        np.testing.assert_array_equal(data["out"], 0.5 * (X[:-1] + X[1:]))


def test_what_is_piped_and_holds_no_arrays_is_named(folder, tensorir):
    hint = "help: pipe a file of arrays to it: tensorir run ... --input - < x.nc.\n"
    told = tensorir("average.fencil", "-i", "-")[2]
    assert told == f"error[F02]: standard input holds nothing.\n{hint}"
    told = tensorir("average.fencil", "-i", "-", given=b"foo")[2]
    assert told == f"error[F02]: what standard input holds is neither NetCDF nor npz.\n{hint}"
    told = tensorir("-", "-i", "-", given=b"foo")[2]
    assert told == (
        "error[C03]: the program and an input are both -, and standard input is one.\nhelp: give one as a file.\n"
    )
