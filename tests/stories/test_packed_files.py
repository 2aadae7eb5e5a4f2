"""What files say of how numbers are stored, and what becomes of it: packings are of the numbers that were packed."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J = ti.dims("I J")
PACKED = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 20.0, "_FillValue": np.int16(-32768)}
VALUES = np.array([[20.0, np.nan, 0.5], [1.25, 7.0, 3.0]])


@pytest.fixture
def packed(tmp_path):
    """A temperature that a file has in 16 bits, and the places of its rows in 16 bits, too."""
    t = xr.DataArray(VALUES, dims=("I", "J"), name="t", coords={"lat": ("I", [10.0, 10.5]), "J": [5.0, 6.0, 7.0]})
    t.encoding, t.coords["lat"].encoding = PACKED, {"dtype": "int16", "scale_factor": 0.5, "_FillValue": -1}
    t.to_netcdf(tmp_path / "packed.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "packed.nc", engine="netcdf4") as file:
        found = file.load()["t"]
    assert found.encoding["scale_factor"] == 0.01 and found.lat.encoding["scale_factor"] == 0.5
    return found


@ti.field_operator
def larger(t):
    return t * 64.0


def in_place(t):
    program = ti.parse("larger(t: tensor<float, I[0:2], J[0:3]>) { t ← t × 64.0; }")
    return ti.compile(program)(t=t.copy())["t"]


def called_back(t):
    seen = []
    ti.iterate(larger, t, 1, callback=lambda _, s: seen.append(s), progress=False)
    return seen[0]


WAYS = {
    "operator": larger,
    "operator that gives a tuple": lambda t: ti.field_operator(lambda t: (t, t * 64.0))(t)[1],
    "program": lambda t: ti.parse(
        "f(y: tensor<float, I[0:2], J[0:3]>, x: tensor<float, I[0:2], J[0:3]>) { y ← x × 64.0; }"
    )(x=t)["y"],
    "program in place": in_place,
    "blocks": lambda t: ti.map_blocks(larger, t.chunk({"J": 1})).compute(),
    "loop": lambda t: ti.iterate(larger, t, 1, progress=False),
    "loop of a Dataset": lambda t: ti.iterate(lambda s: {"t": 64.0 * s["t"]}, t.to_dataset(), 1, progress=False)["t"],
    "what a callback sees": called_back,
    "what is kept": lambda t: ti.iterate(larger, t, 1, keep=lambda s: {"t": s}, progress=False)[1]["t"][-1],
    "halo": lambda t: larger(ti.extend(t, {I: (0, 1)}, ti.neumann()))[:2],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_packing_is_not_applied_to_what_is_computed(packed, tmp_path, way):
    """A reader of packed files who computes in any way, and stores it, gets the numbers themselves, unpacked and not
    packed again."""
    found = WAYS[way](packed)
    assert found.encoding == {}
    if way != "program in place":  # an array that is written into keeps its coordinates
        assert not any(c.encoding for c in found.coords.values())
    found.rename("t").to_netcdf(tmp_path / "found.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "found.nc", engine="netcdf4") as stored:
        np.testing.assert_array_equal(stored["t"], packed.values * 64.0)
        np.testing.assert_array_equal(stored.lat, packed.lat)
    assert packed.encoding["scale_factor"] == 0.01  # the argument is as it was


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_land_stays_land_in_all_snapshots(packed, tmp_path, suffix):
    """An oceanographer who keeps snapshots of a packed field gets missing values over land in each of them, in NetCDF
    and in Zarr."""
    last, kept = ti.iterate(larger, packed, 3, every=1, keep=True, to=tmp_path / f"run{suffix}", progress=False)
    expected = np.stack([packed.values * 64.0**k for k in range(4)])
    assert np.isnan(last[0, 1])
    with kept, xr.open_dataset(tmp_path / f"run{suffix}") as stored:
        for found in (kept, stored):
            np.testing.assert_array_equal(found["t"], expected)
            np.testing.assert_array_equal(found["lat"], packed.lat)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_snapshots_of_numbers_that_were_not_unpacked_are_those_numbers(tmp_path, suffix):
    """A reader of packed files who left the integers packed gets snapshots of these integers."""
    raw = xr.DataArray(np.array([100, 200], "int16"), dims="I", attrs={"scale_factor": 0.5, "add_offset": 10.0})
    _, kept = ti.iterate(lambda t: t + t, raw, 2, every=1, keep=True, to=tmp_path / f"run{suffix}", progress=False)
    assert kept["state"].values.tolist() == [[100, 200], [200, 400], [400, 800]]


@pytest.mark.parametrize(
    "values",
    [np.array([True, False]), np.array([1, 2**64 - 1], "uint64"), np.array([-128, 127], "int8"),
     np.array([np.inf, np.nan], "float32")],
    ids=lambda v: str(v.dtype),
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_snapshots_hold_numbers_of_all_types_bit_for_bit(tmp_path, values, suffix):
    """A programmer who keeps bools, small and large integers, infinities and NaN gets them back bit for bit, with
    their type."""
    _, kept = ti.iterate(lambda t: t, values, 2, every=1, keep=True, to=tmp_path / f"run{suffix}", progress=False)
    assert kept["state"].dtype == values.dtype
    np.testing.assert_array_equal(kept["state"], [values] * 3)


def test_what_a_file_cannot_hold_is_refused_by_name(tmp_path):
    """A programmer who keeps half precision in NetCDF is told which variable the file cannot hold, and how to convert
    it."""

    def refused(state, suffix, **options):
        with pytest.raises(ti.DiagnosticError) as found:
            ti.iterate(lambda t: t, state, 2, keep=True, to=f"{tmp_path}/run{suffix}", progress=False, **options)
        return str(found.value).replace(f"{tmp_path}/", "")

    assert refused({"t": np.ones(2, "float16")}, ".nc") == (
        "error[A31]: 't' is float16, which 'run.nc' cannot hold.\n"
        "help: convert what is kept: keep=lambda s: ti.astype(s, ti.float32)."
    )


def test_a_number_of_a_duration_is_no_duration(tmp_path):
    """A modeller who keeps an age in days gets numbers in days, and no durations that xarray would make of them."""
    age = xr.DataArray([1.5, 2.5], dims="I", name="age", attrs={"units": "days"})
    _, kept = ti.iterate(lambda t: t, age, 1, keep=True, to=tmp_path / "run.nc", progress=False)
    assert kept["age"].dtype == np.float64 and kept["age"].attrs["units"] == "days"
