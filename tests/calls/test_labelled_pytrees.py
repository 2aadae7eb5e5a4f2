"""DataArrays and Datasets as pytrees of JAX: around plain arrays, with dims and labels as their structure."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from lowering.labelled import apart, numbers, register, whole, with_numbers
from tests.effort import device_work

register()
LAT = np.array([50.0, 60.0, 70.0])
H = xr.DataArray(
    [1.0, 2.0, 3.0], {"lat": LAT, "area": ("lat", [4.0, 5.0, 6.0])}, ("lat",), name="h", attrs={"units": "K"}
)
DS = xr.Dataset({"h": H, "u": 2.0 * H, "station": ("lat", list("abc"))}, attrs={"title": "start"})


def structure(x):
    return jax.tree_util.tree_structure(x)


def test_the_numbers_are_the_only_leaves_and_names_dates_and_coordinates_are_no_structure():
    assert [type(x) for x in jax.tree_util.tree_leaves((H, DS))] == [np.ndarray] * 3
    dated = H.rename("z").assign_coords(time=np.datetime64("2026-01-01", "ns")).assign_attrs(history="of today")
    assert structure(H) == structure(dated) and hash(structure(H)) == hash(structure(dated))
    assert structure(H) != structure(H.assign_coords(lat=LAT + 1.0))
    assert structure(H) != structure(H.rename(lat="x")) and structure(H) != structure(H.assign_attrs(units="C"))
    xr.testing.assert_identical(jax.tree_util.tree_map(lambda x: x, DS), DS)
    xr.testing.assert_identical(whole(apart((H, DS)))[1], DS)


def test_functions_of_jax_xarray_and_equinox_take_the_data():
    with jax.enable_x64(True):
        network = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        run = jax.jit(lambda h: (jnp.sin(h.data).sum(), xr.apply_ufunc(jnp.cos, h), network(h.data)))
        value, cosine, out = run(H)
        np.testing.assert_allclose(value, np.sin(H.values).sum())
        np.testing.assert_allclose(cosine, np.cos(H.values))
        assert out.shape == (2,) and cosine.indexes["lat"].equals(H.indexes["lat"])
        slope = jax.grad(lambda h: (h * h).sum().data)(H)
        np.testing.assert_allclose(slope, 2.0 * H.values)
        last = jax.lax.fori_loop(0, 3, lambda _, h: (2.0 * h).rename("other").drop_attrs(), H)
        np.testing.assert_array_equal(last, 8.0 * H)


def test_units_of_another_call_are_not_those_of_a_result():
    double = jax.jit(lambda h: 2.0 * h)
    for units in ("K", "m"):
        found = double(H.assign_attrs(units=units, source=units).rename(units))
        kept = (2.0 * H).attrs != {}  # xarray keeps attributes in arithmetic from 2025.11 on
        assert found.attrs == ({"units": units} if kept else {})
        assert found.name is None and list(found.coords) == ["lat"]


def test_an_axis_that_has_no_name_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"V35.*on 1 dims, lat, has numbers with 0 axes"):
        jax.vmap(lambda h: h.sum().data)(H)


def test_a_loop_carries_numbers_alone_and_large_coordinates_are_arguments():
    wide = xr.DataArray(np.ones((40, 40)), {"lon": (("y", "x"), np.arange(1600.0).reshape(40, 40))}, ("y", "x"))
    parts = apart({"h": H, "wide": wide})
    assert [x.shape for x in numbers(parts)] == [(3,), (40, 40)]
    assert len(jax.tree_util.tree_leaves(parts)) == 2
    xr.testing.assert_identical(whole(with_numbers(parts, [np.zeros(3), np.ones((40, 40))]))["wide"], wide)

    @ti.field_operator
    def scaled(h):
        return h * ti.coord(h, "lon")

    np.testing.assert_array_equal(ti.iterate(scaled, wide, 2, progress=False), wide.lon.values**2)
    other = wide.assign_coords(lon=wide.lon + 1.0)
    work = device_work(lambda: ti.iterate(scaled, other, 2, progress=False))
    assert work.compiled == 0  # they are no constants of the program


@ti.field_operator
def smooth(h):
    x = ti.extend(h, {"lat": 1}, ti.neumann())
    return h + 0.1 * (x(ti.Dimension("lat") + 1) - 2.0 * x + x(ti.Dimension("lat") - 1))


OTHERS = [
    H.assign_coords(lat=LAT + 10.0),
    H.rename("z"),
    H.assign_coords(time=np.datetime64("2026-01-02", "ns")),
    H.assign_attrs(history="later"),
    H.assign_coords(lat=LAT - 10.0, area=("lat", [1.0, 1.0, 1.0])),
]
CALLS = {
    "ti.iterate": lambda h: ti.iterate(smooth, h, 3, progress=False),
    "ti.jit": ti.jit(lambda h: smooth(h) + h),
    "ti.grad": ti.grad(lambda h: (smooth(h) * smooth(h)).sum()),
}


@pytest.mark.parametrize("call", CALLS)
def test_other_labels_dates_and_names_compile_nothing(call):
    CALLS[call](H)
    for other in OTHERS:
        results = []
        assert device_work(lambda other=other, results=results: results.append(CALLS[call](other))).compiled == 0
        assert results[0].indexes["lat"].equals(other.indexes["lat"])


def test_another_registration_changes_nothing_of_our_own_transformations():
    """Somebody else may have made pytrees of xarray's classes before."""
    script = """
import jax, numpy as np, xarray as xr
jax.tree_util.register_pytree_node(xr.DataArray, lambda x: ((x.data,), x.dims), lambda d, x: xr.DataArray(x[0], dims=d))
import tensorir as ti
h = xr.DataArray([1.0, 2.0], {"lat": [50.0, 60.0]}, name="h", attrs={"units": "K"})
w = xr.DataArray([0.0, 1.0], {"lat": [60.0, 50.0]})
for x in (ti.jit(lambda h: h * w)(h), ti.iterate(lambda h: h * w, h, 1), ti.grad(lambda h: (h * h * w).sum())(h)):
    assert x.lat.values.tolist() == [50.0, 60.0], x
assert ti.iterate(lambda h: h * w, h, 1).identical(h.copy(data=[1.0, 0.0]))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
