"""Steps of DataArrays with xarray's own methods: the same numbers in a time loop."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

T = xr.DataArray(
    np.random.default_rng(0).normal(size=(4, 6)), dims=("lat", "lon"), name="t", attrs={"units": "K"},
    coords={"lat": [-60.0, -20.0, 20.0, 60.0], "lon": np.arange(6) * 60.0},
)  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        lambda t: t - t.mean("lon"),
        lambda t: t - t.mean(dim=["lat", "lon"]),
        lambda t: t.where(t > 0.0, 0.0) + t.where(t > -9.0),
        lambda t: t.clip(-1.0, 1.0) + t.clip(max=0.5) + t.clip(min=0.0),
        lambda t: 0.5 * (t.roll(lon=1) + t.roll(lon=-2, lat=1)),
        lambda t: t * np.cos(t.lat / 60.0),
        lambda t: t - t.isel(lat=-1, drop=True) + t.isel(lon=2, drop=True),
        lambda t: t - t.sel(lat=20.0, drop=True),
        lambda t: t - t.weighted(np.cos(t.lat / 60.0)).mean(),
        lambda t: t - t.diff("lon").mean("lon"),
    ],
    ids=["mean", "several dims", "where", "clip", "roll", "coordinate", "isel", "sel", "weighted", "diff"],
)
def test_a_step_gives_what_xarray_gives(step):
    plain = T
    for _ in range(2):
        plain = step(plain).assign_coords(T.coords).transpose(*T.dims)
    found = ti.iterate(step, T, 2)
    np.testing.assert_allclose(found, plain, rtol=1e-13, atol=1e-15)
    assert found.dims == T.dims


def test_what_no_field_has_is_no_attribute():
    field = ti.zeros({"I": 3})
    assert not hasattr(field, "nonsense") and not hasattr(field, "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        _ = field.nonsense


@pytest.mark.parametrize("to", [None, "run.nc", "run.zarr", "in a trace"])
def test_variables_that_are_not_in_the_order_of_their_names_are_kept_under_their_own(to, tmp_path):
    state = xr.Dataset({"u": ("x", np.ones(3)), "c": ("x", np.full(3, 5.0))})
    step = lambda s: s.assign(u=2.0 * s["u"])
    if to == "in a trace":
        kept = ti.jit(lambda s: ti.iterate(step, s, 3, every=1, keep=True)[1])(state)
    else:
        path = None if to is None else tmp_path / to
        kept = ti.iterate(step, state, 3, every=1, keep=True, to=path, progress=False)[1]
    assert kept["u"].values[:, 0].tolist() == [1.0, 2.0, 4.0, 8.0]
    assert kept["c"].values[:, 0].tolist() == [5.0, 5.0, 5.0, 5.0]
