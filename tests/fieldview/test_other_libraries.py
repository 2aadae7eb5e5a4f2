"""Functions and methods of other libraries on fields, and packed arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.fieldview.remedies import INSTEAD, OF_FOLDS, WITHOUT_NAN, remedy

# Functions of JAX and NumPy on fields


I, J = ti.dims("I J")
X = ti.as_field({I: (0, 4)}, np.array([0.5, 1.0, 2.0, 4.0]))

CALLS = {
    "jnp.sin(x)": lambda x: jnp.sin(x),
    "jnp.maximum(x, 1.0)": lambda x: jnp.maximum(x, 1.0),
    "jnp.sum(x)": lambda x: jnp.sum(x),
    "jnp.stack([x, x])": lambda x: jnp.stack([x, x]),
}
OURS = {"jnp.sin(x)": "ti.sin", "jnp.maximum(x, 1.0)": "ti.maximum", "jax.lax.exp(x)": "ti.exp"}


PRIMITIVES = {"jax.nn.relu(x)": lambda x: jax.nn.relu(x), "jax.lax.exp(x)": lambda x: jax.lax.exp(x)}


@pytest.mark.parametrize("call", [*CALLS, *PRIMITIVES])
def test_within_an_operator_ours_is_named_at_the_users_line(call):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator({**CALLS, **PRIMITIVES}[call])(X)
    (found,) = refused.value.diagnostics
    assert found.code == "V05" and found.message == "JAX cannot compute with fields of an operator."
    assert found.span.source.name.endswith("test_other_libraries.py")
    assert found.span.text == call
    ours = OURS.get(call)
    assert found.help == (f"use {ours}." if ours else "use the functions of tensorir: ti.sin, ti.where.")


@pytest.mark.parametrize("where", ["outside", "in jit", "in a time loop"])
@pytest.mark.parametrize("call", CALLS)
def test_a_field_is_not_taken_apart(call, where):
    run = {
        "outside": lambda f: f(X),
        "in jit": lambda f: jax.jit(f)(X),
        "in a time loop": lambda f: ti.iterate(f, X, 2),
    }[where]
    with pytest.raises(ti.DiagnosticError) as refused, jax.enable_x64(True):
        run(CALLS[call])
    (found,) = refused.value.diagnostics
    assert (found.code, found.message, found.help) == (
        "V35", "JAX's functions know no dims, and those of a field would be lost.",
        "np.sin(x) and operators keep them; x.data is the array alone.",
    )  # fmt: skip


def test_what_is_named_instead_keeps_the_dims():
    np.testing.assert_array_equal(np.sin(X).data, np.sin(np.asarray(X)))
    assert np.sin(X).dims == X.dims
    sine = ti.field_operator(lambda x: ti.sin(x))
    with jax.enable_x64(True):
        assert jax.jit(lambda x: sine(x))(X).dims == X.dims
        np.testing.assert_allclose(jax.jit(lambda x: jnp.sum(jnp.sin(x.data)))(X), np.sin(np.asarray(X)).sum())


def test_numbers_of_jax_meet_fields_on_both_sides():
    with jax.enable_x64(True):
        two = jnp.float64(2.0)
        found = jax.jit(lambda k, x: (k * x, k - x, x / k, k / x, k**x))(two, X)
        for a in (found, (two * X, two - X, X / two, two / X, two**X)):
            want = (2 * X.data, 2 - X.data, X.data / 2, 2 / X.data, 2**X.data)
            assert all(f.dims == X.dims for f in a)
            for f, w in zip(a, want, strict=True):
                np.testing.assert_allclose(f.data, w, rtol=1e-15)
        with pytest.raises(ti.DiagnosticError):
            jnp.ones(4) * X


def test_errors_of_ones_own_stay_ones_own():
    def wrong(x):
        return x + int("three")

    with pytest.raises(ValueError, match="invalid literal"):
        ti.field_operator(wrong)(X)


# Methods and options of xarray's arrays that fields of operators lack

LABELLED = xr.DataArray(np.random.default_rng(0).normal(size=(5, 3)), {"I": np.arange(5) * 2.0}, ("I", "J"), name="x")
HOLES = LABELLED.where(LABELLED > -0.5)
W = xr.DataArray(np.arange(1.0, 6.0), {"I": LABELLED.I}, "I")

THEIRS = {
    "clip": lambda x: x.clip(-0.5, 0.5), "std": lambda x: x.std("I"), "var": lambda x: x.var("I"),
    "cumsum": lambda x: x.cumsum("I"), "cumprod": lambda x: x.cumprod("I"),
    "diff": lambda x: x.diff("I", label="lower"),
    "differentiate": lambda x: x.differentiate("I")[1:-1], "shift": lambda x: x.shift(I=1)[1:],
    "roll": lambda x: x.roll(I=1), "rolling": lambda x: x.rolling(I=3, center=True).mean()[1:-1],
    "pad": lambda x: x.pad(I=1, mode="edge"), "where": lambda x: x.where(x > 0.0, -1.0),
    "astype": lambda x: x.astype("float32"), "round": lambda x: x.round(),
    "weighted": lambda x: x.weighted(W).mean("I"),
    "dot": lambda x: x.dot(x, "I"), "coords": lambda x: x.I.drop_vars("I"),
}  # fmt: skip
OF_HOLES = {
    "count": lambda x: x.count("I"), "fillna": lambda x: x.fillna(-1.0), "isnull": lambda x: x.isnull(),
    "notnull": lambda x: x.notnull(),
}  # fmt: skip


def run(text, x):
    """An expression of a remedy in an operator, with values for its names."""

    def body(x):
        names = {"x": x, "ti": ti, "I": I, "low": -0.5, "high": 0.5, "value": -1.0, "other": -1.0, "y": x, "n": 3}
        return eval(text, {**names, "condition": x > 0.0})

    if text.endswith("weights=w)"):
        return ti.field_operator(lambda x, w: eval(text, {"x": x, "ti": ti, "I": I, "w": w}))(x, W)
    return ti.field_operator(body)(x)


@pytest.mark.parametrize("name", INSTEAD)
def test_a_remedy_gives_the_value_of_xarray(name):
    x = HOLES if name in OF_HOLES else LABELLED
    found, expected = run(INSTEAD[name], x), {**THEIRS, **OF_HOLES}[name](x)
    # a shifted field has points further on than xarray's, which fills with NaN
    found = found[:5] if name == "roll" else found[:-1] if name == "shift" else found
    np.testing.assert_allclose(found.transpose(*expected.dims), expected, rtol=1e-12)


@pytest.mark.parametrize("name", WITHOUT_NAN)
def test_a_remedy_for_skipna_gives_the_value_of_xarray(name):
    np.testing.assert_allclose(run(WITHOUT_NAN[name], HOLES), getattr(HOLES, name)("I"), rtol=1e-12)
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda x: getattr(x, name)(I, skipna=True))(HOLES)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("V17", f"ti.{name} takes no skipna=True.")
    assert found.help == f"write {WITHOUT_NAN[name]}."


def test_a_remedy_for_min_count_gives_the_value_of_xarray():
    found = run(OF_FOLDS["min_count"], LABELLED)
    np.testing.assert_allclose(found, LABELLED.sum("I", min_count=3), rtol=1e-12)


@pytest.mark.parametrize(
    ("option", "value"), [("min_count", 1), ("keepdims", True), ("axis", 0), ("dtype", "f4"), ("keep_attrs", True)]
)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_an_option_of_xarray_is_refused_by_name(option, value, name):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda x: getattr(ti, name)(x, **{option: value}))(LABELLED)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("V17", f"ti.{name} takes no {option}={value!r}.")
    assert found.help == f"write {OF_FOLDS[option]}."


@pytest.mark.parametrize("options", [{"skipna": False}, {"keepdims": False}, {"axis": None}, {"keep_attrs": None}])
def test_an_option_that_asks_for_what_a_fold_does_is_taken(options):
    found = ti.field_operator(lambda x: ti.sum(x, I, **options))(HOLES)
    np.testing.assert_array_equal(found, HOLES.sum("I", skipna=False))


def test_functions_of_numpy_fold_where_no_axis_is_named():
    found = ti.field_operator(lambda x: np.sum(x) + np.max(x))(LABELLED)
    np.testing.assert_allclose(found, LABELLED.sum() + LABELLED.max())
    np.testing.assert_allclose(ti.field_operator(lambda x: x.sum(...))(LABELLED), LABELLED.sum())


@pytest.mark.parametrize("name", [*INSTEAD, "argmax", "median", "isel"])
def test_a_method_is_refused_with_its_remedy(name):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda x: getattr(x, name))(LABELLED)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("V03", f"a field of an operator has no '{name}'.")
    assert found.help == (remedy(name) or f"{HAS}; do the rest outside.")


def test_functions_of_numpy_are_refused_with_the_remedy_of_the_method():
    for call in (lambda x: np.clip(x, 0.0, 1.0), lambda x: np.cumsum(x)):
        with pytest.raises(ti.DiagnosticError, match=r"V05.*(.|\n)*help: write ti.(minimum|scan_operator)"):
            ti.field_operator(call)(LABELLED)


HAS = "it has shifts, f(I + 1), folds, f.mean(I), operators, and functions such as ti.sin"
NUMBERS = [float("nan"), float("inf"), -float("inf"), 1e-320, 5e-324, 1e300, 0.0, -0.0]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("units", ["m", "degrees_north", "1", None])
def test_any_number_of_python_meets_a_field(number, units):
    x = LABELLED.assign_attrs({} if units is None else {"units": units})
    both = ti.field_operator(lambda x: (x * number, number * x, x / number, number / x, x + number, x - number))
    v = LABELLED.values
    with np.errstate(all="ignore"):
        expected = (v * number, number * v, v / number, number / v, v + number, v - number)
    for found, values in zip(both(x), expected, strict=True):
        # XLA takes numbers below the smallest normal one for 0
        tiny = np.abs(values) < np.finfo(float).tiny
        np.testing.assert_allclose(np.where(tiny, 0.0, found), np.where(tiny, 0.0, values), rtol=1e-15)
        assert (np.abs(found.values[tiny]) < np.finfo(float).tiny).all()
    angle = ti.field_operator(lambda x: ti.sin(x * number))
    if units == "degrees_north":
        with pytest.raises(ti.DiagnosticError, match=r"V36|A43"):
            angle(x)
    else:
        assert angle(x).shape == x.shape


# Variables as a file packs them, with whole numbers that stand for others

PACKED = xr.DataArray(
    np.array([100, -32768, 300], np.int16), {"I": [1.0, 2.0, 3.0]}, "I", name="t",
    attrs={"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(-32768), "units": "K"},
)  # fmt: skip
BARE = PACKED.drop_attrs()
TWICE = ti.field_operator(lambda t: t + t)
PROGRAM = ti.parse("f(y: tensor<int16, I[0:3]>, t: tensor<int16, I[0:3]>) { y ← t + t; }")
TIMES = np.datetime64("2000-01-01", "ns") + np.arange(3) * np.timedelta64(1, "D")


def forced() -> object:
    series = xr.Dataset({"q": ("time", BARE.values, PACKED.attrs)}, {"time": TIMES})
    return ti.iterate(
        lambda h, f: h + f["q"], BARE.astype(float), 2, forcing=series, forcing_method="held", start="2000-01-01",
        dt="1 D", progress=False,
    )  # fmt: skip


def named(array: xr.DataArray) -> xr.DataArray:
    return xr.DataArray(np.ones(3), {"lat": array}, "I")


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (lambda: TWICE(PACKED), "t"),
        (lambda: TWICE(PACKED.to_dataset()), "t"),
        (lambda: TWICE(PACKED.variable), "t"),
        (lambda: TWICE(BARE, out=PACKED.copy()), "out"),
        (lambda: TWICE.inspect(PACKED), "t"),
        (lambda: PACKED.tensorir.apply(TWICE), "t"),
        (lambda: ti.field_operator(lambda pair: pair[0] + pair[1])((BARE, PACKED)), r"pair\[1\]"),
        (lambda: ti.field_operator(lambda t: t * ti.coord(t, "lat"))(named(PACKED)), "lat"),
        (lambda: ti.extend(PACKED, {I: 1}, ti.boundary.neumann()), "x"),
        (lambda: ti.map_blocks(TWICE, PACKED.chunk(I=2)), "t"),
        (lambda: ti.as_field(PACKED), "t"),
        (lambda: PROGRAM(t=PACKED), "t"),
        (lambda: PROGRAM.bind(t=PACKED), "t"),
        (lambda: ti.compile(PROGRAM)(t=PACKED), "t"),
        (lambda: ti.reference.run(PROGRAM, t=PACKED), "t"),
        (lambda: ti.iterate(lambda t: t, PACKED, 2, progress=False), "state"),
        (lambda: ti.iterate(lambda s: s, PACKED.to_dataset(), 2, progress=False), "t"),
        (lambda: ti.jit(lambda t: t + t)(PACKED), r"\w+"),
        (lambda: ti.grad(lambda t: (t * 1.0).sum())(PACKED), r"\w+"),
        (forced, "q"),
    ],
)
def test_packed_numbers_enter_nowhere(entry, name):
    with pytest.raises(ti.DiagnosticError, match=rf"A47\]: '{name}' is packed: its int16 stand for other numbers"):
        entry()


def test_the_error_names_what_decodes():
    with pytest.raises(ti.DiagnosticError) as refused:
        TWICE(PACKED)
    (found,) = refused.value.diagnostics
    assert found.message == (
        "'t' is packed: its int16 stand for other numbers, as scale_factor, add_offset, _FillValue say."
    )
    assert found.help == (
        "decode it: xr.decode_cf(dataset), as xr.open_dataset does; or t.drop_attrs() if they do not."
    )


def test_what_is_decoded_is_computed_with_the_numbers_of_xarray():
    decoded = xr.decode_cf(PACKED.to_dataset()).t
    found = TWICE(decoded)
    np.testing.assert_array_equal(found, decoded + decoded)
    assert np.isnan(found.values[1]) and found.values[0] == pytest.approx(2 * 274.15)


@pytest.mark.parametrize("attrs", [{"scale_factor": 1.0, "add_offset": 0.0}, {"units": "K"}, {"flag_values": [1, 2]}])
def test_whole_numbers_that_stand_for_themselves_enter(attrs):
    assert TWICE(BARE.assign_attrs(attrs)).values.tolist() == [200, 0, 600]


def test_floats_that_were_decoded_by_hand_enter():
    by_hand = (BARE * 0.01 + 273.15).assign_attrs(PACKED.attrs)
    np.testing.assert_array_equal(TWICE(by_hand), 2.0 * by_hand)


def test_a_table_of_neighbours_may_have_a_fill_value():
    place, offset = ti.Dimension("E"), ti.Dimension("V2EDim", "local")
    v2e = ti.FieldOffset("V2E", source=place, target=(ti.Dimension("V"), offset))
    table = xr.DataArray(
        np.array([[0, 1], [2, -1]], np.int32), dims=("V", "V2EDim"), attrs={"_FillValue": np.int32(-1)}
    )
    total = ti.field_operator(lambda x: ti.neighbor_sum(x(v2e), axis=offset))
    found = total(xr.DataArray([1.0, 2.0, 4.0], dims="E"), offset_provider={"V2E": table})
    assert found.values.tolist() == [3.0, 4.0]
