"""Every program of the library: its reference, the oracle, gradients; and known answers from outside."""

import jax
import jax.numpy as jnp
import numpy as np
import program_references
import pytest
from program_samples import sample
from scipy.linalg import solve_banded

import tensorir as ti
from stencils import data, library, meshes

NAMES = library.names()


def tables_of(name):
    """The arguments of a program that are tables or numbers of a mesh, and those that vary."""
    arguments = sample(name)
    fixed = {n: v for n, v in arguments.items() if np.asarray(v).dtype.kind in "iu"}
    return fixed, {n: np.asarray(v, float) for n, v in arguments.items() if n not in fixed}


def leaves(results):
    return [
        np.asarray(leaf) for value in results.values() for leaf in (value if isinstance(value, tuple) else (value,))
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_its_reference_does(name):
    arguments = sample(name)
    expected = getattr(program_references, name)(**arguments)
    got = library.load(name)(**{n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()})
    assert list(got) == list(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_and_parses_to_itself(name):
    program = library.load(name)
    assert ti.parse(str(program)) == program


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_adjoint_and_of_second_order(name):
    fixed, varying = tables_of(name)
    with jax.enable_x64(True):
        compiled = ti.compile(library.load(name).bind(**fixed) if fixed else library.load(name))
        x = {n: jnp.asarray(v) for n, v in varying.items()}

        def run(x):
            return jnp.concatenate([leaf.ravel() for leaf in jax.tree_util.tree_leaves(compiled(**x))])

        rng = np.random.default_rng(1)
        # relative, so that what is exactly zero (land, a closed face) stays on its side of a branch
        dx = {n: jnp.asarray(rng.normal(size=v.shape) * np.abs(v)) for n, v in varying.items()}
        y, forward = jax.jvp(run, (x,), (dx,))
        weights = jnp.asarray(rng.normal(size=y.shape))
        (back,) = jax.vjp(run, x)[1](weights)
        left = float(forward @ weights)
        right = sum(float((dx[n] * back[n]).sum()) for n in x)
        scale = float(jnp.linalg.norm(forward) * jnp.linalg.norm(weights))
        assert abs(left - right) <= 1e-12 * scale

        def remainder(h):
            moved = run({n: x[n] + h * dx[n] for n in x})
            return float(jnp.abs(moved - y - h * forward).max())

        steps = 1e-3 * 2.0 ** -np.arange(6)
        rest = np.array([remainder(h) for h in steps])
        if rest.max() > 1e-11 * float(jnp.abs(y).max()):  # else the program is linear
            orders = np.log2(rest[:-1] / rest[1:])
            assert orders.max() >= 1.9, orders


def test_the_tridiagonal_solver_is_scipys():
    rng = np.random.default_rng(3)
    a, c, d = rng.normal(size=(3, 2, 3, 11))
    b = 4.0 + np.abs(a) + np.abs(c)
    x = library.load("tridiagonal")(a=a, b=b, c=c, d=d)["x"]
    for i, j in np.ndindex(2, 3):
        bands = np.zeros((3, 11))
        bands[0, 1:], bands[1], bands[2, :-1] = c[i, j, :-1], b[i, j], a[i, j, 1:]
        np.testing.assert_allclose(x[i, j], solve_banded((1, 1), bands, d[i, j]), rtol=1e-12)


def heat_error(n, steps):
    diffusivity, time = 0.3, 0.2
    x, y = data.nodes(n, n, width=1.0, height=1.0)
    start = np.asarray(np.sin(np.pi * x) * np.sin(2 * np.pi * y) + 0 * (x + y))
    step = ti.compile(library.load("heat"))
    with jax.enable_x64(True):
        numbers = {"diffusivity": diffusivity, "dt": time / steps, "dx": 1 / (n - 1), "dy": 1 / (n - 1)}
        numbers = {k: jnp.asarray(v) for k, v in numbers.items()}
        final = ti.iterate(lambda u: step(u=u, **numbers)["u"], jnp.asarray(start), steps)
    return np.abs(np.asarray(final) - start * np.exp(-5 * np.pi**2 * diffusivity * time)).max()


def test_heat_decays_as_it_should_at_second_order():
    errors = [heat_error(n, 20 * (n // 8) ** 2) for n in (9, 17, 33)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders.min() > 1.9, orders


def test_a_hill_in_solid_body_rotation_comes_back():
    n, steps = 64, 400
    x, y = data.centres(n, n, width=1.0, height=1.0)
    hill = data.gaussian(x, y, centre=(0.5, 0.7), width=0.1).transpose("I", "J")
    u, v = -2 * np.pi * (y - 0.5) + 0 * hill, 2 * np.pi * (x - 0.5) + 0 * hill
    u, v, hill = (np.asarray(a.transpose("I", "J")) for a in (u, v, hill))
    step = ti.compile(library.load("advection_third_order"))
    with jax.enable_x64(True):
        numbers = {k: jnp.asarray(w) for k, w in {"u": u, "v": v, "dt": 1 / steps, "dx": 1 / n, "dy": 1 / n}.items()}

        final = np.asarray(ti.iterate(lambda f: step(inp=f, **numbers)["out"], jnp.asarray(hill), steps))
    assert final.max() > 0.8 * hill.max()
    assert np.abs(final - hill).max() < 0.15
    top, before = (np.array(np.unravel_index(f.argmax(), f.shape)) for f in (final, hill))
    assert np.abs(top - before).max() <= 1


LINEAR = """
gradient(out: tensor<float, Vertex[0:nv]>, f: tensor<float, Vertex[0:nv]>, w: tensor<float, Vertex[0:nv], _NB_0[0:d]>,
         V2E: tensor<int, Vertex[0:nv], _NB_Edge[0:d]>, E2V: tensor<int, Edge[0:ne], _NB_Vertex[0:2]>) {
  out ← reduce(λ(a, m, s) → a + s × m, 0.0)(⟪V2E⟫(0.5 × (⟪E2V, 0⟫(f) + ⟪E2V, 1⟫(f))), w);
}
"""


def test_the_mesh_gradient_of_a_linear_field_is_its_slope():
    mesh = meshes.rectangle(6, 5, width=3.0, height=2.5)
    e2v, v2e = mesh.tables["E2V"], mesh.tables["V2E"]
    points = np.asarray(mesh.points)[:, :2]
    f = 2.0 * points[:, 0] - 3.0 * points[:, 1] + 1.0
    middle = points[e2v].mean(1)
    # weights that make the gradient of x exact: least squares over the neighbouring edges' midpoints
    w = np.zeros(v2e.shape)
    for v, edges in enumerate(v2e):
        there = edges[edges >= 0]
        rows = np.stack([np.ones(len(there)), *(middle[there] - points[v]).T])
        w[v, : len(there)] = np.linalg.lstsq(rows, np.array([0.0, 1.0, 0.0]), rcond=None)[0]
    out = ti.parse(LINEAR)(f=f, w=w, V2E=v2e, E2V=e2v)["out"]
    interior = np.asarray([(edges >= 0).sum() >= 4 for edges in v2e])
    np.testing.assert_allclose(out[interior], 2.0, rtol=1e-10)


def test_a_column_is_read_at_the_level_that_another_field_says():
    f = ti.parse("""
      at(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3], K[0:4]>, level: tensor<int, I[0:3]>) {
        out ← unstructured_shift(add_dim(_NB_K, 0, 1, min(max(level, 0), 3)), 0)(x);
      }""")
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(f(x=x, level=np.array([3, 0, 2], np.int32))["out"], [3.0, 4.0, 10.0])


def test_levels_above_are_read_through_a_computed_table_that_is_proven_inside():
    f = ti.parse("""
      above(out: tensor<float, I[0:3], K[0:4]>, x: tensor<float, I[0:3], K[0:4]>) {
        out ← unstructured_shift(add_dim(_NB_K, 0, 1, min(pos(K, x) + 2, 3)), 0)(x);
      }""")
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(f(x=x)["out"], x[:, [2, 3, 3, 3]])


def test_a_guarded_neighbour_has_a_fallback_value():
    f = ti.parse("""
      f(out: tensor<float, V[0:3]>, x: tensor<float, E[0:2]>, T: tensor<int, V[0:3], _NB_E[0:1]>) {
        out ← let there = ⟪T, 0⟫(x); if can_deref(there) then there else -7.0;
      }""")
    np.testing.assert_array_equal(f(x=np.array([1.5, 2.5]), T=np.array([[1], [-1], [0]]))["out"], [2.5, -7.0, 1.5])


def test_terrain_is_smoothed_and_its_mean_is_nearly_kept():
    terrain = data.jacksboro_fault().astype(float).rename(J="I", I="J")
    out = library.load("terrain_filter")(inp=terrain, strength=1 / 64)["out"]
    assert out.attrs["units"] == "m"
    assert float(np.abs(out.diff("I")).mean()) < float(np.abs(terrain.diff("I")).mean())
    np.testing.assert_allclose(float(out.mean()), float(terrain.mean()), rtol=1e-4)
    assert float(out.max()) <= float(terrain.max())
