"""`tensorir lift kernel.py` prints the tensor program and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from stencils.cli import main

KERNEL = """
n = TypeVar("n")

@T.prim_func
def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = A[i] * T.float32(2)
"""


def test_a_kernel_is_printed_as_a_tensor_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    with pytest.raises(SystemExit) as done:
        main(["lift", str(file), "--set", "n=8"])
    assert done.value.code == 0
    assert capsys.readouterr().out == (
        "main(A: tensor<float32, i[0:8]>, B: tensor<float32, i[0:8]>) {\n  B ← A × 2.0f;\n}\n\nline 6: i: parallel\n"
    )


def test_a_hazard_ends_with_its_diagnostic(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL.replace("A[i] * ", "A[i + 1] * "))
    with pytest.raises(SystemExit) as done:
        main(["lift", str(file), "--set", "n=8"])
    assert done.value.code == 2
    assert "A[8] is read, and 'A' has 8 elements." in capsys.readouterr().err
