"""Windows times weights become convolutions, contractions of stacked windows, or stay shifted slices."""

import pytest
from raised_forms import ZERO, Draw, agree, kind


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
