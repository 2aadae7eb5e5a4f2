"""Iterations that touch one element: digits miss none that counting finds, and loops keep their order where they do."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.affine import Affine, number, variable
from tensorir.lifting.accesses.overlap import NOWHERE, Overlap, overlap

NAMES = ("i", "j", "k")


def _index(r: random.Random) -> Affine:
    found = number(r.randint(-2, 3))
    for name in r.sample(NAMES, r.randint(1, 3)):
        found = found.plus(variable(name).times(r.choice([-2, -1, 1, 1, 2, 3, 4, 6])))
    return found


def _value(index: Affine, at: dict[str, int]) -> int:
    spread = index.range({n: (v, v) for n, v in at.items()})
    assert spread is not None
    return spread[0]


def _counted(x: list[Affine], y: list[Affine], a: dict[str, tuple[int, int]], b: dict[str, tuple[int, int]]) -> Overlap:
    """The same, by looking at all pairs of iterations."""
    inside, forward, backward = False, set[int](), set[int]()
    points = [
        [dict(zip(NAMES, p, strict=True)) for p in product(*(range(box[n][0], box[n][1] + 1) for n in NAMES))]
        for box in (a, b)
    ]
    for p, q in product(*points):
        if all(_value(i, p) == _value(j, q) for i, j in zip(x, y, strict=True)):
            carried = next((k for k, n in enumerate(NAMES) if p[n] != q[n]), None)
            if carried is None:
                inside = True
            else:
                (forward if p[NAMES[carried]] < q[NAMES[carried]] else backward).add(carried)
    return Overlap(inside, frozenset(forward), frozenset(backward))


@pytest.mark.parametrize("first", range(0, 600, 60))
def test_digits_miss_no_pair_of_iterations(first: int):
    known = 0
    for seed in range(first, first + 60):
        r = random.Random(seed)
        dims = r.randint(1, 2)
        x, y = ([_index(r) for _ in range(dims)] for _ in range(2))
        y = [i.plus(number(r.randint(-2, 2))) for i in x] if r.random() < 0.5 else y
        a, b = ({n: (low := r.randint(0, 1), low + r.randint(0, 3)) for n in NAMES} for _ in range(2))
        found, wanted = overlap(x, y, a, b, NAMES), _counted(x, y, a, b)
        if found is None:
            continue
        known += 1
        told = f"{seed}: {x}, {y}, {a}, {b}"
        assert found.inside >= wanted.inside, told
        assert found.forward >= wanted.forward and found.backward >= wanted.backward, told
        assert (found == NOWHERE) <= (wanted == NOWHERE), told
    assert known > 5


def test_stores_whose_steps_have_no_common_multiple_keep_their_order():
    func = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32"), S: T.Buffer((16,), "int32")):
    for i in range(5):
        S[i * 2] = A[i]
        S[i * 3 + 1] = B[i]
""")["main"]
    given = np.arange(5, dtype=np.int32), np.arange(100, 105, dtype=np.int32), np.zeros(16, np.int32)
    wanted = ti.tir.interpret(func, *given)[2]
    assert wanted[4] == 2
    np.testing.assert_array_equal(ti.lift(func)(*given)[0], wanted)
