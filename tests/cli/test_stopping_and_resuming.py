"""Runs of the command line that Ctrl-C stops, and that go on from what they left."""

import os
import signal

import numpy as np
import pytest
import xarray as xr

from stencils.cli import main, resuming

AVERAGE = """
average(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>, w: tensor<float>) {
  out ← w × (⟪I, -1⟫(x) + ⟪I, 1⟫(x));
}
"""
X = np.random.default_rng(3).normal(size=40)
RUN = ("run", "average.fencil", "-i", "x.nc", "--set", "w=0.5", "--next", "x=out", "--steps", "60", "--every", "7")


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code or 0
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "average.fencil").write_text(AVERAGE, encoding="utf-8")
    xr.DataArray(X, dims="I", attrs={"units": "m"}, name="x").to_netcdf("x.nc", engine="netcdf4")
    return tmp_path


@pytest.fixture
def stops(monkeypatch):
    """Ctrl-C, or another signal, while the snapshot after so many steps is taken."""

    def at(count, number=signal.SIGINT):
        held, taken = resuming._copy_to_host, []

        def interrupting(state):
            taken.append(state)
            if len(taken) == count // 7:
                signal.raise_signal(number)
            return held(state)

        monkeypatch.setattr(resuming, "_copy_to_host", interrupting)

    return at


def opened(path):
    with xr.open_dataset(path, engine="netcdf4") as data:
        return data.load()


@pytest.mark.parametrize("backend", ["jax", "reference"])
def test_a_queue_that_ends_a_run_finds_its_state_left(folder, capsys, stops, backend):
    stops(14, signal.SIGTERM)
    code, _, err = run(capsys, *RUN, "--backend", backend, "-o", "y.nc")
    assert code == 128 + signal.SIGTERM and err.startswith("stopped after 14 of 60 steps; add --resume y.resume.npz")
    assert (folder / "y.resume.npz").exists()


@pytest.mark.parametrize("backend", ["jax", "reference"])
def test_a_run_that_is_stopped_twice_ends_with_the_same_bits(folder, capsys, stops, backend):
    run_it = (*RUN, "--backend", backend)
    assert run(capsys, *run_it, "-o", "whole.nc")[0] == 0
    stops(14)
    code, _, err = run(capsys, *run_it, "-o", "y.nc")
    assert code == 130
    assert err == (
        "stopped after 14 of 60 steps; add --resume y.resume.npz to the same command, and it goes on from there.\n"
    )
    assert sorted(os.listdir()) == ["average.fencil", "whole.nc", "x.nc", "y.resume.npz"]
    stops(21)
    code, _, err = run(capsys, *run_it, "-o", "y.nc", "--resume", "y.resume.npz")
    assert code == 130 and err.startswith("stopped after 35 of 60 steps; add --resume y.resume.npz")
    stops(10**6)
    assert run(capsys, *run_it, "-o", "y.nc", "--resume", "y.resume.npz")[::2] == (0, "")
    whole, found = opened("whole.nc"), opened("y.nc")
    np.testing.assert_array_equal(found["step"], np.arange(7, 61, 7))
    assert found["out"].identical(whole["out"])


def test_a_signal_in_the_last_step_before_a_snapshot_stops_there(folder, capsys, stops, monkeypatch):
    run_it, once = (*RUN, "--backend", "reference", "-o", "y.nc"), resuming.Steps._once.fget
    steps: list[int] = []

    def interrupting(self):
        def step(now):
            steps.append(1)
            if len(steps) == 10:
                signal.raise_signal(signal.SIGINT)
            return once(self)(now)

        return step

    monkeypatch.setattr(resuming.Steps, "_once", property(interrupting))
    code, _, err = run(capsys, *run_it)
    assert code == 130 and err.startswith("stopped after 10 of 60 steps")
    stops(7)  # the first snapshot, after step 14
    code, _, err = run(capsys, *run_it, "--resume", "y.resume.npz")
    assert code == 130 and err.startswith("stopped after 14 of 60 steps")


@pytest.mark.parametrize(
    ("times", "clock"),
    [
        (np.datetime64("2000-01-01", "ns") + np.array([0, 3, 40]) * np.timedelta64(1, "D"), ("1 D", "2000-01-01")),
        ([0.0, 3.0, 40.0], ("0.5", None)),
    ],
    ids=["dates", "numbers"],
)
def test_a_run_with_a_forcing_reads_it_at_its_times_and_goes_on_there(folder, capsys, stops, times, clock):
    w = xr.DataArray([0.5, 0.4, 0.3], dims="time", coords={"time": times}, name="w")
    w.to_dataset().to_zarr("w.zarr", zarr_format=2)
    dt, start = clock
    words = ("run", "average.fencil", "-i", "x.nc", "--next", "x=out", "--steps", "30", "--every", "7")
    run_it = (*words, "--forcing", "w.zarr", "--dt", dt, *(["--start", start] if start else []))
    assert run(capsys, *run_it, "-o", "whole.nc")[::2] == (0, "")
    x = X.copy()
    for k in range(28):
        now = w.interp(time=times[0] + k * (np.timedelta64(1, "D") if start else 0.5)).item()
        x[1:-1] = now * (x[:-2] + x[2:])
    whole = opened("whole.nc")
    np.testing.assert_allclose(whole["out"][-1], x, rtol=1e-12)
    stops(14)
    assert run(capsys, *run_it, "-o", "y.nc")[0] == 130
    stops(10**6)
    assert run(capsys, *run_it, "-o", "y.nc", "--resume", "y.resume.npz")[::2] == (0, "")
    assert opened("y.nc")["out"].identical(whole["out"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--forcing", "x=x.nc"), "'x' of --forcing has no dim 'time'"),
        (("--forcing", "x=t.nc", "--backend", "reference"), "--forcing is for programs that XLA runs"),
        (("--forcing", "t.nc"), "'x' is what steps change, and --forcing gives it"),
    ],
)
def test_a_forcing_that_is_none_is_refused(folder, capsys, words, message):
    xr.DataArray(np.ones((2, 40)), dims=("time", "I"), coords={"time": [0.0, 99.0]}, name="x").to_netcdf("t.nc")
    xr.DataArray(0.5, name="w").to_netcdf("w.nc")
    words = ("-i", "w.nc", *words) if words == ("--forcing", "t.nc") else ("--set", "w=0.5", *words)
    code, _, err = run(capsys, "run", "average.fencil", "--next", "x=out", "--steps", "60", *words)
    assert code == 2 and message in err


def test_what_another_run_left_is_kept_and_not_taken(folder, capsys, stops):
    stops(14)
    assert run(capsys, *RUN, "-o", "y.nc")[0] == 130
    kept = (folder / "y.resume.npz").read_bytes()
    stops(7)
    code, _, err = run(capsys, *RUN, "-o", "y.nc")
    assert code == 130 and "add --resume y-2.resume.npz" in err
    assert (folder / "y.resume.npz").read_bytes() == kept
    (xr.open_dataset("x.nc")["x"] + 1.0).to_netcdf("other.nc", engine="netcdf4")
    other = [{"x.nc": "other.nc"}.get(word, word) for word in RUN]
    assert run(capsys, *other, "--resume", "y.resume.npz") == (
        2, "",
        "error[F10]: 'y.resume.npz' was left by another run: of another program, other arrays, or another --every.\n"
        "help: repeat the command that was stopped, or leave --resume out.\n",
    )  # fmt: skip
    fewer = [{"60": "10"}.get(word, word) for word in RUN]
    code, _, err = run(capsys, *fewer, "--resume", "y.resume.npz")
    assert code == 2 and "error[F10]: 'y.resume.npz' has 14 steps done, and 10 are asked for." in err
    (folder / "bad.npz").write_bytes(b"nothing")
    code, _, err = run(capsys, *RUN, "--resume", "bad.npz")
    assert code == 2 and err.startswith("error[F10]: 'bad.npz' holds no run that was stopped.")


def test_a_run_that_is_stopped_goes_on_to_more_steps(folder, capsys, stops):
    stops(14)
    assert run(capsys, *RUN, "-o", "y.nc")[0] == 130
    stops(10**6)
    more = [{"60": "70"}.get(word, word) for word in RUN]
    assert run(capsys, *more, "-o", "y.nc", "--resume", "y.resume.npz")[0] == 0
    assert run(capsys, *more, "-o", "z.nc")[0] == 0
    assert opened("y.nc")["out"].identical(opened("z.nc")["out"])
