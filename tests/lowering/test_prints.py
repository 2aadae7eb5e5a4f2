"""What programs print: in which order, in which words, and where nothing can be printed."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

X = np.arange(3.0)
XS = "x: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>"
TALKING = {
    "operands from left to right": (
        f'f({XS}) {{ y ← print("a")(x) + print("b")(x + 1.0) × print("c")(x - 1.0) + exp(print("d")(x × x)); }}',
        "abcd",
    ),
    "one after the other": (
        f"""f({XS}, z: tensor<float, I[0:3]>) {{
          y ← print("a")(exp(x)); z ← print("b")(x × 2.0); y ← print("c")(y + x);
        }}""",
        "abc",
    ),
    "by one condition, apart": (
        f"""f({XS}, c: tensor<bool>) {{
          y ← (if c then print("a")(x) else x) + print("b")(x) + (if c then print("c")(exp(x)) else x);
        }}""",
        "abc",
    ),
    "read twice": (f'f({XS}) {{ y ← let a = print("a")(x); print("b")(a + 1.0) + print("c")(a × a); }}', "abc"),
    "round after round": (
        f"""f({XS}) {{
          y ← loop(0, 3)(
            λ(i: tensor<int>, a: tensor<float, I[0:3]>) → true,
            λ(i: tensor<int>, a: tensor<float, I[0:3]>) → print("b")(print("a")(a) + x), x);
        }}""",
        "ababab",
    ),
}


def arguments(program: ti.Fencil, kind=np.asarray):
    given = {"x": X, "c": np.array(True)}
    return {p.name: kind(given[p.name]) for p in program.inputs}


def first_letters(text: str) -> str:
    return "".join(line[0] for line in text.split("\n") if line)


@pytest.mark.parametrize("text, order", TALKING.values(), ids=TALKING)
@pytest.mark.parametrize("numerics", ["fast", "exact", "op by op"])
def test_lines_come_in_the_order_of_the_program_and_in_the_oracles_words(text, order, numerics, capfd):
    program = ti.parse(text)
    ti.reference.run(program, **arguments(program))
    oracle = capfd.readouterr().out
    with jax.disable_jit(numerics == "op by op"):
        ti.compile(program, numerics="exact" if numerics == "exact" else "fast")(**arguments(program))
    jax.effects_barrier()
    shown = capfd.readouterr().out
    assert first_letters(shown) == order
    assert shown == oracle


@pytest.mark.parametrize("text, order", TALKING.values(), ids=TALKING)
def test_transformations_keep_the_order(text, order, capfd):
    program = ti.parse(text)
    c = ti.compile(program)
    given = arguments(program, jnp.asarray)

    def total(x):
        return jnp.sum(c(**{**given, "x": x})["y"])

    with jax.enable_x64(True):
        x = jnp.asarray(X)
        jax.jit(total)(x)
        jax.effects_barrier()
        assert first_letters(capfd.readouterr().out) == order
        jax.jvp(total, (x,), (x,))
        jax.effects_barrier()
        assert first_letters(capfd.readouterr().out) == order
        jax.vmap(total)(jnp.stack([x, x + 1]))
        jax.effects_barrier()
        assert first_letters(capfd.readouterr().out) == "".join(letter * 2 for letter in order)
        jax.jit(jax.grad(total))(x)
        jax.effects_barrier()
        assert first_letters(capfd.readouterr().out) == order


def test_a_text_has_a_place_for_each_value_and_any_other_braces_are_text(capfd):
    program = ti.parse(f"""f({XS}, s: tensor<int>) {{
      y ← print("{{s}} is {{}}: {{}} and {{}}, all")(x, s, make_tuple(s + 1, x)) + print("{{x}}")(x, s);
    }}""".replace("and {}, all", "and {} {}, all"))  # fmt: skip
    ti.reference.run(program, x=X, s=np.int32(3))
    words = "{s} is [0. 1. 2.]: 3 and [4 4 4] [0. 1. 2.], all\n{x}: [0. 1. 2.], 3\n"
    assert capfd.readouterr().out == words
    ti.compile(program)(x=X, s=np.int32(3))
    jax.effects_barrier()
    assert capfd.readouterr().out == words


def test_a_text_whose_places_are_not_as_many_as_its_values_is_refused():
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.parse(f'f({XS}) {{ y ← print("{{}} and {{}}")(x); }}')
    assert str(caught.value) == (
        "<text>:1:61: error[T42]: the text has 2 places for 1 value.\n"
        f'  f({XS}) {{ y ← print("{{}} and {{}}")(x); }}\n'
        "                                                              ^^^^^^^^^^^^^^^^^^^^^\n"
        "help: write a {} for each value, or none at all."
    )


def test_an_exported_program_does_not_print():
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.compile(ti.parse(f'f({XS}) {{ y ← print("x")(x); }}')).export()
    assert str(caught.value) == (
        "error[A22]: 'f' prints, and an exported program cannot.\nhelp: return what it prints, as a further output."
    )


def test_reverse_mode_of_a_loop_that_prints_until_data_end_it_is_refused_by_name():
    text = """f(y: tensor<float>, x: tensor<float>) {
      y ← loop(0)(
        λ(i: tensor<int>, a: tensor<float>) → a < 9.0, λ(i: tensor<int>, a: tensor<float>) → print("a")(a × x), x
      );
    }"""
    c = ti.compile(ti.parse(text))
    with jax.enable_x64(True):
        assert jax.jvp(lambda x: c(x=x)["y"], (jnp.asarray(2.0),), (jnp.asarray(1.0),))[1] == 32.0
        with pytest.raises(ti.DiagnosticError) as caught:
            jax.grad(lambda x: c(x=x)["y"])(jnp.asarray(2.0))
    assert caught.value.diagnostics[0].message == (
        "reverse mode does not go through a loop that prints and that a condition ends."
    )


ON_TWO_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, tensorir as ti
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
assert jax.device_count() == 2
c = ti.compile(ti.parse('f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← print("a")(x) + print("b")(x); }'))
x = np.arange(4.0)
def said():
    jax.effects_barrier()
    print("|", flush=True)
c(x=x); said()
with jax.enable_x64(True):
    mesh = Mesh(jax.devices(), ("d",))
    c(x=jnp.asarray(x)); said()
    c(x=jax.device_put(x, NamedSharding(mesh, P("d")))); said()
    jax.jit(lambda x: c(x=x)["y"])(jax.device_put(x, NamedSharding(mesh, P("d")))); said()
    jax.pmap(lambda x: c(x=x)["y"])(jnp.stack([x, x])); said()
    c(x=jnp.asarray(x)); said()
    one, other = (jax.device_put(x, d) for d in jax.devices())
f = ti.parse('f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>, z: tensor<float, I[0:4]>) { y ← x + z; }')
try:
    f(x=one, z=other)
except ti.DiagnosticError as refused:
    print(refused)
"""


def test_programs_on_several_devices_print_without_an_order():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    parts = [first_letters(part) for part in run.stdout.split("|")[:-1]]
    assert [parts[k] for k in (0, 1, 5)] == ["ab"] * 3
    assert [set(part) for part in parts[2:5]] == [set("ab")] * 3
    # and arrays on two devices do not meet
    assert run.stdout.rpartition("|")[2].strip() == (
        "error[A40]: 'x' is on cpu:0, and 'z' on cpu:1.\nhelp: put both in one place: jax.device_put(z, x.sharding)."
    )
