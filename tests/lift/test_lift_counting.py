"""Whiles that count are loops."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.generated_counts import count_arrays, count_program
from tests.lift.harness import figures

STRIDES = """
@T.prim_func
def main(n: T.int32, A: T.Buffer((37,), "float32"), B: T.Buffer((37,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            i = T.alloc_buffer((1,), "int32", scope="local")
            i[0] = b * 4 + t
            while i[0] < 37:
                B[i[0]] = A[i[0]] * T.float32(2)
                i[0] = i[0] + 8
"""


def test_threads_that_stride_over_an_array_go_over_all_of_it():
    assert figures(ti.lift(ti.tir.parse(STRIDES)["main"])) == "0 0 0 1"


def test_a_stride_up_to_an_argument_is_one_choice():
    function = ti.tir.parse(STRIDES.replace("< 37", "< n"))["main"]
    program = ti.lift(function)
    assert figures(program) == "0 0 0 5"
    a, b = np.arange(37, dtype=np.float32), np.full(37, -1, np.float32)
    for n in (-5, 0, 1, 8, 30, 37):
        np.testing.assert_array_equal(program(n, a, b)[0], ti.tir.interpret(function, n, a, b)[2])


@pytest.mark.parametrize(
    ("start", "condition", "update"),
    [
        ("0", "i[0] < 37", "i[0] + 1"),
        ("36", "i[0] >= 0", "i[0] - 1"),
        ("0", "36 >= i[0]", "1 + i[0]"),
    ],
)
def test_a_count_is_a_loop(start: str, condition: str, update: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((37,), "float32"), B: T.Buffer((37,), "float32")):
    i = T.alloc_buffer((1,), "int32", scope="local")
    i[0] = {start}
    while {condition}:
        B[i[0]] = A[i[0]] * T.float32(2)
        i[0] = {update}
""")["main"]
    assert figures(ti.lift(function)) == "0 0 0 1"


COUNTED = """
@T.prim_func
def main(n: T.int32, A: T.Buffer((12,), "int32"), B: T.Buffer((12,), "int32")):
    i = T.alloc_buffer((1,), "int32", scope="local")
    i[0] = START
    while CONDITION:
        BODY
    B[11] = i[0]
"""


@pytest.mark.parametrize(
    ("start", "condition", "body"),
    [
        ("1", "i[0] < 12", "B[i[0]] = A[i[0]]; i[0] = i[0] * 3"),
        ("1", "i[0] < 12", "i[0] = i[0] * 3; B[i[0] % 12] = A[i[0] % 12]"),
        ("9", "i[0] != 0", "B[i[0]] = A[i[0]]; i[0] = T.shift_right(i[0], 1)"),
        ("n", "i[0] < 12", "i[0] = i[0] + 4; B[i[0] - 4] = i[0]"),
        ("2", "i[0] <= n", "B[i[0]] = A[i[0]]; i[0] = i[0] + 3"),
        ("11", "n < i[0]", "B[i[0]] = A[i[0]]; i[0] = i[0] - 2"),
        # these are none: the limit changes, the element changes twice, and it leaves in the middle
        ("0", "i[0] < B[3] % 5", "B[i[0]] = A[i[0]]; i[0] = i[0] + 1"),
        ("0", "i[0] < 9", "B[i[0]] = A[i[0]]; i[0] = i[0] + 1; i[0] = i[0] + T.Cast('int32', A[i[0]] > 2)"),
        ("0", "i[0] < 9", "B[i[0]] = A[i[0]]; i[0] = i[0] + 1\n        if A[i[0]] > 3:\n            break"),
    ],
)
def test_what_counts_holds_what_it_ends_at(start: str, condition: str, body: str):
    text = (
        COUNTED.replace("START", start)
        .replace("CONDITION", condition)
        .replace("BODY", body.replace("; ", "\n        "))
    )
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-5, 6, 12, dtype=np.int32), rng.integers(-5, 6, 12, dtype=np.int32)
    for n in (0, 1, 7):
        np.testing.assert_array_equal(program(n, a, b)[0], ti.tir.interpret(function, n, a, b, checked=True)[2])


@pytest.mark.parametrize(
    ("start", "condition", "update"),
    [
        ("n", "i[0] > 3", "i[0] - 3"),
        ("n", "i[0] >= 1", "i[0] - 1"),
        ("5", "i[0] < n", "i[0] + 4"),
        ("A[3]", "i[0] < n", "i[0] + 1"),
        ("A[3]", "i[0] < n", "i[0] + 2"),
    ],
)
def test_an_end_far_behind_the_start_is_no_way(start: str, condition: str, update: str):
    text = COUNTED.replace("START", start).replace("CONDITION", condition).replace("BODY", f"i[0] = {update}")
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    a, b = np.arange(12, dtype=np.int32), np.zeros(12, np.int32)
    for n in (-(1 << 31), -(1 << 31) + 2, -7, 5, 14):
        np.testing.assert_array_equal(program(n, a, b)[0], ti.tir.interpret(function, n, a, b)[2])


@pytest.mark.parametrize(
    ("start", "condition", "update"),
    [
        ("T.int8(100)", "i[0] < T.int8(126)", "i[0] + T.int8(5)"),  # 125, then -126
        ("T.int8(-100)", "i[0] > T.int8(-126)", "i[0] - T.int8(5)"),
        ("T.int8(100)", "i[0] < P[1]", "i[0] + T.int8(5)"),
        ("P[0]", "i[0] < P[1]", "i[0] + T.int8(1)"),  # a way of 234 is no int8
        ("P[1]", "i[0] > P[0]", "i[0] - T.int8(1)"),
        ("T.int8(-60)", "i[0] < T.int8(60)", "i[0] + T.int8(9)"),
    ],
)
def test_a_narrow_count_may_begin_again_at_the_other_end(start: str, condition: str, update: str):
    text = f"""
@T.prim_func
def main(P: T.Buffer((2,), "int8"), B: T.Buffer((17,), "int32")):
    i = T.alloc_buffer((1,), "int8", scope="local")
    i[0] = {start}
    while {condition}:
        B[T.Cast("int32", i[0]) & 15] = B[T.Cast("int32", i[0]) & 15] + T.Cast("int32", i[0])
        i[0] = {update}
    B[16] = T.Cast("int32", i[0])
"""
    function = ti.tir.parse(text)["main"]
    arrays = np.array([-124, 110], np.int8), np.zeros(17, np.int32)
    wanted = ti.tir.interpret(function, *arrays, checked=True)[1]
    np.testing.assert_array_equal(ti.lift(function)(*arrays)[0], wanted)


def test_a_barrier_that_not_all_threads_come_to_is_still_found():
    text = STRIDES.replace("B[i[0]] = ", 'T.evaluate(T.tvm_storage_sync("shared"))\n                B[i[0]] = ')
    program = ti.lift(ti.tir.parse(text)["main"])
    with pytest.raises(ti.DiagnosticError, match="not all threads of the block reach the barriers in this loop"):
        program(0, np.zeros(37, np.float32), np.zeros(37, np.float32))


@pytest.mark.parametrize(("condition", "body"), [("i[1] < 8", "B[i[0]] = A[i[0]]"), ("i[0] < 8", "B[i[1]] = A[i[0]]")])
def test_what_is_read_beside_the_one_that_counts_is_outside(condition: str, body: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    i = T.alloc_buffer((1,), "int32")
    i[0] = 1
    while {condition}:
        {body}
        i[0] = i[0] + 1
""")["main"]
    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    with pytest.raises(DiagnosticError, match="index 1 is outside"):
        ti.tir.interpret(function, a, b, checked=True)
    with pytest.raises(DiagnosticError, match="'i'"):
        ti.lift(function)(a, b)


@pytest.mark.parametrize("seed", range(12))
def test_counts_made_at_random(seed: int):
    """More: `python -m tests.lift.fuzz_lift`."""
    function = ti.tir.parse(count_program(seed))["main"]
    arrays = count_arrays(seed)
    wanted = ti.tir.interpret(function, *arrays, checked=True)
    np.testing.assert_array_equal(ti.lift(function)(*arrays)[0], wanted[-1])
