"""Meshes: what must hold for any triangulation, and what is known of icosahedra, planes and tori."""

import subprocess
import sys

import numpy as np
import pytest

from stencils import meshes
from stencils.baroclinic_wave.staggering import tangential
from stencils.meshes import Mesh, Plane

ROOT3 = np.sqrt(3.0)

MESHES = {
    "icosahedron": meshes.icosahedral(0, radius=1.0),
    "sphere": meshes.icosahedral(2, radius=2.0),
    "sphere cut in three first": meshes.icosahedral(1, root=3),
    "rectangle": meshes.rectangle(5, 4, width=2.0, height=3.0),
    "one box": meshes.rectangle(1, 1),
    "channel": meshes.rectangle(4, 3, periodic=(True, False)),
    "torus": meshes.rectangle(5, 3, width=5.0, height=2.0, periodic=(True, True)),
    "staggered channel": meshes.rectangle(4, 3, periodic=(True, False), staggered=True),
    "equilateral torus": meshes.rectangle(6, 4, 6.0, 2 * ROOT3, periodic=(True, True), staggered=True),
}
EULER = {"rectangle": 1, "one box": 1, "channel": 0, "torus": 0, "staggered channel": 0, "equilateral torus": 0}
PLANAR = list(EULER)
CLOSED = [name for name, mesh in MESHES.items() if not mesh.geometry.edge_on_boundary.any()]


@pytest.fixture(params=MESHES, name="name")
def _name(request):
    return request.param


@pytest.fixture(name="mesh")
def _mesh(name):
    return MESHES[name]


def neighbours(table, row):
    return [int(entry) for entry in table[row] if entry >= 0]


def test_vertices_minus_edges_plus_cells_is_the_euler_characteristic(name, mesh):
    sizes = mesh.sizes
    assert sizes["Vertex"] - sizes["Edge"] + sizes["Cell"] == EULER.get(name, 2)


@pytest.mark.parametrize(("level", "root"), [(0, 1), (1, 1), (3, 1), (0, 2), (0, 5), (2, 3)])
def test_an_icosahedral_mesh_has_as_many_elements_as_its_formula_says(level, root):
    squares = root**2 * 4**level
    expected = {"Vertex": 10 * squares + 2, "Edge": 30 * squares, "Cell": 20 * squares}
    assert meshes.icosahedral(level, root=root).sizes == expected


@pytest.mark.parametrize(("level", "root"), [(0, 1), (3, 1), (1, 3)])
def test_twelve_vertices_are_pentagons_and_the_rest_hexagons(level, root):
    mesh = meshes.icosahedral(level, root=root)
    for name in ("V2E", "V2V", "V2C"):
        missing = (mesh.tables[name] < 0).sum(axis=1)
        if level or root > 1:
            assert sorted(np.flatnonzero(missing == 1)) == list(range(12)), name
            assert missing.sum() == 12 and (mesh.tables[name][:12, 5] == -1).all(), name
        else:
            assert mesh.tables[name].shape == (12, 5) and missing.sum() == 0, name


def test_a_sphere_is_complete_but_for_the_pentagons():
    tables = MESHES["sphere"].tables
    assert all((table >= 0).all() for name, table in tables.items() if not name.startswith("V"))


def test_tables_are_int32_and_read_only(mesh):
    for table in mesh.tables.values():
        assert table.dtype == np.int32 and not table.flags.writeable and table.flags.c_contiguous
        assert table.min() >= -1


def test_missing_neighbours_stand_last_around_vertices(mesh):
    for name in ("V2E", "V2V", "V2C"):
        missing = mesh.tables[name] < 0
        assert (np.diff(missing.astype(int), axis=1) >= 0).all(), name


def test_an_edge_is_listed_by_exactly_its_two_vertices(mesh):
    v2e, e2v = mesh.tables["V2E"], mesh.tables["E2V"]
    listed = sorted((e, v) for v in range(len(v2e)) for e in neighbours(v2e, v))
    assert listed == sorted((e, int(v)) for e in range(len(e2v)) for v in e2v[e])


def test_a_neighbour_is_the_other_end_of_the_edge_in_the_same_slot(mesh):
    v2e, v2v, e2v = (mesh.tables[name] for name in ("V2E", "V2V", "E2V"))
    for v in range(len(v2v)):
        for edge, other in zip(neighbours(v2e, v), neighbours(v2v, v), strict=True):
            assert {v, other} == set(e2v[edge].tolist())


def test_cells_and_edges_name_each_other(mesh):
    c2e, e2c = mesh.tables["C2E"], mesh.tables["E2C"]
    listed = sorted((e, c) for c in range(len(c2e)) for e in neighbours(c2e, c))
    assert listed == sorted((e, c) for e in range(len(e2c)) for c in neighbours(e2c, e))


def test_cells_and_vertices_name_each_other(mesh):
    c2v, v2c = mesh.tables["C2V"], mesh.tables["V2C"]
    listed = sorted((c, v) for v in range(len(v2c)) for c in neighbours(v2c, v))
    assert listed == sorted((c, int(v)) for c in range(len(c2v)) for v in c2v[c])


def test_an_edge_of_a_cell_joins_the_corners_of_its_slot(mesh):
    c2v, c2e, e2v = (mesh.tables[name] for name in ("C2V", "C2E", "E2V"))
    joined = np.sort(np.stack([c2v, np.roll(c2v, -1, axis=1)], axis=2), axis=2)
    np.testing.assert_array_equal(np.sort(e2v[c2e], axis=2), joined)


def test_the_cell_behind_an_edge_is_its_other_cell(mesh):
    c2e, c2c, e2c = (mesh.tables[name] for name in ("C2E", "C2C", "E2C"))
    for c in range(len(c2e)):
        for edge, beyond in zip(c2e[c], c2c[c], strict=True):
            assert sorted(e2c[edge].tolist()) == sorted([c, int(beyond)])


def test_the_left_cell_runs_along_the_edge_and_the_right_cell_against_it(mesh):
    c2v, e2v, e2c = (mesh.tables[name] for name in ("C2V", "E2V", "E2C"))
    for (start, stop), (left, right) in zip(e2v.tolist(), e2c.tolist(), strict=True):
        cycle = c2v[left].tolist()
        assert cycle[(cycle.index(start) + 1) % 3] == stop
        if right >= 0:
            cycle = c2v[right].tolist()
            assert cycle[(cycle.index(stop) + 1) % 3] == start


def test_a_diamond_has_the_far_corners_and_the_outer_edges(mesh):
    tables = mesh.tables
    for e, (left, right) in enumerate(tables["E2C"].tolist()):
        for side, cell in enumerate((left, right)):
            far, outer = int(tables["E2C2V"][e, 2 + side]), tables["E2C2E"][e, 2 * side : 2 * side + 2].tolist()
            if cell < 0:
                assert far == -1 and outer == [-1, -1]
            else:
                assert {far, *tables["E2V"][e].tolist()} == set(tables["C2V"][cell].tolist())
                assert {e, *outer} == set(tables["C2E"][cell].tolist())


def test_cells_around_a_vertex_lie_between_successive_edges(mesh):
    v2e, v2c, c2e = (mesh.tables[name] for name in ("V2E", "V2C", "C2E"))
    for v in range(len(v2e)):
        edges, cells = neighbours(v2e, v), neighbours(v2c, v)
        assert len(edges) - len(cells) in (0, 1)
        for k, cell in enumerate(cells):
            assert {edges[k], edges[(k + 1) % len(edges)]} <= set(c2e[cell].tolist())


def test_neighbours_turn_counterclockwise_once(mesh):
    g, v2v = mesh.geometry, mesh.tables["V2V"]
    closed = len(mesh.tables["V2C"]) and (mesh.tables["V2C"] >= 0).sum(axis=1) == (v2v >= 0).sum(axis=1)
    for v in range(len(v2v)):
        here, up = mesh.points[v], mesh.surface.up(mesh.points[v])
        arms = [mesh.surface.near(here, mesh.points[other]) - here for other in neighbours(v2v, v)]
        arms = [arm - (arm @ up) * up for arm in arms]
        turns = [np.arctan2(np.cross(a, b) @ up, a @ b) for a, b in zip(arms, arms[1:] + arms[:1], strict=True)]
        assert all(turn > 0 for turn in turns[:-1])
        if closed[v]:
            assert sum(turns) == pytest.approx(2 * np.pi)
    assert (g.cell_area > 0).all()


def test_a_fan_begins_with_its_lowest_edge_and_at_a_boundary_with_the_boundary(mesh):
    v2e = mesh.tables["V2E"]
    on_boundary = mesh.geometry.edge_on_boundary
    for v in range(len(v2e)):
        edges = neighbours(v2e, v)
        if on_boundary[edges].any():
            assert on_boundary[edges[0]] and on_boundary[edges[-1]] and not on_boundary[edges[1:-1]].any()
        else:
            assert edges[0] == min(edges)


def test_a_refined_sphere_keeps_the_vertices_of_the_coarse_one():
    coarse, fine = meshes.icosahedral(2), meshes.icosahedral(3)
    np.testing.assert_allclose(fine.points[: len(coarse.points)], coarse.points, rtol=1e-15)


def test_the_four_children_of_a_cell_stand_together():
    coarse, fine = meshes.icosahedral(1), meshes.icosahedral(2)
    parents = fine.geometry.cell_area.reshape(-1, 4).sum(axis=1)
    np.testing.assert_allclose(parents, coarse.geometry.cell_area, rtol=1e-12)


def test_a_mesh_is_the_same_each_time():
    one, other = meshes.icosahedral(2, root=2), meshes.icosahedral(2, root=2)
    np.testing.assert_array_equal(one.points, other.points)
    for name, table in one.tables.items():
        np.testing.assert_array_equal(table, other.tables[name])


# ---- geometry


@pytest.mark.parametrize("measure", ["cell_area", "vertex_area", "median_area"])
def test_areas_add_up_to_the_surface(name, mesh, measure):
    surfaces = {
        "icosahedron": 4 * np.pi,
        "sphere": 16 * np.pi,
        "sphere cut in three first": 4 * np.pi * meshes.EARTH_RADIUS**2,
        "rectangle": 6.0,
        "torus": 10.0,
        "equilateral torus": 12 * ROOT3,
    }
    assert getattr(mesh.geometry, measure).sum() == pytest.approx(surfaces.get(name, 1.0), rel=1e-13)


def test_the_icosahedron_has_its_known_measures():
    g = MESHES["icosahedron"].geometry
    np.testing.assert_allclose(g.edge_length, np.arctan(2.0), rtol=1e-14)
    np.testing.assert_allclose(g.cell_area, np.pi / 5, rtol=1e-14)
    np.testing.assert_allclose(g.vertex_area, np.pi / 3, rtol=1e-14)
    assert g.vertex_lat[[0, 11]].tolist() == [90.0, -90.0]
    np.testing.assert_allclose(g.vertex_lat[1:6], np.degrees(np.arctan(0.5)), rtol=1e-14)


def test_equilateral_triangles_have_regular_hexagons_as_duals():
    g = MESHES["equilateral torus"].geometry
    np.testing.assert_allclose(g.edge_length, 1.0, rtol=1e-14)
    np.testing.assert_allclose(g.dual_edge_length, 1 / ROOT3, rtol=1e-13)
    np.testing.assert_allclose(g.cell_area, ROOT3 / 4, rtol=1e-13)
    np.testing.assert_allclose(g.vertex_area, ROOT3 / 2, rtol=1e-13)
    np.testing.assert_allclose(g.median_area, ROOT3 / 2, rtol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(g.median_face, axis=1), 1 / ROOT3, rtol=1e-13)


def test_tangent_normal_and_up_are_a_right_handed_frame(mesh):
    g = mesh.geometry
    up = mesh.surface.up(g.edge_position)
    np.testing.assert_allclose(np.cross(g.edge_normal, g.edge_tangent), up, atol=1e-14)
    np.testing.assert_allclose(g.edge_normal_east**2 + g.edge_normal_north**2, 1.0, rtol=1e-13)


def test_the_normal_points_from_the_first_to_the_second_cell(mesh):
    g, (left, right) = mesh.geometry, mesh.tables["E2C"].T
    inner = right >= 0
    centroids = [mesh.surface.near(g.edge_position, _centroids(mesh)[side]) for side in (left, right)]
    across = np.einsum("ei,ei->e", centroids[1] - centroids[0], g.edge_normal)
    assert (across[inner] > 0).all()


def _centroids(mesh):
    corners = mesh.points[mesh.tables["C2V"]]
    near = np.stack([mesh.surface.near(corners[:, 0], corners[:, k]) for k in range(3)], axis=1)
    return near.mean(axis=1)


def test_dual_edges_cross_edges_at_right_angles_on_the_sphere():
    mesh = MESHES["sphere"]
    g, (left, right) = mesh.geometry, mesh.tables["E2C"].T
    dual = g.cell_position[right] - g.cell_position[left]
    lengths = np.linalg.norm(dual, axis=1)
    np.testing.assert_allclose(np.einsum("ei,ei->e", dual, g.edge_tangent) / lengths, 0.0, atol=1e-13)
    assert (g.dual_edge_length > 0).all()


def test_longitudes_and_latitudes_give_the_positions_back():
    mesh = MESHES["sphere"]
    g = mesh.geometry
    for kind in ("vertex", "edge", "cell"):
        lon, lat = np.radians(getattr(g, f"{kind}_lon")), np.radians(getattr(g, f"{kind}_lat"))
        back = 2.0 * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
        np.testing.assert_allclose(back, getattr(g, f"{kind}_position"), atol=1e-14)


# ---- orientation, divergence, gradient


def test_every_edge_is_seen_once_with_each_sign(mesh):
    for name in ("V2E", "C2E"):
        table, sign = mesh.tables[name], mesh.signs[name]
        assert ((sign == 0) == (table < 0)).all()
        total = np.zeros(mesh.sizes["Edge"])
        np.add.at(total, table[table >= 0], sign[table >= 0])
        expected = np.where(mesh.geometry.edge_on_boundary & (name == "C2E"), 1.0, 0.0)
        np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("name", PLANAR)
def test_the_normals_of_a_plane_cell_close(name):
    mesh = MESHES[name]
    g = mesh.geometry
    faces = g.edge_normal * g.edge_length[:, None]
    closed = np.einsum("ck,cki->ci", mesh.signs["C2E"], faces[mesh.tables["C2E"]])
    np.testing.assert_allclose(closed, 0.0, atol=1e-14)


@pytest.mark.parametrize("name", CLOSED)
def test_a_divergence_sums_to_zero_on_a_closed_surface(name):
    mesh = MESHES[name]
    flux = np.random.default_rng(0).normal(size=mesh.sizes["Edge"])
    for table in ("C2E", "V2E"):
        divergence = (mesh.signs[table] * flux[mesh.tables[table]]).sum(axis=1)
        assert abs(divergence.sum()) < 1e-11


def green_gauss(mesh, field):
    """Gradient at the vertices (Vertex, 3) from fluxes through the faces of the median dual mesh."""
    g = mesh.geometry
    fluxes = field[mesh.tables["E2V"]].mean(axis=1)[:, None] * g.median_face
    return np.einsum("vk,vki->vi", mesh.signs["V2E"], fluxes[mesh.tables["V2E"]]) / g.median_area[:, None]


def inner_vertices(mesh):
    outer = mesh.tables["E2V"][mesh.geometry.edge_on_boundary]
    return np.setdiff1d(np.arange(mesh.sizes["Vertex"]), outer)


def test_the_green_gauss_gradient_of_a_linear_field_is_exact_on_a_plane():
    regular = meshes.rectangle(7, 6, width=3.0, height=2.0)
    points = np.array(regular.points)
    inner = inner_vertices(regular)
    points[inner, :2] += np.random.default_rng(1).uniform(-0.08, 0.08, (len(inner), 2))
    mesh = Mesh.of_triangles(points, regular.tables["C2V"], Plane())
    gradient = green_gauss(mesh, 5.0 + 2.0 * points[:, 0] - 3.0 * points[:, 1])
    np.testing.assert_allclose(gradient[inner], np.tile([2.0, -3.0, 0.0], (len(inner), 1)), atol=1e-13)


def test_the_faces_around_an_inner_vertex_of_a_plane_close():
    mesh = MESHES["rectangle"]
    closed = green_gauss(mesh, np.ones(mesh.sizes["Vertex"]))
    np.testing.assert_allclose(closed[inner_vertices(mesh)], 0.0, atol=1e-14)


def test_the_gradient_on_the_sphere_converges():
    direction = np.array([1.0, 2.0, -0.5])
    errors = []
    for level in (3, 4, 5):
        mesh = meshes.icosahedral(level, radius=1.0)
        gradient = green_gauss(mesh, mesh.points @ direction)
        gradient -= np.einsum("vi,vi->v", gradient, mesh.points)[:, None] * mesh.points
        exact = direction - (mesh.points @ direction)[:, None] * mesh.points
        errors.append(np.sqrt(((gradient - exact) ** 2).sum(axis=1).mean()))
    assert errors[0] < 0.03
    assert errors[0] / errors[1] > 1.9 and errors[1] / errors[2] > 1.9


def test_the_laplacian_on_a_cut_rectangle_is_the_five_point_laplacian():
    mesh = meshes.rectangle(8, 8, 8.0, 8.0, periodic=(True, True))
    g, field = mesh.geometry, np.random.default_rng(2).normal(size=64)
    start, stop = mesh.tables["E2V"].T
    flux = (field[stop] - field[start]) * g.dual_edge_length / g.edge_length
    laplacian = (mesh.signs["V2E"] * flux[mesh.tables["V2E"]]).sum(axis=1) / g.vertex_area
    x = field.reshape(8, 8)
    expected = sum(np.roll(x, step, axis) for step in (1, -1) for axis in (0, 1)) - 4 * x
    np.testing.assert_allclose(laplacian.reshape(8, 8), expected, atol=1e-13)


# ---- the face to xarray


def test_a_table_comes_with_named_dims():
    table = MESHES["sphere"].table("V2E")
    assert table.dims == ("Vertex", "_NB_Edge") and table.dtype == np.int32 and table.name == "V2E"
    assert MESHES["sphere"].sign("C2E").dims == ("Cell", "_NB_0")


def test_a_dataset_has_every_measure_with_units():
    data = MESHES["sphere"].dataset()
    assert set(data.data_vars) == set(meshes.QUANTITIES)
    assert all(data[name].attrs["units"] and data[name].attrs["long_name"] for name in data.data_vars)
    assert data.median_face.dims == ("Edge", "xyz") and data.xyz.values.tolist() == ["x", "y", "z"]


def test_a_plane_has_no_longitudes():
    assert "vertex_lon" not in MESHES["torus"].dataset()
    with pytest.raises(ValueError, match=r"^a mesh on a plane has no longitudes and latitudes: use the positions\.$"):
        _ = MESHES["torus"].geometry.vertex_lon


def test_the_import_of_meshes_loads_no_xarray():
    code = (
        "import sys; from stencils.meshes import icosahedral; icosahedral(1).geometry; print('xarray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: meshes.icosahedral(-1), "level must be at least 0 and root at least 1, but they are -1 and 1."),
        (lambda: meshes.icosahedral(10**9), "level 1000000000 with root 1 has more than 20,000,000 cells."),
        (lambda: meshes.icosahedral(1, radius=np.nan), "the radius must be positive and finite, but is nan."),
        (lambda: meshes.rectangle(0, 2), "nx must be at least 1, but is 0."),
        (lambda: meshes.rectangle(3, 2, periodic=(True, True)), "ny must be at least 3, but is 2."),
        (lambda: meshes.rectangle(3, 3, -1.0), "width and height must be positive and finite, but are -1.0 and 1.0."),
        (lambda: meshes.rectangle(3, 3, staggered=True), "a staggered rectangle must be periodic along x."),
        (
            lambda: meshes.rectangle(3, 3, periodic=(True, True), staggered=True),
            "a staggered torus needs an even number of rows, but ny is 3.",
        ),
        (lambda: triangles([[0, 1]]), "triangles must be integers of shape (cells, 3), not int64 of shape (1, 2)."),
        (lambda: triangles([[0, 1, 1]]), "a triangle has the same vertex twice."),
        (lambda: triangles([[0, 1, -2]]), "triangles hold a negative vertex number."),
        (lambda: triangles([[0, 1, 10**15]]), "vertex 2 belongs to no triangle."),
        (
            lambda: triangles([[0, 1, 2], [0, 1, 3]]),
            "two triangles run along one edge in the same direction: orient all counterclockwise.",
        ),
        (lambda: triangles([[0, 1, 2], [0, 3, 4]]), "the triangles at vertex 0 are not one fan."),
        (lambda: triangles([[0, 1, 2]]), "there are 5 points, but the triangles use 3."),
        (lambda: MESHES["sphere"].table("E2C2W"), "a mesh has no table 'E2C2W': did you mean 'E2C2V'?"),
        (lambda: MESHES["sphere"].dataset("cel_area"), "a mesh has no 'cel_area': did you mean 'cell_area'?"),
        (
            lambda: Mesh.of_triangles([[0.0, 0.0], [1.0, 0.0], [0.0, np.inf]], [[0, 1, 2]], Plane()),
            "a point has a coordinate that is not finite.",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError) as refused:
        call()
    assert str(refused.value) == message


def triangles(corners):
    return Mesh.of_triangles(np.zeros((5, 2)), corners, Plane())


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_tangential_velocity_is_the_mean_of_two_fits_by_least_squares(level):
    mesh = meshes.icosahedral(level)
    along = np.random.default_rng(level).normal(size=len(mesh.tables["E2V"]))
    edges, weights = tangential(mesh)
    found = (weights * along[edges]).sum(1)
    fitted = []
    for point, row in zip(mesh.points, mesh.tables["V2E"], strict=True):
        up = point / np.linalg.norm(point)
        around = row[row >= 0]
        directions = mesh.geometry.edge_tangent[around]
        directions = directions - np.outer(directions @ up, up)
        fitted.append(np.linalg.lstsq(directions, along[around], rcond=1e-9)[0])
    of_vertices = np.array(fitted)[mesh.tables["E2V"]]
    expected = -(of_vertices.mean(1) * mesh.geometry.edge_normal).sum(1)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
