"""Variables as a file packs them, with whole numbers that stand for others: refused at each entry, never computed."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

(I,) = ti.dims("I")
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
        (lambda: ti.extend(PACKED, {I: 1}, ti.neumann()), "x"),
        (lambda: ti.map_blocks(TWICE, PACKED.chunk(I=2)), "t"),
        (lambda: ti.from_xarray(PACKED), "t"),
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
