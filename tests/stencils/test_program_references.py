"""The references of the programs, held against exact solutions and conservation laws."""

import numpy as np
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

from stencils import data, meshes


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
