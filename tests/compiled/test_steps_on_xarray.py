"""Steps of DataArrays with xarray's own methods: the same numbers in a time loop, or an error with what to write."""

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
        lambda t: t - t.isel(lat=-1) + t.isel(lon=2),
    ],
    ids=["mean", "several dims", "where", "clip", "roll", "coordinate", "isel"],
)
def test_a_step_gives_what_xarray_gives(step):
    plain = T
    for _ in range(2):
        plain = step(plain).assign_coords(T.coords).transpose(*T.dims)
    found = ti.iterate(step, T, 2)
    np.testing.assert_allclose(found, plain, rtol=1e-13, atol=1e-15)
    assert found.dims == T.dims


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (lambda t: t.sel(lat=20.0), "write h.isel(lat=2) with the number of the point."),
        (
            lambda t: t.weighted(t).mean(),
            "write (h * w).sum(dim) / w.sum(dim), or ti.mean(h, dim, weights=w) in an operator.",
        ),
        (lambda t: t.diff("lon"), "write an operator: h(I + 1) - h."),
    ],
    ids=["sel", "weighted", "diff"],
)
def test_a_method_that_fields_lack_says_what_to_write(step, hint):
    with pytest.raises(ti.DiagnosticError, match="A03") as refused:
        ti.iterate(step, T, 1)
    assert refused.value.diagnostics[0].help == hint


def test_what_no_field_has_is_no_attribute():
    field = ti.zeros({"I": 3})
    assert not hasattr(field, "nonsense") and not hasattr(field, "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        _ = field.nonsense
