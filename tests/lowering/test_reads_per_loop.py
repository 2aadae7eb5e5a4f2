"""Loops that read through neighbour tables: how many gathers a program has, and that its results stay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

RNG = np.random.default_rng(5)
TABLE = np.stack([RNG.permutation(40)[:3] for _ in range(30)]).astype(np.int32)
HOLES = np.where(RNG.random(TABLE.shape) < 0.2, -1, TABLE).astype(np.int32)
PARAMS = "a: tensor<float, V[0:30]>, x: tensor<float, E[0:40], K[0:5]>, T: tensor<int, V[0:30], _NB_E[0:3]>"
TWO = f"""f(u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
  let near = ⟪T⟫(x);
  u ← reduce(+, 0.0)(near × near);
  w ← reduce(max, -inf)(near) × a; }}"""


def given():
    return {"a": np.linspace(1.0, 2.0, 30), "x": np.random.default_rng(0).normal(size=(40, 5))}


def gathers(c):
    """Those that are left when XLA is through with the program."""
    return c.hlo().count(" gather(")


@pytest.mark.parametrize("table", [TABLE, HOLES], ids=["full", "with holes"])
def test_two_results_read_the_same_neighbours_each_for_itself(table):
    f = ti.parse(TWO).bind(T=table)
    c, off = ti.compile(f), ti.compile(f, without="reads_per_loop")
    assert (gathers(c), gathers(off)) == (6, 3)
    wanted = ti.reference.run(f, **given())
    for program in (c, off):
        for name, found in program(**given()).items():
            np.testing.assert_allclose(found, wanted[name], rtol=1e-13)


def test_what_takes_many_gathers_is_stored_for_the_loops_that_read_it():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, v: tensor<float, V[0:30], K[0:5]>,
      w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let sums = reduce(+, 0.0)(⟪T⟫(x) × ⟪T⟫(x + 1.0));
      u ← sums + 1.0; v ← sums × a; w ← exp(sums); }}"""
    f = ti.parse(text).bind(T=TABLE)
    c = ti.compile(f)
    assert gathers(c) == 6
    (row,) = c.plan()["reads_per_loop"]
    # two loops would do six gathers again, where storing takes three passes of reading and one of writing
    assert (row.taken, row.value, row.threshold.limit) == (False, 6 * 2 / 5, 1.0)
    for name, wanted in ti.reference.run(f, **given()).items():
        np.testing.assert_allclose(c(**given())[name], wanted, rtol=1e-13)


def test_what_is_a_result_is_not_computed_again_for_others():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let first = ⟪T, 0⟫(x) - ⟪T, 1⟫(x);
      u ← first × a; w ← first; }}"""
    f = ti.parse(text).bind(T=TABLE)
    c = ti.compile(f)
    assert gathers(c) == 2
    x = given()["x"]
    np.testing.assert_array_equal(c(**given())["w"], x[TABLE[:, 0]] - x[TABLE[:, 1]])


def test_operands_of_a_scan_have_loops_of_their_own():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let near = ⟪T⟫(x);
      u ← scan(λ(s: tensor<float, V[0:30]>, p: tensor<float, V[0:30]>, q: tensor<float, V[0:30]>) → p × s + q,
        true, 0.0)(reduce(+, 0.0)(near), reduce(max, -inf)(near));
      w ← reduce(min, inf)(near); }}"""
    f = ti.parse(text).bind(T=HOLES)
    c = ti.compile(f, without="native_kernels")
    assert gathers(c) == 9 and c.jaxpr().count("scan[") == 1
    for name, wanted in ti.reference.run(f, **given()).items():
        np.testing.assert_allclose(c(**given())[name], wanted, rtol=1e-12)


def test_what_is_checked_is_checked_once():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let near = assert_(reduce(+, 0.0)(⟪T⟫(x)), a > 0.0, "negative");
      u ← near + 1.0; w ← near × a; }}"""
    c = ti.compile(ti.parse(text).bind(T=TABLE))
    arguments = given()
    np.testing.assert_allclose(c(**arguments)["u"], arguments["x"][TABLE].sum(1) + 1.0, rtol=1e-13)
    with pytest.raises(ti.DiagnosticError) as refused:
        c(**{**arguments, "a": -arguments["a"]})
    assert str(refused.value).count("error[R02]") == 1


def test_batches_and_gradients_go_through_tables_that_are_read_again():
    f = ti.parse(TWO).bind(T=HOLES)
    c = ti.compile(f)
    arguments = given()
    x = arguments.pop("x")

    def total(x):
        found = c(x=x, **arguments)
        return jnp.sum(found["u"]) + jnp.sum(found["w"])

    present = HOLES >= 0
    with jax.enable_x64(True):
        found = jax.vmap(jax.grad(total))(np.stack([x, 2 * x]))
    for k, one in enumerate((x, 2 * x)):
        wanted = np.zeros_like(one)
        near = np.where(present[..., None], one[HOLES], -np.inf)
        largest = near.argmax(1)
        for v in range(30):
            for j in np.flatnonzero(present[v]):
                wanted[HOLES[v, j]] += 2 * one[HOLES[v, j]]
            for level in range(5):
                if present[v].any():
                    wanted[HOLES[v, largest[v, level]], level] += arguments["a"][v]
        np.testing.assert_allclose(found[k], wanted, rtol=1e-12)
