"""Derivatives beside absent elements: these contribute exactly zero, even where a derivative is infinite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

TABLE = np.array([[1, 2], [3, -1], [-1, -1], [2, 1]], np.int32)
HEAD = "f(out: tensor<float, V[0:4]>, V2E: tensor<int, V[0:4], _NB_E[0:2]>, x: tensor<float, E[0:4]>)"
SUM = f"{HEAD} {{ out ← reduce(+, 0.0)(%s); }}"
# an absent neighbour reads some element, here the first: the slope of each of these is infinite or not a number at 0
STEEP = [
    "sqrt(⟪V2E⟫(x))",
    "sqrt(⟪V2E⟫(x) × ⟪V2E⟫(x))",
    "⟪V2E⟫(x) ** 0.5",
    "log(⟪V2E⟫(x))",
    "1.0 / ⟪V2E⟫(x)",
    "cbrt(⟪V2E⟫(x))",
]
GUARDED = f"{HEAD} {{ out ← if can_deref(⟪V2E, 1⟫(x)) then sqrt(⟪V2E, 1⟫(x)) else 2.0; }}"
ROOTED = "λ(a: tensor<float, V[0:4]>, n: tensor<float, V[0:4]>) → a + sqrt(a × n)"
FOLDED = f"{HEAD} {{ out ← reduce({ROOTED}, 1.0)(⟪V2E⟫(x)); }}"


def functions(text):
    """The program with its table bound, and with its table traced, as functions of x."""
    f = ti.parse(text)
    bound, free = ti.compile(f.bind(V2E=TABLE)), ti.compile(f)
    traced = jax.jit(lambda x, table: free(x=x, V2E=table)["out"])
    return {"bound": lambda x: bound(x=x)["out"], "traced": lambda x: traced(x, jnp.asarray(TABLE))}


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("kind", ["bound", "traced"])
@pytest.mark.parametrize("text", [*(SUM % e for e in STEEP), GUARDED, FOLDED])
def test_absent_neighbours_have_no_part_in_gradients(text, kind):
    function = functions(text)[kind]
    x = jnp.array([0.0, 1.0, 4.0, 9.0])
    out, back = jax.vjp(function, x)
    (gradient,) = back(jnp.ones_like(out))
    assert np.isfinite(gradient).all(), gradient
    assert gradient[0] == 0.0
    _, moved = jax.jvp(function, (x,), (jnp.array([1.0, 0.0, 0.0, 0.0]),))
    assert (np.asarray(moved) == 0.0).all(), moved
    v, w = jnp.array([0.3, -1.0, 2.0, 0.7]), jnp.array([1.0, 2.0, -0.5, 0.25])
    forward = float(jnp.vdot(w, jax.jvp(function, (x,), (v,))[1]))
    reverse = float(jnp.vdot(back(w)[0], v))
    assert abs(forward - reverse) <= 1e-12 * max(1.0, abs(forward))


@pytest.mark.parametrize("text", [*(SUM % e for e in STEEP), GUARDED, FOLDED])
def test_inverse_tables_and_scatters_give_one_gradient(text):
    x = jnp.array([0.0, 1.0, 4.0, 9.0])
    bound, traced = (jax.grad(lambda x, g=g: g(x).sum())(x) for g in functions(text).values())
    np.testing.assert_allclose(bound, traced, rtol=1e-14, atol=1e-14)


def test_a_gradient_is_known_by_hand():
    x = jnp.array([0.0, 1.0, 4.0, 9.0])
    gradient = jax.grad(lambda x: functions(SUM % "sqrt(⟪V2E⟫(x))")["bound"](x).sum())(x)
    # the elements 1 and 2 are read twice, 3 once, 0 never
    np.testing.assert_allclose(gradient, [0.0, 2 * 0.5, 2 * 0.25, 1 / 6])


def test_one_table_reads_operands_that_start_elsewhere():
    f = ti.parse("""f(out: tensor<float, V[0:3]>, V2E: tensor<int, V[0:3], _NB_E[0:1]>,
        x: tensor<float, E[1:6]>, y: tensor<float, E[2:5]>) {
        out ← ⟪V2E, 0⟫(x) + ⟪V2E, 0⟫(y) × ⟪V2E, 0⟫(⟪E, 1⟫(x)); }""")
    x, y = np.arange(1.0, 6.0), np.array([10.0, 20.0, 30.0])
    table = np.array([[4], [2], [3]], np.int32)
    at = table[:, 0]
    want = x[at - 1] + y[at - 2] * x[at]
    assert f.bind(V2E=table)(x=x, y=y)["out"].tolist() == want.tolist()
    assert ti.reference.run(f, V2E=table, x=x, y=y)["out"].tolist() == want.tolist()
