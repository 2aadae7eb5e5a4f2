"""Arithmetic of fields and folds along their dims."""

import operator
import warnings

import jax
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import tensorir as ti

# Fields add up as operators on fields do


I, J = ti.dims("I J")
A = ti.as_field({I: (-1, 3)}, np.array([1.0, -2.0, 3.0, 0.5], "f4"))
B = ti.as_field({I: (0, 5)}, np.arange(5, dtype="f4") + 1)


@pytest.mark.parametrize(
    ("found", "start", "values"),
    [
        (A + B, 0, [-1.0, 5.0, 3.5]),
        (A - 2, -1, [-1.0, -4.0, 1.0, -1.5]),
        (2 - A, -1, [1.0, 4.0, -1.0, 1.5]),
        (1 / B, 0, [1.0, 0.5, np.float32(1 / 3), 0.25, np.float32(0.2)]),
        (abs(-A) ** 2, -1, [1.0, 4.0, 9.0, 0.25]),
        (A <= B - 1, 0, [True, False, True]),
        (A <= 0.5, -1, [False, True, False, True]),
    ],
)
def test_a_field_meets_fields_and_numbers(found, start, values):
    assert found.dims["I"].start == start
    assert np.asarray(found).tolist() == values


def test_dims_are_joined_by_name():
    product = A * ti.as_field({J: (0, 2)}, np.array([1.0, 10.0], "f4"))
    assert product.dims.names == ("I", "J") and np.asarray(product)[1].tolist() == [-2.0, -20.0]


def test_it_is_traced_like_any_other_function():
    slope = jax.grad(lambda a: (a * a * 0.5).data.sum())(ti.as_field({I: (-1, 3)}, jax.numpy.asarray(A.data)))
    assert np.asarray(slope).tolist() == np.asarray(A).tolist()


def test_what_would_be_converted_silently_is_refused_at_the_users_line():
    whole = ti.as_field({I: 3}, np.arange(3))
    with pytest.raises(ti.DiagnosticError) as caught:
        whole * 0.5
    assert "the number is a float, and the field is int64" in str(caught.value)
    assert "whole * 0.5\n          ^^^^^^^^^^^\n" in str(caught.value)


def test_equality_is_told_point_by_point_and_the_truth_of_several_points_is_not():
    a, b = ti.as_field({I: (0, 3)}, np.array([1.0, 2.0, 1.0])), ti.as_field({I: (1, 4)}, np.ones(3))
    assert (a == 1.0).data.tolist() == [True, False, True] and (a != 2.0).data.tolist() == [True, False, True]
    assert repr(a == b) == "Field(bool, I[1:3])" and (a == b).data.tolist() == [False, True]
    assert (operator.eq(a, None), operator.ne(a, None), a == "a") == (False, True, False)
    assert a[{I: 1}] > 1.5 and not a[{I: 1}] > 2.5 and np.all(a > 0.5) and not (a > 2.5).any()
    assert (ti.as_field({I: 2, J: 2}, np.eye(2)) > 0.5).any("I").data.tolist() == [True, True]
    with pytest.raises(ti.DiagnosticError, match=r"error\[V04\]: whether a field is true differs"):
        assert a > 0.0 and b > 0.0


def test_a_number_of_numpy_meets_a_field_alike_on_both_sides():
    f = ti.as_field({I: 2}, np.ones(2, "f4"))
    assert (np.float32(2) - f).data.tolist() == [1.0, 1.0] and (np.float32(1) == f).data.all()
    for call in (lambda: f - np.float64(2), lambda: np.float64(2) - f):
        with pytest.raises(ti.DiagnosticError, match="T01"):
            call()


@pytest.mark.parametrize("whole", [np.array([-9, -1, 0, 5, 12]), np.array([0, 3, 255], "u1")])
def test_bits_are_shifted_and_whole_numbers_divided_as_numpy_does(whole):
    one, f = whole.dtype.type(1), ti.as_field({I: len(whole)}, whole)
    calls = (
        lambda x: x >> 1, lambda x: x << 2, lambda x: 3 << (x & 3), lambda x: 96 >> (x & 3), lambda x: one << (x & 1),
        lambda x: divmod(x, 2), lambda x: divmod(x, 2)[1],
    )  # fmt: skip
    for call in calls:
        for found in (call(f), ti.field_operator(call)(f)):
            results = found if isinstance(found, tuple) else (found,)
            np.testing.assert_array_equal(np.squeeze([np.asarray(r) for r in results]), call(whole))
    with pytest.raises(ti.DiagnosticError, match=r"error\[T04\]: float32 stands where an integer is needed"):
        A >> 1


MASKED = {
    "a product": (lambda x, m: x * m, np.multiply), "a difference": (lambda x, m: x - m, np.subtract),
    "the larger": (lambda x, m: ti.maximum(x, m), np.maximum),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_among_numbers_is_told_to_have_the_type_of_the_numbers(dtype, name):
    body, expected = MASKED[name]
    x, m = np.arange(4, dtype=dtype), np.arange(4) > 1
    fields = ti.as_field([I], x), ti.as_field([I], m)
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(body)(*fields)
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("T04", "bool stands where a number is needed.")
    assert found.help == f"convert it: ti.astype(x, ti.{dtype})."
    converted = ti.field_operator(lambda x, m: body(x, ti.astype(m, getattr(ti, dtype))))(*fields)
    np.testing.assert_array_equal(converted.data, expected(x, m.astype(dtype)))


# Arguments in another order, and of another kind than a function takes

X = np.zeros((2, 3))
ARRAY = xr.DataArray(X, dims=("I", "J"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # xarray warns of dims with one name
    SQUARE = xr.DataArray(np.zeros((2, 2)), dims=("I", "I"))
FIRST = "dims come first: ti.as_field([I, J], x), ti.zeros({I: 10})."
EXTEND = "write ti.extend(x, {I: 1}, ti.boundary.periodic())."
SWAPPED = {
    "a field": (lambda: ti.as_field(X, [I, J]), "A03", "the domain is a ndarray, and a domain names dims.", FIRST),
    "a field, by intervals": (
        lambda: ti.as_field(X, {I: (0, 2)}), "A03", "the domain is a ndarray, and a domain names dims.", FIRST,
    ),
    "a field of a list": (
        lambda: ti.as_field([1.0, 2.0], [I]), "A03", "the domain is a list, and a domain names dims.", FIRST,
    ),
    "a DataArray": (
        lambda: ti.as_field(ARRAY, "I"), "A03",
        "a DataArray names its dims itself, and 'origin' maps some of them to where they begin.",
        "write ti.as_field(x), or ti.as_field(x, origin={'I': 0}).",
    ),
    "a DataArray, by intervals": (
        lambda: ti.as_field(ARRAY, {I: (0, 2)}), "A03",
        "a DataArray names its dims itself, and 'origin' maps some of them to where they begin.",
        "write ti.as_field(x), or ti.as_field(x, origin={'I': 0}).",
    ),
    "an origin of an array": (
        lambda: ti.as_field([I, J], X, origin={I: 1}), "A03",
        "origin goes with a DataArray, and a domain says itself where dims begin.", "leave it out.",
    ),
    "zeros": (lambda: ti.zeros(ti.float32, {I: 3}), "A03", "the domain is a Scalar, and a domain names dims.", FIRST),
    "full": (lambda: ti.full(1.0, {I: 3}), "A03", "the domain is a float, and a domain names dims.", FIRST),
    "an axis of a DataArray twice": (
        lambda: ti.as_field(SQUARE), "A03", "two axes are named I, and each dim is one axis.", "rename one of them.",
    ),
    "an annotation with a dim twice": (
        lambda: ti.Field[[I, I], ti.float64], "A03", "two axes are named I, and each dim is one axis.",
        "rename one of them.",
    ),
    "ends between points": (
        lambda: ti.zeros({I: (0.5, 3)}), "A03", "I: (0.5, 3) is no interval.", "write {I: (0, 10)}, or a number.",
    ),
    "names of dims": (
        lambda: ti.dims([I, J]), "A03", "[Dimension('I'), Dimension('J')] is no text with the names of dims.",
        'write them in one: ti.dims("I J").',
    ),
    "a dtype of NumPy": (
        lambda: ti.zeros({I: 3}, np.float32), "A02", "<class 'numpy.float32'> is no element type.",
        "write ti.float32, or another one of ti.",
    ),
    "a complex value": (
        lambda: ti.full({I: 3}, 1j), "A02", "the value is a complex, and no real number.", "write a number.",
    ),
    "several values": (
        lambda: ti.full({I: 3}, [1.0, 2.0, 3.0]), "A02", "the value is a list, and no real number.", "write a number.",
    ),
    "a float of NumPy": (
        lambda: ti.full({I: 3}, np.float64(1.5), ti.int32), "A02", "the value 1.5 is a float, and the field is int32.",
        "write a whole number.",
    ),
    "an integer of NumPy": (
        lambda: ti.full({I: 3}, np.int64(300), ti.int8), "A07", "'value' is int8, which cannot hold 300.",
        "declare a wider type.",
    ),
    "a value of bools": (
        lambda: ti.full({I: 3}, np.nan, ti.bool), "A02", "the value nan is a number, and the field is bool.",
        "write True or False.",
    ),
    "no extents": (lambda: ti.zeros([I, J]), "A03", "nothing says how many points I, J have.", "write {I: 10}."),
    "an array without names": (
        lambda: ti.as_field(X), "A01", "'domain' is a ndarray, and no array that names its dims.",
        "name them: ti.as_field([I, J], array), or xr.DataArray(array, dims=('I', 'J')).",
    ),
    "by position": (
        lambda: ti.drop_indexes("I", ARRAY), "A01", "'array' is a str, which has no labels.",
        "the DataArray comes first: ti.drop_indexes(x, 'I').",
    ),
    "widths first": (
        lambda: ti.extend({I: 1}, ARRAY, ti.boundary.neumann()), "V30",
        "widths are a DataArray, and they are numbers of points by dim.", EXTEND,
    ),
    "a condition first": (
        lambda: ti.extend(ARRAY, ti.boundary.neumann(), {I: 1}), "V30",
        "widths are a BoundaryCondition, and they are numbers of points by dim.", EXTEND,
    ),
    "a boundary": (
        lambda: ti.with_boundary({I: 1}, {I: 1}, ti.boundary.neumann()), "V30", "x is a dict, and not a field.", EXTEND,
    ),
    "a name of a dim": (
        lambda: ti.staggered("XG", ti.Dimension("XC")), "V41",
        "the dim of the points is 'XG', a text, and the dim between may be one.",
        "write ti.staggered(XC, 'XG') with XC of ti.dims.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SWAPPED)
def test_arguments_in_another_order_are_refused_with_the_order(case):
    call, code, message, help = SWAPPED[case]
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    (found,) = refused.value.diagnostics
    assert (found.code, found.message, found.help) == (code, message, help)


@pytest.mark.parametrize("domain", [I, "I", [I], (I,), iter([I]), {I: 3}, {I: (0, 3)}])
def test_a_domain_of_one_dim_is_a_dim_or_a_list_of_one(domain):
    assert str(ti.as_field(domain, np.arange(3.0)).dims) == "I[0:3]"


# Folds of fields along dims of their own, and elements of parameter arrays, beside xarray and NumPy

LAT, LON, K, L = ti.dims("lat lon K L")
T = xr.DataArray(
    np.random.default_rng(0).normal(size=(4, 6)), dims=("lat", "lon"), name="t", attrs={"units": "K"},
    coords={"lat": ("lat", [-60.0, -20.0, 20.0, 60.0], {"units": "degrees_north"}), "lon": np.arange(6) * 60.0},
)  # fmt: skip
COSINE = np.cos(np.deg2rad(T.lat))


@ti.field_operator
def anomaly(t):
    return t - t.mean(LON)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (anomaly.function, T - T.mean("lon")),
        (lambda t: ti.sum(t, LAT), T.sum("lat")),
        (lambda t: t.sum(), T.sum()),
        (lambda t: t.sum(["lat", LON]), T.sum()),
        (lambda t: t - ti.max(t, "lon"), T - T.max("lon")),
        (lambda t: t.min(LAT), T.min("lat")),
        (lambda t: ti.any(t > 1.0, LAT), (T > 1.0).any("lat")),
        (lambda t: (t > -9.0).all(), (T > -9.0).all()),
        (lambda t: ti.mean(t, LAT, weights=ti.cos(ti.radians(ti.coord(t, "lat")))), T.weighted(COSINE).mean("lat")),
        (lambda t: ti.mean(t, weights=ti.cos(ti.radians(ti.coord(t, "lat")))), T.weighted(COSINE).mean()),
        (
            lambda t: ti.mean(t(LON + 1), weights=t(LON - 1)),
            (T[:, 2:].values * T[:, :-2].values).sum() / T[:, :-2].sum(),
        ),
        (lambda t: ti.astype(t * 10.0, ti.int32).max(LON), (T * 10).astype("int32").max("lon")),
    ],
)
def test_a_fold_is_that_of_xarray(body, expected):
    found = ti.field_operator(body)(T)
    np.testing.assert_allclose(found.transpose(*expected.dims), expected, rtol=1e-13, atol=1e-14)
    assert set(found.coords) == set(expected.coords) or not expected.dims


def test_a_fold_keeps_units_and_is_differentiated():
    assert anomaly(T).attrs == {"units": "K"}
    slope = ti.grad(lambda t: (anomaly(t) ** 2).sum())(T)
    np.testing.assert_allclose(slope, 2.0 * (T - T.mean("lon")), atol=1e-14)


def test_a_fold_takes_the_whole_of_its_dim_in_blocks():
    xr.testing.assert_allclose(ti.map_blocks(anomaly, T.chunk(lat=2)).compute(), anomaly(T))
    with pytest.raises(ti.DiagnosticError, match=r"A35.*needs the whole of lon at once"):
        ti.map_blocks(anomaly, T.chunk(lon=3))


def test_steps_of_a_time_loop_fold():
    last = ti.iterate(lambda t: t - 0.5 * anomaly(t), T, 2)
    xr.testing.assert_allclose(last, T - 0.75 * (T - T.mean("lon")))


def test_elements_of_a_parameter_array_are_weights():
    weights = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("K", "L"))

    @ti.field_operator
    def learned(h, w):
        return w[1, 2] * h + w[-2, 0] * h(LON + 1) + w[0, -1] * h(LAT + 1)

    found = learned(T, weights)
    h, w = T.values, weights.values
    want = w[1, 2] * h[:-1, :-1] + w[0, 0] * h[:-1, 1:] + w[0, 2] * h[1:, :-1]
    np.testing.assert_allclose(found.transpose("lat", "lon"), want)
    slope = ti.grad(lambda h, w: learned(h, w).sum(), argnums=1)(T, weights)
    np.testing.assert_allclose(slope, [[h[:-1, 1:].sum(), 0.0, h[1:, :-1].sum()], [0.0, 0.0, h[:-1, :-1].sum()]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda t: t.sum("x"), "V17]: the field has no dim x to fold along, only lat, lon."),
        (lambda t: ti.any(t), "V17]: ti.any is for fields of bools, and this is one of float64."),
        (lambda t: ti.sum(t > 0.0), "V17]: ti.sum is for fields of numbers, and this is one of bool."),
        (lambda t: ti.sum(ti.astype(t, ti.int8)), "V17]: a sum of int8 would wrap around in int8"),
        (lambda t: ti.mean(t > 0.0), "V17]: a mean is one of floats, and this is bool."),
        (lambda t: t[1], "V03]: a field is indexed by whole numbers, one for each of its dims (lat, lon)."),
        (lambda t: t[0, 9], "V03]: there is no element 9 along lon, which has 6."),
    ],
)
def test_a_fold_that_has_no_meaning_is_refused(body, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(body)(T)
    assert message in str(refused.value)


@pytest.mark.parametrize("dim", ["lat", ["lat", "lon"], "month", ["month", "lat"], None])
def test_weights_may_have_dims_of_their_own(dim):
    weights = xr.DataArray(np.random.default_rng(1).uniform(1.0, 2.0, (3, 4)), {"lat": T.lat}, ("month", "lat"))
    found = ti.field_operator(lambda t, w: ti.mean(t, dim, weights=w))(T, weights)
    expected = T.weighted(weights).mean(dim)
    assert set(found.dims) == set(expected.dims) and found.attrs == T.attrs
    np.testing.assert_allclose(found.transpose(*expected.dims), expected, rtol=1e-13)


def narrow(dtype):
    """Values whose sum leaves float16, and of which bfloat16 loses small ones beside large sums."""
    return np.random.default_rng(2).uniform(50.0, 150.0, (2, 3000)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dims", [[L], [K, L]])
def test_means_and_sums_of_narrow_floats_are_those_of_float64_rounded(dtype, dims):
    x = narrow(dtype)
    w = (narrow(dtype) / 100).astype(dtype)
    axes = tuple(range(2 - len(dims), 2))
    wide, weights = x.astype(float), w.astype(float)
    both = ti.field_operator(lambda x, w: (ti.mean(x, dims), ti.mean(x, dims, weights=w), ti.sum(x, dims)))
    found = both(ti.as_field([K, L], x), ti.as_field([K, L], w))
    with np.errstate(over="ignore"):
        expected = [wide.mean(axes), (wide * weights).sum(axes) / weights.sum(axes), wide.sum(axes)]
        expected = [np.asarray(e).astype(dtype) for e in expected]
    for result, rounded in zip(found, expected, strict=True):
        assert np.asarray(result.data).dtype == dtype
        np.testing.assert_allclose(
            np.asarray(result.data).astype(float), rounded.astype(float), rtol=1.01 * float(ml_dtypes.finfo(dtype).eps)
        )  # fmt: skip


def test_a_mean_of_more_points_than_float16_counts_is_that_of_numpy():
    x = np.full(70000, 3.0, np.float16)
    assert float(ti.field_operator(lambda x: x.mean())(ti.as_field([K], x)).data) == float(np.mean(x)) == 3.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_of_no_points_is_nan(dtype, weighted):
    x = xr.DataArray(np.ones((0, 2), dtype), dims=("K", "L"), attrs={"units": "K"})
    found = ti.field_operator(lambda x: ti.mean(x, K, weights=x if weighted else None))(x)
    np.testing.assert_array_equal(found, np.full(2, np.nan))
    assert found.dtype == dtype and found.attrs == {"units": "K"}


def test_neighbours_of_float16_are_summed_in_float32():
    x = np.array([2048.0, 1.0, 1.0, 1.0, 1.0], np.float16)
    offset = ti.FieldOffset(
        "V2E", source=ti.Dimension("E"), target=(ti.Dimension("V"), ti.Dimension("V2EDim", "local"))
    )
    total = ti.field_operator(lambda x: ti.neighbor_sum(x(offset), axis=offset.target[1]))
    found = total(ti.as_field([ti.Dimension("E")], x), offset_provider={"V2E": np.arange(5)[None]})
    assert np.asarray(found.data).tolist() == [np.float16(x.astype(np.float64).sum())] == [2052.0]
