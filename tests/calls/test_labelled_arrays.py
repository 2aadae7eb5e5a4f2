"""Labelled arrays of xarray in compiled programs and in transformations."""

import subprocess
import sys

import cf_units
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from lowering.labelled import apart, numbers, register, whole, with_numbers
from tests.calls.everyday import EVERYDAY, D
from tests.effort import device_work

# Everyday expressions of xarray and NumPy in jitted functions, losses, steps and what loops keep


NUMBERS = {"np.clip", "np.where", "np.where of numbers", "np.gradient", "interp", "polyfit", "interpolate_na"}
"""What NumPy and SciPy compute, which need the numbers; of what a loop keeps they have them."""
REFUSED = {"ti.jit": NUMBERS | {"idxmax"}, "ti.grad": NUMBERS | {"idxmax"}, "ti.iterate": NUMBERS | {"idxmax"},
           "keep=": {"idxmax"}}  # fmt: skip


def of_a_loss(f):
    (_, results), slope = ti.value_and_grad(lambda d: (d.fillna(0.0).sum(), f(d)), has_aux=True)(D)
    xr.testing.assert_equal(slope, D.notnull().astype(float))
    return results


def of_a_step(f):
    blank = {n: xr.zeros_like(x) if isinstance(x, xr.DataArray) else np.zeros_like(x) for n, x in f(D).items()}
    return ti.iterate(lambda s: (s[0], f(s[0])), (D, blank), 2, progress=False)[1]


def kept(f):
    each = {}

    def keep(d):
        each.update(f(d))
        return {"d": d}

    ti.iterate(lambda d: d, D, 1, keep=keep, progress=False)
    return each


PLACES = {"ti.jit": lambda f: ti.jit(f)(D), "ti.grad": of_a_loss, "ti.iterate": of_a_step, "keep=": kept}


@pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning")
@pytest.mark.parametrize("place", PLACES)
def test_an_expression_gives_what_it_gives_outside(place):
    some = {n: g for n, g in EVERYDAY.items() if n not in REFUSED[place]}
    found = PLACES[place](lambda d: {n: g(d) for n, g in some.items()})
    assert len(some) >= 68
    for name, g in some.items():
        expected, x = g(D), found[name]
        np.testing.assert_allclose(np.asarray(x), np.asarray(expected), rtol=1e-12, err_msg=name)
        if isinstance(expected, xr.DataArray):
            assert x.dims == expected.dims and x.indexes.keys() == expected.indexes.keys(), name
            assert all(i.equals(x.indexes[n]) for n, i in expected.indexes.items()), name
            assert x.attrs == expected.attrs and x.name == expected.name, name


@pytest.mark.parametrize("name", sorted(REFUSED["ti.jit"]))
@pytest.mark.parametrize("place", ["ti.jit", "ti.grad"])
def test_what_cannot_be_is_one_error_of_this_package(place, name):
    with pytest.raises(ti.DiagnosticError, match="V43") as refused:
        PLACES[place](lambda d: {name: EVERYDAY[name](d)})
    assert refused.value.diagnostics[0].help


NEEDS = (
    "error[V43]: this needs the numbers of an array, and within a step, a loss or a jitted function nobody knows them "
    "yet.\n"
)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (lambda d: float(d.sum()), NEEDS),
        (lambda d: d.sum() if d.sum() > 0 else -d.sum(), NEEDS),
        (lambda d: d.values.sum(), NEEDS),
        (lambda d: d.sel(lat=d.sum().item()), NEEDS),
        (
            lambda d: (d(ti.Dimension("lat") + 1) - d).sum(),
            "error[V43]: a DataArray is not called: shifts such as x(I + 1) are for operators.\n",
        ),
    ],
    ids=["float", "if", "values", "item", "call"],
)
def test_an_error_names_the_line_and_says_what_to_write(loss, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.grad(loss)(D)
    assert told.removeprefix("error[V43]: ") in str(refused.value).split("error[V43]: ")[1]
    assert "test_labelled_arrays.py:" in str(refused.value) and "help: " in str(refused.value)


OF_TYPES = {
    "halved": lambda d: d / 2, "quotient": lambda d: d / d.astype("int32"), "scaled": lambda d: d * 1.5,
    "by float64": lambda d: d * np.float64(2), "by integers": lambda d: d * np.arange(4),
    "by float32": lambda d: np.linspace(0, 1, 4, dtype="float32") * d, "with bools": lambda d: d + True,
    "mean": lambda d: d.mean(), "sum": lambda d: d.sum(), "prod": lambda d: d.prod(), "std": lambda d: d.std(),
    "median": lambda d: d.median(), "cumsum": lambda d: d.cumsum("lat"), "share": lambda d: (d > 1).mean(),
    "count": lambda d: (d > 1).sum(), "square": lambda d: d**2, "root": lambda d: np.sqrt(d),
    "larger": lambda d: np.maximum(d, 1.5), "rest": lambda d: d % 3, "where": lambda d: d.where(d > 1),
}  # fmt: skip


@pytest.mark.parametrize("element", ["float32", "float16", "int32", "int16", "uint8", "bool", "int64"])
def test_element_types_are_those_of_numpy(element):
    d = xr.DataArray(np.array([3, 1, 0, 100]).astype(element), {"lat": D.lat}, name="d")
    some = {}
    for name, g in OF_TYPES.items():
        try:
            some[name] = g(d)
        except TypeError:  # NumPy has no such operation on booleans
            continue
    found = ti.jit(lambda d: {n: OF_TYPES[n](d) for n in some})(d)
    assert {n: x.dtype for n, x in found.items()} == {n: x.dtype for n, x in some.items()}
    for name, expected in some.items():
        tolerance = 2e-3 if expected.dtype == np.float16 else 1e-6 if expected.dtype == np.float32 else 1e-14
        np.testing.assert_allclose(found[name], expected, rtol=tolerance, err_msg=name)


# DataArrays and Datasets as pytrees of JAX

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
    assert (same := structure(H)) == same  # JAX asks, too, where both are one object
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
    x = ti.extend(h, {"lat": 1}, ti.boundary.neumann())
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


def test_a_labelled_result_leaves_a_trace_in_a_process_that_had_none_before():
    script = """
import jax, numpy as np, xarray as xr, tensorir as ti
I, = ti.dims("I")
relaxed = ti.field_operator(lambda h, rate: h - rate * h)
rate = xr.DataArray(np.float32([0.0, 0.5, 1.0]), dims="I")
run = jax.jit(lambda h: relaxed(ti.as_field({I: 3}, h), rate))
assert run(np.float32([1.0, 2.0, 3.0])).values.tolist() == [1.0, 1.0, 0.0]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


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


# Gradients and compilation of functions of labelled arrays, beside slopes and NumPy

LATITUDE = ti.Dimension("lat")


@ti.field_operator
def slope(t):
    return t(LATITUDE + 1) - t


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
    assert t.assign_attrs(units="m s-1").tensorir.grad(energy, units="J").attrs == {"units": "J/(m s-1)"}


@pytest.mark.parametrize("units", ["m.s-1", "m/s", "kg·m", "kg-m", "m^2", "s-1", "m2", "%", "1e-3"])
def test_the_units_of_a_gradient_are_those_of_udunits(units):
    found = ti.grad(energy, units="J")(temperature().assign_attrs(units=units)).attrs["units"]
    assert cf_units.Unit(found) == cf_units.Unit("J") / cf_units.Unit(units)


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


def test_texts_choose_the_program_of_a_compiled_function():
    def scaled(h, kind, k=2.0):
        return h * k if kind == "scaled" else h

    h = xr.DataArray([1.0, 2.0], dims="x")
    scale = ti.jit(scaled)
    assert scale(h, "scaled").values.tolist() == [2.0, 4.0] and scale(h, kind="kept").values.tolist() == [1.0, 2.0]
    assert jax.jit(lambda h: scale(h, "scaled", k=3.0).data)(h).tolist() == [3.0, 6.0]


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


def test_arguments_are_counted_from_the_end_too():
    loss = lambda a, b: (a * a * b).sum()
    for argnums, ours in ((-1, 1), ((-1, 0), (1, 0))):
        for got, expected in zip(
            *(jax.tree_util.tree_leaves(ti.grad(loss, n)(H, 2.0 * H)) for n in (argnums, ours)), strict=True
        ):
            np.testing.assert_array_equal(got, expected)


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
        *[
            (
                lambda t, result=result: ti.grad(lambda t: result(t))(t),
                f"error[A41]: the loss is {kind}, and a gradient is that of one number.\n"
                "help: return one number; what else is wanted goes with has_aux=True.",
            )
            for kind, result in (
                ("a tuple", lambda t: (energy(t), t)),
                ("None", lambda t: None),
                ("a dict", lambda t: {"t": t}),
            )
        ],
        (
            lambda t: ti.grad(energy)(t=t),
            "error[A41]: the gradient is by argument 0, and the call gives 0 by position.\n"
            "help: give it by position, or name another one: argnums=0.",
        ),
        (
            lambda t: ti.grad(energy, -2)(t),
            "error[A41]: the gradient is by argument -2, and the call gives 1 by position.\n"
            "help: give it by position, or name another one: argnums=0.",
        ),
        (
            lambda t: ti.grad(lambda a, b: (a * b).sum(), (0, -2))(t, t),
            "error[A41]: argnums is (0, -2), which names an argument twice.\nhelp: name each one once.",
        ),
        (
            lambda t: ti.grad(energy, "t")(t),
            "error[A41]: argnums is 't', and gradients are by arguments.\nhelp: count them: argnums=(0, 1).",
        ),
        (
            lambda t: ti.grad(energy, 1.0)(t),
            "error[A41]: argnums is 1.0, and gradients are by arguments.\nhelp: count them: argnums=(0, 1).",
        ),
        (
            lambda t: ti.value_and_grad(energy, ())(t),
            "error[A41]: argnums is (), and gradients are by arguments.\nhelp: count them: argnums=(0, 1).",
        ),
        (
            lambda t: ti.grad(energy, has_aux=True)(t),
            "error[A41]: has_aux is given, and the function returns no pair.\n"
            "help: return (loss, what else is wanted).",
        ),
    ],
)
def test_what_has_no_gradient_is_named(call, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        call(temperature())
    assert str(refused.value) == told
