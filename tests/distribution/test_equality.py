"""Programs on a mesh of eight pretended devices give the bits of one device; one process runs the cases of a script."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[2]
FOUND = {
    "stencils": "wrong: []",
    "generated": "refused by ['D04'], wrong: []",
    "hdiff equal": "True",
    "hdiff sends": "{'collective-permute': 4}",
    "hdiff gradient": "equal to 1e-12",
    "shallow_water equal": "True",
    "shallow_water sends": "{'collective-permute': 4}",
    "shallow_water gradient": "equal to 1e-12",
    "biharmonic equal": "True",
    "biharmonic sends": "{'collective-permute': 4}",
    "biharmonic gradient": "equal to 1e-12",
    "vertical_advection equal": "True",
    "vertical_advection sends": "{'collective-permute': 1}",
    "vertical_advection gradient": "equal to 1e-12",
    "permutes of hdiff's gradient": "8",
    "uneven steps": "True",
    "uneven steps send": "{'collective-permute': 4} and at the end {'all-gather': 2}",
    "seven steps, three at once": "True",
    "gradient of uneven steps": "True",
    "calls like those before": "2 kinds",
    "six steps, three at once": (
        "{'collective-permute': 4} in ['2'] rounds, and {'collective-permute': 4} of the coefficient before"
    ),
    "steps with a field that is the same": "True",
    "what its steps send": "['f64[1]'], and before them ['f64[1]']",
    "steps of a function that is compiled": "True",
    "steps of a Field": "True",
    "steps of arrays of one device, which an outside one is beside": "[True, True]",
    "two levels of time": "True",
    "gradient of steps at once": "True",
    "a step that does more": (
        "error[D09]: 'f' takes 2 steps at once, and the step of the time loop is no call of it alone. "
        "help: return its results as the next state, or leave out halo_steps."
    ),
    "a loop beside what it reads": "True",
    "a loop beside what it reads, gradient": "True",
    "a loop from nothing": "True",
    "a loop from nothing, gradient": "True",
    "a loop until a number is large": "True",
    "a loop until a number is large, gradient": "True",
    "few rounds of a stencil": "True",
    "few rounds of a stencil, gradient": "True",
    "a branch": "True",
    "a branch, gradient": "True",
    "folds of 8 x 4 equal": "True",
    "folds of 8 x 4 gradient": "True",
    "folds of 13 x 5 equal": "True",
    "folds of 13 x 5 gradient": "True",
    "steep slopes of 8 x 4": "wrong: []",
    "steep slopes of 7 x 5": "wrong: []",
    "steps of 8 points on a mesh of JAX": "[True, True]",
    "gradient of 8 points on a mesh of JAX": "[True, True]",
    "two results of 8 points, two steps at once": "[True, True]",
    "a plan of 8 points": "{'I': (1, 1)}",
    "steps of 7 points on a mesh of JAX": "[True, True]",
    "gradient of 7 points on a mesh of JAX": "[True, True]",
    "two results of 7 points, two steps at once": "[True, True]",
    "a plan of 7 points": "{'I': (1, 1)}",
    "points and faces of 16 x 8": "[True, True], 3 permutes",
    "steps of 16 x 8": "True",
    "points and faces of 17 x 9": "[True, True], 3 permutes",
    "steps of 17 x 9": "True",
    "a Field": "True",
    "a DataArray": "True",
    "labels of a gradient": "True",
    "labels of steps": "True",
    "iterate": "True",
    "a program that writes": "True",
    "arrays that lie elsewhere": "['hdiff: moved to its blocks before each call: inp, coeff']",
    "halos": "{'I': (1, 2), 'J': (1, 1)}",
    "one axis of two": "True",
    "jit": "True",
    "vmap": "True",
    "gradient through steps": "True",
    "op by op": "True",
    "a scatter of what is not distributed": "True",
    "a conditional of what is not distributed": "True",
    "a lifted kernel": "True",
    "a check": "[1.0, 2.0, 3.0, 4.0, 5.0]",
    "a check that fails": "depths are positive",
}
ON_MESHES = {
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
    "comparisons": "True",
    "steps of what is dealt out send": "{'all-to-all': 1}",
    "no padding in sums": "(40, 4)",
    "nor in their gradients": "True",
    "what is not dealt out": "error[D16]: 'inp' of the shape (40, 4) does not lie on the devices as what is dealt out "
    "does. help: begin with what was dealt out: d.dealt(...)[name].",
    "an operator": "True",
    "a DataArray": "True",
}
"""What there is to find with neighbour tables."""


@cache
def found(script: str) -> dict[str, str]:
    """What the process of a script said, by the names of the cases."""
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    if "NIGHTLY" not in os.environ and jax.__version_info__ < (0, 11):  # later ones have no others
        flags += " --xla_cpu_use_fusion_emitters=false"
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths, "XLA_FLAGS": flags}
    command = [sys.executable, Path(__file__).with_name(script)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return dict(line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("case", FOUND)
def test_a_mesh_gives_what_one_device_does(case):
    assert found("on_eight_devices.py")[case] == FOUND[case]


@pytest.mark.parametrize("case", ON_MESHES)
def test_a_mesh_parted_over_devices_gives_what_one_device_does(case):
    assert found("on_meshes.py")[case] == ON_MESHES[case]
