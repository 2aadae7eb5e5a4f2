"""`ti.Field` as an array: places by dims, reductions, NumPy's functions, pickles."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

I, J = ti.Dimension("I"), ti.Dimension("J")
DATA = np.arange(12.0).reshape(3, 4)


@ti.field_operator
def doubled(a: ti.Field[[I, J], ti.float64]) -> ti.Field[[I, J], ti.float64]:
    return a + a


@ti.program
def into(a: ti.Field[[I, J], ti.float64], out: ti.Field[[I, J], ti.float64]):
    doubled(a, out=out)


def field(data=DATA):
    return ti.as_field({I: (-1, 2), J: (2, 6)}, data)


@pytest.mark.parametrize(
    ("places", "dims", "wanted"),
    [
        ({I: -1}, "J[2:6]", DATA[0]),
        ({"J": 5, I: 1}, "no dims", DATA[2, 3]),
        ({I: (0, 2)}, "I[0:2], J[2:6]", DATA[1:]),
        ({J: slice(3, None)}, "I[-1:2], J[3:6]", DATA[:, 1:]),
        ({J: slice(3, 5), I: 0}, "J[3:5]", DATA[1, 1:3]),
        ({J: (3, 3)}, "I[-1:2], J[3:3]", DATA[:, :0]),
        ({}, "I[-1:2], J[2:6]", DATA),
    ],
)
def test_places_are_said_by_dims(places, dims, wanted):
    for f in (field(), field(jnp.asarray(DATA))):
        found = f[places]
        assert str(found.dims) == dims
        np.testing.assert_array_equal(np.asarray(found.data), wanted)


@pytest.mark.parametrize(
    ("places", "says"),
    [({I: 2}, "lies outside"), ({I: (-2, 0)}, "lies outside"), ({"K": 0}, "no dim K"), (0, "says no dim"),
     ({I: "a"}, "no place along a dim"), ({I: slice(0, 2, 2)}, "no place along a dim")],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(places, says):
    with pytest.raises(DiagnosticError, match=says):
        field()[places]


@pytest.mark.parametrize("method", ["sum", "prod", "mean", "max", "min"])
def test_reductions_go_over_named_dims(method):
    numpy = getattr(np, method)
    for f in (field(), field(jnp.asarray(DATA))):
        np.testing.assert_allclose(getattr(f, method)(I).data, numpy(DATA, 0))
        assert str(getattr(f, method)("I").dims) == "J[2:6]"
        np.testing.assert_allclose(getattr(f, method)(), numpy(DATA))
        np.testing.assert_allclose(getattr(f, method)("J", I), numpy(DATA))
        np.testing.assert_allclose(numpy(f), numpy(DATA))
    with pytest.raises(DiagnosticError, match="no dim K"):
        getattr(field(), method)("K")
    with pytest.raises(DiagnosticError, match="no axis"):
        numpy(field(), axis=0)


def test_functions_of_numpy_keep_the_dims():
    f = field()
    other = ti.as_field({J: (1, 4), I: (0, 5)}, np.arange(15.0).reshape(3, 5))
    assert np.sqrt(f).dims == f.dims and isinstance(np.float64(2) * f, ti.Field)
    for a, b in ((f, other), (field(jnp.asarray(DATA)), other)):
        found = np.hypot(a, b)
        assert str(found.dims) == "I[0:2], J[2:4]"
        np.testing.assert_allclose(found.data, np.hypot(DATA[1:, :2], np.asarray(other.data)[1:, :2].T))
    row = ti.as_field({J: (2, 6)}, np.arange(4.0))
    np.testing.assert_array_equal(np.maximum(f, row).data, np.maximum(DATA, np.arange(4.0)))
    with pytest.raises(DiagnosticError, match="an array without names meets a field in add"):
        np.ones(4) + f
    with pytest.raises(DiagnosticError, match="no point of I in common"):
        np.add(f, ti.as_field({I: (7, 9)}, np.ones(2)))


def test_fields_of_a_trace_are_differentiated():
    with jax.enable_x64(True):
        slope = jax.grad(lambda x: np.sin(field(x))[{I: 0}].sum())(jnp.asarray(DATA))
    wanted = np.zeros_like(DATA)
    wanted[1] = np.cos(DATA[1])
    np.testing.assert_allclose(slope, wanted, rtol=1e-12)


def test_fields_operators_and_programs_are_pickled_and_copied():
    for again in (pickle.loads(pickle.dumps(field())), copy.deepcopy(field())):
        assert again.dims == field().dims
        np.testing.assert_array_equal(again.data, DATA)
    for one in (doubled, into):
        assert pickle.loads(pickle.dumps(one)) is one and copy.copy(one) is one and copy.deepcopy(one) is one

    @ti.field_operator
    def local(a: ti.Field[[I], ti.float64]) -> ti.Field[[I], ti.float64]:
        return a

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


def test_narrow_arrays_of_jax_are_told_how_to_be_wide():
    program = ti.compile(ti.parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← 2.0 × x; }"))
    narrow = jnp.ones(3, "float32")
    told = "inside of `with jax.enable_x64\\(True\\):`, or write float32"
    for value in (narrow, ti.as_field({I: 3}, narrow)):
        with pytest.raises(DiagnosticError, match=told):
            program(x=value)
    with pytest.raises(DiagnosticError, match=told):
        doubled(field(jnp.asarray(DATA, "float32")))
    with pytest.raises(DiagnosticError, match=r"pass x\.astype"):
        program(x=np.ones(3, np.float32))
