"""`tensorir run --devices`: a program on a mesh of pretended devices, from files to files."""

import socket
import subprocess
import sys
import time

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
        "help: write --processes 4 for four on this machine, HOST:PORT,4,0 for the first of four, or auto."
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


def tensorir(*words, **options):
    return subprocess.run([sys.executable, "-m", "tensorir", *words], capture_output=True, text=True, **options)


@pytest.mark.nightly
def test_two_processes_of_one_command_go_on_from_their_checkpoints(folder):
    command = ["run", "average.fencil", "-i", "x.npz", "--next", "x=out", "--dims", "I", "--processes", "2"]
    command += ["--checkpoint", "kept", "-o", "y.npz", "--overwrite", "--every", "10"]
    run = lambda steps: tensorir(*command, "--steps", str(steps), cwd=folder, timeout=300)
    for steps in (20, 40):
        done = run(steps)
        assert done.returncode == 0 and done.stdout.count("written to y.npz") == 1, done
    with np.load("y.npz") as data:
        np.testing.assert_allclose(data["out"], [stepped(k) for k in (10, 20, 30, 40)], rtol=1e-15)
    refused = run(10)
    assert refused.returncode == 2 and refused.stderr.count("error[A30]") == 1


@pytest.mark.nightly
def test_sigterm_of_a_command_reaches_its_processes_and_it_goes_on(folder):
    command = ["run", "average.fencil", "-i", "x.npz", "--next", "x=out", "--dims", "I", "--processes", "2"]
    command += ["--checkpoint", "kept", "--checkpoint-every", "1000", "--steps", str(10**9)]
    with subprocess.Popen([sys.executable, "-m", "tensorir", *command], stderr=subprocess.PIPE, text=True) as running:
        while not any((folder / "kept").glob("checkpoint-[1-9]*")) and running.poll() is None:
            time.sleep(0.1)
        running.terminate()
        error = running.communicate(timeout=60)[1]
    assert running.returncode == 143 and "the same command goes on from there" in error


@pytest.mark.nightly
def test_doctor_says_what_processes_see(folder):
    done = tensorir("doctor", "--processes", "2", "--folder", "shared", cwd=folder, timeout=300)
    assert done.returncode == 0 and "MISSING" not in done.stdout
    assert "2 processes: as --processes says" in done.stdout and "'shared' is shared" in done.stdout


def test_doctor_finds_what_is_missing(folder):
    (folder / "file").touch()
    done = tensorir("doctor", "--folder", "file", cwd=folder, timeout=300)
    assert done.returncode == 1 and "MISSING 'file' is not shared: process 0: File exists" in done.stdout
