"""Operators in pickles: by name where one leads to them, by value otherwise, in another process too."""

import copy
import pickle
import sys

import cloudpickle
import dask
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.fieldview.operator import FieldOperator

(I,) = ti.dims("I")
H = xr.DataArray(np.arange(8.0) ** 2, dims="I", name="h")


@ti.field_operator
def rise(h):
    return h(I + 1) - h


def scaled(factor):
    @ti.field_operator
    def inside(h):
        return factor * rise(h)

    return inside


def summed(factor):
    return ti.scan_operator(axis=I, init=1.0)(lambda total, h: total + factor * h)


def into(factor):
    of_factor = scaled(factor)

    @ti.program
    def program(h, out):
        of_factor(h, out=out, domain={I: (0, 7)})

    return program


def again(value):
    return cloudpickle.loads(cloudpickle.dumps(value))


MADE = {
    "an operator in a function": (scaled, lambda f: f * np.diff(H)),
    "a scan of a lambda": (summed, lambda f: 1.0 + f * np.cumsum(H)),
    "a lambda": (lambda f: ti.field_operator(lambda h: h * f), lambda f: H * f),
    "a program": (into, lambda f: f * np.diff(H)),
}


def result_of(made):
    if isinstance(made, FieldOperator):
        return made(H)
    out = xr.DataArray(np.zeros(7), dims="I")
    made(H, out)
    return out


@pytest.mark.parametrize("kind", MADE)
def test_what_no_name_leads_to_goes_by_value(kind):
    make, expected = MADE[kind]
    for factor in (2.0, 5.0):
        np.testing.assert_array_equal(result_of(again(make(factor))), expected(factor))


@pytest.mark.parametrize("kind", MADE)
def test_one_operator_is_one_however_often_it_is_read(kind):
    make, _ = MADE[kind]
    data = cloudpickle.dumps(make(3.0))
    assert pickle.loads(data) is pickle.loads(data) is again(make(3.0))
    assert again(make(4.0)) is not pickle.loads(data)


def test_what_a_name_leads_to_goes_by_name():
    assert again(rise) is rise and pickle.loads(pickle.dumps(rise)) is rise
    assert b"rise" in pickle.dumps(rise) and len(pickle.dumps(rise)) < 100
    local = scaled(2.0)
    assert copy.copy(local) is local and copy.deepcopy(local) is local


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_what_stands_in_main_is_read_where_main_is_another_module(pickler):
    names = {"__name__": "__main__", "ti": ti, "I": I}
    exec("FACTOR = 3.0\n@ti.field_operator\ndef tripled(h):\n    return FACTOR * h(I + 1)\n", names)
    main = sys.modules["__main__"]
    main.tripled = names["tripled"]
    try:
        data = pickler.dumps(names["tripled"])
        assert pickle.loads(data) is names["tripled"]
    finally:
        del main.tripled
    # as in a worker
    np.testing.assert_array_equal(pickle.loads(data)(H), 3.0 * H.values)


def test_blocks_of_dask_take_operators_of_functions():
    data = cloudpickle.dumps(ti.map_blocks(scaled(2.0), H.chunk(I=4)))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(pickle.loads(data).compute(), 2.0 * np.diff(H))


@pytest.mark.nightly
def test_workers_of_dask_take_operators_of_functions():
    with dask.config.set(scheduler="processes", num_workers=1):
        found = ti.map_blocks(scaled(2.0), H.chunk(I=4)).compute()
    np.testing.assert_array_equal(found, 2.0 * np.diff(H))
