"""`tensorir run model.py:step`: field operators of Python files on arrays of files, beside the same calls in Python."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils.cli.app import main

MODEL = """
import tensorir as ti

LAT, LON = ti.dims("lat lon")


@ti.field_operator
def lap(h):
    return h(LON + 1) + h(LON - 1) - 2.0 * h


@ti.field_operator
def step(h, rate):
    return h + rate * lap(ti.extend(h, {LON: 1}, ti.boundary.periodic(360.0)))


@ti.field_operator
def turn(u, v, c: float):
    return u + c * v, v - c * u


doubled = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← 2.0 × x; }")
number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model_of_heat.py").write_text(MODEL)
    h = xr.DataArray(
        np.arange(12.0).reshape(2, 6) ** 2, dims=("lat", "lon"),
        coords={"lat": [50.0, 40.0], "lon": np.arange(0.0, 360.0, 60.0)}, attrs={"units": "K"},
    )  # fmt: skip
    xr.Dataset({"h": h, "u": h, "v": h + 1.0}).to_netcdf(tmp_path / "x.nc", format="NETCDF3_64BIT")
    h.assign_coords(lon=h.lon + 30.0).rename("v").to_netcdf(tmp_path / "moved.nc")
    (tmp_path / "broken.py").write_text("step = 1\nx = 1 / 0\n")
    (tmp_path / "unread.py").write_text("def step(:\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tensorir(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    assert ended.value.code == 0


def test_steps_of_an_operator_read_a_forcing_at_their_times(folder: Path):
    times = np.datetime64("2026-01-01", "ns") + np.array([0, 2, 3]) * np.timedelta64(1, "D")
    rate = xr.DataArray([0.0, 0.2, 0.1], dims="time", coords={"time": times}, name="rate")
    rate.to_netcdf("rate.nc")
    options = ("x.nc", "--steps", "6", "--dt", "12 h", "--start", "2026-01-01", "--forcing", "rate.nc")
    tensorir("model_of_heat.py:step", *options, "--out", "out.nc")
    with xr.open_dataset("x.nc") as x, xr.open_dataset("out.nc") as found:
        h = x["h"].load()
        for k in range(6):
            now = rate.interp(time=times[0] + k * np.timedelta64(12, "h")).item()
            h = h + now * (h.roll(lon=1) + h.roll(lon=-1) - 2.0 * h)
        np.testing.assert_allclose(found["h"], h)


def test_an_operator_is_called_on_the_arrays_of_a_file(folder: Path):
    tensorir("model_of_heat.py:lap", "x.nc", "--out", "out.nc")
    with xr.open_dataset("x.nc") as x, xr.open_dataset("out.nc") as found:
        h = x["h"].load()
        np.testing.assert_allclose(found["out"], h[:, 2:].values + h[:, :-2].values - 2 * h[:, 1:-1].values)
        assert found["out"].lon.values.tolist() == [60.0, 120.0, 180.0, 240.0] and found["out"].units == "K"
        assert "tensorir run" in found.history


def test_bounds_of_coordinates_come_along_and_are_no_operands(folder: Path):
    with xr.open_dataset("x.nc") as x:
        data = x[["h"]].load()
    edges = np.stack([data.lon - 30.0, data.lon + 30.0], axis=1)
    data = data.assign(lon_bnds=(("lon", "side"), edges)).assign_coords(lon=data.lon.assign_attrs(bounds="lon_bnds"))
    data.rename(h="temperature").to_netcdf("bounded.nc")
    tensorir("model_of_heat.py:lap", "bounded.nc", "--out", "out.nc")
    with xr.open_dataset("out.nc") as found:
        assert set(found.data_vars) == {"out", "lon_bnds"} and found.lon.bounds == "lon_bnds"
        np.testing.assert_array_equal(found["lon_bnds"], edges[1:-1])


def test_steps_are_those_of_a_time_loop_with_dates(folder: Path, capsys: pytest.CaptureFixture[str]):
    tensorir("model_of_heat:step", "h=x.nc:h", "--set", "rate=0.1", "--steps", "4", "--every", "2", "--dt", "1 h",
             "--start", "2026-01-01", "--out", "out.nc")  # fmt: skip
    assert "h: time 3 × lat 2 × lon 6" in capsys.readouterr().out
    with xr.open_dataset("x.nc") as x, xr.open_dataset("out.nc") as found:
        want = x["h"].values
        for _ in range(4):
            want = want + 0.1 * (np.roll(want, 1, 1) + np.roll(want, -1, 1) - 2 * want)
        np.testing.assert_allclose(found["h"][-1], want, rtol=1e-12)
        assert str(found.time.values[-1]).startswith("2026-01-01T04")


def test_several_results_feed_the_first_arrays_or_those_that_next_says(folder: Path):
    tensorir("model_of_heat.py:turn", "x.nc", "--set", "c=0.5", "--steps", "2", "--out", "a.npz")
    tensorir("model_of_heat.py:turn", "x.nc", "--set", "c=0.5", "--steps", "2", "--next", "u=out_1", "--out", "b.npz")
    with xr.open_dataset("x.nc") as x, np.load("a.npz") as a, np.load("b.npz") as b:
        u, v = x["u"].values, x["v"].values
        once = u + 0.5 * v, v - 0.5 * u
        np.testing.assert_allclose(a["u"], once[0] + 0.5 * once[1])
        np.testing.assert_allclose(a["v"], once[1] - 0.5 * once[0])
        assert b.files == ["u"]
        np.testing.assert_allclose(b["u"], v - 0.5 * (v - 0.5 * u))


def test_a_fencil_of_a_module_is_a_program(folder: Path):
    np.savez("in.npz", x=np.ones(4))
    tensorir("model_of_heat.py:doubled", "in.npz", "--out", "out.npz")
    with np.load("out.npz") as found:
        assert found["y"].tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("model_of_heat.py:lop x.nc", "'model_of_heat.py' has no program 'lop'.\nhelp: did you mean 'lap'?"),
        ("model_of_haet.py:lap x.nc", "there is no file 'model_of_haet.py'.\nhelp: did you mean 'model_of_heat.py'?"),
        ("model_of_heat.py x.nc", "'model_of_heat.py' has field operators (lap, step, turn), and no kernel of "
         "TVMScript.\nhelp: run one on arrays: tensorir run model_of_heat.py:lap --input arrays.nc."),
        ("model_of_heat.py:lap x.nc --cast", "'model_of_heat.py:lap' is an operator, and --cast is not for one."),
        ("model_of_heat.py:lap x.nc --next h=out", "--next repeats an operator, and no number of steps is given."),
        ("model_of_heat.py:turn x.nc --set c=1 --steps 2 --next u=out_7", "'out_7' is not a result of 'turn'."),
        ("model_of_heat.py:step x.nc --set rate=fast", "'--set rate=fast' gives no number."),
        ("model_of_heat.py:step h=x.nc:h --set rate=1 --input rate=x.nc:h",
         "'rate' is given by '--input rate=x.nc:h' and by '--set rate=1'."),
        ("model_of_heat.py:step h=x.nc:h --set rate=1 --forcing rate=x.nc:h --steps 2",
         "'rate' is given by '--set rate=1' and by '--forcing rate=x.nc:h'."),
        ("model_of_heat.py:lap x.nc --rename lat", "'--rename lat' gives no dim."),
        ("model_of_heat.py:lap x.nc --rename lot=lon", "no input has a dim 'lot'.\nhelp: did you mean"),
        ("model_of_heat.py:number x.nc", "a program or operator of GT4Py is needed, and this is of type int."),
    ],
)  # fmt: skip
def test_bad_input_is_named(folder: Path, words: str, told: str):
    with pytest.raises(ti.DiagnosticError) as refused:
        from stencils.cli.app import app

        app(["run", *words.split()], standalone_mode=False)
    assert told in str(refused.value) and "stencils" not in str(refused.value)


@pytest.mark.parametrize("dims", [("time", "lat"), ("time",)])
def test_an_input_along_time_among_steps_is_told_to_be_a_forcing(
    folder: Path, capsys: pytest.CaptureFixture[str], dims
):
    times = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(1, "D")
    shape = {"time": 4, "lat": 2}
    rate = xr.DataArray(np.full([shape[d] for d in dims], 0.1), {"time": times}, dims, name="rate")
    rate.to_netcdf("rate.nc")
    words = ("run", "model_of_heat.py:step", "x.nc", "--input", "rate.nc", "--steps", "2", "--dt", "1 D")
    with pytest.raises(SystemExit) as ended:
        main([*words, "--start", "2026-01-01"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        "error[A20]: the step turns 'h' into one along time, of which 'rate' has records.",
        "help: give 'rate' as a forcing: --forcing instead of --input.",
    ]


def test_an_operator_on_two_processes_writes_what_it_does_on_one_device(folder: Path):
    words = ("run", "model_of_heat.py:step", "x.nc", "--set", "rate=0.1", "--steps", "5")
    tensorir(*words[1:], "--out", "one.nc")
    command = [sys.executable, "-m", "tensorir", *words, "--out", "two.nc", "--processes", "2", "--dims", "lon"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, timeout=200)
    assert "step, 5 steps: " in done.stdout and "on 2 devices" in done.stdout
    with xr.open_dataset("one.nc") as one, xr.open_dataset("two.nc") as two:
        np.testing.assert_allclose(two["h"], one["h"], rtol=1e-14)
        assert two["h"].attrs == one["h"].attrs and two["lon"].equals(one["lon"])
