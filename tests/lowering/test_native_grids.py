"""Stencils as kernels for CPUs: beside XLA bit for bit, under transformations, in time loops, and what XLA runs."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from jax.sharding import PartitionSpec

import tensorir as ti
from lowering.kernels import custom_calls, grids, instances, regions, stages
from lowering.kernels.primitive import bound, kernels, repeated
from lowering.kernels.stages import Reach, Staged
from tests.benchmarks.cases import chain, hdiff, nabla
from tests.lowering.generated_grids import generated
from tests.lowering.test_native_kernels import as_bits, calls

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

DIFFUSION = """f(y: tensor<float, I[0:n], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
  y ← x;
  y[I[1:n-1], J[1:m-1]] ← 0.125 × (⟪I, 1⟫(x) + ⟪I, -1⟫(x) + ⟪J, 1⟫(x) + ⟪J, -1⟫(x)) + 0.5 × x; }"""
ENERGY = """f(e: tensor<float>, x: tensor<float, I[0:n], J[0:m]>) {
  e ← let d = ⟪I, 1⟫(x) - ⟪I, -1⟫(x) + ⟪J, 1⟫(x);
    reduce(+, 0.0, I)(reduce(+, 0.0, J)(subset(d × d, I[1:n-1], J[0:m-1]))); }"""
HIGHEST = """f(h: tensor<int, I[1:n-1]>, x: tensor<float, I[0:n], J[0:m]>) {
  h ← let y = cast(9.0 × x, int); reduce(max, 0, J)(subset(⟪I, 1⟫(y) - ⟪I, -1⟫(y), I[1:n-1], J[0:m])); }"""


def random(*shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def staged(function, *given):
    """The kernels of a program for CPUs, each with the number of its stages."""
    parts = regions.parted(jax.make_jaxpr(function)(*given), native=True)
    return [len(r.stages) for r in parts.regions if isinstance(r, Staged)]


def beside_xla(function, given, exact=True):
    """A program as kernels gives what XLA does: compiled, or operation by operation where XLA rounds otherwise."""
    closed = jax.make_jaxpr(function)(*given)
    results = jax.jit(lambda *xs: bound(closed, xs, native=True))(*given)
    if exact:
        try:
            return np.testing.assert_equal(as_bits(results), as_bits(jax.jit(function)(*given)))
        except AssertionError:
            pass  # a compiled program may be rewritten: x + 0 is x, also where that is -0
    with jax.disable_jit():
        return np.testing.assert_equal(as_bits(results), as_bits(function(*map(jnp.asarray, given))))


@pytest.mark.parametrize("first, count", [(0, 16), pytest.param(16, 1000, marks=pytest.mark.nightly)])
def test_generated_grids_are_as_xlas_bit_for_bit(first, count):
    made = 0
    for seed in range(first, first + count):
        function, given, exact = generated(seed)
        if staged(function, *given):
            made += 1
            beside_xla(function, given, exact)
    assert made > count // 2


def test_blocks_and_tiles_change_no_bits(monkeypatch):
    program = ti.compile(ti.parse(hdiff.TEXT))
    given = {"inp": random(40, 37, 9), "coeff": random(40, 37, 9)}
    want = np.asarray(program(**given)["out"])
    monkeypatch.setattr(grids, "HELD", 1 << 10)  # tiles of the second axis
    monkeypatch.setattr(grids, "OVERLAP", 1)
    found = ti.compile(ti.parse(hdiff.TEXT))(**given)["out"]
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(
        want, ti.compile(ti.parse(hdiff.TEXT), numerics="exact", without="native_kernels")(**given)["out"]
    )


def test_threads_change_no_bits(monkeypatch):
    x, results = random(700, 61), []
    for count in (1, 2, 7):
        monkeypatch.setattr(custom_calls, "threads", lambda count=count: count)
        (total,) = jax.tree.leaves(ti.compile(ti.parse(ENERGY))(x=x))
        results.append((np.asarray(total), np.asarray(ti.compile(ti.parse(DIFFUSION))(x=x)["y"])))
    for total, y in results[1:]:
        assert total == results[0][0]
        np.testing.assert_array_equal(y, results[0][1])


def test_a_chain_is_one_kernel_whose_stages_run_ahead_of_their_readers():
    program, x = ti.compile(ti.parse(chain.text())), random(90, 85)
    (region,) = regions.parted(jax.make_jaxpr(lambda x: program(x=x)["out"])(x), native=True).regions
    reach = Reach(region, [list(region.stages)[-1]])
    # of twelve stages each needs a row more on both sides than the one behind it
    assert len(region.stages) == 12 and reach.overlap == 22
    assert list(reach.window.values()) == [4] * 11
    want = ti.compile(ti.parse(chain.text()), numerics="exact", without="native_kernels")(x=x)["out"]
    np.testing.assert_array_equal(program(x=x)["out"], want)


@pytest.mark.parametrize("text", [ENERGY, HIGHEST])
def test_folds_of_rows_are_stages(text):
    x = random(70, 61)
    c, plain = (ti.compile(ti.parse(text), without=w) for w in ((), ("native_kernels",)))
    assert calls(lambda x: c(x=x), x) == 1
    (found,), (want,) = (jax.tree.leaves(p(x=x)) for p in (c, plain))
    np.testing.assert_allclose(found, want, rtol=1e-14)
    if text == HIGHEST:
        return
    found, want = (jax.grad(lambda x, p=p: jnp.sum(jnp.stack(jax.tree.leaves(p(x=x)))))(x) for p in (c, plain))
    np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-13)


def test_gradients_are_kernels_and_those_of_xla():
    given = [random(30, 28, 10), random(30, 28, 10)]

    def gradient(**options):
        c = ti.compile(ti.parse(hdiff.TEXT), **options)
        return lambda a, b: jax.grad(lambda a: (c(inp=a, coeff=b)["out"] ** 2).sum())(a)

    assert calls(gradient(), *given) >= 1
    found, want = (jax.jit(gradient(**o))(*given) for o in ({}, {"without": "native_kernels"}))
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


NABLA = """f(gx: tensor<float, V[0:n], K[0:k]>, gy: tensor<float, V[0:n], K[0:k]>, x: tensor<float, V[0:n], K[0:k]>,
  sx: tensor<float, E[0:e]>, sy: tensor<float, E[0:e], K[0:k]>,
  E2V: tensor<int, E[0:e], _NB_V[0:2]>, V2E: tensor<int, V[0:n], _NB_E[0:6]>) {
  let m = 0.5 × reduce(+, 0.0)(⟪E2V⟫(x));
  gx ← reduce(+, 0.0)(⟪V2E⟫(m × sx));
  gy ← reduce(max, -inf)(⟪V2E⟫(m × sy)) - reduce(min, inf)(⟪V2E⟫(m)); }"""
SMOOTH = """f(y: tensor<float, V[0:n], K[0:k]>, x: tensor<float, V[0:n], K[0:k]>,
  V2E: tensor<int, V[0:n], _NB_V[0:6]>) { y ← 0.5 × x + 0.08 × reduce(+, 0.0)(⟪V2E⟫(x)); }"""


def on_a_mesh(text, levels=13, holes=False, side=15, **options):
    """A program on a triangulated torus, or on a plane whose vertices at its ends have fewer edges, and its arrays."""
    arrays, n = nabla.inputs(np.random.default_rng(0), side, holes), side**2
    tables = {"V2E": arrays["V2E"]}
    if "E2V" in text:
        tables["E2V"] = arrays["E2V"]
    else:
        tables["V2E"] = np.where(arrays["V2E"] < 0, -1, arrays["V2E"] % n)
    given = {"x": random(n, levels)}
    if "E2V" in text:
        given |= {"sx": random(3 * n), "sy": random(3 * n, levels)}
    return ti.compile(ti.parse(text).bind(**tables), **options), given


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("levels", [9, 13, 16])
def test_reads_through_tables_are_kernels_with_all_results_in_one(levels, holes):
    c, given = on_a_mesh(NABLA, levels, holes)
    rows = [d.what for d in c.plan(**given).decisions if d.name == "native_kernels"]
    assert len(rows) == 1 and "2 written" in rows[0]
    plain, _ = on_a_mesh(NABLA, levels, holes, without="native_kernels", numerics="exact")
    for name, want in plain(**given).items():
        np.testing.assert_array_equal(c(**given)[name], want)


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_outside_of_an_array_are_clamped_as_xla_does_it(axis):
    x, at = random(40, 61), np.array([[-7, 3, 39, 61, 2**20] * 8, [5, -1, 0, 40, 2**30] * 8], np.int32)

    def function(x, a, b):
        read = lambda i: x.at[(slice(None),) * axis + (i,)].get(mode="promise_in_bounds")
        return [read(a) + read(b)]

    staged_in = staged(function, x, *at)
    closed = jax.make_jaxpr(function)(x, *at)
    found = jax.jit(lambda *xs: bound(closed, xs, native=True))(x, *at)
    want = sum(np.take(x, np.clip(np.where(i < 0, i + x.shape[axis], i), 0, x.shape[axis] - 1), axis) for i in at)
    assert staged_in == [1]
    np.testing.assert_array_equal(found[0], want)


def test_what_neighbours_are_read_of_is_stored_where_readers_would_compute_it_too_often():
    twice = """f(y: tensor<float, V[0:n], K[0:k]>, x: tensor<float, V[0:n], K[0:k]>,
      V2E: tensor<int, V[0:n], _NB_V[0:6]>) {
      y ← let l = reduce(+, 0.0)(⟪V2E⟫(x)) - 6.0 × x; reduce(+, 0.0)(⟪V2E⟫(l)) - 6.0 × l; }"""
    c, given = on_a_mesh(twice)
    assert [d.where for d in c.plan(**given).decisions if d.name == "native_kernels"] == ["in between", "of y"]
    np.testing.assert_allclose(c(**given)["y"], on_a_mesh(twice, numerics="exact")[0](**given)["y"], rtol=1e-13)


@pytest.mark.parametrize("holes", [False, True])
def test_gradients_through_tables_are_kernels_and_those_of_xla(holes):
    def gradient(**options):
        c, given = on_a_mesh(NABLA, 13, holes, **options)
        return jax.grad(lambda x: sum((v**2).sum() for v in c(**{**given, "x": x}).values()))

    x = random(225, 13)
    assert calls(gradient(), x) >= 2
    found, want = (jax.jit(gradient(**o))(x) for o in ({}, {"without": "native_kernels"}))
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


def test_a_loop_over_a_mesh_gives_the_bits_of_its_steps(monkeypatch):
    monkeypatch.setattr(stages, "OUTSIDE", 0)
    c, given = on_a_mesh(SMOOTH)
    x = jnp.asarray(given["x"])
    assert ti.loop_plan(lambda x: c(x=x)["y"], x).steps == 1
    found = ti.iterate(lambda x: c(x=x)["y"], x, 7, progress=False)
    for _ in range(7):
        x = c(x=x)["y"]
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("levels", [1, 3, 4])
def test_rows_of_few_levels_are_xlas(levels):
    c, given = on_a_mesh(SMOOTH, levels, side=48)
    assert c.plan(**given).taken("native_kernels") == (levels == 4)


def stepped(text=DIFFUSION, **options):
    c = ti.compile(ti.parse(text), **options)
    return lambda x: c(x=x)["y"]


def batched(step, x):
    return jax.vmap(step)(jnp.stack([x, 2 * x]))


def tangent(step, x):
    return jax.jvp(step, (x,), (x[::-1],))


def second(step, x):
    return jax.jvp(jax.grad(lambda x: (step(x) ** 2).sum()), (x,), (x[::-1],))


def divided(step, x):
    mesh = jax.make_mesh((1,), ("p",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(step, mesh=mesh, in_specs=PartitionSpec("p"), out_specs=PartitionSpec("p"))(x)


@pytest.mark.parametrize("transformed", [batched, tangent, second, divided])
def test_kernels_are_inside_of_what_is_transformed(transformed):
    x, step = random(50, 60), stepped()
    assert calls(lambda x: transformed(step, x), x) >= 1
    found, want = (jax.jit(lambda x, s=s: transformed(s, x))(x) for s in (step, stepped(without="native_kernels")))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 18])
def test_time_loops_run_steps_in_pairs_and_several_as_one_kernel(n, monkeypatch):
    x = random(400, 70)
    want, once = np.asarray(x), stepped(numerics="exact", without="native_kernels")
    for _ in range(n):
        want = np.asarray(once(want))
    np.testing.assert_array_equal(ti.iterate(stepped(), x, n, progress=False), want)
    monkeypatch.setattr("lowering.kernels.stages.OUTSIDE", 0)
    jaxpr = jax.make_jaxpr(lambda x: repeated(stepped(), x, n))(x).jaxpr
    assert max(staged(jax.extend.core.jaxpr_as_fun(e.params["body"]), x)[0] for e in _kernels(jaxpr)) == 8
    np.testing.assert_array_equal(jax.jit(lambda x: repeated(stepped(), x, n))(x), want)


def test_a_loop_with_a_forcing_is_kernels_and_gives_the_bits_of_its_steps():
    c = ti.compile(ti.parse(DIFFUSION))
    x = xr.DataArray(random(60, 50), dims=("I", "J"))
    days = np.arange("2026-01-01", "2026-01-05", dtype="datetime64[D]").astype("datetime64[ns]")
    wind = xr.Dataset({"w": (("time", "I", "J"), random(4, 60, 50))}, {"time": days})
    step = lambda x, now: c(x=x)["y"] + 0.1 * now.w.data
    found = ti.iterate(step, x, 9, dt="6 h", start="2026-01-01", forcing=wind, progress=False)
    for k in range(9):
        x = step(x, wind.interp(time=days[0] + np.timedelta64(6 * k, "h")))
    np.testing.assert_allclose(found.values, np.asarray(x), rtol=1e-13, atol=1e-13)


def _kernels(jaxpr):
    for e in jaxpr.eqns:
        if e.primitive is kernels:
            yield e
        for inner in jax.tree.leaves([e.params[k] for k in ("body_jaxpr", "jaxpr") if k in e.params]):
            yield from _kernels(inner.jaxpr)


def test_the_arithmetic_around_operators_of_a_step_is_in_the_kernel():
    tendency = ti.compile(ti.parse("""f(y: tensor<float, I[1:n-1], J[0:m]>, x: tensor<float, I[0:n], J[0:m]>) {
      y ← ⟪I, 1⟫(x) - 2.0 × x + ⟪I, -1⟫(x); }"""))  # fmt: skip

    def step(x):
        return x.at[1:-1].add(0.1 * tendency(x=x)["y"])

    x = random(60, 50)
    assert staged(lambda x: step(step(x)), x) == [2]
    with jax.disable_jit():
        want = jnp.asarray(x)
        for _ in range(7):
            want = step(want)
    np.testing.assert_array_equal(jax.jit(lambda x: repeated(step, x, 7))(x), want)


def test_a_plan_of_a_loop_says_how_many_steps_a_kernel_has():
    plan = ti.loop_plan(stepped(), random(800, 500))
    assert str(plan).splitlines() == [
        "stages  1 read, 1 written: 800 × 500 points; each array is read once, and stages from a cache",
        "8 steps are one kernel, two of them a round: no state is copied",
    ]
    labelled = xr.DataArray(random(60, 50), dims=("I", "J"), coords={"I": np.arange(60.0)})
    step = ti.compile(ti.parse(DIFFUSION))
    assert ti.loop_plan(lambda h: step(x=h)["y"], labelled).steps == 1
    assert ti.loop_plan(lambda h: h + 1, labelled).regions is None


def test_xla_runs_what_is_small_and_what_it_is_told_to():
    small, large = random(12, 12), random(64, 64)
    assert calls(stepped(), small) == 0 and calls(stepped(), large) == 1
    assert calls(stepped(numerics="exact"), large) == 1  # each operation is rounded
    plain = ti.compile(ti.parse(DIFFUSION), without="native_kernels")
    assert calls(lambda x: plain(x=x), large) == 0 and not plain.plan(x=large).taken("native_kernels")
    c = ti.compile(ti.parse(DIFFUSION))
    assert c.plan(x=large).taken("native_kernels")


def test_a_plan_says_what_a_kernel_holds():
    rows = [
        d for d in ti.compile(ti.parse(chain.text())).plan(x=random(90, 85)).decisions if d.name == "native_kernels"
    ]
    assert [d.what for d in rows] == ["1 read, 1 written: 88 × 83 points, 12 stages in rings of 26 KiB"]


def test_the_choice_of_stages_is_linear_in_the_program(monkeypatch):
    def smoothed(count):
        def run(x):
            for _ in range(count):
                x = x.at[1:-1, 1:-1].set(0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]))
            return x

        return regions.flattened(jax.make_jaxpr(run)(random(90, 90)))

    def looked(count):
        closed, seen = smoothed(count), []
        monkeypatch.setattr(instances, "operands_of", lambda *a: seen.append(a[0]) or operands_of(*a))
        assert [len(r.stages) for r in regions.staged(closed).regions] == [count]
        return len(seen)

    operands_of = instances.operands_of
    assert looked(20) < 2.2 * looked(10)


def test_a_missing_llvmlite_is_said_with_the_command(monkeypatch):
    monkeypatch.setattr(custom_calls, "find_spec", lambda name: None)
    with pytest.warns(
        UserWarning, match="take 2 to 7 times as long, since llvmlite is not installed: pip install llvmlite"
    ):
        assert not custom_calls.is_available.__wrapped__()
