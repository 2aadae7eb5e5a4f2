"""Loops that were unrolled: what they store one by one takes no more than the loop."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.fuzz_lift import agree, all_written
from tests.lift.generated import arrays, program
from tests.lift.generated_conditions import condition_arrays, condition_program
from tests.lift.generated_kernels import kernel
from tests.lift.harness import near
from tests.lift.unrolled import unrolled

HEAD = "@T.prim_func\ndef main({}):\n"
PRODUCT = """    for i in range(3):
        for j in range(4):
            C[i, j] = T.float32(0)
            for k in range(5):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
STEPS = """    for t in range(3):
        for i in range(8):
            B[i + 1] = (A[i] + A[i + 2]) * T.float32(0.25)
        for i in range(8):
            A[i + 1] = B[i + 1]
"""
PREFIX = """    B[0] = A[0]
    for i in range(8):
        B[i + 1] = B[i] * T.float32(0.5) + A[i + 1]
"""
LARGEST = """    for i in range(3):
        B[i] = 0
        for k in range(4):
            B[i] = T.Select(C[i] < A[i, k], k, B[i])
            C[i] = T.Select(C[i] < A[i, k], A[i, k], C[i])
"""
PAIRS = """    for i in range(3):
        for k in range(4):
            larger: T.let[T.float32] = T.Select(C[i] < A[i, k], A[i, k], C[i])
            place: T.let[T.int32] = T.Select(C[i] < A[i, k], k, B[i])
            C[i] = larger
            B[i] = place
"""
SWAPS = """    for i in range(4):
        a: T.let[T.float32] = A[i]
        b: T.let[T.float32] = A[7 - i] + a
        A[i] = b
        A[7 - i] = a
"""
SOURCES: dict[str, tuple[dict[str, tuple[Any, ...]], str]] = {
    "a product": ({"A": (3, 5), "B": (5, 4), "C": (3, 4)}, PRODUCT),
    "steps of a field": ({"A": (10,), "B": (10,)}, STEPS),
    "a recurrence": ({"A": (9,), "B": (9,)}, PREFIX),
    "the place of the largest": ({"A": (3, 4), "B": (3, "int32"), "C": (3,)}, LARGEST),
    "the same, of values that are kept": ({"A": (3, 4), "B": (3, "int32"), "C": (3,)}, PAIRS),
    "elements that change places": ({"A": (8,)}, SWAPS),
}


def parsed(buffers: dict[str, tuple[Any, ...]], body: str) -> ti.tir.PrimFunc:
    params = [
        f'{name}: T.Buffer({tuple(n for n in shape if isinstance(n, int))}, "{_type_of(shape)}")'
        for name, shape in buffers.items()
    ]
    return ti.tir.parse(HEAD.format(", ".join(params)) + body)["main"]


def _type_of(shape: tuple[Any, ...]) -> str:
    return next((n for n in shape if isinstance(n, str)), "float32")


def given(buffers: dict[str, tuple[Any, ...]]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [
        rng.normal(size=[n for n in shape if isinstance(n, int)]).astype(_type_of(shape)) for shape in buffers.values()
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("buffers", "body"), SOURCES.values(), ids=SOURCES)
def test_what_is_written_out_takes_no_more_than_its_loops(buffers: dict[str, tuple[Any, ...]], body: str, seed: int):
    written_out = unrolled(body, seed)
    function = parsed(buffers, written_out)
    program, base = ti.lift(function), ti.lift(parsed(buffers, body))
    near(program, base)
    numbers = given(buffers)
    wanted = ti.tir.interpret(function, *numbers)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written, program(*numbers), strict=True):
        np.testing.assert_allclose(got, wanted[place], rtol=1e-5, atol=1e-6)


def test_the_report_counts_the_copies():
    report = str(ti.lift(parsed(SOURCES["a product"][0], unrolled(PRODUCT, 0))).report)
    assert re.search(r"^line 4: 3 copies: parallel", report, re.MULTILINE), report


@pytest.mark.parametrize(
    "lines",
    [
        ["B[0] = A[0]", "B[7] = A[7]"],
        ["B[0] = A[0]", "B[1] = A[1]", "B[3] = A[3]", "B[6] = A[6]"],
        ["B[0] = A[0] * T.float32(1)", "B[1] = A[1] * T.float32(2)", "B[2] = A[2] * T.float32(3)"],
        ["B[0] = A[0]", "B[1] = A[1] + A[2]", "B[2] = A[2]"],
    ],
    ids=["two", "no steps", "other numbers", "another value"],
)
def test_what_is_no_row_of_copies_stays_as_it_is(lines: list[str]):
    body = "".join(f"    {line}\n" for line in lines)
    assert "copies" not in str(ti.lift(parsed({"A": (8,), "B": (8,)}, body)).report)


def test_a_value_that_is_read_behind_its_copy_is_kept_for_that():
    lines = [line for k in range(4) for line in (f"v{k}: T.let[T.float32] = A[{k}]", f"A[{k}] = v{k} * v{k}")]
    body = "".join(f"    {line}\n" for line in [*lines, "B[0] = v2"])
    function = parsed({"A": (8,), "B": (8,)}, body)
    numbers = given({"A": (8,), "B": (8,)})
    for got, wanted in zip(ti.lift(function)(*numbers), ti.tir.interpret(function, *numbers), strict=True):
        np.testing.assert_array_equal(got, wanted)


WINDOW = """    for i in range(8):
        B[i] = T.float32(0)
        B[i] = B[i] + T.if_then_else(0 < i, A[i - 1], T.float32(0)) * W[0]
        B[i] = B[i] + A[i]{} * W[1]
        B[i] = B[i] + {} * W[2]
"""
GUARDED = "T.if_then_else(i < 7, A[i + 1], T.float32(0))"
BASE = """    for i in range(8):
        B[i] = T.float32(0)
        for k in range(3):
            B[i] = B[i] + T.if_then_else(1 <= i + k and i + k < 9, A[i + k - 1], T.float32(0)) * W[k]
"""


def test_copies_of_which_some_need_no_guard_are_those_of_a_loop():
    buffers = {"A": (8,), "B": (8,), "W": (3,)}
    program, base = (ti.lift(parsed(buffers, body)) for body in (WINDOW.format("", GUARDED), BASE))
    near(program, base)


@pytest.mark.parametrize(
    ("what", "last"),
    [("", "T.if_then_else(i < 6, A[i + 1], T.float32(0))"), (" * A[0]", GUARDED)],
    ids=["a guard that leaves more out", "another value"],
)
def test_copies_with_other_guards_or_values_are_none(what: str, last: str):
    buffers = {"A": (8,), "B": (8,), "W": (3,)}
    function = parsed(buffers, WINDOW.format(what, last))
    program = ti.lift(function)
    assert "copies" not in str(program.report)
    np.testing.assert_allclose(program(*given(buffers))[0], ti.tir.interpret(function, *given(buffers))[1], rtol=1e-5)


def test_a_read_out_of_bounds_among_guarded_copies_is_told():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed({"A": (8,), "B": (8,), "W": (3,)}, WINDOW.format("", "A[i + 1]")))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span.line) == ("TL10", 7)


@pytest.mark.parametrize(
    ("lines", "code", "line"),
    [
        (["B[0] = A[4]", "B[1] = A[6]", "B[2] = A[8]"], "TL10", 5),
        (["D[0] = A[4]", "D[1] = A[6]", "B[0] = D[0]", "B[1] = D[1]", "B[2] = D[2]"], "TL11", 8),
    ],
    ids=["out of bounds", "never written"],
)
def test_what_is_wrong_in_a_copy_is_told_where_it_stands(lines: list[str], code: str, line: int):
    body = '    D = T.alloc_buffer((4,), "float32")\n' if "D" in str(lines) else ""
    body += "".join(f"    {text}\n" for text in lines)
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed({"A": (8,), "B": (8,)}, body))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span.line) == (code, line)


def test_what_data_make_wrong_in_a_copy_is_told_where_it_stands():
    body = "".join(f"    B[{k}] = A[I[{k}]]\n" for k in range(4))
    program = ti.lift(parsed({"A": (8,), "B": (8,), "I": (4, "int32")}, body))
    numbers = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(DiagnosticError) as caught:
        program(*numbers, np.array([0, 7, 8, 1], np.int32))
    assert caught.value.diagnostics[0].span.line == 5


def test_numbers_that_no_loop_counts_to_stay_as_they_are():
    body = "".join(f"    B[{k}] = A[{k}] * T.uint32({4294967290 + k})\n" for k in range(4))
    function = parsed({"A": (8, "uint32"), "B": (8, "uint32")}, body)
    numbers = np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32)
    np.testing.assert_array_equal(ti.lift(function)(*numbers)[0], ti.tir.interpret(function, *numbers)[1])


@pytest.mark.parametrize("seed", range(6))
def test_functions_with_loops_written_out_lift_to_what_they_compute(seed: int):
    for text_of, arrays_of in ((program, arrays), (condition_program, condition_arrays)):
        text, numbers = unrolled(text_of(seed), seed), arrays_of(seed)
        if all_written(text):
            agree(text, numbers, ti.tir.interpret(ti.tir.parse(text)["main"], *numbers), "ignore")


@pytest.mark.parametrize("seed", range(8))
def test_kernels_with_loops_written_out_lift_to_what_they_compute(seed: int):
    text, size = kernel(seed)
    text = unrolled(text, seed)
    rng = np.random.default_rng(seed)
    numbers = [rng.integers(-5, 6, size).astype(np.int32) for _ in range(2)]
    agree(text, numbers, ti.tir.interpret(ti.tir.parse(text)["main"], *numbers), "ignore")
