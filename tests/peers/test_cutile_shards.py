"""Lifted kernels within `jax.shard_map`, each device with blocks of its own: values, sums over devices, gradients."""

import os
import subprocess
import sys

ON_TWO_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, tensorir as ti
from jax.sharding import Mesh, PartitionSpec as P
from tensorir import tile
from tests.peers import cutile_kernels as k

assert jax.device_count() == 2
mesh, rows, whole = Mesh(jax.devices(), ("d",)), P("d"), P()
x = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
half = x[:4]


def lifted(kernel, grid, *args):
    given = [a for a in args if isinstance(a, np.ndarray)]
    return ti.lift(tile.from_cutile(kernel, *args), grid=grid, args=given)


def sharded(p, zero=None):
    return jax.shard_map(lambda x: p(x, zero)[0], mesh=mesh, in_specs=rows, out_specs=rows)


def squares(f):
    return jax.grad(lambda x: (f(x) ** 2).sum())(jnp.asarray(x))


def softmax(x):
    return jax.nn.softmax(x, axis=1)


def cumsum(x):
    return jnp.cumsum(x, axis=1)


for kernel, size, wanted in (
    (k.softmax, 32, softmax), (k.online_softmax, 8, softmax), (k.cumulative_sum, 32, cumsum),
):
    f = sharded(lifted(kernel, 4, half, half, size))
    found = jax.jit(f)(x)
    assert len(found.sharding.device_set) == 2
    np.testing.assert_allclose(found, wanted(x), 1e-5, 1e-5)
    np.testing.assert_allclose(squares(f), squares(wanted), 1e-4, 1e-5)

numbers, zeros = np.arange(64, dtype=np.int32) % 10, np.zeros(10, np.int32)
counts = lifted(k.histogram, 2, numbers[:32], zeros, 16)
added = lambda n, c: jax.lax.psum(counts(n, c)[0], "d")
total = jax.shard_map(added, mesh=mesh, in_specs=(rows, whole), out_specs=whole)
np.testing.assert_array_equal(jax.jit(total)(numbers, zeros), np.bincount(numbers, minlength=10))

starts = np.arange(1, 33, dtype=np.int32)
steps = lifted(k.collatz, 1, starts[:16], starts[:16], 16)
both = jax.shard_map(lambda n: steps(n, n)[0], mesh=mesh, in_specs=rows, out_specs=rows)
parts = [steps(n, n + 0)[0] for n in (starts[:16], starts[16:])]
np.testing.assert_array_equal(jax.jit(both)(starts), np.concatenate(parts))

fold = ti.parse('''f(y: tensor<float32, I[0:4]>, x: tensor<float32, I[0:4], J[0:32]>) {
  y ← reduce(λ(a: tensor<float32, I[0:4]>, b: tensor<float32, I[0:4]>) → a × 0.5f + b, 0.0f, J)(x); }''')
mapped = jax.shard_map(lambda x: fold(x=x)["y"], mesh=mesh, in_specs=rows, out_specs=rows)
np.testing.assert_allclose(jax.jit(mapped)(x), np.concatenate([fold(x=x[:4])["y"], fold(x=x[4:])["y"]]), 1e-6)
"""


def test_devices_run_blocks_of_their_own():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
