"""Sums of products become contractions where nothing is absent and both factors have the dims that are summed over."""

import ml_dtypes
import numpy as np
import pytest
from raised_forms import ZERO, Draw, agree, kind

import tensorir as ti


@pytest.mark.parametrize("seed", range(16))
def test_a_sum_of_products_is_a_contraction(seed: int) -> None:
    r = Draw(seed)
    element = r.choice(["float32", "float", "int"])
    dims = {n: r.interval(1, 4) for n in "BIJ"} | {"K": r.interval(16, 21), "L": r.interval(1, 3)}
    a, b = [[*"BK", "I"], [*"BK", "J"]] if r.random() < 0.5 else [["I", "K"], ["K", "J"]]
    over = ["K"]
    if r.random() < 0.5:
        a, b, over = [*a, "L"], [*b, "L"], r.sample(["K", "L"], 2)
    r.shuffle(a)
    r.shuffle(b)
    result = [n for n in dims if n in (*a, *b) and n not in over]
    r.shuffle(result)
    # each factor may have more points than the other
    wider = {n: (start - r.randint(0, 1), stop + r.randint(0, 2)) for n, (start, stop) in dims.items()}
    boxes = {"a": {n: wider[n] for n in a}, "b": {n: dims[n] for n in b}}
    start = r.choice([ZERO[element], {"float32": "1.5f", "float": "-2.5", "int": "7"}[element]])
    value = f"reduce(+, {start}, {over[0]})(a × b)"
    for n in over[1:]:
        value = f"reduce(+, {ZERO[element]}, {n})({value})" if start == ZERO[element] else value
    if len(over) > 1 and start != ZERO[element]:
        value = f"reduce(+, {start}, {over[1]})(reduce(+, {ZERO[element]}, {over[0]})(a × b))"
    given = ", ".join(f"{n}: {kind(element, box)}" for n, box in boxes.items())
    text = f"f(out: {kind(element, {n: dims[n] for n in result})}, {given}) {{ out ← {value}; }}"
    agree(text, {n: r.array(element, *box.values()) for n, box in boxes.items()}, {"contraction"})


@pytest.mark.parametrize("seed", range(6))
def test_a_third_factor_without_the_summed_dim_is_multiplied_afterwards(seed: int) -> None:
    r = Draw(seed)
    i, j, k = r.interval(1, 4), r.interval(1, 4), r.interval(17, 20)
    boxes = {"a": {"I": i, "K": k}, "b": {"K": k, "J": j}, "c": r.choice([{"J": j}, {"M": (0, 2)}, {}])}
    product = r.choice(["a × b × c", "a × (c × b)", "c × a × b"])
    given = ", ".join(f"{n}: {kind('float32', box)}" for n, box in boxes.items())
    text = (
        f"f(out: {kind('float32', {'I': i, 'J': j, **boxes['c']})}, {given}) {{ out ← reduce(+, 0.0f, K)({product}); }}"
    )
    agree(text, {n: r.array("float32", *box.values()) for n, box in boxes.items()}, {"contraction"})


@pytest.mark.parametrize(
    ("narrow", "wide"), [("int8", "int"), ("uint8", "int"), ("int8", "int16"), ("bfloat16", "float32")]
)
@pytest.mark.parametrize("seed", range(3))
def test_converted_factors_are_contracted(narrow: str, wide: str, seed: int) -> None:
    r = Draw(seed)
    i, j, k = r.interval(2, 5), r.interval(2, 5), r.interval(1, 40)
    a, b = {"I": i, "K": k}, {"J": j, "K": k}
    zero = {"int": "0", "int16": "cast(0, int16)", "float32": "0.0f"}[wide]
    value = f"reduce(+, {zero}, K)(cast(⟪K, 1⟫(a), {wide}) × cast(⟪K, 1⟫(b), {wide}))"
    text = f"f(out: {kind(wide, {'I': i, 'J': j})}, a: {kind(narrow, a)}, b: {kind(narrow, b)}) {{ out ← {value}; }}"
    if narrow == "bfloat16":
        arrays = [r.array("float32", *box.values()).astype(ml_dtypes.bfloat16) for box in (a, b)]
    else:
        arrays = [r.array(narrow, *box.values()) for box in (a, b)]
    agree(text, dict(zip("ab", arrays, strict=True)), {"contraction"} if wide != "int16" else set())


def test_narrow_integers_reach_the_contraction_as_they_are() -> None:
    text = """f(out: tensor<int, I[0:40], J[0:40]>, a: tensor<int8, I[0:40], K[0:40]>,
      b: tensor<int8, J[0:40], K[0:40]>) {
      out ← reduce(+, 0, K)(cast(a, int) × cast(b, int)); }"""
    (dot,) = [line for line in ti.compile(ti.parse(text)).stablehlo().splitlines() if "dot_general" in line]
    assert "(tensor<40x40xi8>, tensor<40x40xi8>) -> tensor<40x40xi32>" in dot


@pytest.mark.parametrize("step", ["a + x × y", "y × x + a"])
@pytest.mark.parametrize("seed", range(3))
def test_a_fold_that_multiplies_two_arguments_is_a_contraction(step: str, seed: int) -> None:
    r = Draw(seed)
    i, j, k = r.interval(1, 4), r.interval(1, 4), r.interval(16, 19)
    state, left, right = (kind("float", box) for box in ({"I": i, "J": j}, {"I": i}, {"J": j}))
    text = f"""f(out: {state}, p: {kind("float", {"K": k, "I": i})}, q: {kind("float", {"J": j, "K": k})}) {{
      out ← reduce(λ(a: {state}, x: {left}, y: {right}) → {step}, 0.5, K)(p, q); }}"""
    agree(text, {"p": r.array("float", k, i), "q": r.array("float", j, k)}, {"contraction"})


def test_a_fold_of_products_skips_where_another_argument_is_absent() -> None:
    text = """f(out: tensor<float>, x: tensor<float, K[0:20]>, e: tensor<float, E[0:2]>,
      T: tensor<int, K[0:20], _NB_E[0:1]>) {
      out ← reduce(λ(a: tensor<float>, x: tensor<float>, z: tensor<float>) → a + x × x, 0.0, K)(
        x, shift_apply(0)(⟪T⟫(e))); }"""
    table = np.where(np.arange(20) % 3 == 0, -1, 1)[:, None].astype(np.int32)
    r = Draw(6)
    agree(text, {"x": r.array("float", (0, 20)), "e": r.array("float", (0, 2))}, (), {"contraction"}, T=table)


NEAR = {
    "few products without dims on both sides": "reduce(+, 0.0f, L)(a × a)",
    "a product that is changed before it is summed": "reduce(+, 0.0f, K)(exp(a × b))",
    "another operation": "reduce(max, 0.0f, K)(a × b)",
    "a factor that lacks the summed dim": "reduce(+, 0.0f, K)(a × c)",
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_a_contraction_is_none(name: str) -> None:
    r = Draw(1)
    boxes = {"a": {"I": (0, 3), "L": (-1, 4), "K": (0, 33)}, "b": {"K": (0, 33)}, "c": {"I": (0, 3)}}
    value = NEAR[name]
    rest = {"I": (0, 3)} | ({"K": (0, 33)} if ", L)" in value else {"L": (-1, 4)})
    given = ", ".join(f"{n}: {kind('float32', box)}" for n, box in boxes.items() if f"{n}" in value.split(")(")[1])
    text = f"f(out: {kind('float32', rest)}, {given}) {{ out ← {value}; }}"
    arrays = {n: r.array("float32", *box.values()) for n, box in boxes.items() if f"{n}: " in given}
    agree(text, arrays, set(), {"contraction"})


def test_a_product_with_absent_elements_is_summed_without_them() -> None:
    text = """f(out: tensor<float, V[0:3], J[0:2]>, x: tensor<float, E[0:4], K[0:20]>,
      w: tensor<float, K[0:20], J[0:2]>, T: tensor<int, V[0:3], _NB_E[0:2]>) {
      out ← let near = shift_apply(0)(⟪T⟫(x)); reduce(+, 0.0, K)(if(can_deref(near), near, 1.0) × w) +
        reduce(+, 0.0, _NB_0)(reduce(+, 0.0, K)(⟪T⟫(x) × w)); }"""
    r = Draw(0)
    table = np.array([[0, -1], [3, 2], [-1, -1]], np.int32)
    arrays = {"x": r.array("float", (0, 4), (0, 20)), "w": r.array("float", (0, 20), (0, 2))}
    agree(text, arrays, (), {"contraction"}, T=table)
    full = np.array([[0, 1], [3, 2], [2, 2]], np.int32)
    agree(text, arrays, {"contraction"}, T=full)
