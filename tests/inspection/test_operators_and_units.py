"""Looking into operators by the names of their variables; units; the accessor of DataArrays."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J, K = ti.dims("I J K")
Vertex, Edge = ti.dims("Vertex Edge")
V2EDim = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
H = xr.DataArray([0.0, 1.0, 4.0, 9.0, 16.0], dims="I", coords={"I": np.arange(5)}, attrs={"units": "m"}, name="h")


@ti.field_operator
def rise(f):
    up = f(I + 1)
    return up - f


@ti.field_operator
def curvature(h, a):
    slope = rise(h)
    bend = slope - slope(I - 1)
    grown = a * bend
    return ti.where(grown > 2.0, grown, 0.0)


def test_an_operator_is_looked_into_by_the_names_of_its_variables():
    seen = curvature.inspect(H, 0.5)
    assert list(seen) == ["up", "slope", "bend", "grown"]
    np.testing.assert_array_equal(seen["slope"], [1.0, 3.0, 5.0, 7.0])
    np.testing.assert_array_equal(seen["slope"].coords["I"], [0, 1, 2, 3])
    np.testing.assert_array_equal(seen["grown"], [1.0, 1.0, 1.0])


def test_an_operators_intermediates_are_found_by_line_and_by_what_stands_in_the_source():
    seen = curvature.inspect(H, 0.5)
    line = next(i.line for i in seen.intermediates if i.name == "bend")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert text.strip() == "bend = slope - slope(I - 1)"
    assert list(seen.at(line)) == ["bend"]
    assert list(seen.find("a * bend")) == ["grown"]
    assert list(seen.find("⟪I, -1⟫(slope)")) == ["bend"]


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(k for k, line in enumerate(lines) if line.strip() == text)


def test_what_another_operator_computes_is_found_where_it_is_assigned():
    seen = curvature.inspect(H, 0.5)
    assert list(seen.at(line_of("slope = rise(h)"))) == ["slope"]
    assert list(seen.find("rise(h)")) == ["slope"]
    assert list(seen.find("up - f")) == ["slope"]
    assert seen.tree()["slope"].attrs["line"] == line_of("slope = rise(h)")


@ti.field_operator
def steps(h):
    for _ in range(2):
        h = rise(h)
    return 2.0 * h


def test_each_of_several_values_of_one_name_is_found_where_it_is_assigned():
    assert list(steps.inspect(H).at(line_of("h = rise(h)"))) == ["h_1", "h_2"]


@ti.field_operator
def named_inside(f):
    difference = f(I + 1) - f
    return difference


@ti.field_operator
def named_outside(h):
    ascent = named_inside(h)
    return 2.0 * ascent


def test_a_variable_is_there_also_where_the_operator_that_is_called_has_its_own_name_for_the_value():
    assert list(named_outside.inspect(H)) == ["ascent"]


def test_an_operators_text_has_its_names_and_parses_back():
    fencil = curvature.fencil(H, 0.5)
    assert "let bend = " in str(fencil) and "let grown = " in str(fencil)
    assert ti.parse(str(fencil)) == fencil


def test_names_are_there_also_where_the_text_is_not_to_be_had():
    scope = {"ti": ti, "I": I}
    code = """
@ti.field_operator
def waved(h):
    wide = ti.extend(h, {I: 1}, ti.periodic())
    slope = ti.where(wide(I + 1) > wide, 1.0, 0.0)
    return slope + wide
"""
    exec(compile(code, "<nowhere>", "exec"), scope)
    assert list(scope["waved"].inspect(H)) == ["wide", "slope"]


def test_one_name_for_several_values_gets_numbers():
    @ti.field_operator
    def twice(f):
        for _ in range(2):
            f = f(I + 1) - f
        return 2.0 * f

    assert list(twice.inspect(H)) == ["f_1", "f_2"]


def test_scans_and_absence_in_operators():
    @ti.scan_operator(axis=K, init=0.0)
    def below(state, x):
        return state + x

    @ti.field_operator
    def column(x):
        total = below(x)
        return total / 2.0

    seen = column.inspect(xr.DataArray([1.0, 2.0, 3.0], dims="K"))
    np.testing.assert_array_equal(seen["total"], [1.0, 3.0, 6.0])

    @ti.field_operator
    def around(e):
        near = e(V2E)
        return ti.neighbor_sum(near, axis=V2EDim)

    table = np.array([[0, 1], [1, -1]], np.int32)
    seen = around.inspect(xr.DataArray([1.0, 10.0], dims="Edge"), offset_provider={"V2E": table})
    np.testing.assert_array_equal(seen["near"], [[1.0, 10.0], [10.0, np.nan]])


def test_units_follow_where_they_must_and_are_given_where_they_cannot():
    seen = curvature.inspect(H, 0.5)
    units = {name: seen[name].attrs.get("units") for name in seen}
    assert units == {"up": "m", "slope": "m", "bend": "m", "grown": None}
    assert seen.with_units(grown="m2")["grown"].attrs["units"] == "m2"
    with pytest.raises(ti.DiagnosticError, match=r"I01.*nothing here is named 'grow'"):
        seen.with_units(grow="m")


def test_the_accessor_reads_from_the_left():
    assert H.tensorir.intervals == {"I": ti.Interval(0, 5)}
    assert str(H.tensorir.type) == "tensor<float, I[0:5]>"
    xr.testing.assert_identical(H.tensorir.apply(rise), rise(H))
    xr.testing.assert_identical(H.tensorir.apply(curvature, 0.5), curvature(H, 0.5))
    xr.testing.assert_identical(H.tensorir.extend({I: 1}, ti.neumann()), ti.extend(H, {I: 1}, ti.neumann()))
    np.testing.assert_array_equal(H.tensorir.inspect(curvature, 0.5)["slope"], [1.0, 3.0, 5.0, 7.0])
    assert repr(H.tensorir.field()) == "Field(float64, I[0:5])"
    assert str(H.tensorir.domain()) == "h: I[0:5]"


def test_a_part_is_taken_by_intervals():
    part = H.tensorir.on({I: (1, 3)})
    np.testing.assert_array_equal(part, [1.0, 4.0])
    np.testing.assert_array_equal(part.coords["I"], [1, 2])
    bare = xr.DataArray(np.arange(4.0), dims="I").tensorir.on({"I": (2, 4)})
    assert bare.tensorir.intervals == {"I": ti.Interval(2, 4)}
    elsewhere = xr.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": [5, 6, 7]}).tensorir
    for (start, stop), values in (((5, 7), [1.0, 2.0]), ((6, 7), [2.0]), ((5, 8), [1.0, 2.0, 4.0])):
        part = elsewhere.on({"I": (start, stop)})
        assert part.values.tolist() == values and part["I"].values.tolist() == list(range(start, stop))
    for domain, message in (
        ({J: (0, 1)}, "error[A05]: the array has no dim J, only I."),
        ({I: (1, 9)}, "error[A06]: I[1:9] is asked for, and the array has I[0:5]."),
    ):
        with pytest.raises(ti.DiagnosticError) as refused:
            H.tensorir.on(domain)
        assert str(refused.value) == message


def test_there_is_no_shift_with_the_other_sign():
    assert not hasattr(H.tensorir, "shift")


@pytest.mark.parametrize(
    "code",
    [
        "import tensorir, xarray",
        "import xarray, tensorir",
        "import tensorir.xarray, xarray",
    ],
)
def test_the_accessor_is_there_however_the_two_are_imported(code):
    code += "; print(xarray.DataArray([1.0], dims='I').tensorir)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "<tensorir accessor of tensor<float, I[0:1]>>"
