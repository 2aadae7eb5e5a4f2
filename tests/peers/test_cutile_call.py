"""cuTile's own call from JAX on a device without CUDA: outputs, arrays in place, numbers, tuples, transformations."""

from __future__ import annotations

import pytest

ct = pytest.importorskip("cuda.tile")

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
