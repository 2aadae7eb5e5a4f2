"""Gradients and compilation of functions of labelled arrays, beside slopes and NumPy."""

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.effort import device_work

LAT = ti.Dimension("lat")


@ti.field_operator
def slope(t):
    return t(LAT + 1) - t


def energy(t):
    return (slope(t) ** 2.0).sum()


def temperature() -> xr.DataArray:
    values = np.array([280.0, 282.5, 281.0, 290.0])
    coords = {"lat": [60.0, 50.0, 40.0, 30.0], "station": ("lat", list("abcd"))}
    return xr.DataArray(values, dims="lat", name="t", coords=coords, attrs={"units": "K", "long_name": "air"})


def test_a_gradient_has_the_labels_of_its_argument_and_the_units_of_a_quotient():
    t, step = temperature(), 1e-4
    found = ti.grad(energy, units="J")(t)
    shifted = [t.copy(data=t.values + step * (np.arange(4) == k)) for k in range(4)]
    back = [t.copy(data=t.values - step * (np.arange(4) == k)) for k in range(4)]
    numbers = [
        np.sum(np.diff(a.values) ** 2) - np.sum(np.diff(b.values) ** 2) for a, b in zip(shifted, back, strict=True)
    ]
    want = xr.DataArray(np.array(numbers) / (2 * step), t.coords, name="t", attrs={"units": "J/K"})
    xr.testing.assert_allclose(found, want, rtol=1e-8)
    assert found.attrs == want.attrs and found.dtype == np.float64
    assert ti.grad(energy)(t).attrs == {}
    wind = t.assign_attrs(units="m s-1")
    assert wind.tensorir.grad(energy, units="J").attrs == {"units": "J/(m s-1)"}


def test_a_dataset_is_differentiated_whole():
    t = temperature()
    state = xr.Dataset({"t": t, "u": (("lat",), np.ones(4), {"units": "m"})}, attrs={"title": "start"})

    def loss(s, weight):
        return weight * (s["t"] * s["u"]).sum(), s["u"]

    (value, aux), (found, by_weight) = ti.value_and_grad(loss, (0, 1), has_aux=True, units="J")(state, 2.0)
    assert float(value) == 2 * t.values.sum() and float(by_weight) == t.values.sum()
    xr.testing.assert_equal(found, xr.Dataset({"t": 2 * state.u, "u": 2 * t}))
    assert (found.t.attrs, found.u.attrs, found.attrs) == ({"units": "J/K"}, {"units": "J/m"}, {})
    xr.testing.assert_equal(aux, state.u)


def test_a_loss_may_be_a_field_without_dims_and_a_dataset_has_its_gradient_by_its_accessor():
    state = xr.Dataset({"a": ("lat", [1.0, 4.0]), "c": 7.0})
    found = state.tensorir.grad(lambda s: (s["a"] * s["a"]).sum() + 2.0 * s["c"])
    xr.testing.assert_identical(found, xr.Dataset({"a": ("lat", [2.0, 8.0]), "c": 2.0}))
    halved = state.tensorir.iterate(lambda s: {"a": 0.5 * s["a"], "c": s["c"]}, 2)
    xr.testing.assert_identical(halved, xr.Dataset({"a": ("lat", [0.25, 1.0]), "c": 7.0}))
    assert str(state.tensorir.types["a"]) == "tensor<float, lat[0:2]>"


def test_numbers_of_netcdf_3_are_differentiated_compiled_and_iterated():
    t = xr.DataArray(np.array([1.0, 2.0], ">f8"), dims="lat")
    assert ti.grad(lambda x: (x * x).sum())(t).values.tolist() == [2.0, 4.0]
    assert ti.jit(lambda s: {"t": 3.0 * s["t"]})(xr.Dataset({"t": t}))["t"].values.tolist() == [3.0, 6.0]
    assert ti.iterate(lambda x: 2.0 * x, t.values, 2).tolist() == [4.0, 8.0]


def test_a_variable_without_numbers_is_named():
    state = xr.Dataset({"t": ("lat", [1.0, 2.0]), "station": ("lat", ["a", "b"])})
    with pytest.raises(ti.DiagnosticError, match=r"A02.*'station' holds <U1, which is no element type"):
        ti.iterate(lambda s: s, state, 2)


def test_transformations_compose_and_keep_labels():
    t = temperature()
    run = ti.jit(ti.value_and_grad(energy))
    value, found = run(t)
    xr.testing.assert_allclose(found.drop_attrs(), ti.grad(energy)(t).rename(None))
    assert float(value) == np.sum(np.diff(t.values) ** 2)
    assert device_work(lambda: run(t + 1.0)).compiled == 0
    field = ti.as_field({"lat": 4}, t.values)
    with jax.enable_x64(True):
        inside = jax.grad(lambda f: 2.0 * ti.value_and_grad(energy)(f)[0])(field)
    np.testing.assert_allclose(inside.data, 2 * found.values, rtol=1e-14)
    one_step = ti.jit(lambda s, rate: {"t": s["t"] - rate * s["t"]})
    xr.testing.assert_allclose(one_step(t.to_dataset(), 0.5)["t"], 0.5 * t)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda t: ti.grad(energy)(t.astype(int)),
            "error[A41]: 't' is an int64, and only floats have gradients.\n"
            "help: convert it, t.astype('float64'), or name others: argnums=1.",
        ),
        (
            lambda t: ti.grad(lambda state: state["n"].sum())(xr.Dataset({"t": t, "n": ("lat", np.arange(4))})),
            "error[A41]: 'n' is an int64, and only floats have gradients.\n"
            "help: convert it, n.astype('float64'), or name others: argnums=1.",
        ),
        (
            lambda t: ti.grad(lambda flags: flags.sum())(t.rename(None) > 281.0),
            "error[A41]: 'flags' is a bool, and only floats have gradients.\n"
            "help: convert it, flags.astype('float64'), or name others: argnums=1.",
        ),
        (
            lambda t: ti.grad(slope)(t),
            "error[A41]: the loss is on lat[0:3], and a gradient is that of one number.\nhelp: add it up: x.sum().",
        ),
        (
            lambda t: ti.grad(lambda t: t.data)(t),
            "error[A41]: the loss is of the shape (4,), and a gradient is that of one number.\n"
            "help: add it up: x.sum().",
        ),
    ],
)
def test_what_has_no_gradient_is_named(call, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        call(temperature())
    assert str(refused.value) == told
