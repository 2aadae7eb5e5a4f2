"""The command line as its user meets it: results in files, messages on standard error, exit codes."""

import gc
import io
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
import xarray as xr
from command import run

import tensorir as ti
from stencils import library
from stencils.cli.files import together, write_arrays

AVERAGE = """
// the mean of two neighbours
average(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>, w: tensor<float>) {
  out ← w × (⟪I, -1⟫(x) + ⟪I, 1⟫(x));
}
"""
X = np.array([0.0, 1.0, 4.0, 9.0, 16.0, 30.0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "average.fencil").write_text(AVERAGE, encoding="utf-8")
    grid = {"I": np.arange(6), "lon": ("I", np.linspace(7.0, 8.0, 6))}
    xr.DataArray(X, dims="I", coords=grid, attrs={"units": "m"}, name="x").to_netcdf("x.nc", engine="netcdf4")
    np.savez("x.npz", x=X)
    return tmp_path


def opened(path):
    with xr.open_dataset(path, engine="netcdf4") as data:
        return data.load()


def test_run_reads_and_writes_netcdf_with_coordinates_and_units(folder, capsys):
    code, out, err = run(capsys, "run", "average.fencil", "--input", "x.nc", "--set", "w=0.5", "--out", "y.nc")
    assert (code, err) == (0, "")
    assert out.startswith("out: I 4, float64, 2 to 19.5\naverage: ")
    data = opened("y.nc")
    np.testing.assert_array_equal(data["out"], 0.5 * (X[:-2] + X[2:]))
    np.testing.assert_array_equal(data["I"], [1, 2, 3, 4])
    assert "units" not in data["out"].attrs  # w may have any
    assert data["lon"].values[0] == pytest.approx(7.2)


def test_run_reads_and_writes_npz(folder, capsys):
    assert run(capsys, "run", "average.fencil", "-i", "x.npz", "--set", "w=1", "-o", "y.npz")[0] == 0
    with np.load("y.npz") as data:
        np.testing.assert_array_equal(data["out"], X[:-2] + X[2:])


def test_run_reads_the_big_endian_numbers_of_netcdf_3(folder, capsys):
    xr.Dataset({"x": ("I", X)}).to_netcdf("old.nc", engine="netcdf4", format="NETCDF3_CLASSIC")
    assert run(capsys, "run", "average.fencil", "-i", "old.nc", "--set", "w=0.5", "-o", "y.nc")[0] == 0
    np.testing.assert_array_equal(opened("y.nc")["out"], 0.5 * (X[:-2] + X[2:]))


def stepped(x, steps):
    for _ in range(steps):
        x = np.concatenate([x[:1], 0.5 * (x[:-2] + x[2:]), x[-1:]])
    return x


def test_steps_keep_the_boundary_rows(folder, capsys):
    arguments = ["average.fencil", "-i", "x.nc", "--set", "w=0.5", "--steps", "7", "--next", "x=out", "-o", "y.nc"]
    code, _, err = run(capsys, "run", *arguments)
    assert (code, err) == (0, "")  # and no progress bar where nobody looks
    np.testing.assert_allclose(opened("y.nc")["out"], stepped(X, 7), rtol=1e-14)


def test_snapshots_are_stacked_along_step(folder, capsys):
    arguments = ["average.fencil", "-i", "x.nc", "--set", "w=0.5", "--steps", "6", "--every", "2", "--next", "x=out"]
    assert run(capsys, "run", *arguments, "-o", "y.nc")[0] == 0
    data = opened("y.nc")
    np.testing.assert_array_equal(data["step"], [2, 4, 6])
    np.testing.assert_allclose(data["out"], [stepped(X, k) for k in (2, 4, 6)], rtol=1e-14)


def test_snapshots_have_the_dates_of_their_steps(folder, capsys):
    arguments = ["average.fencil", "-i", "x.nc", "--set", "w=0.5", "--steps", "4", "--every", "2", "--next", "x=out"]
    assert run(capsys, "run", *arguments, "--dt", "12 h", "--start", "2024-02-28", "-o", "y.nc")[0] == 0
    data = opened("y.nc")
    np.testing.assert_array_equal(data["time"], np.array(["2024-02-29", "2024-03-01"], "datetime64[ns]"))
    np.testing.assert_allclose(data["out"], [stepped(X, k) for k in (2, 4)], rtol=1e-14)
    assert run(capsys, "run", *arguments, "--dt", "0.5", "-o", "z.nc")[0] == 0
    np.testing.assert_array_equal(opened("z.nc")["time"], [1.0, 2.0])


def test_the_reference_backend_gives_the_same(folder, capsys):
    arguments = ["run", "average.fencil", "-i", "x.nc", "--set", "w=0.5", "--steps", "3", "--next", "x=out"]
    assert run(capsys, *arguments, "-o", "a.nc")[0] == 0
    assert run(capsys, *arguments, "-o", "b.nc", "--backend", "reference")[0] == 0
    np.testing.assert_allclose(opened("a.nc")["out"], opened("b.nc")["out"], rtol=1e-14)


def test_dims_that_the_program_does_not_know_are_mapped_over(folder, capsys):
    times = xr.DataArray(np.stack([X, 2 * X]), dims=("time", "I"), coords={"time": [10.0, 20.0]}, name="x")
    times.to_netcdf("times.nc", engine="netcdf4")
    assert run(capsys, "run", "average.fencil", "-i", "times.nc", "--set", "w=0.5", "-o", "y.nc")[0] == 0
    data = opened("y.nc")
    assert data["out"].dims == ("time", "I")
    np.testing.assert_array_equal(data["out"], 0.5 * np.stack([X[:-2] + X[2:], 2 * (X[:-2] + X[2:])]))
    np.testing.assert_array_equal(data["time"], [10.0, 20.0])


def test_a_picture_is_drawn(folder, capsys):
    assert run(capsys, "run", "average.fencil", "-i", "x.nc", "--set", "w=0.5", "--plot", "y.png")[0] == 0
    assert (folder / "y.png").read_bytes()[:4] == b"\x89PNG"


def test_types_are_converted_only_when_asked(folder, capsys):
    xr.Dataset({"x": ("I", X.astype("float32"))}).to_netcdf("single.nc", engine="netcdf4")
    code, _, err = run(capsys, "run", "average.fencil", "-i", "single.nc", "--set", "w=0.5")
    assert code == 2 and err.startswith("error[A02]: 'x' needs float64, and this is float32.")
    assert run(capsys, "run", "average.fencil", "-i", "single.nc", "--set", "w=0.5", "--cast")[0] == 0


def test_a_variable_of_another_name_is_given_to_a_parameter(folder, capsys):
    xr.Dataset({"height": ("I", X), "other": 1}).to_netcdf("named.nc", engine="netcdf4")
    assert run(capsys, "run", "average.fencil", "-i", "x=named.nc:height", "--set", "w=0.5")[0] == 0
    code, _, err = run(capsys, "run", "average.fencil", "-i", "named.nc", "--set", "w=0.5")
    assert code == 2 and "error[C05]: no variable of 'named.nc' has the name of a parameter" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "averege.fencil"],
         "error[F01]: there is no file 'averege.fencil'.\nhelp: did you mean 'average.fencil'?\n"),
        (["run", "average.fencil", "-i", "y.nc"], "error[F01]: there is no file 'y.nc'.\nhelp: did you mean 'x.nc'?\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "v=1"],
         "error[A08]: 'average' has no parameter 'v'.\nhelp: known here: 'out', 'x', 'w', 'n'.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=half"],
         "error[C04]: 'half' is not float64, which 'w' is.\nhelp: write --set w=1.\n"),
        (["run", "average.fencil", "-i", "x.nc"],
         "error[A11]: 'w' is not given: it is read.\nhelp: write --set w=1, a tensor<float>.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--steps", "3"],
         "error[C02]: 'average' cannot be repeated: no output feeds an input.\nhelp: say which: --next x=out.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--steps", "3", *2 * ("--next", "x=out")],
         "error[C01]: '--next x=' is given twice.\nhelp: leave one out.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", *2 * ("--rename", "I=I")],
         "error[C13]: '--rename I=' is given twice.\nhelp: leave one out.\n"),
        (["run", "average.fencil", "-i", "w=x.nc:x", "--set", "w=1"],
         "error[C04]: 'w' is given by '--input w=x.nc:x' and by '--set w=1'.\nhelp: leave one out.\n"),
        (["run", "average.fencil", *2 * ("-i", "x=x.nc"), "--set", "w=1"],
         "error[C04]: 'x' is given by '--input x=x.nc' and by '--input x=x.nc'.\nhelp: leave one out.\n"),
        (["run", "average.fencil", *2 * ("-i", "x.nc"), "--set", "w=1"],
         "error[C04]: 'x' is given by '--input x.nc' and by '--input x.nc'.\nhelp: say which: --input x=x.nc.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--steps", "3", "--next", "x=ou"],
         "error[C01]: 'ou' is not an output of 'average'.\nhelp: did you mean 'out'?\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--out", "y.txt"],
         "error[F03]: 'y.txt' ends in '.txt', and .nc, .zarr, .npz can be written.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--out", "no/y.nc"],
         "error[F01]: there is no folder 'no' to write 'y.nc' to.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--backend", "jex"],
         "error[A14]: there is no backend 'jex'.\nhelp: did you mean 'jax'?\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--every", "3"],
         "error[C03]: --every is about steps, and no number of them is given.\nhelp: add --steps 100.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--dt", "90 s"],
         "error[C03]: --dt is about steps, and no number of them is given.\nhelp: add --steps 100.\n"),
        (["run", "average.fencil", "-i", "x.nc", "--set", "w=1", "--checked", "--func", "main"],
         "error[C10]: 'average.fencil' is a program, and --func, --checked are not for one.\n"
         "help: leave them out.\n"),
        (["info", "average.fencil", "--set", "m=4"],
         "error[A08]: 'average' has no size 'm'.\nhelp: known here: 'n'.\n"),
        (["lower", "average.fencil", "--set", "n=4", "--set", "m=4"],
         "error[A08]: 'average' has no size 'm'.\nhelp: known here: 'n'.\n"),
        (["lower", "average.fencil", "--to", "llvm", "--set", "n=4"],
         "error[C06]: there is no form 'llvm'.\nhelp: use stablehlo, jaxpr, hlo, plan.\n"),
        (["check", "x.nc"],
         "error[C09]: 'x.nc' is a file of arrays, and this command takes a program (.fencil).\n"
         "help: give the program, and the file as its input: tensorir run program.fencil --input x.nc.\n"),
        (["check", "quite_another_name"],
         "error[F01]: there is no file 'quite_another_name'.\n"
         "help: look at its name, and at the folder where it is looked for.\n"),
    ],
)  # fmt: skip
def test_bad_input_is_told_and_exits_with_2(folder, capsys, arguments, message):
    assert run(capsys, *arguments) == (2, "", message)


def test_a_program_is_read_from_standard_input(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(AVERAGE))
    assert run(capsys, "check", "-") == (0, "average: well-formed, typed when n is known\n", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(AVERAGE))
    assert run(capsys, "run", "-", "-i", "x.nc", "--set", "w=0.5", "--out", "y.nc")[0] == 0
    np.testing.assert_array_equal(opened("y.nc")["out"], 0.5 * (X[:-2] + X[2:]))
    monkeypatch.setattr("sys.stdin", io.StringIO("f(out: tensor<float>) { out ← y; }"))
    assert run(capsys, "print", "-")[2].startswith("<standard input>:1:")


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_diagnostics_have_colours_where_they_are_asked_for(folder, capsys, monkeypatch, variables, coloured):
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plain = "error[F01]: there is no file 'averege.fencil'.\nhelp: did you mean 'average.fencil'?\n"
    with_marks = plain.replace("error[F01]:", "\033[1;31merror[F01]:\033[0m").replace("help:", "\033[1;36mhelp:\033[0m")
    assert run(capsys, "check", "averege.fencil")[2] == (with_marks if coloured else plain)


def test_completion_is_given_for_a_shell(capsys, monkeypatch):
    monkeypatch.setenv("_TENSORIR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tensorir ch")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run(capsys)[1].split() == ["check"]


def test_a_wrong_program_is_shown_where_it_is_wrong(folder, capsys):
    (folder / "wrong.fencil").write_text("f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) { out ← y; }")
    code, _, err = run(capsys, "check", "wrong.fencil")
    assert code == 2 and err.startswith("wrong.fencil:1:65: error[N01]: ")


def test_a_failed_run_leaves_the_output_as_it_was(folder, capsys):
    (folder / "fails.fencil").write_text(
        'f(out: tensor<float, I[0:6]>, x: tensor<float, I[0:6]>) { out ← assert_(x, x < 20.0, "too much"); }'
    )
    (folder / "y.nc").write_bytes(b"as it was")
    code, _, err = run(capsys, "run", "fails.fencil", "-i", "x.nc", "--out", "y.nc", "--overwrite")
    assert code == 1 and "error[R02]: too much" in err and "at I = 5" in err
    assert (folder / "y.nc").read_bytes() == b"as it was"
    assert sorted(p.name for p in folder.iterdir()) == ["average.fencil", "fails.fencil", "x.nc", "x.npz", "y.nc"]


def test_check_print_lower_and_info(folder, capsys):
    assert run(capsys, "check", "average.fencil") == (0, "average: well-formed, typed when n is known\n", "")
    code, text, _ = run(capsys, "print", "average.fencil", "--ascii")
    assert code == 0 and text.isascii() and "shift(I, -1)(x)" in text
    for form, sign in {
        "stablehlo": "stablehlo.slice",
        "jaxpr": "slice[",
        "hlo": "HloModule",
        "plan": "compiled for cpu",
    }.items():
        code, text, _ = run(capsys, "lower", "average.fencil", "--to", form, "--set", "n=9")
        assert code == 0 and sign in text
    code, text, _ = run(capsys, "info", "average.fencil")
    assert code == 0 and "x: tensor<float, I[0:n]>\n" in text
    code, text, _ = run(capsys, "info", "average.fencil", "--set", "n=9")
    assert code == 0 and "x: tensor<float, I[0:9]>, in, halo I 1+1" in text and "14 operations" in text


def test_every_program_of_the_library_is_well_formed(capsys):
    from importlib.resources import files

    for name in library.names():
        assert run(capsys, "check", str(files("stencils") / "programs" / f"{name}.fencil"))[0] == 0


def test_a_damaged_npz_file_is_named(folder, capsys):
    (folder / "bad.npz").write_bytes(b"PK\x03\x04 and then nothing of the kind")
    code, _, err = run(capsys, "run", "average.fencil", "-i", "bad.npz")
    assert code == 2 and "error[F02]: the file 'bad.npz' is damaged: it begins as npz, and is none." in err


def test_a_place_that_takes_no_files_is_named_as_it_was_given(tmp_path, monkeypatch):
    from pathlib import Path

    from stencils.cli import files
    from tensorir.runtime.errors import DiagnosticError

    def full(_):
        raise OSError(28, "No space left on device", "tmp1234.npz")

    monkeypatch.setattr(files, "_create_beside", full)
    told = r"'out\.npz' cannot be written: No space left on device"
    with pytest.raises(DiagnosticError, match=told), files.together() as write:
        write(Path("out.npz"), lambda to: None)


def test_a_disk_that_is_full_while_a_file_is_written_is_named_and_nothing_is_left(tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    (tmp_path / "out.npz").write_bytes(b"before")
    told = r"F04\]: '.*out\.npz' cannot be written: No space left on device"
    with pytest.raises(ti.DiagnosticError, match=told), together() as write:
        write(tmp_path / "out.npz", full)
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]
    assert (tmp_path / "out.npz").read_bytes() == b"before"


def test_a_file_is_kept_where_another_of_the_same_run_fails(folder, capsys):
    (folder / "sum.fencil").write_text(
        "s(out: tensor<float>, x: tensor<float, I[0:6]>) { out ← reduce(+, 0.0, I)(x); }"
    )
    (folder / "y.npz").write_bytes(b"before")
    code, _, err = run(capsys, "run", "sum.fencil", "-i", "x.npz", "-o", "y.npz", "--plot", "y.png", "--overwrite")
    assert code == 2 and "error[F05]: 'out' is a number, and there is nothing to draw." in err
    assert (folder / "y.npz").read_bytes() == b"before" and not (folder / "y.png").exists()
    assert not [p for p in folder.iterdir() if p.name.startswith("tmp")]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(folder, capsys):
    (folder / "real").mkdir()
    (folder / "y.npz").symlink_to(folder / "real" / "y.npz")
    assert run(capsys, "run", "average.fencil", "-i", "x.npz", "--set", "w=1", "-o", "y.npz")[0] == 0
    assert (folder / "y.npz").is_symlink() and (folder / "real" / "y.npz").is_file()


def test_more_steps_than_a_loop_counts_are_refused(folder, capsys):
    code, _, err = run(capsys, "run", "average.fencil", "-i", "x.npz", "--set", "w=1", "--steps", str(10**23))
    assert code == 2
    assert f"error[C03]: --steps {10**23} is no number of steps, which are 1 to 2,147,483,647." in err


def test_a_run_that_is_terminated_leaves_by_an_exception(folder, capsys, monkeypatch):
    from stencils.cli import look

    monkeypatch.setattr(look, "check", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run(capsys, "check", "average.fencil")[0] == 143
    finally:
        signal.signal(signal.SIGTERM, before)


class Finalised:
    """What is terminated while it is finalised."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def collected(*_):
    def callback(phase, info):
        gc.callbacks.remove(callback)
        signal.raise_signal(signal.SIGTERM)

    gc.callbacks.append(callback)
    gc.collect()
    time.sleep(5)


def forgotten(*_):
    class Referent:
        pass

    referent = Referent()
    weak = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGTERM))
    del referent
    time.sleep(5)
    return weak


@pytest.mark.parametrize(
    "where",
    [lambda *_: (bool(Finalised()), time.sleep(5)), collected, forgotten],
    ids=["finaliser", "collector", "weak reference"],
)
def test_a_run_is_terminated_where_exceptions_are_lost(folder, capsys, monkeypatch, where):
    from stencils.cli import look

    monkeypatch.setattr(look, "check", where)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run(capsys, "check", "average.fencil")[0] == 143
    finally:
        signal.signal(signal.SIGTERM, before)


def test_control_characters_of_a_text_are_shown_and_not_obeyed(folder, capsys):
    (folder / "bad.fencil").write_text("f(\x1b[31mx: tensor<float>) { x ← 1.0; }", encoding="utf-8")
    code, out, err = run(capsys, "check", "bad.fencil")
    assert code == 2 and "\x1b" not in out + err and "[31mx" in err


def test_a_name_is_no_formula_in_a_picture(folder):
    from stencils.cli.plot import plot

    field = xr.DataArray(np.ones((2, 3)), dims=("J", "I"), coords={"$\\frac{": ("I", [1.0, 2.0, 3.0])})
    with together() as write:
        plot(folder / "p.png", "a $title", {}, {"out": field}, write)
    assert (folder / "p.png").stat().st_size > 1000


def test_a_name_with_a_slash_is_refused(tmp_path):
    told = r"F06\]: 'a/b' is a name that no variable of a file has"
    with pytest.raises(ti.DiagnosticError, match=told), together() as write:
        write_arrays(tmp_path / "x.nc", {"a/b": np.ones(2)}, {}, write)


def test_commands_for_programs_say_so_of_a_kernel(folder, capsys):
    (folder / "kernel.py").write_text("import os\n", encoding="utf-8")
    for command in ("info", "lower"):
        code, _, err = run(capsys, command, "kernel.py")
        assert code == 2 and "'kernel.py' is a kernel, and this command takes a program (.fencil)." in err
    code, _, err = run(capsys, "lift", "average.fencil")
    assert code == 2 and "'average.fencil' is a program, and this command takes a kernel (.py)." in err


TWO = "f(a: tensor<float, I[1:5]>, b: tensor<float, I[0:3]>, x: tensor<float, I[0:5]>) { a ← ⟪I, -1⟫(x); b ← x; }"


def test_bare_arrays_are_written_to_netcdf_along_the_dims_of_the_program(folder, capsys):
    np.savez("x.npz", x=X)
    assert run(capsys, "run", "average.fencil", "-i", "x.npz", "--set", "w=0.5", "-o", "y.nc")[::2] == (0, "")
    with xr.open_dataset("y.nc", engine="netcdf4") as data:
        assert data["out"].dims == ("I",)
        np.testing.assert_array_equal(data["out"], 0.5 * (X[:-2] + X[2:]))


def test_results_on_different_intervals_share_no_dim_of_a_file(folder, capsys):
    (folder / "two.fencil").write_text(TWO, encoding="utf-8")
    x = np.arange(5.0)
    xr.Dataset({"x": ("I", x)}).to_netcdf("five.nc", engine="netcdf4")
    assert run(capsys, "run", "two.fencil", "-i", "five.nc", "-o", "y.nc")[::2] == (0, "")
    with xr.open_dataset("y.nc", engine="netcdf4") as data:
        assert (data["a"].dims, data["b"].dims) == (("I_a",), ("I_b",))
        np.testing.assert_array_equal(data["a"], x[:4])
        np.testing.assert_array_equal(data["b"], x[:3])


def test_a_line_is_drawn_over_its_coordinate(folder, capsys, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure.axes[0].lines[0].get_xdata()))
    xr.Dataset({"x": ("I", X)}, {"I": 0.5 * np.arange(len(X))}).to_netcdf("half.nc", engine="netcdf4")
    arguments = ["run", "average.fencil", "-i", "half.nc", "--set", "w=0.5", "--plot", "y.png"]
    assert run(capsys, *arguments)[::2] == (0, "")
    np.testing.assert_allclose(drawn[0], 0.5 * np.arange(1, len(X) - 1))


def test_a_number_that_cannot_be_drawn_leaves_nothing_written(folder, capsys):
    (folder / "sum.fencil").write_text(
        "total(out: tensor<float>, x: tensor<float, I[0:n]>) { out ← reduce(+, 0.0, I)(x); }", encoding="utf-8"
    )
    np.savez(folder / "x.npz", x=np.arange(4.0))
    code, _, error = run(capsys, "run", "sum.fencil", "-i", "x.npz", "--out", "sum.npz", "--plot", "sum.png")
    assert (code, error) == (
        2, "error[F05]: 'out' is a number, and there is nothing to draw.\nhelp: leave --plot out.\n"
    )  # fmt: skip
    assert not (folder / "sum.npz").exists()


BOTH = AVERAGE + AVERAGE.replace("average(", "wider(")
ADVICE = [
    (("lower", "average.fencil"), "help: give it a value: --set n=10."),
    (("run", "average.fencil", "--set", "w=1"), "help: give it by name: --set n=10."),
    (("run", "both.fencil"), "help: name the one that you want: --fencil average."),
    (("run", "average.fencil", "-i", "x.npz"), "help: write --set w=1, a tensor<float>."),
    (("run", "average.fencil", "--set", "w=1", "--set", "n=6"), "write --input x=arrays.npz, a tensor<float, I[0:6]>."),
    (("run", "average.fencil", "-i", "narrow.npz", "--set", "w=1"), "help: nothing is converted silently; add --cast."),
]


@pytest.mark.parametrize(("arguments", "advice"), ADVICE)
def test_what_is_advised_are_options(folder, capsys, arguments, advice):
    (folder / "both.fencil").write_text(BOTH, encoding="utf-8")
    np.savez("narrow.npz", x=X.astype("float32"))
    code, _, err = run(capsys, *arguments)
    assert code == 2 and advice in err


def test_the_package_is_the_command():
    def told(*command):
        found = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        return found.returncode, found.stdout, found.stderr

    assert told("-m", "tensorir", "check", "no.fencil") == told("-c", COMMAND, "check", "no.fencil")
    code, out, _ = told("-m", "tensorir", "run", "--help")
    assert code == 0 and "Usage: tensorir run" in out


COMMAND = "from stencils.cli import main; main()"


NARROW = "copy(out: tensor<int8, I[0:n]>, x: tensor<int8, I[0:n]>) { out ← x; }"


def test_a_cast_keeps_whole_numbers_or_is_refused(folder, capsys):
    (folder / "copy.fencil").write_text(NARROW, encoding="utf-8")
    np.savez("good.npz", x=np.array([44, -128, 127]))
    np.savez("bad.npz", x=np.array([44, 300, -500]))
    assert run(capsys, "run", "copy.fencil", "-i", "good.npz", "--cast", "-o", "y.npz")[0] == 0
    with np.load("y.npz") as data:
        assert data["out"].tolist() == [44, -128, 127]
    code, _, err = run(capsys, "run", "copy.fencil", "-i", "bad.npz", "--cast", "-o", "z.npz")
    assert (code, err) == (2, "error[A07]: 'x' is int8, which cannot hold -500.\nhelp: declare a wider type.\n")


@pytest.mark.parametrize("name", ["allow_pickle", "file", "args", "kwds"])
def test_an_output_of_any_name_is_in_the_file(folder, capsys, name):
    (folder / "named.fencil").write_text(AVERAGE.replace("out", name), encoding="utf-8")
    assert run(capsys, "run", "named.fencil", "-i", "x.npz", "--set", "w=1", "-o", "y.npz")[0] == 0
    with np.load("y.npz") as data:
        assert data.files == [name]
        np.testing.assert_array_equal(data[name], X[:-2] + X[2:])
