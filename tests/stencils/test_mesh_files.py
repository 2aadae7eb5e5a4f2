"""Meshes of other programs' files, written here as their conventions say, and the numbers that they keep."""

import numpy as np
import pytest
import xarray as xr
from scipy.spatial import ConvexHull, Delaunay

import tensorir as ti
from stencils import meshes
from stencils.meshes import Plane, Sphere

RADIUS = 6.371229e6
RNG = np.random.default_rng(7)


def sphere():
    """Points on the unit sphere and the triangles of their hull, in any orientation, by another library."""
    points = RNG.normal(size=(60, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points, ConvexHull(points).simplices.astype(int)


def sides(triangles):
    """The edges in an order and in directions of no system."""
    pairs = {tuple(sorted((int(t[k]), int(t[k - 1])))) for t in triangles for k in range(3)}
    edges = np.array(sorted(pairs))[RNG.permutation(len(pairs))]
    return np.where(RNG.random(len(edges))[:, None] < 0.5, edges, edges[:, ::-1])


POINTS, TRIANGLES = sphere()
EDGES = sides(TRIANGLES)
LON, LAT = np.arctan2(POINTS[:, 1], POINTS[:, 0]), np.arcsin(POINTS[:, 2])


def icon():
    return xr.Dataset(
        {
            "vlon": ("vertex", LON, {"units": "radian"}),
            "vlat": ("vertex", LAT, {"units": "radian"}),
            "vertex_of_cell": (("nv", "cell"), (TRIANGLES.T + 1).astype("int32")),
            "edge_vertices": (("nc", "edge"), (EDGES.T + 1).astype("int32")),
        },
        attrs={"sphere_radius": RADIUS, "grid_geometry": 1},
    )


def mpas():
    """The points are centres of polygons there, and the triangles vertices."""
    position = {f"{c}Cell": ("nCells", POINTS[:, k]) for k, c in enumerate("xyz")}
    return xr.Dataset(
        {
            **position,
            "cellsOnVertex": (("nVertices", "vertexDegree"), (TRIANGLES + 1).astype("int32")),
            "cellsOnEdge": (("nEdges", "TWO"), (EDGES + 1).astype("int32")),
        },
        attrs={"on_a_sphere": "YES             ", "sphere_radius": 1.0},
    )


def ugrid():
    topology = {
        "cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "lat lon",
        "face_node_connectivity": "faces", "edge_node_connectivity": "edges", "face_dimension": "nFaces",
    }  # fmt: skip
    faces = np.pad((TRIANGLES + 1).astype("int32"), ((0, 0), (0, 1)), constant_values=-999)
    return xr.Dataset(
        {
            "Mesh2": ((), 0, topology),
            "lon": ("nNodes", np.degrees(LON), {"units": "degrees_east", "standard_name": "longitude"}),
            "lat": ("nNodes", np.degrees(LAT), {"units": "degrees_north", "standard_name": "latitude"}),
            "faces": (("four", "nFaces"), faces.T, {"start_index": 1, "_FillValue": np.int32(-999)}),
            "edges": (("nEdges", "two"), EDGES),
        }
    )


FILES = {"icon": icon, "mpas": mpas, "ugrid": ugrid}


@pytest.fixture(params=FILES)
def mesh(request, tmp_path):
    FILES[request.param]().to_netcdf(tmp_path / "grid.nc", engine="netcdf4")
    return meshes.read(tmp_path / "grid.nc", radius=1.0)


def test_a_mesh_has_the_numbers_of_its_file(mesh):
    np.testing.assert_array_equal(mesh.tables["E2V"], EDGES)
    np.testing.assert_array_equal(np.sort(mesh.tables["C2V"]), np.sort(TRIANGLES))
    np.testing.assert_allclose(mesh.points, POINTS, atol=1e-14)


def test_neighbours_are_those_that_a_search_of_the_triangles_finds(mesh):
    for e, (a, b) in enumerate(EDGES):
        beside = [c for c, t in enumerate(TRIANGLES) if a in t and b in t]
        assert sorted(mesh.tables["E2C"][e]) == beside
    for v in range(len(POINTS)):
        edges = [e for e, pair in enumerate(EDGES) if v in pair]
        assert sorted(e for e in mesh.tables["V2E"][v] if e >= 0) == edges


def test_the_cell_on_the_left_of_an_edge_is_on_its_left(mesh):
    for (a, b), (left, right) in zip(EDGES, mesh.tables["E2C"], strict=True):
        across = np.cross(POINTS[a], POINTS[b])
        assert across @ POINTS[TRIANGLES[left]].mean(axis=0) > 0 > across @ POINTS[TRIANGLES[right]].mean(axis=0)


def test_the_geometry_is_that_of_the_triangles(mesh):
    a, b, c = POINTS[TRIANGLES].transpose(1, 0, 2)
    sine = np.abs(np.einsum("ni,ni->n", a, np.cross(b, c)))
    cosine = 1 + (a * b).sum(-1) + (b * c).sum(-1) + (c * a).sum(-1)
    np.testing.assert_allclose(mesh.geometry.cell_area, 2 * np.arctan2(sine, cosine), rtol=1e-10)
    assert mesh.geometry.vertex_area.sum() == pytest.approx(4 * np.pi)
    start, stop = POINTS[EDGES].transpose(1, 0, 2)
    np.testing.assert_allclose(mesh.geometry.edge_length, np.arccos((start * stop).sum(-1)), rtol=1e-7)


def test_the_radius_is_the_files_or_ones_own():
    assert meshes.read(icon()).surface == Sphere(RADIUS)
    assert meshes.read(mpas()).surface == Sphere(1.0)
    assert meshes.read(ugrid()).surface == Sphere(meshes.EARTH_RADIUS)
    assert meshes.read(icon(), radius=2.0).surface == Sphere(2.0)


def test_a_mesh_is_used_as_any_other_is(mesh):
    around = ti.parse("""
    around(out: tensor<float, Vertex[0:n]>, f: tensor<float, Edge[0:m]>, V2E: tensor<int, Vertex[0:n], _NB_Edge[0:k]>) {
      out ← reduce(+, 0.0)(⟪V2E⟫(f));
    }""")
    flux = xr.DataArray(np.arange(float(len(EDGES))), dims="Edge")
    found = around(f=flux, V2E=mesh.table("V2E"))["out"]
    expected = np.zeros(len(POINTS))
    np.add.at(expected, EDGES[:, 0], flux.values)
    np.add.at(expected, EDGES[:, 1], flux.values)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "mesh",
    [
        meshes.icosahedral(1), meshes.icosahedral(0, radius=2.0), meshes.rectangle(3, 2, 6.0, 2.0),
        meshes.rectangle(4, 3, periodic=(True, True)), meshes.rectangle(4, 3, periodic=(True, False), staggered=True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("through", ["memory", "a file", "a file that is decoded"])
def test_ugrid_gives_the_same_mesh_again(mesh, through, tmp_path):
    data = mesh.to_ugrid()
    if through != "memory":
        data.to_netcdf(tmp_path / "mesh.nc", engine="netcdf4")
        data = tmp_path / "mesh.nc"
    if through == "a file that is decoded":
        data = xr.load_dataset(data, engine="netcdf4")
    found = meshes.read(data)
    assert found.surface == mesh.surface
    for name, table in mesh.tables.items():
        np.testing.assert_array_equal(found.tables[name], table, err_msg=name)
    np.testing.assert_allclose(found.points, mesh.points, atol=1e-8 * np.abs(mesh.points).max())


def plane():
    points = RNG.random((40, 2))
    triangles = Delaunay(points).simplices.astype(int)
    return points, triangles, sides(triangles)


def test_boundary_edges_have_their_cell_on_the_left_and_others_the_files_direction():
    points, triangles, edges = plane()
    mesh = meshes.Mesh.of_triangles(points, triangles, Plane(), edges)
    inner = mesh.tables["E2C"][:, 1] >= 0
    assert (mesh.tables["E2C"][:, 0] >= 0).all() and 0 < inner.sum() < len(edges)
    np.testing.assert_array_equal(mesh.tables["E2V"][inner], edges[inner])
    np.testing.assert_array_equal(np.sort(mesh.tables["E2V"]), np.sort(edges))


def test_what_belongs_to_no_whole_triangle_of_mpas_is_left_out_and_said():
    points, triangles, edges = plane()
    near_the_middle = np.argmin(((points - 0.5) ** 2).sum(axis=1))  # far from the boundary
    swapped = np.arange(40)
    # the point that is missing is the last one: others keep their numbers
    swapped[[near_the_middle, 39]] = 39, near_the_middle
    points, triangles, edges = points[swapped], swapped[triangles], swapped[edges]
    data = xr.Dataset(
        {
            **{f"{c}Cell": ("nCells", p[:39]) for c, p in zip("xyz", [*points.T, np.zeros(40)], strict=True)},
            "cellsOnVertex": (("nVertices", "vertexDegree"), np.where(triangles == 39, 0, triangles + 1)),
            "cellsOnEdge": (("nEdges", "TWO"), np.where(edges == 39, 0, edges + 1)),
        },
        attrs={"on_a_sphere": "NO", "is_periodic": "NO"},
    )
    lost, cut = (triangles == 39).any(axis=1), (edges == 39).any(axis=1)
    with pytest.warns(UserWarning, match=f"{lost.sum()} triangles and {cut.sum()} edges are left out"):
        mesh = meshes.read(data)
    np.testing.assert_array_equal(np.sort(mesh.tables["C2V"]), np.sort(triangles[~lost]))
    np.testing.assert_array_equal(np.sort(mesh.tables["E2V"]), np.sort(edges[~cut]))


def cap(first, second, scale=180 / np.pi):
    """Part of a sphere around 20 degrees east and 50 degrees north, its coordinates a and b in either order."""
    corners = np.array([[10.0, 45.0], [30.0, 45.0], [30.0, 55.0], [10.0, 55.0]]) * np.pi / 180 * scale
    mesh = {
        "cf_role": "mesh_topology", "topology_dimension": np.array([2]), "node_coordinates": "a b",
        "face_node_connectivity": "faces",
    }  # fmt: skip
    return xr.Dataset(
        {
            "mesh": ((), 0, mesh), "a": ("n", corners[:, 0], first), "b": ("n", corners[:, 1], second),
            "faces": (("f", "three"), [[1, 2, 3], [1, 3, 4]], {"start_index": np.array([1])}),
        }
    )  # fmt: skip


def in_degrees(data, attrs, lon="vlon", lat="vlat"):
    return data.assign({n: (data[n].dims, np.degrees(v), attrs) for n, v in ((lon, LON), (lat, LAT))})


def area_of_the_cap(order):
    """Its triangles by L'Huilier's theorem, from angles between the corners; `order` is which coordinate is east."""
    east, north = np.radians([[10.0, 45.0], [30.0, 45.0], [30.0, 55.0], [10.0, 55.0]]).T[list(order)]
    p = np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=-1)
    total = 0.0
    for t in ([0, 1, 2], [0, 2, 3]):
        sides = np.arccos([p[t[k]] @ p[t[k - 1]] for k in range(3)])
        half = sides.sum() / 2
        total += 4 * np.arctan(np.sqrt(np.tan(half / 2) * np.prod(np.tan((half - sides) / 2))))
    return total


@pytest.mark.parametrize(
    ("first", "second", "scale", "order"),
    [
        ({"units": "degrees_east"}, {"units": "degrees_north"}, 180 / np.pi, (0, 1)),
        ({"units": "degrees_north"}, {"units": "degrees_east"}, 180 / np.pi, (1, 0)),
        ({"units": "degreeN"}, {"units": "degree"}, 180 / np.pi, (1, 0)),
        ({"units": "degree"}, {"units": "degrees_E"}, 180 / np.pi, (1, 0)),
        ({"units": "deg", "standard_name": "latitude"}, {"units": "Degrees"}, 180 / np.pi, (1, 0)),
        ({"units": "rad", "standard_name": "longitude"}, {"units": "radians", "axis": "Y"}, 1.0, (0, 1)),
    ],
)
def test_which_coordinate_is_which_and_in_what_unit_is_as_cf_says(first, second, scale, order):
    mesh = meshes.read(cap(first, second, scale), radius=1.0)
    assert mesh.geometry.cell_area.sum() == pytest.approx(area_of_the_cap(order), rel=1e-9)


def test_lengths_are_in_metres_and_packed_numbers_are_unpacked(tmp_path):
    flat = cap({"units": "km"}, {"units": "km"})
    assert meshes.read(flat).geometry.cell_area.sum() == pytest.approx(20e3 * 10e3)
    flat["a"].encoding = flat["b"].encoding = {"dtype": "int16", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    flat.to_netcdf(tmp_path / "packed.nc", engine="netcdf4")
    assert meshes.read(tmp_path / "packed.nc").geometry.cell_area.sum() == pytest.approx(20e3 * 10e3)


def test_a_grid_of_icon_may_be_in_degrees():
    mesh = meshes.read(in_degrees(icon(), {"units": "degrees"}), radius=1.0)
    np.testing.assert_allclose(mesh.points, POINTS, atol=1e-14)


TWICE = np.abs(LAT).max() * (180 / np.pi) ** 2
UNITS_OF_A = "help: say what it is: data['a'].attrs['units'] = 'degrees_east', 'degrees_north' or 'm'."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (icon().drop_vars("edge_vertices"),
         "error[F08]: the Dataset has no 'edge_vertices', which a mesh of ICON needs.\n"
         "help: read the file of the grid: that of fields alone has no mesh."),
        (xr.Dataset({"clon_vertices": ("cell", [1.0])}),
         "error[F08]: the Dataset has no 'vertex_of_cell', which a mesh of ICON needs.\n"
         "help: read the file of the grid: that of fields alone has no mesh."),
        (mpas().drop_vars("xCell"),
         "error[F08]: the Dataset has no 'xCell', which a mesh of MPAS needs.\n"
         "help: read the file of the grid: that of fields alone has no mesh."),
        (xr.Dataset({"Mesh2": ((), 0, {"cf_role": "mesh_topology", "node_coordinates": "lon lat"})}),
         "error[F08]: the Dataset says no 'face_node_connectivity' of its mesh, which one of UGRID needs."),
        (xr.Dataset({"t": ("x", [1.0])}),
         "error[F08]: the Dataset has no mesh: no variable with cf_role 'mesh_topology' (UGRID), no 'vertex_of_cell' "
         "(ICON), and no 'cellsOnVertex' (MPAS).\nhelp: read the file of the grid."),
        (ugrid().assign(faces=(("nFaces", "four"), [[0, 1, 2, 3], [0, 1, 2, -1]], {"_FillValue": -1})),
         "error[F09]: cell 0 of the Dataset has 4 corners, and meshes here are of triangles.\n"
         "help: cut its polygons into triangles first."),
        (icon().assign(edge_vertices=(("nc", "edge"), np.full((2, len(EDGES)), 1))),
         "error[F09]: the Dataset is no triangulation: edge 0 joins vertices 0 and 0, which no triangle does."),
        (cap({}, {}).assign(mesh=((), 0, {**cap({}, {}).mesh.attrs, "node_coordinates": "a"})),
         "error[F08]: the Dataset names 'a' as 'node_coordinates' of its mesh, and two are needed.\n"
         "help: name both: 'lon lat'."),
        (cap({}, {}).assign(faces=(("f", "three"), [[1, 2, 3]], {"start_index": [0, 1]})),
         "error[F08]: an attribute is [0, 1], where a mesh needs one number.\nhelp: correct the file."),
        (cap({"units": "degrees"}, {"units": "degrees"}),
         "error[F08]: the Dataset does not say which of 'a' and 'b' is the longitude.\n"
         "help: say it: data['a'].attrs['standard_name'] = 'longitude'."),
        (cap({"standard_name": "longitude"}, {"standard_name": "latitude"}),
         "error[F08]: 'a' of the Dataset has no units.\n" + UNITS_OF_A),
        (cap({}, {}), "error[F08]: 'a' of the Dataset has no units.\n" + UNITS_OF_A),
        (cap({"units": "furlongs"}, {"units": "furlongs"}),
         "error[F08]: 'a' of the Dataset has the unit 'furlongs', which is not known here.\n" + UNITS_OF_A),
        (cap({"units": "m", "standard_name": "longitude"}, {"units": "m"}),
         "error[F08]: 'a' of the Dataset is longitude in m.\n" + UNITS_OF_A),
        (cap({"units": "degrees_north", "standard_name": "longitude"}, {"units": "degrees_north"}),
         "error[F08]: 'a' of the Dataset is said to be both axis X and axis Y.\n" + UNITS_OF_A),
        (cap({"units": "degrees_north"}, {"units": "degrees_north"}),
         "error[F08]: 'b' of the Dataset is the axis Y, and so is 'a'.\n" + UNITS_OF_A.replace("'a'", "'b'")),
        (cap({"units": "degrees_north"}, {"units": "m"}),
         "error[F08]: 'b' of the Dataset and 'a' are an angle and a length.\n" + UNITS_OF_A.replace("'a'", "'b'")),
        (cap({"units": "rad", "axis": "X"}, {"units": "rad", "axis": "Y"}),
         "error[F09]: 'b' of the Dataset goes to 3151.27 degrees, and latitudes end at 90.\n"
         "help: correct its units: data['b'].attrs['units'] = 'degrees_north'."),
        (in_degrees(icon(), {}),
         f"error[F09]: 'vlat' of the Dataset goes to {TWICE:.6g} degrees, and latitudes end at 90.\n"
         "help: correct its units: data['vlat'].attrs['units'] = 'degrees_north'."),
        (in_degrees(ugrid(), {"units": "m"}, "lon", "lat"),
         "error[F09]: triangles of the Dataset lie over each other on a plane.\n"
         "help: see the units of its coordinates, and its tables."),
    ],
)  # fmt: skip
def test_what_is_no_mesh_is_told_in_a_sentence(data, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        meshes.read(data)
    assert str(refused.value) == message


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "grid.nc").write_bytes(b"nothing of the kind")
    with pytest.raises(ti.DiagnosticError, match=r"F02\]: '.*grid\.nc' cannot be read as NetCDF"):
        meshes.read(tmp_path / "grid.nc")
    with pytest.raises(ti.DiagnosticError, match=r"F01\]: there is no file"):
        meshes.read(tmp_path / "grit.nc")
