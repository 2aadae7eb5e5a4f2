"""Files on the command line as a scientist has them: dims, attributes, encodings, and what is there already."""

import os
import stat
import sys

import numpy as np
import pytest
import xarray as xr
from command import run

from stencils import data
from stencils.cli.files import together

LAPLACIAN = """
laplacian(out: tensor<float, J[1:n-1], I[1:m-1]>, h: tensor<float, J[0:n], I[0:m]>) {
  out ← ⟪I, 1⟫(h) + ⟪I, -1⟫(h) + ⟪J, 1⟫(h) + ⟪J, -1⟫(h) - 4.0 × h;
}
"""


def by_hand(h):
    return h[..., 1:-1, 2:] + h[..., 1:-1, :-2] + h[..., 2:, 1:-1] + h[..., :-2, 1:-1] - 4 * h[..., 1:-1, 1:-1]


def terrain():
    """Elevations along latitude and longitude, in single precision, compressed, with the history of a file."""
    h = data.topobathy().swap_dims(J="lat", I="lon").astype("float32").rename(lat="latitude", lon="longitude")
    h.encoding = {"zlib": True, "complevel": 4, "_FillValue": np.float32(-9999.0)}
    attrs = {"Conventions": "CF-1.11", "title": "Coast", "history": "2020-01-01T00:00:00Z made"}
    return xr.Dataset({"elevation": h}, attrs=attrs)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laplacian.fencil").write_text(LAPLACIAN, encoding="utf-8")
    terrain().to_netcdf("coast.nc", engine="netcdf4")
    return tmp_path


RUN = ("run", "laplacian.fencil", "-i", "h=coast.nc:elevation", "--cast", "-o", "y.nc")


def opened(path, **options):
    with xr.open_dataset(path, engine="netcdf4", **options) as found:
        return found.load()


def test_axes_are_found_by_attributes_and_said(folder, capsys):
    code, out, err = run(capsys, *RUN)
    assert (code, err) == (0, "")
    assert out.startswith(
        "latitude is J: it is the axis Y by its attributes.\nlongitude is I: it is the axis X by its attributes.\n"
    )
    h = terrain()["elevation"]
    found = opened("y.nc")["out"]
    assert found.dims == ("latitude", "longitude")
    np.testing.assert_allclose(found, by_hand(h.values.astype(float)))
    xr.testing.assert_identical(found.longitude, opened("coast.nc")["longitude"][1:-1])


def test_the_order_of_the_dims_of_a_file_does_not_matter(folder, capsys):
    terrain().transpose("longitude", "latitude").to_netcdf("turned.nc", engine="netcdf4")
    assert run(capsys, *RUN)[0] == 0
    code, _, _ = run(capsys, *RUN[:3], "h=turned.nc", "--cast", "-o", "z.nc")
    assert code == 0
    np.testing.assert_array_equal(opened("z.nc")["out"], opened("y.nc")["out"])


def test_dims_are_renamed_as_options_say(folder, capsys):
    xr.Dataset({"h": (("row", "column"), terrain()["elevation"].values.astype(float))}).to_netcdf("bare.nc")
    names = ("--rename", "row=J", "--rename", "column=I")
    code, out, _ = run(capsys, "run", "laplacian.fencil", "-i", "bare.nc", *names, "-o", "y.nc")
    assert code == 0 and out.startswith("out: row ")
    assert opened("y.nc")["out"].dims == ("row", "column")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "error[C14]: 'h' needs the dim J, and the dims of its array are row and column.\n"
             "help: say which it is: --rename row=J.\n"),
        (("--rename", "rows=J"), "error[C13]: no input has a dim 'rows'.\nhelp: did you mean 'row'?\n"),
        (("--rename", "row=L"), "error[C13]: the program has no dim 'L'.\nhelp: known here: 'J', 'I'.\n"),
        (("--rename", "row"), "error[C13]: '--rename row' does not say which dim is which.\n"
                              "help: write --rename latitude=J.\n"),
    ],
)  # fmt: skip
def test_dims_that_nothing_says_are_refused(folder, capsys, options, message):
    xr.Dataset({"h": (("row", "column"), np.ones((5, 5)))}).to_netcdf("bare.nc")
    assert run(capsys, "run", "laplacian.fencil", "-i", "bare.nc", *options) == (2, "", message)


def test_dims_that_the_program_does_not_have_are_said(folder, capsys):
    days = xr.date_range("2024-02-28", periods=3)
    h = terrain()["elevation"].astype(float).expand_dims(time=days).transpose("latitude", "time", "longitude")
    h = h.assign_coords(time=("time", days, {}, {"units": "hours since 1970-01-01", "calendar": "standard"}))
    (h * xr.DataArray([1.0, 2.0, 3.0], dims="time")).rename("h").to_netcdf("days.nc", engine="netcdf4")
    code, out, err = run(capsys, "run", "laplacian.fencil", "-i", "days.nc", "-o", "y.nc")
    assert (code, err) == (0, "")
    assert "time, which 'laplacian' does not have: once for each of its 3 points.\n" in out
    once = by_hand(terrain()["elevation"].values.astype(float))
    np.testing.assert_allclose(opened("y.nc")["out"], np.stack([once, 2 * once, 3 * once]))
    np.testing.assert_array_equal(opened("y.nc")["time"], days)
    assert opened("y.nc", decode_times=False)["time"].attrs["units"] == "hours since 1970-01-01"


def test_a_result_keeps_the_history_and_the_encodings(folder, capsys):
    assert run(capsys, *RUN)[0] == 0
    found = opened("y.nc")
    assert found.attrs["Conventions"] == "CF-1.11" and found.attrs["title"] == "Coast"
    new, old = found.attrs["history"].split("\n")
    assert old == "2020-01-01T00:00:00Z made"
    assert new[:4].isdigit() and new.partition(" ")[2] == (
        "tensorir run laplacian.fencil --input h=coast.nc:elevation --cast"
    )
    kept = found["out"].encoding
    assert kept["zlib"] and kept["complevel"] == 4 and kept["_FillValue"] == -9999.0
    assert found["out"].dtype == np.float64


def test_what_is_packed_into_small_integers_is_computed_and_written_in_full(folder, capsys):
    packed = terrain()
    packed["elevation"].encoding = {"dtype": "int16", "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -32768}
    packed.to_netcdf("packed.nc", engine="netcdf4")
    assert run(capsys, *RUN[:3], "h=packed.nc", "--cast", "-o", "y.nc")[::2] == (0, "")
    h = opened("packed.nc")["elevation"].values.astype(float)
    np.testing.assert_array_equal(opened("y.nc")["out"], by_hand(h))


def test_a_computed_number_that_is_the_fill_value_of_the_input_is_not_missing(folder, capsys):
    h = xr.DataArray(np.array([3.0, 4.0, 5.0]), dims="I", name="x", coords={"lat": ("I", [1.0, 1.5, 2.0])})
    h.encoding = {"_FillValue": 0.0, "zlib": True}
    h.coords["lat"].encoding = {"dtype": "int16", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    h.to_netcdf("x.nc", engine="netcdf4")
    text = "f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← x - 4.0; }"
    (folder / "f.fencil").write_text(text, encoding="utf-8")
    assert run(capsys, "run", "f.fencil", "-i", "x.nc", "-o", "y.nc")[::2] == (0, "")
    found = opened("y.nc")["y"]
    assert found.values.tolist() == [-1.0, 0.0, 1.0]
    assert found.encoding["zlib"] and found.lat.values.tolist() == [1.0, 1.5, 2.0]
    assert found.lat.encoding["scale_factor"] == 0.5  # the same places, stored as they were


def test_the_output_of_one_run_is_the_input_of_the_next(folder, capsys):
    assert run(capsys, *RUN)[0] == 0
    assert run(capsys, "run", "laplacian.fencil", "-i", "h=y.nc:out", "-o", "z.nc")[::2] == (0, "")
    h = terrain()["elevation"].values.astype(float)
    np.testing.assert_allclose(opened("z.nc")["out"], by_hand(by_hand(h)), atol=1e-9)
    assert opened("z.nc").attrs["history"].count("\n") == 2


def test_zarr_goes_in_and_out(folder, capsys):
    terrain().to_zarr("coast.zarr", consolidated=False)
    assert run(capsys, *RUN)[0] == 0
    code, _, err = run(capsys, *RUN[:3], "h=coast.zarr:elevation", "--cast", "-o", "y.zarr")
    assert (code, err) == (0, "")
    with xr.open_zarr("y.zarr") as found:
        np.testing.assert_array_equal(found["out"], opened("y.nc")["out"])
        assert found.attrs["title"] == "Coast" and found["out"].dims == ("latitude", "longitude")
    code, _, err = run(capsys, *RUN[:3], "h=coast.nc", "--cast", "-o", "y.zarr", "--overwrite")
    assert (code, err) == (0, "") and sorted(os.listdir()) == sorted(
        ["coast.nc", "coast.zarr", "laplacian.fencil", "y.nc", "y.zarr"]
    )
    code, _, err = run(capsys, *RUN[:3], "h=laplacian.zarr", "-o", "z.nc")
    assert code == 2 and "F01" in err


def test_a_folder_that_is_no_store_is_told(folder, capsys):
    (folder / "empty.zarr").mkdir()
    code, _, err = run(capsys, *RUN[:3], "h=empty.zarr")
    assert code == 2 and "error[F02]: 'empty.zarr' cannot be read as Zarr" in err


def test_files_are_as_open_as_the_umask_has_it(folder, capsys):
    before = os.umask(0o027)
    try:
        assert run(capsys, *RUN, "--plot", "y.png")[0] == 0
    finally:
        os.umask(before)
    assert [stat.S_IMODE(os.stat(name).st_mode) for name in ("y.nc", "y.png")] == [0o640, 0o640]
    os.chmod("y.nc", 0o604)
    assert run(capsys, *RUN, "--overwrite")[0] == 0
    assert stat.S_IMODE(os.stat("y.nc").st_mode) == 0o604


def test_what_is_there_is_replaced_only_when_asked_for(folder, capsys):
    (folder / "y.nc").write_bytes(b"as it was")
    told = "error[F07]: 'y.nc' is there already.\nhelp: add --overwrite, or name another file.\n"
    assert run(capsys, *RUN) == (2, "", told)
    assert (folder / "y.nc").read_bytes() == b"as it was"
    assert run(capsys, *RUN, "--overwrite")[0] == 0
    assert opened("y.nc")["out"].size


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 2)])
def test_on_a_terminal_it_is_asked(folder, capsys, monkeypatch, answer, code):
    from stencils.cli import app

    (folder / "y.nc").write_bytes(b"as it was")
    asked = []
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(app, "ask", lambda question: asked.append(question) or answer)
    assert run(capsys, *RUN)[0] == code
    assert asked == ["'y.nc' is there already. Replace it?"]
    assert ((folder / "y.nc").read_bytes() == b"as it was") == (not answer)


def test_a_file_that_is_open_elsewhere_is_replaced_beside_its_reader(folder, capsys):
    assert run(capsys, *RUN)[0] == 0
    with xr.open_dataset("y.nc", engine="netcdf4") as reader:
        assert run(capsys, *RUN[:3], "h=y.nc:out", "-o", "y.nc", "--overwrite")[::2] == (0, "")
        assert (
            reader["out"].shape == (89, 118)
            and float(reader["out"][0, 0]) == by_hand(terrain()["elevation"].values.astype(float))[0, 0]
        )
    assert opened("y.nc")["out"].shape == (87, 116)


def test_a_store_is_put_in_place_whole_or_not_at_all(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "before").write_text("1")

    def fails(to):
        raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match="F04"), together() as write:
        write(tmp_path / "x.zarr", fails)
    assert [p.name for p in tmp_path.rglob("*")] == ["x.zarr", "before"]


def test_several_files_are_checked_and_all_findings_told(folder, capsys):
    (folder / "wrong.fencil").write_text("f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) { out ← y; }")
    (folder / "other.fencil").write_text("f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) { out ← z; }")
    code, out, err = run(capsys, "check", "wrong.fencil", "laplacian.fencil", "other.fencil")
    assert code == 2 and out.startswith("laplacian: well-formed")
    assert "wrong.fencil:1:65: error[N01]" in err and "other.fencil:1:65: error[N01]" in err


def test_the_version_and_the_short_help(capsys):
    import tensorir

    assert run(capsys, "--version") == (0, f"tensorir {tensorir.__version__}\n", "")
    for arguments in (["-h"], ["run", "-h"]):
        code, out, _ = run(capsys, *arguments)
        assert code == 0 and "Usage: tensorir" in out
