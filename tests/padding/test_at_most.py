"""`ti.compile(f, at_most=...)`: one compilation, the bits of each exact size, and calls like all others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library
from tests.effort import device_work
from tests.padding.programs import PROGRAMS, copied, drawn

HDIFF = library.load("hdiff")


@pytest.fixture(scope="module")
def hdiff():
    return ti.compile(HDIFF, at_most={"n": 9, "m": 9, "l": 4}, numerics="exact")


def of(n, m, l):
    return drawn(HDIFF.specialise(n=n, m=m, l=l))


def exact(given):
    return ti.reference.run(HDIFF, **given)["out"]


LIBRARY = {"hdiff": (9, 9, 4), "tridiagonal": (4, 4, 9), "neighbour_max": (12, 3)}


@pytest.mark.parametrize("name", LIBRARY)
def test_programs_of_the_library_have_the_bits_of_each_size_and_are_compiled_once(name):
    template = library.load(name)
    most = dict(zip(template.sizes, LIBRARY[name], strict=True))
    fixed = {"d": most.pop("d")} if "d" in most else {}
    c = ti.compile(template, at_most=most, numerics="exact")
    for less in (0, 2, 3):
        f = template.specialise(**{n: max(m - less, 2) for n, m in most.items()}, **fixed)
        given = drawn(f)
        ours, theirs = c(**copied(given)), ti.reference.run(f, **copied(given))
        for result in f.results:
            assert ours[result.name].tobytes() == theirs[result.name].tobytes()
    assert len(c.compiled(**fixed).engine.executables) == 1


@pytest.mark.parametrize("name", ["periodic smoothing", "a sum of products", "a scan backwards", "rounds of a stencil"])
def test_folds_scans_and_loops_have_the_bits_of_each_size_and_are_compiled_once(name):
    template = ti.parse(PROGRAMS[name])
    c = ti.compile(template, at_most={"n": 40}, numerics="exact")
    for n in (5, 33, 40):
        given = drawn(template.specialise(n=n))
        assert c(**given)["y"].tobytes() == ti.reference.run(template, **given)["y"].tobytes()
    assert len(c.compiled().engine.executables) == 1


def test_nothing_is_compiled_for_a_size_not_even_of_arrays_of_jax(hdiff):
    hdiff(**of(6, 7, 3))
    calls = [of(n, m, l) for n, m, l in ((7, 8, 2), (8, 6, 4), (9, 9, 1))]
    with jax.enable_x64(True):
        calls += [{name: jnp.asarray(a) for name, a in given.items()} for given in calls]
    assert device_work(lambda: [hdiff(**given) for given in calls]).compiled == 0


def test_the_kind_of_array_that_comes_in_goes_out_at_its_own_size(hdiff):
    given, dims = of(7, 8, 3), ("I", "J", "K")
    expected = exact(given)
    with jax.enable_x64(True):
        found = hdiff(**{name: jnp.asarray(a) for name, a in given.items()})["out"]
    assert isinstance(found, jax.Array) and found.shape == (7, 8, 3)
    np.testing.assert_array_equal(found, expected)
    labelled = {n: xr.DataArray(a, dims=dims, coords={"I": np.arange(5, 12)}) for n, a in given.items()}
    xr.testing.assert_identical(hdiff(**labelled)["out"], labelled["inp"].copy(data=expected))
    assert isinstance(hdiff(xr.Dataset(labelled)), xr.Dataset)
    fields = {n: ti.as_field(dict(zip(dims, a.shape, strict=True)), a) for n, a in given.items()}
    np.testing.assert_array_equal(hdiff(**fields)["out"].data, expected)
    buffer = np.zeros((7, 8, 3))
    assert hdiff(out=buffer, **given)["out"] is buffer
    np.testing.assert_array_equal(buffer, expected)


def test_it_runs_within_the_transformations_of_jax(hdiff):
    given = of(6, 7, 2)
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(a) for name, a in given.items()}
        jitted = jax.jit(lambda inp, coeff: hdiff(inp=inp, coeff=coeff)["out"])(**arrays)
        np.testing.assert_array_equal(jitted, exact(given))
        several = jax.vmap(lambda inp: hdiff(inp=inp, coeff=given["coeff"])["out"])(jnp.stack([arrays["inp"]] * 2))
        np.testing.assert_array_equal(several[1], exact(given))


@pytest.mark.parametrize("name", ["roots and quotients", "roots and quotients in a scan", "a mean"])
def test_gradients_are_those_of_the_exact_size_where_slopes_of_the_padding_are_infinite(name):
    template = ti.parse(PROGRAMS[name])
    c = ti.compile(template, at_most={"n": 12})
    x = drawn(template.specialise(n=5))["x"]
    with jax.enable_x64(True):
        found, expected = (jax.grad(lambda x, f=f: jnp.sum(f(x=x)["y"]))(x) for f in (c, ti.compile(template)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sizes_without_a_bound_have_a_program_each():
    template = ti.parse(
        "f(y: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) { y ← x + cast(m, float64); }"
    )
    c = ti.compile(template, at_most={"n": 5})
    for n, m in ((3, 2), (5, 2), (4, 1)):
        np.testing.assert_array_equal(c(x=np.ones((n, m)))["y"], np.full((n, m), 1.0 + m))
    assert [str(c.program(m=m).params[0].type) for m in (1, 2)] == [
        "tensor<float, I[0:5], J[0:1]>", "tensor<float, I[0:5], J[0:2]>"
    ]  # fmt: skip
    assert len(c.made) == 2


def test_an_exported_program_takes_any_size_up_to_the_bound(hdiff):
    loaded = ti.load(hdiff.export(platforms=("cpu",)).serialize())
    assert repr(loaded) == "<exported program of coeff: float64[n, m, l], inp: float64[n, m, l]>"
    for sizes in ((6, 7, 2), (9, 9, 4)):
        given = of(*sizes)
        np.testing.assert_array_equal(loaded(**given)["out"], exact(given))
    with pytest.raises(ti.DiagnosticError) as caught:
        loaded(**of(10, 6, 1))
    assert str(caught.value) == (
        "error[A03]: the program was exported for no such arrays: coeff [10, 6, 1], inp [10, 6, 1].\n"
        "help: sizes that were exported are the same in all arrays, and have bounds."
    )


def test_results_of_an_exported_program_may_have_fewer_points():
    text = "f(o: tensor<float, I[1:n-1], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) { o ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }"
    loaded = ti.load(ti.compile(ti.parse(text), at_most={"n": 9, "m": 5}).export(platforms=("cpu",)).serialize())
    for shape in ((3, 2), (9, 5)):
        x = np.arange(float(np.prod(shape))).reshape(shape) ** 2
        np.testing.assert_array_equal(loaded(x=x)["o"], x[2:] - x[:-2])


def test_an_array_that_tells_a_size_alone_is_an_input_of_the_exported_program():
    counted = ti.compile(ti.parse(PROGRAMS["a count"]), at_most={"n": 9})
    loaded = ti.load(counted.export(platforms=("cpu",)).serialize())
    assert np.asarray(loaded(x=np.ones(4))["y"]) == 4.0


MADE = "f(y: tensor<float, I[0:n]>) { y ← add_dim(I, 0, n, 1.0); }"


def told(call):
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return str(caught.value)


def test_a_size_beyond_the_bound_is_named(hdiff):
    assert told(lambda: hdiff(**of(10, 6, 1))) == (
        "error[B12]: the size 'n' is 10, and 'hdiff' was compiled for at most 9.\n"
        'help: compile it for more: at_most={"n": 10}.'
    )


def test_what_is_wrong_at_a_size_is_said_as_of_the_exact_program(hdiff):
    given = {name: np.ones((3, 6, 1)) for name in ("inp", "coeff")}
    assert told(lambda: hdiff(**given)) == told(lambda: HDIFF(**given))


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: ti.compile(HDIFF, at_most={"k": 9}), "error[B05]: 'hdiff' has no size 'k'."),
        (lambda: ti.compile(HDIFF, at_most={"n": 1.5}), "error[B11]: the size 'n' is 1.5, and sizes are whole"),
        (lambda: ti.compile(HDIFF, at_most=9), "error[B11]: at_most is 9, and gives sizes by name."),
        (lambda: ti.compile(HDIFF, at_most={"n": -1}), "error[B11]: the size 'n' is -1, and sizes are not negative."),
        (lambda: ti.compile(HDIFF, at_most={"n": 9}).program(m=9), "error[B01]: the size 'l' is not bound."),
        (
            lambda: ti.compile(HDIFF, at_most={"n": 9}, donate="out"),
            "error[B13]: arrays are padded, and what is padded is a copy: there is nothing to give away.",
        ),
        (
            lambda: ti.compile(ti.parse(MADE), at_most={"n": 9}).export(),
            "error[B01]: no argument has an interval that tells the size 'n' of an exported program.",
        ),
    ],
)
def test_what_cannot_be_bounded_is_said(call, said):
    assert told(call).startswith(said)


CHECKED = "f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, i: tensor<int, I[0:n]>) {{ y ← {}; }}"


@pytest.mark.parametrize(
    "value, said",
    [
        ("gather(I)(x, i)", "an index of I is outside of I[0:n]."),
        ("scatter(+, I, over: (P))(x, rename(I → P)(i), rename(I → P)(x))", "an index of I is outside of I[0:n]."),
        ('assert_(x, i < 3, "too many")', "too many"),
    ],
)
def test_checks_look_at_the_points_that_count_alone(value, said):
    c = ti.compile(ti.parse(CHECKED.format(value)), at_most={"n": 6})
    x = np.arange(3.0)
    assert c(x=x, i=np.array([2, 1, 0], np.int32))["y"].shape == (3,)
    assert said in told(lambda: c(x=x, i=np.array([2, 1, 4], np.int32)))
