"""Parts of a loop that hands on several elements at once run in the order of the text."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.harness import agree as agreed
from tests.lift.harness import near

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
    "what stood there before": (
        "I[i] = I[i] * 2 + T.Cast('int32', V[i])",
        "V[i] = A[i, j, k]",
    ),
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


def test_memory_of_which_each_part_has_its_rows_is_one_buffer():
    """The scaled rows of both halves stand in one buffer, which the second half does not fill anew."""
    rows = """
    for i in range({0}, {1}):
        for j in range(4):
            S[i, j] = A[i, j, 0] * T.float32(2)
        for j in range(4):
            B[i, j] = S[i, j] + S[i, 3 - j]"""

    def function(*parts: tuple[int, int]) -> Any:
        body = "".join(rows.format(*part) for part in parts)
        return ti.tir.parse(
            '@T.prim_func\ndef main(A: T.Buffer((6, 4, 5), "float32"), B: T.Buffer((6, 4), "float32")):\n'
            f'    S = T.alloc_buffer((6, 4), "float32"){body}\n'
        )["main"]

    near(lifted(function((0, 2), (2, 6))), lifted(function((0, 6))))
    (found,) = lifted(function((0, 2), (2, 6)))(A, np.zeros((6, 4), np.float32))
    np.testing.assert_array_equal(found, A[:, :, 0] * 2 + A[:, ::-1, 0] * 2)


PIECES = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range({1}):
        B[i] = A[{0}]
    for i in range({1}, 10):
        B[9 - (9 - i)] = A[{0}] * T.float32(1)
"""


@pytest.mark.parametrize("cut", [2, 3, 5, 7])
@pytest.mark.parametrize(
    "place",
    [
        "T.if_then_else(i >= 6, 9 - i, T.if_then_else(i < 1, 1 - i, i - 1))",
        "T.if_then_else(i < 4, 9 - i, i - 1)",
    ],
)
def test_a_place_of_several_sums_is_one_place_again_wherever_its_loop_is_cut(place: str, cut: int):
    function = ti.tir.parse(PIECES.format(place, cut))["main"]
    whole = PIECES[: PIECES.index("    for i in range({1},")].format(place, 10)
    near(lifted(function), ti.lift(ti.tir.parse(whole)["main"]))
    given = A[0].reshape(-1)[:10], np.zeros(10, np.float32)
    np.testing.assert_array_equal(lifted(function)(*given)[0], ti.tir.interpret(function, *given)[1])


@pytest.mark.parametrize("cut", [3, 5])
def test_a_condition_of_two_bounds_is_one_condition_again_where_each_part_has_one_of_them(cut: int):
    """The first part is left with `i >= 2`, the second one with `i < 7`."""
    padded = "T.if_then_else(i >= 2 and i < 7, A[i], T.float32(0))"
    pieces = PIECES.replace("A[{0}]", "{0}")
    function = ti.tir.parse(pieces.format(padded, cut))["main"]
    whole = pieces[: pieces.index("    for i in range({1},")].format(padded, 10)
    near(lifted(function), ti.lift(ti.tir.parse(whole)["main"]))
    given = A[0].reshape(-1)[:10], np.zeros(10, np.float32)
    np.testing.assert_array_equal(lifted(function)(*given)[0], ti.tir.interpret(function, *given)[1])


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("T.if_then_else(i < 1, 1, 0)", "T.if_then_else(i >= 6, 9 - i, i + 1)"),
        ("i", "T.if_then_else(i >= 6, 9 - i, 2)"),
        ("T.if_then_else(i < 2, 5, i)", "T.if_then_else(i < 6, i, 4)"),
    ],
)
def test_places_of_which_neither_part_tells_those_of_the_other_have_the_values_of_the_text(first: str, then: str):
    text_of_both = PIECES.replace("A[{0}]", "A[{2}]", 1).format(then, 3, first)
    function = ti.tir.parse(text_of_both)["main"]
    given = A[0].reshape(-1)[:10], np.zeros(10, np.float32)
    np.testing.assert_array_equal(lifted(function)(*given)[0], ti.tir.interpret(function, *given)[1])


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


def test_parts_that_join_leave_no_circle_behind():
    """Statements in other loops are taken to meet: those that do not must not keep others in the order of the text."""
    body = """
    for z, i, j in T.grid(2, 2, 3):
        if z < 1 and j < 5:
            B[i, j] = -5
        if z < 1 and 3 + j < 5:
            B[i, 3 + j] = -5
            B[i, 3 + j] = T.max(B[i, 3 + j], 1)
    B[0, 3] = B[0, 3] + 1
    for z, i, j in T.grid(2, 2, 3):
        if z < 1 and 2 + i < 3 and j < 5:
            B[2 + i, j] = -5
        if z < 1 and 2 + i < 3 and 3 + j < 5:
            B[2 + i, 3 + j] = -5
            B[2 + i, 3 + j] = T.max(B[2 + i, 3 + j], 1)
"""
    function = ti.tir.parse(f'@T.prim_func\ndef main(B: T.Buffer((3, 5), "int32")):\n{body}')["main"]
    numbers = np.zeros((3, 5), np.int32)
    np.testing.assert_array_equal(lifted(function)(numbers)[0], ti.tir.interpret(function, numbers)[0])
