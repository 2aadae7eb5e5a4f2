"""Programs with neighbour tables on eight pretended devices give the bits of one; one process runs all cases."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOUND = {
    "a chain on the sphere": "True",
    "a chain on a sheet": "True",
    "cells, edges and vertices": "[True, True]",
    "guards, and owners in turn": "True",
    "fewer points": "True",
    "none of the first and last points": "True",
    "columns": "True",
    "sent by 2 devices": "{'collective-permute': 1}, planned 1 and 0",
    "sent by 2 devices in the gradient": "{'collective-permute': 2}",
    "sent by 4 devices": "{'all-to-all': 1}, planned 0 and 1",
    "sent by 4 devices in the gradient": "{'all-to-all': 2}",
    "sent by 8 devices": "{'collective-permute': 6}, planned 6 and 0",
    "levels on an axis of their own": "True",
    "gradient": "equal to 1e-12",
    "vmap": "True",
    "op by op": "True",
    "steps": "True",
    "steps of what is dealt out": "True",
    "steps of what is dealt out send": "{'all-to-all': 1}",
    "no padding in sums": "(40, 4)",
    "nor in their gradients": "True",
    "what is not dealt out": "error[D16]: 'inp' of the shape (40, 4) does not lie on the devices as what is dealt out "
    "does. help: begin with what was dealt out: d.dealt(...)[name].",
    "an operator": "True",
    "a DataArray": "True",
}


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What the process said, by the names of the cases."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("on_meshes.py")
    run = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return dict(line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("case", FOUND)
def test_a_mesh_parted_over_devices_gives_what_one_device_does(case, found):
    assert found[case] == FOUND[case]
