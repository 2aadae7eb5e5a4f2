"""The old values of atomic updates: threads take their turns in ascending order, and each keeps what it found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = """@T.prim_func
def main(
    A: T.Buffer((4, 4), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")
):
"""
THREADS = (
    'for b in T.thread_binding(4, thread="blockIdx.x"):\n    for t in T.thread_binding(4, thread="threadIdx.x"):\n'
)
ADD = "T.atomic_add(T.address_of(C[{}]), {})"
KERNELS = {
    "places": THREADS
    + f"        if A[b, t] > 2:\n            p: T.int32 = {ADD.format(0, 1)}\n            B[p] = A[b, t]\n",
    "a place of its own": THREADS
    + '        p = T.alloc_buffer((1,), "int32", scope="local")\n'
    + f"        p[0] = {ADD.format('A[b, t]', 1)}\n        B[b * 4 + t] = p[0]\n",
    "a rank": THREADS + f"        B[b * 4 + t] = {ADD.format('A[b, t]', 'b + 1')}\n",
    "the largest so far": THREADS + "        B[b * 4 + t] = T.atomic_max(T.address_of(C[0]), A[b, t]) * 2\n",
    "two": THREADS + f"        B[b * 4 + t] = {ADD.format(0, 1)} * 10 + {ADD.format(1, 'A[b, t]')}\n",
    "one inside of another": THREADS + f"        B[b * 4 + t] = T.atomic_add(T.address_of(D[{ADD.format(0, 1)}]), t)\n",
    "a condition": THREADS + f"        if {ADD.format(0, 'A[b, t]')} < 20:\n            B[b * 4 + t] = 1\n",
    "a loop": THREADS
    + f"        for j in range(A[b, t] % 2):\n            p: T.int32 = {ADD.format(0, 1)}\n            B[p] = b\n",
    "loops": f"for i, j in T.grid(4, 4):\n    B[i * 4 + j] = {ADD.format('A[i, j]', 'i')}\n",
    "a library's name": THREADS + '        B[b * 4 + t] = T.call_extern("int32", "atomicAdd", T.address_of(C[0]), 1)\n',
    "threads along two axes": 'for x in T.thread_binding(4, thread="threadIdx.x"):\n'
    '    for y in T.thread_binding(4, thread="threadIdx.y"):\n'
    f"        B[x * 4 + y] = {ADD.format(0, 1)}\n",
    "a while": 'for t in T.thread_binding(4, thread="threadIdx.x"):\n'
    '    p = T.alloc_buffer((1,), "int32", scope="local")\n'
    f"    p[0] = {ADD.format(0, 1)}\n"
    f"    while p[0] < 14:\n        B[p[0]] = t\n        p[0] = {ADD.format(0, 1)}\n",
    "what a while asks": f"while {ADD.format(0, 1)} < 9:\n    B[C[0]] = A[0, 1] + C[0]\n",
    "what a while of threads asks": 'for t in T.thread_binding(4, thread="threadIdx.x"):\n'
    f"    while {ADD.format(0, 't + 1')} < 30:\n        B[t] = B[t] + 1\n",
    "a while that each thread leaves": 'for t in T.thread_binding(4, thread="threadIdx.x"):\n'
    f"    while T.bool(True):\n        if {ADD.format(0, 't + 1')} > 29:\n            break\n        B[t] = B[t] + 1\n",
    "a choice": THREADS + f"        B[b * 4 + t] = T.if_then_else(A[b, t] > 2, {ADD.format(0, 1)}, -3)\n",
    "a choice inside of another": THREADS + "        B[b * 4 + t] = T.if_then_else(\n"
    f"            A[b, t] > 2, T.if_then_else(t % 2 == 0, {ADD.format(0, 1)}, {ADD.format(1, 'b + 1')}), -3)\n",
    "a condition behind another": THREADS + f"        if A[b, t] > 2 and {ADD.format(0, 't')} % 2 == 0:\n"
    "            B[b * 4 + t] = 1\n",
    "a condition beside another": f"for i, j in T.grid(4, 4):\n    if A[i, j] > 2 or {ADD.format('i', 'j + 1')} > 5:\n"
    "        B[i * 4 + j] = A[i, j] + 1\n",
    "a count of each block": THREADS
    + '        n = T.alloc_buffer((1,), "int32", scope="shared")\n'
    + '        at = T.alloc_buffer((1,), "int32", scope="shared")\n'
    + '        m = T.alloc_buffer((1,), "int32", scope="local")\n'
    + '        if t == 0:\n            n[0] = 0\n        T.tvm_storage_sync("shared")\n'
    + "        if A[b, t] > 2:\n            m[0] = T.atomic_add(T.address_of(n[0]), 1)\n"
    + '        T.tvm_storage_sync("shared")\n'
    + f"        if t == 0:\n            at[0] = {ADD.format(0, 'n[0]')}\n"
    + '        T.tvm_storage_sync("shared")\n        if A[b, t] > 2:\n            B[at[0] + m[0]] = b * 4 + t\n',
}
SHARED = """for t in T.thread_binding(4, thread="threadIdx.x"):
    S = T.alloc_buffer((4,), "int32", scope="shared")
    S[t] = 0
    T.tvm_storage_sync("shared")
"""
RACES = {
    "an update, and a read": SHARED + "    T.evaluate(T.atomic_add(T.address_of(S[0]), 1))\n    B[t] = S[0]\n",
    "what was found, and a read": SHARED
    + "    B[t] = T.atomic_add(T.address_of(S[0]), 1)\n    B[t] = B[t] + S[(t + 1) % 4]\n",
    "a store, and an update": SHARED + "    S[t] = 3\n    B[t] = T.atomic_max(T.address_of(S[3 - t]), 1)\n",
}
ORDERED = {
    "an update, a barrier, and a read": SHARED
    + '    T.evaluate(T.atomic_add(T.address_of(S[0]), 1))\n    T.tvm_storage_sync("shared")\n    B[t] = S[0]\n',
    "updates": SHARED + "    B[t] = T.atomic_add(T.address_of(S[0]), 1)\n"
    "    B[t] = B[t] + T.atomic_add(T.address_of(S[0]), 1)\n",
    "elements of their own": SHARED + "    B[t] = T.atomic_add(T.address_of(S[t]), 1)\n    B[t] = B[t] + S[t]\n",
}


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))["main"]


def numbers(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 6, shape).astype(np.int32) for shape in ((4, 4), (8,), (32,), (32,))]


def agree(function: ti.tir.PrimFunc) -> None:
    program = ti.lift(function)
    for seed in range(3):
        wanted = ti.tir.interpret(function, *numbers(seed), checked=True)
        found = program(*numbers(seed))
        written = [w for w, argument in zip(wanted, program.arguments, strict=True) if argument.written]
        for w, f in zip(written, found, strict=True):
            np.testing.assert_array_equal(f, w)


@pytest.mark.parametrize("body", KERNELS.values(), ids=KERNELS)
def test_a_thread_finds_what_those_before_it_left(body: str):
    agree(parsed(body))


@pytest.mark.parametrize("body", ORDERED.values(), ids=ORDERED)
def test_updates_meet_each_other_and_what_a_barrier_keeps_apart(body: str):
    agree(parsed(body))


@pytest.mark.parametrize("body", RACES.values(), ids=RACES)
def test_an_update_and_another_access_without_a_barrier_are_a_race(body: str):
    function = parsed(body)
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(function, *numbers(0), checked=True)
    with pytest.raises(DiagnosticError) as found:
        ti.lift(function)
    assert ([d.code for d in wanted.value.diagnostics], [d.code for d in found.value.diagnostics]) == (
        ["TR03"],
        ["TL12"],
    )
    assert found.value.diagnostics[0].span == wanted.value.diagnostics[0].span


def test_blocks_take_their_turns_one_after_the_other():
    function = parsed(KERNELS["places"])
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    zeros = [np.zeros(8, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)]
    assert ti.tir.interpret(function, a, *zeros)[3].tolist()[:14] == [*range(3, 16), 0]


def test_the_order_of_updates_is_in_the_report():
    report = str(ti.lift(parsed(KERNELS["places"])).report)
    assert "note: line 8: T.atomic_add updates thread by thread, in ascending order." in report


def test_a_statement_that_reads_what_it_updates_is_refused():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(f"B[0] = C[0] * {ADD.format(0, 1)}\n"))
    assert (
        str(caught.value)
        == """<tir>:5:19: error[TL01]: this statement reads 'C', which an atomic update writes.
      B[0] = C[0] * T.atomic_add(T.address_of(C[0]), 1)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: let it stand in a statement of its own, and keep what it gives."""
    )
