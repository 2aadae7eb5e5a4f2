"""`tensorir run --devices`: a program on a mesh of pretended devices, from files to files."""

import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from stencils.cli import main

AVERAGE = """average(out: tensor<float, I[1:n-1], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
  out ← 0.5 × (⟪I, -1⟫(x) + ⟪I, 1⟫(x));
}"""
X = np.random.default_rng(1).random((9, 5))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "average.fencil").write_text(AVERAGE, encoding="utf-8")
    np.savez("x.npz", x=X)
    return tmp_path


def stepped(count):
    x = X
    for _ in range(count):
        x = np.concatenate([x[:1], 0.5 * (x[:-2] + x[2:]), x[-1:]])
    return x


def test_steps_on_four_devices_that_a_laptop_pretends_to_have(folder):
    command = ["run", "average.fencil", "-i", "x.npz", "--steps", "4", "--next", "x=out", "-o", "y.npz"]
    many = [sys.executable, "-m", "tensorir", *command, "--devices", "2x2", "--dims", "I,J"]
    told = subprocess.run(many, capture_output=True, text=True, check=True, cwd=folder).stdout
    assert "on 2x2 devices" in told
    with np.load("y.npz") as data:
        np.testing.assert_allclose(data["out"], stepped(4), rtol=1e-15)


REFUSED = {
    "2x --dims I,J": (
        "error[C03]: --devices 2x does not say how many devices there are.\nhelp: write --devices 2x2 --dims I,J."
    ),
    "2x2 --dims I": "error[C03]: --devices 2x2 is for 2 dims, and --dims I names 1.\nhelp: write --dims I,J.",
    "2 --dims I --processes here": (
        "error[C03]: --processes here does not say who takes part.\n"
        "help: write --processes HOST:PORT,4,0 for the first of four, or auto under Slurm or MPI."
    ),
    "9999 --dims I": "error[C03]: --devices 9999 asks for more devices than there are: there is 1.",
    "1 --dims Q": "error[D02]: 'average' has no dim Q to distribute.\nhelp: known here: 'I', 'J'.",
    "1 --dims I --backend reference": (
        "error[C03]: --devices is for programs that XLA runs, and --backend reference is given.\n"
        "help: leave one of them out."
    ),
}


@pytest.mark.parametrize("given", REFUSED)
def test_devices_that_are_not_there_or_not_told_are_refused(given, folder, capsys):
    assert len(jax.devices()) == 1  # from now on there are no more
    with pytest.raises(SystemExit):
        main(["run", "average.fencil", "-i", "x.npz", "--devices", *given.split()])
    assert capsys.readouterr().err.strip() == REFUSED[given]


def test_two_processes_write_one_file(folder):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = ["run", "average.fencil", "-i", "x.npz", "--steps", "4", "--next", "x=out", "-o", "y.npz"]
    command += ["--devices", "2x2", "--dims", "I,J", "--processes"]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tensorir", *command, f"localhost:{port},2,{k}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        )
        for k in range(2)
    ]  # fmt: skip
    told = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    assert "written to y.npz" in told[0][0] and "written" not in told[1][0]
    with np.load("y.npz") as data:
        np.testing.assert_allclose(data["out"], stepped(4), rtol=1e-15)
