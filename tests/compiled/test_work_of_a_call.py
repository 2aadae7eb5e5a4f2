"""What calls make the device do, counted: executables run, programs compiled, bytes that stay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from stencils import library
from tests.effort import DeviceWork, device_work

N = 64
BYTES = 8 * N
SCALED = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, r: tensor<float>) { out ← r × x; }"

AROUND = """
f(out: tensor<float, V[0:n]>, x: tensor<float, V[0:n]>, T: tensor<int, V[0:n], _NB_V[0:1]>) { out ← ⟪T, 0⟫(x); }
"""
TABLE = np.arange(N, dtype=np.int32)[::-1].reshape(N, 1).copy()


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def _settled(call):
    """The work of a call after two like it."""
    call()
    call()
    return device_work(call)


def test_a_call_with_jax_arrays_is_one_executable():
    c, x, r = ti.compile(ti.parse(SCALED)), jnp.ones(N), jnp.asarray(2.0)
    assert _settled(lambda: c(x=x, r=r)) == DeviceWork(executed=1, compiled=0, held_bytes=BYTES)


def test_a_call_of_a_fencil_is_one_executable():
    f, x, r = ti.parse(SCALED), jnp.ones(N), jnp.asarray(2.0)
    assert _settled(lambda: f(x=x, r=r)) == DeviceWork(executed=1, compiled=0, held_bytes=BYTES)


def test_a_call_with_numpy_arrays_is_one_executable_and_holds_no_array_of_the_device():
    c, x, r = ti.compile(ti.parse(SCALED)), np.ones(N), np.asarray(2.0)
    assert _settled(lambda: c(x=x, r=r)) == DeviceWork(executed=1, compiled=0, held_bytes=0)


def test_a_donated_call_is_one_executable_and_allocates_nothing():
    n = 16
    c = ti.compile(library.load("hdiff"), donate=("out",))
    arrays = {name: jnp.ones((n, n, 8)) for name in ("inp", "coeff")}
    state = [c(out=jnp.zeros((n, n, 8)), **arrays)["out"]]

    def call():
        state[0] = c(out=state[0], **arrays)["out"]

    call()
    where = state[0].unsafe_buffer_pointer()
    work = device_work(call)
    assert (work.executed, work.compiled) == (1, 0)
    assert state[0].unsafe_buffer_pointer() == where


def test_a_call_with_bound_tables_is_one_executable():
    c, x = ti.compile(ti.parse(AROUND).bind(T=TABLE)), jnp.ones(N)
    assert _settled(lambda: c(x=x)) == DeviceWork(executed=1, compiled=0, held_bytes=BYTES)


def test_an_operator_on_fields_is_one_executable():
    (I,) = ti.dims("I")

    @ti.field_operator
    def doubled(x):
        return x + x

    x = ti.as_field({I: (0, N)}, jnp.ones(N))
    assert _settled(lambda: doubled(x)) == DeviceWork(executed=1, compiled=0, held_bytes=BYTES)


def test_a_call_inside_of_a_jitted_function_is_no_executable_of_its_own():
    c, x, r = ti.compile(ti.parse(SCALED)), jnp.ones(N), jnp.asarray(2.0)
    around = jax.jit(lambda x: 1.0 + c(x=x, r=r)["out"])
    assert _settled(lambda: around(x)) == DeviceWork(executed=1, compiled=0, held_bytes=BYTES)


def test_a_first_call_compiles_one_program_whatever_is_bound():
    c, x = ti.compile(ti.parse(AROUND).bind(T=TABLE)), jnp.ones(N)
    assert device_work(lambda: c(x=x)).compiled == 1
    c, r = ti.compile(ti.parse(SCALED).bind(r=2.0)), np.ones(N)
    assert device_work(lambda: c(x=r)).compiled == 1


def test_tables_are_inverted_where_something_may_be_differentiated_alone():
    c, x = ti.compile(ti.parse(AROUND).bind(T=TABLE)), jnp.ones(N)
    c(x=x)
    (executable,) = c.engine.executables.values()
    assert not executable.prepared["T"].readers and "differentiable" not in vars(executable)
    np.testing.assert_array_equal(jax.grad(lambda x: c(x=x)["out"].sum())(x), np.ones(N))
    assert executable.differentiable["T"].readers


def test_another_size_is_compiled_once():
    c, r = ti.compile(ti.parse(SCALED)), jnp.asarray(2.0)
    _settled(lambda: c(x=jnp.ones(N), r=r))
    x = jnp.ones(2 * N)
    assert device_work(lambda: c(x=x, r=r)).compiled == 1
    assert device_work(lambda: c(x=x, r=r)).compiled == 0
