"""Methods and options of xarray's arrays that fields of operators lack: the remedy of each error gives their value."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.fieldview.remedies import INSTEAD, OF_FOLDS, WITHOUT_NAN, remedy

I, J = ti.dims("I J")
X = xr.DataArray(np.random.default_rng(0).normal(size=(5, 3)), {"I": np.arange(5) * 2.0}, ("I", "J"), name="x")
HOLES = X.where(X > -0.5)
W = xr.DataArray(np.arange(1.0, 6.0), {"I": X.I}, "I")

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
    x = HOLES if name in OF_HOLES else X
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
    found = run(OF_FOLDS["min_count"], X)
    np.testing.assert_allclose(found, X.sum("I", min_count=3), rtol=1e-12)


@pytest.mark.parametrize(
    ("option", "value"), [("min_count", 1), ("keepdims", True), ("axis", 0), ("dtype", "f4"), ("keep_attrs", True)]
)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_an_option_of_xarray_is_refused_by_name(option, value, name):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda x: getattr(ti, name)(x, **{option: value}))(X)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("V17", f"ti.{name} takes no {option}={value!r}.")
    assert found.help == f"write {OF_FOLDS[option]}."


@pytest.mark.parametrize("options", [{"skipna": False}, {"keepdims": False}, {"axis": None}, {"keep_attrs": None}])
def test_an_option_that_asks_for_what_a_fold_does_is_taken(options):
    found = ti.field_operator(lambda x: ti.sum(x, I, **options))(HOLES)
    np.testing.assert_array_equal(found, HOLES.sum("I", skipna=False))


def test_functions_of_numpy_fold_where_no_axis_is_named():
    found = ti.field_operator(lambda x: np.sum(x) + np.max(x))(X)
    np.testing.assert_allclose(found, X.sum() + X.max())
    np.testing.assert_allclose(ti.field_operator(lambda x: x.sum(...))(X), X.sum())


@pytest.mark.parametrize("name", [*INSTEAD, "argmax", "median", "isel"])
def test_a_method_is_refused_with_its_remedy(name):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda x: getattr(x, name))(X)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("V03", f"a field of an operator has no '{name}'.")
    assert found.help == (remedy(name) or f"{HAS}; do the rest outside.")


def test_functions_of_numpy_are_refused_with_the_remedy_of_the_method():
    for call in (lambda x: np.clip(x, 0.0, 1.0), lambda x: np.cumsum(x)):
        with pytest.raises(ti.DiagnosticError, match=r"V05.*(.|\n)*help: write ti.(minimum|scan_operator)"):
            ti.field_operator(call)(X)


HAS = "it has shifts, f(I + 1), folds, f.mean(I), operators, and functions such as ti.sin"
NUMBERS = [float("nan"), float("inf"), -float("inf"), 1e-320, 5e-324, 1e300, 0.0, -0.0]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("units", ["m", "degrees_north", "1", None])
def test_any_number_of_python_meets_a_field(number, units):
    x = X.assign_attrs({} if units is None else {"units": units})
    both = ti.field_operator(lambda x: (x * number, number * x, x / number, number / x, x + number, x - number))
    v = X.values
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
