"""Kernels for GPUs: against the oracle in Pallas' interpreter, and by what becomes one."""

from dataclasses import replace
from random import Random

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import tensorir as ti
from lowering.calls.estimate import device_of, estimated, lowered_for
from lowering.kernels import interpreted, parted
from lowering.kernels.equations import POINTWISE
from lowering.kernels.program import inner_programs
from stencils import library
from tensorir import reference
from tensorir.ir.types import DTYPES
from tests.generate.data import copied
from tests.generate.profiles import COMMON, EVERY, NARROW, SMALL_FLOATS, WHOLE
from tests.generate.programs import made
from tests.generate.properties import differences
from tests.lowering.forced_kernels import called, for_gpus, regions, traced

ELEMENTS = replace(WHOLE, name="ELEMENTS", elements=(*COMMON, *NARROW, *SMALL_FLOATS))

LEVELS_FIRST = """f(x: tensor<float, K[0:7], I[-2:75]>, a: tensor<float, K[0:7], I[-2:75]>,
    b: tensor<float, K[0:7], I[-2:75]>, c: tensor<float, K[0:7], I[-2:75]>, d: tensor<float, K[0:7], I[-2:75]>) {
  x ← let eliminated = scan(λ(before: tensor<(float, float), I[-2:75]>, a: tensor<float, I[-2:75]>,
        b: tensor<float, I[-2:75]>, c: tensor<float, I[-2:75]>, d: tensor<float, I[-2:75]>) →
        let pivot = b - a × before[0]; make_tuple(c / pivot, (d - a × before[1]) / pivot),
      true, make_tuple(0.0, 0.0))(a, b, c, d);
    scan(λ(above: tensor<float, I[-2:75]>, row: tensor<(float, float), I[-2:75]>) → row[1] - row[0] × above,
      false, 0.0)(eliminated); }"""

AND_AFTER = LEVELS_FIRST.replace("x ← let", "x ← let solved = let").replace(
    "(eliminated); }", "(eliminated); solved × a + b; }"
)

PROGRAMS = {
    "one-sided shifts, a negative start": """f(y: tensor<float, I[-3:70]>, x: tensor<float, I[-3:72]>,
      c: tensor<float, I[-3:70]>) { y ← c × (⟪I, 2⟫(x) - x); }""",
    "closures on parts": """f(y: tensor<float, I[0:19], J[0:7]>, x: tensor<float, I[0:19], J[0:7]>) {
      y ← 2.0 × x;
      y[I[1:18]] ← ⟪I, 1⟫(x) × x;
      y[I[2:17], J[2:5]] ← y + ⟪J, 2⟫(x) - ⟪I, -2⟫(x); }""",
    "conditions on coordinates, joined parts": """f(y: tensor<float, I[1:40]>, x: tensor<float, I[0:41]>) {
      y ← let d = ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
        concat(subset(if pos(I, x) > 7 then d else 0.5 × d, I[1:30]), subset(⟪I, 1⟫(x), I[30:40])); }""",
    "results of two elements": """f(y: tensor<float, I[1:40]>, k: tensor<int, I[1:40]>, x: tensor<float, I[0:41]>) {
      y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); k ← if ⟪I, 1⟫(x) > x then 1 else -1; }""",
    "results of two shapes": """f(y: tensor<float, I[1:40], J[0:3]>, z: tensor<float, I[0:40], J[0:3]>,
      x: tensor<float, I[0:41], J[0:3]>) { y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); z ← ⟪I, 1⟫(x) × x; }""",
    "levels outermost, both sweeps, and what is computed of each level": AND_AFTER,
    "an array of which a scan reads less than what comes after it": """f(y: tensor<float, K[0:5], I[0:40]>,
      a: tensor<float, K[0:5], I[0:40]>, b: tensor<float, K[0:5], I[0:40]>) {
      y ← let s = scan(λ(before: tensor<float, I[0:40]>, row: tensor<float, I[0:40]>) → 0.5 × before + row,
        true, 0.0)(concat(subset(b, K[0:2]), subset(a, K[2:5]))); s × a; }""",
    "absent neighbours": """f(y: tensor<float, V[0:50], K[0:3]>, x: tensor<float, V[0:50], K[0:3]>,
      T: tensor<int, V[0:50], _NB_V[0:4]>) { y ← reduce(+, 0.0)(⟪T⟫(x)) + x; }""",
    "the greatest neighbour, and NaN": """f(y: tensor<float, I[1:40]>, x: tensor<float, I[0:41]>) {
      y ← max(⟪I, 1⟫(x), min(x, ⟪I, -1⟫(x))); }""",
}  # fmt: skip


def arrays(fencil):
    rng = np.random.default_rng(1)

    def one(p):
        if p.name == "T":
            return rng.integers(-1, 50, p.type.dims.shape, "int32")
        return rng.normal(size=p.type.dims.shape) + 3 * (p.name == "b")

    return {p.name: one(p) for p in fencil.inputs}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_computes_what_the_oracle_does(name):
    fencil = ti.parse(PROGRAMS[name])
    given = arrays(fencil)
    if name.endswith("NaN"):
        given["x"][::5] = np.nan
    want = reference.run(fencil, **copied(given))
    function, passed, _ = traced(fencil, copied(given))
    assert sum(len(p.kernels) for p in regions(function, passed)) >= 1
    for result, (found,) in called(fencil, copied(given)).items():
        np.testing.assert_allclose(found, want[result], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("element", ["float", "float32", "float16", "bfloat16"])
def test_extremes_in_kernels_keep_the_signs_of_zeros(element):
    y = f"tensor<{element}, I[0:15]>"
    fencil = ti.parse(f"""f(y: {y}, z: {y}, x: tensor<{element}, I[0:16]>) {{
      y ← min(x, ⟪I, 1⟫(x)); z ← max(x, ⟪I, 1⟫(x)); }}""")
    x = np.tile([0.0, -0.0, -0.0, 0.0, 0.0, 1.0, -0.0, -1.0], 2).astype(DTYPES[fencil["x"].type.element])
    function, passed, _ = traced(fencil, {"x": x})
    assert regions(function, passed)
    want = reference.run(fencil, x=x)
    for result, (found,) in called(fencil, {"x": x}).items():
        assert found.tobytes() == want[result].tobytes()


@pytest.mark.parametrize(("element", "used"), [("float32", "mul"), ("int32", "neg")])
def test_a_kernel_negates_floats_by_a_product(element, used):
    # Triton's negation is 0 - x, which is 0.0 of 0.0
    assert POINTWISE["neg"].compute is not None
    (e,) = jax.make_jaxpr(POINTWISE["neg"].compute)(np.zeros((), element)).eqns
    assert e.primitive.name == used


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no GPU")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_on_the_device_computes_what_the_oracle_does(name):
    fencil = ti.parse(PROGRAMS[name])
    given = arrays(fencil)
    want = reference.run(fencil, **copied(given))
    for result, found in ti.compile(fencil)(**copied(given)).items():
        np.testing.assert_allclose(found, want[result], rtol=1e-13, atol=1e-13)


MANY = pytest.mark.parametrize("count", [3, pytest.param(100, marks=pytest.mark.nightly)])


@MANY
def test_generated_programs_in_kernels_agree_with_the_oracle(count):
    draw, compared = Random(count).randint, 0
    while compared < count:
        case = made(draw, ELEMENTS)
        try:
            want = reference.run(case.fencil, **copied(case.arguments))
            function, passed, _ = traced(case.fencil, copied(case.arguments))
        except ti.DiagnosticError:
            continue
        if regions(function, passed):
            found = called(case.fencil, copied(case.arguments))
            want = {n: v if isinstance(v, tuple) else (v,) for n, v in want.items() if n in found}
            assert not differences(case, want, found), differences(case, want, found)
            compared += 1


def lowered(function, *arrays):
    """How many kernels StableHLO for NVIDIA's GPUs has; Pallas makes them without a compiler for those."""
    with jax.enable_x64(True), lowered_for("cuda:h100"):
        text = jax.jit(function).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    return text.count("__gpu$xla.gpu.triton")


def kernels_of(parts):
    """How many kernels a program has, those of its loops and conditionals too."""
    inner = (closed for e in parts.left for closed in inner_programs(e))
    return len(parts.kernels) + sum(kernels_of(parted(closed)) for closed in inner)


@MANY
def test_generated_programs_of_all_elements_lower_to_kernels(count):
    draw, found = Random(count).randint, 0
    while found < count:
        case = made(draw, EVERY)
        try:
            function, passed, _ = traced(case.fencil, copied(case.arguments))
        except ti.DiagnosticError:
            continue
        parts = regions(function, passed)
        if parts:
            with jax.enable_x64(True):
                assert lowered(function, passed) == sum(map(kernels_of, parts))
            found += 1


def test_kernels_are_inside_of_shard_map_too():
    c = for_gpus(ti.parse(LEVELS_FIRST))
    device = jax.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    mesh = jax.sharding.AbstractMesh((1,), ("d",), (jax.sharding.AxisType.Auto,), abstract_device=device)
    column = PartitionSpec(None, "d")

    def mapped(given):
        specs = (dict.fromkeys(given, column),)
        return jax.shard_map(lambda a: c(**a)["x"], mesh=mesh, in_specs=specs, out_specs=column)(given)

    shapes = {n: jax.ShapeDtypeStruct((7, 77), "float64") for n in "abcd"}
    assert lowered(mapped, shapes) == 1
    assert lowered(jax.grad(lambda a: mapped(a).sum()), shapes) == 1


def test_arrays_that_xla_divides_among_devices_and_exported_programs_have_no_kernels():
    c = for_gpus(ti.parse(LEVELS_FIRST.replace("75]", "76]")))
    mesh = jax.sharding.AbstractMesh((2,), ("d",), (jax.sharding.AxisType.Auto,))
    for place, kernels in (None, 1), (jax.sharding.NamedSharding(mesh, PartitionSpec(None, "d")), 0):
        shapes = {n: jax.ShapeDtypeStruct((7, 78), "float64", sharding=place) for n in "abcd"}
        assert lowered(lambda a: c(**a)["x"], shapes) == kernels
    assert "triton" not in c.export().mlir_module()


def adjoint_of(program, gradient, sizes):
    """A program for GPUs, or its gradient where that is asked, as a function of arrays, and their shapes."""
    executable, shapes = for_gpus(ti.parse(program))._ready(sizes)

    def run(arrays):
        return executable.run({**executable.constants, **arrays}, executable.differentiable)[0]

    def total(some, rest):
        return sum(x.sum() for leaves in run({**rest, **some}).values() for x in leaves)

    def adjoint(arrays):
        return jax.grad(total)({n: arrays[n] for n in gradient}, arrays)

    return (adjoint if gradient else run), shapes


def kernels(program, *, gradient=(), **sizes):
    """Of each kernel of a program, or of its gradient, its shape, and how many arrays it reads and writes."""
    # what comes forward in the gradient is asked of nobody
    parts = regions(*adjoint_of(program, gradient, sizes))[-1]
    return [(r.shape, len(r.reads), len(parts.results_of(r))) for r in parts.kernels], len(parts.left)


def test_horizontal_diffusion_is_one_kernel_that_moves_three_arrays():
    assert kernels(library.text("hdiff"), n=256, m=256, l=80) == ([((256, 256, 80), 2, 1)], 0)


LOOP = """f(y: tensor<float, I[0:40]>, x: tensor<float, I[0:40]>) {
  y ← loop(0, 12)(λ(i: tensor<int>, s: tensor<float, I[0:40]>) → true,
    λ(i: tensor<int>, s: tensor<float, I[0:40]>) →
      {update(s, 0.5 × (⟪I, 1⟫(s) + ⟪I, -1⟫(s)))}, x); }"""


def test_steps_of_loops_are_kernels_in_loops_of_xla():
    fencil = ti.parse(LOOP)
    given = arrays(fencil)
    rows = for_gpus(fencil).plan()["kernels"]
    assert [(d.what, d.reason) for d in rows] == [("scan is XLA's", "what it runs has 1 kernel")]
    ((found,),) = called(fencil, given).values()
    np.testing.assert_allclose(found, reference.run(fencil, **given)["y"], rtol=1e-14)
    function, passed, _ = traced(fencil, given)
    assert lowered(function, passed) == 1


def test_results_of_about_one_shape_are_one_kernel():
    assert kernels(PROGRAMS["results of two shapes"]) == ([((40, 3), 1, 2)], 0)


def test_the_gradient_of_horizontal_diffusion_is_two_kernels():
    found, left = kernels(library.text("hdiff"), gradient=("inp",), n=256, m=256, l=80)
    assert (len(found), left) == (2, 0)


def test_both_sweeps_of_a_tridiagonal_solver_are_one_kernel():
    # the two coefficients in between stay in memory
    assert kernels(LEVELS_FIRST) == ([((77,), 4, 3)], 0)


def test_the_gradient_of_a_tridiagonal_solver_is_one_kernel():
    found, _ = kernels(LEVELS_FIRST, gradient=("a", "d"))
    assert len(found) == 1


def test_what_is_computed_of_each_level_of_a_scan_is_in_its_kernel():
    # besides x, the two coefficients in between, and no solution of the system itself
    assert kernels(AND_AFTER) == ([((77,), 4, 3)], 0)


def test_a_chain_of_stencils_is_stored_where_computing_it_again_would_cost_more():
    steps = "".join(
        f"let x{k + 1} = ⟪I, 1⟫(x{k}) + ⟪I, -1⟫(x{k}) + ⟪J, 1⟫(x{k}) + ⟪J, -1⟫(x{k}) - 4.0 × x{k};\n" for k in range(6)
    )
    text = f"f(y: tensor<float, I[6:90], J[6:90]>, x0: tensor<float, I[0:96], J[0:96]>) {{ {steps} y ← x6; }}"
    found, left = kernels(text)
    assert [(reads, written) for _, reads, written in found] == [(1, 1)] * 3
    assert left == 0


def test_what_is_pointwise_alone_and_products_stay_with_xla():
    text = """f(y: tensor<float, I[0:64], J[0:64]>, z: tensor<float, I[1:63]>, x: tensor<float, I[0:64], J[0:64]>,
      w: tensor<float, I[0:64]>) { y ← exp(x) × x; z ← ⟪I, 1⟫(w) - ⟪I, -1⟫(w); }"""
    c = for_gpus(ti.parse(text))
    rows = c.plan()["kernels"]
    assert [(d.what, d.where, d.taken) for d in rows] == [
        ("1 read, 1 written: 62 points", "of z", True),
        ("mul is XLA's", "of y", False),
    ]
    assert str(c.pipeline()["kernels"]).splitlines() == [
        "kernels: each array is read once, and states stay in registers",
        "  grid: 1 read, 1 written: 62 points, of z",
        "  XLA: mul is XLA's, of y",
    ]
    assert "kernels" not in str(for_gpus(ti.parse(text), without="kernels").pipeline())
    assert not for_gpus(ti.parse(text), without="kernels").plan()["kernels"]
    (refused,) = for_gpus(ti.parse(text), numerics="exact").plan()["kernels"]
    assert (refused.taken, refused.what) == (False, "XLA's own kernels")


def test_derivatives_of_kernels_are_those_of_the_program():
    fencil = ti.parse(PROGRAMS["one-sided shifts, a negative start"])
    function, given, _ = traced(fencil, arrays(fencil))
    plain, c = ti.compile(fencil), given["c"][0]
    with jax.enable_x64(True):
        x = jax.numpy.asarray(given["x"][0])

    def ours(x):
        return (function({"x": (x,), "c": (c,)})["y"][0] ** 3).sum()

    def theirs(x):
        return (plain(x=x, c=c)["y"] ** 3).sum()

    def transformed(f):
        """Forward over reverse, and reverse in a batch: one program."""

        def run(x):
            return jax.jvp(jax.grad(f), (x,), (x,))[1], jax.vmap(jax.grad(f))(jax.numpy.stack([x, 2 * x]))

        return run

    with jax.enable_x64(True):
        found, want = jax.jit(interpreted(transformed(ours)))(x), jax.jit(transformed(theirs))(x)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.fixture
def h100():
    try:
        return jax.sharding.SingleDeviceSharding(device_of("cuda:h100"))
    except ti.DiagnosticError as refused:
        if [d.code for d in refused.diagnostics] != ["A38"]:
            raise
        pytest.skip(str(refused))  # the compiler is an optional extra


@pytest.mark.parametrize(
    ("program", "gradient", "sizes", "kernels", "arrays"),
    [
        (library.text("hdiff"), (), {"n": 256, "m": 256, "l": 80}, 1, 3),
        (library.text("hdiff"), ("inp",), {"n": 256, "m": 256, "l": 80}, 3, 9),
        (LEVELS_FIRST, (), {}, 1, 7),
    ],
    ids=["hdiff", "its gradient", "tridiagonal"],
)
def test_kernels_compile_for_a_device_that_is_not_there(h100, program, gradient, sizes, kernels, arrays):
    function, shapes = adjoint_of(program, gradient, sizes)
    given = jax.tree_util.tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=h100), shapes)
    with jax.enable_x64(True):
        found = estimated("cuda:h100", jax.jit(function), given)
    size = max(np.prod(leaf.shape) * 8 for leaf in jax.tree_util.tree_leaves(shapes))
    assert found.kernels <= kernels
    assert found.bytes_accessed <= arrays * size
    assert found.spilled in (0, None)  # nobody counts where the assembler is not installed


@pytest.mark.parametrize("name", ["hdiff", "tridiagonal"])
def test_programs_for_cpus_have_no_kernels(name):
    fencil, sizes = ti.parse(library.text(name)), {"n": 8, "m": 8, "l": 4}
    plain = ti.compile(fencil, without="native_kernels")
    assert plain.stablehlo(**sizes) == ti.compile(fencil, without=("native_kernels", "kernels")).stablehlo(**sizes)
    assert "kernels[" not in plain.jaxpr(**sizes)
    assert "kernels[" in for_gpus(fencil).jaxpr(**sizes)


def test_a_program_with_kernels_is_one_of_lax_where_there_is_no_gpu():
    fencil = ti.parse(LEVELS_FIRST)
    given = arrays(fencil)
    plain = ti.compile(fencil, without="native_kernels")
    np.testing.assert_allclose(for_gpus(fencil)(**given)["x"], plain(**given)["x"], rtol=1e-14)
