"""Coordinates as fields: `ti.coord` in operators, loops and transformations, beside xarray's own arithmetic."""

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.effort import device_work

LAT, LON, LONHalf, LEV, Y, X = ti.dims("lat lon lonHalf lev y x")
UNEVEN = np.array([0.0, 10.0, 50.0, 100.0, 200.0, 250.0, 300.0, 330.0])


def sphere(lon=None) -> xr.DataArray:
    """A field on descending latitudes and longitudes, with the area of its cells."""
    rng = np.random.default_rng(5)
    coords = {
        "lat": ("lat", [60.0, 20.0, -20.0, -60.0], {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0.0, 360.0, 45.0) if lon is None else lon, {"units": "degrees_east"}),
        "cell area": (("lat", "lon"), rng.random((4, 8)), {"units": "m2"}),
        "level": 3.0,
    }
    return xr.DataArray(rng.random((4, 8)), dims=("lat", "lon"), coords=coords, name="h", attrs={"units": "m"})


def cosine(h: xr.DataArray) -> xr.DataArray:
    return np.cos(np.deg2rad(h.lat)).drop_attrs()


def halved(h: xr.DataArray) -> xr.DataArray:
    """The field on other latitudes."""
    return h.assign_coords(lat=("lat", h.lat.values / 2, h.lat.attrs))


@ti.field_operator
def weighed(h):
    return h * ti.cos(ti.radians(ti.coord(h, "lat")))


@ti.field_operator
def slope(h):
    lon = ti.coord(h, "lon")
    return (h(LON + 1) - h(LON - 1)) / (lon(LON + 1) - lon(LON - 1)) * ti.coord(h, "cell area")


def same(found, want):
    xr.testing.assert_allclose(found.drop_attrs().transpose(*want.dims), want.drop_attrs(), rtol=1e-13)


def test_a_coordinate_is_a_field_on_its_dims():
    h = sphere()
    same(weighed(h), h * cosine(h))
    same(weighed(h.transpose("lon", "lat")), h * cosine(h))
    out = xr.zeros_like(h)
    weighed(h, out=out, domain={LAT: (0, 4), LON: (0, 8)})
    same(out, h * cosine(h))
    whole = ti.field_operator(lambda h: h + ti.coord(h, "cell area") * ti.coord(h, "level"))
    same(whole(h.drop_attrs(deep=True)), h + h["cell area"] * 3.0)
    assert weighed(h).name == "h"


def test_other_values_of_a_coordinate_are_no_other_program():
    h = sphere()
    weighed(h)
    moved = halved(h)
    assert device_work(lambda: weighed(moved)).compiled == 0
    same(weighed(moved), moved * cosine(moved))
    radians = h.assign_coords(lat=h.lat.assign_attrs(units="radians"))
    plain = ti.field_operator(lambda h: h * ti.cos(ti.coord(h, "lat")))
    same(plain(radians), h * np.cos(h.lat))
    with pytest.raises(ti.DiagnosticError, match="cos takes radians"):
        plain(h)


def test_operators_that_are_called_by_others_find_the_coordinates_of_the_arguments():
    h = sphere()
    twice = ti.field_operator(lambda h: weighed(weighed(h) + 1.0))
    same(twice(h), (h * cosine(h) + 1.0) * cosine(h))
    assert str(twice.fencil(h)).count("lat: tensor<float, lat[0:4]>") == 1


def test_two_dimensional_coordinates_are_read_at_neighbours():
    rng = np.random.default_rng(7)
    nav = (("y", "x"), rng.random((3, 5)))
    t = xr.DataArray(rng.random((3, 5)), dims=("y", "x"), coords={"nav_lat": nav})
    rise = ti.field_operator(lambda t: t * (ti.coord(t, "nav_lat")(X + 1) - ti.coord(t, "nav_lat")))
    np.testing.assert_allclose(rise(t), t.values[:, :-1] * np.diff(nav[1], axis=1), rtol=1e-14)


def test_a_coordinate_may_have_any_name():
    h = xr.DataArray([1.0, 2.0], dims="x", coords={n: ("x", [3.0, 4.0]) for n in ("out", "2m height", "h", "ζ")})
    every = ti.field_operator(lambda h: sum((ti.coord(h, n) for n in ("out", "2m height", "h", "ζ")), h))
    np.testing.assert_array_equal(every(h), [13.0, 18.0])
    assert ti.parse(str(every.fencil(h))) == every.fencil(h)


def test_a_part_of_an_argument_has_the_part_of_its_coordinate():
    h = sphere()
    both = ti.field_operator(lambda h, u: ti.coord(h + u, "lat") * u + h)
    part = h[1:3].rename("u")
    same(both(h.drop_attrs(deep=True), part.drop_attrs(deep=True)), (h.lat * part + h[1:3]).rename("h"))


def test_each_argument_has_its_own_coordinate():
    t = xr.DataArray([1.0, 2.0], dims="x", coords={"depth": ("x", [3.0, 4.0])})
    u = t.assign_coords(depth=t.depth + 0.5)
    apart = ti.field_operator(lambda t, u: ti.coord(u, "depth") - ti.coord(t, "depth"))
    np.testing.assert_array_equal(apart(t, u), [0.5, 0.5])
    np.testing.assert_array_equal(apart(t, t), [0.0, 0.0])
    with pytest.raises(ti.DiagnosticError) as found:
        ti.field_operator(lambda t, u: ti.coord(t + u, "depth"))(t, u)
    (one,) = found.value.diagnostics
    assert (one.code, one.message, one.help) == (
        "V38", "'t' and 'u' have different coordinates 'depth'.",
        "pass the one that is meant as an argument of its own.",
    )  # fmt: skip


def wide(h, boundary):
    return ti.extend(h, {LON: 1}, boundary)


@pytest.mark.parametrize(("lon", "boundary"), [(None, ti.boundary.periodic()), (UNEVEN, ti.boundary.periodic(360.0))])
def test_a_longitude_goes_on_in_a_periodic_halo(lon, boundary):
    h = sphere(lon)
    values = h.lon.values
    around = np.concatenate([values[-1:] - 360.0, values, values[:1] + 360.0])

    @ti.field_operator
    def width(h):
        lon = ti.coord(wide(h, boundary), "lon")
        return lon(LON + 1) - lon(LON - 1)

    np.testing.assert_allclose(width(h), around[2:] - around[:-2], rtol=1e-14)
    np.testing.assert_allclose(ti.extend(h.drop_vars("cell area"), {LON: 1}, boundary).lon, around, rtol=1e-14)


ROUND = {
    "falling": np.arange(337.5, 0.0, -45.0),
    "falling, unevenly": UNEVEN[::-1],
    "whole numbers": np.arange(0, 360, 45),
    "from -180": np.arange(-180.0, 180.0, 45.0).astype("f4"),
    "with few digits": np.round(np.arange(8) * 45.0, 1) + 0.1,
}


@pytest.mark.parametrize("lon", ROUND.values(), ids=ROUND)
def test_labels_go_on_by_the_period_with_their_sign(lon):
    h = sphere(lon).drop_vars("cell area")
    turn = np.copysign(360.0, lon[-1] - lon[0])
    around = np.concatenate([lon[-1:] - turn, lon, lon[:1] + turn])
    bc = ti.boundary.periodic(360.0)
    read = ti.field_operator(lambda h: ti.coord(wide(h, bc), "lon"))
    between = ti.field_operator(lambda h: wide(h, bc)(LONHalf + 0.5) - wide(h, bc)(LONHalf - 0.5))
    np.testing.assert_array_equal(read(h), around)
    np.testing.assert_array_equal(ti.map_blocks(read, h.chunk(lat=2)), around)
    np.testing.assert_array_equal(between(h).lonHalf, (around[1:] + around[:-1]) / 2)
    for found in (wide(h, bc), ti.field_operator(lambda h: wide(h, bc))(h), read(h)):
        np.testing.assert_array_equal(found.lon, around)
        assert found.lon.attrs == h.lon.attrs

    step = ti.field_operator(lambda h: h + ti.astype(read(h)(LON + 1) - read(h)(LON - 1), ti.float64))
    np.testing.assert_allclose(ti.iterate(step, h.drop_attrs(), 1), h + (around[2:] - around[:-2]), rtol=1e-6)


THEIRS, IN_ORDER = "say that of the labels: ti.boundary.periodic", "bring them in order: x.sortby('lon')"
TWICE = "lon has its first point twice: x.isel(lon=slice(None, -1))"
OTHER_PERIODS = {
    "radians": (np.arange(8) * np.pi / 4, "its labels go round in 6.28318531", f"{THEIRS}(6.28318531)"),
    "radians, unevenly": (UNEVEN / 60.0, "its labels span 5.5", "both have one unit"),
    "the first point twice": (np.linspace(-180, 180, 8), "its labels go round in 411.428571", TWICE),
    "a part": (np.arange(8) * 10.0, "its labels go round in 80", f"{THEIRS}(80)"),
    "positions": (np.arange(8), "its labels go round in 8", f"{THEIRS}(8)"),
    "out of order": (np.roll(UNEVEN, 3), "its labels neither rise nor fall throughout", IN_ORDER),
}


@pytest.mark.parametrize(("lon", "message", "help"), OTHER_PERIODS.values(), ids=OTHER_PERIODS)
def test_labels_of_another_period_are_refused(lon, message, help):
    h, bc = sphere(lon).drop_vars("cell area"), ti.boundary.periodic(360.0)
    read = ti.field_operator(lambda h: h * ti.coord(wide(h, bc), "lon"))
    calls = (lambda: wide(h, bc), lambda: ti.field_operator(lambda h: wide(h, bc))(h), lambda: read(h))
    for call in (*calls, lambda: ti.iterate(read, h, 1)):
        assert told(call) == ("V42", f"the period of lon is 360, and {message}.", f"{help}.")
    # nothing goes on where a boundary is renewed within the field
    assert ti.with_boundary(h, {LON: 1}, bc).sizes == h.sizes


def test_labels_go_on_in_results_and_what_is_not_known_is_warned_of():
    h = sphere()
    mean = ti.field_operator(
        lambda h: 0.5 * (wide(h, ti.boundary.periodic(360.0)) + wide(h, ti.boundary.periodic(360.0))(LON + 1))
    )
    bare = h.drop_vars("cell area")
    np.testing.assert_array_equal(mean(bare).lon, np.arange(-45.0, 360.0, 45.0))
    np.testing.assert_array_equal(mean(bare), 0.5 * (h.values[:, range(-1, 8)] + h.values[:, [*range(8), 0]]))
    after = ti.field_operator(lambda h: h(LON + 1))
    np.testing.assert_array_equal(after(bare).lon, np.arange(-45.0, 315.0, 45.0))  # h at 0 stands at -45
    days = bare.assign_coords(lon=np.array("2026-01-01", "M8[ns]") + np.arange(8) * np.timedelta64(1, "D"))
    np.testing.assert_array_equal(after(days).lon, days.lon - np.timedelta64(1, "D"))
    for extended in (
        lambda h: wide(h, ti.boundary.neumann()),
        ti.field_operator(lambda h: wide(h, ti.boundary.neumann())),
    ):
        with pytest.warns(
            UserWarning, match="the steps of cell area are not equal, and what they are in the halo is not"
        ):
            found = extended(h)
        same(found["cell area"], h["cell area"].drop_attrs().pad(lon=1).assign_coords(lon=found.lon))
        with pytest.warns(UserWarning, match="the steps of lon are not equal"):
            found = extended(bare.assign_coords(lon=UNEVEN))
        np.testing.assert_array_equal(found.lon, [np.nan, *UNEVEN, np.nan])


def test_a_coordinate_lies_between_on_a_staggered_dim():
    h = sphere(UNEVEN)
    between = ti.field_operator(lambda h: ti.coord(h(LONHalf + 0.5) - h(LONHalf - 0.5), "lonHalf"))
    np.testing.assert_allclose(between(h), (UNEVEN[1:] + UNEVEN[:-1]) / 2)

    @ti.field_operator
    def all_around(h):
        around = wide(h, ti.boundary.periodic(360.0))
        return ti.coord(around(LONHalf + 0.5) - around(LONHalf - 0.5), "lonHalf")

    np.testing.assert_allclose(all_around(h), [-15.0, *((UNEVEN[1:] + UNEVEN[:-1]) / 2), 345.0])


def test_time_loops_take_coordinates_as_they_are_at_each_call():
    h = sphere()
    same(ti.iterate(weighed, h, 3), h * cosine(h) ** 3)
    same(ti.iterate(weighed, halved(h), 3), halved(h) * cosine(halved(h)) ** 3)
    state = xr.Dataset({"h": h, "u": 2.0 * h})

    def step(s):
        return {"h": weighed(s["h"]), "u": s["u"] * ti.coord(s["u"], "cell area")}

    last, kept = ti.iterate(step, state, 2, every=2, keep=lambda s: {"w": weighed(s["h"])})
    same(last["u"], 2.0 * h * h["cell area"] ** 2)
    same(kept["w"].isel(time=1, drop=True), h * cosine(h) ** 3)


def test_transformations_of_labelled_arrays_take_coordinates():
    h = sphere()
    same(ti.grad(lambda h: weighed(h).sum())(h), 0.0 * h + cosine(h))
    total = ti.jit(lambda h: weighed(h).sum() + (h * ti.coord(h, "cell area")).sum())
    want = float((h * cosine(h) + h * h["cell area"]).sum())
    assert float(total(h)) == pytest.approx(want)
    moved = halved(h)
    want = float((moved * cosine(moved) + moved * moved["cell area"]).sum())
    assert float(total(moved)) == pytest.approx(want)
    apart = h.drop_vars("cell area").copy(deep=True).assign_coords(lat=h.lat.copy(deep=True))
    joined = ti.jit(lambda h, u: (weighed(h) + weighed(u)).sum())
    assert float(joined(h, apart)) == pytest.approx(2.0 * float((h * cosine(h)).sum()))
    by_numpy = ti.jit(lambda h: h * np.cos(np.deg2rad(ti.coord(h, "lat"))))
    same(by_numpy(moved), moved * cosine(moved))
    both = ti.jit(lambda h: ti.grad(lambda h: ti.iterate(weighed, h, 2).sum())(h))
    same(both(h), 0.0 * h + cosine(h) ** 2)
    same(both(moved), 0.0 * moved + cosine(moved) ** 2)


def test_scans_take_coordinates_without_their_axis():
    lat, rng = [50.0, 40.0], np.random.default_rng(2)
    t = xr.DataArray(rng.random((2, 3)), dims=("lat", "lev"), coords={"lat": lat, "lev": [1.0, 2.0, 4.0]})

    @ti.scan_operator(axis=LEV, init=0.0)
    def total(s, t):
        return s + t * ti.cos(ti.radians(ti.coord(t, "lat")))

    same(total(t), (t * cosine(t)).cumsum("lev").assign_coords(lev=t.lev))

    @ti.scan_operator(axis=LEV, init=0.0)
    def along(s, t):
        return s + t * ti.coord(t, "lev")

    with pytest.raises(ti.DiagnosticError) as found:
        along(t)
    (one,) = found.value.diagnostics
    assert (one.code, one.message, one.help) == (
        "V28", "inside of a scan along lev a field has one level of it, and 'lev' varies along it.",
        "pass it as a field of its own: f(x, ti.coord(x, 'lev')).",
    )  # fmt: skip


def test_blocks_of_dask_and_devices_take_coordinates():
    h = sphere(UNEVEN)
    same(ti.map_blocks(slope, h.chunk(lat=2, lon=3)).compute(), slope(h))
    mesh = jax.make_mesh((1,), ("p",))
    same(ti.distribute(slope, mesh, {LON: "p"})(h), slope(h))
    same(ti.iterate(ti.distribute(weighed, mesh, {LON: "p"}), h, 2), h * cosine(h) ** 2)


def test_programs_take_coordinates():
    @ti.program
    def run(x, out):
        weighed(x, out=out)

    h = sphere()
    out = xr.zeros_like(h)
    run(h, out)
    same(out, h * cosine(h))


def test_outside_of_operators_a_coordinate_is_that_of_xarray():
    h = sphere()
    assert ti.coord(h, "lat").identical(h.lat)
    assert ti.coord(h.to_dataset(), LAT).identical(h.lat)


def told(call):
    with pytest.raises(ti.DiagnosticError) as found:
        call()
    (one,) = found.value.diagnostics
    return one.code, one.message, one.help


def test_a_coordinate_that_there_is_not_is_named_with_those_that_there_are():
    h, field = sphere(), ti.as_field({"lat": 4}, np.ones(4))
    ours = "x.assign_coords(...) gives it one; or pass the array as an argument."
    have = "'h' has no coordinate 'depth'; it has lat, lon, cell area, level."
    depth = ti.field_operator(lambda h: ti.coord(h, "depth"))
    assert told(lambda: depth(h)) == ("V37", have, ours)
    assert told(lambda: ti.coord(h, "depth")) == ("V37", have, ours)
    bare = "a Field has those of DataArrays that go into ti.iterate, ti.jit or ti.grad; or pass it as an argument."
    assert told(lambda: depth(field)) == ("V37", "'h' has no coordinate 'depth'; it has none.", bare)
    assert told(lambda: ti.coord(field, "lat")) == ("V37", "the field has no coordinate 'lat'; it has none.", bare)
    assert told(lambda: ti.coord(3.0, "lat")) == ("V37", "float has no coordinates.", "pass a DataArray.")
    near = ti.field_operator(lambda h: ti.coord(2.0 * h, "lats"))
    message = "the field has no coordinate 'lats'; it has lat, lon, cell area, level."
    assert told(lambda: near(h)) == ("V37", message, "did you mean 'lat'?")
    assert told(lambda: ti.iterate(weighed, h.drop_vars("lat"), 2))[0] == "V37"


def test_what_a_coordinate_cannot_be_is_said():
    h = sphere(UNEVEN)
    far = ti.field_operator(lambda h: ti.coord(wide(h, ti.boundary.periodic()), "lon"))
    assert told(lambda: far(h)) == (
        "V38", "'lon' is known on lon[0:8], this field is on lon[-1:9], and its steps are not equal.",
        "a periodic boundary says how it goes on, ti.boundary.periodic(360.0); or extend 'lon' too.",
    )  # fmt: skip
    days = h.isel(lon=0, drop=True).assign_coords(lat=np.array(["2026-01-01", "2026-01-02"] * 2, "datetime64[ns]"))
    assert told(lambda: ti.field_operator(lambda h: ti.coord(h, "lat"))(days)) == (
        "V37", "the coordinate 'lat' holds datetime64[ns], which is no element type.",
        'take it as numbers: ti.coord(x, "lat", units="days since 2000-01-01").',
    )  # fmt: skip
    others = days.assign_coords(lat=xr.date_range("2026-01-01", periods=4, calendar="noleap", use_cftime=True))
    assert told(lambda: ti.field_operator(lambda h: ti.coord(h, "lat"))(others)) == (
        "V37", "the coordinate 'lat' holds dates of the calendar noleap, which are no numbers.",
        'take it as numbers: ti.coord(x, "lat", units="days since 2000-01-01").',
    )  # fmt: skip
    stood = ti.field_operator(lambda h: ti.coord(h(LONHalf + 0.5), "lon"))
    assert told(lambda: stood(h)) == (
        "V37", "the coordinate 'lon' is on lon[0:8], and this field is on lat[0:4], lonHalf[0:8].",
        "ti.coord(x, 'lonHalf') lies between.",
    )  # fmt: skip
    with pytest.raises(ti.DiagnosticError, match="'h' in m and 'lat' in degrees_north meet in minus"):
        ti.field_operator(lambda h: h - ti.coord(h, "lat"))(h)


def test_a_dim_has_one_period():
    two = ti.field_operator(lambda h: wide(h, ti.boundary.periodic(360.0)) + wide(h, ti.boundary.periodic(10.0)))
    message = "the period of lon is 360.0 before, and 10.0 here."
    assert told(lambda: two(sphere())) == ("V31", message, "a dim has one period.")
    sides = ti.field_operator(lambda h: wide(h, (ti.boundary.periodic(360.0), ti.boundary.periodic())))
    message = "the period of lon is 360.0 at one side and None at the other."
    assert told(lambda: sides(sphere())) == ("V31", message, "a dim has one period.")
