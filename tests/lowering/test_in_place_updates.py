"""Parts of arrays that are written in their own memory, and those that are not: values and slopes are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.analysis.annotations import in_place_updates

HEAD = "f(u: tensor<float, I[0:9], J[-1:6]>, v: tensor<float, I[0:9], J[-1:6]>) {{ {} }}"
IN_PLACE = {
    "what is read at the same point": "u[I[1:8]] ← u × u + ⟪I, 1⟫(v) - v;",
    "what is not read": "u[I[1:8], J[0:5]] ← 2.0 × ⟪J, 1⟫(v);",
    "after a closure that computes": "u ← 3.0 × v; u[I[1:8]] ← u × v;",
}
ANEW = {
    "what is read around": "u[I[1:8]] ← ⟪I, 1⟫(u) - ⟪I, -1⟫(u);",
    "the same as another": "u ← v; u[I[1:8], J[0:5]] ← ⟪I, 1⟫(v) + u;",
    "a column of it": "u[I[1:8]] ← v × gather(I)(u, 3);",
}


@pytest.mark.parametrize("name", [*IN_PLACE, *ANEW])
def test_a_part_is_written_in_place_where_only_its_own_points_are_read(name):
    f = ti.parse(HEAD.format((IN_PLACE | ANEW)[name]))
    c = ti.compile(f)
    assert bool(in_place_updates(f)) == (name in IN_PLACE)
    assert ("dynamic_update_slice" in c.stablehlo()) == (name in IN_PLACE)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(9, 7)), rng.normal(size=(9, 7))
    np.testing.assert_allclose(c(u=u, v=v)["u"], ti.reference.run(f, u=u, v=v)["u"], rtol=1e-13)


@pytest.mark.parametrize("name", IN_PLACE)
def test_slopes_of_a_part_that_is_written_in_place_are_those_of_the_selection(name):
    f = ti.parse(HEAD.format(IN_PLACE[name]))
    c, rng = ti.compile(f), np.random.default_rng(1)
    needed = {p.name for p in f.inputs}
    u, v, du, dv, w = (rng.normal(size=(9, 7)) for _ in range(5))
    with jax.enable_x64(True):

        @jax.jit
        def run(u, v):
            return c(v=v, **({"u": u} if "u" in needed else {}))["u"]

        _, tangent = jax.jvp(run, (jnp.asarray(u), jnp.asarray(v)), (jnp.asarray(du), jnp.asarray(dv)))
        cu, cv = jax.vjp(run, jnp.asarray(u), jnp.asarray(v))[1](jnp.asarray(w))
        h = 1e-6
        above, below = (np.asarray(run(u + s * du, v + s * dv)) for s in (h, -h))
        tangent, cu, cv = map(np.asarray, (tangent, cu, cv))
    np.testing.assert_allclose(tangent, (above - below) / (2 * h), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(np.sum(w * tangent), np.sum(cu * du) + np.sum(cv * dv), rtol=1e-12)
