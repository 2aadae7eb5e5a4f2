"""Fields on points half way between: differences of one kind of point are on the other."""

import itertools

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J, K, IHalf = ti.dims("I J K IHalf")


def field(dims, *shape):
    return xr.DataArray(np.random.default_rng(3).random(shape), dims=dims.split())


@ti.field_operator
def to_faces(f):
    return f(IHalf + 0.5) - f(IHalf - 0.5)


@ti.field_operator
def to_centres(g):
    return g(I + 0.5) - g(I - 0.5)


@ti.field_operator
def two_away(f):
    return f(IHalf + 1.5)


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


def test_a_field_without_the_dims_stays_beside_one_that_has_them():
    both = ti.field_operator(lambda f, g: two_away(f) + g)
    f, g = field("K", 3), field("IHalf", 4)
    np.testing.assert_array_equal(both(f, g).values, f.values[:, None] + g.values)


def test_arguments_of_which_none_has_the_dims_of_shifts_are_refused_and_some_warned_of():
    with pytest.raises(ti.DiagnosticError) as refused:
        two_away(field("K", 3))
    assert refused.value.diagnostics[0].code == "V40" and str(refused.value).endswith(
        "error[V40]: 'two_away' shifts along IHalf, which no argument has: they are on K.\n"
        "      return f(IHalf + 1.5)\n             ^^^^^^^^^^^^^^\nhelp: call them so: x.rename(K='IHalf')."
    )
    cross = ti.field_operator(lambda f: f(I + 1) + f(J + 1))
    with pytest.warns(UserWarning, match="shifts along I, which no argument has: they are on J and K"):
        found = cross(field("J K", 3, 2))
    assert found.sizes == {"J": 2, "K": 2}
    # of one dim less than the operator has, and of none, nothing is misnamed
    assert cross(field("J", 3)).sizes == {"J": 2} and cross(2.0) == 4.0


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
        return to_faces(ti.extend(f, {I: (0, 1)}, ti.periodic(period)))

    f = labelled(labels, units="degrees_east")
    d = around(f)
    follow = np.append(f.I.values[1:], f.I.values[0] + 360.0)
    np.testing.assert_array_equal(d.IHalf, (f.I.values + follow) / 2)
    np.testing.assert_array_equal(d.values, np.roll(f.values, -1, axis=0) - f.values)
    blocks = ti.map_blocks(around, f.chunk(K=2))
    np.testing.assert_array_equal(blocks.IHalf, d.IHalf)


def test_labels_that_nobody_knows_are_left_out():
    around = ti.field_operator(lambda f: to_faces(ti.extend(f, {I: 1}, ti.periodic())))
    assert "IHalf" not in around(labelled([0.0, 10.0, 50.0])).coords


X, XHalf = ti.dims("X XHalf")
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
        return ti.extend(stepped(h, f), {X: 1}, ti.dirichlet(0.0)), f

    np.testing.assert_array_equal(ti.iterate(step, (h, f), 1)[0][1:-1], stepped(h, f))


def test_faces_of_files_and_of_periodic_grids_meet_their_points():
    h = on_points(LABELLED_POINTS["whole numbers"])
    faces = xr.DataArray(np.arange(7.0) ** 3, dims="XHalf", coords={"XHalf": np.arange(-5.0, 60.0, 10.0)})
    np.testing.assert_array_equal(stepped(h, faces), SQUARES + np.diff(faces))
    around = ti.field_operator(lambda h: flux(ti.extend(h, {X: (0, 1)}, ti.periodic())))
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
    np.testing.assert_array_equal(stepped(h, ti.positional(faces.assign_coords(XHalf=labels))), SQUARES)


def test_what_is_said_of_labels_that_do_not_lie_between():
    h, f = on_points(np.arange(0.0, 60.0, 10.0)), xr.DataArray(np.zeros(2), {"XHalf": [10.0, 20.0]}, ["XHalf"])
    with pytest.raises(ti.DiagnosticError) as refused:
        stepped(h, f)
    assert str(refused.value).partition("error")[2] == (
        "[A45]: the labels of 'f' along XHalf are 10.0, 20.0, and those of 'h' along X are 0.0, 10.0, ...: the ones do "
        "not lie between the others.\n          stepped(h, f)\n          ^^^^^^^^^^^^^\n"
        "help: point i of XHalf is half a point before i of X; ti.positional(f, 'XHalf') goes by position."
    )
