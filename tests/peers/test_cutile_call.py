"""cuTile's own call from JAX on a device without CUDA: outputs, arrays in place, numbers, tuples, transformations."""

from __future__ import annotations

import pytest

ct = pytest.importorskip("cuda.tile")

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from cuda.tile.jax import InputOutput, OutputPlaceholder, cutile_call

import tensorir as ti
import tensorir.tile.cutile_jax
from tests.peers import cutile_kernels as k

pytestmark = pytest.mark.filterwarnings("ignore")
X = jnp.arange(10, dtype=jnp.float32)


@ct.kernel
def scale(x, y, c: ct.Constant, T: ct.Constant):
    ct.store(y, ct.bid(0), ct.load(x, ct.bid(0), T) * c)


@ct.kernel
def halve(x, T: ct.Constant):
    ct.store(x, ct.bid(0), ct.load(x, ct.bid(0), T) / 2)


@ct.kernel
def sines(x, y, z, T: ct.Constant):
    tile = ct.load(x, ct.bid(0), T)
    ct.store(y, ct.bid(0), ct.sin(tile))
    ct.store(z, ct.bid(0), ct.cos(tile))


@ct.kernel
def mixed(xs: tuple[ct.Array, ct.Array], p: tuple[float, ct.Constant[int]], y):
    i = ct.bid(0)
    a, b = ct.load(xs[0], index=(i,), shape=(p[1],)), ct.load(xs[1], index=(i,), shape=(p[1],))
    ct.store(y, index=(i,), tile=a * p[0] + b)


@ct.kernel
def first_half(x, y, T: ct.Constant):
    if ct.bid(0) == 0:
        ct.store(y, ct.bid(0), ct.load(x, ct.bid(0), T))


def program(x, c, size):
    """Three launches, one after the other: sin + cos of c x / 2."""
    grid, place = (ct.cdiv(x.shape[0], size),), OutputPlaceholder(x.shape, x.dtype)
    y = cutile_call(grid, scale, (x, place, c, size))
    y = cutile_call(grid, halve, (InputOutput(y), size))
    a, b = cutile_call(grid, sines, (y, place, place, size))
    return a + b


def wanted(x, c):
    return jnp.sin(c * x / 2) + jnp.cos(c * x / 2)


def test_a_program_of_launches_runs_under_jit():
    np.testing.assert_allclose(jax.jit(program, static_argnums=(1, 2))(X, 0.7, 4), wanted(X, 0.7), 1e-5, 1e-5)


def test_launches_have_gradients_and_batches():
    found = jax.grad(lambda x: program(x, 0.7, 4).sum())(X)
    np.testing.assert_allclose(found, jax.grad(lambda x: wanted(x, 0.7).sum())(X), 1e-5, 1e-5)
    batch = jnp.stack([X, X + 1])
    np.testing.assert_allclose(jax.vmap(lambda x: program(x, 0.7, 4))(batch), wanted(batch, 0.7), 1e-5, 1e-5)
    second = jax.hessian(lambda x: program(x, 0.7, 4).sum())(X)
    np.testing.assert_allclose(second, jax.hessian(lambda x: wanted(x, 0.7).sum())(X), 1e-4, 1e-5)


def test_tuples_hold_arrays_numbers_and_constants():
    place = OutputPlaceholder(X.shape, X.dtype)
    found = cutile_call((3,), mixed, ((X, X * 10), (0.5, 4), place))
    np.testing.assert_allclose(found, X * 10.5)
    again = cutile_call((3,), mixed, ((X, X * 10), (2.0, 4), place))
    np.testing.assert_allclose(again, X * 12)


def test_what_a_kernel_leaves_is_zero():
    found = cutile_call((2,), first_half, (X[:8], OutputPlaceholder((8,), jnp.float32), 4))
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 0, 0, 0, 0])


def test_a_kernel_is_launched_without_cutiles_extra():
    x, y, z = np.ones(10, np.float32), np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    (found,) = ti.tile.launch(k.vector_add, (3,), (x, y, z, 4))
    np.testing.assert_array_equal(found, x + y)
    np.testing.assert_array_equal(z, 0)
    gradient = jax.grad(lambda a: ti.tile.launch(k.vector_add, (3,), (a, jnp.asarray(y), jnp.asarray(z), 4))[0].sum())
    np.testing.assert_array_equal(gradient(jnp.asarray(x)), 1)
    (more,) = ti.tile.launch(k.saxpy, (2,), (0.5, y[:8], x[:8], 4))
    np.testing.assert_array_equal(more, 0.5 * y[:8] + x[:8])


def test_the_replacement_is_made_once():
    from cuda.tile.jax import _jax

    before = _jax.cutile_call_ffi_p
    tensorir.tile.cutile_jax.install()
    assert _jax.cutile_call_ffi_p is before


def test_what_is_no_kernel_is_named():
    with pytest.raises(tensorir.DiagnosticError, match=r"\[TK06\]: a kernel of cuTile is needed"):
        ti.tile.launch(len, (1,), ())


@ct.kernel
def first_of_each(xs: tuple[ct.Array, ct.Array], y, T: ct.Constant):
    for n, x in ct.static_iter(enumerate(xs)):
        ct.store(y, n, ct.load(x, 0, T))


def test_a_tuple_of_arrays_is_gone_through_when_the_kernel_is_compiled():
    x, y, z = np.ones(4, np.float32), np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    (found,) = ti.tile.launch(first_of_each, (1,), ((x, y), z, 4))
    np.testing.assert_array_equal(found, [1, 1, 1, 1, 0, 1, 2, 3])


# Lifted kernels within `jax.shard_map`, each device with blocks of its own: values, sums over devices, gradients.


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
