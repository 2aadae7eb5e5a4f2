"""Fields add up as operators on fields do: by name, on the points that both have, without silent conversions."""

import operator

import jax
import numpy as np
import pytest

import tensorir as ti

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
