"""Scatters in one operation, slices written in place, and the first of sorted rows, against what is done one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from raised_forms import Draw, agree, kind

import tensorir as ti
from tests.pairwise import pairwise

OPS = ["+", "×", "min", "max", "λ(old: tensor<{0}>, new: tensor<{0}>) → new"]


@pytest.mark.parametrize(("op", "element", "seed"), pairwise(OPS, ["float32", "float", "int"], [0, 2, 4, 5, 7]))
def test_updates_that_meet_are_one_scatter(op: str, element: str, seed: int) -> None:
    r = Draw(seed)
    p, q, m, n, b, j = (r.interval(1, 4) for _ in "PQMNBJ")
    two, iterated = r.random() < 0.5, r.random() < 0.5
    points = {"P": p, "Q": q} if iterated else {"P": p}
    # rows go along whole (J), lanes have an index each (B)
    index = dict(r.sample(list({**points, "B": b}.items()), len(points) + 1)) if r.random() < 0.5 else points
    update = {**index, "J": j} if r.random() < 0.7 else dict(index)
    base = {"M": m, **({"N": n} if two else {}), "J": j, "B": b}
    boxes = {"x": base, "i": index, **({"k": index} if two else {}), "u": update}
    names = "M, N" if two else "M"
    params = ", ".join(f"{v}: {kind('int' if v in 'ik' else element, box)}" for v, box in boxes.items())
    mode = r.choice(["clamp", "zero"])
    value = f"scatter({op.format(element)}, {names}, over: ({', '.join(points)}), {mode})"
    text = f"f(out: {kind(element, base)}, {params}) {{ out ← {value}(x, {'i, k' if two else 'i'}, u); }}"
    arrays = {v: r.array(element, *box.values()) for v, box in boxes.items() if v not in "ik"}
    rng = np.random.default_rng(seed)
    for v, (start, stop) in {"i": m, "k": n}.items():
        if v in boxes:
            shape = tuple(high - low for low, high in index.values())
            arrays[v] = rng.integers(start - 1, stop + 1, shape).astype(np.int32)
    agree(text, arrays, {"scatter"}, {"slice in place"})


@pytest.mark.parametrize("where", [-2, 1, 4, 5, -9])
@pytest.mark.parametrize("mode", ["clamp", "zero"])
def test_one_update_at_one_index_is_a_slice_in_place(where: int, mode: str) -> None:
    text = f"""f(out: tensor<float, I[-2:5], J[0:3]>, x: tensor<float, I[-2:5], J[0:3]>, i: tensor<int>,
      u: tensor<float, J[0:3]>) {{
      out ← scatter(λ(old: tensor<float>, new: tensor<float>) → new, I, over: (), {mode})(x, i, u); }}"""
    r = Draw(where)
    arrays = {"x": r.array("float", (-2, 5), (0, 3)), "i": np.array(where, np.int32), "u": r.array("float", (0, 3))}
    agree(text, arrays, {"slice in place"}, {"scatter"})


def test_updates_by_another_function_are_put_one_by_one() -> None:
    text = """f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>, i: tensor<int, P[0:5]>,
      u: tensor<float, P[0:5]>) {
      out ← scatter(λ(old: tensor<float>, new: tensor<float>) → 0.5 × old + new, I, over: (P), clamp)(x, i, u); }"""
    r = Draw(2)
    arrays = {"x": r.array("float", (0, 3)), "i": np.array([0, 2, 2, 0, 2], np.int32), "u": r.array("float", (0, 5))}
    agree(text, arrays, set(), {"scatter", "slice in place"})


ROWS = """f(v: tensor<{0}, I{1}, K{2}>, p: tensor<int, K{2}, I{1}>, x: tensor<{0}, {4}>) {{
  v ← let both = sort(K, 1, {3})(x, pos(K, x)); subset(both[0], K{2});
  p ← let both = sort(K, 1, {3})(x, pos(K, x)); subset(both[1], K{2}); }}"""
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf]


@pytest.mark.parametrize(("seed", "descending", "nan"), pairwise(range(4), ["true", "false"], [False, True]))
def test_the_first_of_a_row_are_selected(seed: int, descending: str, nan: bool) -> None:
    r = Draw(seed)
    i, k = r.interval(1, 3), r.interval(4, 12)
    few = k[0], k[0] + r.randint(1, k[1] - k[0] - 1)
    dims = {"I": i, "K": k} if r.random() < 0.5 else {"K": k, "I": i}
    box = ", ".join(f"{n}[{a}:{b}]" for n, (a, b) in dims.items())
    text = ROWS.format("float32", "[{}:{}]".format(*i), "[{}:{}]".format(*few), descending, box)
    rng = np.random.default_rng(seed)
    x = rng.choice([*SPECIAL, np.nan] if nan else SPECIAL, [b - a for a, b in dims.values()]).astype(np.float32)
    agree(text, {"x": x}, {"top k"})


@pytest.mark.parametrize("descending", ["true", "false"])
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_the_first_of_a_row_with_nan_as_the_largest_are_selected(descending: str, nan: float) -> None:
    text = f"""f(v: tensor<float32, K[0:4]>, p: tensor<int, K[0:4]>, x: tensor<float32, K[0:9]>) {{
      v ← let all = sort(K, 2, {descending})(cast(isnan(x), int), x, pos(K, x)); subset(all[1], K[0:4]);
      p ← let all = sort(K, 2, {descending})(cast(isnan(x), int), x, pos(K, x)); subset(all[2], K[0:4]); }}"""
    x = np.array([1, nan, -np.inf, -0.0, 0.0, np.inf, np.nan, -3, np.inf], np.float32)
    for row in (x, x[::-1].copy(), np.roll(x, 4)):
        agree(text, {"x": row}, {"top k"})


@pytest.mark.parametrize(("element", "stop"), [("int", 2), ("float", 2), ("float32", 5), ("float32", 0)])
def test_the_first_of_other_rows_are_sorted(element: str, stop: int) -> None:
    text = ROWS.format(element, "[0:2]", f"[0:{stop}]", "true", "I[0:2], K[0:5]")
    agree(text, {"x": Draw(stop).array(element, (0, 2), (0, 5))}, set(), {"top k"})


def test_a_row_that_is_cut_elsewhere_is_sorted() -> None:
    text = """f(v: tensor<float32, K[1:3]>, x: tensor<float32, K[0:5]>, y: tensor<float32, K[0:5]>) {
      v ← subset(sort(K, 1, true)(x, y)[1], K[1:3]) + subset(sort(K, 2, true)(x, y)[1], K[0:3])[K[1:3]]; }"""
    r = Draw(4)
    agree(text, {n: r.array("float32", (0, 5)) for n in "xy"}, set(), {"top k"})


MULTIPLIED = """f(b: tensor<float, I[-1:3], J[0:2]>, i: tensor<int, P[0:6], J[0:2]>, v: tensor<float, P[0:6], J[0:2]>,
  y: tensor<float, I[-1:3], J[0:2]>) { y ← scatter(×, I, over: (P), zero)(b, i, v); }"""


def test_products_that_meet_have_the_derivative_of_updates_one_by_one():
    # among them a zero, two of them at one place, and an index that is outside
    i = np.array([[-1, 2], [0, 0], [0, 0], [2, 1], [2, 1], [7, 1]], np.int32)
    v = np.array([[2.0, 3], [4, 0], [0.5, 7], [0, 2], [0, 3], [9, 5]])
    b = np.arange(1.0, 9).reshape(4, 2)
    fast = ti.compile(ti.parse(MULTIPLIED))
    assert [row.rule for row in fast.raised()] == ["scatter"]

    def total(b, v):
        return (fast(b=b, i=i, v=v)["y"] * jnp.arange(1.0, 9).reshape(4, 2)).sum()

    def by_hand(b, v):
        y = b
        for (p, j), k in np.ndenumerate(i):
            if -1 <= k < 3:
                y = y.at[k + 1, j].multiply(v[p, j], unique_indices=True)
        return (y * jnp.arange(1.0, 9).reshape(4, 2)).sum()

    with jax.enable_x64(True):
        b, v = jnp.asarray(b), jnp.asarray(v)
        for got, want in zip(jax.grad(total, (0, 1))(b, v), jax.grad(by_hand, (0, 1))(b, v), strict=True):
            np.testing.assert_array_equal(got, want)
        tangents = jax.jvp(total, (b, v), (b + 1, v * v))[1], jax.jvp(by_hand, (b, v), (b + 1, v * v))[1]
        np.testing.assert_allclose(*tangents, rtol=1e-14)
        batch = jnp.stack([v, v + 1])
        np.testing.assert_allclose(
            jax.vmap(jax.grad(total, 1), (None, 0))(b, batch), [jax.grad(by_hand, 1)(b, x) for x in batch], rtol=1e-14
        )
