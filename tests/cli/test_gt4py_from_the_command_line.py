"""`tensorir lift --from gt4py module:program`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gt4py")

MODULE = """
import gt4py.next as gtx

K = gtx.Dimension("K", kind=gtx.DimensionKind.VERTICAL)
F = gtx.Field[[K], gtx.float64]


@gtx.field_operator
def up(a: F) -> F:
    return a(K + 1) - a


@gtx.program
def climb(a: F, out: F, n: gtx.int32):
    up(a, out=out, domain={K: (0, n)})
"""


def run(folder: Path, *args: str) -> tuple[int, str, str]:
    (folder / "climbing.py").write_text(MODULE)
    command = [sys.executable, "-W", "ignore", "-m", "tensorir", "lift", "--from", "gt4py", *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_program_is_printed_as_tensor_ir(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "climbing:climb", "--size", "K=65", "--size", "n=64")
    assert (code, err) == (0, "")
    assert "out ← ⟪K, 1⟫(a) - a;" in out
    assert "out: tensor<float, K[0:64]>, a: tensor<float, K[0:65]>" in out


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "climbing:clim")
    assert code == 2
    assert "error[C11]: 'climbing' has no program 'clim'.\nhelp: did you mean 'climb'?" in err
