"""`numerics="exact"`: compiled programs round where the text says so, bit for bit as the oracle does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from generate.examples import examples
from generate.profiles import EXACT
from generate.programs import programs
from generate.properties import check_exact
from hypothesis import given, settings

import tensorir as ti

ROUNDED = {
    "a product that is added": "x × y + z",
    "a product that is subtracted": "z - x × y",
    "the negative of a product": "-(x × y) + z",
    "a number as divisor": "x / 3.0{0}",
    "two numbers as factors": "x × 3.3{0} × 5.1{0}",
    "two numbers added": "x + 0.1{0} + 0.2{0}",
    "a quotient as divisor": "x / (y / z)",
    "what cancels": "x + y - x",
    "a common divisor": "x / 10.0{0} + y / 10.0{0}",
    "a common factor": "x × z + y × z",
    "a chosen product": "(if x < y then x × y else y × z) + z",
    "a sum of products": "reduce(λ(a: tensor<{1}>, u: tensor<{1}>, v: tensor<{1}>) → a + u × v, 0.0{0}, I)(x, y)",
    "a recurrence": "scan(λ(a: tensor<{1}>, u: tensor<{1}>, v: tensor<{1}>) → a × u + v, true, 1.0{0}, I)(x, y)",
}


@pytest.mark.parametrize("element", ["float32", "float"])
@pytest.mark.parametrize("name", ROUNDED)
def test_every_operation_is_rounded_once(name, element):
    suffix = "f" if element == "float32" else ""
    text = ROUNDED[name].format(suffix, element)
    box = "" if text.startswith("reduce") else ", I[0:300]"
    given_as = ", ".join(f"{v}: tensor<{element}, I[0:300]>" for v in "xyz")
    f = ti.parse(f"f(out: tensor<{element}{box}>, {given_as}) {{ out ← {text}; }}")
    rng = np.random.default_rng(0)
    arrays = {v: rng.normal(size=300).astype("f4" if suffix else "f8") for v in "xyz"}
    used = {p.name: arrays[p.name] for p in f.inputs}
    want = ti.reference.run(f, **used)["out"]
    np.testing.assert_array_equal(ti.compile(f, numerics="exact")(**used)["out"], want)
    with jax.enable_x64(True):
        inside = jax.jit(lambda kw: ti.compile(f, numerics="exact")(**kw)["out"])
        np.testing.assert_array_equal(inside({n: jnp.asarray(a) for n, a in used.items()}), want)


@pytest.mark.parametrize("box", ["", ", I[0:1]", ", I[0:2]"])
@pytest.mark.parametrize("text", ["1.0 / (x + 0.0)", "-(x + 0.0) × 2.0", "(x + 0.0) + 0.0", "1.0 / (0.0 + x)"])
def test_zero_added_to_minus_zero_is_zero(text, box):
    f = ti.parse(f"f(out: tensor<float{box}>, x: tensor<float{box}>) {{ out ← {text}; }}")
    x = np.full(f["x"].type.dims.shape, -0.0)
    want = {"1": np.inf, "-": -0.0, "(": 0.0}[text[0]]
    found = ti.compile(f, numerics="exact")(x=x)["out"]
    assert found.tobytes() == np.full_like(x, want).tobytes()


def test_the_sum_of_one_element_has_the_derivatives_of_a_sum():
    f = ti.parse("f(out: tensor<float>, x: tensor<float>) { out ← (x + 0.5) × (x + x); }")
    with jax.enable_x64(True):
        assert jax.grad(lambda x: ti.compile(f, numerics="exact")(x=x)["out"])(jnp.float64(3.0)) == 13.0


def test_derivatives_and_batches_go_through():
    f = ti.parse("f(out: tensor<float>, x: tensor<float>, y: tensor<float>) { out ← x × y / (x - 3.0) + y; }")
    exact = ti.compile(f, numerics="exact")
    with jax.enable_x64(True):

        def by_hand(x, y):
            return x * y / (x - 3.0) + y

        def program(x, y):
            return exact(x=x, y=y)["out"]

        for make in (
            lambda g: jax.grad(g, (0, 1)),
            lambda g: jax.jacfwd(g, (0, 1)),
            lambda g: jax.grad(jax.grad(g), 1),
        ):
            np.testing.assert_allclose(make(program)(2.0, 5.0), make(by_hand)(2.0, 5.0), rtol=1e-14)
        xs = jnp.linspace(0.0, 1.0, 5)
        np.testing.assert_allclose(jax.vmap(program, (0, None))(xs, 2.0), by_hand(xs, 2.0), rtol=1e-15)


@settings(max_examples=examples(100))
@given(programs(EXACT, outputs=1, depth=3))
def test_compiled_programs_agree_with_the_oracle_bit_for_bit(case):
    check_exact(case)


@pytest.mark.parametrize("value", [-1, -5, 0, 1, 2**31 - 1, -(2**31)])
def test_leading_zeros_of_constants_are_those_of_data(value):
    literal = f"{value}" if value > -(2**31) else "(-2147483647 - 1)"
    f = ti.parse(f"f(x: tensor<int>, a: tensor<int>, b: tensor<int>) {{ a ← clz({literal}); b ← clz(x); }}")
    found = ti.compile(f)(x=np.int32(value))
    want = 32 - (value & 0xFFFFFFFF).bit_length()
    assert [int(found["a"]), int(found["b"])] == [want, want]


WHOLES = {
    "a cast": "cast(x × 3.3{0} + 0.1{0}, int)",
    "a floor": "floor((x + 0.5{0}) × 1.75{0} - 0.5{0})",
    "a nearest": "round(x / 3.0{0} × 7.0{0} - 0.5{0})",
    "an index": "gather(J, clamp)(t, cast(ceil((cast(pos(I, x), {1}) + 0.5{0}) × 0.7{0} - 0.35{0}), int))",
    "a step": "scan(λ(a: tensor<{1}>, u: tensor<{1}>) → floor(a - a + u × 3.3{0} + 0.1{0}), true, 1.0{0}, I)(x)",
}


@pytest.mark.parametrize("element", ["float32", "float"])
@pytest.mark.parametrize("name", WHOLES)
def test_what_becomes_a_whole_number_is_rounded_as_written(name, element):
    suffix = "f" if element == "float32" else ""
    text = WHOLES[name].format(suffix, element)
    kind = "int" if name == "a cast" else element
    f = ti.parse(
        f"f(out: tensor<{kind}, I[0:400]>, x: tensor<{element}, I[0:400]>, t: tensor<{element}, J[0:300]>) "
        f"{{ out ← {text}; }}"
    )
    dtype = "f4" if suffix else "f8"
    # the last bit decides
    k = np.arange(400)
    x = {"a floor": (k + 0.5) / 1.75 - 0.5, "a nearest": (k + 1) * 3 / 7}.get(name, (k - 0.1) / 3.3).astype(dtype)
    arrays = {"x": x, "t": np.random.default_rng(0).normal(size=300).astype(dtype)}
    used = {p.name: arrays[p.name] for p in f.inputs}
    np.testing.assert_array_equal(ti.compile(f)(**used)["out"], ti.reference.run(f, **used)["out"])
