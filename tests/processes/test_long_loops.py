"""Long time loops on several processes of this machine: undisturbed, stopped, with errors, killed and gone on."""

import json
import os
import random
import shutil
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


def until_it_runs(processes, word="began"):
    """Wait for the first report of each, behind what JAX's own libraries print."""
    for p in processes:
        assert any(word in line for line in p.stdout)


@pytest.fixture(scope="module")
def undisturbed():
    (alone,) = (said(p) for p in start(1, steps=STEPS))
    return alone["digest"]


def test_a_loop_with_one_slow_process_has_the_bits_of_one_alone(undisturbed):
    for facts in [said(p) for p in start(2, steps=STEPS, slow=True)]:
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


def test_a_signal_while_programs_are_compiled_stops_all():
    processes = start(2, steps=10**8)
    until_it_runs(processes, "compiling")
    for p in processes:
        p.send_signal(signal.SIGTERM)
    stopped = [said(p, 60) for p in processes]
    assert stopped[0].get("stopped") == stopped[1].get("stopped") is not None, stopped


def test_a_signal_while_a_checkpoint_is_written_stops_all_with_the_checkpoint(tmp_path):
    options = {"rows": 24, "blocks": True, "folder": str(tmp_path), "checkpoint_every": 50, "slow_writes": 1.0}
    processes = start(2, steps=10**8, **options)
    until_newer(tmp_path, 0)
    while not list(tmp_path.glob("checkpoint-*.partial")):
        time.sleep(0.01)
    processes[0].send_signal(signal.SIGTERM)
    stopped = [said(p, 60) for p in processes]
    assert stopped[0].get("stopped") == stopped[1].get("stopped") == checkpoints(tmp_path)[-1], stopped
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("steps", [10**8, 200], ids=["on the way", "after the last step"])
def test_an_error_of_one_process_ends_all(steps):
    first, second = [said(p, 60) for p in start(2, steps=steps, fails=200)]
    assert second["problem"] == "the disk of this process is full" and first["seen"] == second["seen"]
    assert first["problem"].startswith("error[A48]: another process of this run ended with an error, after 200 of")


def checkpoints(folder):
    """The numbers of steps after which a folder has whole checkpoints."""
    return sorted(int(p.name[11:]) for p in folder.glob("checkpoint-*") if p.name[11:].isdigit())


def until_newer(folder, steps):
    """Wait for a checkpoint after more steps than those."""
    deadline = time.monotonic() + 60
    while max(checkpoints(folder), default=-1) <= steps:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_is_gone_is_said_and_the_run_goes_on_on_another_number(undisturbed, tmp_path):
    options = {"steps": STEPS, "folder": str(tmp_path), "slow": True, "every": 10, "checkpoint_every": 50}
    processes = start(2, **options)
    until_newer(tmp_path, 0)
    time.sleep(random.random())
    processes[1].kill()
    begin = time.monotonic()
    left = said(processes[0], 60)
    number = processes[1].pid
    processes[1].communicate()
    assert f"error[A48]: process 1 (number {number} on " in left["problem"] and left["code"] == 75, left
    assert f"processes: it goes on from {checkpoints(tmp_path)[-1]:,} steps in '{tmp_path}'." in left["problem"]
    assert time.monotonic() - begin < 15
    (alone,) = (said(p) for p in start(1, steps=STEPS, folder=str(tmp_path), every=10))
    assert alone["digest"] == undisturbed and alone["began"] > 0


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """The folder of a run of blocks on two processes, after 900 steps and fewer, its end, and how many fewer."""
    folder = tmp_path_factory.mktemp("halfway")
    options = {"rows": 24, "blocks": True, "folder": str(folder), "checkpoint_every": 300, "every": 300, "pause": 0.2}
    ends = [said(p) for p in start(2, steps=900, **options)]
    before, last = checkpoints(folder)
    assert 0 < before < last == 900 and ends[0]["digest"] == ends[1]["digest"]
    return folder, ends[0]["digest"], before


def test_a_damaged_checkpoint_is_refused_by_all_and_the_one_before_is_taken(halfway, tmp_path):
    folder, digest, before = halfway
    own = shutil.copytree(folder, tmp_path / "own")
    (own / "checkpoint-900" / "array_0" / "c" / "1" / "0" / "0").unlink()  # a block that one process alone reads
    ends = [said(p) for p in start(2, steps=900, rows=24, blocks=True, every=50, folder=str(own))]
    for facts in ends:
        assert facts.get("digest") == digest and facts["began"] == 50 * (before // 50 + 1), facts
    assert "is damaged (" in ends[0]["warned"] and (own / "checkpoint-900.damaged").is_dir()


def test_each_process_writes_and_reads_its_own_blocks(halfway):
    for facts in [said(p) for p in start(3, steps=900, rows=24, blocks=True, folder=str(halfway[0]))]:
        assert facts["digest"] == halfway[1] and facts["read"] == 24 * 8 * 2 * 8 / 3, facts
    names = sorted(str(p.relative_to(halfway[0] / "checkpoint-900")) for p in halfway[0].rglob("checkpoint-900/**/c/*"))
    assert names == ["array_0/c/0", "array_0/c/1"]


def test_a_full_disk_of_one_process_ends_all_and_the_checkpoint_before_stays(halfway, tmp_path):
    own = shutil.copytree(halfway[0], tmp_path / "own")
    options = {"rows": 24, "blocks": True, "folder": str(own), "checkpoint_every": 50}
    first, second = [said(p) for p in start(2, steps=10**8, room=100, **options)]
    assert f"a checkpoint cannot be written to '{own}': File too large" in second["problem"], second
    assert "error[A48]: another process of this run ended with an error" in first["problem"]
    assert checkpoints(own) == checkpoints(halfway[0])


def test_two_runs_in_one_folder_are_refused(tmp_path):
    options = {"rows": 24, "blocks": True, "folder": str(tmp_path), "checkpoint_every": 50}
    running = start(2, steps=10**8, **options)
    until_newer(tmp_path, 0)
    refused = [said(p) for p in start(2, steps=100, **options)]
    assert f"'{tmp_path}' is used by a run that is under way, process {running[0].pid} of " in refused[0]["problem"]
    assert "error[A48]: another process of this run ended with an error" in refused[1]["problem"]
    for p in running:
        p.send_signal(signal.SIGTERM)
    stopped = [said(p) for p in running]
    assert checkpoints(tmp_path)[-1] == stopped[0]["stopped"] == stopped[1]["stopped"]


def test_another_step_is_refused_with_its_line(halfway):
    for facts in [said(p) for p in start(2, steps=900, rows=24, blocks=True, folder=str(halfway[0]), another=True)]:
        assert "began with another step" in facts["problem"], facts
        assert 'its step had the line: return d(inp=u, coeff=c)["out"]' in facts["problem"]
        assert 'the step of this call has: return 2.0 * d(inp=u, coeff=c)["out"]' in facts["problem"]


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_what_is_kept_is_written_once_and_read_by_all(suffix, tmp_path):
    options = {"steps": 120, "rows": 24, "blocks": True}
    (alone,) = (said(p) for p in start(1, to=str(tmp_path / f"one{suffix}"), **options))
    for facts in [said(p) for p in start(2, to=str(tmp_path / f"two{suffix}"), **options)]:
        assert facts.get("times") == [0, 50, 100, 120] and facts["means"] == alone["means"], facts
    if suffix == ".zarr":  # chunks are blocks
        assert json.loads((tmp_path / "two.zarr" / "state" / ".zarray").read_text())["chunks"] == [1, 12, 8, 2]


@pytest.mark.nightly
def test_a_snapshot_that_is_too_large_for_one_process_is_refused_by_all(tmp_path):
    for facts in [said(p) for p in start(2, steps=60, rows=24, blocks=True, to=str(tmp_path / "run.nc"), sent=100)]:
        assert "error[A31]: a snapshot has 0.0 GiB, which would go through one process to '" in facts["problem"]
        assert f"help: let each write its blocks: to='{tmp_path}/run.zarr'." in facts["problem"]


def test_results_go_on_in_a_store_whose_chunks_two_processes_share(tmp_path):
    options = {"rows": 24, "blocks": True, "folder": str(tmp_path / "state"), "to": str(tmp_path / "kept.zarr")}
    for count, steps in ((2, 60), (3, 120)):
        facts = [said(p) for p in start(count, steps=steps, **options)]
    (alone,) = (said(p) for p in start(1, steps=120, rows=24, to=str(tmp_path / "one.zarr")))
    assert {tuple(f["means"]) for f in facts} == {tuple(alone["means"])} and len(alone["means"]) == 4


def test_a_run_on_two_processes_goes_on_from_one(undisturbed, tmp_path):
    assert [said(p)["done"] for p in start(1, steps=1000, folder=str(tmp_path))] == [1000]
    for facts in [said(p) for p in start(2, steps=STEPS, folder=str(tmp_path))]:
        assert facts.get("digest") == undisturbed and facts["began"] == 1050, facts


@pytest.mark.nightly
@pytest.mark.parametrize("count", [2, 3, 4])
def test_ten_thousand_steps_have_the_bits_of_one_process(count):
    (alone,) = (said(p, 300) for p in start(1, steps=10_000, rows=24))
    for facts in [said(p, 300) for p in start(count, steps=10_000, rows=24, blocks=True, slow=True)]:
        assert facts.get("digest") == alone["digest"], facts


@pytest.mark.nightly
def test_ten_kills_along_other_numbers_of_processes_leave_the_bits_of_an_undisturbed_run(tmp_path):
    (alone,) = (said(p, 300) for p in start(1, steps=6_000, rows=24))
    options = {
        "steps": 6_000,
        "rows": 24,
        "blocks": True,
        "folder": str(tmp_path),
        "checkpoint_every": 100,
        "every": 20,
    }
    chain = random.Random(os.getpid())
    for turn, count in enumerate((2, 2, 4, 3, 1, 4, 2, 1, 3, 2)):
        at = max(checkpoints(tmp_path), default=-1)
        processes = start(count, pause=0.02, **options)
        until_newer(tmp_path, at)
        time.sleep(chain.random())
        processes[turn % count].kill()
        for p in processes:
            said(p, 60)
    assert checkpoints(tmp_path)[-1] < 6_000
    for facts in [said(p, 300) for p in start(2, **options)]:
        assert facts.get("digest") == alone["digest"], facts


@pytest.mark.nightly
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_stands_still_ends_the_others_by_the_heartbeat(victim, tmp_path):
    processes = start(2, steps=10**8, folder=str(tmp_path), checkpoint_every=50, heartbeat=5)
    until_newer(tmp_path, 0)
    processes[victim].send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    left = said(processes[1 - victim], 60)
    assert left["code"] != 0 and time.monotonic() - begin < 40, left
