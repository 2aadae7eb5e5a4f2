"""Scans in blocks, and loops written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from stencils import library
from tensorir import reference
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder, values
from tensorir.passes import FuseIntoScans, SplitScans
from tensorir.passes.base import shown
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.simplify import UnrollLoops

# What moves into and out of the steps of scans, and what stays


COLUMNS = {"I": (0, 5), "K": (0, 9)}
LEVELS = {"K": (0, 9), "I": (0, 5)}


def step(body, *operands):
    params = ", ".join(f"{p}: tensor<float, I[0:5]>" for p in ("s", *operands))
    return f"scan(λ({params}) → {body}, true, 0.0)"


@pytest.mark.parametrize(
    ("body", "dims", "split"),
    [
        ("a × b + s", COLUMNS, True),
        ("a × b + s", LEVELS, False),  # they lie level by level: nothing is copied
        ("a × s + b", COLUMNS, False),  # nothing that is of operands alone
        ("a × b + s × a", COLUMNS, False),  # two arrays are copied as before
        ("(a × b) × s + (a - b)", COLUMNS, False),  # two for two
    ],
)
def test_operands_are_combined_before_a_scan_where_fewer_arrays_are_copied(body, dims, split):
    text = f"{step(body, 'a', 'b')}(x, y)"
    assert (shown(SplitScans(), text, x=dims, y=dims).count("of") > 0) == split


def test_parts_of_an_array_are_copied_however_it_lies():
    text = f"{step('s + a × b', 'a', 'b')}(subset(x, K[0:8]), subset(⟪K, 1⟫(x), K[0:8]))"
    assert "subset(x, K[0:8]) × subset(⟪K, 1⟫(x), K[0:8])" in shown(SplitScans(), text, x=LEVELS)


def test_an_operand_without_the_dim_stays_though_it_is_combined():
    text = f"{step('s + a × b × c', 'a', 'b', 'c')}(x, y, z)"
    assert shown(SplitScans(), text, x=COLUMNS, y=COLUMNS, z={"I": (0, 5)}).endswith("(x × y × z)")


PAIR = "scan(λ(s: tensor<(float, float)>, v: tensor<float>) → (s[0] + v, s[1] × v), true, (0.0, 1.0))(x)"


@pytest.mark.parametrize(
    ("result", "components"),
    [
        ("t[0] + t[1]", 3),
        ("t[0] × t[0]", 2),  # one array for one
        ("(t[0] + t[1], t[0])", 2),  # two for two
        ("t[0] + t[1] + x", 3),  # the sum of the states alone
        ("(t, t[0] + t[1])", 2),  # the states are asked for
        ("⟪K, 1⟫(t[0]) + t[1]", 2),  # not at one place
    ],
)
def test_what_is_computed_of_states_alone_is_computed_in_the_step(result, components):
    after = shown(FuseIntoScans(), f"let t = {PAIR}; {result}", x={"K": (0, 9)})
    assert f"tensor<({', '.join(['float'] * components)})>" in after


@pytest.mark.parametrize(
    ("first", "second", "decided"),
    [
        # two components of 72 bytes are stored, or what is read of them and of what is computed
        ("t[0] / t[1]", "x", ("1 result", True, 72)),
        ("t[0] / t[1]", "t[0]", ("1 result", False, 0)),
        ("t[0] × 2.0", "x", ("1 result", False, 0)),
        ("t[0] / t[1]", "t[1] × 2.0 + x", ("2 results", False, 0)),
        ("t[0]", "t[1]", None),
        ("t[0] / t[1]", "⟪K, 0⟫(t)[0]", None),
        ("t[0] / t[1]", "(λ(u: tensor<(float, float), K[0:9]>) → u[0] + u[1])(t)", None),
    ],
)
def test_results_are_computed_in_the_step_where_that_stores_fewer_bytes(first, second, decided):
    program = ti.parse(f"""
      f(y: tensor<float, K[0:9]>, z: tensor<float, K[0:9]>, x: tensor<float, K[0:9]>) {{
        let t = scan(λ(s: tensor<(float, float)>, v: tensor<float>) → (s[0] + v, s[1] × v), true, (0.0, 1.0))(x);
        y ← {first};
        z ← {second};
      }}""")
    fused = FuseIntoScans()(program)
    found = [(d.what, d.taken, d.value) for d in FuseIntoScans().decided(program, fused)]
    assert found == ([] if decided is None else [(f"{decided[0]} computed by the step", *decided[1:])])
    assert (fused is program) == (decided is None or not decided[1])


def test_a_scan_that_sums_its_states_is_what_numpy_makes_of_it():
    f = ti.parse(f"f(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9]>) {{ y ← let t = {PAIR}; t[0] + t[1]; }}")
    x = np.linspace(0.5, 1.5, 9)
    np.testing.assert_allclose(ti.compile(f)(x=x)["y"], np.cumsum(x) + np.cumprod(x), rtol=1e-14)
    assert ti.compile(f).pipeline()["fuse_into_scans"].changed


# Scans on blocks of columns, against the oracle and against the program as it is written

PROGRAMS = {
    "one dim of columns, from below, with an extent that is prime": """f(y: tensor<float, I[-3:10], K[1:6]>,
      x: tensor<float, I[-3:10], K[1:6]>) {
      y ← scan(λ(s: tensor<float, I[-3:10]>, a: tensor<float, I[-3:10]>) → 0.5 × s + a, true, 1.0)(x); }""",
    "what is computed before and after the sweeps": """f(y: tensor<float, I[0:5], J[2:9], K[0:4]>,
      x: tensor<float, I[0:5], J[2:9], K[0:4]>, w: tensor<float>) {
      let up = scan(λ(s: tensor<float, I[0:5], J[2:9]>, a: tensor<float, I[0:5], J[2:9]>) → w × s + a, true, 0.0)(
        exp(x));
      let down = scan(λ(s: tensor<float, I[0:5], J[2:9]>, a: tensor<float, I[0:5], J[2:9]>) → w × s + a, false, 0.0)(
        up);
      y ← w × down - x; }""",
    "shifts across the columns before, and along them everywhere": """f(y: tensor<float, I[1:8], J[0:6], K[0:4]>,
      x: tensor<float, I[0:9], J[0:6], K[0:5]>) {
      let wide = ⟪I, 1⟫(x) + ⟪I, -1⟫(x);
      let a = subset(⟪K, 1⟫(wide) - wide, K[0:4]);
      let up = scan(λ(s: tensor<float, I[1:8], J[0:6]>, a: tensor<float, I[1:8], J[0:6]>) → 0.5 × s + a, true, 0.0)(a);
      y ← up × subset(x, I[1:8], K[0:4]); }""",
    "operands without the dims of the columns, and with one of two": """f(y: tensor<float, I[0:5], J[0:6], K[0:4]>,
      x: tensor<float, I[0:5], J[0:6], K[0:4]>, level: tensor<float, K[0:4]>, row: tensor<float, J[0:6]>) {
      y ← row × scan(λ(s: tensor<float, I[0:5], J[0:6]>, a: tensor<float, I[0:5], J[0:6]>, b: tensor<float>) →
        b × s + a, true, 0.0)(x, level); }""",
    "shifts across the columns after": """f(y: tensor<float, I[1:8], K[0:4]>, x: tensor<float, I[0:9], K[0:4]>) {
      let up = scan(λ(s: tensor<float, I[0:9]>, a: tensor<float, I[0:9]>) → 0.5 × s + a, true, 0.0)(x);
      y ← ⟪I, 1⟫(up) - ⟪I, -1⟫(up); }""",
    "a pair of states, of which one is stored": """f(y: tensor<float, I[0:7], K[0:4]>,
      x: tensor<float, I[0:7], K[0:4]>) {
      let up = scan(λ(s: tensor<(float, float), I[0:7]>, a: tensor<float, I[0:7]>) → (0.5 × s[1] + a, s[0] - a),
        true, (0.0, 1.0))(x);
      y ← up[0] / up[1]; }""",
    "a choice by level": """f(y: tensor<float, I[0:7], K[0:4]>, x: tensor<float, I[0:7], K[0:4]>) {
      let low = pos(K, add_dim(K, 0, 4, 0)) < 2;
      y ← scan(λ(s: tensor<float, I[0:7]>, a: tensor<float, I[0:7]>) → max(s, a), false, -inf)(
        if low then x else -x); }""",
}  # fmt: skip


def arrays(fencil):
    rng = np.random.default_rng(3)
    return {p.name: rng.normal(size=p.type.dims.shape) for p in fencil.inputs}


def compiled(fencil, block=200, **options):
    """The program with blocks of a few columns, whatever pays."""
    passes = [*ti.passes.DEFAULT_PASSES[:-1], BlockScans(block=block, least=0)]
    return ti.compile(fencil, passes=passes, **{"without": "native_kernels", **options})


def plain(fencil):
    return ti.compile(fencil, passes=ti.passes.DEFAULT_PASSES[:-1])


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("block", [160, 400])
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_columns_give_what_the_oracle_gives(name, block, numerics):
    f = ti.parse(PROGRAMS[name])
    c, given = compiled(f, block, numerics=numerics), arrays(f)
    assert "blocked(" in str(c.pipeline().result)
    np.testing.assert_allclose(c(**given)["y"], ti.reference.run(f, **given)["y"], rtol=1e-12, atol=1e-12)


def test_scans_whose_functions_take_more_points_than_they_give_are_not_blocked():
    f = ti.parse("""f(y: tensor<float, I[1:6], J[0:5], K[0:4]>,
      x: tensor<float, I[0:8], J[0:5], K[0:4]>, z: tensor<float, I[0:9], J[0:5], K[0:4]>) {
      y ← scan(λ(s: tensor<float, I[1:6], J[0:5]>, a: tensor<float, I[0:8], J[0:5]>, b: tensor<float, I[1:6], J[0:5]>) →
        ⟪I, 1⟫(a) × s + b, true, 1.0)(x, z); }""")
    c, given = compiled(f), arrays(f)
    assert "blocked(" not in str(c.pipeline().result)
    np.testing.assert_allclose(c(**given)["y"], ti.reference.run(f, **given)["y"], rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_and_batches_go_through_blocks(name):
    f = ti.parse(PROGRAMS[name])
    given = arrays(f)
    x = given.pop("x")

    def total(program):
        return lambda x: jnp.sum(jnp.sin(program(x=x, **given)["y"]))

    with jax.enable_x64(True):
        ours, wanted = total(compiled(f)), total(plain(f))
        np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(wanted)(x), rtol=1e-12, atol=1e-12)
        tangent = [jax.jvp(g, (x,), (np.cos(x),))[1] for g in (ours, wanted)]
        np.testing.assert_allclose(*tangent, rtol=1e-12)
        batch = np.stack([x, 2 * x, x - 1])
        np.testing.assert_allclose(jax.vmap(ours)(batch), jax.vmap(wanted)(batch), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", [{"n": 5, "m": 7, "l": 6}, {"n": 13, "m": 1, "l": 3}, {"n": 1, "m": 11, "l": 4}])
@pytest.mark.parametrize("name", ["tridiagonal", "vertical_advection"])
def test_the_library_s_solvers_are_one_block_function_each(name, sizes):
    f = library.load(name).bind(**sizes)
    c, rng = compiled(f, block=2000), np.random.default_rng(0)
    assert str(c.pipeline().result).count("blocked(") == 1
    given = {p.name: rng.uniform(1.0, 2.0, p.type.dims.shape) for p in f.bind().program.inputs}
    (out,) = (p.name for p in f.bind().program.results)
    wanted = ti.reference.run(f, **given)[out]
    np.testing.assert_allclose(c(**given)[out], wanted, rtol=1e-12, atol=1e-12)


def test_a_neighbour_that_is_absent_stays_so_in_a_block():
    text = """f(y: tensor<float, V[0:9], K[0:3]>, x: tensor<float, V[0:9], K[0:3]>,
      N: tensor<int, V[0:9], _NB_V[0:2]>) {
      let sums = reduce(+, 0.0)(⟪N⟫(x));
      y ← scan(λ(s: tensor<float, V[0:9]>, a: tensor<float, V[0:9]>) → 0.5 × s + a, true, 0.0)(sums); }"""
    table = np.stack([np.arange(9) - 1, (np.arange(9) + 1) % 9], 1).astype(np.int32)
    f = ti.parse(text).bind(N=table)
    x = np.random.default_rng(1).normal(size=(9, 3))
    c = compiled(f, 160)
    assert "blocked(" in str(c.pipeline().result)
    np.testing.assert_allclose(c(x=x)["y"], ti.reference.run(f, x=x)["y"], rtol=1e-13)


ACROSS = """f(y: tensor<float, I[0:9], K[0:3]>, x: tensor<float, I[0:9], K[0:3]>) {
  let up = scan(λ(s: tensor<float, I[0:9]>, a: tensor<float, I[0:9]>) → s + a, true, 0.0)(x);
  let mean = reduce(+, 0.0, I)(up);
  %s }"""


def test_what_is_read_across_the_columns_and_then_along_them_ends_a_block():
    f = ti.parse(ACROSS % "y ← up - mean;")
    given, c = arrays(f), compiled(f)
    assert str(c.pipeline().result).count("blocked(") == 1
    up = np.cumsum(given["x"], 1)
    np.testing.assert_allclose(c(**given)["y"], up - up.sum(0), rtol=1e-13)
    again = """let down = scan(λ(s: tensor<float, I[0:9]>, a: tensor<float, I[0:9]>) → s + a, false, 0.0)(up - mean);
      y ← down × up;"""
    f = ti.parse(ACROSS % again)
    c = compiled(f)
    # what the first region gives is read by the second, and across the columns between them
    assert str(c.pipeline().result).count("blocked(") == 2
    np.testing.assert_allclose(c(**given)["y"], np.cumsum((up - up.sum(0))[:, ::-1], 1)[:, ::-1] * up, rtol=1e-13)


SHARED = """f(a: tensor<float, I[0:9], K[0:4]>, b: tensor<float, I[0:9], K[1:4]>, c: tensor<float, I[0:9]>,
  x: tensor<float, I[0:9], K[0:4]>) {
  let up = scan(λ(s: tensor<float, I[0:9]>, v: tensor<float, I[0:9]>) → 0.5 × s + v, true, 0.0)(x);
  a ← up + x;
  b ← up - ⟪K, -1⟫(up);
  c ← reduce(max, -inf, K)(up); }"""


def test_a_scan_that_several_results_share_is_computed_once_for_all_of_them():
    f = ti.parse(SHARED)
    c, given = compiled(f), arrays(f)
    result = c.pipeline().result
    blocks = [n for n in postorder(*values(result.closures)) if isinstance(n, Call) and n.op == "blocked"]
    assert len(blocks) == 3 and len({id(n.args[0]) for n in blocks}) == 1
    assert ti.parse(str(result)) == result
    assert c.jaxpr().count("scan[") == 2  # of blocks, and of levels
    (row,) = c.plan()["block_scans"][-1:]
    assert row.where == "1 scan of a, b, c"
    for one in (c(**given), ti.reference.run(result, **given)):
        for name, wanted in ti.reference.run(f, **given).items():
            np.testing.assert_allclose(one[name], wanted, rtol=1e-13)
    assert c.cost().operations == ti.compile(f, passes=()).cost().operations


def test_gradients_of_all_results_go_through_one_function_of_blocks():
    f = ti.parse(SHARED)
    x = arrays(f)["x"]

    def total(program):
        return lambda x: sum(jnp.sum(jnp.sin(v)) for v in program(x=x).values())

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(total(compiled(f)))(x), jax.grad(total(plain(f)))(x), rtol=1e-12)


def test_few_columns_and_scanned_outermost_dims_are_not_blocked():
    f = ti.parse(PROGRAMS["one dim of columns, from below, with an extent that is prime"])
    assert not ti.compile(f).pipeline()["block_scans"].changed
    across = "f(y: tensor<float, K[0:9], I[0:9]>, x: tensor<float, K[0:9], I[0:9]>) { y ← %s(x); }"
    step = "scan(λ(s: tensor<float, I[0:9]>, a: tensor<float, I[0:9]>) → s + a, true, 0.0)"
    assert not compiled(ti.parse(across % step)).pipeline()["block_scans"].changed


def test_only_cpus_have_blocks():
    assert BlockScans().on("gpu") is None and BlockScans().on("tpu") is None and BlockScans().on("cpu") is not None


@pytest.mark.parametrize(
    "wrong, told",
    [
        ("blocked(0, 2, J)(λ(a: tensor<float, I[0:4]>) → a, x)", "has no dim J"),
        ("blocked(0, 0, I)(λ(a: tensor<float, I[0:4]>) → a, x)", "a block has 0 points of I"),
        ("blocked(0, 2, I, I)(λ(a: tensor<float, I[0:4]>) → a, x)", "a block has 2 points of I, I"),
        ("blocked(1, 2, I)(λ(a: tensor<float, I[0:4]>) → a, x)", "there is no result 1: they count from 0 to 0"),
    ],
)
def test_a_block_of_no_points_or_of_another_dim_is_refused(wrong, told):
    with pytest.raises(ti.DiagnosticError, match=told):
        ti.parse(f"f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) {{ y ← {wrong}; }}")


def test_blocks_of_no_function_and_of_a_result_that_there_is_not_are_refused_with_their_place():
    program = "f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← %s; }"
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse(program % "blocked(0, 2, I)()")
    assert str(refused.value) == (
        "<text>:1:61: error[T46]: there is no function.\n"
        "  f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← blocked(0, 2, I)(); }\n"
        "                                                              ^^^^^^^^^^^^^^^^^^\n"
        "help: write blocked(0, 8, I, J)(f, x)."
    )
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse(program % "blocked(2, 2, I)(λ(a) → {a, a + 1.0}, x)")
    assert str(refused.value) == (
        "<text>:1:61: error[T46]: there is no result 2: they count from 0 to 1.\n"
        "  f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← blocked(2, 2, I)(λ(a) → {a, a + 1.0}, x); }\n"
        "                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_a_function_whose_points_are_not_independent_is_applied_as_it_stands():
    text = """f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) {
      y ← blocked(0, 2, I)(λ(a: tensor<float, I[0:5]>) → ⟪I, 1⟫(a) - subset(a, I[0:4]), x); }"""
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    np.testing.assert_array_equal(ti.compile(ti.parse(text))(x=x)["y"], [1.0, 2.0, 4.0, 8.0])
    np.testing.assert_array_equal(ti.reference.run(ti.parse(text), x=x)["y"], [1.0, 2.0, 4.0, 8.0])


# Short loops that always run, written out for GPUs

MAXIMA = """f(last: tensor<float, I[0:4]>, before: tensor<float, K[0:3], I[0:4]>, x: tensor<float, I[0:4], N[0:3]>) {
  last ← loop(1, 3)(
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) → true,
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) →
      {scatter(λ(old: tensor<float>, new: tensor<float>) → new, K, over: (), clamp)(before, n, m),
       max(m, gather(N, clamp)(x, n))}, add_dim(K, 0, 3, add_dim(I, 0, 4, 0.0)), add_dim(I, 0, 4, 0.5));
  before ← loop(0, 3)(
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) → true,
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) →
      {scatter(λ(old: tensor<float>, new: tensor<float>) → new, K, over: (), clamp)(before, n, m),
       max(m, gather(N, clamp)(x, n))}, add_dim(K, 0, 3, add_dim(I, 0, 4, 0.0)), add_dim(I, 0, 4, 0.5)); }"""


def test_rounds_that_read_and_put_at_their_number_have_the_values_of_the_loop():
    x = np.random.default_rng(0).random((4, 3)) + 0.2
    written = UnrollLoops()(ti.parse(MAXIMA))
    assert "loop(" not in str(written) and "scatter(" not in str(written)
    found = reference.run(written, x=x)
    running = np.maximum(0.5, np.maximum.accumulate(x, 1))
    np.testing.assert_array_equal(found["last"], running[:, -1])
    np.testing.assert_array_equal(found["before"], np.stack([np.full(4, 0.5), running[:, 0], running[:, 1]]))


ONE = """f(y: tensor<float>, x: tensor<float, N[0:3]>) {
  y ← loop(0, LIMIT)(λ(n: tensor<int>, s: tensor<float>) → CONDITION,
    λ(n: tensor<int>, s: tensor<float>) → {s + gather(N, MODE)(x, n)}, 0.0); }"""


@pytest.mark.parametrize(
    ("limit", "condition", "mode", "written"),
    [
        ("3", "true", "clamp", True),
        ("9", "true", "clamp", False),
        ("3", "s < 2.0", "clamp", False),
        ("3", "true", "checked", False),
    ],
    ids=["short", "long", "ends by its state", "checks"],
)
def test_loops_that_are_long_end_by_themselves_or_check_stay(limit, condition, mode, written):
    f = ti.parse(ONE.replace("LIMIT", limit).replace("CONDITION", condition).replace("MODE", mode))
    assert ("loop(" not in str(UnrollLoops()(f))) == written


def test_loops_are_written_out_for_gpus_alone():
    assert [UnrollLoops().on(p) for p in ("cpu", "tpu", "gpu")] == [None, None, UnrollLoops()]
