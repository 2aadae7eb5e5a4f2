"""Contractions and convolutions that are recognised."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from raised_forms import ZERO, Draw, agree, kind

import tensorir as ti
from lowering.tracing import with_batch
from tensorir.runtime.errors import DiagnosticError

# Sums of products become contractions where nothing is absent and both factors have the dims that are summed over


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


# Windows times weights become convolutions, contractions of stacked windows, or stay shifted slices


def convolution(
    r: Draw, element: str, channels: int, groups: int, rank: int, padded: bool
) -> tuple[str, dict[str, object]]:
    """A convolution along some dims, with strides, dilations and starts at random, and what it is applied to."""
    spatial = [(f"Y{d}", f"R{d}") for d in range(rank)]
    box: dict[str, tuple[int, int]] = {"N": r.interval(1, 2)} if r.random() < 0.5 else {}
    group = {"G": r.interval(groups, groups)} if groups > 1 else {}
    c, f = {"C": r.interval(channels, channels)}, {"F": r.interval(2, 4)}
    outer, inner, source, part, index = {}, {}, {}, {}, []
    for y, t in spatial:
        outer[y], inner[t] = r.interval(4, 6), r.interval(1, 3)
        stride, dilation, constant = r.randint(1, 3), r.randint(1, 2), r.randint(-3, 3)
        first = stride * outer[y][0] + dilation * inner[t][0] + constant
        last = stride * (outer[y][1] - 1) + dilation * (inner[t][1] - 1) + constant
        low, high = (r.randint(0, 2), r.randint(0, 2)) if padded else (0, 0)
        source[f"S{y}"] = first, last + 1 + r.randint(0, 2)
        part[f"S{y}"] = first + low, max(first + low + 1, source[f"S{y}"][1] - high)
        index.append(f"{stride} × pos({y}, z{y}) + ({dilation} × pos({t}, w) + {constant})")
    x, w = {**box, **group, **c, **part}, {**f, **c, **inner, **group}
    out = {**box, **group, **f, **outer}
    whole = "x"
    if padded:
        around = ZERO[element]
        for n, (start, stop) in source.items():
            around = f"add_dim({n}, {start}, {stop}, {around})"
        for n in (*box, *group, *c):
            around = f"add_dim({n}, {x[n][0]}, {x[n][1]}, {around})"
        whole = f"update({around}, x)"
    value = f"gather({', '.join(source)}, clamp)({whole}, {', '.join(index)}) × w"
    order = [*c, *inner]
    r.shuffle(order)
    for n in order:
        value = f"reduce(+, {ZERO[element]}, {n})({value})"
    given = {"x": x, "w": w, **{f"z{y}": {y: outer[y]} for y in outer}}
    params = ", ".join(f"{n}: {kind(element, b)}" for n, b in given.items())
    text = f"f(out: {kind(element, out)}, {params}) {{ out ← {value}; }}"
    return text, {n: r.array(element, *b.values()) for n, b in given.items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_window_of_many_channels_times_weights_is_a_convolution(seed: int) -> None:
    r = Draw(seed)
    text, arrays = convolution(
        r, r.choice(["float32", "float"]), 16, r.choice([1, 1, 3]), r.choice([1, 2]), seed % 2 == 0
    )
    agree(text, arrays, {"window", "convolution"})


MOVED_WINDOWS = {
    "the window is shifted": ("⟪P, 1⟫({})", "P", (-1, 7), "R", (0, 3)),
    "what moves the window has another name": ("rename(P → G)({})", "G", (0, 8), "R", (0, 3)),
    "the points of the window are shifted": ("⟪R, 1⟫({})", "P", (0, 8), "R", (-1, 2)),
    "the points of the window have another name": ("rename(R → S)({})", "P", (0, 8), "S", (0, 3)),
}


@pytest.mark.parametrize("moved, outer, points, inner, taps", MOVED_WINDOWS.values(), ids=MOVED_WINDOWS)
def test_a_window_that_is_moved_is_none_of_what_it_was(moved: str, outer: str, points: Any, inner: str, taps: Any):
    out, x = {"N": (0, 2), "F": (0, 8), outer: points}, {"N": (0, 2), "C": (0, 16), "Q": (0, 10)}
    w = {"F": (0, 8), "C": (0, 16), inner: taps}
    window = "gather(Q, clamp)(x, pos(P, add_dim(P, 0, 8, 0)) + pos(R, add_dim(R, 0, 3, 0)))"
    given = f"x: {kind('float32', x)}, w: {kind('float32', w)}"
    text = f"""f(out: {kind("float32", out)}, {given}) {{
      out ← contract(float32, C, {inner})({moved.format(window)}, w); }}"""
    r = Draw(0)
    agree(text, {"x": r.array("float32", *x.values()), "w": r.array("float32", *w.values())}, {"window"})


@pytest.mark.parametrize(
    "value",
    [
        "if subset(g, K[0:32]) > 0.0f then ⟪K, 1⟫(a × b) else 0.0f",
        "if ⟪K, 1⟫(g) > 0.0f then ⟪K, 1⟫(a × b) else 0.0f",
        "⟪K, 1⟫(a × c) × subset(b, K[0:32])",
        "⟪K, 1⟫(if g > 0.0f then a × b else 0.0f)",
    ],
)
def test_a_product_that_is_shifted_has_no_factors_of_before(value: str):
    boxes = {
        "a": {"I": (0, 4), "K": (0, 33)},
        "b": {"K": (0, 33), "J": (0, 4)},
        "c": {"I": (0, 4)},
        "g": {"K": (0, 33)},
    }
    given = ", ".join(f"{n}: {kind('float32', box)}" for n, box in boxes.items())
    text = f"""f(out: {kind("float32", {"I": (0, 4), "J": (0, 4)})}, {given}) {{
      out ← reduce(+, 0.0f, K)({value}); }}"""
    r = Draw(0)
    agree(text, {n: r.array("float32", *box.values()) for n, box in boxes.items()}, ())


@pytest.mark.parametrize("seed", range(4))
def test_a_window_of_few_channels_is_no_convolution(seed: int) -> None:
    r = Draw(seed)
    text, arrays = convolution(r, "float32", r.choice([1, 3]), r.choice([1, 2]), 2, seed % 2 == 0)
    agree(text, arrays, {"window"}, {"convolution"})


@pytest.mark.parametrize("seed", range(4))
def test_a_window_of_integers_times_weights_is_no_convolution(seed: int) -> None:
    r = Draw(seed)
    text, arrays = convolution(r, "int", 16, 1, r.choice([1, 2]), seed % 2 == 0)
    agree(text, arrays, {"window"}, {"convolution"})


POOL = {"max": "reduce(max, -inf, {})({})", "min": "reduce(min, inf, {})({})", "+": "reduce(+, 0.0, {})({})"}


@pytest.mark.parametrize("op", POOL)
@pytest.mark.parametrize("seed", range(3))
def test_a_pool_is_a_fold_over_one_dim_after_the_other(op: str, seed: int) -> None:
    r = Draw(seed)
    y, x, ry, rx, n = r.interval(2, 5), r.interval(1, 5), r.interval(1, 3), r.interval(1, 4), r.interval(1, 3)
    stride = r.randint(1, 3)

    def reach(outer: tuple[int, int], inner: tuple[int, int]) -> tuple[int, int]:
        return stride * outer[0] + inner[0], stride * (outer[1] - 1) + inner[1]

    box = {"B": (0, 2), "N": n, "V": reach(y, ry), "H": reach(x, rx)}
    read = f"{stride} × pos(Y, y) + pos(RY, ry)", f"pos(RX, rx) + pos(X, x) × {stride}"
    value = f"gather(B, V, H, clamp)(a, 1, {', '.join(read)})"
    for dim in ("RY", "RX"):
        value = POOL[op].format(dim, value)
    given = {"a": box, "y": {"Y": y}, "x": {"X": x}, "ry": {"RY": ry}, "rx": {"RX": rx}}
    params = ", ".join(f"{name}: {kind('float', b)}" for name, b in given.items())
    text = f"f(out: {kind('float', {'N': n, 'Y': y, 'X': x})}, {params}) {{ out ← {value}; }}"
    agree(text, {name: r.array("float", *b.values()) for name, b in given.items()}, {"pools"}, {"convolution"})


@pytest.mark.parametrize(
    "index",
    ["pos(J, x), pos(I, x)", "9 - pos(I, x), 8 - pos(J, x)", "2 × pos(I, x) - 1, 4", "pos(J, x) - -1, 2 × pos(I, x)"],
)
def test_coordinates_as_indices_are_slices_whatever_the_dims_are_called(index: str) -> None:
    dims = "I[1:4]" if index.endswith(", 4") else "I[1:4], J[0:4]"
    text = f"""f(out: tensor<float, {dims}>, x: tensor<float, I[-2:9], J[-1:10]>) {{
      out ← gather(I, J, clamp)(x, {index.replace("x)", "subset(x, I[1:4], J[0:4]))")}); }}"""
    agree(text, {"x": Draw(3).array("float", (-2, 9), (-1, 10))}, {"window"})


@pytest.mark.parametrize("index", ["pos(I, x) × pos(I, x), 0", "pos(I, x), pos(I, x)", "pos(I, x) + 8, 1"])
def test_other_indices_are_gathered(index: str) -> None:
    text = f"""f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:9], J[0:9]>) {{
      out ← gather(I, J, clamp)(x, {index.replace("x)", "subset(x, I[0:3], J[0:1]))")}); }}"""
    agree(text, {"x": Draw(3).array("float", (0, 9), (0, 9))}, set(), {"window"})


def test_constants_are_points_of_their_axes() -> None:
    text = """f(out: tensor<float, K[0:2]>, x: tensor<float, I[-2:3], K[0:2]>) { out ← gather(I, clamp)(x, -1); }"""
    agree(text, {"x": Draw(5).array("float", (-2, 3), (0, 2))}, {"constant index"})
    outside = text.replace("-1", "7")
    agree(outside, {"x": Draw(5).array("float", (-2, 3), (0, 2))}, set(), {"constant index", "window"})


# Zeros between elements are put there at once, and are the dilation of a convolution that reads them

CONDITIONS = ["pos({0}, z{0}) % {1} = 0", "pos({0}, z{0}) - {1} × floordiv(pos({0}, z{0}), {1}) = 0"]


def spread(
    r: Draw, whole: dict[str, tuple[int, int]], steps: dict[str, int], rest: dict[str, tuple[int, int]]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """Elements of x at the multiples of the steps on the whole, zeros elsewhere; and the intervals of x."""
    conditions = [r.choice(CONDITIONS).format(n, s) for n, s in steps.items()]
    box = {
        f"S{n}": (a // steps[n] - r.randint(0, 1), (b - 1) // steps[n] + 1 + r.randint(0, 1))
        for n, (a, b) in whole.items()
    }
    index = ", ".join(f"floordiv(pos({n}, z{n}), {s})" for n, s in steps.items())
    value = f"if {' ∧ '.join(conditions)} then gather({', '.join(box)}, clamp)(x, {index}) else 0.0"
    return value, {**rest, **box}


@pytest.mark.parametrize("seed", range(8))
def test_elements_at_multiples_are_put_between_zeros(seed: int) -> None:
    r = Draw(seed)
    whole = {n: r.interval(3, 9) for n in ("Y", "X")[: r.randint(1, 2)]}
    value, box = spread(r, whole, {n: r.randint(2, 3) for n in whole}, {"C": r.interval(1, 3)})
    boxes = {"x": box, **{f"z{n}": {n: i} for n, i in whole.items()}}
    params = ", ".join(f"{n}: {kind('float', b)}" for n, b in boxes.items())
    text = f"f(out: {kind('float', {'C': box['C'], **whole})}, {params}) {{ out ← {value}; }}"
    agree(text, {n: r.array("float", *b.values()) for n, b in boxes.items()}, {"dilation"})


@pytest.mark.parametrize("seed", range(6))
def test_a_convolution_of_elements_between_zeros_is_dilated(seed: int) -> None:
    r = Draw(seed)
    whole = {n: r.interval(9, 12) for n in ("Y", "X")[: r.randint(1, 2)]}
    steps, points = {n: r.randint(2, 3) for n in whole}, dict(whole)
    value, box = spread(r, whole, steps, {"C": r.interval(16, 16)})
    outer, inner, index = {}, {}, []
    for n, (a, b) in whole.items():
        low, high = (a - r.randint(0, 2), b + r.randint(0, 2)) if seed % 2 else (a, b)
        taps, stride = r.interval(1, 3), r.randint(1, 2)
        outer[f"O{n}"], inner[f"R{n}"] = (0, (high - low - (taps[1] - taps[0])) // stride + 1), taps
        index.append(f"{stride} × pos(O{n}, o{n}) + (pos(R{n}, w) + {low - taps[0]})")
        if seed % 2:
            other = [m for m in ("C", *whole) if m != n]
            around = f"add_dim({n}, {low}, {high}, 0.0)"
            for m in other:
                start, stop = box["C"] if m == "C" else whole[m]
                around = f"add_dim({m}, {start}, {stop}, {around})"
            value = f"update({around}, {value})"
            whole = {**whole, n: (low, high)}
    w = {"F": (0, 3), "C": box["C"], **inner}
    value = f"gather({', '.join(whole)}, clamp)({value}, {', '.join(index)}) × w"
    for n in ("C", *inner):
        value = f"reduce(+, 0.0, {n})({value})"
    boxes = {"x": box, "w": w, **{f"o{n[1:]}": {n: i} for n, i in outer.items()}}
    boxes |= {f"z{n}": {n: i} for n, i in points.items()}
    params = ", ".join(f"{n}: {kind('float', b)}" for n, b in boxes.items())
    text = f"f(out: {kind('float', {'F': (0, 3), **outer})}, {params}) {{ out ← {value}; }}"
    agree(text, {n: r.array("float", *b.values()) for n, b in boxes.items()}, {"dilation", "convolution"})
    (line,) = [t for t in ti.compile(ti.parse(text)).stablehlo().splitlines() if "stablehlo.convolution" in t]
    assert f"lhs_dilate = {list(steps.values())}" in line


@pytest.mark.parametrize(
    "value",
    [
        "if pos(Y, z) % 2 = 1 then gather(S, clamp)(x, floordiv(pos(Y, z), 2)) else 0.0",
        "if pos(Y, z) % 2 = 0 then gather(S, clamp)(x, floordiv(pos(Y, z), 3)) else 0.0",
        "if pos(Y, z) % 2 = 0 then gather(S, clamp)(x, floordiv(pos(Y, z), 2)) else 1.0",
        "if pos(Y, z) % 2 = 0 then gather(S, clamp)(x, floordiv(pos(Y, z), 2) + 1) else 0.0",
        "if pos(Y, z) % 1 = 0 then gather(S, clamp)(x, floordiv(pos(Y, z), 1)) else 0.0",
        "if pos(Y, z) % 2 = 0 ∧ z > 0.0 then gather(S, clamp)(x, floordiv(pos(Y, z), 2)) else 0.0",
    ],
)
def test_what_is_nearly_spread_is_chosen_point_by_point(value: str) -> None:
    text = (
        f"""f(out: tensor<float, Y[-3:5]>, x: tensor<float, S[-4:6]>, z: tensor<float, Y[-3:5]>) {{ out ← {value}; }}"""
    )
    r = Draw(1)
    agree(text, {"x": r.array("float", (-4, 6)), "z": r.array("float", (-3, 5))}, (), {"dilation"})


# `contract` as it is written

NARROW = np.random.default_rng(3)

CASES = {
    "a product of matrices": ("K", "I[0:5], J[0:7]", "I[0:5], K[0:33]", "K[0:33], J[0:7]", "ik,kj->ij"),
    "batch dims": ("K", "B[0:3], I[0:4], J[0:2]", "B[0:3], I[0:4], K[0:20]", "B[0:3], K[0:20], J[0:2]", "bik,bkj->bij"),
    "several dims": ("K, L", "I[0:4], J[0:2]", "I[0:4], K[0:6], L[0:5]", "K[0:6], L[0:5], J[0:2]", "ikl,klj->ij"),
    "a scalar product": ("K", "", "K[0:40]", "K[0:40]", "k,k->"),
    "few products": ("K", "I[0:4]", "I[0:4], K[0:3]", "K[0:3]", "ik,k->i"),
    "a dim of one factor": ("K", "I[0:4]", "I[0:4], K[0:30]", "I[0:4]", "ik,i->i"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{}, {"numerics": "exact"}, {"passes": ()}, {"raising": ()}])
def test_a_contraction_is_einsum(name, options):
    over, out, left, right, letters = CASES[name]
    f = ti.parse(
        f"f(y: tensor<float, {out}>, a: tensor<float, {left}>, b: tensor<float, {right}>) "
        f"{{ y ← contract(float, {over})(a, b); }}".replace(", >", ">")
    )
    a, b = (NARROW.standard_normal(f[n].type.dims.shape) for n in "ab")
    wanted = np.einsum(letters, a, b)
    c = ti.compile(f, **options)
    np.testing.assert_allclose(c(a=a, b=b)["y"], wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ti.reference.run(f, a=a, b=b)["y"], wanted, rtol=1e-12, atol=1e-12)
    with jax.enable_x64(True):
        found = jax.grad(lambda a: jnp.sum(c(a=a, b=jnp.asarray(b))["y"] ** 2))(jnp.asarray(a))
        given = jax.grad(lambda a: jnp.sum(jnp.einsum(letters, a, b) ** 2))(jnp.asarray(a))
    np.testing.assert_allclose(found, given, rtol=1e-11, atol=1e-11)


def test_factors_on_unlike_intervals_meet_where_both_are():
    f = ti.parse("""f(y: tensor<float, I[0:2]>, a: tensor<float, I[0:2], K[0:30]>, b: tensor<float, K[3:40]>) {
      y ← contract(float, K)(a, b); }""")
    a, b = NARROW.standard_normal((2, 30)), NARROW.standard_normal(37)
    np.testing.assert_allclose(ti.compile(f)(a=a, b=b)["y"], a[:, 3:] @ b[:27], rtol=1e-12)


@pytest.mark.parametrize(("narrow", "wide"), [("int8", "int32"), ("float16", "float32"), ("int32", "float64")])
def test_products_are_made_in_the_type_of_the_sum(narrow, wide):
    f = ti.parse(f"""f(y: tensor<{wide}, I[0:6], J[0:5]>, a: tensor<{narrow}, I[0:6], K[0:64]>,
      b: tensor<{narrow}, K[0:64], J[0:5]>) {{ y ← contract({wide}, K)(a, b); }}""")
    a, b = ((NARROW.uniform(-99, 99, s)).astype(narrow) for s in ((6, 64), (64, 5)))
    wanted = a.astype(wide) @ b.astype(wide)
    c = ti.compile(f)
    np.testing.assert_allclose(c(a=a, b=b)["y"], wanted, rtol=1e-5)
    assert [row.rule for row in c.raised()] == ["contraction"]


def test_what_a_neighbour_that_is_not_there_would_add_is_nothing():
    f = ti.parse("""f(y: tensor<float, V[0:3]>, t: tensor<int, V[0:3], _NB_E[0:2]>, x: tensor<float, E[0:3]>,
      w: tensor<float, V[0:3], _NB_0[0:2]>) { y ← contract(float, _NB_0)(⟪t⟫(x), w); }""")
    t = np.array([[0, 1], [1, 2], [2, -1]])
    x, w = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    wanted = [(x[t[v]] * w[v])[t[v] >= 0].sum() for v in range(3)]
    np.testing.assert_array_equal(ti.reference.run(f, t=t, x=x, w=w)["y"], wanted)
    np.testing.assert_array_equal(ti.compile(f)(t=t, x=x, w=w)["y"], wanted)


def test_the_pipeline_shows_what_a_sum_became_and_can_be_chosen():
    f = ti.parse("f(y: tensor<float>, a: tensor<float, K[0:99]>) { y ← reduce(+, 2.0, K)(a × a); }")
    c = ti.compile(f)
    assert str(c.pipeline()["contractions"].after.closures[0].value) == "2.0 + contract(float, K)(a, a)"
    assert not c.pipeline()["materialise"].changed
    assert len(ti.compile(f, passes=()).pipeline()) == 0
    chosen = "inline, materialise(min_per_byte=2.0)"
    assert [s.name for s in ti.compile(f, passes=chosen).pipeline()] == chosen.split(", ")
    assert "contractions" not in str(ti.compile(f, numerics="exact").pipeline())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("contract(float, M)(a, a)", "no operand has the dim M."),
        ("contract(float, K, K)(a, a)", "a dim is summed over twice."),
        ("contract(int, K)(a, a)", "products of float64 are not summed as int32."),
        ("contract(float, K)(a, a = a)", "bool stands where a number is needed."),
    ],
)
def test_what_cannot_be_contracted_is_said(said, message):
    with pytest.raises(DiagnosticError) as caught:
        ti.parse(f"f(y: tensor<float>, a: tensor<float, K[0:9]>) {{ y ← {said}; }}")
    assert caught.value.diagnostics[0].message == message


# Where the axis of a batch goes


@pytest.mark.parametrize("old", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_batch_is_moved_and_the_rest_keeps_its_order(old, axis):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    assert np.array_equal(with_batch(x, old, axis, x.shape[old]), np.moveaxis(x, old, axis))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_what_is_alike_for_a_whole_batch_is_spread_along_it(axis):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.array_equal(with_batch(x, None, axis, 5), np.stack([x] * 5, axis))
