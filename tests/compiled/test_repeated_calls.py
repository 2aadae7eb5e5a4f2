"""A call like one before takes a short way: what is no longer looked at there, and that nothing is taken for like."""

import copy
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tests.effort import count_calls

FIXED = "f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>, r: tensor<float>) { out ← r × x; }"
SIZED = FIXED.replace("0:4", "0:n")
AROUND = """
around(out: tensor<float, V[0:n]>, x: tensor<float, V[0:n]>, T: tensor<int, V[0:n], _NB_V[0:1]>) { out ← ⟪T, 0⟫(x); }
"""
X, TABLE = np.arange(4.0), np.array([[3], [2], [1], [0]], np.int32)
TEXTS = pytest.mark.parametrize("text", [FIXED, SIZED])


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def _called(text, **options):
    """A program that was called with arrays of JAX already, as often as the short way takes to be known."""
    c = ti.compile(ti.parse(text), **options)
    for _ in range(2):
        c(x=jnp.asarray(X), r=jnp.asarray(2.0))
    return c


def _refused(call):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    return str(refused.value)


@pytest.mark.parametrize("donate", [(), ("out",)])
def test_a_repeated_call_looks_at_no_argument_by_itself(donate):
    counts = []
    for count in (1, 40):
        names = [f"x{k}" for k in range(count)]
        params = ", ".join(f"{n}: tensor<float, I[0:4]>" for n in ("out", *names))
        c = ti.compile(ti.parse(f"f({params}) {{ out ← {' + '.join(names)}; }}"), donate=donate)
        given = {n: jnp.ones(4) for n in names}
        spare = [{n: jnp.zeros(4) for n in donate} for _ in range(3)]
        for k in range(2):
            c(**given, **spare[k])
        counts.append(count_calls(lambda c=c, given=given, spare=spare: c(**given, **spare[2])))
    assert counts[0] == counts[1] < 40


def test_sizes_cost_a_repeated_call_one_look_at_each_shape():
    x, r = jnp.asarray(X), jnp.asarray(2.0)
    counts = {}
    for text in (FIXED, SIZED):
        c = _called(text)
        counts[text] = count_calls(lambda c=c: c(x=x, r=r))
    assert counts[SIZED] - counts[FIXED] <= 4


@TEXTS
def test_arrays_of_another_shape_or_type_are_refused_as_in_the_first_call(text):
    wrong = [
        {"x": jnp.ones((2, 2)), "r": jnp.asarray(2.0)},
        {"x": jnp.ones(4, "float32"), "r": jnp.asarray(2.0)},
        {"x": jnp.ones(4), "r": jnp.ones(1)},
        {"x": jnp.ones(4)},
        {"x": jnp.ones(4), "s": jnp.asarray(2.0)},
        {"x": jnp.ones(4), "r": jnp.asarray(2.0), "s": jnp.asarray(2.0)},
        {"x": jnp.ones(4), "r": jnp.asarray(2.0), "out": jnp.zeros(4)},
    ]
    for given in wrong:
        told = _refused(lambda given=given: ti.compile(ti.parse(text))(**given))
        c = _called(text)
        assert _refused(lambda given=given, c=c: c(**given)) == told


def test_sizes_take_turns():
    c = _called(SIZED)
    for n in (4, 9, 4, 4, 9):
        x = jnp.arange(float(n))
        np.testing.assert_array_equal(c(x=x, r=jnp.asarray(3.0))["out"], 3.0 * np.arange(n))


@TEXTS
def test_weak_types_numbers_and_numpy_arrays_take_turns(text):
    c = _called(text)
    for r in (2.0, jnp.asarray(2.0), jnp.asarray(np.float64(2.0)), np.asarray(2.0), np.float64(2.0)):
        got = c(x=jnp.asarray(X), r=r)["out"]
        assert isinstance(got, jax.Array)
        np.testing.assert_array_equal(got, 2 * X)
    assert type(c(x=X, r=2.0)["out"]) is type(c(x=X, r=np.asarray(2.0))["out"]) is np.ndarray


@TEXTS
def test_what_was_given_away_is_refused_in_a_repeated_call_too(text):
    c, gone = _called(text), jnp.asarray(X)
    gone.delete()
    assert _refused(lambda: c(x=gone, r=jnp.asarray(2.0))).startswith("error[A18]: 'x' was given away")


def test_an_array_that_is_given_away_in_a_repeated_call_is_no_other_argument():
    c = ti.compile(ti.parse(FIXED), donate="out")
    x, r = jnp.asarray(X), jnp.asarray(2.0)
    for _ in range(3):
        assert c(x=x, r=r, out=jnp.zeros(4))["out"].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert _refused(lambda: c(x=x, r=r, out=x)) == (
        "error[A18]: 'out' is given away, and 'x' is the same array.\nhelp: pass a copy of it: out.copy()."
    )
    assert not x.is_deleted()


@TEXTS
def test_a_repeated_call_inside_of_a_trace_is_traced(text):
    c, r = _called(text), jnp.asarray(2.0)
    x = jnp.asarray(X)
    np.testing.assert_array_equal(jax.vmap(lambda x: c(x=x, r=r)["out"])(jnp.stack([x, x])), [2 * X, 2 * X])
    assert "mul" in str(jax.make_jaxpr(lambda y: y + c(x=x, r=r)["out"])(x))
    narrow = jax.jit(lambda y: y + c(x=x, r=r)["out"].sum().astype("float32"))
    with jax.enable_x64(False):
        assert _refused(lambda: narrow(1.0)).startswith("error[A15]: 'f' computes with 64-bit numbers")


def test_constants_that_a_transformation_replaced_are_taken():
    c = ti.compile(ti.parse(SIZED).bind(r=2.0, n=4))
    x = jnp.asarray(X)
    for _ in range(3):
        np.testing.assert_array_equal(c(x=x)["out"], 2 * X)
    tripled = jax.tree_util.tree_map(lambda a: 3.0 * a, c)
    np.testing.assert_array_equal(tripled(x=x)["out"], 6 * X)
    np.testing.assert_array_equal(c(x=x)["out"], 2 * X)
    np.testing.assert_array_equal(jax.grad(lambda c: c(x=x)["out"].sum())(c).constants["r"][0], X.sum())
    np.testing.assert_array_equal(copy.deepcopy(c)(x=x)["out"], 2 * X)


def test_what_is_bound_is_not_given_again_in_a_repeated_call():
    c = ti.compile(ti.parse(SIZED).bind(r=2.0))
    x = jnp.asarray(X)
    for _ in range(2):
        c(x=x)
    assert _refused(lambda: c(x=x, r=jnp.asarray(1.0))).startswith("error[A09]: 'r' is bound already.")
    assert _refused(lambda: c(r=jnp.asarray(1.0))).startswith("error[A09]: 'r' is bound already.")


def test_run_time_checks_are_made_in_each_call():
    text = "f(out: tensor<float, P[0:2]>, x: tensor<float, I[0:4]>, i: tensor<int, P[0:2]>) { out ← gather(I)(x, i); }"
    c, x = ti.compile(ti.parse(text)), jnp.asarray(X)
    for _ in range(3):
        np.testing.assert_array_equal(c(x=x, i=jnp.asarray([3, 0], "int32"))["out"], [3.0, 0.0])
    assert "note: at P = 1 it is 4." in _refused(lambda: c(x=x, i=jnp.asarray([3, 4], "int32")))


def test_numpy_arrays_stay_numpy_arrays_beside_what_is_bound():
    c = ti.compile(ti.parse(AROUND).bind(T=TABLE))
    for _ in range(3):
        got = c(x=X)["out"]
        assert type(got) is np.ndarray and got.flags.writeable
        np.testing.assert_array_equal(got, X[::-1])


def test_arrays_of_numpy_that_need_a_look_get_one_in_each_call():
    f, r = ti.parse(FIXED), np.asarray(2.0)
    c = ti.compile(f)
    for _ in range(3):
        np.testing.assert_array_equal(c(x=X.astype(">f8"), r=r)["out"], 2 * X)
        np.testing.assert_array_equal(c(x=np.ma.masked_array(X), r=r)["out"], 2 * X)
    masked = np.ma.masked_array(X, mask=[False, True, False, False])
    assert _refused(lambda: c(x=masked, r=r)).startswith("error[A01]: 'x' has masked points")


def test_a_bound_array_that_is_the_result_is_not_handed_on():
    f = ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, b: tensor<float, I[0:n]>) { out ← b; }")
    b = np.arange(float(1 << 14))
    c = ti.compile(f.bind(b=b))
    for around in (nullcontext, jax.disable_jit):
        with around():
            for _ in range(3):
                got = c(x=b)["out"]
                np.testing.assert_array_equal(got, b)
                got[:] = -1.0


@TEXTS
def test_numpy_arrays_of_another_shape_or_type_are_refused_as_in_the_first_call(text):
    r = np.asarray(2.0)
    for x in (np.ones((2, 2)), np.ones(4, "float32"), np.ones(4, "int64"), np.ones(4, ">f4")):
        c = ti.compile(ti.parse(text))
        told = _refused(lambda c=c, x=x: c(x=x, r=r))
        for _ in range(2):
            np.testing.assert_array_equal(c(x=X, r=r)["out"], 2 * X)
        assert _refused(lambda c=c, x=x: c(x=x, r=r)) == told


def test_a_repeated_call_with_numpy_arrays_asks_each_for_the_order_of_its_bytes_alone():
    counts = []
    for count in (1, 40):
        names = [f"x{k}" for k in range(count)]
        params = ", ".join(f"{n}: tensor<float, I[0:4]>" for n in ("out", *names))
        c = ti.compile(ti.parse(f"f({params}) {{ out ← {' + '.join(names)}; }}"))
        given = {n: np.ones(4) for n in names}
        for _ in range(2):
            c(**given)
        counts.append(count_calls(lambda c=c, given=given: c(**given)))
    assert counts[1] - counts[0] <= 39


def test_an_emptied_cache_keeps_no_way_of_a_call():
    c, x, r = _called(FIXED), jnp.asarray(X), jnp.asarray(2.0)
    assert c.engine.last() is not None
    ti.config.caches.clear()
    assert c.engine.last() is None
    np.testing.assert_array_equal(c(x=x, r=r)["out"], 2 * X)
