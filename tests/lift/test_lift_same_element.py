"""What isl is told of two accesses of one element, against all the equalities; bounds of sums, against their values."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.lifting.accesses.sets import integer_set, same_element, text
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import reference

Box = dict[str, tuple[int, int]]


def a_sum(r: random.Random, box: Box) -> Affine:
    total = number(r.choice([0, 0, 1, 5, -3]))
    for name in r.sample(list(box), r.randint(1, len(box))):
        total = total.plus(variable(name).times(r.choice([1, 1, 2, 3, 6, 12, -1])))
        if r.random() < 0.3:
            by = r.choice([2, 3, 4])
            part = (quotient if r.random() < 0.5 else remainder)(variable(name), by, box)
            total = total.plus(part.times(r.choice([1, 2, 6])))
    return total


def a_box(r: random.Random) -> Box:
    return {n: (low := r.choice([0, 0, 0, 1, -2]), low + r.choice([0, 1, 2, 4])) for n in "ijk"}


def digits(place: Affine, shape: list[int], box: Box) -> list[Affine]:
    """The indices of a place row by row, the first one without an end."""
    found: list[Affine] = []
    for extent in reversed(shape[1:]):
        found.append(remainder(place, extent, box))
        place = quotient(place, extent, box)
    return [place, *reversed(found)]


def value(a: Affine, at: dict[str, int]) -> int:
    total = a.constant
    for atom, c in a.terms:
        total += c * (at[atom] if isinstance(atom, str) else value(atom.inner, at) // atom.by)
    return total


@pytest.mark.parametrize("seed", range(120))
def test_the_place_row_by_row_says_what_all_indices_say(seed: int):
    r = random.Random(seed)
    shape = [r.choice([2, 5]), r.choice([2, 3, 4]), r.choice([3, 4])]
    boxes = a_box(r), a_box(r)
    a, b = ([*digits(a_sum(r, box), shape, box)] for box in boxes)
    if r.random() < 0.3:
        b = [a_sum(r, boxes[1]) for _ in shape]  # may leave its buffer, or name a place twice
    names = [{n: f"{n}_{s}" for n in "ijk"} for s in "ab"]
    within = [
        f"{low} <= {n[k]} <= {high}" for box, n in zip(boxes, names, strict=True) for k, (low, high) in box.items()
    ]
    variables = [*names[0].values(), *names[1].values()]
    every = [f"{text(i, names[0])} = {text(j, names[1])}" for i, j in zip(a, b, strict=True)]
    told = same_element(a, b, shape, *names, *boxes)
    assert integer_set(variables, [*within, *told]).is_equal(integer_set(variables, [*within, *every]))


@pytest.mark.parametrize("seed", range(120))
def test_bounds_of_a_sum_hold_all_its_values(seed: int):
    r = random.Random(seed)
    box = a_box(r)
    for index in digits(a_sum(r, box), [1, r.choice([2, 3, 4]), r.choice([3, 4, 6])], box):
        found = index.range(box)
        assert found is not None
        points = [dict(zip(box, p, strict=True)) for p in product(*(range(a, b + 1) for a, b in box.values()))]
        values = [value(index, p) for p in points]
        assert found[0] <= min(values)
        assert max(values) <= found[1]


def test_a_digit_stays_inside_of_its_extent():
    box = {"i": (0, 3), "j": (0, 40)}
    place = variable("i").times(63).plus(variable("j").times(2))
    digit = remainder(quotient(place, 63, box), 4, box)
    assert str(digit) == "i + j*2 // 63 - ((j*2 + i*63) // 252)*4"
    assert digit.range(box) == (0, 3)


# Storage that holds parts of other storage in places that no sum tells: tiles that straddle rows, or begin there.


TILES = """
@T.prim_func
def main(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5, 7), "float32")):
    S = T.alloc_buffer((5, 7), "float32", scope="{0}")
    for bx in T.thread_binding(5, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(((bx * 8 + 7) // 7 - bx * 8 // 7 + 1) * 7 // {1}):
                if k < 3 and bx * 8 // 7 + (k * 8 + tx) // 7 < 5:
                    S[bx * 8 // 7 + (k * 8 + tx) // 7, (k * 8 + tx) % 7] = {2}
            T.tvm_storage_sync("shared")
            if bx * 8 + tx < 35:
                B[(bx * 8 + tx) // 7, (bx * 8 + tx) % 7] = S[(bx * 8 + tx) // 7, (bx * 8 + tx) % 7] * T.float32(2)
"""
PLACE = "[bx * 8 // 7 + (k * 8 + tx) // 7, (k * 8 + tx) % 7]"


@pytest.mark.parametrize(("scope", "turns"), [("shared", 100), ("shared", 14), ("local", 4)])
def test_what_a_block_or_a_thread_does_not_fetch_is_not_read_from_elsewhere(scope: str, turns: int):
    function = ti.tir.parse(TILES.format(scope, turns, f"A{PLACE}"))["main"]
    zeros = np.zeros((5, 7), np.float32)
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, zeros, zeros, checked=True)
    ones = np.ones((5, 7), np.float32)
    assert (reference(ti.lift(function, on_hazard="ignore"))(ones, zeros)[0] != 2 * ones).any()
