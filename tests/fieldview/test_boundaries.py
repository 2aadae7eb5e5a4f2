"""Boundary conditions against NumPy's padding: two dims, corners, mixed sides, functions of the position."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J = ti.dims("I J")
X = np.arange(12.0).reshape(3, 4) ** 2
WIDTHS = {I: (2, 1), J: (1, 3)}
PAD = ((2, 1), (1, 3))


def field(x, start=(0, 0)):
    return ti.as_field({d: (s, s + n) for d, s, n in zip((I, J), start, x.shape, strict=True)}, x)


def test_periodic_is_numpys_wrap_with_its_corners():
    out = ti.extend(field(X, (5, -2)), WIDTHS, ti.periodic())
    assert repr(out) == "Field(float64, I[3:9], J[-3:5])"
    np.testing.assert_array_equal(out.data, np.pad(X, PAD, mode="wrap"))


def test_neumann_is_numpys_edge_with_its_corners():
    np.testing.assert_array_equal(ti.extend(field(X), WIDTHS, ti.neumann()).data, np.pad(X, PAD, mode="edge"))


def test_dirichlet_is_numpys_constant():
    out = ti.extend(field(X), WIDTHS, ti.dirichlet(7)).data
    np.testing.assert_array_equal(out, np.pad(X, PAD, constant_values=7.0))


def test_linear_extrapolation_goes_on_with_a_plane():
    i, j = np.indices((6, 8)) - np.array([2, 1])[:, None, None]
    plane = 3.0 * i - 2.0 * j + 1.0
    np.testing.assert_allclose(ti.extend(field(plane[2:5, 1:5]), WIDTHS, ti.linear()).data, plane, rtol=1e-14)


def test_a_slope_goes_outwards_on_both_sides():
    out = ti.extend(field(X), {I: 2}, ti.neumann(0.5)).data
    np.testing.assert_array_equal(out, np.vstack([X[0] + 1.0, X[0] + 0.5, X, X[-1] + 0.5, X[-1] + 1.0]))


def test_sides_and_dims_may_differ_and_corners_follow_the_later_dim():
    bc = {I: (ti.dirichlet(-1.0), ti.neumann()), J: ti.periodic()}
    expected = np.pad(np.vstack([np.full((1, 4), -1.0), X, X[-1:]]), ((0, 0), (2, 2)), mode="wrap")
    np.testing.assert_array_equal(ti.extend(field(X), {I: 1, J: 2}, bc).data, expected)


def test_a_value_may_depend_on_position_and_time():
    @ti.field_operator
    def step(x, t):
        return ti.extend(x, {I: 1}, ti.dirichlet(lambda at: t * ti.astype(at[I] * 10 + at[J], ti.float64)))

    out = step(field(X, (4, 0)), 2.0).data
    j = np.arange(4)
    np.testing.assert_array_equal(out, np.vstack([2.0 * (30 + j), X, 2.0 * (70 + j)]))


def test_a_boundary_is_renewed_on_the_domain_of_the_field():
    out = ti.with_boundary(field(X), {I: 1, J: (1, 1)}, ti.neumann()).data
    np.testing.assert_array_equal(out, np.pad(X[1:-1, 1:-1], 1, mode="edge"))
    wrapped = ti.with_boundary(field(X), {J: 1}, ti.periodic()).data
    np.testing.assert_array_equal(wrapped, X[:, [2, 1, 2, 1]])


def test_a_data_array_gets_a_halo_and_coordinates_for_it():
    x = xr.DataArray(X, dims=("I", "J"), coords={"I": [0, 1, 2]}, attrs={"units": "m"})
    out = ti.extend(x, {I: 1}, ti.periodic())
    np.testing.assert_array_equal(out, X[[2, 0, 1, 2, 0]])
    np.testing.assert_array_equal(out.coords["I"], [-1, 0, 1, 2, 3])
    assert out.attrs == {"units": "m"}


def test_it_is_made_of_the_builtins_that_the_domain_needs_and_nothing_else():
    @ti.field_operator
    def both(x):
        return ti.extend(x, WIDTHS, {I: ti.periodic(), J: (ti.dirichlet(0.0), ti.linear())})

    from tensorir.ir.nodes import Call
    from tensorir.ir.rewrite import postorder, values

    used = {n.op for n in postorder(*values(both.fencil(field(X)).closures)) if isinstance(n, Call)}
    assert used <= {"concat", "subset", "cartesian_shift", "pos", "add_dim", "plus", "minus", "multiplies"}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ti.extend(field(X), {"K": 1}, ti.periodic()),
         "error[V32]: there is no dim K to put a boundary on, only I[0:3], J[0:4]."),
        (lambda: ti.extend(field(X), {I: 4}, ti.periodic()),
         "error[V30]: a periodic halo of 4 points needs 4 points of I, and there are 3."),
        (lambda: ti.extend(field(X[:1]), {I: 1}, ti.linear()),
         "error[V30]: a linear halo of 1 point needs 2 points of I, and there are 1."),
        (lambda: ti.extend(field(X), {I: 1.5}, ti.neumann()), "error[V30]: 1.5 is no width of a halo."),
        (lambda: ti.extend(field(X), {I: -1}, ti.neumann()), "error[V30]: a halo has no -1 points."),
        (lambda: ti.extend(field(X), {I: 1}, {J: ti.neumann()}), "error[V31]: there is no boundary condition for I."),
        (lambda: ti.extend(field(X), {I: 1}, 0.0), "error[V31]: float is no boundary condition."),
        (lambda: ti.extend(field(X), {I: 1}, (ti.periodic(), ti.neumann())),
         "error[V31]: one side of I is periodic and the other is not."),
        (lambda: ti.with_boundary(field(X), {I: 2}, ti.neumann()),
         "error[V30]: a boundary of 2 and 2 points leaves nothing of I[0:3]."),
    ],
)  # fmt: skip
def test_what_is_no_boundary_is_refused(call, sentence):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert sentence in str(refused.value)
