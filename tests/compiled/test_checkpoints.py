"""Checkpoints by block: of any type, on any devices, damaged, of a full disk, of the last release."""

import hashlib
import importlib.util
import json
import os
import signal
import sys
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from lowering.loops.agreement import Agreement
from lowering.loops.checkpoints import Checkpoints, Stored, digest_of_blocks


def step(u):
    return 0.5 * u + 1.0


def run(n, folder, **options):
    return ti.iterate(step, np.arange(12.0).reshape(4, 3), n, checkpoint_dir=folder, progress=False, **options)


def by_numpy(n):
    u = np.arange(12.0).reshape(4, 3)
    for _ in range(n):
        u = 0.5 * u + 1.0
    return u


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("checkpoint"))


def flipped(path):
    raw = path.read_bytes()
    path.write_bytes(raw[:20] + bytes([raw[20] ^ 1]) + raw[21:])


def cut_off(path):
    path.write_bytes(path.read_bytes()[:30])


@pytest.mark.parametrize("place", ["array_0/c/0/0", "array_0/zarr.json", "run.json"])
@pytest.mark.parametrize("damage", [flipped, cut_off, os.remove])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_taken(damage, place, tmp_path):
    for n in (5, 10, 20):
        run(n, tmp_path)
    assert checkpoints(tmp_path) == ["checkpoint-10", "checkpoint-20"]
    damage(tmp_path / "checkpoint-20" / place)
    seen = []
    with pytest.warns(UserWarning, match=r"checkpoint-20' is damaged \(.*\), and the one before is taken"):
        last = run(22, tmp_path, every=1, callback=lambda k, _: seen.append(k))
    assert seen[0] == 11 and np.array_equal(last, by_numpy(22))
    assert checkpoints(tmp_path) == ["checkpoint-10", "checkpoint-20.damaged", "checkpoint-22"]


def test_a_folder_without_a_whole_checkpoint_is_refused(tmp_path):
    run(3, tmp_path)
    for name in checkpoints(tmp_path):
        (tmp_path / name / "run.json").write_text("{}")
    with pytest.warns(UserWarning), pytest.raises(ti.DiagnosticError, match="holds no checkpoint that is whole: "):
        run(4, tmp_path)


def test_a_folder_is_one_runs_until_it_ends(tmp_path):
    refused = []

    def look(k, _):
        with pytest.raises(ti.DiagnosticError) as found:
            run(1, tmp_path)
        refused.append(str(found.value))

    run(1, tmp_path, callback=look)
    run(1, tmp_path)
    assert refused[0].startswith(
        f"error[A30]: '{tmp_path}' is used by a run that is under way, process {os.getpid()} of "
    ) and refused[0].endswith("help: give each run a folder of its own, or end that one.")


def test_what_checkpoint_every_says(tmp_path):
    assert run(2, tmp_path, checkpoint_every="3 min").shape == (4, 3)
    for wrong in (0, 2.5, "often", True):
        with pytest.raises(ti.DiagnosticError, match=r"A19.*checkpoint_every is .*, which is no number of steps"):
            run(2, tmp_path, checkpoint_every=wrong)


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    import resource

    run(10, tmp_path)
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limit[1]))
    try:
        with pytest.raises(ti.DiagnosticError) as refused:
            run(30, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(refused.value) == (
        f"error[A30]: a checkpoint cannot be written to '{tmp_path}': File too large.\n"
        f"help: make room; the one of before is whole: {tmp_path}/checkpoint-10."
    )
    assert np.array_equal(run(30, tmp_path), by_numpy(30))


def test_an_error_of_a_callback_leaves_the_checkpoint_before_it(tmp_path):
    def look(k, _):
        time.sleep(0.05)
        if k == 7:
            raise ValueError(k)

    with pytest.raises(ValueError):
        run(9, tmp_path, every=1, callback=look, checkpoint_every=5)
    assert checkpoints(tmp_path)[-1] == "checkpoint-5"


def test_a_checkpoint_of_the_last_release_is_read(tmp_path):
    run(5, tmp_path / "new")
    facts = json.loads((tmp_path / "new" / "checkpoint-5" / "run.json").read_text())["facts"]
    u = np.arange(12.0).reshape(4, 3)
    state = hashlib.sha256(b"PyTreeDef([*])" + f"{u.shape}{u.dtype}".encode() + u.tobytes()).hexdigest()
    before = {**facts["run"], "state": state, "versions": "tensorir 0.0.9, jax 0.9.0"}
    (tmp_path / "old").mkdir()
    bits = np.frombuffer(by_numpy(5).tobytes(), np.uint8)
    np.savez(tmp_path / "old" / "checkpoint.npz", steps=5, every=0, run=json.dumps(before), leaf_0=bits)
    seen = []
    last = run(8, tmp_path / "old", every=1, callback=lambda k, _: seen.append(k))
    assert seen == [6, 7, 8] and np.array_equal(last, by_numpy(8))
    assert "checkpoint.npz" not in checkpoints(tmp_path / "old")


def test_random_keys_and_numbers_of_any_type_go_on(tmp_path):
    def walk(s):
        key, x, *others = s
        key, own = jax.random.split(key)
        return (key, x + jax.random.normal(own, x.shape, x.dtype), *others)

    def start(key):
        return key, jnp.zeros(3, "float32"), jnp.ones((2, 1), "complex64"), jnp.ones((), "bfloat16"), np.zeros((0, 2))

    for k, key in enumerate((jax.random.key(3), jax.random.PRNGKey(3))):
        whole = ti.iterate(walk, start(key), 9, progress=False)
        for n in (4, 9):
            last = ti.iterate(walk, start(key), n, checkpoint_dir=tmp_path / str(k), progress=False)
        for a, b in zip(whole, last, strict=True):
            assert a.dtype == b.dtype and _bits(a) == _bits(b)


def test_random_keys_are_kept_as_numbers(tmp_path):
    step = lambda s: {"key": jax.random.split(s["key"])[0], "x": s["x"] + 1.0}
    for to in (None, tmp_path / "kept.nc", tmp_path / "kept.zarr"):
        last, kept = ti.iterate(
            step, {"key": jax.random.key(3), "x": np.zeros(2)}, 2, every=1, keep=True, to=to, progress=False
        )
        assert kept.key.dtype == np.uint32 and kept.sizes["time"] == 3
        assert kept.key[2].values.tolist() == jax.random.key_data(last["key"]).tolist()


def _bits(x):
    return np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x).tobytes()


def parted(x, rows, columns):
    """An array as JAX has it in blocks, of some rows and columns each."""
    starts = [(i, j) for i in range(0, x.shape[0], rows) for j in range(0, x.shape[1], columns)]
    places = [(slice(i, i + rows), slice(j, j + columns)) for i, j in starts]
    shards = [SimpleNamespace(index=at, data=x[at], replica_id=0) for at in places]
    return SimpleNamespace(shape=x.shape, dtype=x.dtype, is_fully_addressable=True, addressable_shards=shards)


@pytest.mark.parametrize("kind", ["float64", "complex128", "int8", "bool", "bfloat16"])
def test_a_digest_is_the_same_in_any_blocks_and_changes_with_every_bit(kind):
    x = np.random.default_rng(0).integers(0, 2, (8, 4)).astype(jnp.dtype(kind))
    digest = lambda x: digest_of_blocks([x], Agreement.of([], None))
    (one,) = {digest(parted(x, rows, columns)) for rows, columns in ((8, 4), (4, 4), (4, 1), (2, 2), (8, 2), (1, 1))}
    raw = x.view("uint8").reshape(-1)
    for k in range(raw.size):
        other = raw.copy()
        other[k] ^= 1
        assert digest(parted(other.view(x.dtype).reshape(x.shape), 8, 4)) != one
    assert digest(parted(x[::-1].copy(), 8, 4)) != one


@pytest.mark.parametrize("extent", [2**20, 3 * 2**19, 999_983])
def test_chunks_are_parts_of_blocks_of_a_bounded_size(extent):
    (chunk, columns), block = Stored.of(jax.ShapeDtypeStruct((extent, 8), "float32", sharding=SINGLE)).chunks, extent
    assert block % chunk == 0 and columns == 8
    assert chunk * 32 <= 2**24 or extent == 999_983  # a prime is one chunk


SINGLE = jax.sharding.SingleDeviceSharding(jax.devices()[0])


def scaled(rate):
    """A step, whose text differs from that of `halved` in one line."""

    def step(u):
        more = rate * u
        return more + 1.0

    return step


def halved(rate):
    def step(u):
        more = u / rate
        return more + 1.0

    return step


def test_the_line_that_differs_is_said(tmp_path):
    ti.iterate(scaled(0.5), np.ones(3), 2, checkpoint_dir=tmp_path, progress=False)
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.iterate(halved(2.5), np.ones(3), 2, checkpoint_dir=tmp_path, progress=False)
    assert str(refused.value) == (
        f"error[A30]: '{tmp_path}' holds the checkpoint of a run that began with another step.\n"
        "note: its step had the line: more = rate * u\n"
        "note: the step of this call has: more = u / rate\n"
        "help: give each run a folder of its own, or remove it."
    )


@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
def test_a_run_goes_on_with_other_kernels(tmp_path, monkeypatch):
    program = ti.compile(ti.parse("""f(y: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
      y ← x; y[I[1:n-1], J[0:m]] ← 0.25 × ⟪I, 1⟫(x) + 0.5 × x; }"""))  # fmt: skip
    x = np.random.default_rng(0).normal(size=(60, 50))

    def run(threads, steps):
        # the text of a kernel has the number of its threads in it
        monkeypatch.setattr("lowering.kernels.custom_calls.threads", lambda: threads)
        step = lambda h: program(x=h)["y"]
        return ti.iterate(step, x, steps, callback=stop, every=4, checkpoint_dir=tmp_path, progress=False)

    def stop(done, state):
        if done == 4 and fails:
            raise RuntimeError("the disk is full")

    fails = True
    with pytest.raises(RuntimeError):
        run(1, 12)
    fails = False
    found = run(2, 12)
    np.testing.assert_array_equal(found, ti.iterate(lambda h: program(x=h)["y"], x, 12, progress=False))


def test_blocks_of_the_next_checkpoint_that_another_process_writes_already_stay(tmp_path):
    held = Checkpoints(tmp_path / "run", [jnp.zeros(3)], {}, Agreement.of([], None))
    held.resumed(9)
    for steps, begun in ((1, "older"), (5, "next")):
        (tmp_path / "run" / f"checkpoint-{steps}.partial").mkdir()
        (tmp_path / "run" / f"checkpoint-{steps}.partial" / begun).write_text("a block")
    held.save(3, [jnp.ones(3)])
    assert held.end() is None
    held.close()
    assert held.names() == [3]
    assert [p.name for p in (tmp_path / "run").glob("*.partial/*")] == ["next"]
