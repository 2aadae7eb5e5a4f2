"""The library's programs: values, gradients and references."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import program_references
import program_references as references
import pytest
from program_references import (
    advection_third_order,
    advection_upwind,
    biharmonic,
    hdiff,
    heat,
    laplacian,
    mesh_laplacian,
    nabla,
    neighbour_max,
    shallow_water,
    terrain_filter,
    tridiagonal,
    vertical_advection,
)
from program_samples import sample
from scipy.linalg import solve_banded

import tensorir as ti
from stencils import data, library, meshes

# Every program of the library


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


# The library of programs

SECTIONS = ["Equation", "Dims", "Parameters", "Boundary", "Run", "Source"]


def header(name):
    """Name and parameter names of a program's only fencil, read with regular expressions."""
    body = re.sub(r"//.*", "", library.text(name))
    fencil, parameters = re.match(r"\s*(\w+)\(\n(.*?)\n\) \{", body, re.DOTALL).groups()
    return fencil, re.findall(r"^  (\w+): tensor", parameters, re.MULTILINE)


def test_the_library_has_the_programs_that_it_promises():
    assert library.names() == (
        "advection_third_order",
        "advection_upwind",
        "biharmonic",
        "hdiff",
        "heat",
        "laplacian",
        "mesh_laplacian",
        "nabla",
        "neighbour_max",
        "shallow_water",
        "terrain_filter",
        "tridiagonal",
        "vertical_advection",
    )


@pytest.mark.parametrize("name", library.names())
def test_a_page_has_a_title_and_every_section_in_order(name):
    page = library.documentation(name).splitlines()
    assert page[0] and page[1] == "" and page[2]
    assert [line for line in page if line in SECTIONS] == SECTIONS


@pytest.mark.parametrize("name", library.names())
def test_a_page_explains_every_parameter_and_dim_of_its_fencil(name):
    _, parameters = header(name)
    page = library.documentation(name)
    explained = {
        word.strip(",") for line in page.splitlines() if line.startswith("  ") for word in line.split("  ")[1].split()
    }
    dims = set(re.findall(r"(\w+)\[[^]]*:", re.sub(r"//.*", "", library.text(name)))) - {"out", "u", "v"}
    assert set(parameters) <= explained, set(parameters) - explained
    assert dims <= explained, dims - explained


@pytest.mark.parametrize("name", library.names())
def test_a_file_holds_one_fencil_of_its_own_name_in_lines_that_fit(name):
    text = library.text(name)
    assert header(name)[0] == name
    assert len(re.findall(r"^\w+\($", text, re.MULTILINE)) == 1
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", library.names())
def test_a_reference_and_a_sample_have_the_inputs_of_the_program(name):
    parameters = header(name)[1]
    wanted = list(inspect.signature(getattr(references, name)).parameters)
    assert sorted(sample(name)) == sorted(wanted)
    assert [p for p in parameters if p in wanted] == wanted
    assert len(parameters) - len(wanted) <= 1


def test_an_unknown_program_is_answered_with_a_suggestion():
    with pytest.raises(ValueError, match=r"^there is no program 'laplacean': did you mean 'laplacian'\?$"):
        library.text("laplacean")
    with pytest.raises(ValueError, match=r"^there is no program '../../secret': known here: "):
        library.text("../../secret")


# The references of the programs, held against exact solutions and conservation laws


def grid(n, m):
    return np.meshgrid(np.arange(n, dtype=float), np.arange(m, dtype=float), indexing="ij")


def test_the_laplacian_of_a_square_is_its_second_derivative():
    i, j = grid(6, 7)
    np.testing.assert_allclose(laplacian(3 * i**2 - j**2 + i * j)["out"], 4.0)


def test_the_biharmonic_is_the_laplacian_twice():
    inp = sample("biharmonic")["inp"]
    np.testing.assert_allclose(biharmonic(inp)["out"], laplacian(laplacian(inp)["out"])["out"], rtol=1e-12, atol=1e-12)


def test_the_biharmonic_of_fourth_powers_is_their_fourth_derivative():
    i, j = grid(8, 8)
    np.testing.assert_allclose(biharmonic(i**4 + i**2 * j**2)["out"], 24 + 8)


def test_horizontal_diffusion_is_the_biharmonic_where_nothing_is_limited():
    i, j = grid(12, 12)
    wave = np.cos(np.pi * i) * np.cos(np.pi * j)
    np.testing.assert_allclose(hdiff(wave[..., None], np.full((12, 12, 1), 1 / 64))["out"][2:-2, 2:-2], 0.0, atol=1e-14)


def test_horizontal_diffusion_only_lowers_maxima_and_raises_minima():
    inp = sample("hdiff")["inp"]
    out = hdiff(inp, np.full(inp.shape, 1 / 64))["out"]
    for p, q, k in np.ndindex(5, 4, 3):
        p, q = p + 2, q + 2
        around = inp[[p + 1, p - 1, p, p], [q, q, q + 1, q - 1], k]
        if inp[p, q, k] > around.max():
            assert out[p, q, k] <= inp[p, q, k]
        if inp[p, q, k] < around.min():
            assert out[p, q, k] >= inp[p, q, k]


def test_horizontal_diffusion_keeps_the_sum_away_from_the_boundary():
    inp = np.zeros((14, 14))
    inp[5:9, 5:9] = sample("terrain_filter")["inp"][:4, :4]
    out = terrain_filter(inp, 0.02)["out"]
    assert out.sum() == pytest.approx(inp.sum(), rel=1e-14) and not np.allclose(out, inp)


@pytest.mark.parametrize("scheme", [advection_upwind, advection_third_order])
def test_advection_of_a_linear_field_is_exact(scheme):
    i, j = grid(14, 14)
    wind = np.full((14, 14), 0.7), np.full((14, 14), -0.4)
    out = scheme(2 * i + 3 * j, *wind, dt=0.5, dx=1.0, dy=2.0)["out"]
    expected = 2 * (i - 0.35) + 3 * (j + 0.1)
    np.testing.assert_allclose(out[6:-6, 6:-6], expected[6:-6, 6:-6], rtol=1e-13)


def test_third_order_advection_is_third_order_in_space():
    errors = []
    for n in (16, 32):
        x = np.arange(n + 4) * 2 * np.pi / n
        wave = np.sin(x)[:, None] + np.zeros(5)
        dt = 1e-5
        wind = np.ones_like(wave)
        out = advection_third_order(wave, wind, 0 * wind, dt, x[1], 1.0)["out"]
        rate = (out - wave)[2:-2, 2] / dt
        errors.append(np.abs(rate + np.cos(x)[2:-2]).max())
    assert 7.0 < errors[0] / errors[1] < 9.0


def test_third_order_advection_carries_a_hill_around():
    x, y = (axis.values for axis in data.centres(40, 40))
    x, y = np.meshgrid(x, y, indexing="ij")
    u, v = data.rotating_wind(x, y)
    hill = data.gaussian(x, y, centre=(0.5, 0.7), width=0.12)
    field, steps = hill, 120
    for _ in range(steps // 4):
        field = advection_third_order(field, u, v, 1 / steps, 1 / 40, 1 / 40)["out"]
    turned = data.gaussian(x, y, centre=(0.3, 0.5), width=0.12)
    assert np.abs(field - turned).max() < 0.05


def test_the_tridiagonal_systems_are_solved():
    given = sample("tridiagonal")
    x = tridiagonal(**given)["x"]
    for column in np.ndindex(3, 2):
        a, b, c, d = (given[name][column] for name in "abcd")
        banded = np.stack([np.roll(c, 1), b, np.roll(a, -1)])
        np.testing.assert_allclose(x[column], solve_banded((1, 1), banded, d), rtol=1e-12)


def test_vertical_advection_without_wind_passes_the_tendencies_on():
    given = sample("vertical_advection") | {"wcon": np.zeros((5, 3, 8))}
    np.testing.assert_allclose(vertical_advection(**given)["utens_stage"], given["utens"] + given["utens_stage"])


def test_vertical_advection_does_not_see_the_wind_through_top_and_ground():
    given = sample("vertical_advection")
    changed = given["wcon"].copy()
    changed[:, :, [0, -1]] = 1e6
    one, other = vertical_advection(**given), vertical_advection(**(given | {"wcon": changed}))
    np.testing.assert_array_equal(one["utens_stage"], other["utens_stage"])


def test_vertical_advection_moves_a_linear_profile_at_the_speed_of_the_wind():
    k = np.broadcast_to(np.arange(30.0), (1, 1, 30))
    none, wind = np.zeros((1, 1, 30)), np.full((2, 1, 31), 0.02)
    tendency = vertical_advection(none, 2 * k, 2 * k, none, wind, dtr_stage=1.0)["utens_stage"]
    np.testing.assert_allclose(tendency[0, 0, 8:-8], -2 * 0.02, rtol=1e-5)


def test_the_heat_equation_decays_at_second_order():
    errors = []
    for n in (9, 17):
        x, y = (axis.values for axis in data.nodes(n, n))
        x, y = np.meshgrid(x, y, indexing="ij")
        field, dx = data.heat_mode(x, y), 1 / (n - 1)
        dt, steps = 0.2 * dx**2, round(0.05 / (0.2 * dx**2))
        for _ in range(steps):
            field = heat(field, 1.0, dt, dx, dx)["u"]
        errors.append(np.abs(field - data.heat_mode(x, y, time=steps * dt)).max())
    assert errors[0] < 0.01 and 3.5 < errors[0] / errors[1] < 4.5


def test_shallow_water_neither_loses_nor_wins_water():
    given = sample("shallow_water")
    eta = shallow_water(**given)["eta"]
    assert eta.sum() == pytest.approx(given["eta"].sum(), abs=1e-12)


def test_shallow_water_at_rest_stays_at_rest_over_any_ground():
    given = sample("shallow_water") | {"eta": np.full((6, 5), 0.3), "u": np.zeros((7, 5)), "v": np.zeros((6, 6))}
    after = shallow_water(**given)
    np.testing.assert_array_equal(after["eta"], given["eta"])
    assert not after["u"].any() and not after["v"].any()


def test_a_seiche_in_a_small_basin_swings_with_its_period():
    n, m, size, depth, gravity = 32, 2, (320.0, 20.0), 10.0, 9.81
    x, y = (axis.values for axis in data.centres(n, m, *size))
    wave = {"mode": (1, 0), "amplitude": 1e-4, "depth": depth, "gravity": gravity}
    place = np.meshgrid(x, y, indexing="ij")
    dt, steps = 0.5, 65  # half a period is 64.6 s
    state = {"eta": data.seiche(*place, size, **wave), "u": np.zeros((n + 1, m)), "v": np.zeros((n, m + 1))}
    further = {"depth": np.full((n, m), depth), "coriolis": 0.0, "gravity": gravity, "dt": dt, "dx": 10.0, "dy": 10.0}
    slope = gravity * 1e-4 * np.pi / 320 * np.sin(np.pi * np.arange(n + 1) * 10 / 320)
    state["u"] += (dt / 2 * slope)[:, None]  # the velocities stand half a step later
    for _ in range(steps):
        state = shallow_water(**state, **further)
    exact = data.seiche(*place, size, **wave, time=steps * dt)
    assert np.abs(state["eta"] - exact).max() < 1e-6


def test_nabla_gives_the_gradient_of_a_linear_field_on_a_plane():
    mesh = meshes.rectangle(5, 4, 3.0, 2.0)
    g = mesh.geometry
    x, y, _ = mesh.points.T
    gradient = nabla(
        pp=2 * x - 3 * y,
        S_MXX=g.median_face_east,
        S_MYY=g.median_face_north,
        sign=mesh.signs["V2E"],
        vol=g.median_area,
        E2V=mesh.tables["E2V"],
        V2E=mesh.tables["V2E"],
    )["out"]
    inner = (x > 0) & (x < 3) & (y > 0) & (y < 2)
    np.testing.assert_allclose(gradient[0][inner], 2.0)
    np.testing.assert_allclose(gradient[1][inner], -3.0)


def test_the_mesh_laplacian_of_a_harmonic_converges_to_its_eigenvalue():
    errors = []
    for level in (2, 3, 4):
        mesh = meshes.icosahedral(level, radius=2.0)
        g = mesh.geometry
        harmonic = data.sectoral_harmonic(g.vertex_lon, g.vertex_lat, order=2)
        measures = {name: getattr(g, name) for name in ("edge_length", "dual_edge_length", "vertex_area")}
        tables = {"E2V": mesh.tables["E2V"], "V2E": mesh.tables["V2E"]}
        out = mesh_laplacian(np.stack([harmonic, 2 * harmonic], axis=1), mesh.signs["V2E"], **measures, **tables)["out"]
        np.testing.assert_allclose(out[:, 1], 2 * out[:, 0], rtol=1e-12, atol=1e-12)
        errors.append(np.sqrt(np.mean((out[:, 0] + 6 / 4 * harmonic) ** 2)))
    assert errors[0] > 2.5 * errors[1] > 6 * errors[2]


def test_the_neighbour_maximum_of_an_index_is_the_largest_neighbour():
    given = sample("neighbour_max") | {"inp": np.arange(42.0)}
    expected = [max(v, *row) for v, row in enumerate(given["V2V"].tolist())]
    assert neighbour_max(**given)["out"].tolist() == expected
