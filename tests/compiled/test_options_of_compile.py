"""What `ti.compile` is told, and what it refuses at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from lowering.loops.stepping import LOOPS, loop_key

F = "f(out: tensor<float, V[0:3]>, x: tensor<float, V[0:3]>, T: tensor<int, V[0:3], _NB_V[0:1]>) { out ← ⟪T, 0⟫(x); }"


@pytest.mark.parametrize("option", ["full", "donate"])
def test_a_name_that_is_no_parameters_is_refused(option):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(F), **{option: ("S",)})
    assert str(refused.value).startswith("error[A08]: 'f' has no parameter 'S'.")


def test_one_name_need_not_stand_in_a_tuple():
    table = np.array([[2], [0], [1]], np.int32)
    with jax.enable_x64(True):
        moved = jax.jit(lambda x, t: ti.compile(ti.parse(F), full="T")(x=x, T=t)["out"])(np.arange(3.0), table)
    np.testing.assert_array_equal(moved, [2.0, 0.0, 1.0])


@pytest.mark.parametrize("take", [ti.compile, ti.explain, ti.inspect.dataflow, ti.Pipeline("inline")])
def test_what_is_no_program_is_refused(take):
    with pytest.raises(ti.DiagnosticError) as refused:
        take(3)
    assert str(refused.value) == (
        "error[B10]: a program is needed, and this is of type int.\nhelp: ti.parse makes one of a text."
    )


def test_an_interval_of_a_field_that_stops_before_it_starts_is_refused():
    for make in (ti.zeros, ti.ones):
        with pytest.raises(ti.DiagnosticError, match=r"A03\]: I: I?\[3:1\] is no interval"):
            make({"I": (3, 1)})
    with pytest.raises(ti.DiagnosticError, match="A03"):
        ti.as_field({"I": "03"}, np.zeros(3))
    assert ti.zeros({"I": ti.Interval(1, 3)}).data.shape == (2,)


def test_the_pictures_are_among_the_names_of_inspect():
    assert {"footprint", "dataflow", "before_after", "table", "domains"} <= set(dir(ti.inspect))


def test_what_the_reference_has_not_is_said():
    interpreted = ti.compile(ti.parse(F), backend="reference")
    with pytest.raises(ti.DiagnosticError) as refused:
        interpreted.stablehlo()
    assert str(refused.value) == (
        "error[A23]: the reference interprets programs, and has no 'stablehlo' of them.\n"
        "help: compile with XLA: ti.compile(f).stablehlo(...)."
    )
    assert not hasattr(interpreted, "cost")
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(F), backend="reference", donate="out")
    assert str(refused.value) == (
        "error[A23]: the reference has no option 'donate': there is nothing to choose.\nhelp: leave it out."
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "'x' is a NoneType, not an array."), ((1.0, 2.0), "'x' is a tuple, not an array."),
     ([[1.0], [1.0, 2.0]], "'x' is a list whose rows have different lengths.")],
)  # fmt: skip
def test_what_is_no_array_is_named(value, told):
    f = ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError, match=r"A01\]") as refused:
        f(x=value)
    assert told in str(refused.value)


def test_a_program_in_somebodys_jit_says_what_it_would_ask_of_the_compiler() -> None:
    stored = ti.compile(
        ti.parse("""f(y: tensor<float64, I[1:8]>, x: tensor<float64, I[0:9]>) {
      y ← let w = cos(x) × exp(x); ⟪I, 1⟫(w) + ⟪I, -1⟫(w); }""")
    )
    plain = ti.compile(ti.parse("f(y: tensor<float64, I[0:9]>, x: tensor<float64, I[0:9]>) { y ← x + x; }"))
    x = np.linspace(0.0, 1.0, 9)

    def twice(x):
        return stored(x=plain(x=x)["y"])["y"]

    options = ti.compiler_options(twice, x)
    assert options == ti.compiler_options(twice, x) == {
        "xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"
    }  # fmt: skip
    assert ti.compiler_options(lambda x: plain(x=x)["y"], x) == {}
    with jax.enable_x64(True):
        kept, lost = (jax.jit(twice, compiler_options=o).lower(x).compile().as_text() for o in (options, None))
    assert ("opt-barrier" in kept, "opt-barrier" in lost) == (True, False)


def test_a_time_loop_grants_what_its_step_asks_of_the_compiler() -> None:
    stored = ti.compile(
        ti.parse("""f(y: tensor<float64, I[0:9]>, x: tensor<float64, I[0:9]>) {
      y ← let w = cos(x) × exp(x); concat(add_dim(I, 0, 1, 0.0), ⟪I, 1⟫(w) + ⟪I, -1⟫(w), add_dim(I, 8, 9, 0.0)); }""")
    )

    def step(x):
        return stored(x=x)["y"]

    x = np.linspace(0.0, 1.0, 9)
    found = ti.iterate(step, x, 2, progress=False)
    with jax.enable_x64(True):
        loop = LOOPS.of(loop_key(step, (jnp.asarray(x), ())), lambda: None)
    (program,) = loop.programs.values()
    assert "opt-barrier" in program.as_text()
    np.testing.assert_array_equal(found, stored(x=stored(x=x)["y"])["y"])
