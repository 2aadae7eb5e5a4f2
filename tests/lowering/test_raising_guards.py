"""Sums of products that count where a guard holds are contractions, whatever stands where it does not."""

import jax
import numpy as np
import pytest
from raised_forms import ZERO, Draw, agree, kind

import tensorir as ti

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
