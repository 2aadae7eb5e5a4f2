"""Scans as kernels for CPUs: beside XLA and the oracle, under transformations, and where XLA runs them instead."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec

import tensorir as ti
from lowering.kernels import custom_calls
from lowering.kernels.positions import Entry, Index, cut, hull, is_empty
from lowering.kernels.primitive import bound
from lowering.kernels.program import bind, evaluate, flattened, program_of, values_of, variables, without_barriers
from stencils import library
from tensorir import reference
from tests.generate.data import copied
from tests.lowering.forced_kernels import regions
from tests.lowering.generated_scans import generated
from tests.lowering.test_kernels_of_gpus import AND_AFTER, LEVELS_FIRST

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

UP_AND_DOWN = """f(y: tensor<float, I[0:n], K[0:l]>, x: tensor<float, I[0:n], K[0:l+1]>, a: tensor<float, I[0:n]>) {
  y ← let up = scan(λ(s: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) → 0.5 × s + x × a, true, 0.0)
        (subset(⟪K, 1⟫(x), K[0:l]));
    scan(λ(s: tensor<float, I[0:n]>, u: tensor<float, I[0:n]>) → s × a - exp(0.0 - u × u), false, 1.0)(up) + up; }"""

PROGRAMS = {
    "both sweeps of a solver, levels innermost": (library.text("tridiagonal"), {"n": 3, "m": 11, "l": 6}),
    "levels outermost": (LEVELS_FIRST, {}),
    "levels outermost, and what is computed of each level": (AND_AFTER, {}),
    "parts of arrays, levels innermost": (UP_AND_DOWN, {"n": 13, "l": 5}),
    "fewer columns than a register has": (UP_AND_DOWN, {"n": 3, "l": 9}),
    "one level": (UP_AND_DOWN, {"n": 9, "l": 1}),
    "bits as a number without a sign": (
        """f(y: tensor<float, I[0:9], K[0:7]>, x: tensor<float, I[0:9], K[0:7]>) {
          y ← scan(λ(s: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) →
            s + cast(bitcast(cast(x × 9.0, int32), uint32) / cast(3, uint32), float64), true, 0.0)(x); }""", {}
    ),
    "no columns": (
        """f(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9]>) {
          y ← scan(λ(s: tensor<float>, x: tensor<float>) → 0.5 × s + x, true, 0.0)(x) + x; }""", {}
    ),
    "a state of two elements": (
        """f(y: tensor<(float, int), I[0:9]>, x: tensor<float, I[0:9], K[0:7]>) {
          y ← reduce(λ(s: tensor<(float, int), I[0:9]>, x: tensor<float, I[0:9]>) →
            make_tuple(max(s[0], x), if x > s[0] then s[1] + 1 else s[1]), make_tuple(0.0, 0), K)(x); }""", {}
    ),
}  # fmt: skip


def arrays(fencil):
    rng = np.random.default_rng(1)
    return {p.name: rng.normal(size=p.type.dims.shape) + 4 * (p.name == "b") for p in fencil.inputs}


def program(name):
    text, sizes = PROGRAMS[name]
    fencil = ti.parse(text)
    fencil = fencil.specialise(**sizes) if sizes else fencil
    return fencil, arrays(fencil)


def solver():
    return program("both sweeps of a solver, levels innermost")


def calls(function, *given):
    """How many kernels StableHLO has."""
    with jax.enable_x64(True):
        return jax.jit(function).lower(*given).as_text().count("custom_call @tensorir_")


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "a state of two elements"])
def test_a_kernel_computes_what_the_oracle_does(name):
    fencil, given = program(name)
    c = ti.compile(fencil)
    assert calls(lambda a: c(**a), given) == 1
    want = reference.run(fencil, **copied(given))
    for result, found in c(**copied(given)).items():
        np.testing.assert_allclose(found, want[result], rtol=1e-13, atol=1e-13)


def as_bits(values):
    """The values, and signs of zeros."""
    return [(x, np.signbit(x) & (x == 0) if x.dtype.kind == "f" else None) for x in map(np.asarray, values)]


@pytest.mark.parametrize("count", [4, pytest.param(1000, marks=pytest.mark.nightly)])
def test_generated_scans_are_as_xlas_bit_for_bit(count):
    with jax.enable_x64(True):
        for seed in range(count):
            function, given = generated(seed)
            closed = jax.make_jaxpr(function)(*given)
            found = jax.jit(lambda *xs, closed=closed: bound(closed, xs, native=True))(*given)
            try:
                np.testing.assert_equal(as_bits(found), as_bits(jax.jit(function)(*given)))
            except AssertionError:
                # a compiled program may be rewritten: x + 0 is x, also where that is -0
                with jax.disable_jit():
                    want = function(*map(jax.numpy.asarray, given))
                np.testing.assert_equal(as_bits(found), as_bits(want), err_msg=str(seed))


def test_gradients_are_one_kernel_and_those_of_xla():
    fencil, given = solver()

    def gradient(**options):
        c = ti.compile(fencil, **options)
        return lambda a: jax.grad(lambda a: (c(**a)["x"] ** 2).sum())(a)

    found = gradient()
    (_, backward) = regions(jax.jit(found), given)
    assert [len(r.sweeps) for r in backward.kernels] == [4] and not backward.left
    with jax.enable_x64(True):
        want, found = (jax.jit(f)(given) for f in (gradient(without="native_kernels"), found))
    for name in want:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-12, atol=1e-12)


def batched(c, given):
    rows = jax.vmap(lambda d: c(**{**given, "d": d})["x"])
    return rows(jax.numpy.stack([given["d"], 2 * given["d"]]))[1] / 2


def repeated(c, given):
    return jax.lax.fori_loop(0, 2, lambda _, d: c(**{**given, "d": d})["x"], given["d"])


def tangent(c, given):
    return jax.jvp(lambda d: c(**{**given, "d": d})["x"], (given["d"],), (given["d"],))[1]


def divided(c, given):
    mesh = jax.make_mesh((1,), ("p",), axis_types=(jax.sharding.AxisType.Auto,))
    place = dict.fromkeys(given, PartitionSpec("p"))
    return jax.shard_map(lambda a: c(**a)["x"], mesh=mesh, in_specs=(place,), out_specs=PartitionSpec("p"))(given)


@pytest.mark.parametrize("transformed", [batched, repeated, tangent, divided])
def test_kernels_are_inside_of_what_is_transformed(transformed):
    fencil, given = solver()
    c, plain = ti.compile(fencil), ti.compile(fencil, without="native_kernels")
    assert calls(lambda a: transformed(c, a), given) >= 1
    with jax.enable_x64(True):
        found, want = (jax.jit(lambda a, c=c: transformed(c, a))(given) for c in (c, plain))
    np.testing.assert_allclose(found, want, rtol=1e-13)


def test_literals_that_vary_over_a_mesh_are_in_kernels():
    fencil, given = program("parts of arrays, levels innermost")
    c = ti.compile(fencil)
    mesh = jax.make_mesh((1,), ("p",), axis_types=(jax.sharding.AxisType.Auto,))
    place = {"x": PartitionSpec("p"), "a": PartitionSpec()}
    function = jax.shard_map(lambda a: c(**a)["y"], mesh=mesh, in_specs=(place,), out_specs=PartitionSpec("p"))
    assert calls(function, given) == 1
    with jax.enable_x64(True):
        found = jax.jit(function)(given)
    np.testing.assert_allclose(found, reference.run(fencil, **given)["y"], rtol=1e-13, atol=1e-13)


def test_xla_runs_scans_where_kernels_cannot_or_must_not():
    fencil, given = solver()
    for options in {"numerics": "exact"}, {"without": "native_kernels"}:
        c = ti.compile(fencil, **options)
        assert calls(lambda a, c=c: c(**a), given) == 0
        assert not c.plan().taken("native_kernels")
    c = ti.compile(fencil)
    assert c.plan().taken("native_kernels")
    assert "tensorir_" not in c.export().mlir_module()
    mesh = jax.sharding.AbstractMesh((2,), ("d",), (jax.sharding.AxisType.Auto,))
    place = jax.sharding.NamedSharding(mesh, PartitionSpec())
    sharded = {n: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place) for n, x in given.items()}
    with jax.enable_x64(True):
        text = jax.jit(lambda a: c(**a)).trace(sharded).lower(lowering_platforms=("cpu",)).as_text()
    assert "tensorir_" not in text


def test_threads_share_a_kernel_and_programs_run_beside_each_other():
    fencil = ti.parse(UP_AND_DOWN).specialise(n=5000, l=40)
    given = arrays(fencil)
    c = ti.compile(fencil)
    want = ti.compile(fencil, without="native_kernels")(**given)["y"]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: c(**given)["y"], range(12)):
            np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-13)


def test_threads_are_no_more_than_asked_for(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert custom_calls.threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1000")
    assert custom_calls.threads() <= 1000


def test_compiled_kernels_are_kept_beside_xlas_programs(tmp_path):
    llvm = importlib.import_module("llvmlite.binding")
    machine = llvm.Target.from_default_triple().create_target_machine()
    text = "define i32 @f() {\n  ret i32 7\n}"
    before = ti.config.keep_compilations(tmp_path)
    try:
        code = custom_calls._object("one", text, machine)
        (file,) = tmp_path.glob("*.o")
        assert custom_calls._object("one", "no text is compiled", machine) == code
        file.write_bytes(file.read_bytes()[:-1])
        assert custom_calls._object("one", text, machine) == code
    finally:
        ti.config.keep_compilations(before)


def test_an_interface_of_xla_that_is_not_known_means_xla(monkeypatch):
    monkeypatch.setattr(custom_calls, "VERSIONS", frozenset([(9, 9)]))
    custom_calls.is_available.cache_clear()
    try:
        with pytest.warns(UserWarning, match="version .* of XLA's custom calls is not known"):
            assert not custom_calls.is_available()
        assert not custom_calls.is_available()
    finally:
        custom_calls.is_available.cache_clear()


# What programs are before kernels are made of them: updates of parts are joins, and reductions start from an identity

X = np.random.default_rng(3).integers(-9, 9, (4, 3, 5)).astype(np.int32)
UPDATES = {
    f"set {where}": lambda x, where=where: x.at[where].set(x[where] * 7 - 1)
    for where in (np.s_[1:3], np.s_[:, 2:], np.s_[0, 1, 4], np.s_[1:3, 0:2, 2:4], np.s_[3:, :1, 1:], np.s_[:], np.s_[2])
} | {
    "added in the middle": lambda x: x.at[1:3, 1:2, 1:4].add(x[:2, :1, :3]),
    "added to an element": lambda x: x.at[2, 1, 3].add(5),
    "moved inside at both ends": lambda x: lax.dynamic_update_slice(x, x[:2, :2, :2] + 50, (-9, 2, 9)),
    "in its place": lambda x: lax.dynamic_update_slice(x, x[:2, :2, :2] + 50, (1, 0, 3)),
    "outside, and dropped": lambda x: x.at[np.array(4)].set(99, mode="drop"),
    "at a place that is computed": lambda x: lax.dynamic_update_slice(x, x[:2, :2, :2] + 50, (x[0, 0, 0] % 3, 1, 2)),
    "two indices": lambda x: x.at[np.array([0, 3])].set(x[:2] - 60),
}  # fmt: skip
REDUCTIONS = {
    "sum along the first": lambda x: x.sum(0),
    "sum along the last": lambda x: x.sum(-1),
    "sum of all": lambda x: x.sum(),
    "largest of all": lambda x: x.max(),
    "least along two": lambda x: x.min((0, 2)),
    "product": lambda x: (x[:2, :2, :2] % 3 + 1).prod((1, 2)),
    "sum from seven": lambda x: lax.reduce(x, np.int32(7), lax.add, (1,)),
    "largest from four": lambda x: lax.reduce(x, np.int32(4), lax.max, (0, 1, 2)),
    "least from minus four": lambda x: lax.reduce(x, np.int32(-4), lax.min, (2,)),
}
OTHERS = {
    "a split": lambda x: lax.split(x, (1, 3, 1), axis=2),
    "a barrier": lambda x: lax.optimization_barrier((x + 1, x[1:])),
    "a function in a function": lambda x: jax.jit(lambda y: jax.jit(lax.neg)(y) + x[0])(x * 2),
    "what nothing reads": lambda x: (x * 3, x + 1)[1],
}


@pytest.mark.parametrize("name", [*UPDATES, *REDUCTIONS, *OTHERS])
def test_what_kernels_are_made_of_computes_what_jax_does(name: str):
    f = {**UPDATES, **REDUCTIONS, **OTHERS}[name]
    flat = without_barriers(flattened(jax.make_jaxpr(jax.jit(f))(X)))
    found = evaluate(flat, (X,), bind)
    for one, expected in zip(found, jax.tree_util.tree_leaves(f(jax.numpy.asarray(X))), strict=True):
        np.testing.assert_array_equal(one, expected)
    left = {e.primitive.name for e in flat.jaxpr.eqns}
    stays = {"at a place that is computed": {"dynamic_update_slice"}, "outside, and dropped": {"scatter"},
             "two indices": {"scatter"}, "set slice(None, None, None)": {"scatter"}}.get(name, set())  # fmt: skip
    gone = {"dynamic_update_slice", "scatter", "scatter-add", "split", "optimization_barrier", "jit", "reduce"}
    assert left & gone == stays
    kept = program_of(flat)
    read = [v for e in kept.equations for v in variables(e.invars)] + variables(kept.results)
    assert all(any(v in read for v in e.outvars) for e in kept.equations)
    assert all(kept.maker[v] == k for k, e in enumerate(kept.equations) for v in e.outvars)
    env = {kept.inputs[0]: X, **kept.constants}
    for e in kept.equations:
        env.update(zip(e.outvars, bind(e, values_of(e.invars, env)), strict=True))
    for one, expected in zip(values_of(kept.results, env), found, strict=True):
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("factor", [-3, -2, -1, 1, 2, 5])
@pytest.mark.parametrize("offset", [-4, 0, 3])
def test_boxes_are_cut_to_the_points_whose_index_is_inside(factor: int, offset: int):
    box = ((-2, 6), (1, 9))
    for start, stop in ((-7, 5), (0, 1), (2, 12), (3, 3), (-30, 40)):
        for symbol in (None, 0, 1):
            found = cut(box, Index(symbol, factor, offset), start, stop)
            assert found is not None
            points = [(a, b) for a in range(*box[0]) for b in range(*box[1])]
            inside = [p for p in points if start <= (0 if symbol is None else factor * p[symbol]) + offset < stop]
            assert [(a, b) for a in range(*found[0]) for b in range(*found[1])] == inside
            assert is_empty(found) == (not inside)
    moved = Index(1, factor, offset).moved(7, -2)
    assert [moved.factor * k + moved.offset for k in range(4)] == [-2 * (factor * k + offset) + 7 for k in range(4)]
    assert hull(((0, 3), (2, 4)), ((-1, 1), (3, 9))) == ((-1, 3), (2, 9)) and hull(box, None) == box
    assert cut(box, Index(Entry("table", (Index(0, 1, 0),)), 1, 0), 0, 3) is None
