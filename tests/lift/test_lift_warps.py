"""Threads that hand on values, and vectors of which some lanes take part: the lift has the interpreter's numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift import harness
from tests.lift.harness import figures, given, parsed
from tests.pairwise import pairwise

HEAD = '@T.prim_func\ndef main(A: T.Buffer(({0},), "int32"), B: T.Buffer(({0},), "int32")):\n'
EXCHANGES = {
    "of one": "T.tvm_warp_shuffle(-1, A[t], 3, 8, 32)",
    "of one in a group": "T.tvm_warp_shuffle(-1, A[t], 3, 4, 32)",
    "backwards": "T.tvm_warp_shuffle(-1, A[t], 7 - t, 8, 32)",
    "from where data tell": "T.tvm_warp_shuffle(-1, A[t], A[t], 16, 32)",
    "down": "T.tvm_warp_shuffle_down(-1, A[t], 2, 8, 32)",
    "down a warp": "T.tvm_warp_shuffle_down(-1, A[t], 3, 32, 32)",
    "down by what data tell": "T.tvm_warp_shuffle_down(-1, A[t], A[t] % 5, 32, 32)",
    "up": "T.tvm_warp_shuffle_up(-1, A[t], 1, 4, 32)",
    "across": "T.tvm_warp_shuffle_xor(-1, A[t], 2, 8, 32)",
    "twice": "T.tvm_warp_shuffle_up(-1, T.tvm_warp_shuffle_down(-1, A[t], 1, 8, 32) * 2, 3, 16, 32) + A[t]",
    "who takes part": 'T.Cast("int32", T.tvm_warp_activemask())',
}


def agree(body: str, size: int) -> ti.Lifted:
    func = parsed(HEAD.format(size), body)
    return harness.agree(func, *given(func, size, 0, 99), checked=False, compiled=True)


GUARDS = {"all": "", "some": "if t % 3 != 1:\n        ", "data": "if A[t] > 50:\n        "}


@pytest.mark.parametrize(("call", "guard", "size"), pairwise(EXCHANGES, GUARDS, [1, 8, 37, 64]))
def test_threads_of_a_warp_hand_values_around(call: str, guard: str, size: int):
    agree(f'for t in T.thread_binding({size}, thread="threadIdx.x"):\n    {guard}B[t] = {call}', size)


@pytest.mark.parametrize("call", EXCHANGES.values(), ids=EXCHANGES)
def test_shuffles_by_cuda_s_names_are_the_builtins(call: str):
    cuda = re.sub(r"tvm_warp_shuffle(\w*)", r"cuda.__shfl\1_sync", call).replace(", 32)", ")")
    cuda = cuda.replace("tvm_warp_activemask", "cuda.__activemask")
    threads = 'for t in T.thread_binding(37, thread="threadIdx.x"):\n    if A[t] > 20:\n        B[t] = '
    assert str(agree(threads + cuda, 37)) == str(agree(threads + call, 37))
    assert str(parsed(HEAD.format(37), threads + cuda)) != str(parsed(HEAD.format(37), threads + call))


ACROSS = """
for y in T.thread_binding(3, thread="threadIdx.y"):
    for x in T.thread_binding(5, thread="threadIdx.x"):
        B[y * 5 + x] = T.tvm_warp_shuffle_down(-1, A[y * 5 + x], 1, 8, 8)
"""
IN_BLOCKS = """
for b in T.thread_binding(9, thread="blockIdx.x"):
    for x in T.thread_binding(5, thread="threadIdx.x"):
        B[b * 5 + x] = T.tvm_warp_shuffle_down(-1, A[b * 5 + x], 1, 8, 8)
"""
IN_A_LET = """
for t in T.thread_binding(45, thread="threadIdx.x"):
    other: T.let[T.int32] = T.tvm_warp_shuffle_xor(-1, A[t], 1, 32, 32)
    if T.tvm_warp_shuffle_xor(-1, other, 2, 32, 32) % 2 == 0:
        B[t] = other
"""
BUTTERFLY = """
for t in T.thread_binding(45, thread="threadIdx.x"):
    S = T.alloc_buffer((1,), "int32", scope="local")
    S[0] = A[t]
    for k in range(3):
        S[0] = S[0] + T.tvm_warp_shuffle_xor(-1, S[0], T.shift_left(1, k), 8, 32)
    B[t] = S[0]
"""
TREE = """
for t in T.thread_binding(45, thread="threadIdx.x"):
    S = T.alloc_buffer((1,), "int32", scope="local")
    S[0] = A[t]
    for k in T.unroll(5):
        S[0] = S[0] + T.tvm_warp_shuffle_down(-1, S[0], T.shift_right(16, k), 32, 32)
    B[t] = T.tvm_warp_shuffle(-1, S[0], 0, 32, 32)
"""


@pytest.mark.parametrize(
    "body", [ACROSS, IN_BLOCKS, IN_A_LET, BUTTERFLY, TREE], ids=lambda b: b.split("\n")[-2].strip()
)
def test_shuffles_count_threads_along_x_first_and_stand_in_any_statement(body: str):
    agree(body, 45 if body != ACROSS else 15)


REFUSED = {
    "lazily": (
        'for t in T.thread_binding(8, thread="threadIdx.x"):\n'
        "    B[t] = T.if_then_else(t < 4, T.tvm_warp_shuffle_down(-1, A[t], 1, 8, 32), 0)",
        "T.tvm_warp_shuffle_down stands where only some threads come to it.",
        "write it as a statement before: let every thread shuffle.",
    ),
    "by a width that data tell": (
        'for t in T.thread_binding(8, thread="threadIdx.x"):\n'
        "    B[t] = T.tvm_warp_shuffle_down(-1, A[t], 1, A[0], 32)",
        "the width of T.tvm_warp_shuffle_down must be a positive constant.",
        "",
    ),
    "outside of a kernel": (
        "B[0] = T.tvm_warp_shuffle(-1, A[0], 3, 8, 32)",
        "T.tvm_warp_shuffle stands in no kernel.",
        "bind a loop to threadIdx.x.",
    ),
}


@pytest.mark.parametrize("body, message, help", REFUSED.values(), ids=REFUSED)
def test_a_shuffle_without_a_meaning_is_refused_by_name(body: str, message: str, help: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(HEAD.format(8), body))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.help) == ("TL01", message, help)


MASK = "T.Ramp({0}, 1, 4) < T.Broadcast({1}, 4)"
MASKED = {
    "a load": f'B[0:4] = T.masked_load("int32x4", A, T.Ramp(6, 1, 4), {MASK.format(6, 9)})',
    "a load beyond the end": f'B[0:4] = T.masked_load("int32x4", A, T.Ramp(7, 1, 4), {MASK.format(7, 9)})',
    "a store": f"T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(6, 1, 4), {MASK.format(6, 8)})",
    "stores of tiles": f"for i in range(3):\n    T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(i * 4, 1, 4), "
    f"{MASK.format('i * 4', 9)})",
    "where data tell": "T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(3, 1, 4), "
    "A[T.Ramp(4, 1, 4)] < T.Broadcast(50, 4))",
    "one element": 'for i in range(9):\n    T.masked_store(B, T.masked_load("int32", A, i, i < 7), i, i < 8)',
}


@pytest.mark.parametrize("body", MASKED.values(), ids=MASKED)
def test_masked_lanes_are_neither_read_nor_written(body: str):
    agree(body, 9)


def test_a_masked_copy_in_tiles_is_a_copy():
    mask = MASK.format("i * 4", 10)
    load = f'T.masked_load("int32x4", A, T.Ramp(i * 4, 1, 4), {mask})'
    program = agree(f"for i in range(3):\n    T.masked_store(B, {load}, T.Ramp(i * 4, 1, 4), {mask})", 10)
    assert figures(program) == "0 0 0 0"


def test_a_buffer_points_somewhere():
    agree("if T.isnullptr(A.data):\n    B[0] = 3\nelse:\n    B[0] = 4", 3)


def test_what_a_masked_store_only_reads_is_no_result():
    text = HEAD.format(8) + "    T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(0, 1, 4), T.Broadcast(True, 4))\n"
    assert len(ti.lift(ti.tir.parse(text)["main"])(np.arange(8, dtype=np.int32), np.zeros(8, np.int32))) == 1


def test_a_region_where_a_value_is_needed_is_refused_by_both():
    func = parsed(HEAD.format(8), "T.masked_store(B, A[0:4], T.Ramp(3, 1, 4), T.Broadcast(True, 4))")
    a = np.zeros(8, np.int32)
    for run, code in ((lambda: ti.lift(func), "TL01"), (lambda: ti.tir.interpret(func, a, a), "TR20")):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert str(caught.value) == (
            f"<tir>:3:23: error[{code}]: a buffer, or a region of one, stands where a value is needed.\n"
            "      T.masked_store(B, A[0:4], T.Ramp(3, 1, 4), T.Broadcast(True, 4))\n"
            "                        ^^^^^^\n"
            "help: read elements: A[T.Ramp(0, 1, 4)]."
        )
