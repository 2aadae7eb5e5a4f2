"""Everyday expressions of xarray and NumPy in jitted functions, losses, steps and what loops keep: as outside, or an
error of this package. `everyday.py` has them."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.calls.everyday import EVERYDAY, D

NUMBERS = {"np.clip", "np.where", "np.where of numbers", "np.gradient", "interp", "polyfit", "interpolate_na"}
"""What NumPy and SciPy compute, which need the numbers; of what a loop keeps they have them."""
REFUSED = {"ti.jit": NUMBERS | {"idxmax"}, "ti.grad": NUMBERS | {"idxmax"}, "ti.iterate": NUMBERS | {"idxmax"},
           "keep=": {"idxmax"}}  # fmt: skip


def of_a_loss(f):
    (_, results), slope = ti.value_and_grad(lambda d: (d.fillna(0.0).sum(), f(d)), has_aux=True)(D)
    xr.testing.assert_equal(slope, D.notnull().astype(float))
    return results


def of_a_step(f):
    blank = {n: xr.zeros_like(x) if isinstance(x, xr.DataArray) else np.zeros_like(x) for n, x in f(D).items()}
    return ti.iterate(lambda s: (s[0], f(s[0])), (D, blank), 2, progress=False)[1]


def kept(f):
    each = {}

    def keep(d):
        each.update(f(d))
        return {"d": d}

    ti.iterate(lambda d: d, D, 1, keep=keep, progress=False)
    return each


PLACES = {"ti.jit": lambda f: ti.jit(f)(D), "ti.grad": of_a_loss, "ti.iterate": of_a_step, "keep=": kept}


@pytest.mark.parametrize("place", PLACES)
def test_an_expression_gives_what_it_gives_outside(place):
    some = {n: g for n, g in EVERYDAY.items() if n not in REFUSED[place]}
    found = PLACES[place](lambda d: {n: g(d) for n, g in some.items()})
    assert len(some) >= 68
    for name, g in some.items():
        expected, x = g(D), found[name]
        np.testing.assert_allclose(np.asarray(x), np.asarray(expected), rtol=1e-12, err_msg=name)
        if isinstance(expected, xr.DataArray):
            assert x.dims == expected.dims and x.indexes.keys() == expected.indexes.keys(), name
            assert all(i.equals(x.indexes[n]) for n, i in expected.indexes.items()), name
            assert x.attrs == expected.attrs and x.name == expected.name, name


@pytest.mark.parametrize("name", sorted(REFUSED["ti.jit"]))
@pytest.mark.parametrize("place", ["ti.jit", "ti.grad"])
def test_what_cannot_be_is_one_error_of_this_package(place, name):
    with pytest.raises(ti.DiagnosticError, match="V43") as refused:
        PLACES[place](lambda d: {name: EVERYDAY[name](d)})
    assert refused.value.diagnostics[0].help


NEEDS = (
    "error[V43]: this needs the numbers of an array, and within a step, a loss or a jitted function nobody knows them "
    "yet.\n"
)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (lambda d: float(d.sum()), NEEDS),
        (lambda d: d.sum() if d.sum() > 0 else -d.sum(), NEEDS),
        (lambda d: d.values.sum(), NEEDS),
        (lambda d: d.sel(lat=d.sum().item()), NEEDS),
        (
            lambda d: (d(ti.Dimension("lat") + 1) - d).sum(),
            "error[V43]: a DataArray is not called: shifts such as x(I + 1) are for operators.\n",
        ),
    ],
    ids=["float", "if", "values", "item", "call"],
)
def test_an_error_names_the_line_and_says_what_to_write(loss, told):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.grad(loss)(D)
    assert told.removeprefix("error[V43]: ") in str(refused.value).split("error[V43]: ")[1]
    assert "test_everyday_xarray.py:" in str(refused.value) and "help: " in str(refused.value)
