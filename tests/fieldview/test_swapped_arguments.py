"""Arguments in another order, and of another kind than a function takes: each error says which comes first."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J = ti.dims("I J")
X = np.zeros((2, 3))
ARRAY = xr.DataArray(X, dims=("I", "J"))
FIRST = "dims come first: ti.as_field([I, J], x), ti.zeros({I: 10})."
EXTEND = "write ti.extend(x, {I: 1}, ti.periodic())."
SWAPPED = {
    "a field": (lambda: ti.as_field(X, [I, J]), "A03", "the domain is a ndarray, and a domain names dims.", FIRST),
    "a field, by intervals": (
        lambda: ti.as_field(X, {I: (0, 2)}), "A03", "the domain is a ndarray, and a domain names dims.", FIRST,
    ),
    "a field of a list": (
        lambda: ti.as_field([1.0, 2.0], [I]), "A03", "the domain is a list, and a domain names dims.", FIRST,
    ),
    "a DataArray": (
        lambda: ti.as_field(ARRAY, "I"), "A03", "the domain is a DataArray, and a domain names dims.", FIRST,
    ),
    "zeros": (lambda: ti.zeros(ti.float32, {I: 3}), "A03", "the domain is a Scalar, and a domain names dims.", FIRST),
    "full": (lambda: ti.full(1.0, {I: 3}), "A03", "the domain is a float, and a domain names dims.", FIRST),
    "no extents": (lambda: ti.zeros([I, J]), "A03", "nothing says how many points I, J have.", "write {I: 10}."),
    "an array without names": (
        lambda: ti.from_xarray(X), "A01", "'array' is a ndarray, which has no names of dims.",
        "name them: ti.as_field([I, J], array), or xr.DataArray(array, dims=('I', 'J')).",
    ),
    "by position": (
        lambda: ti.positional("I", ARRAY), "A01", "'array' is a str, which has no labels.",
        "the DataArray comes first: ti.positional(x, 'I').",
    ),
    "widths first": (
        lambda: ti.extend({I: 1}, ARRAY, ti.neumann()), "V30",
        "widths are a DataArray, and they are numbers of points by dim.", EXTEND,
    ),
    "a condition first": (
        lambda: ti.extend(ARRAY, ti.neumann(), {I: 1}), "V30",
        "widths are a BoundaryCondition, and they are numbers of points by dim.", EXTEND,
    ),
    "a boundary": (
        lambda: ti.with_boundary({I: 1}, {I: 1}, ti.neumann()), "V30", "x is a dict, and not a field.", EXTEND,
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
