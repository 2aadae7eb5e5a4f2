"""Folds that are recognised: reductions, windows, extremes and guards."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from raised_forms import ZERO, Draw, agree, kind

import tensorir as ti
from lowering.raising import RULES
from tensorir import reference
from tensorir.ir.builtins import TABLE
from tensorir.text import parse
from tests.lowering.forced_kernels import for_gpus
from tests.pairwise import pairwise

# The table of raised forms


NORM = "f(y: tensor<float, I[0:n]>, a: tensor<float, I[0:n], K[0:99]>) { y ← reduce(+, 0.0, K)(a × a); }"


def test_every_rule_has_a_name_of_its_own_a_builtin_and_a_sentence():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.op in TABLE for rule in RULES)
    assert [rule.name for rule in RULES if not rule.says.endswith(".")] == []


def test_every_rule_is_named_by_a_test():
    here = Path(__file__).parent
    paths = (*here.glob("test_raising_*.py"), here.parent / "passes" / "test_pools.py")
    tests = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert [rule.name for rule in RULES if f'"{rule.name}"' not in tests] == []


def test_a_program_with_sizes_says_what_is_raised_at_them():
    program = ti.parse(NORM)
    assert ti.compile(program).raised(n=5) == (("contraction", "contract(float, K)(a, a)"),)
    with pytest.raises(ti.DiagnosticError, match="the size 'n' is not bound"):
        ti.compile(program).raised()


def test_rules_are_chosen_by_name():
    program = ti.parse(NORM)
    a = np.arange(3 * 99.0).reshape(3, 99)
    for chosen, used in ((("reduction",), "reduction"), ("contraction", "contraction"), ((), None)):
        compiled = ti.compile(program, raising=chosen)
        assert [row.rule for row in compiled.raised(n=3)] == ([used] if used else [])
        np.testing.assert_allclose(compiled(a=a)["y"], (a * a).sum(-1), rtol=1e-13)


def test_a_rule_that_is_not_there_is_refused():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(NORM), raising=("contractoin",))
    assert str(refused.value) == "error[A21]: there is no rule 'contractoin'.\nhelp: did you mean 'contraction'?"


def test_sums_over_several_dims_are_told_once():
    program = ti.parse("""f(y: tensor<float>, a: tensor<float, I[0:20], K[0:40]>) {
      y ← reduce(+, 0.0, I)(reduce(+, 0.0, K)(a × a)); }""")
    assert [row.expression for row in ti.compile(program).raised()] == ["contract(float, I, K)(a, a)"]


# Prefix sums on GPUs

SCAN = """f(y: tensor<float, I[0:{columns}], K[0:{levels}]>, x: tensor<float, I[0:{columns}], K[0:{levels}]>) {{
  y ← scan(λ(s: tensor<float, I[0:{columns}]>, v: tensor<float, I[0:{columns}]>) → {step}, {forward}, 0.5)(x); }}"""


def scan(step, forward="true", columns=3, levels=130):
    return ti.parse(SCAN.format(step=step, forward=forward, columns=columns, levels=levels))


@pytest.mark.parametrize(
    ("step", "forward", "expected"),
    [
        ("s + v", "true", lambda x: 0.5 + np.cumsum(x, 1)),
        ("v × s", "false", lambda x: 0.5 * np.cumprod(x[:, ::-1], 1)[:, ::-1]),
        ("max(s, v)", "true", lambda x: np.maximum(0.5, np.maximum.accumulate(x, 1))),
    ],
)
def test_a_long_scan_of_few_columns_is_cumulative_on_gpus(step, forward, expected):
    x = np.random.default_rng(0).normal(size=(3, 130))
    c = for_gpus(scan(step, forward))
    np.testing.assert_allclose(c(x=x)["y"], expected(x), rtol=1e-12)
    assert [row.rule for row in c.raised()] == ["prefix"]


@pytest.mark.parametrize(
    "c",
    [
        for_gpus(scan("s + v"), target="cpu"),
        for_gpus(scan("s + v"), numerics="exact"),
        for_gpus(scan("0.5 × s + v")),
        for_gpus(scan("s + v", levels=20)),
        for_gpus(scan("s + v", columns=1 << 15)),
    ],
    ids=["on CPUs", "exact", "a recurrence", "short", "many columns"],
)
def test_other_scans_are_not_cumulative(c):
    assert not c.raised()


# Scans and sequential folds along what windows, or neighbours, are read at

STEP = "λ(s: tensor<float64, Y[0:4]>, a: tensor<float64, Y[0:4]>) → s × 0.5 + a"
AT = "pos(Y, add_dim(Y, 0, 4, 0)) + {} × pos(J, add_dim(J, {}, 0))"
WINDOWS = [(1, "0, 3"), (2, "1, 4"), (1, "0, 1")]


@pytest.mark.parametrize(("dilation", "interval"), WINDOWS)
@pytest.mark.parametrize("forward", ["true", "false"])
def test_a_scan_along_a_window(dilation: int, interval: str, forward: str):
    text = f"""f(o: tensor<float64, J[{interval.replace(", ", ":")}], Y[0:4]>, x: tensor<float64, I[0:12]>) {{
        o ← scan({STEP}, {forward}, add_dim(Y, 0, 4, float64(0.0)), J)(
              gather(I, clamp)(x, {AT.format(dilation, interval)})); }}"""
    check(text)


@pytest.mark.parametrize(("dilation", "interval"), WINDOWS)
def test_a_fold_along_a_window(dilation: int, interval: str):
    text = f"""f(o: tensor<float64, Y[0:4]>, x: tensor<float64, I[0:12]>) {{
        o ← reduce({STEP}, add_dim(Y, 0, 4, float64(0.0)), J)(
              gather(I, clamp)(x, {AT.format(dilation, interval)})); }}"""
    check(text)


def check(text: str) -> None:
    program = parse(text)
    x = np.random.default_rng(1).normal(size=12)
    out = np.zeros(program.outputs[0].type.dims.shape)
    wanted = reference.run(program, o=out, x=x)["o"]
    np.testing.assert_allclose(ti.compile(program)(o=out, x=x)["o"], wanted, rtol=1e-12)


# Sums of products that count where a guard holds are contractions, whatever stands where it does not

GUARDS = {
    "dims of both factors": ("K", "g > {0}"),
    "dims of one factor": ("IK", "g > {0}"),
    "dims of the other factor": ("KJ", "{0} < g"),
    "no summed dim": ("IJ", "g > {0}"),
    "none of the dims": ("", "g > {0}"),
}


def program(
    r: Draw, element: str, guard: str
) -> tuple[str, dict[str, tuple[int, int]], dict[str, dict[str, tuple[int, int]]]]:
    names, condition = GUARDS[guard]
    dims = {"I": r.interval(1, 5), "J": r.interval(1, 5), "K": r.interval(16, 20)}
    boxes = {
        "a": {"I": dims["I"], "K": dims["K"]},
        "b": {"K": dims["K"], "J": dims["J"]},
        "g": {n: dims[n] for n in names},
    }
    zero, start = (
        ZERO[element],
        r.choice([ZERO[element], {"int": "4"}.get(element, f"1.5{'f' * (element == 'float32')}")]),
    )
    params = ", ".join(f"{n}: {kind(element, box)}" for n, box in boxes.items())
    result = kind(element, {"I": dims["I"], "J": dims["J"]})
    value = f"reduce(+, {start}, K)(if {condition.format(zero)} then a × b else {zero})"
    return f"f(out: {result}, {params}) {{ out ← {value}; }}", dims, boxes


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("element", ["float32", "float", "int"])
@pytest.mark.parametrize("seed", range(2))
def test_a_guarded_sum_of_products_is_a_contraction(guard: str, element: str, seed: int) -> None:
    r = Draw(seed)
    text, _, boxes = program(r, element, guard)
    agree(text, {n: r.array(element, *box.values()) for n, box in boxes.items()}, {"guarded contraction"})


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("special", [np.inf, np.nan])
@pytest.mark.parametrize("where", ["a", "b"])
def test_what_the_guard_leaves_out_may_be_infinite_or_no_number(guard: str, special: float, where: str) -> None:
    r = Draw(8)
    text, _, boxes = program(r, "float", guard)
    arrays = {n: r.array("float", *box.values()) for n, box in boxes.items()}
    arrays[where][0, 0] = special
    for sign in (1, -1):
        arrays["g"] = sign * np.abs(arrays["g"])
        flat = arrays["g"].reshape(-1)
        flat[1:] *= -1
        agree(text, arrays, {"guarded contraction"})


def test_a_guarded_product_that_is_multiplied_again_keeps_its_guard() -> None:
    text = """f(out: tensor<float, I[0:3], J[0:2]>, a: tensor<float, I[0:3], K[0:20]>,
      b: tensor<float, K[0:20], J[0:2]>, g: tensor<float, K[0:20]>, c: tensor<float, I[0:3]>) {
      out ← reduce(+, 0.0, K)((if g > 0.0 then a × b else 0.0) × c); }"""
    r = Draw(3)
    boxes = {"a": [(0, 3), (0, 20)], "b": [(0, 20), (0, 2)], "g": [(0, 20)], "c": [(0, 3)]}
    agree(text, {n: r.array("float", *box) for n, box in boxes.items()}, set())


@pytest.mark.parametrize("otherwise", ["1.0", "a"])
def test_a_product_with_another_value_outside_of_the_guard_is_no_contraction(otherwise: str) -> None:
    text = f"""f(out: tensor<float, I[0:3], J[0:2]>, a: tensor<float, I[0:3], K[0:20]>,
      b: tensor<float, K[0:20], J[0:2]>) {{
      out ← reduce(+, 0.0, K)(if a > 0.0 then a × b else {otherwise}); }}"""
    r = Draw(4)
    arrays = {"a": r.array("float", (0, 3), (0, 20)), "b": r.array("float", (0, 20), (0, 2))}
    agree(text, arrays, set(), {"contraction", "guarded contraction"})


def test_gradients_pass_through_a_guarded_contraction() -> None:
    text, _, boxes = program(Draw(1), "float", "dims of one factor")
    r = Draw(2)
    arrays = {n: r.array("float", *box.values()) for n, box in boxes.items()}
    with jax.enable_x64(True):
        found = [
            jax.grad(lambda b, c=c: (c(**{**arrays, "b": b})["out"] ** 2).sum())(jax.numpy.asarray(arrays["b"]))
            for c in (ti.compile(ti.parse(text)), ti.compile(ti.parse(text), raising=()))
        ]
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("start", ["0.0", "1.0", "-1.0", "2.5"])
def test_a_guarded_sum_begins_at_its_start(guard: str, start: str) -> None:
    r = Draw(3)
    text, _, boxes = program(r, "float", guard)
    head, rest = text.split("reduce(+, ")
    text = f"{head}reduce(+, {start}, {rest.split(', ', 1)[1]}"
    agree(text, {n: r.array("float", *box.values()) for n, box in boxes.items()}, {"guarded contraction"})


# Folds to the extreme element and its index, with every rule for ties, and NaNs wherever they may stand

BODIES = {
    "first largest": "if (v > x) ∨ ((v = x) ∧ (i < k)) then i else k, if v > x then v else x",
    "last of the largest": "if v > x then i else k, if v > x then v else x",
    "the old one stays": "if v ≥ x then i else k, if v ≥ x then v else x",
    "a larger one is taken": "if x > v then k else i, if x > v then x else v",
    "the greatest index": "if (v > x) ∨ ((v = x) ∧ (i > k)) then i else k, if v > x then v else x",
    "first smallest": "if (v < x) ∨ ((v = x) ∧ (i < k)) then i else k, if v < x then v else x",
    "no larger": "if ¬(v > x) then i else k, if ¬(v > x) then v else x",
}


def fold(body: str, element: str, dims: dict[str, tuple[int, int]], start: str, value_first: bool = False) -> str:
    rest = {n: i for n, i in dims.items() if n != "K"}
    a, b = dims["K"]
    places = (1, 0) if value_first else (0, 1)
    kinds, bodies, starts = (
        ", ".join(pair[k] for k in places) for pair in (("int", element), body.split(", "), ("-1", start))
    )
    state = kind(f"({kinds})", rest)
    return f"""f(out: {state}, x: {kind(element, dims)}) {{
      out ← reduce(λ(s: {state}, x: {kind(element, rest)}, k: tensor<int>) →
        let i = s[{places[0]}]; let v = s[{places[1]}]; ({bodies}), ({starts}), K)(
          x, pos(K, add_dim(K, {a}, {b}, 0))); }}"""


def arrays(r: Draw, element: str, shape: tuple[int, ...], axis: int) -> list[np.ndarray]:
    rng = np.random.default_rng(r.randrange(1 << 30))
    plain = rng.integers(-5, 5, shape).astype(element)
    if element != "float32":
        return [plain]
    rare, many, ends = plain.copy(), plain.copy(), plain.copy()
    rare[rng.random(shape) < 0.05] = np.nan
    many[rng.random(shape) < 0.6] = np.nan
    many[many > 3] = np.inf
    rows = np.moveaxis(ends, axis, -1)
    rows[0, -1], rows[-1, 0], rows[rows.shape[0] // 2] = np.nan, np.nan, np.nan
    return [plain, rare, many, ends, np.full(shape, -np.inf, element), np.full(shape, np.nan, element)]


@pytest.mark.parametrize("element", ["float32", "int", "int8"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_extreme_and_its_index_are_two_reductions(body: str, element: str) -> None:
    r = Draw(len(body) + len(element))
    dims = {"I": r.interval(3, 5), "K": r.interval(33, 41)}
    dims = dict(r.sample(list(dims.items()), 2))
    start = {"float32": "0.5f", "int": "2", "int8": "int8(1)"}[element]
    program = ti.parse(fold(body, element, dims, start))
    raised, plain = ti.compile(program), ti.compile(program, passes=(), raising=())
    assert [row.rule for row in raised.raised()] == ["extreme"]
    assert "while" not in raised.stablehlo()
    shape = tuple(b - a for a, b in dims.values())
    for x in arrays(r, {"int": "int32"}.get(element, element), shape, list(dims).index("K")):
        wanted = ti.reference.run(program, x=x)["out"]
        for compiled in (raised, plain):
            for found, want in zip(compiled(x=x)["out"], wanted, strict=True):
                np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("value_first", [False, True])
@pytest.mark.parametrize("start", ["0.5f", "float32(-inf)", "2f"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_rows_without_nan_are_one_reduction_of_pairs(body: str, start: str, value_first: bool) -> None:
    r = Draw(len(body) + len(start))
    dims = {"I": r.interval(3, 5), "K": (0, 37)}
    text = fold(body, "float32", dims, start, value_first)
    compiled = ti.compile(ti.parse(text), numerics="loose")
    assert [row.rule for row in compiled.raised()] == ["extreme"]
    rows = arrays(r, "float32", (dims["I"][1] - dims["I"][0], 37), 1)
    for x in (rows[0], rows[4]):
        wanted = ti.reference.run(ti.parse(text), x=x)["out"]
        for found, want in zip(compiled(x=x)["out"], wanted, strict=True):
            np.testing.assert_array_equal(found, want)
    # one reduction, and no comparison behind it
    assert compiled.stablehlo().count("stablehlo.reduce") == 1


def test_the_derivative_of_the_largest_is_that_of_its_element() -> None:
    dims = {"I": (0, 2), "K": (0, 40)}
    compiled = ti.compile(ti.parse(fold(BODIES["first largest"], "float32", dims, "-3f")), numerics="loose")
    x = np.linspace(-2, -1, 80, dtype=np.float32).reshape(2, 40)
    x[0, 7] = x[0, 31] = 4
    x[1] = -9
    slope = jax.grad(lambda a: (jnp.asarray([2.0, 5.0]) * compiled(x=a)["out"][1]).sum())(jnp.asarray(x))
    wanted = np.zeros_like(x)
    wanted[0, 7] = 2
    np.testing.assert_array_equal(slope, wanted)
    moved = jax.jvp(lambda a: compiled(x=a)["out"][1], (jnp.asarray(x),), (jnp.asarray(x),))[1]
    np.testing.assert_array_equal(moved, [4, 0])


OTHERS = {
    "a sum": "if v > x then i else k, v + x",
    "a NaN is taken and lost again": "if (x > v) ∨ (x ≠ x) then k else i, if (x > v) ∨ (x ≠ x) then x else v",
    "another value": "if v > x then i else k, if v < x then v else x",
    "an index of its own": "if v > x then i else k + 1, if v > x then v else x",
    "indices decide": "if i > k then i else k, if i > k then v else x",
    "a NaN stays": "if (v ≥ x) ∨ (v ≠ v) then i else k, if (v ≥ x) ∨ (v ≠ v) then v else if x = x then x else v",
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_extreme_stays_a_fold(body: str) -> None:
    r = Draw(3)
    dims = {"I": (0, 3), "K": (-2, 35)}
    program = ti.parse(fold(body, "float32", dims, "0.5f"))
    assert ti.compile(program).raised() == ()
    x = r.array("float32", *dims.values())
    for found, want in zip(ti.compile(program)(x=x)["out"], ti.reference.run(program, x=x)["out"], strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_short_fold_stays_unrolled() -> None:
    text = fold(BODIES["first largest"], "float32", {"I": (0, 3), "K": (0, 5)}, "0.5f")
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    program = ti.parse(text)
    assert ti.compile(program).raised() == ()
    np.testing.assert_array_equal(ti.compile(program)(x=x)["out"][0], ti.reference.run(program, x=x)["out"][0])


# Long folds by an operation whose order is free are reductions; short ones and others run step by step

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


@pytest.mark.parametrize("step", ["a + x × c", "max(a, c)"])
@pytest.mark.parametrize("reads", ["z", "⟪T⟫(y)"], ids=["all levels", "levels skipped"])
@pytest.mark.parametrize("is_argument", [True, False], ids=["argument", "captured"])
def test_a_fold_that_reads_what_is_absent_is_absent(step: str, reads: str, is_argument: bool) -> None:
    state = "tensor<float, V[0:3]>"
    (param, arg), dim = ((f", c: {state}", ", c") if is_argument else ("", "")), ", K" if reads == "z" else ""
    text = f"""f(out: {state}, there: tensor<bool, V[0:3]>, y: tensor<float, E[0:4]>, z: tensor<float, V[0:3], K[0:40]>,
               N: tensor<int, V[0:3], _NB_E[0:1]>, T: tensor<int, V[0:3], _NB_E[0:40]>) {{
      let c = ⟪N, 0⟫(y);
      let r = reduce(λ(a: {state}, x: {state}{param}) → {step}, 0.25{dim})({reads}{arg});
      out ← if can_deref(r) then r else -1.0; there ← can_deref(r); }}"""
    r = Draw(1)
    table = np.random.default_rng(3).integers(-1, 4, (3, 40)).astype(np.int32)
    table[1] = -1
    arrays = {"y": r.array("float", (0, 4)), "z": r.array("float", (0, 3), (0, 40))}
    agree(text, arrays, {"mapped reduction"}, N=np.array([[2], [-1], [-1]], np.int32), T=table)


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
