"""Long time loops on several processes of this machine: undisturbed, stopped, with errors, killed and gone on."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("worker.py")
STEPS = 1500


STARTED = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Processes of a test that fails end with it."""
    yield
    for p in STARTED:
        p.kill()
        for pipe in (p.stdout, p.stderr):
            pipe.close()
        p.wait()
    STARTED.clear()


def start(count, **options):
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    STARTED.extend(
        subprocess.Popen(
            [sys.executable, str(WORKER), str(k), str(count), str(port), json.dumps(options)], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for k in range(count)
    )  # fmt: skip
    return STARTED[-count:]


def said(process, timeout=100):
    """The facts that a process says until its end."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"no end within {timeout} s: {out} {err[-2000:]}")
    facts = {"code": process.returncode, "err": err[-2000:]}
    for line in out.splitlines():
        facts |= json.loads(line) if line.startswith("{") else {}
    return facts


def until_it_runs(processes):
    """Wait for the first report of each, behind what JAX's own libraries print."""
    for p in processes:
        assert any("began" in line for line in p.stdout)


@pytest.fixture(scope="module")
def undisturbed():
    (alone,) = (said(p) for p in start(1, steps=STEPS))
    return alone["digest"]


def test_a_loop_with_one_slow_process_has_the_bits_of_one_alone(undisturbed):
    for facts in [said(p) for p in start(2, steps=STEPS, slow=0.01)]:
        assert facts.get("digest") == undisturbed, facts


@pytest.mark.parametrize("victims", [[1], [0, 1]], ids=["one", "all"])
def test_a_signal_stops_all_after_the_same_step(victims):
    processes = start(2, steps=10**8)
    until_it_runs(processes)
    for v in victims:
        processes[v].send_signal(signal.SIGTERM)
    stopped = [said(p, 30) for p in processes]
    assert stopped[0].get("stopped") == stopped[1].get("stopped") is not None, stopped
    assert {facts["signal"] for facts in stopped} == {signal.SIGTERM}


@pytest.mark.parametrize("steps", [10**8, 200], ids=["on the way", "after the last step"])
def test_an_error_of_one_process_ends_all(steps):
    first, second = [said(p, 60) for p in start(2, steps=steps, fails=200)]
    assert second["problem"] == "the disk of this process is full" and first["seen"] == second["seen"]
    assert first["problem"].startswith("error[A48]: another process of this run ended with an error, after 200 of")


def test_a_process_that_is_gone_is_said_and_the_run_goes_on_on_another_number(undisturbed, tmp_path):
    options = {"steps": STEPS, "folder": str(tmp_path), "slow": 0.1, "every": 10}
    processes = start(2, **options)
    until_it_runs(processes)
    before = (tmp_path / "checkpoint.npz").stat().st_mtime_ns
    deadline = time.monotonic() + 60
    while (tmp_path / "checkpoint.npz").stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(random.random())
    processes[1].kill()
    begin = time.monotonic()
    left = said(processes[0], 60)
    processes[1].communicate()
    assert "error[A48]: another process of this run is gone" in left.get("problem", "") and left["code"] == 75, left
    assert time.monotonic() - begin < 15
    (alone,) = (said(p) for p in start(1, steps=STEPS, folder=str(tmp_path), every=10))
    assert alone["digest"] == undisturbed and alone["began"] > 0


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_what_is_kept_is_written_once_and_read_by_all(suffix, tmp_path):
    (alone,) = (said(p) for p in start(1, steps=120, to=str(tmp_path / f"one{suffix}")))
    for facts in [said(p) for p in start(2, steps=120, to=str(tmp_path / f"two{suffix}"))]:
        assert facts.get("times") == [0, 50, 100, 120] and facts["means"] == alone["means"], facts


def test_a_run_on_two_processes_goes_on_from_one(undisturbed, tmp_path):
    assert [said(p)["done"] for p in start(1, steps=1000, folder=str(tmp_path))] == [1000]
    for facts in [said(p) for p in start(2, steps=STEPS, folder=str(tmp_path))]:
        assert facts.get("digest") == undisturbed and facts["began"] == 1050, facts
