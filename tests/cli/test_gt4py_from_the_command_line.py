"""`tensorir lift --from gt4py module:program`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr
from command import run

pytest.importorskip("gt4py")
pytestmark = pytest.mark.filterwarnings("ignore")

CLIMBING = """
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
MODULES = {"climbing": CLIMBING, "around_vertices": MESH}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both modules, of which none is loaded before; GT4Py switches 64 bits on."""
    monkeypatch.chdir(tmp_path)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    with jax.enable_x64(True):
        yield tmp_path


def test_a_program_is_printed_as_tensor_ir(folder: Path, capsys: Any) -> None:
    code, out, err = run(capsys, "lift", "--from", "gt4py", "climbing:climb", "--size", "K=65", "--size", "n=64")
    assert (code, err) == (0, "")
    assert "out ← ⟪K, 1⟫(a) - a;" in out
    assert "out: tensor<float, K[0:64]>, a: tensor<float, K[0:65]>" in out


def test_a_program_that_is_not_there_is_named(folder: Path, capsys: Any) -> None:
    code, _, err = run(capsys, "lift", "--from", "gt4py", "climbing:clim")
    assert code == 2
    assert "error[C11]: 'climbing' has no program 'clim'.\nhelp: did you mean 'climb'?" in err


def test_a_program_runs_on_netcdf_and_keeps_coordinates(folder: Path, capsys: Any) -> None:
    a = xr.DataArray(np.arange(6.0) ** 2, dims="K", coords={"K": np.arange(6) * 10.0}, name="a")
    a.to_netcdf(folder / "in.nc", engine="netcdf4")
    code, out, err = run(capsys, "run", "climbing:climb", "-i", "in.nc", "--set", "n=4", "-o", "out.nc")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["out: K 6, float64, 0 to 7", "written to out.nc"]
    with xr.open_dataset(folder / "out.nc", engine="netcdf4") as found:
        np.testing.assert_array_equal(found["out"], [1, 3, 5, 7, 0, 0])
        np.testing.assert_array_equal(found["K"], a["K"])


def test_an_operator_runs_with_a_table_of_the_file(folder: Path, capsys: Any) -> None:
    table = np.array([[0, 1, 2], [0, 3, -1]])
    xr.Dataset({"e": ("Edge", np.arange(4.0)), "V2E": (("Vertex", "slot"), table)}).to_netcdf(
        folder / "mesh.nc", engine="netcdf4"
    )
    code, out, err = run(capsys, "run", "around_vertices:around", "-i", "mesh.nc", "--set", "x=2")
    assert (code, err) == (0, "")
    assert out == "out: Vertex 2, float64, 6 to 6\n"


def test_options_of_other_programs_are_refused(folder: Path, capsys: Any) -> None:
    code, _, err = run(capsys, "run", "climbing:climb", "--steps", "3")
    assert code == 2
    assert "error[C10]: 'climbing:climb' is a program of GT4Py, and --steps is not for one." in err


@pytest.mark.parametrize(
    ("text", "shown"), [("true", "2 to 10"), ("FALSE", "1 to 5"), ("yes", None), ("0", None), ("2.5", None)]
)
def test_a_truth_value_is_true_or_false(folder: Path, capsys: Any, text: str, shown: str | None) -> None:
    (folder / "switched.py").write_text(
        CLIMBING + "\n\n@gtx.field_operator\ndef doubled(a: F, twice: bool) -> F:\n    return 2.0 * a if twice else a\n"
    )
    xr.Dataset({"a": ("K", [1.0, 5.0])}).to_netcdf(folder / "in.nc", engine="netcdf4")
    code, out, err = run(capsys, "run", "switched:doubled", "-i", "in.nc", "--set", f"twice={text}")
    if shown is None:
        assert code == 2
        assert f"error[C04]: '{text}' is not bool, which 'twice' is." in err
    else:
        assert (code, err, out) == (0, "", f"out: K 2, float64, {shown}\n")


def test_a_whole_number_beyond_its_type_is_refused(folder: Path, capsys: Any) -> None:
    xr.Dataset({"a": ("K", np.arange(6.0))}).to_netcdf(folder / "in.nc", engine="netcdf4")
    code, _, err = run(capsys, "run", "climbing:climb", "-i", "in.nc", "--set", "n=3000000000")
    assert code == 2
    assert "error[C04]: '3000000000' is not int32, which 'n' is." in err
