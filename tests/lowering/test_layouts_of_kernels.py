"""Layouts of arrays in programs for GPUs: how seldom arrays are turned, and that values stay."""

from itertools import product
from random import Random

import jax
import numpy as np
import pytest

import tensorir as ti
from lowering.kernels import interpreted, parted, repeated
from lowering.kernels.layouts import turned
from lowering.kernels.minimum_cut import Graph
from lowering.kernels.primitive import kernels
from lowering.loops import stepping
from tensorir import reference
from tests.lowering.forced_kernels import called, for_gpus, regions, traced

BOTH = "I[0:21], J[0:5]"
INNER = "I[1:20], J[0:5]"
TWO_SCANS = f"""f(y: tensor<float, {INNER}, K[0:6]>, t: tensor<float, {BOTH}, K[0:6]>, x: tensor<float, {BOTH}, K[0:6]>,
    s: tensor<float, {BOTH}>) {{
  t ← scan(λ(a: tensor<float, {BOTH}>, v: tensor<float, {BOTH}>) → 0.5 × a + v, true, 0.0)(x);
  y ← scan(λ(a: tensor<float, {INNER}>, v: tensor<float, {INNER}>) → 0.5 × a + v, false, 0.0)(
    s × (⟪I, 1⟫(t) - ⟪I, -1⟫(t)) + if pos(K, t) > 2 then t else reduce(+, 0.0, K)(subset(x, K[0:2]))); }}"""
STEP = f"""f(y: tensor<float, {BOTH}, K[0:6]>, x: tensor<float, {BOTH}, K[0:6]>, c: tensor<float, {BOTH}, K[0:6]>,
    s: tensor<float, {BOTH}>) {{
  y ← x;
  y[I[1:20]] ← scan(λ(a: tensor<float, {INNER}>, v: tensor<float, {INNER}>) → 0.5 × a + v, false, 0.0)(
    s × (⟪I, 1⟫(x) - c × ⟪I, -1⟫(x))); }}"""


def arrays(fencil):
    rng = np.random.default_rng(1)
    return {p.name: rng.normal(size=p.type.dims.shape) for p in fencil.inputs}


def turns(parts):
    """The shapes of what XLA turns."""
    return [e.outvars[0].aval.shape for e in parts.left if e.primitive.name == "transpose"]


def test_what_two_scans_and_a_stencil_between_them_read_is_turned_once():
    fencil = ti.parse(TWO_SCANS)
    given = arrays(fencil)
    function, passed, _ = traced(fencil, given)
    (parts,) = regions(function, passed)
    # x as it comes, and both results as they go
    assert turns(parts) == [(6, 21, 5), (21, 5, 6), (19, 5, 6)]
    want, found = reference.run(fencil, **given), called(fencil, given)
    for name in want:
        np.testing.assert_allclose(found[name][0], want[name], rtol=1e-13)


def test_what_is_computed_of_several_arrays_is_turned_and_not_they():
    given = ", ".join(f"x{k}: tensor<float, {BOTH}, K[0:6]>" for k in range(4))
    text = f"""f(y: tensor<float, {BOTH}, K[0:6]>, {given}) {{
      y ← scan(λ(a: tensor<float, {BOTH}>, v: tensor<float, {BOTH}>) → 0.5 × a + v, true, 0.0)(x0 × x1 + x2 × x3); }}"""
    c = for_gpus(ti.parse(text))
    assert [(d.what, d.where, d.bytes) for d in c.plan()["kernels"] if d.what.startswith("turned")] == [
        ("turned by XLA: 6 × 21 × 5", "in between", 6 * 21 * 5 * 8),
        ("turned by XLA: 21 × 5 × 6", "of y", 0),
    ]


@pytest.fixture(scope="module")
def stepped():
    """A step for GPUs, its arrays, and the program of three of them."""
    fencil = ti.parse(STEP)
    with jax.enable_x64(True):
        given = {n: jax.numpy.asarray(x) for n, x in arrays(fencil).items()}
        c = for_gpus(fencil)

        def steps(x):
            return repeated(lambda x: c(x=x, c=given["c"], s=given["s"])["y"], x, 3)

        return fencil, given, steps


def within(jaxpr):
    for e in jaxpr.eqns:
        yield e
        for inner in e.params.values():
            if e.primitive is not kernels and hasattr(inner, "jaxpr"):
                yield from within(inner.jaxpr)


def test_a_state_is_carried_in_the_layout_of_its_scans(stepped):
    _, given, steps = stepped
    with jax.enable_x64(True):
        made = list(within(jax.make_jaxpr(steps)(given["x"]).jaxpr))
        (step,) = (parted(e.params["body"]) for e in made if e.primitive is kernels)
    assert turns(step) == []
    # the state and the coefficient before the first step, and the state after the last
    assert sorted(e.params["permutation"] for e in made if e.primitive.name == "transpose") == [
        (1, 2, 0), (2, 0, 1), (2, 0, 1),
    ]  # fmt: skip


def test_steps_in_another_layout_are_the_same_steps(stepped):
    fencil, given, steps = stepped
    want = np.asarray(given["x"])
    for _ in range(3):
        want = reference.run(fencil, **{**given, "x": want})["y"]
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(steps)(given["x"]), want, rtol=1e-13)


def test_programs_that_turn_nothing_stay_as_they_are():
    closed = jax.make_jaxpr(lambda x: x[1:] * x[:-1])(np.zeros((4, 3)))
    assert turned(closed) is closed


def test_a_cut_costs_as_little_as_the_best_of_all():
    draw = Random(3)
    for _ in range(40):
        edges = {
            (a, b): draw.randint(1, 9) for a in range(6) for b in range(6) if a != b and draw.random() < 0.4
        }  # from 0 to 5
        graph = Graph(ends=(0, 5))
        for (a, b), cost in edges.items():
            graph.edge(a, b, cost)
        first = graph.cut()
        sides = [{0, *(k for k, s in enumerate(choice, 1) if s)} for choice in product([False, True], repeat=4)]

        def cost(side, edges=edges):
            return sum(c for (a, b), c in edges.items() if a in side and b not in side)

        assert cost(first) == min(map(cost, sides))


def test_neighbours_are_read_where_levels_are_outermost_too():
    fencil = ti.parse("""f(y: tensor<float, K[0:3], V[0:40]>, x: tensor<float, K[0:3], E[0:50]>,
      T: tensor<int, V[0:40], _NB_E[0:4]>) { y ← reduce(+, 0.0)(⟪T⟫(x)); }""")
    given = {**arrays(fencil), "T": np.random.default_rng(0).integers(-1, 50, (40, 4), "int32")}
    function, passed, _ = traced(fencil, given)
    (parts,) = regions(function, passed)
    assert turns(parts) == [] and [r.shape for r in parts.kernels] == [(3, 40)]
    ((found,),) = called(fencil, given).values()
    np.testing.assert_allclose(found, reference.run(fencil, **given)["y"], rtol=1e-14)


def test_a_batch_of_columns_is_turned_once():
    fencil = ti.parse(TWO_SCANS)
    function, passed, _ = traced(fencil, arrays(fencil))
    with jax.enable_x64(True):
        batch = jax.tree_util.tree_map(lambda x: jax.numpy.stack([jax.numpy.asarray(x)] * 2), passed)
    (parts,) = regions(jax.vmap(function), batch)
    assert len(turns(parts)) == 3


def test_time_loops_on_gpus_carry_the_state_so(stepped, monkeypatch):
    fencil, given, _ = stepped
    # programs are traced as for a GPU, and lowered for what there is
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    c = ti.compile(fencil)
    called_with = []
    monkeypatch.setattr(stepping, "repeated", lambda *args: called_with.append(args) or repeated(*args))
    found = ti.iterate(lambda x: c(x=x, c=given["c"], s=given["s"])["y"], given["x"], 2)
    want = reference.run(fencil, **{**given, "x": reference.run(fencil, **given)["y"]})["y"]
    np.testing.assert_allclose(found, want, rtol=1e-13)
    assert called_with


def test_gradients_in_another_layout_are_the_same(stepped):
    fencil, given, _ = stepped
    function, passed, _ = traced(fencil, {n: np.asarray(x) for n, x in given.items()})
    plain = ti.compile(fencil)

    def ours(x):
        return (function({**passed, "x": (x,)})["y"][0] ** 3).sum()

    def theirs(x):
        return (plain(**{**given, "x": x})["y"] ** 3).sum()

    with jax.enable_x64(True):
        found = jax.jit(interpreted(jax.grad(ours)))(given["x"])
        np.testing.assert_allclose(found, jax.jit(jax.grad(theirs))(given["x"]), rtol=1e-12, atol=1e-12)
