"""Labels say which points two arrays share: index × order × overlap × kind of call, compared with xarray."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti

(I,) = ti.dims("I")

LABELS = {
    "whole numbers": [3, 4, 5, 6, 7, 8],
    "tens": [10, 20, 30, 40, 50, 60],
    "degrees": [50.0, 52.5, 55.0, 57.5, 60.0, 62.5],
    "dates": pd.date_range("2024-02-27", periods=6, freq="D"),
    "names": ["Aa", "Bb", "Cc", "Dd", "Ee", "Ff"],
}
"""Six labels of each kind; the first operand has the first five."""
PARTS = {
    "the same": [0, 1, 2, 3, 4],
    "a run inside": [1, 2, 3],
    "one further": [1, 2, 3, 4, 5],
    "reversed": [4, 3, 2, 1, 0],
    "rolled": [2, 3, 4, 0, 1],
    "every other": [0, 2, 4],
    "one twice": [0, 1, 1, 2, 3],
}
"""Which labels the second operand has, in this order."""
MEET = {"the same", "a run inside", "one further"}


@ti.field_operator
def difference(a, b):
    return a - b


INNER = (
    "f(out: tensor<float, I[{0}:{1}]>, a: tensor<float, I[{2}:{3}]>, b: tensor<float, I[{0}:{1}]>) {{ out ← a - b; }}"
)


def of_a_fencil(a, b):
    """Both on the middle of three points, which every pair that meets has; whole numbers are the points themselves."""
    start = 3 if a.I.values.dtype.kind == "i" and a.I.values[0] == 3 else 0
    return ti.parse(INNER.format(start + 1, start + 4, start, start + 5))(a=a, b=b)["out"]


def of_a_loop(a, b):
    _, kept = ti.iterate(lambda s: s, {"a": a, "b": b}, 1, keep=lambda s: {"d": s["a"] - s["b"]})
    return kept["d"].isel(time=0, drop=True)


CALLS = {
    "operator": difference,
    "accessor": lambda a, b: a.tensorir.apply(difference, b),
    "fencil": of_a_fencil,
    "loop": of_a_loop,
}


def operands(kind, part):
    labels = np.asarray(LABELS[kind])
    a = xr.DataArray([1.0, 2.0, 4.0, 8.0, 16.0], dims="I", coords={"I": labels[:5]}, name="a")
    b = xr.DataArray(np.arange(6.0)[PARTS[part]] ** 3, dims="I", coords={"I": labels[PARTS[part]]}, name="b")
    return a, b


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", LABELS)
def test_points_with_equal_labels_meet_and_others_are_refused(kind, part, call):
    a, b = operands(kind, part)
    if call == "loop":  # a line gives what it gives outside of the loop: xarray's arithmetic
        try:
            expected = a - b
        except ValueError as refused:  # labels that repeat
            with pytest.raises(type(refused)):
                of_a_loop(a, b)
            return
        xr.testing.assert_identical(of_a_loop(a, b).rename(expected.name), expected)
        return
    if part not in MEET:
        with pytest.raises(ti.DiagnosticError, match=r"A25|A26"):
            CALLS[call](a, b)
        return
    expected = a - b  # xarray joins labels
    found = CALLS[call](a, b)
    if call == "fencil":
        expected = expected.sel(I=LABELS[kind][1:4])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found.I, expected.I)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("call", ["operator", "accessor", "loop"])
def test_an_array_without_labels_and_as_many_points_meets_by_position(kind, call):
    a, b = operands(kind, "reversed")
    np.testing.assert_array_equal(CALLS[call](a, b.drop_vars("I")), a.values - b.values)
    np.testing.assert_array_equal(CALLS[call](a, ti.drop_indexes(b)), a.values - b.values)


DISJOINT = xr.DataArray([1.0, 2.0], dims="I", coords={"I": [0.25, 0.5]})


def said(function):
    with pytest.raises(ti.DiagnosticError) as found:
        function()
    (diagnostic,) = found.value.diagnostics
    return f"{diagnostic.code}: {diagnostic.message}\n{diagnostic.help}"


HELP = (
    "xr.align(a, b, join='inner') aligns them, b.drop_vars('I') leaves labels out, ti.drop_indexes(b) goes by position."
)


@pytest.mark.parametrize(
    ("kind", "part", "sentence"),
    [
        ("tens", "reversed", "A25: the labels along I differ: 'a' has 10 where 'b' has 50."),
        ("whole numbers", "reversed", "A25: the labels along I differ: 'a' has 3 where 'b' has 7."),
        ("degrees", "rolled", "A25: the labels along I differ: 'a' has 50.0 where 'b' has 55.0."),
        ("dates", "every other", "A25: the labels along I differ: 'a' has 2024-02-28 where 'b' has 2024-02-29."),
        ("names", "reversed", "A25: the labels along I differ: 'a' has 'Aa' where 'b' has 'Ee'."),
    ],
)
def test_a_refusal_names_the_dim_the_first_labels_that_differ_and_what_to_do(kind, part, sentence):
    assert said(lambda: difference(*operands(kind, part))) == f"{sentence}\n{HELP}"


def test_labels_that_have_nothing_in_common_are_refused():
    a, _ = operands("degrees", "the same")
    assert said(lambda: difference(a, DISJOINT)) == (
        f"A25: the labels along I differ: 'a' has 50.0 where 'b' has 0.25.\n{HELP}"
    )


def test_labels_that_repeat_do_not_say_where_others_meet_them():
    assert said(lambda: difference(*operands("dates", "one twice"))) == (
        "A26: the labels of 'b' along I repeat 2024-02-28, so they do not say where others meet it.\n"
        "leave one of each: b.drop_duplicates('I')."
    )


@pytest.mark.parametrize("other", ["360_day", "proleptic_gregorian"])
def test_dates_of_one_calendar_do_not_meet_those_of_another(other):
    a, b = (
        xr.DataArray([1.0, 2.0], dims="I", coords={"I": xr.date_range("2026-01-01", periods=2, calendar=calendar)})
        for calendar in ("noleap", other)
    )
    assert said(lambda: difference(a, b)) == (
        f"A44: the calendars along I differ: 'a' has noleap and 'b' has {other}.\n"
        "convert one of them: b.convert_calendar('noleap')."
    )
    np.testing.assert_array_equal(difference(a, 2 * a), -a)


def test_labels_that_repeat_alike_are_the_same():
    _, b = operands("names", "one twice")
    np.testing.assert_array_equal(difference(b, 2 * b), -b)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([1, 2, 4], "have unequal steps: 1, 2, 4"),
        (pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01"]),
         "have unequal steps: 2024-01-01, 2024-02-01, 2024-03-01"),
        (["a", "b", "c"], "have no steps: 'a', 'b'"),
        ([1, 1, 2], "repeat 1"),
        ([0.0, 0.5, 0.5], "repeat 0.5"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("call", ["operator", "fencil", "loop"])
def test_a_step_to_the_next_point_needs_equal_steps(labels, told, call):
    @ti.field_operator
    def rise(h):
        return h(I + 1) - h

    h = xr.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": labels})
    text = "rise(out: tensor<float, I[0:n]>, h: tensor<float, I[0:n+1]>) { out ← ⟪I, 1⟫(h) - h; }"
    run = {
        "operator": lambda: rise(h),
        "fencil": lambda: ti.parse(text)(h=h),
        "loop": lambda: ti.iterate(lambda x: ti.extend(rise(x), {I: (0, 1)}, ti.boundary.neumann()), h, 2),
    }[call]
    assert said(run) == (
        f"A27: 'rise' reads neighbours along I, and the labels of 'h' {told}.\n"
        "h.reindex(...) fills what is missing, ti.drop_indexes(h, 'I') goes by position."
    )


@pytest.mark.parametrize("labels", [[1, 2, 4], ["a", "b", "c"]])
def test_where_nothing_is_shifted_any_labels_are_taken(labels):
    h = xr.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": labels})
    xr.testing.assert_identical(difference(h, h), h - h)


def test_the_join_of_xarray_is_honoured_where_it_can_be():
    a, b = operands("degrees", "a run inside")
    with xr.set_options(arithmetic_join="exact"):
        np.testing.assert_array_equal(difference(a, 2 * a), -a)
        assert said(lambda: difference(a, b)) == (
            "A28: with arithmetic_join='exact' both have the same labels, and 'a' has 5 points along I and 'b' has 3.\n"
            "align them first: xr.align(a, b, join='inner')."
        )
    with xr.set_options(arithmetic_join="outer"):
        assert said(lambda: difference(a, b)).startswith(
            "A28: with arithmetic_join='outer' points that only one has would be made up, and 'a' has 5 points"
        )


SMOOTH = ti.parse("""
smooth(out: tensor<float, I[1:n-1]>, h: tensor<float, I[0:n]>) { out ← 0.5 × (⟪I, 1⟫(h) + ⟪I, -1⟫(h)); }
""")


@pytest.mark.parametrize(
    "labels", [None, np.arange(9), np.arange(9) + 1, np.arange(1990, 1999), np.linspace(0.0, 1.0, 9)]
)
def test_a_result_is_an_argument_again(labels):
    h = xr.DataArray(np.arange(9.0) ** 2, dims="I", coords={} if labels is None else {"I": labels})
    found = SMOOTH(h=SMOOTH(h=h)["out"])["out"]
    once = 0.5 * (h.values[2:] + h.values[:-2])
    np.testing.assert_array_equal(found, 0.5 * (once[2:] + once[:-2]))
    np.testing.assert_array_equal(found.I, np.arange(2, 7) if labels is None else labels[2:-2])


def test_fields_are_arguments_again_too():
    h = ti.as_field({I: (5, 14)}, np.arange(9.0))
    assert repr(SMOOTH(h=SMOOTH(h=h)["out"])["out"]) == "Field(float64, I[7:12])"


def test_programs_that_compute_with_positions_do_not_move():
    where = ti.parse("where(out: tensor<int, I[0:n]>, h: tensor<float, I[0:n]>) { out ← pos(I, h); }")
    h = xr.DataArray([1.0, 2.0], dims="I", coords={"I": [7, 8]})
    assert said(lambda: where(h=h)) == (
        "A29: 'where' computes with positions along I, and the labels of its arguments begin +7 from them.\n"
        "count I from where the type does, or drop its labels."
    )


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4", ">i2"])
@pytest.mark.parametrize("labels", [np.arange(6) * 10, np.arange(3, 9)], ids=["tens", "points"])
def test_labels_in_the_other_order_of_bytes_are_taken(kind, labels):
    (along,) = ti.dims("along")
    h = xr.DataArray(np.arange(6.0) ** 2, dims="along", coords={"along": labels.astype(kind)}).astype(">f8")
    rise = ti.field_operator(lambda h: h(along + 1) - h(along - 1))
    both = ti.field_operator(lambda a, b: a + b)
    middle = labels[1:-1]
    for found in (rise(h), rise(xr.Dataset({"h": h})).h, ti.map_blocks(rise, h.chunk(along=3))):
        np.testing.assert_array_equal(found.along, middle)
        np.testing.assert_array_equal(found.sel(along=middle[1]), 9.0 - 1.0)
    np.testing.assert_array_equal(both(h, h[2:]).along, labels[2:])
    np.testing.assert_array_equal(both(h[:4], h.assign_coords(along=labels.astype("f8"))[1:]).along, labels[1:4])
    np.testing.assert_array_equal(ti.extend(h, {along: 1}, ti.boundary.neumann()).along[1:-1], labels)
    np.testing.assert_array_equal(ti.iterate(lambda h: 2.0 * h, h, 1).along, labels)
    np.testing.assert_array_equal(ti.jit(both)(h, h[1:]), 2.0 * h[1:])


def test_labels_of_single_precision_beside_double_are_told_to_be_reindexed():
    lat = np.linspace(-90.0, 90.0, 37) / 7.0
    a = xr.DataArray(np.ones(37), {"lat": lat}, "lat", name="a")
    b = xr.DataArray(np.arange(37.0), {"lat": lat.astype("float32")}, "lat", name="b")
    add = ti.field_operator(lambda a, b: a + b)
    with pytest.raises(ti.DiagnosticError) as refused:
        add(a, b)
    (found,) = refused.value.diagnostics
    assert found.code == "A25" and found.help == (
        "they differ by rounding: b.reindex(lat=a['lat'], method='nearest', tolerance=1e-06) takes them for equal, and "
        "an inner join leaves such points out."
    )
    assert xr.align(a, b, join="inner")[0].sizes["lat"] < 37
    np.testing.assert_array_equal(
        add(a, b.reindex(lat=a["lat"], method="nearest", tolerance=1e-6)), a.values + b.values
    )


BEHIND = "f(out: tensor<float, I[1:{0}]>, x: tensor<float, I[0:{0}]>, w: tensor<float, I[0:{0}]>{1}) {{ out ← {2}; }}"


@pytest.mark.parametrize("kind", ["DataArray", "Field"])
@pytest.mark.parametrize("extents", [("n", ""), ("n-m", ", v: tensor<float, J[0:m]>")], ids=["all sizes", "some sizes"])
@pytest.mark.parametrize("call", [lambda f: f, ti.compile], ids=["bound", "compiled"])
def test_an_argument_that_is_bound_keeps_the_labels_at_which_the_others_begin(call, extents, kind):
    f = ti.parse(BEHIND.format(*extents, "x - ⟪I, -1⟫(w)"))
    labels = {"I": np.arange(5, 9)}
    x, w = (xr.DataArray(np.array(a), labels, "I") for a in ([1.0, 2.0, 4.0, 8.0], [10.0, 20.0, 40.0, 80.0]))
    wanted = (x - w.shift(I=1)).isel(I=slice(1, None))
    rest = {"v": np.ones(2)} if extents[1] else {}
    made = (lambda a: a) if kind == "DataArray" else (lambda a: ti.as_field({I: (5, 9)}, a.values))
    result = call(f.bind(w=made(w)))(x=made(x), **rest)["out"]
    if kind == "DataArray":
        xr.testing.assert_identical(result.drop_attrs(), wanted.rename(None))
    else:
        assert dict(result.dims.items)["I"].start == 6
        np.testing.assert_array_equal(np.asarray(result), wanted)
