"""`tensorir lift --from gt4py module:program`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

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


MESH = """
import gt4py.next as gtx
from gt4py.next import neighbor_sum

Vertex, Edge = gtx.Dimension("Vertex"), gtx.Dimension("Edge")
V2EDim = gtx.Dimension("V2E", kind=gtx.DimensionKind.LOCAL)
V2E = gtx.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))


@gtx.field_operator
def around(e: gtx.Field[[Edge], gtx.float64], x: gtx.float64) -> gtx.Field[[Vertex], gtx.float64]:
    return neighbor_sum(e(V2E), axis=V2EDim) * x
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


def execute(folder: Path, module: str, *args: str) -> tuple[int, str, str]:
    (folder / "written.py").write_text(module)
    command = [sys.executable, "-W", "ignore", "-m", "tensorir", "run", *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_program_runs_on_netcdf_and_keeps_coordinates(tmp_path: Path) -> None:
    a = xr.DataArray(np.arange(6.0) ** 2, dims="K", coords={"K": np.arange(6) * 10.0}, name="a")
    a.to_netcdf(tmp_path / "in.nc", engine="netcdf4")
    code, out, err = execute(tmp_path, MODULE, "written:climb", "-i", "in.nc", "--set", "n=4", "-o", "out.nc")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["out: K 6, float64, 0 to 7", "written to out.nc"]
    with xr.open_dataset(tmp_path / "out.nc", engine="netcdf4") as found:
        np.testing.assert_array_equal(found["out"], [1, 3, 5, 7, 0, 0])
        np.testing.assert_array_equal(found["K"], a["K"])


def test_an_operator_runs_with_a_table_of_the_file(tmp_path: Path) -> None:
    table = np.array([[0, 1, 2], [0, 3, -1]])
    xr.Dataset({"e": ("Edge", np.arange(4.0)), "V2E": (("Vertex", "slot"), table)}).to_netcdf(
        tmp_path / "mesh.nc", engine="netcdf4"
    )
    code, out, err = execute(tmp_path, MESH, "written:around", "-i", "mesh.nc", "--set", "x=2")
    assert (code, err) == (0, "")
    assert out == "out: Vertex 2, float64, 6 to 6\n"


def test_options_of_other_programs_are_refused(tmp_path: Path) -> None:
    code, _, err = execute(tmp_path, MODULE, "written:climb", "--steps", "3")
    assert code == 2
    assert "error[C10]: 'written:climb' is a program of GT4Py, and --steps is not for one." in err
