"""The best of each part of a row and the best of these are the best of the row, unless it matters who came first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.harness import reference

ROWS = np.round(np.random.default_rng(5).normal(size=(6, 20)) * 1.5).astype(np.float32)
ROWS[0], ROWS[1], ROWS[1, 1] = -9, 0, 9

FREE = {
    "of equal ones that of the least index": "{V} > {x} or ({V} == {x} and {I} < {k})",
    "of equal ones that of the greatest index": "{V} > {x} or ({V} == {x} and {I} > {k})",
    "the same, the other way round": "not ({x} > {V} or ({x} == {V} and {k} < {I}))",
}
ORDERED = {
    "of equal ones the first": "{V} >= {x}",
    "of equal ones the last": "{V} > {x}",
    "a greater index, whatever its value": "{V} > {x} or {I} > {k}",
}
"""Under which condition the old index stays; the larger value always does."""


def steps(kept: str, index: str, value: str, k: str, x: str) -> tuple[str, str]:
    condition = kept.format(I=index, V=value, k=k, x=x)
    return f"{index} = T.Select({condition}, {index}, {k})", f"{value} = T.Select({value} > {x}, {value}, {x})"


def program(*lines: str, dtype: str = "float32") -> Any:
    body = "\n    ".join(lines)
    return ti.tir.parse(
        f'@T.prim_func\ndef main(A: T.Buffer((6, 20), "{dtype}"), I: T.Buffer((6,), "int32"), '
        f'V: T.Buffer((6,), "{dtype}"), W: T.Buffer((6,), "{dtype}")):\n    {body}\n'
    )["main"]


def whole(kept: str, dtype: str = "float32") -> Any:
    first, second = steps(kept, "I[i]", "V[i]", "k", "A[i, k]")
    return program(
        *("for i in range(6):", "    I[i] = -1", f"    V[i] = T.{dtype}(-9)"),
        *("    for k in range(20):", f"        {first}", f"        {second}"),
        dtype=dtype,
    )


def in_parts(kept: str, *between: str, again: str = "", start: str = "", dtype: str = "float32", parts: int = 4) -> Any:
    """Every fourth element of a row, and then the best of the four."""
    first, second = steps(kept, "Q[i, r]", "P[i, r]", "k * 4 + r", "A[i, k * 4 + r]")
    third, fourth = steps(again or kept, "I[i]", "V[i]", "Q[i, r]", "P[i, r]")
    return program(
        *('Q = T.alloc_buffer((6, 4), "int32")', f'P = T.alloc_buffer((6, 4), "{dtype}")'),
        *("for i, r in T.grid(6, 4):", "    Q[i, r] = -1", f"    P[i, r] = {start or f'T.{dtype}(-9)'}"),
        *("    for k in range(5):", f"        {first}", f"        {second}", *between),
        *("for i in range(6):", "    I[i] = -1", f"    V[i] = T.{dtype}(-9)"),
        *(f"    for r in range({parts}):", f"        {third}", f"        {fourth}"),
        dtype=dtype,
    )


def agree(function: Any, a: Any = ROWS, **options: Any) -> list[Any]:
    given = [a, np.zeros(6, np.int32), np.zeros(6, a.dtype), np.zeros(6, a.dtype)]
    lifted = ti.lift(function, **options)
    wanted = ti.tir.interpret(function, *given)
    found = reference(lifted)(*given)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for k, got in zip(written, found, strict=True):
        np.testing.assert_array_equal(got, wanted[k])
    return list(wanted[1:3])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", FREE)
def test_parts_of_an_extreme_that_any_order_finds_find_that_of_the_whole(name: str, dtype: str):
    parts, one = in_parts(FREE[name], dtype=dtype), whole(FREE[name], dtype=dtype)
    for x, y in zip(agree(parts, ROWS.astype(dtype)), agree(one, ROWS.astype(dtype)), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ORDERED)
def test_parts_of_what_the_order_decides_stay_parts(name: str):
    parts, one = in_parts(ORDERED[name]), whole(ORDERED[name])
    assert any((x != y).any() for x, y in zip(agree(parts), agree(one), strict=True))


LEAST = FREE["of equal ones that of the least index"]
APART = {
    "the parts start from another number": in_parts(LEAST, start="T.float32(0)"),
    "the parts start from data": in_parts(LEAST, start="A[i, r] + T.float32(1)"),
    "a part is read by others, too": in_parts(LEAST, "for i in range(6):", "    W[i] = P[i, 1]"),
    "a part is changed before it is read": in_parts(LEAST, "for i in range(6):", "    P[i, 1] = T.float32(1)"),
    "the elements change in between": in_parts(LEAST, "for i in range(6):", "    A[i, 7] = T.float32(5)"),
    "the parts are put together in another way": in_parts(
        LEAST, again=FREE["of equal ones that of the greatest index"]
    ),
    "one of the parts is left out": in_parts(LEAST, parts=3),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_no_fold_of_all_parts_is_none(name: str):
    agree(APART[name])


@pytest.mark.parametrize("name", FREE)
def test_exact_programs_keep_parts(name: str):
    agree(in_parts(FREE[name]), numerics="exact")


@pytest.mark.parametrize("name", FREE)
def test_an_extreme_that_any_order_finds_is_found_in_any_order_of_its_loops(name: str):
    def function(*loops: str) -> Any:
        first, second = steps(FREE[name], "I[i]", "V[i]", "j * 5 + k", "A[i, j * 5 + k]")
        return program(
            "for i in range(6):", "    I[i] = -1", "    V[i] = T.float32(-9)", *loops, f"    {first}", f"    {second}"
        )

    for loops in ("for k, i, j in T.grid(5, 6, 4):", "for i, j, k in T.grid(6, 4, 5):"):
        agree(function(loops))
