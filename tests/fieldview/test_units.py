"""Units of fields: spellings, products, angles, those of pint and of time."""

import itertools
import math

import cf_units
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.binding import units
from tensorir.binding.quantities import units_of
from tests.effort import count_calls

# Units by UDUNITS


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


# Units of products and quotients

I_PRODUCTS, Z = ti.dims("I z")


@pytest.mark.parametrize(
    ("body", "given", "unit"),
    [
        (lambda a, b: a * b, ("m s-1", "s"), "m"),
        (lambda a, b: a / b, ("K", "m"), "K m-1"),
        (lambda a, b: (a(I_PRODUCTS + 1) - a) / (b(I_PRODUCTS + 1) - b), ("K", "m"), "K m-1"),
        (lambda a, b: 0.5 * (a(I_PRODUCTS + 1) + a) * b / 4.0, ("kg m-3", "m/s"), "kg m-2 s-1"),
        (lambda a, b: a / b / b, ("m", "s"), "m s-2"),
        (lambda a, b: a / a, ("m", "s"), ""),
        (lambda a, b: 1.0 / b, ("m", "s"), "s-1"),
        (lambda a, b: a + a * b / b, ("m", "s"), "m"),
        (lambda a, b: ti.where(a > 0.0, a * b, 0.0), ("m", "m"), "m2"),
        # 9.81 may be an acceleration, a radius turns radians into metres, and N are kg m s-2
        (lambda a, b: 9.81 * a * b, ("kg m-3", "m"), ""),
        (lambda a, b: (9.81 * (a(I_PRODUCTS + 1) - a)) * b, ("kg m-3", "m"), ""),
        (lambda a, b: a / (6.371e6 * ti.radians(b)), ("K", "degrees_north"), ""),
        (lambda a, b: a / b, ("degC", "m"), ""),
        (lambda a, b: a * b, ("K", "furlongs per fortnight"), ""),
        (lambda a, b: a + a * b, ("N", "1"), "N"),
        (lambda a, b: a * b + a, ("N", "s"), ""),
        (lambda a, b: ti.exp(a / b), ("m", "m"), ""),
    ],
)
def test_a_unit_follows_from_those_of_all_factors(body, given, unit):
    kind = ti.tensor("float", I=(0, 5))
    fencil = ti.field_operator(body).fencil(kind, kind)
    assert units_of(fencil, dict(zip(("a", "b"), given, strict=True))).get("out", "") == unit


def test_two_units_that_arguments_state_are_refused_as_before():
    a = xr.DataArray(np.ones(3), dims="I", attrs={"units": "m"})
    with pytest.raises(ti.DiagnosticError, match="A32"):
        ti.field_operator(lambda a, b: a + b)(a, a.assign_attrs(units="s"))


def test_a_derivative_by_a_coordinate_has_its_unit():
    t = xr.DataArray(
        np.arange(6.0) ** 2, dims="z", coords={"z": ("z", np.arange(6.0) * 10.0, {"units": "m"})},
        attrs={"units": "K"}, name="t",
    )  # fmt: skip

    @ti.field_operator
    def slope(t):
        z = ti.coord(t, "z")
        return (t(Z + 1) - t) / (z(Z + 1) - z)

    assert slope(t).attrs == {"units": "K m-1"}


# Angles whose DataArrays say degrees

LAT = xr.DataArray([0.0, 30.0, 60.0], dims="lat", coords={"lat": [0.0, 30.0, 60.0]}, attrs={"units": "degrees_north"})
RADIANS = np.deg2rad(LAT.values)
(J,) = ti.dims("lat")

CONVERTED = {
    "an angle": (lambda x: ti.cos(ti.radians(x)), np.cos(RADIANS)),
    "twice": (lambda x: ti.sin(2.0 * ti.radians(x)), np.sin(2 * RADIANS)),
    "half": (lambda x: ti.tan(ti.radians(x) / 2.0), np.tan(RADIANS / 2)),
    "a colatitude": (lambda x: ti.sin(ti.radians(90.0 - x)), np.cos(RADIANS)),
    "by hand": (lambda x: ti.sin(x * math.pi / 180.0), np.sin(RADIANS)),
    "half way to the next": (lambda x: ti.cos(ti.radians(0.5 * (x + x))), np.cos(RADIANS)),
    "a choice": (lambda x: ti.sin(ti.radians(ti.where(x > 45.0, x, -x))), np.sin([0.0, -math.pi / 6, math.pi / 3])),
    "no angle": (lambda x: ti.exp(x / 90.0), np.exp(LAT.values / 90)),
    "of a sine": (lambda x: ti.sin(ti.sin(ti.radians(x))), np.sin(np.sin(RADIANS))),
}
DEGREES = {
    "an angle": lambda x: ti.cos(x),
    "its double": lambda x: ti.cos(2.0 * x),
    "a neighbour": lambda x: ti.cos(x(J + 1)),
    "a colatitude": lambda x: ti.cos(90.0 - x),
    "a mean": lambda x: ti.cos(0.5 * (x + x(J + 1))),
    "a choice": lambda x: ti.cos(ti.where(x > 45.0, x, -x)),
    "with an angle in radians": lambda x: ti.cos(x + ti.radians(x)),
    "some product": lambda x: ti.cos(1.3 * x),
}


@pytest.mark.parametrize("of", CONVERTED)
def test_angles_that_are_converted_are_taken(of):
    body, want = CONVERTED[of]
    operator = ti.field_operator(lambda x: body(x))
    for unit in ("degrees_north", "°", "radians", "", "m"):
        np.testing.assert_allclose(operator(LAT.assign_attrs(units=unit)), want, rtol=1e-14, atol=1e-15)


UNITS = {
    "an angle": (lambda x: ti.radians(x), "radians"),
    "a quotient": (lambda x: x / math.degrees(1.0), "radians"),
    "a difference": (lambda x: ti.radians(x(J + 1)) - ti.radians(x), "radians"),
    "its double": (lambda x: 2.0 * x, "degrees_north"),
}


@pytest.mark.parametrize("of", UNITS)
def test_a_converted_angle_says_radians(of):
    body, unit = UNITS[of]
    program = ti.field_operator(lambda x: body(x)).fencil(LAT)
    assert units_of(program, {"x": "degrees_north"}) == {"out": unit}
    assert units_of(program, {"x": "m"}) == {"out": "m"}


def refused(call):
    with pytest.raises(ti.DiagnosticError) as found:
        call()
    (one,) = found.value.diagnostics
    return one.code, one.message, one.help


@pytest.mark.parametrize("of", DEGREES)
def test_angles_in_degrees_are_refused(of):
    operator = ti.field_operator(lambda x: DEGREES[of](x))
    for unit in ("degrees_north", "degree_E", "degrees", "°"):
        assert refused(lambda unit=unit: operator(LAT.assign_attrs(units=unit))) == (
            "V36", "cos takes radians, and this is in degrees, as the units of an argument say.",
            'write ti.radians(x), or say what it is: x.assign_attrs(units="radians").',
        )  # fmt: skip
    assert operator(LAT.drop_attrs()).dtype == np.float64
    assert operator(LAT.assign_attrs(units="radians")).dtype == np.float64


def test_metric_terms_are_one_line():
    h = xr.DataArray(np.arange(6.0).reshape(3, 2), dims=("lat", "lon"), coords={"lat": LAT.lat})
    area = ti.field_operator(lambda h, lat: h * ti.cos(ti.radians(lat)))
    xr.testing.assert_allclose(area(h, h.lat.assign_attrs(units="degrees_north")), h * np.cos(np.deg2rad(h.lat)))


def test_an_operator_in_a_program_sees_the_units_of_its_arguments():
    cosine = ti.field_operator(lambda x: ti.cos(x))

    @ti.program
    def run(x, out):
        cosine(x, out=out)

    out = xr.zeros_like(LAT)
    assert refused(lambda: run(LAT, out))[0] == "V36"
    run(LAT.assign_attrs(units="radians"), out.drop_attrs())


def test_the_text_of_a_program_takes_radians():
    f = ti.parse("f(y: tensor<float64, lat[0:3]>, x: tensor<float64, lat[0:3]>) { y ← cos(x); }")
    assert refused(lambda: f(x=LAT)) == (
        "A43", "'x' is in degrees_north, and cos takes radians.",
        'multiply it by π/180, or say what it is: x.assign_attrs(units="radians").',
    )  # fmt: skip
    by_hand = ti.parse("f(y: tensor<float64, lat[0:3]>, x: tensor<float64, lat[0:3]>) { y ← cos(x × 0.0174532925); }")
    np.testing.assert_allclose(by_hand(x=LAT)["y"], np.cos(RADIANS), rtol=1e-8)


def test_a_trace_of_many_angles_is_linear_in_them():
    def calls(length):
        def body(x):
            y = ti.radians(x)
            for _ in range(length):
                y = ti.sin(y) + ti.radians(x)
            return y

        return count_calls(lambda: ti.field_operator(body).fencil(LAT))

    assert calls(80) < 2.3 * calls(40)


def scan(body, init=0.0):
    return ti.scan_operator(axis=J, init=init)(body)


IN_SCANS = {
    "an angle": (scan(lambda s, x: s + ti.cos(ti.radians(x))), np.cumsum(np.cos(RADIANS))),
    "of a sum": (scan(lambda s, x: s + ti.radians(x)), np.cumsum(RADIANS)),
    "of the state": (scan(lambda s, x: ti.sin(s) + ti.radians(x)), None),
}
IN_SCANS_DEGREES = {
    "an angle": scan(lambda s, x: s + ti.cos(x)),
    "of the state": scan(lambda s, x: ti.cos(s) + x),
    "of a member of the state": scan(lambda s, x: (x, ti.cos(s[0])), (0.0, 0.0)),
}


@pytest.mark.parametrize("of", IN_SCANS)
def test_angles_that_are_converted_are_taken_in_scans(of):
    operator, want = IN_SCANS[of]
    if want is None:
        want = RADIANS.copy()
        for k in (1, 2):
            want[k] += np.sin(want[k - 1])
    np.testing.assert_allclose(operator(LAT), want, rtol=1e-14)


@pytest.mark.parametrize("of", IN_SCANS_DEGREES)
def test_angles_in_degrees_are_refused_in_scans(of):
    code, message, _ = refused(lambda: IN_SCANS_DEGREES[of](LAT))
    assert (code, message.partition(",")[0]) == ("V36", "cos takes radians")
    IN_SCANS_DEGREES[of](LAT.assign_attrs(units="radians"))


def test_degrees_of_what_a_scan_adds_up_are_degrees():
    total = scan(lambda s, x: s + x)
    assert refused(lambda: ti.field_operator(lambda x: ti.sin(total(x)))(LAT))[0] == "V36"


def test_members_of_tuples_in_degrees_are_refused():
    cosine = ti.field_operator(lambda pair: pair[0] * ti.cos(pair[1]))
    assert refused(lambda: cosine((LAT, LAT)))[0] == "V36"
    assert refused(lambda: cosine((LAT.rename(lat="lon"), LAT)))[0] == "V36"
    cosine((LAT, LAT.assign_attrs(units="radians")))


@pytest.mark.parametrize(
    "text",
    [
        "y ← scan(λ(s: tensor<float>, v: tensor<float>) → s + cos(v), true, 0.0)(x);",
        "y ← reduce(λ(s: tensor<float>, v: tensor<float>) → s + cos(v), 0.0, lat)(x);",
        "y ← (λ(v: tensor<float, lat[0:3]>) → cos(v))(x);",
        "y ← cos(loop(0, 2)(λ(i: tensor<int>, a: tensor<float, lat[0:3]>) → true, "
        "λ(i: tensor<int>, a: tensor<float, lat[0:3]>) → a + x, 0.0 × x));",
        "y ← cond(0)(λ(v: tensor<float, lat[0:3]>) → v, λ(v: tensor<float, lat[0:3]>) → cos(v), false, x);",
        "y ← x; y ← cos(y);",
    ],
)
def test_the_text_of_a_program_takes_radians_in_functions(text):
    size = "lat[0:3]" if "reduce" not in text else ""
    f = ti.parse(f"f(y: tensor<float{', ' * bool(size)}{size}>, x: tensor<float, lat[0:3]>) {{ {text} }}")
    assert refused(lambda: f(x=LAT))[:2] == ("A43", "'x' is in degrees_north, and cos takes radians.")
    f(x=LAT.assign_attrs(units="radians"))


def test_a_result_that_is_stored_again_as_a_whole_is_that_alone():
    dims = "tensor<float, lat[0:3]>"
    text = f"f(y: {dims}, z: {dims}, x: {dims}) {{ y ← x; y ← x × 0.0174532925; z ← sin(y); }}"
    np.testing.assert_allclose(ti.parse(text)(x=LAT)["z"], np.sin(RADIANS), rtol=1e-8)
    in_part = ti.parse(text.replace("y ← x × 0.0174532925", "y[lat[0:2]] ← x × 0.0174532925"))
    assert refused(lambda: in_part(x=LAT))[0] == "A43"
    f = ti.parse(f"f(y: {dims}, a: {dims}, b: {dims}) {{ y ← a; y ← b; }}")
    a, b = (LAT.assign_attrs(units=units) for units in ("m", "K"))
    assert f(a=a, b=b)["y"].attrs["units"] == "K"
    in_part = ti.parse(f"f(y: {dims}, a: {dims}, b: {dims}) {{ y ← a; y[lat[0:2]] ← b; }}")
    assert refused(lambda: in_part(a=a, b=b))[0] == "A32"


# Dates as numbers

TIME = ti.Dimension("time")
MONTHS = np.array(["2000-01-01", "2000-02-01", "2000-03-01", "2000-04-01"], "datetime64[ns]")
T = xr.DataArray(np.arange(4.0) ** 2, dims="time", coords={"time": MONTHS}, name="t", attrs={"units": "K"})
OTHER = T.assign_coords(time=xr.date_range("2000-01-01", periods=4, freq="MS", calendar="360_day", use_cftime=True))


@ti.field_operator
def rate(t):
    days = ti.coord(t, "time", units="days since 2000-01-01")
    return (t(TIME + 1) - t) / (days(TIME + 1) - days)


@pytest.mark.parametrize(("t", "days"), [(T, [31, 29, 31]), (OTHER, [30, 30, 30])], ids=["numpy", "360_day"])
def test_a_derivative_by_time_divides_by_the_lengths_of_months(t, days):
    found = rate(t)
    np.testing.assert_allclose(found, np.diff(T.values) / days, rtol=1e-14)
    assert found.attrs == {"units": "K days-1"} and list(found.time.values) == list(t.time.values[:-1])


@pytest.mark.parametrize(
    "units", ["hours since 2000-01-01", "seconds since 1999-12-31 12:00", "days since 2000", "days since 2000-01"]
)
def test_numbers_are_those_of_xarray(units):
    expected = xr.coding.times.encode_cf_datetime(MONTHS, units)[0]
    np.testing.assert_allclose(ti.coord(T, "time", units=units), expected, rtol=1e-13)
    inside = ti.field_operator(lambda t: 0.0 * t + ti.coord(t, "time", units=units))(T)
    np.testing.assert_allclose(inside, expected, rtol=1e-13)


@pytest.mark.parametrize("t", [T, OTHER], ids=["numpy", "360_day"])
def test_loops_gradients_and_blocks_know_dates(t):
    days = ti.coord(t, "time", units="days since 2000-01-01").values

    @ti.field_operator
    def aged(t):
        return t + ti.coord(t, "time", units="days since 2000-01-01")

    np.testing.assert_allclose(ti.iterate(aged, t.drop_attrs(), 2), t.values + 2.0 * days)
    weights = 1.0 / np.diff(days)
    slope = ti.grad(lambda t: rate(t).sum())(t)
    np.testing.assert_allclose(slope, np.append(-weights, 0.0) + np.append(0.0, weights), rtol=1e-12)
    np.testing.assert_allclose(ti.map_blocks(rate, t.chunk(time=2)).compute(), rate(t))


@pytest.mark.parametrize("t", [T, OTHER], ids=["numpy", "360_day"])
def test_an_operator_that_asks_for_the_time_reads_neighbours_along_months_however_it_gets_it(t):
    days = ti.coord(t, "time", units="days since 2000-01-01")
    expected = np.diff(T.values) / np.diff(days)
    by_argument = ti.field_operator(lambda t, days: (t(TIME + 1) - t) / (days(TIME + 1) - days))
    np.testing.assert_allclose(by_argument(t, days), expected, rtol=1e-14)

    @ti.field_operator
    def beside_a_number_of_its_name(t, time):
        days = ti.coord(t, "time", units="days since 2000-01-01")
        return time * (t(TIME + 1) - t) / (days(TIME + 1) - days)

    np.testing.assert_allclose(beside_a_number_of_its_name(t, 2.0), 2.0 * expected, rtol=1e-14)
    other = ti.Dimension("valid time")

    @ti.field_operator
    def along_another_name(t):
        days = ti.coord(t, "valid time", units="days since 2000-01-01")
        return (t(other + 1) - t) / (days(other + 1) - days)

    np.testing.assert_allclose(along_another_name(t.rename({"time": "valid time"})), expected, rtol=1e-14)
    with pytest.raises(ti.DiagnosticError, match="A27"):
        by_argument(T, ti.coord(T, "time", units="days since 2000-01-01").rename("lengths"))


def test_a_program_that_does_not_read_the_dates_is_still_refused():
    with pytest.raises(ti.DiagnosticError, match="A27"):
        ti.field_operator(lambda t: t(TIME + 1) - t)(T)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("days", "'days' are no units of time since a date."),
        ("furlongs since 2000-01-01", "'furlongs since 2000-01-01' are no units of time since a date."),
        ("days since noon", "'noon' is no date"),
    ],
)
def test_units_that_are_none_are_refused(units, message):
    with pytest.raises(ti.DiagnosticError, match="V37") as refused:
        ti.field_operator(lambda t: t * ti.coord(t, "time", units=units))(T)
    assert message in str(refused.value)


def test_numbers_have_no_dates():
    with pytest.raises(ti.DiagnosticError, match="holds int64, and no dates"):
        ti.coord(T.assign_coords(time=np.arange(4)), "time", units="days since 2000-01-01")
