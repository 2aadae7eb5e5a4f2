"""Fields on points half way between: differences of one kind of point are on the other."""

import itertools

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.ir import staggering

I, J, K, IHalf, X, XHalf = ti.dims("I J K IHalf X XHalf")


def field(dims, *shape):
    return xr.DataArray(np.random.default_rng(3).random(shape), dims=dims.split())


@ti.field_operator
def to_faces(f):
    return f(IHalf + 0.5) - f(IHalf - 0.5)


@ti.field_operator
def to_centres(g):
    return g(I + 0.5) - g(I - 0.5)


@ti.field_operator
def one_away(f):
    return f(I + 1)


def test_the_difference_of_centres_is_on_the_faces_between():
    f = field("I K", 6, 3)
    d = to_faces(f)
    assert d.dims == ("IHalf", "K")
    np.testing.assert_array_equal(d.values, f.values[1:] - f.values[:-1])
    assert str(to_faces(ti.as_field(["I", "K"], f.values)).dims) == "IHalf[1:6], K[0:3]"


def test_the_difference_of_faces_is_on_the_centres():
    g = field("IHalf", 7)
    np.testing.assert_array_equal(to_centres(g).values, g.values[1:] - g.values[:-1])


def test_a_second_difference_is_where_it_started():
    @ti.field_operator
    def second(f):
        return to_centres(to_faces(f))

    f = field("I", 6)
    np.testing.assert_allclose(second(f).values, np.diff(f.values, 2), rtol=0, atol=1e-15)


OTHERWISE = "ti.staggered(XG, 'X') if the points of X lie between"
HALF_A_POINT = {
    "a dim that another has": ("K", IHalf, "K", "rename it: x.rename(K='I')"),
    "dims of other names": ("J XG", X, "J, XG", f"say which is: ti.staggered(X, 'XG'), or {OTHERWISE}"),
}


@pytest.mark.parametrize(("dims", "along", "has", "help"), HALF_A_POINT.values(), ids=HALF_A_POINT)
def test_half_a_point_of_a_field_without_the_dim_half_way_is_refused(dims, along, has, help):
    both = ti.field_operator(lambda f, g: f(along + 0.5) - f(along - 0.5) + g)
    with pytest.raises(ti.DiagnosticError) as refused:
        both(field(dims, *(3 for _ in dims.split())), field("IHalf", 4))
    told = refused.value.diagnostics[0]
    assert (told.code, told.message, told.help) == (
        "V10", f"half a point along {along} comes from a dim half way, and this field has {has}.", f"{help}."
    )  # fmt: skip


def test_arguments_of_which_none_has_the_dims_of_shifts_are_refused_and_some_warned_of():
    with pytest.raises(ti.DiagnosticError, match="'one_away' shifts along I, which no argument has: they are on K"):
        one_away(field("K", 3))
    cross = ti.field_operator(lambda f: f(I + 1) + f(J + 1))
    with pytest.warns(UserWarning, match="shifts along I, which no argument has: they are on J and K"):
        found = cross(field("J K", 3, 2))
    assert found.sizes == {"J": 2, "K": 2}
    # of one dim less than the operator has, and of none, nothing is misnamed
    assert cross(field("J", 3)).sizes == {"J": 2} and cross(2.0) == 4.0 and to_faces(2.0) == 0.0


def test_half_a_point_along_the_fields_own_dim_is_refused():
    with pytest.raises(
        ti.DiagnosticError, match="half a point along IHalf leads to a field on I, and this field is on IHalf"
    ):
        to_faces(field("IHalf", 4))


def test_a_third_of_a_point_is_refused():
    @ti.field_operator
    def third(f):
        return f(I + 1 / 3)

    with pytest.raises(ti.DiagnosticError, match="a shift is by a whole number of points, or by a half"):
        third(field("I", 4))


def labelled(labels, **attrs):
    f = field("I K", len(labels), 3)
    return f.assign_coords(I=("I", labels, attrs))


def test_a_staggered_dim_has_the_coordinates_between():
    depths = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])
    d = to_faces(labelled(depths, units="m", axis="Z", bounds="I_bounds"))
    np.testing.assert_array_equal(d.IHalf, [0.5, 2.0, 5.0, 11.0, 23.0])
    assert d.IHalf.attrs == {"units": "m", "axis": "Z"}
    np.testing.assert_array_equal(to_centres(d).I, [1.25, 3.5, 8.0, 17.0])
    text = "f(y: tensor<float, IHalf[1:6], K[0:3]>, x: tensor<float, I[0:6], K[0:3]>) { y ← rename(I → IHalf)(x); }"
    np.testing.assert_array_equal(ti.parse(text)(x=labelled(depths))["y"].IHalf, d.IHalf)


def test_descending_labels_and_dates_have_those_between():
    d = to_faces(labelled([30.0, 20.0, 0.0, -10.0]))
    np.testing.assert_array_equal(d.IHalf, [25.0, 10.0, -5.0])
    days = to_faces(labelled(np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[ns]")))
    np.testing.assert_array_equal(days.IHalf, np.array(["2026-01-01T12", "2026-01-02T12"], "datetime64[ns]"))
    whole = to_faces(labelled([0, 10, 20]))
    np.testing.assert_array_equal(whole.IHalf, [5.0, 15.0])


def test_labels_that_are_the_points_stay_those():
    np.testing.assert_array_equal(to_faces(labelled([3, 4, 5])).IHalf, [4, 5])


def test_what_came_back_from_the_points_between_meets_the_field_by_its_labels():
    f = labelled([0.5, 1.5, 2.5, 3.5, 4.5])
    back = to_centres(to_faces(f))
    np.testing.assert_array_equal(back.I, [1.5, 2.5, 3.5])
    np.testing.assert_allclose(f + back, f[1:-1] + np.diff(f, 2, axis=0))


@pytest.mark.parametrize(
    ("labels", "period"), [([0.0, 10.0, 50.0, 200.0, 350.0], 360.0), (np.arange(0.5, 360.0, 1.0), None)]
)
def test_periodic_labels_wrap_with_the_period_of_the_boundary(labels, period):
    @ti.field_operator
    def around(f):
        return to_faces(ti.extend(f, {I: (0, 1)}, ti.boundary.periodic(period)))

    f = labelled(labels, units="degrees_east")
    d = around(f)
    follow = np.append(f.I.values[1:], f.I.values[0] + 360.0)
    np.testing.assert_array_equal(d.IHalf, (f.I.values + follow) / 2)
    np.testing.assert_array_equal(d.values, np.roll(f.values, -1, axis=0) - f.values)
    blocks = ti.map_blocks(around, f.chunk(K=2))
    np.testing.assert_array_equal(blocks.IHalf, d.IHalf)


def test_labels_that_nobody_knows_are_left_out():
    around = ti.field_operator(lambda f: to_faces(ti.extend(f, {I: 1}, ti.boundary.periodic())))
    assert "IHalf" not in around(labelled([0.0, 10.0, 50.0])).coords


SQUARES = np.arange(6.0) ** 2


@ti.field_operator
def flux(h):
    return h(XHalf + 0.5) - h(XHalf - 0.5)


@ti.field_operator
def stepped(h, f):
    return h + (f(X + 0.5) - f(X - 0.5))


def on_points(labels):
    return xr.DataArray(SQUARES, dims="X", coords={"X": labels}, name="h")


def next_step(labels, f):
    """h + δf by pandas: faces are looked up by the midpoints of the labels on both sides of each point."""
    by_face = f.to_series()
    middle = [a + (b - a) / 2 for a, b in itertools.pairwise(labels)]
    return [
        h + by_face[after] - by_face[before]
        for h, before, after in zip(SQUARES[1:-1], middle, middle[1:], strict=False)
    ]


LABELLED_POINTS = {
    "whole numbers": np.arange(0, 60, 10),
    "floats": np.arange(0.0, 0.6, 0.1),
    "falling": 60.0 - np.arange(0.0, 60.0, 10.0),
    "stretched": np.array([0.0, 1.0, 3.0, 7.0, 15.0, 31.0]),
    "dates": np.array("2026-01-01", "datetime64[ns]") + np.arange(6) * np.timedelta64(1, "D"),
    "dates of cftime": xr.date_range("2026-02-25", periods=6, calendar="noleap", use_cftime=True).values,
}


@pytest.mark.parametrize("labels", LABELLED_POINTS.values(), ids=LABELLED_POINTS)
def test_fluxes_meet_the_points_that_they_lie_between(labels):
    h = on_points(labels)
    f = flux(h).rename("f")
    expected = next_step(list(h.X.values), f)
    pair = xr.Dataset({"h": h, "f": f})
    for found in (stepped(h, f), stepped(pair), h.tensorir.apply(stepped, f), stepped(h, f[1:])):
        np.testing.assert_array_equal(found, expected[-found.size :])
        np.testing.assert_array_equal(found.X, labels[1:-1][-found.size :])
    text = """s(o: tensor<float, X[1:5]>, h: tensor<float, X[0:6]>, f: tensor<float, XHalf[1:6]>) {
      o ← h + (⟪X, 1⟫(rename(XHalf → X)(f)) - rename(XHalf → X)(f)); }"""
    np.testing.assert_array_equal(ti.reference.run(ti.parse(text), h=h, f=f)["o"], expected)


def test_fluxes_meet_their_points_in_transformations_and_loops():
    h = on_points(LABELLED_POINTS["floats"])
    f = flux(h)
    np.testing.assert_array_equal(ti.jit(stepped)(h, f).data, stepped(h, f))
    slope = ti.grad(lambda h, f: (stepped(h, f) * f.sum()).sum(), argnums=1)(h, f)
    weights = np.array([-1.0, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(slope, stepped(h, f).values.sum() + f.values.sum() * weights)

    def step(state):
        h, f = state
        return ti.extend(stepped(h, f), {X: 1}, ti.boundary.dirichlet(0.0)), f

    np.testing.assert_array_equal(ti.iterate(step, (h, f), 1)[0][1:-1], stepped(h, f))


def test_faces_of_files_and_of_periodic_grids_meet_their_points():
    h = on_points(LABELLED_POINTS["whole numbers"])
    faces = xr.DataArray(np.arange(7.0) ** 3, dims="XHalf", coords={"XHalf": np.arange(-5.0, 60.0, 10.0)})
    np.testing.assert_array_equal(stepped(h, faces), SQUARES + np.diff(faces))
    around = ti.field_operator(lambda h: flux(ti.extend(h, {X: (0, 1)}, ti.boundary.periodic())))
    rise = np.roll(SQUARES, -1) - SQUARES
    np.testing.assert_array_equal(stepped(h, around(h)), SQUARES[1:] + rise[1:] - rise[:-1])
    # labels that are the points stand still, and floats beside them move
    for points, between in ((np.arange(6), np.arange(7) - 0.5), (np.arange(6) + 0.5, np.arange(7))):
        found = stepped(h.assign_coords(X=points), faces.assign_coords(XHalf=between))
        np.testing.assert_array_equal(found, SQUARES + np.diff(faces))


@pytest.mark.parametrize(
    "labels",
    [np.arange(0.0, 70.0, 10.0), np.arange(0.0, 7.0), np.arange(65.0, 200.0, 20.0), -np.arange(5.0, 70.0, 10.0)],
)
def test_labels_that_do_not_lie_between_are_refused(labels):
    h, faces = on_points(np.arange(0.0, 60.0, 10.0)), xr.DataArray(np.zeros(7), dims="XHalf", name="f")
    with pytest.raises(ti.DiagnosticError) as refused:
        stepped(h, faces.assign_coords(XHalf=labels))
    assert refused.value.diagnostics[0].code == "A45"
    np.testing.assert_array_equal(stepped(h, ti.drop_indexes(faces.assign_coords(XHalf=labels))), SQUARES)


def test_what_is_said_of_labels_that_do_not_lie_between():
    h, f = on_points(np.arange(0.0, 60.0, 10.0)), xr.DataArray(np.zeros(2), {"XHalf": [10.0, 20.0]}, ["XHalf"])
    with pytest.raises(ti.DiagnosticError) as refused:
        stepped(h, f)
    assert str(refused.value).partition("error")[2] == (
        "[A45]: the labels of 'f' along XHalf are 10.0, 20.0, and those of 'h' along X are 0.0, 10.0, ...: the ones do "
        "not lie between the others.\n          stepped(h, f)\n          ^^^^^^^^^^^^^\n"
        "help: point i of XHalf is half a point before i of X; ti.drop_indexes(f, 'XHalf') goes by position."
    )


XC, XG = ti.dims("XC XG")


@ti.field_operator
def along_c_grid(h, u):
    return h + (u(XC + 0.5) - u(XC - 0.5)), u * (h(XG + 0.5) - h(XG - 0.5))


@pytest.mark.parametrize("shift", [-0.5, 0.5, [-0.5, 0.5]])
@pytest.mark.parametrize("labels", ["metres", "numbers"])
def test_attributes_of_a_c_grid_say_which_dims_are_staggered(shift, labels):
    """Cells of 10 m; u at their left edges, their right ones, or at both, as MITgcm and xgcm write them."""
    after = shift == 0.5
    cells, edges = np.arange(4), np.arange(5 if shift == [-0.5, 0.5] else 4)
    ends = 10.0 * (edges + after)
    xc, xg = (10.0 * cells + 5.0, ends) if labels == "metres" else (cells, edges)
    h = xr.DataArray(cells**2.0, dims="XC", coords={"XC": ("XC", xc, {"axis": "X"})})
    u = xr.DataArray(ends**2, dims="XG", coords={"XG": ("XG", xg, {"axis": "X", "c_grid_axis_shift": shift})})
    inside = [k for k in range(4) if 10 * k in ends and 10 * k + 10 in ends]
    rise = h.values[inside] + np.array([(10.0 * k + 10) ** 2 - (10.0 * k) ** 2 for k in inside])
    slope = np.array([(10.0 * k) ** 2 * (k**2 - (k - 1) ** 2) for k in (1, 2, 3)])

    def step(state):
        new = along_c_grid(state["h"], state["u"])[0]
        return {"h": ti.extend(new, {XC: (inside[0], 3 - inside[-1])}, ti.boundary.dirichlet(0.0)), "u": state["u"]}

    pair = xr.Dataset({"h": h, "u": u})
    for new, flux in (along_c_grid(h, u), along_c_grid(pair), ti.map_blocks(along_c_grid, pair.chunk())):
        np.testing.assert_array_equal(new, rise)
        np.testing.assert_array_equal(flux, slope)
        np.testing.assert_array_equal(new.XC, xc[inside])
        assert flux.XG.attrs == u.XG.attrs
    np.testing.assert_array_equal(ti.iterate(step, pair, 1).h[inside], rise)


def test_a_staggered_dim_of_another_name_is_said_in_one_line():
    faces = ti.staggered(ti.Dimension("cell_x"), "face_x")
    (cells,) = ti.dims("cell_x")
    there = ti.field_operator(lambda h: h(faces + 0.5) - h(faces - 0.5))
    back = ti.field_operator(lambda h, u: h + (u(cells + 0.5) - u(cells - 0.5)))
    h = xr.DataArray(SQUARES, {"cell_x": 10.0 * np.arange(6)}, ["cell_x"])
    u = there(h)
    np.testing.assert_array_equal(u.face_x, [5.0, 15.0, 25.0, 35.0, 45.0])
    np.testing.assert_array_equal(back(h, u), SQUARES[1:-1] + np.diff(SQUARES, 2))
    np.testing.assert_array_equal(ti.map_blocks(there, h.chunk(cell_x=6)), u)
    between = ti.field_operator(lambda h: there(h) * ti.coord(there(h), "face_x"))
    np.testing.assert_array_equal(between(h), u * u.face_x)


@pytest.mark.parametrize(
    ("whole", "half", "shift", "help"),
    [
        ("I", "JHalf", -0.5, "those of JHalf lie -0.5 points from those of J"),
        ("IHalf", "I", -0.5, "those of IHalf lie -0.5 points from those of I"),
        ("I", "M", 0.25, "a shift is -0.5 or 0.5"),
    ],
)
def test_a_dim_that_is_staggered_otherwise_is_refused(whole, half, shift, help):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.staggered(ti.Dimension(whole), half, shift)
    told = f"points of {half} cannot lie {shift:+} points from those of {whole}"
    assert str(refused.value) == f"error[V41]: {told}.\nhelp: {help}."


def c_grid_of(centre, edge, points, edges, first, **shift):
    """Cells of 10 m and their edges, the first of them at `first`."""
    axis = {"axis": "X"} if shift else {}
    at, ends = 10.0 * np.arange(points) + 5.0, first + 10.0 * np.arange(edges)
    values = {"h": (centre, np.random.default_rng(0).normal(size=points)), "u": (edge, np.exp(-ends / 20.0))}
    return xr.Dataset(values, {centre: (centre, at, axis), edge: (edge, ends, {**axis, **shift})})


def topology(text):
    return {"grid": ((), 0, {"cf_role": "grid_topology", "face_dimensions": f"{text} y: y_node (padding: none)"})}


C_GRIDS = {
    "MITgcm": (c_grid_of("XC", "XG", 5, 5, 0.0), None, "left"),
    "MITgcm, outer": (c_grid_of("Z", "Zp1", 5, 6, 0.0), None, "outer"),
    "xgcm's coords": (c_grid_of("cells", "walls", 5, 5, 10.0), {"X": {"center": "cells", "right": "walls"}}, "right"),
    "attributes": (
        c_grid_of("a", "b", 5, 5, 10.0, c_grid_axis_shift=0.5), None, "right",
    ),
    "NEMO": (c_grid_of("x_c", "x_f", 5, 5, 10.0), None, "right"),
    "NEMO, upward": (c_grid_of("z_c", "z_f", 5, 5, 0.0), None, "left"),
    "ROMS": (c_grid_of("xi_rho", "xi_u", 5, 4, 10.0), None, "inner"),
    "ROMS, a part": (c_grid_of("eta_rho", "eta_v", 3, 4, 0.0), None, "outer"),
    "SGRID, both": (
        c_grid_of("xf", "xn", 5, 4, 10.0).assign(topology("xf: xn (padding: both)")), None, "inner",
    ),
    "SGRID, none": (c_grid_of("xf", "xn", 5, 6, 0.0).assign(topology("xf: xn (padding: none)")), None, "outer"),
    "SGRID, low": (c_grid_of("xf", "xn", 5, 5, 10.0).assign(topology("xf:xn (padding:low)")), None, "right"),
    "SGRID, high": (c_grid_of("xf", "xn", 5, 5, 0.0).assign(topology("xf: xn (padding: high)")), None, "left"),
}  # fmt: skip


@pytest.mark.parametrize("model", C_GRIDS)
@pytest.mark.parametrize("peer", ["labels", "xgcm"])
@pytest.mark.filterwarnings("ignore:The default fill_value")
def test_a_c_grid_is_known_by_what_models_and_conventions_write(model, peer, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    ds, coords, position = C_GRIDS[model]
    ds = ti.c_grid(ds, coords)
    centre, edge = ds.h.dims[0], ds.u.dims[0]
    c, e = ti.dims(f"{centre} {edge}")
    found = {
        "u": ti.field_operator(lambda u: u(c + 0.5) - u(c - 0.5))(ds.u),
        "h": ti.field_operator(lambda h: h(e + 0.5) - h(e - 0.5))(ds.h),
    }
    if peer == "xgcm":
        xgcm = pytest.importorskip("xgcm")
        options = {"padding": "fill", "fill_value": np.nan, "autoparse_metadata": False}
        grid = xgcm.Grid(ds, coords={"X": {"center": centre, position: edge}}, **options)
        want = {
            name: grid.diff(ds[name], "X", fill_value=np.nan).dropna(dim) for name, dim in (("u", centre), ("h", edge))
        }
    else:
        want = {}
        for name, dim in (("u", centre), ("h", edge)):
            rise = np.diff(ds[name])
            between = (ds[name][ds[name].dims[0]].values[1:] + ds[name][ds[name].dims[0]].values[:-1]) / 2
            want[name] = xr.DataArray(rise, {dim: between}, dims=dim)
    for name, own in want.items():
        wide = found[name].sel({own.dims[0]: own[own.dims[0]]})
        np.testing.assert_allclose(wide, own, rtol=1e-13)
        assert found[name].sizes == own.sizes or peer == "xgcm"
    # fluxes through edges on centres, with labels of both dims
    both = ti.field_operator(lambda h, u: u(c + 0.5) - u(c - 0.5) + 0.0 * h)(ds.h, ds.u)
    np.testing.assert_allclose(both, want["u"].sel({centre: both[centre]}), rtol=1e-13)


def test_dims_of_the_same_points_get_one_name(monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    roms = xr.Dataset({
        "h": (("eta_rho", "xi_rho"), np.arange(20.0).reshape(4, 5) ** 2), "u": (("eta_u", "xi_u"), np.ones((4, 4))),
        "v": (("eta_v", "xi_v"), np.ones((3, 5))), "psi": (("eta_psi", "xi_psi"), np.zeros((3, 4))),
    })  # fmt: skip
    x, y, xu, yv = ti.dims("xi_rho eta_rho xi_u eta_v")
    ds = ti.c_grid(roms)
    assert ds.u.dims == ("eta_rho", "xi_u") and ds.v.dims == ("eta_v", "xi_rho") and ds.psi.dims == ("eta_v", "xi_u")
    fluxes = ti.field_operator(
        lambda h, u, v: (u * (h(xu + 0.5) + h(xu - 0.5)) / 2.0, v * (h(yv + 0.5) + h(yv - 0.5)) / 2.0)
    )
    divergence = ti.field_operator(lambda f, g: f(x + 0.5) - f(x - 0.5) + g(y + 0.5) - g(y - 0.5))
    h = roms.h.values
    f, g = (h[:, 1:] + h[:, :-1]) / 2, (h[1:] + h[:-1]) / 2
    np.testing.assert_allclose(divergence(*fluxes(ds.h, ds.u, ds.v)), np.diff(f)[1:-1] + np.diff(g, axis=0)[:, 1:-1])
    nemo = {
        depth: ti.c_grid(xr.Dataset({"q": ((depth, "y", "x"), np.ones((2, 3, 4)))}, attrs={"file": depth})).q.dims
        for depth in ("deptht", "depthu", "depthv", "depthw")
    }
    assert list(nemo.values()) == [
        ("z_c", "y_c", "x_c"), ("z_c", "y_c", "x_f"), ("z_c", "y_f", "x_c"), ("z_f", "y_c", "x_c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dims", "message", "help"),
    [
        (
            {"p": 2, "q": 3},
            "nothing says which of p, q are edges",
            'say it: coords={"X": {"center": "x", "left": "x_u"}}',
        ),
        (
            {"XC": 3, "XG": 6},
            "XG has 6 points, and XC 3, which do not lie between each other",
            "take parts of both alike",
        ),
        (
            {"deptht": 2, "depthw": 2}, "the Dataset has grids of several kinds of NEMO",
            "call ti.c_grid for each file",
        ),
    ],
)  # fmt: skip
def test_a_dataset_that_says_nothing_of_its_edges_is_refused(dims, message, help):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.c_grid(xr.Dataset({"t": (tuple(dims), np.zeros(tuple(dims.values())))}))
    assert str(refused.value) == f"error[V41]: {message}.\nhelp: {help}."


def rise(ds, name, dim):
    """The difference of a variable on edges, at the points of a dim between them."""
    (d,) = ti.dims(dim)
    return ti.field_operator(lambda u: u(d + 0.5) - u(d - 0.5))(ds[name]).values


def roms_file():
    """A file of ROMS, with the topology that ROMS itself writes."""
    edges = {
        "face_dimensions": "xi_rho: xi_psi (padding: both) eta_rho: eta_psi (padding: both)",
        "edge1_dimensions": "xi_u: xi_psi eta_u: eta_psi (padding: both)",
        "edge2_dimensions": "xi_v: xi_psi (padding: both) eta_v: eta_psi",
        "node_dimensions": "xi_psi eta_psi", "vertical_dimensions": "s_rho: s_w (padding: none)",
    }  # fmt: skip
    shapes = {
        "h": {"eta_rho": 4, "xi_rho": 5}, "u": {"eta_u": 4, "xi_u": 4}, "v": {"eta_v": 3, "xi_v": 5},
        "w": {"s_w": 4, "eta_rho": 4, "xi_rho": 5}, "psi": {"eta_psi": 3, "xi_psi": 4},
    }  # fmt: skip
    rng = np.random.default_rng(0)
    values = {n: (tuple(shape), rng.normal(size=tuple(shape.values()))) for n, shape in shapes.items()}
    return xr.Dataset({**values, "grid": ((), 1, {"cf_role": "grid_topology", "topology_dimension": 2, **edges})})


@pytest.mark.parametrize("without", [[], ["psi"], ["grid"], ["h", "w"]])
def test_a_file_of_roms_is_known_by_its_names_and_by_its_topology(without, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    roms = roms_file().drop_vars(without)
    ds = ti.c_grid(roms)
    assert ds.u.dims == ("eta_rho", "xi_u") and ds.v.dims == ("eta_v", "xi_rho")
    for name, dim, axis in (("u", "xi_rho", 1), ("v", "eta_rho", 0), ("w", "s_rho", 0)):
        if name in ds:
            np.testing.assert_array_equal(rise(ds, name, dim), np.diff(roms[name].values, axis=axis))


@pytest.mark.parametrize("nodes", [False, True])
def test_edges_of_sgrid_may_have_names_of_their_own(nodes, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    text = {
        "node_dimensions": "M N", "face_dimensions": "MC: M (padding: none) NC: N (padding: none)",
        "edge1_dimensions": "MU: M NU: N (padding: none)",
    }  # fmt: skip
    u = np.random.default_rng(0).normal(size=(3, 4))
    grid = xr.Dataset({"u": (("NU", "MU"), u), "grid": ((), 1, {"cf_role": "grid_topology", **text})})
    ds = ti.c_grid(grid.assign(corner=(("N", "M"), np.ones((4, 4)))) if nodes else grid)
    assert ds.u.dims == ("NC", "M" if nodes else "MU")
    np.testing.assert_array_equal(rise(ds, "u", "MC"), np.diff(u, axis=1))


def mitgcm(axes=""):
    """MITgcm's dims, of which those along some axes have attributes."""
    attrs = {"XC": {"axis": "X"}, "XG": {"axis": "X", "c_grid_axis_shift": -0.5},
             "Z": {"axis": "Z"}, "Zl": {"axis": "Z", "c_grid_axis_shift": -0.5}}  # fmt: skip
    labels = {"XC": np.arange(5) + 0.5, "XG": np.arange(5.0), "Z": -np.arange(4) - 0.5, "Zl": -np.arange(4.0)}
    rng = np.random.default_rng(0)
    values = {"U": (("Z", "XG"), rng.normal(size=(4, 5))), "W": (("Zl", "XC"), rng.normal(size=(4, 5)))}
    return xr.Dataset(values, {d: (d, x, attrs[d] if attrs[d]["axis"] in axes else {}) for d, x in labels.items()})


@pytest.mark.parametrize("axes", ["", "X", "Z", "XZ"])
@pytest.mark.parametrize("coords", [None, {"Z": {"center": "Z", "left": "Zl"}}, {"X": {"center": "XC", "left": "XG"}}])
def test_sources_are_merged_axis_by_axis(axes, coords, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    ds = ti.c_grid(mitgcm(axes), coords)
    np.testing.assert_array_equal(rise(ds, "U", "XC"), np.diff(ds.U.values, axis=1))
    np.testing.assert_array_equal(rise(ds, "W", "Z"), np.diff(ds.W.values, axis=0))


@pytest.mark.parametrize("shift", [0, 0.0, [0], np.float32(0)])
def test_a_shift_of_0_is_that_of_centres(shift, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    edges = ("xg", [0.0, 1.0, 2.0], {"axis": "X", "c_grid_axis_shift": -0.5})
    centres = ("xc", [0.5, 1.5, 2.5], {"axis": "X", "c_grid_axis_shift": shift})
    ds = xr.Dataset({"u": ("xg", [1.0, 2.0, 4.0])}, {"xg": edges, "xc": centres})
    np.testing.assert_array_equal(rise(ti.c_grid(ds), "u", "xc"), [1.0, 2.0])


CONFLICTS = {
    "another side": (
        mitgcm("X"), {"X": {"center": "XC", "right": "XG"}},
        "points of XG lie -0.5 points from those of XC in the attributes of coordinates, "
        "and points of XG lie +0.5 points from those of XC in coords=",
    ),
    "the other way round": (
        mitgcm("X"), {"X": {"center": "XG", "left": "XC"}},
        "points of XG lie -0.5 points from those of XC in the attributes of coordinates, "
        "and points of XC lie -0.5 points from those of XG in coords=",
    ),
    "a topology": (
        roms_file(), {"X": {"center": "xi_rho", "left": "xi_u"}},
        "points of xi_u lie +0.5 points from those of xi_rho in SGRID's topology, "
        "and points of xi_u lie -0.5 points from those of xi_rho in coords=",
    ),
}  # fmt: skip


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_sources_that_differ_are_named(conflict, monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    ds, coords, message = CONFLICTS[conflict]
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.c_grid(ds, coords)
    assert str(refused.value) == f"error[V41]: {message}.\nhelp: leave out the one that is wrong."
    assert not staggering.STATED


def test_the_same_points_counted_from_the_other_side_are_no_conflict(monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    ds = ti.c_grid(mitgcm("X"), {"X": {"center": "XG", "right": "XC"}})
    np.testing.assert_array_equal(rise(ds, "U", "XC"), np.diff(ds.U.values, axis=1))


def test_labels_of_the_same_points_are_one_index_or_refused(monkeypatch):
    monkeypatch.setattr(staggering, "STATED", {})
    roms = roms_file().assign_coords(eta_rho=np.arange(4.0), eta_u=np.arange(4.0))
    ds = ti.c_grid(roms)
    assert ds.u.dims == ("eta_rho", "xi_u") and ds.eta_rho.values.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(
        ti.DiagnosticError, match=r"V41\]: eta_u and eta_rho are the same points, and their labels differ"
    ):
        ti.c_grid(roms.assign_coords(eta_u=np.arange(4.0) + 1.0))
    with pytest.raises(ti.DiagnosticError, match=r"eta_u and eta_rho are the same points, and have 3 and 4 of them"):
        ti.c_grid(roms_file().isel(eta_u=slice(0, 3)))
