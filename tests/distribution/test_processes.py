"""A mesh over two processes gives the bits of one device."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


CASES = ("arrays of NumPy", "steps and what callbacks see", "arrays of JAX stay in blocks", "an unstructured mesh")


@pytest.fixture(scope="module")
def found() -> list[dict[str, str]]:
    """What the two processes said, by the names of the cases."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS", None)  # each process has the devices that there are
    script = str(Path(__file__).with_name("on_two_processes.py"))
    runs = [
        subprocess.Popen(
            [sys.executable, script, str(k), port], env=environment, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for k in range(2)
    ]  # fmt: skip
    said = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    return [dict(line.split(": ", 1) for line in out.splitlines() if ": " in line) for out, _ in said]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_what_one_device_does(case, found):
    assert [some[case] for some in found] == ["True", "True"]


def test_a_mesh_is_of_one_process_or_of_all(found):
    assert [some["a mesh of one process"] for some in found] == [
        "True",
        "error[D08]: the mesh has no device of process 1. help: make it of the devices of all: "
        'jax.make_mesh((jax.device_count(),), ("px",)).',
    ]


def test_processes_that_disagree_are_told_before_anything_is_sent(found):
    assert [some["another size"] for some in found] == [
        f"error[D07]: 'hdiff' of process {k} is another program, or has other sizes, than that of process {1 - k}. "
        "help: let every process call the same programs, in the same order, on arrays of the same extents."
        for k in range(2)
    ]
