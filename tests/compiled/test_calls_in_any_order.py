"""Whatever is called first inside of a transformation is called in every other way afterwards."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorir as ti

jax = pytest.importorskip("jax")
jnp = jax.numpy

POINTS = np.array([0.5, -1.0, 2.0, 3.0])
TABLE = np.array([[1, 2], [3, -1], [0, 1], [2, 2]], np.int32)
SUMS = np.array([1.0, 3.0, -0.5, 4.0])
"""The sums over the neighbours of each point: -1 is absent."""
WEIGHTS = np.array([1.0, 2.0, 3.0, 1.0])
"""How often each point is somebody's neighbour, so the gradient of the sum of the sums."""
AFTERWARDS = ("eager", "NumPy", "jit", "grad")

AROUND = """
around(out: tensor<float, V[0:{n}]>, x: tensor<float, V[0:{n}]>, T: tensor<int, V[0:{n}], _NB_V[0:2]>) {{
  out ← reduce(+, 0.0)(⟪T⟫(x));
}}"""

KERNEL = """
@T.prim_func
def main(x: T.Buffer((4,), "float64"), out: T.Buffer((4,), "float64")):
    for i in range(4):
        with T.sblock("out"):
            v = T.axis.spatial(4, i)
            out[v] = x[v] + x[3 - v]
"""


def _program(size):
    return ti.parse(AROUND.format(n=size))


def _fencil():
    f = _program(4)
    return lambda x: f(x=x, T=TABLE)["out"]


def _bound_fencil():
    f = _program(4).bind(T=TABLE)
    return lambda x: f(x=x)["out"]


def _bound_template():
    f = _program("n").bind(T=TABLE)
    return lambda x: f(x=x)["out"]


def _compiled():
    c = ti.compile(_program(4))
    return lambda x: c(x=x, T=TABLE)["out"]


def _compiled_bound():
    c = ti.compile(_program(4).bind(T=TABLE))
    return lambda x: c(x=x)["out"]


def _iterated():
    c = ti.compile(_program(4).bind(T=TABLE))
    return lambda x: ti.iterate(lambda y: c(x=y)["out"], x, 1, progress=False)


def _inlined_operator():
    (I,) = ti.dims("I")

    @ti.field_operator
    def mixed(x: ti.Field[[I], ti.float64]):
        return 2.0 * x - x

    c = ti.compile(_program(4).bind(T=TABLE))
    return lambda x: c(x=mixed(x))["out"]


MAKERS = [_fencil, _bound_fencil, _bound_template, _compiled, _compiled_bound, _iterated, _inlined_operator]


def _in_a_scan(call):
    return jax.lax.scan(lambda carry, x: (carry, call(x)), 0, jnp.stack([POINTS, 2 * POINTS]))[1][0]


WAYS = {
    "eager": (lambda call: call(jnp.asarray(POINTS)), SUMS),
    "NumPy": (lambda call: call(POINTS), SUMS),
    "jit": (lambda call: jax.jit(call)(POINTS), SUMS),
    "grad": (lambda call: jax.grad(lambda x: call(x).sum())(jnp.asarray(POINTS)), WEIGHTS),
    "vmap": (lambda call: jax.vmap(call)(jnp.stack([POINTS, POINTS]))[1], SUMS),
    "scan": (_in_a_scan, SUMS),
    "threads": (lambda call: _in_threads(call)[-1], SUMS),
    "jvp": (lambda call: jax.jvp(call, (jnp.asarray(POINTS),), (jnp.asarray(POINTS),))[1], SUMS),
}


def _in_threads(call):
    def one(x):
        with jax.enable_x64(True):
            return np.asarray(jax.jit(call)(x) if x[0] > 0.5 else call(x))

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, [2 * POINTS, POINTS] * 4))


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__.strip("_"))
def test_the_first_call_decides_nothing(make, first):
    with jax.enable_x64(True):
        call = make()
        for way in (first, *AFTERWARDS):
            run, expected = WAYS[way]
            np.testing.assert_allclose(np.asarray(run(call)), expected, rtol=1e-14, err_msg=f"{way} after {first}")


@pytest.mark.parametrize("first", ["jit", "grad", "vmap", "scan"])
def test_a_lifted_kernel_called_first_in_a_trace_is_called_again(first):
    with jax.enable_x64(True):
        kernel = ti.lift(ti.tir.parse(KERNEL)["main"])
        twice = POINTS + POINTS[::-1]
        expected = {**dict.fromkeys(WAYS, twice), "grad": np.full(4, 2.0)}
        for way in (first, *AFTERWARDS):
            got = WAYS[way][0](lambda x: kernel(x, None)[0])
            np.testing.assert_allclose(np.asarray(got), expected[way], rtol=1e-14, err_msg=f"{way} after {first}")


def test_a_program_compiled_inside_of_a_trace_outlives_it():
    made = []

    def first(x):
        made.append(ti.compile(_program(4).bind(T=TABLE)))
        return made[0](x=x)["out"]

    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(first)(POINTS), SUMS)
        np.testing.assert_array_equal(made[0](x=jnp.asarray(POINTS))["out"], SUMS)


def test_a_program_looked_into_after_a_trace_shows_numbers():
    f = _program(4).bind(T=TABLE)
    c = ti.compile(f)
    with jax.enable_x64(True):
        jax.jit(lambda x: c(x=x)["out"])(POINTS)
        jax.grad(lambda x: c(x=x)["out"].sum())(POINTS)
    assert list(c.inspect(x=POINTS)) == list(ti.compile(f).inspect(x=POINTS))
