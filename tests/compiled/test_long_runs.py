"""Long runs: stopped, killed, taken up again, and written as they come."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import types

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from lowering.loops import progress
from lowering.loops.progress import Bar

I, J = ti.dims("I J")


@ti.field_operator
def diffuse(h):
    wide = ti.extend(h, {I: 1, J: 1}, ti.boundary.periodic())
    return h + 0.1 * (wide(I + 1) + wide(I - 1) + wide(J + 1) + wide(J - 1) - 4.0 * h)


def hills(n=32):
    values = np.random.default_rng(0).normal(size=(n, n))
    return xr.DataArray(values, dims=("I", "J"), name="h", attrs={"units": "m"})


def by_numpy(h, steps):
    for _ in range(steps):
        around = sum(np.roll(h, s, a) for a in (0, 1) for s in (1, -1))
        h = h + 0.1 * (around - 4.0 * h)
    return h


def interrupted_after(seconds, run):
    """The result of a run that gets Ctrl-C."""
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(ti.Interrupted) as stopped:
            run()
        return stopped.value
    finally:
        timer.cancel()


def test_an_interrupt_of_two_million_steps_is_answered_with_the_last_whole_state():
    h = hills()
    ti.iterate(diffuse, h, 3, progress=False)
    stopped = interrupted_after(1.0, lambda: ti.iterate(diffuse, h, 2_000_000, progress=False))
    assert 0 < stopped.steps < 2_000_000
    assert str(stopped) == f"stopped after {stopped.steps:,} of 2,000,000 steps; .state is the state after them"
    xr.testing.assert_identical(stopped.state, ti.iterate(diffuse, h, stopped.steps, progress=False))


def test_a_queue_that_ends_a_process_leaves_the_state_and_whoever_handles_the_signal_keeps_it(tmp_path):
    def stop(k, _):
        signal.raise_signal(signal.SIGTERM)

    run = lambda n, callback: ti.iterate(
        lambda h: h + 1.0, np.zeros(2), n, every=3, callback=callback, checkpoint_dir=tmp_path, progress=False
    )
    with pytest.raises(ti.Interrupted) as stopped:
        run(9, stop)
    assert (stopped.value.signal, stopped.value.steps) == (signal.SIGTERM, 3)
    assert stopped.value.state.tolist() == [3.0, 3.0]
    seen = []
    assert run(9, lambda k, _: seen.append(k)).tolist() == [9.0, 9.0] and seen == [6, 9]
    own = []
    before = signal.signal(signal.SIGTERM, lambda *_: own.append(1))
    try:
        assert (
            ti.iterate(lambda h: h + 1.0, np.zeros(2), 2, every=1, callback=stop, progress=False).tolist() == [2.0] * 2
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert own == [1, 1]


def test_an_interrupted_run_may_return():
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(UserWarning, match=r"stopped after [\d,]+ of 2,000,000 steps"):
        last, kept = ti.iterate(diffuse, hills(), 2_000_000, keep=True, progress=False, on_interrupt="return")
    assert last.dims == ("I", "J") and kept.sizes["time"] >= 1


def test_the_handler_of_ctrl_c_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    ti.iterate(diffuse, hills(), 3, progress=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_steps_in_chunks_are_the_steps():
    h = hills(8)
    found = ti.iterate(diffuse, h, 37, every=5, callback=lambda k, s: None, progress=False)
    np.testing.assert_allclose(found, by_numpy(h.values, 37), rtol=1e-12, atol=1e-14)


def test_the_bar_counts_steps_that_are_done(capsys):
    seen = []
    ti.iterate(
        diffuse, hills(8), 20, every=5, callback=lambda k, s: seen.append(capsys.readouterr().err), progress=True
    )
    counts = [int(text.rpartition("| ")[2].split(" of ")[0]) for text in seen if "of 20" in text]
    assert counts == sorted(counts) and counts[-1] == 20


def test_snapshots_are_written_as_they_come(tmp_path):
    path, seen = tmp_path / "run.nc", []

    def look(k, _):
        with xr.open_dataset(path) as file:
            seen.append(file.sizes["time"])

    h = hills(8)
    last, kept = ti.iterate(
        diffuse, h, 20, every=5, keep=lambda h: {"h": h}, dt=0.5, to=path, callback=look, progress=False
    )
    assert seen == [2, 3, 4, 5]
    with kept:
        np.testing.assert_array_equal(kept.time, [0.0, 2.5, 5.0, 7.5, 10.0])
        for k in range(5):
            np.testing.assert_allclose(kept["h"][k], by_numpy(h.values, 5 * k), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(kept["h"][-1], last)
        assert kept["h"].attrs["units"] == "m"


MEMORY = """
import json, sys, numpy as np, psutil, tensorir as ti
used, process = [], psutil.Process()
_, kept = ti.iterate(lambda h: 0.999 * h + 0.001, np.zeros((64, 64)), 1_000_000, every=10_000, keep=True,
                     to=sys.argv[1], callback=lambda k, _: used.append(process.memory_info().rss), progress=False)
with kept:
    assert kept.sizes["time"] == 101
print(json.dumps(used))
"""


def test_memory_does_not_grow_with_the_number_of_steps(tmp_path):
    # a process of its own: where the heap is large, cyclic garbage waits long for its collection
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "run.nc")]
    used = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout)
    assert max(used[20:]) - used[10] < 16 * 2**20  # the snapshots alone are 3.3 MB, of states of 32 KB


RUN = """
import sys, time, numpy as np, tensorir as ti
sys.path.insert(0, {folder!r})
from test_long_runs import diffuse, hills
last, kept = ti.iterate(diffuse, hills(), {n}, every={every}, keep=True, to={path!r}, checkpoint_dir={place!r},
                        checkpoint_every=2_000, progress=False,
                        callback=lambda k, s: (print(k, flush=True), time.sleep(0.1)))
kept.close()
np.save({out!r}, last.values)
"""


def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path):
    n, every = 60_000, 5_000
    names = {"path": str(tmp_path / "run.nc"), "place": str(tmp_path / "state"), "out": str(tmp_path / "last.npy")}
    text = RUN.format(folder=os.path.dirname(__file__), n=n, every=every, **names)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            if any((tmp_path / "state").glob("checkpoint-*[1-9]*[0-9]")):
                break
        process.kill()
    done = max(int(p.name.removeprefix("checkpoint-")) for p in (tmp_path / "state").glob("checkpoint-*[0-9]"))
    assert 0 < done < n
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, timeout=120)
    expected, kept = ti.iterate(diffuse, hills(), n, every=every, keep=True, progress=False)
    np.testing.assert_array_equal(np.load(names["out"]), expected)
    with xr.open_dataset(names["path"]) as found:
        np.testing.assert_array_equal(found["h"], kept["h"])
        np.testing.assert_array_equal(found["time"], kept["time"])


def refused(**options):
    with pytest.raises(ti.DiagnosticError) as found:
        ti.iterate(lambda h: h, np.ones(3), 4, progress=False, **options)
    return str(found.value)


def test_what_would_be_lost_is_refused(tmp_path):
    (tmp_path / "there.nc").touch()
    assert refused(keep=True, to=tmp_path / "there.nc") == (
        f"error[A31]: '{tmp_path}/there.nc' is there already.\nhelp: remove it, or name another file."
    )
    assert refused(keep=True, checkpoint_dir=tmp_path) == (
        'error[A31]: what is kept would be lost with the process.\nhelp: write it: to="run.nc".'
    )
    assert refused(to=tmp_path / "x.nc") == (
        "error[A31]: nothing is kept that could be written.\nhelp: say what: keep=True."
    )
    assert refused(on_interrupt="stop") == 'error[A19]: on_interrupt is \'stop\'.\nhelp: it is "raise" or "return".'


def rising(rate):
    return lambda h: h + rate


def total(h):
    return {"total": h.sum()}


RISING = {"step": rising(1.0), "state": xr.DataArray(np.zeros(3), {"x": [0.0, 0.5, 1.0]}, name="h"), "n": 4}
OTHERWISE = {
    "of another rate": ({"step": rising(2.0)}, "another step"),
    "of other code": ({"step": lambda h: 1.0 + h * h}, "another step"),
    "of another state": ({"state": RISING["state"] + 1.0}, "another state"),
    "at other places": ({"state": RISING["state"].assign_coords(x=[0.0, 1.0, 2.0])}, "another labels"),
    "of other steps": ({"dt": "60 s"}, "another dt (90000000000 nanoseconds, and here 60000000000 nanoseconds)"),
    "from another date": (
        {"start": "2026-01-02"}, "another start (2026-01-01T00:00:00.000000000, and here 2026-01-02T00:00:00.000000000)"
    ),
    "of which more is kept": ({"keep": lambda h: {"mean": h.mean()}}, "another keep"),
    "of which all is kept": ({"keep": True}, "another keep"),
    "kept more often": ({"every": 1}, "another every (2, and here 1)"),
    "of several": ({"step": rising(3.0), "every": 1, "keep": True}, "another step and keep"),
}  # fmt: skip


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """Four steps in a folder, and a way to call the same again with other options."""
    folder = tmp_path_factory.mktemp("run")

    def run(**options):
        given = {"dt": "90 s", "start": "2026-01-01", "every": 2, "keep": total, "to": folder / "run.nc", **options}
        step, state, n = (given.pop(name, RISING[name]) for name in ("step", "state", "n"))
        return ti.iterate(step, state, n, checkpoint_dir=folder / "state", progress=False, **given)

    run()
    return run


@pytest.mark.parametrize("case", OTHERWISE)
def test_what_decides_a_run_is_what_a_folder_goes_on_from(a_run, case):
    options, told = OTHERWISE[case]
    with pytest.raises(ti.DiagnosticError) as found:
        a_run(**options)
    (one,) = found.value.diagnostics
    assert one.code == "A30" and one.message.endswith(f"holds the checkpoint of a run that began with {told}.")
    assert one.help == "give each run a folder of its own, or remove it."


def test_a_run_goes_on_to_more_steps_and_not_back_to_fewer(a_run, tmp_path):
    with pytest.raises(ti.DiagnosticError, match=r"holds the state after 4 steps, and 3 are asked for\."):
        a_run(n=3)
    with pytest.raises(ti.DiagnosticError, match=r"the run goes on after 4 steps, and '.*other\.nc'"):
        a_run(n=6, to=tmp_path / "other.nc")
    last, kept = a_run(n=6, step=rising(1.0))
    assert last.values.tolist() == [6.0] * 3 and kept["total"].values.tolist() == [0.0, 6.0, 12.0, 18.0]


def test_snapshots_stay_as_far_apart_when_a_run_goes_on(tmp_path):
    run = lambda n: ti.iterate(
        rising(1.0), np.zeros(1), n, keep=True, to=tmp_path / "run.nc", checkpoint_dir=tmp_path, progress=False
    )  # fmt: skip
    run(100)
    _, kept = run(204)
    np.testing.assert_array_equal(kept["state"][:, 0], range(0, 205, 2))
    np.testing.assert_array_equal(kept["time"], range(0, 205, 2))


def test_a_state_of_any_element_type_is_kept_bit_for_bit(tmp_path):
    state = (np.arange(3, dtype="int8"), jax.numpy.ones((), "bfloat16"), np.array(True))
    found = [
        ti.iterate(lambda s: s, state, n, checkpoint_dir=tmp_path, progress=False) for n in (2, 5)
    ]  # fmt: skip
    assert [(x.dtype, np.asarray(x).tobytes()) for x in found[0]] == [
        (x.dtype, np.asarray(x).tobytes()) for x in found[1]
    ]


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_what_was_kept_does_not_hold_the_file_of_a_run_that_goes_on(tmp_path, name):
    run = lambda n: ti.iterate(
        lambda h: 2.0 * h, xr.DataArray([1.0, 3.0], dims="I", name="h"), n, every=1, keep=True, to=tmp_path / name,
        checkpoint_dir=tmp_path / "state", progress=False,
    )[1]  # fmt: skip
    first = run(2)
    assert first["h"].isel(I=0).values.tolist() == [1.0, 2.0, 4.0]
    second = run(4)
    assert second["h"][:, 0].values.tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert first["h"].isel(time=[2, 0], I=slice(1, None)).values.tolist() == [[12.0], [3.0]]
    xr.testing.assert_identical(pickle.loads(pickle.dumps(first)), first)
    assert first.sizes["time"] == 3 and first.load()["h"].shape == (3, 2)  # what it had


def test_who_else_has_the_file_open_is_told_to_close_it(tmp_path):
    run = lambda n: ti.iterate(
        lambda h: 2.0 * h, np.ones(2), n, every=1, keep=True, to=tmp_path / "run.nc",
        checkpoint_dir=tmp_path / "state", progress=False,
    )  # fmt: skip
    run(1)
    with xr.open_dataset(tmp_path / "run.nc"), pytest.raises(ti.DiagnosticError) as found:
        run(2)
    assert str(found.value).replace(f"{tmp_path}/", "") == (
        "error[A31]: 'run.nc' cannot be opened for the next snapshot: it is open elsewhere, or is no NetCDF.\n"
        "help: close the Dataset, or end the program, that has it open."
    )


# What a bar draws on a terminal and in a notebook.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_rich_draws_the_steps_that_are_done(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bar = Bar(10, patience=0.0, label="over time")
    bar.move(4)
    assert "over time" in sys.stderr.getvalue() and " 4/10" in sys.stderr.getvalue()
    bar.close()
    assert sys.stderr.getvalue().endswith("\x1b[?25h")  # the cursor is there again


@pytest.fixture
def notebook(monkeypatch):
    """A kernel that notes what is displayed and what that is replaced by."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    shell = types.SimpleNamespace(kernel=None)
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return shown


def test_in_a_notebook_one_output_is_replaced_and_empty_in_the_end(notebook, capsys):
    assert progress.is_shown(None)
    bar = Bar(10, patience=0.0)
    bar.move(4)
    bar.move(10)
    bar.close()
    assert [data["text/plain"].partition(" in ")[0][-8:] for data in notebook] == ["", " 4 of 10", "10 of 10", ""]
    assert "4/10" in notebook[1]["text/html"] and notebook[1]["text/html"].count("<pre>") == 1
    assert notebook[-1] == {"text/plain": ""}
    assert capsys.readouterr() == ("", "")


def test_without_rich_the_bar_is_a_line_of_text(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_has_rich", lambda: False)
    bar = Bar(10, patience=0.0)
    bar.move(5)
    assert notebook[1]["text/html"].startswith("<pre>|###############               | 5 of 10 in ")
    monkeypatch.setattr(progress, "_in_notebook", lambda: False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Bar(10, patience=0.0)
    bar.move(5)
    bar.close()
    assert sys.stderr.getvalue().startswith("\r|###############               | 5 of 10 in ")


def test_a_run_that_is_over_at_once_draws_nothing(notebook):
    bar = Bar(10)
    bar.move(10)
    bar.close()
    assert notebook == []
