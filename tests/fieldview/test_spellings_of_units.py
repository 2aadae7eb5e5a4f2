"""Units by UDUNITS: spellings of one unit are one, those of two are two, as cf-units says; and without it by text."""

import itertools

import cf_units
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.binding import units
from tensorir.binding.quantities import units_of

SPELLINGS = [
    "m s-1", "m/s", "m s**-1", "m s^-1", "m.s-1", "meter second-1", "degrees_north", "degree_north", "degrees", "°",
    "meters", "m", "metre", "kg kg-1", "1", "1e-3", "g kg-1", "%", "K", "degC", "celsius", "Pa", "hPa", "mbar", "N m-2",
    "m2 s-2", "J kg-1", "W m-2", "s", "sec", "seconds", "day", "radian",
]  # fmt: skip
(I,) = ti.dims("I")


def field(unit: str, name: str = "t") -> xr.DataArray:
    return xr.DataArray(np.arange(1.0, 4.0), dims="I", name=name, attrs={"units": unit})


def adds(a: str, b: str) -> bool:
    kind = ti.tensor("float", I=(0, 3))
    fencil = ti.field_operator(lambda a, b: a + b).fencil(kind, kind)
    try:
        units_of(fencil, {"a": a, "b": b})
    except ti.DiagnosticError as refused:
        assert refused.diagnostics[0].code == "A32"
        return False
    return True


def test_two_spellings_are_added_where_cf_units_says_that_they_are_one_unit():
    wrong = [
        pair for pair in itertools.combinations(SPELLINGS, 2)
        if adds(*pair) != (cf_units.Unit(pair[0]) == cf_units.Unit(pair[1]))
    ]  # fmt: skip
    assert not wrong


def test_a_sum_has_the_spelling_of_its_first_unit():
    found = ti.field_operator(lambda a, b: a + b)(field("m s-1"), field("m/s", "u"))
    assert found.attrs == {"units": "m s-1"} and found.values.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("unit", ["psu", "gpm", "sigma_level"])
def test_a_unit_that_udunits_does_not_have_is_compared_as_text(unit):
    assert adds(unit, f" {unit}") and not adds(unit, f"{unit}s") and not adds(unit, "1")


def test_without_cf_units_texts_are_compared_and_the_error_names_it(monkeypatch):
    monkeypatch.setattr(units, "udunits", lambda: None)
    monkeypatch.setattr("tensorir.binding.quantities.udunits", lambda: None)
    units._is_equal.cache_clear()
    try:
        assert adds("m s-1", "m s-1")
        with pytest.raises(ti.DiagnosticError) as refused:
            ti.field_operator(lambda a, b: a + b)(field("m s-1"), field("m/s", "u"))
    finally:
        units._is_equal.cache_clear()
    (found,) = refused.value.diagnostics
    assert found.message == "'a' in m s-1 and 'b' in m/s meet in plus, which needs equal units."
    assert found.help == (
        "convert one of them, or leave units out: x.drop_attrs(); of two spellings of one unit, "
        "pip install cf-units knows that they are."
    )


def test_degrees_are_those_of_udunits():
    names = [
        "degree",
        "degrees",
        "deg",
        "arc_degree",
        "arcdeg",
        "arc_degrees",
        "angular_degree",
        "angular_degrees",
        "°",
    ]
    names += [f"{d}_{side}" for d in ("degree", "degrees") for side in ("north", "east", "south", "west", "true")]
    names += [f"{d}{joined}{side}" for d in ("degree", "degrees") for joined in ("_", "") for side in "NESWT"]
    others = ["degC", "degree_C", "degrees_C", "degF", "degreeF", "deg_K", "K", "rad", "radian", "degree2", "m", ""]
    assert all(map(units.is_degrees, names)) and not any(map(units.is_degrees, others))
    # those to the west are negative there, and some of CF are not known
    one = cf_units.Unit("degree")
    assert {scale_of(n, one) for n in names} == {1.0, -1.0, None}
    assert all(scale_of(n, one) in (1.0, None) for n in names if "W" not in n and "west" not in n)


def scale_of(text: str, unit: cf_units.Unit) -> float | None:
    try:
        return round(cf_units.Unit(text).convert(1.0, unit), 12)
    except ValueError:
        return None


PRODUCTS = [
    ("K", "1"), ("1", "K"), ("K", "kg kg-1"), ("m/s", "seconds"), ("kg m-3", "metre"), ("1", "1"), ("W m-2", "day"),
    ("m s**-1", "m s^-1"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PRODUCTS)
@pytest.mark.parametrize("power", [1, -1])
def test_products_and_quotients_have_the_unit_of_cf_units(pair, power):
    a, b = pair
    first, second = cf_units.Unit(a), cf_units.Unit(b)
    expected = first * second if power == 1 else first / second
    assert cf_units.Unit(units.product(a, b, power) or "1") == expected


@pytest.mark.parametrize("unit", ["K", "psu", "degC", "degrees_north"])
def test_a_factor_of_unit_1_changes_no_unit(unit):
    both = ti.field_operator(lambda a, b: (a * b, b * a, a / b))
    assert [x.attrs for x in both(field(unit), field("1", "w"))] == 3 * [{"units": unit}]
    metres = ti.field_operator(lambda a, b, c: a * b + c)
    with pytest.raises(ti.DiagnosticError, match="meet in plus"):
        metres(field(unit), field("1"), field("m"))


def test_factors_are_those_that_cf_units_reads():
    rng = np.random.default_rng(0)
    names = ["K", "m", "s", "kg", "Pa", "W", "J", "mol"]
    for _ in range(300):
        words = [f"{rng.choice(names)}{rng.choice(['', '2', '-1', '**-2', '^3'])}" for _ in range(rng.integers(1, 5))]
        text = "".join(f"{rng.choice([' ', '.', '*', '/', ' / '])}{w}" for w in words).strip(" ./*")
        assert cf_units.Unit(units.written(units.powers_of(text) or {}) or "1") == cf_units.Unit(text), text


@pytest.mark.parametrize("weights", [None, "m2", "1", "cos"])
def test_a_mean_has_the_unit_of_its_values_whatever_that_of_its_weights(weights):
    t = field("K").assign_coords(I=("I", [10.0, 20.0, 40.0], {"units": "degrees_north"}))
    w = field(weights, "w") if weights not in (None, "cos") else t.copy(data=[1.0, 2.0, 4.0]).drop_attrs()
    mean = ti.field_operator(lambda t, w: ti.mean(t, I, weights=w))
    if weights == "cos":
        mean = ti.field_operator(lambda t, w: ti.mean(t, I, weights=ti.cos(ti.radians(ti.coord(t, "I")))))
        w = np.cos(np.deg2rad(t.I))
    found = mean(t, w)
    assert found.attrs == {"units": "K"}
    np.testing.assert_allclose(found, t.weighted(w).mean(), rtol=1e-14)


def test_a_unit_that_nobody_states_is_in_no_result():
    t, w = field("K"), field("m", "w").drop_attrs()
    product, twice, other, ratio = ti.field_operator(lambda t, w: (t * w, t * w / t, t * w / (w * w), w / w))(t, w)
    assert [x.attrs for x in (product, twice, other, ratio)] == [{}, {}, {}, {}]


def test_a_mean_of_many_points_is_no_constant_with_a_unit():
    t = xr.DataArray(np.ones((40, 2)), dims=("I", "J"), attrs={"units": "K"})
    assert ti.field_operator(lambda t: t.mean(I) * t)(t).attrs == {"units": "K2"}
    assert ti.field_operator(lambda t: t.sum(I) / 39.0 * t)(t).attrs == {}
