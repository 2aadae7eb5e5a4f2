"""Fields on points half way between: differences of one kind of point are on the other."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J, K, IHalf = ti.dims("I J K IHalf")


def field(dims, *shape):
    return xr.DataArray(np.random.default_rng(3).random(shape), dims=dims.split())


@ti.field_operator
def to_faces(f):
    return f(IHalf + 0.5) - f(IHalf - 0.5)


@ti.field_operator
def to_centres(g):
    return g(I + 0.5) - g(I - 0.5)


@ti.field_operator
def two_away(f):
    return f(IHalf + 1.5)


def test_the_difference_of_centres_is_on_the_faces_between():
    f = field("I K", 6, 3)
    d = to_faces(f)
    assert d.dims == ("IHalf", "K")
    np.testing.assert_array_equal(d.values, f.values[1:] - f.values[:-1])
    assert str(to_faces(ti.as_field(["I", "K"], f.values)).dims) == "IHalf[1:6], K[0:3]"


def test_the_difference_of_faces_is_on_the_centres():
    g = field("IHalf", 7)
    np.testing.assert_array_equal(to_centres(g).values, g.values[1:] - g.values[:-1])


def test_a_second_difference_is_where_it_started():
    @ti.field_operator
    def second(f):
        return to_centres(to_faces(f))

    f = field("I", 6)
    np.testing.assert_allclose(second(f).values, np.diff(f.values, 2), rtol=0, atol=1e-15)


def test_a_field_without_the_dims_stays():
    f = field("K", 3)
    np.testing.assert_array_equal(two_away(f).values, f.values)


def test_half_a_point_along_the_fields_own_dim_is_refused():
    with pytest.raises(
        ti.DiagnosticError, match="half a point along IHalf leads to a field on I, and this field is on IHalf"
    ):
        to_faces(field("IHalf", 4))


def test_a_third_of_a_point_is_refused():
    @ti.field_operator
    def third(f):
        return f(I + 1 / 3)

    with pytest.raises(ti.DiagnosticError, match="a shift is by a whole number of points, or by a half"):
        third(field("I", 4))
