"""Programs on more devices, with blocks of one size: no device sends more, holds more, or compiles more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("extents", ["4x8", pytest.param("16x32", marks=pytest.mark.nightly)])
def test_a_device_does_as_much_on_any_number_of_devices(extents):
    script = [sys.executable, str(Path(__file__).with_name("weak_scaling.py")), "4x4", extents]
    done = subprocess.run(script, capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-2000:]
    few, many = json.loads(done.stdout.splitlines()[-1])
    for name, few_devices in few.items():
        for figure in ("collectives", "sent", "arguments"):
            assert many[name][figure] == few_devices[figure], (name, figure)
        # XLA for CPUs parts loops into calls as it likes
        assert many[name]["temporaries"] <= 1.25 * few_devices["temporaries"], name
        assert many[name]["instructions"] <= 1.1 * few_devices["instructions"], name
    assert few["hdiff"]["collectives"]["collective-permute"] == 4 and few["hdiff"]["sent"] > 0
