"""Long folds by an operation whose order is free are reductions; short ones and others run step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from raised_forms import Draw, agree, kind

import tensorir as ti
from tests.pairwise import pairwise

START = {"+": "0.5f", "×": "2.0f", "min": "inf", "max": "-3.4e38f"}
INTEGER = {"+": "3", "×": "-1", "min": "5", "max": "-5", "&": "12", "|": "0", "^": "6"}


@pytest.mark.parametrize("op", START)
@pytest.mark.parametrize("seed", range(4))
def test_a_long_fold_of_one_array_is_a_reduction(op: str, seed: int) -> None:
    r = Draw(seed)
    dims = {"I": r.interval(1, 3), "K": r.interval(33, 40)}
    box = dict(r.sample(list(dims.items()), 2))
    start = START[op] if op not in ("min", "max") or seed % 2 else "float32(inf)" if op == "min" else "float32(-inf)"
    start = "float32(inf)" if start == "inf" else start
    text = f"""f(out: {kind("float32", {"I": dims["I"]})}, x: {kind("float32", box)}) {{
      out ← reduce({op}, {start}, K)(x); }}"""
    x = r.array("float32", *box.values())
    x = np.where(np.abs(x) < 0.2, np.float32(1), x).clip(-1.1, 1.1) if op == "×" else x
    agree(text, {"x": x}, {"reduction"}, {"mapped reduction"})


@pytest.mark.parametrize("op", INTEGER)
def test_a_long_fold_of_integers_is_a_reduction(op: str) -> None:
    r = Draw(7)
    text = (
        f"f(out: tensor<int, I[-1:2]>, x: tensor<int, I[-1:2], K[3:40]>) {{ out ← reduce({op}, {INTEGER[op]}, K)(x); }}"
    )
    agree(text, {"x": r.array("int", (-1, 2), (3, 40))}, {"reduction"})


@pytest.mark.parametrize("op", ["∧", "∨"])
@pytest.mark.parametrize("start", ["true", "false"])
def test_a_long_fold_of_bools_is_a_reduction(op: str, start: str) -> None:
    text = f"f(out: tensor<bool, I[0:4]>, x: tensor<bool, K[0:40], I[0:4]>) {{ out ← reduce({op}, {start}, K)(x); }}"
    x = np.zeros((40, 4), bool)
    x[:, 1] = True
    x[17, 2] = True
    agree(text, {"x": x}, {"reduction"})


@pytest.mark.parametrize("seed", range(4))
def test_a_fold_of_an_expression_is_computed_at_all_levels_at_once(seed: int) -> None:
    r = Draw(seed)
    i, k = r.interval(1, 3), r.interval(33, 36)
    step = r.choice(["a + x / y", "x - y + a", "max(a, x - y)", "min(y × y, a)"])
    state = f"I[{i[0]}:{i[1]}]"
    text = f"""f(out: tensor<float, {state}>, x: {kind("float", {"K": k, "I": i})}, y: {kind("float", {"K": k})}) {{
      out ← reduce(λ(a: tensor<float, {state}>, x: tensor<float, {state}>, y: tensor<float>) → {step}, 0.25, K)(
        x, y); }}"""
    agree(text, {"x": r.array("float", k, i), "y": r.array("float", k)}, {"mapped reduction"})


SQUARES = "reduce(λ(a: tensor<float>, x: tensor<float>) → x + a × a, 0.5, K)"


@pytest.mark.parametrize(("fold", "count"), [("reduce(+, 0.0, K)", 32), ("reduce(-, 0.0, K)", 40), (SQUARES, 40)])
def test_short_folds_and_others_run_step_by_step(fold: str, count: int) -> None:
    text = f"f(out: tensor<float>, x: tensor<float, K[0:{count}]>) {{ out ← {fold}(x); }}"
    agree(text, {"x": 0.1 * Draw(3).array("float", (0, count))}, set(), {"reduction", "mapped reduction"})


@pytest.mark.parametrize("op", ["+", "max"])
def test_elements_that_are_absent_are_left_out(op: str) -> None:
    text = f"""f(out: tensor<float, V[0:3]>, x: tensor<float, E[0:4]>, T: tensor<int, V[0:3], K[0:40], _NB_E[0:1]>) {{
      out ← reduce({op}, 0.25, K)(shift_apply(0)(⟪T⟫(x))); }}"""
    table = np.random.default_rng(3).integers(-1, 4, (3, 40, 1)).astype(np.int32)
    table[1] = -1
    agree(text, {"x": Draw(1).array("float", (0, 4))}, {"mapped reduction"}, {"reduction"}, T=table)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("op", ["+", "min", "max"])
def test_special_values_come_through(op: str, special: float) -> None:
    text = f"f(out: tensor<float>, x: tensor<float, K[0:40]>) {{ out ← reduce({op}, 0.5, K)(x); }}"
    x = np.ones(40)
    x[[3, 20]] = special
    agree(text, {"x": x}, {"reduction"})


NUMPY = {"+": np.sum, "×": np.prod, "min": np.min, "max": np.max}
LARGE = {"rows": ("I[0:70], K[0:90]", 1), "columns": ("K[0:90], I[0:70]", 0), "many columns": ("K[0:35], I[0:9000]", 0)}


@pytest.mark.parametrize("element", ["float32", "float", "float16"])
@pytest.mark.parametrize("op", ["+", "min", "max"])
@pytest.mark.parametrize("name", LARGE)
def test_no_nan_is_lost_among_many_elements(name: str, op: str, element: str) -> None:
    dims, axis = LARGE[name]
    kept = dims.split(", ")[1 - axis]
    start = {"float32": "0.5f", "float": "0.5", "float16": "float16(0.5)"}[element]
    program = ti.compile(
        ti.parse(
            f"f(out: tensor<{element}, {kept}>, x: tensor<{element}, {dims}>) {{ out ← reduce({op}, {start}, K)(x); }}"
        )
    )
    x = np.random.default_rng(0).normal(size=[int(d[:-1].split(":")[1]) for d in dims.split(", ")])
    for k, special in enumerate((np.nan, np.inf, -np.inf)):
        np.moveaxis(x, axis, -1)[k, [3, 20]] = special
    np.moveaxis(x, axis, -1)[3, [0, 7]] = np.nan, np.inf
    np.moveaxis(x, axis, -1)[4, [0, 7]] = np.inf, -np.inf
    x = x.astype({"float32": "f4", "float": "f8", "float16": "f2"}[element])
    wide = np.concatenate([x.astype("f8"), np.full_like(x.take([0], axis), 0.5)], axis)
    with np.errstate(invalid="ignore"):
        want = NUMPY[op](wide, axis=axis)
    tolerance = {"float32": 1e-5, "float": 1e-13, "float16": 0.3}[element]
    np.testing.assert_allclose(program(x=x)["out"].astype("f8"), want, rtol=tolerance, atol=tolerance)
    assert [row.rule for row in program.raised()] == ["reduction"]


@pytest.mark.parametrize("op", ["+", "×", "min", "max"])
@pytest.mark.parametrize("name", LARGE)
def test_reductions_of_many_elements_have_derivatives(name: str, op: str) -> None:
    dims, axis = LARGE[name]
    kept = dims.split(", ")[1 - axis]
    f = ti.parse(f"f(out: tensor<float, {kept}>, x: tensor<float, {dims}>) {{ out ← reduce({op}, 1.0, K)(x); }}")
    x = 1 + np.random.default_rng(1).uniform(-0.4, 0.6, size=[len(i) for _, i in f["x"].type.dims.items])
    hand = {"+": jnp.sum, "×": jnp.prod, "min": jnp.min, "max": jnp.max}[op]
    with jax.enable_x64(True):
        weights = np.arange(x.shape[1 - axis]) - 3.0

        def total(x):
            return (ti.compile(f)(x=x)["out"] * weights).sum()

        def by_hand(x):
            y = hand(x, axis)
            return ((y + 1.0 if op == "+" else y * 1.0) * weights).sum()

        if op in ("min", "max"):
            # what the fold starts from must not be the extreme
            x = x + (1.0 if op == "max" else -1.0)
        got, want = jax.jit(lambda x: (jax.grad(total)(x), jax.grad(by_hand)(x)))(x)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_extremes_may_drop_nan_where_it_is_said() -> None:
    f = ti.parse("f(out: tensor<float, I[0:70]>, x: tensor<float, I[0:70], K[0:90]>) { out ← reduce(max, 0.0, K)(x); }")
    x = np.random.default_rng(0).normal(size=(70, 90))
    np.testing.assert_array_equal(ti.compile(f, numerics="loose")(x=x)["out"], np.maximum(x.max(1), 0))
    with pytest.raises(ti.DiagnosticError, match="there is no numerics 'quick'"):
        ti.compile(f, numerics="quick")


def test_a_mapped_fold_of_many_columns_goes_row_by_row() -> None:
    f = ti.parse("""f(out: tensor<float, I[0:5000]>, x: tensor<float, K[0:35], I[0:5000]>) {
      out ← reduce(λ(a: tensor<float, I[0:5000]>, x: tensor<float, I[0:5000]>) → a + abs(x), 0.25, K)(x); }""")
    program = ti.compile(f)
    x = np.random.default_rng(0).normal(size=(35, 5000))
    np.testing.assert_allclose(program(x=x)["out"], 0.25 + np.abs(x).sum(0), rtol=1e-13)
    assert program.raised() == ()


@pytest.mark.parametrize(
    ("number", "axis", "op", "element"),
    pairwise([-1.5, 2.0, None], [0, 1], ["min", "max"], ["float32", "float64", "float16"]),
)
def test_a_number_in_the_place_of_nan_counts_among_many_elements(
    number: float | None, axis: int, op: str, element: str
) -> None:
    """Rows with a NaN at either end, with infinities of both signs, of nothing but NaN, and plain ones."""
    number = {"min": np.inf, "max": -np.inf}[op] if number is None else number
    box = "I[0:70], K[0:90]" if axis else "K[0:90], I[0:70]"
    start, instead = f"{element}(0.5)", f"{element}({number})"
    f = ti.parse(
        f"f(out: tensor<{element}, I[0:70]>, x: tensor<{element}, {box}>) {{ "
        f"out ← reduce({op}, {start}, K)(if isnan(x) then {instead} else x); }}"
    )
    program = ti.compile(f)
    dtype = {"float32": "f4", "float64": "f8", "float16": "f2"}[element]
    x = np.random.default_rng(0).normal(size=(70, 90)).astype(dtype)
    plain = x.copy()

    @jax.jit
    def batch_and_slope(x):
        def total(x):
            return program(x=x)["out"].sum().astype("float32")

        return jax.vmap(lambda x: program(x=x)["out"])(jnp.stack([x, x[::-1]])), jax.grad(total)(x)

    x[0, 0] = x[1, -1] = x[2, ::3] = x[3] = np.nan
    x[4, 5], x[4, 9], x[5, 7], x[5, 8] = np.inf, -np.inf, np.inf, np.nan
    for rows in (x, plain):
        counted = np.where(np.isnan(rows), np.array(number, dtype), rows)
        wanted = {"min": np.min, "max": np.max}[op](counted, 1, initial=0.5)
        given = np.ascontiguousarray(rows if axis else rows.T)
        np.testing.assert_array_equal(program(x=given)["out"], wanted)
        with jax.enable_x64(True):
            stacked, slope = map(np.asarray, batch_and_slope(given))
        np.testing.assert_array_equal(stacked[0], wanted)
        best = (rows == wanted[:, None]) & (wanted != 0.5)[:, None]
        assert bool(np.all(((slope if axis else slope.T) != 0) == best))


@pytest.mark.parametrize("start", ["-inf", "0.5"])
@pytest.mark.parametrize("item", ["x", "if isnan(x) then float(-1.5) else x"])
def test_the_derivative_of_an_extreme_is_a_number_where_rows_hold_nan(item: str, start: str) -> None:
    """Elements that equal the extreme share its derivative, with what the fold starts from where that equals it."""
    f = ti.parse(
        f"f(out: tensor<float, I[0:70]>, x: tensor<float, I[0:70], K[0:90]>) {{ "
        f"out ← reduce(max, float({start}), K)({item}); }}"
    )
    x = np.random.default_rng(0).normal(size=(70, 90))
    x[3] = np.nan
    x[5, [7, 80]], x[6] = 9.0, -3.0
    x[6, 4] = 0.5
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda x: ti.compile(f)(x=x)["out"].sum()))(x)
    wanted = (x == x.max(1, keepdims=True)).astype("float64")
    wanted[5] /= 2
    if start == "0.5":
        wanted[6] /= 2
    np.testing.assert_array_equal(slope, wanted)


STENCIL = """f(y: tensor<float, J[0:3]>, x: tensor<float, I[0:{n}], J[0:3]>) {{
  y ← reduce({op}, {start}, I)(sin(⟪I, 1⟫(x) - 0.5 × x)); }}"""


@pytest.mark.parametrize("op, start", [("+", "0.25"), ("max", "-inf"), ("min", "float(inf)")])
@pytest.mark.parametrize("extent", [1_400, 1_398, 1_399, 1_403])
def test_reductions_of_stencils_in_parts_are_those_of_the_oracle(extent, op, start):
    start = "float(-inf)" if start == "-inf" else start
    f = ti.parse(STENCIL.format(n=extent + 1, op=op, start=start))
    x = np.random.default_rng(1).normal(size=(extent + 1, 3))
    want = ti.reference.run(f, x=x)["y"]
    in_parts, whole = ti.compile(f), ti.compile(f, without="sums_as_loops")
    for program in in_parts, whole:
        np.testing.assert_allclose(program(x=x)["y"], want, rtol=1e-12)
    x[extent // 3, 1] = x[-1, 2] = np.nan
    np.testing.assert_array_equal(np.isnan(in_parts(x=x)["y"]), [False, True, True])


@pytest.mark.parametrize("extent", [4_000, 4_003])
def test_the_gradient_of_a_sum_in_parts_is_that_of_the_sum(extent):
    f = ti.parse(STENCIL.format(n=extent + 1, op="+", start="0.0"))
    x = np.random.default_rng(1).normal(size=(extent + 1, 3))
    with jax.enable_x64(True):
        c = ti.compile(f)
        slope = jax.grad(lambda x: jnp.sum(c(x=x)["y"] ** 2))
        got, twice = jax.jit(lambda x: jax.jvp(slope, (x,), (x,)))(x)
    d = x[1:] - 0.5 * x[:-1]
    y, along = np.sin(d).sum(0), (np.cos(d) * d).sum(0)

    def spread(g):
        return np.concatenate([np.zeros((1, 3)), g]) - 0.5 * np.concatenate([g, np.zeros((1, 3))])

    np.testing.assert_allclose(got, spread(2 * y * np.cos(d)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(twice, spread(2 * along * np.cos(d) - 2 * y * np.sin(d) * d), rtol=1e-9, atol=1e-8)


def test_parts_that_are_stored_are_in_the_program():
    f = ti.parse(STENCIL.format(n=4_001, op="+", start="0.0"))
    assert "4000x3" in ti.compile(f, without="sums_as_loops").stablehlo()
    text = ti.compile(f).stablehlo()
    assert "optimization_barrier" in text and "500x3" in text
