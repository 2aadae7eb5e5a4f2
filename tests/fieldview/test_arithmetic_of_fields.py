"""Fields add up as operators on fields do: by name, on the points that both have, without silent conversions."""

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
