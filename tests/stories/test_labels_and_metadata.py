"""What a scientist does with labelled arrays, each story compared with xarray or NumPy by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti
from stencils import data

I, J, T = ti.dims("I J T")


@ti.field_operator
def laplacian(h):
    return h(I + 1) + h(I - 1) + h(J + 1) + h(J - 1) - 4.0 * h


def by_xarray(h):
    around = h.shift(I=1) + h.shift(I=-1) + h.shift(J=1) + h.shift(J=-1)
    return (around - 4.0 * h).isel(I=slice(1, -1), J=slice(1, -1))


def terrain():
    hills = data.jacksboro_fault()
    return hills.assign_coords(I=np.arange(hills.sizes["I"]), J=np.arange(hills.sizes["J"]))


def test_a_step_of_diffusion_in_xarrays_own_arithmetic():
    """An oceanographer who adds an operator's result to a DataArray by xarray's arithmetic gets the numbers and labels
    of shifts written by hand."""
    h = terrain()
    found = h + 0.2 * laplacian(h)
    np.testing.assert_allclose(found, (h + 0.2 * by_xarray(h)).transpose(*found.dims), rtol=1e-13)
    np.testing.assert_array_equal(found.lat, h.lat[1:-1])


def test_two_passes_of_a_filter_over_real_terrain():
    """A geographer who smooths real terrain twice by a program of the notation gets NumPy's numbers, with the
    longitudes that are left and the attributes."""
    smooth = ti.parse("""
    smooth(out: tensor<float, J[1:n-1], I[1:m-1]>, h: tensor<float, J[0:n], I[0:m]>) {
      out ← let lap = ⟪I, 1⟫(h) + ⟪I, -1⟫(h) + ⟪J, 1⟫(h) + ⟪J, -1⟫(h) - 4.0 × h;
            h + 0.2 × lap;
    }""")
    h = data.jacksboro_fault()
    found = smooth(h=smooth(h=h)["out"])["out"]
    step = lambda x: x[1:-1, 1:-1] + 0.2 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1])
    np.testing.assert_allclose(found, step(step(h.values)), rtol=1e-12)
    np.testing.assert_array_equal(found.lon, h.lon[2:-2])
    assert found.attrs == h.attrs  # diffusion gives elevations again


def test_an_anomaly_has_the_unit_and_not_the_name_of_what_it_is_of():
    """An oceanographer who takes differences of depths gets metres, and no standard name that says they were depths."""
    h = data.topobathy()
    rise = ti.field_operator(lambda h: h(I + 1) - h)(h)
    assert rise.attrs == {"units": "m"}


def test_a_square_has_no_unit_that_is_wrong():
    """A meteorologist who squares a temperature gets K2 rather than kelvins, and the attributes that keep_attrs
    asks for."""
    t = xr.DataArray([270.0, 280.0], dims="I", attrs={"units": "K", "standard_name": "air_temperature"})
    square = ti.field_operator(lambda t: t * t)
    assert square(t).attrs == {"units": "K2"}
    with xr.set_options(keep_attrs=True):
        assert square(t).attrs == {"units": "K2", "standard_name": "air_temperature"}
    with xr.set_options(keep_attrs=False):
        assert ti.field_operator(lambda t: t(I + 1))(t).attrs == {}


def test_kelvins_are_not_added_to_metres():
    """A meteorologist who adds a temperature to a height is told that K and m meet in a sum, and how to go on."""
    t = xr.DataArray([270.0, 280.0], dims="I", attrs={"units": "K"})
    z = xr.DataArray([1.0, 2.0], dims="I", attrs={"units": "m"})
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda t, z: t + z)(t, z)
    (found,) = refused.value.diagnostics
    assert found.code == "A32" and found.message == "'t' in K and 'z' in m meet in plus, which needs equal units."
    assert found.help == "convert one of them, or leave units out: x.drop_attrs()."


@pytest.mark.parametrize("op", ["less", "eq", "arctan2"])
def test_kelvins_are_not_compared_with_metres(op):
    """A meteorologist who compares a temperature with a height is told that K and m meet, and may compare with
    numbers and with temperatures."""
    t = xr.DataArray([270.0, 280.0], dims="I", attrs={"units": "K"})
    z = xr.DataArray([1.0, 2.0], dims="I", attrs={"units": "m"})
    compared = {"less": lambda t, z: t < z, "eq": lambda t, z: t == z, "arctan2": lambda t, z: ti.arctan2(t, z)}
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(compared[op])(t, z)
    (found,) = refused.value.diagnostics
    assert found.code == "A32" and found.message == f"'t' in K and 'z' in m meet in {op}, which needs equal units."
    assert "units" not in ti.field_operator(compared[op])(t, 2.0 * t).attrs
    assert ti.field_operator(lambda t: t > 273.15)(t).values.tolist() == [False, True]


def test_a_scan_adds_up_what_has_one_unit():
    """A hydrologist who adds up layers by a scan or a loop gets their unit, that of products too, and is told
    where two units meet."""
    z = xr.DataArray([1.0, 2.0], dims="I", attrs={"units": "m"})
    total = ti.scan_operator(axis=I, init=0.0)(lambda s, z: s + z)
    assert total(z).attrs == {"units": "m"}
    weighed = ti.scan_operator(axis=I, init=0.0)(lambda s, z, w: s + z * w)
    assert weighed(z, z).attrs == {"units": "m2"}
    both = ti.scan_operator(axis=I, init=0.0)(lambda s, z, t: s + z + t)
    with pytest.raises(ti.DiagnosticError, match="m and 't' in K meet in plus, which needs equal units"):
        both(z, z.assign_attrs(units="K"))
    pair = ti.scan_operator(axis=I, init=(0.0, 0.0))(lambda s, z, t: (s[0] + z, s[1] + t))
    sums = pair(z, z.assign_attrs(units="K"))
    assert [x.attrs for x in sums] == [{"units": "m"}, {"units": "K"}]
    text = "f(y: tensor<float, I[0:2]>, z: tensor<float, I[0:2]>) { y ← loop(0, 2)(λ(i: tensor<int>, a: tensor<float, "
    text += "I[0:2]>) → true, λ(i: tensor<int>, a: tensor<float, I[0:2]>) → a + z, 0.0 × z); }"
    assert ti.parse(text)(z=z)["y"].attrs == {"units": "m"}


def test_a_five_year_mean_of_years():
    """A climatologist who averages years over five gets what xarray's centred rolling mean gives, with the years and
    the unit."""
    years = xr.DataArray(np.arange(10.0) ** 2, dims="T", coords={"T": np.arange(1990, 2000)}, attrs={"units": "mm"})
    mean = ti.parse("""
    mean(out: tensor<float, T[2:n-2]>, x: tensor<float, T[0:n]>) {
      out ← 0.2 × ⟪T, -2⟫(x) + 0.2 × ⟪T, -1⟫(x) + 0.2 × x + 0.2 × ⟪T, 1⟫(x) + 0.2 × ⟪T, 2⟫(x);
    }""")
    found, expected = mean(x=years)["out"], years.rolling(T=5, center=True).mean().dropna("T")
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(found["T"], expected["T"])
    assert found.attrs == years.attrs


def test_daily_values_of_two_stations_that_began_on_different_days():
    """An observer who subtracts two stations' days that began apart gets the common days, as xarray aligns them."""
    days = pd.date_range("2024-02-25", periods=10)
    a = xr.DataArray(np.arange(10.0), dims="T", coords={"T": days})
    b = xr.DataArray(np.arange(7.0) ** 2, dims="T", coords={"T": days[3:]})
    found = ti.field_operator(lambda a, b: a - b)(a, b)
    xr.testing.assert_equal(found, a - b)


def test_latitudes_that_go_down_are_no_others_than_those_that_go_up():
    """A geographer who subtracts maps whose latitudes run up and down is told that the labels differ, and gets zeros
    once they are reindexed."""
    north = data.topobathy().swap_dims(J="lat").rename(I="X")
    with pytest.raises(ti.DiagnosticError, match=r"A25.*along lat differ"):
        ti.field_operator(lambda a, b: a - b)(north, north[::-1])
    same = north[::-1].reindex_like(north)
    assert not ti.field_operator(lambda a, b: a - b)(north, same).any()


def test_a_halo_goes_on_with_its_coordinates():
    """A modeller who extends terrain by a halo gets the rows that xarray's pad gives, with latitudes that go on at
    their step."""
    h = data.jacksboro_fault()
    wide = h.tensorir.extend({I: 1, J: (2, 0)}, ti.boundary.neumann())
    expected = h.pad(I=1, mode="edge").pad(J=(2, 0), mode="edge")
    np.testing.assert_array_equal(wide, expected)
    step = float(h.lat[-1] - h.lat[0]) / (h.sizes["J"] - 1)
    np.testing.assert_allclose(wide.lat[:2], float(h.lat[0]) - step * np.array([2, 1]), rtol=1e-6)
    np.testing.assert_array_equal(wide.lat[2:], h.lat)
    assert wide.lat.attrs == h.lat.attrs


def test_a_halo_of_days_and_of_names():
    """An observer who extends a series gets the days that follow, and a warning with missing labels where steps are
    not equal."""
    days = pd.date_range("2024-02-28", periods=3)
    x = xr.DataArray([1.0, 2.0, 3.0], dims="T", coords={"T": days})
    np.testing.assert_array_equal(
        ti.extend(x, {T: (0, 2)}, ti.boundary.neumann())["T"], pd.date_range("2024-02-28", periods=5)
    )  # fmt: skip
    y = xr.DataArray([1.0, 2.0, 3.0], dims="T", coords={"height": ("T", [2.0, 10.0, 50.0])})
    with pytest.warns(UserWarning, match="the steps of height are not equal"):
        wide = ti.extend(y, {T: 1}, ti.boundary.neumann())
    np.testing.assert_array_equal(wide.height, [np.nan, 2.0, 10.0, 50.0, np.nan])


def test_members_of_tuples_have_their_units():
    """A meteorologist who returns several results at once gets the unit of each, and is told where two clash inside."""
    t = xr.DataArray([270.0, 280.0], dims="I", name="t", attrs={"units": "K", "standard_name": "air_temperature"})
    both = ti.field_operator(lambda t: (-t, t + t, (t, t * t)))
    minus, twice, (same, square) = both(t)
    assert (minus.attrs, twice.attrs, same.attrs, square.attrs) == (
        {"units": "K"},
        {"units": "K"},
        t.attrs,
        {"units": "K2"},
    )
    first = ti.parse("""
    f(y: tensor<(float, float), I[0:2]>, z: tensor<float, I[0:2]>, x: tensor<(float, float), I[0:2]>) {
      y ← if(x[0] < x[0], x, x);
      z ← x[1];
    }""")
    found = first(x=(t, t.assign_attrs(units="m", standard_name="height")))
    assert [a.attrs["units"] for a in (*found["y"], found["z"])] == ["K", "m", "m"]
    with pytest.raises(ti.DiagnosticError, match=r"A32.*'t' in K and 'z' in m meet in plus"):
        ti.field_operator(lambda t, z: (t, t + z))(t, t.assign_attrs(units="m"))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
def test_a_halo_of_dates_of_any_calendar_goes_on(calendar):
    """A climatologist who extends a model's days gets the next ones of its calendar, without a leap day or with
    thirty days a month."""
    days = xr.date_range("2001-02-27", periods=6, calendar=calendar, use_cftime=True)
    x = xr.DataArray(np.arange(4.0), dims="T", coords={"T": days[1:-1]})
    wide = ti.extend(x, {T: 1}, ti.boundary.neumann())
    assert wide.indexes["T"].equals(days)


def test_a_halo_of_months_and_of_names_has_none_of_them():
    """A climatologist who extends a series of months and names gets a warning, and no label where none follows."""
    months = xr.date_range("2001-01-01", periods=3, freq="MS", calendar="noleap", use_cftime=True)
    x = xr.DataArray(np.arange(3.0), dims="T", coords={"month": ("T", months), "name": ("T", ["a", "b", "c"])})
    with pytest.warns(UserWarning, match="the steps of month, name are not equal"):
        wide = ti.extend(x, {T: (1, 2)}, ti.boundary.neumann())
    assert wide["month"].values.tolist() == [None, *months, None, None]
    assert wide["name"].values.tolist() == [None, "a", "b", "c", None, None]


def test_labels_that_a_field_cannot_have_are_told():
    """A user of Fields who converts a map with descending latitudes is told that they are left out, and how to put
    them back."""
    down = xr.DataArray(np.arange(3.0), dims="lat", name="t", coords={"lat": [90.0, 0.0, -90.0]})
    with pytest.warns(UserWarning) as told:
        field = ti.as_field(down)
    assert str(told[0].message) == (
        "a field has no labels, and those along lat (90.0, ...) are left out: it is lat[0:3]; "
        "field.to_xarray().assign_coords(lat=...) puts them back, origin={'lat': 0} says it is meant"
    )
    xr.testing.assert_equal(field.to_xarray().assign_coords(lat=down.lat), down)
    counted = xr.DataArray(np.arange(3.0), dims="I", coords={"I": [4, 5, 6], "lat": ("I", [90.0, 0.0, -90.0])})
    for silent in (ti.drop_indexes(down), counted, counted.drop_vars("I")):
        ti.as_field(silent)
    assert down.tensorir.field({"lat": 2}).dims["lat"].start == 2


def test_what_a_loop_keeps_has_the_attributes_of_its_last_state():
    """A modeller who keeps snapshots of a time loop gets the attributes and coordinates that its last state has."""
    h = xr.DataArray([1.0, 2.0, 4.0], dims="I", attrs={"units": "m"}, coords={"lon": ("I", [7.0, 8.0, 9.0])})
    last, kept = ti.iterate(lambda h: 0.5 * h, h, 4, every=2, keep=lambda h: {"depth": h, "twice": 2.0 * h})
    assert last.attrs == kept["depth"].attrs == h.attrs and kept["twice"].attrs == (2.0 * h).attrs
    np.testing.assert_array_equal(kept["depth"][-1], last)
    np.testing.assert_array_equal(kept.lon, h.lon)


class Foreign(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers that another library holds."""

    shape, dtype, ndim = (3,), np.dtype("float64"), 1
    __array_ufunc__ = __array_function__ = lambda self, *_: NotImplemented


@pytest.mark.parametrize(
    ("library", "help"),
    [
        ("dask", "compute it first, h.compute(); or go block by block: ti.map_blocks(operator, h)."),
        ("pint", "put its units into the attributes: h.pint.dequantify()."),
        ("sparse", "convert it: h.copy(data=...)."),
    ],
)
def test_arrays_of_other_libraries_are_refused_by_name(library, help):
    """A user of dask, pint or sparse who passes their arrays is told which library holds them, and what to call
    first."""
    held = type("Array", (Foreign,), {"__module__": f"{library}.array"})()
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda h: 2.0 * h)(xr.DataArray(held, dims="I", name="h"))
    (found,) = refused.value.diagnostics
    assert found.message == f"'h' is held by {library} (Array), and arrays of NumPy and JAX are taken."
    assert found.help == help


def test_a_program_in_functions_says_the_same_of_its_results():
    """A programmer who writes functions inside of a program gets the unit and the long name as without them."""
    f = ti.parse("""
    f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n+1]>) {
      out ← (λ(a: tensor<float, I[0:n+1]>) → 0.5 × a + 0.5 × ⟪I, 1⟫(a))(x);
    }""")
    x = xr.DataArray([1.0, 3.0, 5.0], dims="I", attrs={"units": "m", "long_name": "depth"})
    assert f(x=x)["out"].attrs == x.attrs
