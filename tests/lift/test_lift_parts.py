"""Parts of a loop that hands on several elements at once run in the order of the text."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.harness import agree as agreed
from tests.lift.harness import figures, parsed

A = np.round(np.random.default_rng(11).normal(size=(6, 4, 5)) * 2).astype(np.float32)

STEPS = {
    "the first of the largest": (
        "I[i] = T.Select(V[i] < A[i, j, k], j * 5 + k, I[i])",
        "V[i] = T.Select(V[i] < A[i, j, k], A[i, j, k], V[i])",
    ),
    "the last of the largest": (
        "I[i] = T.Select(V[i] <= A[i, j, k], j * 5 + k, I[i])",
        "V[i] = T.Select(V[i] <= A[i, j, k], A[i, j, k], V[i])",
    ),
    "what stood there before": ("I[i] = I[i] * 2 + T.Cast('int32', V[i])", "V[i] = A[i, j, k]"),
}
"""None of these may take its elements in another order."""

Ranges = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@cache
def program(name: str, *parts: Ranges, between: tuple[str, ...] = (), start: bool = True) -> Any:
    """The steps in each of some boxes, after a start."""
    lines = ["for i in range(6):", "    I[i] = -1", "    V[i] = T.float32(-9)"] if start else []
    for n, part in enumerate(parts):
        lines += between if n else ()
        lines += [
            f"{'    ' * d}for {x} in range({a}, {b}):" for d, (x, (a, b)) in enumerate(zip("ijk", part, strict=True))
        ]
        lines += [f"            {step}" for step in STEPS[name]]
    params = 'A: T.Buffer((6, 4, 5), "float32"), I: T.Buffer((6,), "int32"), V: T.Buffer((6,), "float32")'
    extra = ', W: T.Buffer((6,), "float32")' if between else ""
    body = "\n    ".join(lines)
    return ti.tir.parse(f"@T.prim_func\ndef main({params}{extra}):\n    {body}\n")["main"]


lifted = cache(ti.lift)


def agree(function: Any, **options: Any) -> None:
    arrays = [A, *(np.zeros(6, d) for d in ("int32", "float32", "float32")[: len(function.params) - 1])]
    agreed(function, *arrays, checked=False, **options)


IN_PARTS: dict[str, tuple[Ranges, ...]] = {
    "rows": (((0, 2), (0, 4), (0, 5)), ((2, 6), (0, 4), (0, 5))),
    "rows, the last ones first": (((2, 6), (0, 4), (0, 5)), ((0, 2), (0, 4), (0, 5))),
    "three parts of the rows": (((0, 2), (0, 4), (0, 5)), ((2, 3), (0, 4), (0, 5)), ((3, 6), (0, 4), (0, 5))),
    "the outer loop of a fold": (((0, 6), (0, 3), (0, 5)), ((0, 6), (3, 4), (0, 5))),
    "the outer loop of a fold, its first round alone": (((0, 6), (0, 1), (0, 5)), ((0, 6), (1, 4), (0, 5))),
    "the last part of a fold first": (((0, 6), (3, 4), (0, 5)), ((0, 6), (0, 3), (0, 5))),
    "the inner loop of a fold": (((0, 6), (0, 4), (0, 2)), ((0, 6), (0, 4), (2, 5))),
    "a part twice": (((0, 6), (0, 3), (0, 5)), ((0, 6), (2, 4), (0, 5))),
}


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("parts", IN_PARTS)
def test_parts_of_a_loop_run_in_the_order_of_the_text(parts: str, name: str, numerics: str):
    agree(program(name, *IN_PARTS[parts]), numerics=numerics)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("parts", ["the outer loop of a fold", "rows, the last ones first"])
def test_what_is_read_between_two_parts_is_what_the_first_one_left(parts: str, name: str):
    agree(program(name, *IN_PARTS[parts], between=("for i in range(6):", "    W[i] = V[i]")))


@pytest.mark.parametrize("name", STEPS)
def test_a_loop_whose_rounds_both_parts_share_runs_round_by_round(name: str):
    """Each round of the outer loop runs both parts: as one loop, all rounds of the first part would come first."""
    rounds = "\n".join(
        f"        for k in range({a}, {b}):\n            " + "\n            ".join(STEPS[name])
        for a, b in ((0, 2), (2, 5))
    )
    function = ti.tir.parse(
        '@T.prim_func\ndef main(A: T.Buffer((6, 4, 5), "float32"), I: T.Buffer((6,), "int32"), '
        f'V: T.Buffer((6,), "float32")):\n    for j, i in T.grid(4, 6):\n{rounds}\n'
    )["main"]
    agree(function)


def test_a_sum_whose_last_part_comes_first_is_added_up_so():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(32, 64):
        B[0] = B[0] + A[k]
    for k in range(32):
        B[0] = B[0] + A[k]
""")["main"]
    given = np.random.default_rng(0).normal(size=64).astype(np.float32), np.zeros(1, np.float32)
    (found,) = lifted(function, numerics="exact")(*given)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, *given)[1])


UNEQUAL = {
    "all but the first": ("i != 0", "i > 0", "A[i - 1]"),
    "all but the last": ("i != 7", "i < 7", "A[i + 1]"),
    "not the last": ("not (i == 7)", "i < 7", "A[i + 1]"),
    "all but the least sum of two": ("i + j != 0", "i + j > 0", "A[i + j - 1]"),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_what_differs_from_an_end_of_its_range_is_a_part_of_it(name: str):
    unequal, inside, read = UNEQUAL[name]
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 1), "float32")):\n'

    def of(condition: str) -> Any:
        body = f"""
for i in range(8):
    for j in range(1):
        if {condition}:
            B[i, j] = {read}
        else:
            B[i, j] = T.float32(0)
"""
        return parsed(head, body)

    near, bounded = agreed(of(unequal)), ti.lift(of(inside))
    assert figures(near) == figures(bounded)
    assert "≠" not in str(near.fencil)
