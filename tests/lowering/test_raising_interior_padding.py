"""Zeros between elements are put there at once, and are the dilation of a convolution that reads them."""

import pytest
from raised_forms import Draw, agree, kind

import tensorir as ti

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
