"""Folds to the extreme element and its index, with every rule for ties, and NaNs wherever they may stand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from raised_forms import Draw, kind

import tensorir as ti

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
