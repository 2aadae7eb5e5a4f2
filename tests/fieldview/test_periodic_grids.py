"""Boundaries and periodic grids."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.binding.coordinates import round_of, signed_period

# Boundary conditions against NumPy's padding


I, J = ti.dims("I J")
X = np.arange(12.0).reshape(3, 4) ** 2
WIDTHS = {I: (2, 1), J: (1, 3)}
PAD = ((2, 1), (1, 3))


def field(x, start=(0, 0)):
    return ti.as_field({d: (s, s + n) for d, s, n in zip((I, J), start, x.shape, strict=True)}, x)


def test_periodic_is_numpys_wrap_with_its_corners():
    out = ti.extend(field(X, (5, -2)), WIDTHS, ti.boundary.periodic())
    assert repr(out) == "Field(float64, I[3:9], J[-3:5])"
    np.testing.assert_array_equal(out.data, np.pad(X, PAD, mode="wrap"))


def test_neumann_is_numpys_edge_with_its_corners():
    np.testing.assert_array_equal(ti.extend(field(X), WIDTHS, ti.boundary.neumann()).data, np.pad(X, PAD, mode="edge"))


def test_dirichlet_is_numpys_constant():
    out = ti.extend(field(X), WIDTHS, ti.boundary.dirichlet(7)).data
    np.testing.assert_array_equal(out, np.pad(X, PAD, constant_values=7.0))


def test_linear_extrapolation_goes_on_with_a_plane():
    i, j = np.indices((6, 8)) - np.array([2, 1])[:, None, None]
    plane = 3.0 * i - 2.0 * j + 1.0
    np.testing.assert_allclose(
        ti.extend(field(plane[2:5, 1:5]), WIDTHS, ti.boundary.extrapolate()).data, plane, rtol=1e-14
    )


def test_a_slope_goes_outwards_on_both_sides():
    out = ti.extend(field(X), {I: 2}, ti.boundary.neumann(0.5)).data
    np.testing.assert_array_equal(out, np.vstack([X[0] + 1.0, X[0] + 0.5, X, X[-1] + 0.5, X[-1] + 1.0]))


def test_sides_and_dims_may_differ_and_corners_follow_the_later_dim():
    bc = {I: (ti.boundary.dirichlet(-1.0), ti.boundary.neumann()), J: ti.boundary.periodic()}
    expected = np.pad(np.vstack([np.full((1, 4), -1.0), X, X[-1:]]), ((0, 0), (2, 2)), mode="wrap")
    np.testing.assert_array_equal(ti.extend(field(X), {I: 1, J: 2}, bc).data, expected)
    widths = {I: np.int64(1), J: (np.int32(2), np.int8(2))}
    np.testing.assert_array_equal(ti.extend(field(X), widths, bc).data, expected)


def test_a_value_may_depend_on_position_and_time():
    @ti.field_operator
    def step(x, t):
        return ti.extend(x, {I: 1}, ti.boundary.dirichlet(lambda at: t * ti.astype(at[I] * 10 + at[J], ti.float64)))

    out = step(field(X, (4, 0)), 2.0).data
    j = np.arange(4)
    np.testing.assert_array_equal(out, np.vstack([2.0 * (30 + j), X, 2.0 * (70 + j)]))


def test_a_boundary_is_renewed_on_the_domain_of_the_field():
    out = ti.with_boundary(field(X), {I: 1, J: (1, 1)}, ti.boundary.neumann()).data
    np.testing.assert_array_equal(out, np.pad(X[1:-1, 1:-1], 1, mode="edge"))
    wrapped = ti.with_boundary(field(X), {J: 1}, ti.boundary.periodic()).data
    np.testing.assert_array_equal(wrapped, X[:, [2, 1, 2, 1]])


def test_a_data_array_gets_a_halo_and_coordinates_for_it():
    x = xr.DataArray(X, dims=("I", "J"), coords={"I": [0, 1, 2]}, attrs={"units": "m"})
    out = ti.extend(x, {I: 1}, ti.boundary.periodic())
    np.testing.assert_array_equal(out, X[[2, 0, 1, 2, 0]])
    np.testing.assert_array_equal(out.coords["I"], [-1, 0, 1, 2, 3])
    assert out.attrs == {"units": "m"}


def test_it_is_made_of_the_builtins_that_the_domain_needs_and_nothing_else():
    @ti.field_operator
    def both(x):
        return ti.extend(
            x, WIDTHS, {I: ti.boundary.periodic(), J: (ti.boundary.dirichlet(0.0), ti.boundary.extrapolate())}
        )

    from tensorir.ir.nodes import Call
    from tensorir.ir.rewrite import postorder, values

    used = {n.op for n in postorder(*values(both.fencil(field(X)).closures)) if isinstance(n, Call)}
    assert used <= {"concat", "subset", "cartesian_shift", "pos", "add_dim", "plus", "minus", "multiplies"}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ti.extend(field(X), {"K": 1}, ti.boundary.periodic()),
         "error[V32]: there is no dim K to put a boundary on, only I[0:3], J[0:4]."),
        (lambda: ti.extend(field(X), {I: 4}, ti.boundary.periodic()),
         "error[V30]: a periodic halo of 4 points needs 4 points of I, and there are 3."),
        (lambda: ti.extend(field(X[:1]), {I: 1}, ti.boundary.extrapolate()),
         "error[V30]: a linear halo of 1 point needs 2 points of I, and there are 1."),
        (lambda: ti.extend(field(X), {I: 1.5}, ti.boundary.neumann()), "error[V30]: 1.5 is no width of a halo."),
        (lambda: ti.extend(field(X), {I: -1}, ti.boundary.neumann()), "error[V30]: a halo has no -1 points."),
        (lambda: ti.extend(field(X), {I: 1}, {J: ti.boundary.neumann()}),
         "error[V31]: there is no boundary condition for I."),
        (lambda: ti.extend(field(X), {I: 1}, 0.0), "error[V31]: float is no boundary condition."),
        (lambda: ti.extend(field(X), {I: 1}, (ti.boundary.periodic(), ti.boundary.neumann())),
         "error[V31]: one side of I is periodic and the other is not."),
        (lambda: ti.with_boundary(field(X), {I: 2}, ti.boundary.neumann()),
         "error[V30]: a boundary of 2 and 2 points leaves nothing of I[0:3]."),
    ],
)  # fmt: skip
def test_what_is_no_boundary_is_refused(call, sentence):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert sentence in str(refused.value)


# Grids that go round

RING, Y, LON, XC, XG, LONHalf = ti.dims("x y lon XC XG lonHalf")
LONGITUDE = np.arange(36) * 10.0 + np.linspace(0.0, 5.0, 3)[:, None]
LATITUDE = np.linspace(-60.0, 60.0, 3)[:, None] + 2.0 * np.sin(np.deg2rad(LONGITUDE + 1.0))
TURN = ti.boundary.periodic(360.0)


def curvilinear(lon=LONGITUDE):
    """A field on a grid around the globe, as NEMO writes it."""
    on = ("y", "x")
    coords = {
        "nav_lon": (on, lon, {"units": "degrees_east"}), "nav_lat": (on, LATITUDE, {"units": "degrees_north"}),
        "area": (on, 1e10 * np.cos(np.deg2rad(LATITUDE)), {"units": "m2"}),
        "width": ("x", 5.0 + np.cos(np.deg2rad(LONGITUDE[0] + 1.0))),
    }  # fmt: skip
    return xr.DataArray(np.sin(np.deg2rad(lon + 3.0)), coords, on, name="q")


def slope_by(name):
    @ti.field_operator
    def slope(q):
        w = ti.extend(q, {RING: 1}, TURN)
        x = ti.coord(w, name)
        return (w(RING + 1) - w(RING - 1)) / (x(RING + 1) - x(RING - 1))

    return slope


def around(values):
    return np.roll(values, -1, -1) - np.roll(values, 1, -1)


GRIDS = {"rising": LONGITUDE, "falling": -LONGITUDE, "from -180 on": LONGITUDE - 180.0,
         "-180 within": (LONGITUDE + 183.0) % 360.0 - 180.0}  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", ["nav_lon", "nav_lat", "area", "width"])
def test_a_curvilinear_grid_keeps_its_seam(grid, name):
    q = curvilinear(GRIDS[grid])
    steps = around(q[name].values)
    if name == "nav_lon":
        # a longitude goes on to the nearest of the same place, but for where -180 lies within
        seam = np.s_[:, [0, -1]] if grid != "-180 within" else np.s_[:, :0]
        steps[seam] = (steps[seam] + 180.0) % 360.0 - 180.0
    found = slope_by(name)(q)
    assert found.sizes == q.sizes and set(found.coords) == set(q.coords)
    np.testing.assert_allclose(found, around(q.values) / steps, rtol=1e-12)


def test_one_operator_takes_grids_that_rise_and_fall():
    slope = slope_by("nav_lon")
    for sign in (1.0, -1.0, 1.0):
        q = curvilinear(sign * LONGITUDE)
        np.testing.assert_allclose(slope(q), around(q.values) / (sign * 20.0), rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_time_loop_keeps_the_seam(sign):
    q = curvilinear(sign * LONGITUDE)
    step = ti.field_operator(lambda q: q + slope_by("nav_lon")(q))
    np.testing.assert_allclose(ti.iterate(step, q, 1), q + around(q.values) / (sign * 20.0), rtol=1e-12)


def test_a_curvilinear_grid_of_another_period_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"V42.*the period of x is 360, and its labels span 6.1"):
        slope_by("nav_lon")(curvilinear(np.deg2rad(LONGITUDE)))


def test_a_coordinate_that_goes_on_in_no_way_is_refused():
    lon = np.where(np.arange(36) % 7 < 3, LONGITUDE, 10.0 * LONGITUDE)
    lon[:, -1] = 1e5
    with pytest.raises(ti.DiagnosticError) as refused:
        slope_by("area")(curvilinear().assign_coords(area=(("y", "x"), np.cumsum(lon % 90.0 - 44.0, 1) ** 3 + lon)))
    (found,) = refused.value.diagnostics
    assert (found.code, found.message, found.help) == (
        "V38", "'area' is known on x[0:36], and how it goes on along x is not.",
        "pass it as an argument that has the halo.",
    )  # fmt: skip


def test_a_halo_in_which_a_coordinate_is_not_known_is_warned_of():
    @ti.field_operator
    def slope(q):
        w = ti.extend(q, {RING: 1}, ti.boundary.neumann())
        x = ti.coord(w, "nav_lon")
        return (w(RING + 1) - w(RING - 1)) / (x(RING + 1) - x(RING - 1))

    with pytest.warns(UserWarning) as said:
        assert slope(curvilinear()).sizes["x"] == 34
    assert str(said[0].message) == (
        "'nav_lon' is known on x[0:36], and this field is on x[-1:37]: what reads it beyond has no points there. "
        "Take it of the field without its halo, or extend it: ti.extend(ti.coord(x, 'nav_lon'), ...)"
    )


def c_grid(step, cells, edges=0):
    """Centres and edges of cells, as MITgcm writes them: with one edge more than cells, or one fewer, for `edges`."""
    centres, at = step * (np.arange(cells) + 0.5), step * (np.arange(cells + edges) + (edges < 0))
    axis = {"axis": "X", "units": "degrees_east"}
    h = xr.DataArray(np.sin(centres), {"XC": ("XC", centres, axis)}, "XC", name="h")
    u = xr.DataArray(np.cos(at), {"XG": ("XG", at, {**axis, "c_grid_axis_shift": -0.5})}, "XG", name="u")
    return h, u


BESIDE = {
    "edges": lambda u, h: ti.extend(u, {XG: 1}, TURN),
    "edges, and a result on centres": lambda u, h: (ti.extend(u, {XG: 1}, TURN), h),
    "edges that centres meet": lambda u, h: ti.extend(u, {XG: 1}, TURN)(XC + 0.5) + h,
    "centres": lambda u, h: ti.extend(h, {XC: 1}, TURN)(XG + 0.5),
    "what was computed on edges": lambda u, h: ti.extend(h(XG + 0.5) - h(XG - 0.5), {XG: 1}, TURN),
    "what was computed on centres": lambda u, h: ti.extend(u(XC + 0.5) - u(XC - 0.5) + h, {XC: 1}, TURN),
}


@pytest.mark.parametrize("where", BESIDE)
@pytest.mark.parametrize("edges", [0, 1, -1])
def test_a_c_grid_of_60_degrees_goes_not_round_in_360_whatever_stands_beside(where, edges):
    h, u = c_grid(10.0, 6, edges)
    with pytest.raises(
        ti.DiagnosticError, match=r"V42\]: the period of X[CG] is 360, and its labels go round in [4567]0"
    ):
        ti.field_operator(BESIDE[where])(u, h)


@pytest.mark.parametrize("beside", [False, True])
def test_a_c_grid_around_the_globe_goes_round(beside):
    h, u = c_grid(60.0, 6)
    divergence = ti.field_operator(
        lambda u, h: ti.extend(u, {XG: (0, 1)}, TURN)(XC + 0.5) - ti.extend(u, {XG: (0, 1)}, TURN)(XC - 0.5) + h * 0.0
    )
    found = divergence(u, h)
    np.testing.assert_allclose(found, np.roll(u.values, -1) - u.values)
    np.testing.assert_array_equal(found.XC, h.XC)
    wide = ti.field_operator(lambda u, h: (ti.extend(u, {XG: 1}, TURN), h) if beside else ti.extend(u, {XG: 1}, TURN))
    labels = (wide(u, h)[0] if beside else wide(u, h)).XG
    np.testing.assert_array_equal(labels, np.arange(-60.0, 361.0, 60.0))


def test_an_interval_that_is_no_whole_turn_is_refused():
    lon = xr.DataArray(np.arange(36.0), {"lon": np.arange(36) * 10.0}, "lon")
    cut = ti.field_operator(lambda h: ti.extend(h(LON + 1) - h, {LON: 1}, TURN))
    with pytest.raises(ti.DiagnosticError, match=r"V42\]: the period of lon is 360, and its labels go round in 350"):
        cut(lon)


UNEVEN = [0.0, 10.0, 50.0, 100.0, 200.0, 250.0, 300.0, 330.0]
SEVENTHS = [51.4 * k for k in range(7)]
PERIODS = {
    "with few digits": (SEVENTHS, 360.0, 360.0),
    "with few digits, falling": ([-x for x in SEVENTHS], 360.0, -360.0),
    "with a twentieth of a step more": (SEVENTHS, 362.3, 362.3),
    "with more than that": (SEVENTHS, 362.5, "go round in 359.8",
                            "say that of the labels: ti.boundary.periodic(359.8)"),
    "with the first point again": ([0.0, 90.0, 180.0, 270.0, 360.0], 360.0, "go round in 450",
                                   "lon has its first point twice: x.isel(lon=slice(None, -1))"),
    "with the first point about again": ([0.0, 90.0, 180.0, 270.0, 360.0], 364.0, "go round in 450",
                                         "lon has its first point twice: x.isel(lon=slice(None, -1))"),
    "whole numbers": ([3, 4, 5, 6], 4.0, 4.0),
    "one alone": ([5.0], 360.0, 360.0),
    "uneven": (UNEVEN, 360.0, 360.0),
    "uneven, falling": (UNEVEN[::-1], -360.0, -360.0),
    "uneven, of the span": (UNEVEN, 330.0, "span 330", "lon has its first point twice: x.isel(lon=slice(None, -1))"),
    "uneven, of the span and two steps": (UNEVEN, 530.0, 530.0),
    "uneven, of more": (UNEVEN, 531.0, "span 330", "both have one unit"),
    "up and down": ([0.0, 10.0, 5.0], 360.0, "neither rise nor fall throughout",
                    "bring them in order: x.sortby('lon')"),
}  # fmt: skip


@pytest.mark.parametrize("case", PERIODS.values(), ids=PERIODS)
def test_a_period_fits_labels_that_go_round_in_it(case):
    labels, period, expected, *help = case
    around = round_of(xr.Variable("lon", labels))
    if isinstance(expected, float):
        assert signed_period("lon", period, around) == expected
        return
    with pytest.raises(ti.DiagnosticError) as refused:
        signed_period("lon", period, around)
    (found,) = refused.value.diagnostics
    said = f"the period of lon is {period:.9g}, and its labels {expected}."
    assert (found.code, found.message, found.help) == ("V42", said, f"{help[0]}.")


def test_uneven_edges_go_on_by_the_period_of_the_centres():
    centres = np.array([0.0, 10.0, 50.0, 100.0, 200.0, 250.0, 300.0, 330.0])
    h = xr.DataArray(np.arange(8.0), {"lon": centres}, "lon")

    @ti.field_operator
    def flux(h):
        w = ti.extend(h, {LON: (1, 0)}, TURN)
        return ti.extend(w(LONHalf + 0.5) - w(LONHalf - 0.5), {LONHalf: (0, 1)}, TURN)

    inner = np.concatenate([[-30.0], centres, [360.0]])
    np.testing.assert_allclose(flux(h).lonHalf, (inner[1:] + inner[:-1])[:9] / 2)
