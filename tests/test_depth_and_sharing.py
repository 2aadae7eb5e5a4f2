"""Programs as deep and as shared as memory allows: typed, printed, parsed, interpreted and lowered in linear time."""

from functools import partial
from itertools import pairwise

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.equality.verdict import Level
from tensorir.ir.build import apply, call, cartesian_shift, closure, fencil, function, literal, var
from tests.effort import count_lines

ROW = ti.tensor("float", I=(0, 4))
DEPTH = 3_000
"""Three times as deep as Python calls functions within each other."""


def program(value, x):
    out = var("out", value.type)
    return fencil("f", [out, x], [closure(out, value)])


def deep(name="x"):
    x = var(name, ROW)
    e = x
    for k in range(DEPTH):
        e = call("minus", literal(float(k % 3)), e) if k % 2 else call("neg", e)
    return program(e, x)


def shared(levels, name="x"):
    x = var(name, ROW)
    e = x
    for _ in range(levels):
        e = call("multiplies", literal(0.5), call("plus", e, e))
    return program(e, x)


def test_an_expression_three_thousand_deep_prints_parses_interprets_and_lowers():
    f = deep()
    assert ti.parse(str(f)) == f
    x = np.array([1.0, 2.0, 3.0, 4.0])
    expected = ti.reference.run(f, x=x)["out"]
    with jax.enable_x64(True):
        text = ti.compile(f).stablehlo()
    assert text.count("stablehlo.negate") == DEPTH // 2
    with jax.disable_jit():
        np.testing.assert_array_equal(ti.compile(f)(x=x)["out"], expected)


def test_functions_nested_a_thousand_deep_are_applied():
    x = var("x", ROW)
    e = x
    for k in range(1000):
        p = var(f"p{k}", ROW)
        e = apply(function([p], call("plus", p, literal(1.0))), e)
    f = program(e, x)
    assert ti.parse(str(f)) == f
    np.testing.assert_array_equal(ti.reference.run(f, x=np.zeros(4))["out"], 1000.0)


def test_two_to_the_sixty_paths_take_time_linear_in_their_nodes():
    # anything that follows paths would take longer than the universe is old
    f = shared(60)
    assert ti.parse(str(f)) == f
    x = np.array([1.0, 2.0, 3.0, 4.5])
    np.testing.assert_array_equal(f(x=x)["out"], x)
    np.testing.assert_array_equal(ti.reference.run(f, x=x)["out"], x)
    assert ti.compile(f).cost().operations == 4 * 120


@pytest.mark.parametrize("pair", [(shared(60), shared(60, "y")), (deep(), deep("y"))], ids=["shared", "deep"])
def test_deep_and_shared_programs_are_compared(pair):
    assert ti.equivalent(*pair).level == Level.BITS


def test_five_thousand_nodes_are_typed_as_they_are_built():
    x = var("x", ti.tensor("float", I=(0, 100_000)))
    e = x
    for k in range(2500):
        e = call("plus", cartesian_shift(e, "I", k % 3 - 1), literal(1.0))
    assert e.type.dims["I"].start == 1 or len(e.type.dims["I"]) < 100_000


def chain(n: int) -> str:
    """A program of about n operations: shifted, scaled and added, stage by stage."""
    stages = max(n // 4, 1)
    names = ["x", *(f"t{k}" for k in range(1, stages + 1))]
    shift = lambda k: f"⟪I, {1 if k % 2 else -1}⟫({names[k - 1]})"
    lets = "\n".join(f"let {names[k]} = 0.5 × {shift(k)} + {names[k - 1]} × x;" for k in range(1, stages + 1))
    inner = f"I[{stages + 1}:{stages + 9}]"
    return f"f(out: tensor<float, {inner}>, x: tensor<float, I[0:{2 * stages + 10}]>) {{ out ← {lets} {names[-1]}; }}"


def pointwise(n: int) -> str:
    """A program of about n operations at one point: what XLA compiles as one loop."""
    stages = max(n // 3, 1)
    names = ["x", *(f"t{k}" for k in range(1, stages + 1))]
    lets = "\n".join(f"let {new} = 0.5 × {old} + {old} × x;" for old, new in pairwise(names))
    return f"f(out: tensor<float, I[0:8]>, x: tensor<float, I[0:8]>) {{ out ← {lets} {names[-1]}; }}"


STAGES = {
    "parse": lambda program: ti.parse(str(program)),
    "print": str,
    "passes": lambda program: ti.compile(program).pipeline(),
    "lower": lambda program: ti.compile(program).lowered(),
}


@pytest.mark.parametrize("text", [chain, pointwise])
@pytest.mark.parametrize("stage", STAGES)
def test_a_program_four_times_as_long_takes_four_times_as_many_lines(stage, text):
    run = STAGES[stage]
    run(ti.parse(text(8)))
    short, long = (count_lines(partial(run, ti.parse(text(n)))) for n in (200, 800))
    assert long < 4.2 * short
