"""Operators on whole Datasets: every variable that has the dims, beside what xarray's own functions give."""

from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

LAT, LON, LEV, XDIM = ti.dims("lat lon lev x")


@ti.field_operator
def rise(h):
    return h(LAT + 1) - h


@ti.field_operator
def weighed(h):
    return h * ti.cos(ti.radians(ti.coord(h, "lat")))


@ti.scan_operator(axis=LEV, init=0.0)
def total(s, x):
    return s + x


def ocean() -> xr.Dataset:
    rng = np.random.default_rng(4)
    variables = {
        "t": (("lat", "lon"), rng.random((5, 3)), {"units": "K", "long_name": "temperature"}),
        "wind": (("lev", "lat"), rng.random((2, 5)), {"units": "m s-1"}),
        "depth": (("lon",), rng.random(3), {"units": "m"}),
        "age": 7.0,
    }
    coords = {
        "lat": ("lat", [60.0, 50.0, 40.0, 30.0, 20.0], {"units": "degrees_north"}),
        "station": ("lat", list("abcde")), "model": ("member", ["x", "y"]),
    }  # fmt: skip
    return xr.Dataset(variables, coords, {"title": "an ocean"})


def test_every_variable_that_has_the_dims_is_computed_and_others_are_kept():
    data = ocean()
    want = data.diff("lat", label="lower")
    found = rise(data)
    assert list(found.data_vars) == list(data.data_vars)
    xr.testing.assert_allclose(found.drop_attrs(), want.drop_attrs())
    assert found.attrs == data.attrs and found.t.attrs == rise(data.t).attrs and found.depth.attrs == {"units": "m"}
    with xr.set_options(keep_attrs=False):
        assert rise(data).attrs == rise(data).t.attrs == {}


def test_a_coordinate_that_an_operator_asks_for_says_its_dims():
    data = ocean()
    found = weighed(data)
    xr.testing.assert_allclose(found.t.drop_attrs(), weighed(data.t).drop_attrs())
    xr.testing.assert_identical(found.depth, data.depth)
    assert float(found.age) == 7.0


def test_scans_boundaries_and_annotations_say_their_dims():
    data = ocean()
    np.testing.assert_allclose(total(data).wind.transpose("lev", "lat"), data.wind.cumsum("lev"))
    xr.testing.assert_identical(total(data).t, data.t)
    wide = ti.field_operator(lambda h: ti.extend(h, {LON: 1}, ti.boundary.periodic()))
    np.testing.assert_array_equal(wide(data).depth, data.depth.values[[2, 0, 1, 2, 0]])

    @ti.field_operator
    def twice(h: ti.Field[[LAT, LON], ti.float64]):
        return 2.0 * h

    found = twice(data.drop_attrs())
    xr.testing.assert_identical(found.t, 2.0 * data.t.drop_attrs())
    xr.testing.assert_identical(found.wind, data.wind.drop_attrs())


def test_an_operator_that_names_no_dims_is_for_all_variables():
    data = ocean()
    xr.testing.assert_allclose(ti.field_operator(lambda h: 2.0 * h)(data).drop_attrs(), 2.0 * data.drop_attrs())


def test_a_variable_that_is_kept_has_the_points_of_the_results():
    data = ocean()
    cross = ti.field_operator(lambda h: h(LAT + 1)(LON + 1) - h)
    found = cross(data)
    xr.testing.assert_identical(found.wind, data.wind.isel(lat=slice(0, 4)).drop_vars("station").assign_coords(
        station=found.station))  # fmt: skip
    bare = data.drop_vars(["lat", "station"])
    xr.testing.assert_identical(cross(bare).wind, bare.wind.isel(lat=slice(0, 4)))
    later = ti.field_operator(lambda h: h - h(LAT - 1)(LON - 1))
    np.testing.assert_array_equal(later(bare).wind, bare.wind.isel(lat=slice(1, None)))


def test_several_results_are_several_datasets_and_other_arguments_go_to_each():
    class Both(NamedTuple):
        up: object
        down: object

    both = ti.field_operator(lambda h, a: Both(a * h(LAT + 1) + 0.0 * h, a * h(LAT - 1) + 0.0 * h))
    data = ocean()
    found = both(data.drop_attrs(), 2.0)
    assert type(found).__name__ == "Both"
    np.testing.assert_array_equal(found.up.t, 2.0 * data.t[1:])
    np.testing.assert_array_equal(found.down.wind, 2.0 * data.wind[:, :-1])


def test_datasets_meet_variable_by_variable():
    data = ocean()[["t", "wind"]]
    found = ti.field_operator(lambda a, b: a - b(LAT + 1))(data, 2.0 * data)
    np.testing.assert_allclose(found.wind, data.wind[:, :-1] - 2.0 * data.wind.values[:, 1:])


def test_a_dataset_gives_each_of_several_parameters_its_variable():
    data = ocean()
    flux = ti.field_operator(lambda t, wind, scale=2.0: scale * t * wind)
    found = flux(data.drop_attrs())
    np.testing.assert_allclose(found.transpose("lat", "lon", "lev"), 2.0 * data.t * data.wind.transpose("lat", "lev"))


def test_time_loops_gradients_and_blocks_take_whole_datasets():
    data = ocean()[["t", "wind", "depth"]]
    last = ti.iterate(weighed, data, 2)
    xr.testing.assert_allclose(last.drop_attrs(), weighed(weighed(data)).drop_attrs())
    blocks = ti.map_blocks(rise, data.chunk(lat=2))
    xr.testing.assert_identical(blocks.compute(), rise(data))
    xr.testing.assert_allclose(ti.jit(lambda d: weighed(d))(data), weighed(data).drop_attrs(deep=True))


def told(call):
    with pytest.raises(ti.DiagnosticError) as found:
        call()
    (one,) = found.value.diagnostics
    return one.code, one.message, one.help


def test_what_a_dataset_cannot_be_is_said():
    data = ocean()
    pair = ti.field_operator(lambda a, b: a + b)
    assert told(lambda: pair(data, data.drop_vars("age"))) == (
        "V39", "'a' has the variable 'age', and 'b' has not.", "give both the same."
    )  # fmt: skip

    @ti.field_operator
    def column(x: ti.Field[[LEV], ti.float64]):
        return 2.0 * x

    assert told(lambda: column(data.drop_vars("wind"))) == (
        "V39", "no variable of 'x' has lev, which 'column' names.", "rename the dims."
    )  # fmt: skip
    assert told(lambda: rise(data[["t"]].rename(lat="y")))[0] == "V40"
    wide = ti.field_operator(lambda h: ti.extend(h, {LAT: 1, LON: 1}, ti.boundary.neumann()))
    assert told(lambda: wide(data.drop_vars(["lat", "station"]))) == (
        "V39", "'wind' is not computed, and has not all points of lat that the results have.",
        "leave it out: dataset.drop_vars('wind').",
    )  # fmt: skip
    assert told(lambda: rise(data, out=data)) == (
        "V39", "the result for a Dataset is a Dataset, and has no buffer.", "leave out= out."
    )  # fmt: skip
    with pytest.raises(ti.DiagnosticError, match="this is the variable 'name' of the Dataset"):
        rise(data.assign(name=("lat", list("abcde"))))


def test_attributes_are_kept_as_asked():
    t = ocean().t
    assert t.tensorir.apply(rise, keep_attrs=True).attrs == {"units": "K", "long_name": "temperature"}
    assert t.tensorir.apply(rise).attrs == {"units": "K"}
    assert t.tensorir.apply(rise, keep_attrs=False).attrs == {}


def described() -> xr.Dataset:
    """A field whose attributes and coordinate name other variables, in no order of their names."""
    lon = np.arange(5.0, 60.0, 10.0)
    edges = np.stack([lon - 5.0, lon + 5.0], axis=1)
    days = np.full((6, 2), np.datetime64("2026-01-01", "ns"))
    names = {
        "ancillary_variables": "a_error", "grid_mapping": "crs: lon", "cell_measures": "area: cell_area", "units": "m"
    }  # fmt: skip
    variables = {
        "z": ("lon", lon**2, names),
        "lon_bnds": (("lon", "side"), edges),
        "crs": "a projection",
        "day_bnds": (("lon", "side"), days),
        "cell_area": ("lon", lon),
        "b_term": ("lon", lon),
        "a_error": ("lon", lon / 10.0),
        "b": ("lon", lon),
    }
    at = {"bounds": "lon_bnds", "climatology": "day_bnds", "formula_terms": "a: b_term"}
    return xr.Dataset(variables, {"lon": ("lon", lon, at)}, {"title": "a section"})


@ti.field_operator
def halved(h):
    return 0.5 * ti.with_boundary(h, {LON: 1}, ti.boundary.neumann())


CALLED = {
    "called": (halved, 1),
    "by the accessor": (lambda data: data.tensorir.apply(halved), 1),
    "in a time loop": (lambda data: ti.iterate(halved, data, 2), 2),
    "in a time loop of a function": (lambda data: ti.iterate(lambda s: {**s, **halved(s)}, data, 2), 2),
    "compiled": (ti.jit(halved), 1),
    "in blocks": (lambda data: ti.map_blocks(halved, data.chunk()), 1),
}


@pytest.mark.parametrize(("call", "times"), CALLED.values(), ids=CALLED)
def test_what_attributes_name_is_kept_and_variables_stay_in_their_order(call, times):
    data = described()
    found = call(data)
    assert list(found.data_vars) == list(data.data_vars)
    for name in ("lon_bnds", "crs", "day_bnds", "cell_area", "b_term", "a_error"):
        np.testing.assert_array_equal(found[name], data[name])
    for name in ("z", "b"):
        want = data[name].values.copy()
        for _ in range(times):
            want = 0.5 * np.pad(want[1:-1], 1, mode="edge")
        np.testing.assert_array_equal(found[name], want)


def test_what_attributes_name_is_cut_to_the_points_of_results():
    data = described()
    found = ti.field_operator(lambda h: h(LON + 1) - h(LON - 1))(data)
    for name in ("lon_bnds", "day_bnds", "a_error"):
        np.testing.assert_array_equal(found[name], data[name][1:-1])
    _, kept = ti.iterate(halved, data, 2, every=1, keep=True)
    assert list(kept.data_vars) == list(data.data_vars) and kept.crs.item() == "a projection"


def with_metrics(as_coordinates):
    """Winds and the lengths of cells, which are coordinates in files of MITgcm and variables in others."""
    lengths = {"dx": ("x", [2.0, 4.0, 8.0, 16.0], {"units": "m"})}
    values = {n: ("x", np.random.default_rng(k).normal(size=4), {"units": "K"}) for k, n in enumerate(("t", "s"))}
    return xr.Dataset(values, lengths) if as_coordinates else xr.Dataset({**values, **lengths})


def slope_of(t, s, dx):
    return (t(XDIM + 1) - s) / dx


@pytest.mark.parametrize("as_coordinates", [True, False])
def test_metrics_that_are_coordinates_are_found_as_variables_are(as_coordinates):
    ds = with_metrics(as_coordinates)
    found = ti.field_operator(slope_of)(ds)
    np.testing.assert_allclose(found, (ds.t.values[1:] - ds.s.values[:-1]) / ds.dx.values[:-1])
    assert found.attrs == {"units": "K m-1"}


def test_an_operator_with_metrics_goes_over_the_variables_of_a_dataset():
    ds = with_metrics(True)
    rise = ti.field_operator(lambda h, dx: (h(XDIM + 1) - h) / dx)
    found = rise(ds)
    for name in ("t", "s"):
        np.testing.assert_allclose(found[name], np.diff(ds[name]) / ds.dx.values[:-1])
    xr.testing.assert_identical(found, rise(ds, dx=ds.dx))
    xr.testing.assert_identical(found, rise(ds, ds.dx))
    with pytest.raises(ti.DiagnosticError, match=r"V19.*missing a required argument: 'h'"):
        ti.field_operator(lambda h, dz: h / dz)(ds)


def test_programs_and_blocks_find_metrics_among_coordinates():
    ds = with_metrics(True)
    program = ti.parse("""
    f(out: tensor<float, x[0:n]>, t: tensor<float, x[0:n]>, dx: tensor<float, x[0:n]>) { out ← t / dx; }""")
    expected = ds.t.values / ds.dx.values
    for run in (program, ti.compile(program)):
        np.testing.assert_allclose(run(ds)["out"], expected)
    rise = ti.field_operator(lambda h, dx: (h(XDIM + 1) - h) / dx)
    found = ti.map_blocks(rise, ds.chunk(x=2)).compute()
    xr.testing.assert_allclose(found, rise(ds))
    # a result that has the name of an index is none of its labels
    named = ti.parse("f(x: tensor<float, x[0:n]>, t: tensor<float, x[0:n]>) { x ← 2.0 × t; }")
    np.testing.assert_array_equal(named(ds.assign_coords(x=np.arange(4)))["x"], 2.0 * ds.t.values)
