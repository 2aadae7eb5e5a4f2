"""Grids that go round: curvilinear ones, whose coordinates have two dims, and C grids, beside NumPy's roll."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

X, Y, LON, XC, XG, LONHalf = ti.dims("x y lon XC XG lonHalf")
LONGITUDE = np.arange(36) * 10.0 + np.linspace(0.0, 5.0, 3)[:, None]
LATITUDE = np.linspace(-60.0, 60.0, 3)[:, None] + 2.0 * np.sin(np.deg2rad(LONGITUDE + 1.0))
TURN = ti.periodic(360.0)


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
        w = ti.extend(q, {X: 1}, TURN)
        x = ti.coord(w, name)
        return (w(X + 1) - w(X - 1)) / (x(X + 1) - x(X - 1))

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
        w = ti.extend(q, {X: 1}, ti.neumann())
        x = ti.coord(w, "nav_lon")
        return (w(X + 1) - w(X - 1)) / (x(X + 1) - x(X - 1))

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


def test_uneven_edges_go_on_by_the_period_of_the_centres():
    centres = np.array([0.0, 10.0, 50.0, 100.0, 200.0, 250.0, 300.0, 330.0])
    h = xr.DataArray(np.arange(8.0), {"lon": centres}, "lon")

    @ti.field_operator
    def flux(h):
        w = ti.extend(h, {LON: (1, 0)}, TURN)
        return ti.extend(w(LONHalf + 0.5) - w(LONHalf - 0.5), {LONHalf: (0, 1)}, TURN)

    inner = np.concatenate([[-30.0], centres, [360.0]])
    np.testing.assert_allclose(flux(h).lonHalf, (inner[1:] + inner[:-1])[:9] / 2)
