"""Reads of storage of which data tell whether anything was written there: each call says so, as the interpreter does.

Here data decide over some access. Where each read finds what was written before, whatever they say, the report has no
note and the checked program no flag; elsewhere it has, and a call on arrays raises where the checked interpreter does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
NOTE = "is written before it is read"

KERNELS = {
    ("storage of one iteration", True): """
for i in range(8):
    s = T.alloc_buffer((1,), "int32")
    if i == 0:
        s[0] = A[7]
    if A[i] > 0:
        B[i] = s[0]
""",
    ("storage of one iteration of an outer loop", True): """
for i in range(4):
    s = T.alloc_buffer((2,), "int32")
    for j in range(2):
        if i == 0:
            s[j] = A[j]
        if A[i * 2 + j] > 0:
            B[i * 2 + j] = s[j]
""",
    ("storage of one iteration, written by an earlier round of an inner loop", True): """
for i in range(4):
    s = T.alloc_buffer((1,), "int32")
    for j in range(2):
        if A[i * 2 + j] > 0:
            B[i * 2 + j] = s[0]
        s[0] = A[j]
""",
    ("storage of a block", True): """
for i in range(8):
    with T.sblock("b"):
        v = T.axis.spatial(8, i)
        s = T.sblock_alloc_buffer((1,), "int32")
        if v == 0:
            s[0] = A[7]
        if A[v] > 0:
            B[v] = s[0]
""",
    ("storage of an iteration of a parallel loop", True): """
for i in T.parallel(8):
    s = T.alloc_buffer((1,), "int32")
    if i == 0:
        s[0] = A[7]
    if A[i] > 0:
        B[i] = s[0]
""",
    ("every other place", True): """
t = T.alloc_buffer((4,), "int32")
for i in range(8):
    t[T.bitwise_and(i, 2)] = A[i]
for i in range(8):
    if A[i] > 0:
        B[i] = t[T.bitwise_and(i, 3)]
""",
    ("places by numbers of a condition", True): """
t = T.alloc_buffer((8,), "int32")
for i in range(8):
    if T.bitwise_and(i, 5) != 5:
        t[i] = A[i]
for i in range(8):
    if A[i] > 0:
        B[i] = t[i]
""",
    ("written in a while that may not run", True): """
s = T.alloc_buffer((1,), "int32")
n = T.alloc_buffer((1,), "int32")
n[0] = 0
while n[0] < A[0]:
    s[0] = A[1]
    n[0] = n[0] + 1
B[0] = s[0]
""",
    ("written by an earlier round of a while", True): """
s = T.alloc_buffer((1,), "int32")
n = T.alloc_buffer((1,), "int32")
n[0] = 0
while n[0] < A[0]:
    B[n[0]] = s[0]
    s[0] = A[1]
    n[0] = n[0] + 1
""",
    ("a condition of a while", True): """
s = T.alloc_buffer((1,), "int32")
if A[0] > 0:
    s[0] = A[1]
while s[0] < 2:
    s[0] = s[0] + 1
B[0] = s[0]
""",
    ("a while in a loop, after one", True): """
n = T.alloc_buffer((1,), "int32")
for i in range(4):
    s = T.alloc_buffer((1,), "int32")
    n[0] = 0
    while n[0] < A[i]:
        s[0] = A[i + 1]
        n[0] = n[0] + 1
    if A[i] > -2:
        B[i] = s[0]
""",
    ("a condition that changes", True): """
s = T.alloc_buffer((1,), "int32")
c = T.alloc_buffer((1,), "int32")
c[0] = A[0]
if c[0] > 0:
    s[0] = A[1]
c[0] = A[2]
if c[0] > 0:
    B[0] = s[0]
""",
    ("a condition that a later round changes", True): """
s = T.alloc_buffer((1,), "int32")
c = T.alloc_buffer((1,), "int32")
c[0] = A[0]
if c[0] > 0:
    s[0] = A[1]
for i in range(4):
    if c[0] > 0:
        B[i] = s[0]
    c[0] = A[i]
""",
    ("a condition that another iteration has", True): """
s = T.alloc_buffer((8,), "int32")
for i in range(8):
    if A[i] > 0:
        s[i] = A[i]
for i in range(8):
    if A[i] > 0:
        B[i] = s[7 - i]
""",
    ("another condition", True): """
for i in range(8):
    s = T.alloc_buffer((1,), "int32")
    if A[i] > 0:
        s[0] = A[i]
    if A[i] > -2:
        B[i] = s[0]
""",
    ("storage of threads, declared around them", True): """
s = T.alloc_buffer((1,), "int32", scope="local")
for t in T.thread_binding(8, thread="threadIdx.x"):
    if t == 0:
        s[0] = A[7]
    if A[t] > 0:
        B[t] = s[0]
""",
    ("written in the while of an earlier iteration", True): """
n = T.alloc_buffer((1,), "int32")
s = T.alloc_buffer((1,), "int32")
for i in range(4):
    n[0] = 0
    while n[0] < A[i]:
        if i > 0:
            B[i] = s[0]
        if i == 0:
            s[0] = A[7]
        n[0] = n[0] + 1
""",
    ("a condition that a round of a while changes", True): """
n = T.alloc_buffer((1,), "int32")
s = T.alloc_buffer((1,), "int32")
c = T.alloc_buffer((1,), "int32")
n[0] = 0
c[0] = A[0]
if c[0] > 0:
    s[0] = A[1]
while n[0] < A[7]:
    if c[0] > 0:
        B[n[0]] = s[0]
    c[0] = A[n[0] + 2]
    n[0] = n[0] + 1
""",
    ("the place of a condition, which rounds change", True): """
n = T.alloc_buffer((1,), "int32")
t = T.alloc_buffer((8,), "int32")
for i in range(4):
    t[i] = A[i]
n[0] = 0
while t[n[0]] > 0:
    n[0] = n[0] + 1
B[0] = n[0]
""",
    ("a condition of the iteration after", True): """
s = T.alloc_buffer((1,), "int32")
for i in range(8):
    if A[i] > 0:
        if i > 0:
            B[i] = s[0]
    if A[i] > 0:
        s[0] = A[i]
""",
    ("a fold that data let begin", True): """
s = T.alloc_buffer((1,), "int32")
if A[0] > 0:
    s[0] = 0
for i in range(8):
    if A[i] > 0:
        s[0] = s[0] + A[i]
B[0] = 1
if A[1] > 0:
    B[0] = s[0]
""",
    ("storage of one iteration", False): """
for i in range(8):
    s = T.alloc_buffer((1,), "int32")
    if i >= 0:
        s[0] = A[7]
    if A[i] > 0:
        B[i] = s[0]
""",
    ("storage of all iterations", False): """
s = T.alloc_buffer((1,), "int32")
for i in range(8):
    if i == 0:
        s[0] = A[7]
    if A[i] > 0:
        B[i] = s[0]
""",
    ("storage of one iteration of an outer loop", False): """
for i in range(4):
    s = T.alloc_buffer((1,), "int32")
    for j in range(2):
        if j == 0:
            s[0] = A[i]
        if A[i * 2 + j] > 0:
            B[i * 2 + j] = s[0]
""",
    ("storage of a block", False): """
for i in range(8):
    with T.sblock("b"):
        v = T.axis.spatial(8, i)
        s = T.sblock_alloc_buffer((1,), "int32")
        s[0] = A[7 - v]
        if A[v] > 0:
            B[v] = s[0]
""",
    ("places by bits", False): """
t = T.alloc_buffer((4,), "int32")
for i in range(8):
    t[T.bitwise_and(i, 3)] = A[i]
for i in range(8):
    if A[i] > 0:
        B[i] = t[T.bitwise_and(i, 2)]
""",
    ("places by numbers of a condition", False): """
t = T.alloc_buffer((8,), "int32")
for i in range(8):
    if T.bitwise_and(i, 5) != 5:
        t[i] = A[i]
for i in range(4):
    if A[i] > 0:
        B[i] = t[i]
""",
    ("places of other bits", False): """
t = T.alloc_buffer((8,), "int32")
for i in range(8):
    t[T.bitwise_xor(i, 5)] = A[i]
for i in range(8):
    if A[i] > 0:
        B[i] = t[i]
""",
    ("written before a while", False): """
s = T.alloc_buffer((1,), "int32")
n = T.alloc_buffer((1,), "int32")
n[0] = 0
s[0] = A[2]
while n[0] < A[0]:
    s[0] = s[0] + A[1]
    n[0] = n[0] + 1
B[0] = s[0]
""",
    ("written in the same round", False): """
n = T.alloc_buffer((1,), "int32")
s = T.alloc_buffer((1,), "int32")
n[0] = 0
while n[0] < A[0]:
    s[0] = A[n[0]]
    B[n[0]] = s[0]
    n[0] = n[0] + 1
""",
    ("the same condition", False): """
for i in range(8):
    s = T.alloc_buffer((1,), "int32")
    if A[i] > 0:
        s[0] = A[i]
    if A[i] > 0:
        B[i] = s[0]
""",
    ("the same condition of storage that nobody changes in between", False): """
s = T.alloc_buffer((1,), "int32")
c = T.alloc_buffer((1,), "int32")
c[0] = A[0]
if c[0] > 0:
    s[0] = A[1]
if c[0] > 0:
    B[0] = s[0]
c[0] = A[2]
B[1] = c[0]
""",
}
"""Kernels by what they show, and by whether data tell that a read finds nothing."""


def outcomes(run: Any) -> Any:
    try:
        return np.asarray(run())
    except DiagnosticError as error:
        assert NOTE not in str(error)
        return "raises"


def data(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 5, 8).astype(np.int32) if seed else np.full(8, -1, np.int32)


@pytest.mark.parametrize("name", [name for name, doubtful in KERNELS if doubtful])
def test_a_call_raises_where_the_interpreter_reads_what_nobody_wrote(name: str):
    function = parsed(HEAD, KERNELS[name, True])
    program = ti.lift(function)
    assert any(NOTE in note for note in program.report.notes), program.report.notes
    seen = set[bool]()
    for seed in range(24):
        a, b = data(seed), np.zeros(8, np.int32)
        wanted = outcomes(lambda a=a, b=b: ti.tir.interpret(function, a, b, checked=True)[1])
        got = outcomes(lambda a=a, b=b: program(a, b)[0])
        seen.add(isinstance(wanted, str))
        np.testing.assert_array_equal(got, wanted, f"{name}, {a}")
    assert seen == {False, True}


@pytest.mark.parametrize("name", [name for name, doubtful in KERNELS if not doubtful])
def test_what_is_written_whatever_data_say_needs_no_flag(name: str):
    function = parsed(HEAD, KERNELS[name, False])
    program = ti.lift(function)
    assert not any(NOTE in note for note in program.report.notes), program.report.notes
    assert "nothing has written it" not in str(program.at(program.static).built(True).fencil)
    for seed in range(4):
        a, b = data(seed), np.zeros(8, np.int32)
        np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b, checked=True)[1])


FOLDS = {
    "of some terms, in an argument": ("B[i] = {old} + C[A[j]]", "B[i]", False),
    "of some terms, in storage": ("t[i] = {old} + C[A[j]]", "t[i]", False),
    "of what another place holds": ("B[i] = {old} + C[A[j]]", "B[7 - i]", True),
    "of nothing that was there": ("B[i] = C[A[j]]", "", True),
    "of nothing, to a place that data tell": ("B[A[j]] = C[A[j]]", "", False),
}


@pytest.mark.parametrize("name", FOLDS)
def test_a_guarded_fold_shows_all_that_it_reads_as_it_hands_on_what_was_there(name: str):
    """An index that data tell is checked by itself only where the value that it leads to may be written over."""
    line, old, checked = FOLDS[name]
    head = HEAD.replace("):\n", ', C: T.Buffer((5,), "int32")):\n')
    own, last = ('t = T.alloc_buffer((8,), "int32")', "B[i] = t[i]") if line.startswith("t") else ("", "T.evaluate(0)")
    body = f"""
{own or "T.evaluate(0)"}
for i in range(8):
    {"t" if own else "B"}[i] = 0
for i in range(8):
    for j in range(8):
        if j >= i:
            {line.format(old=old)}
for i in range(8):
    {last}
"""
    program = ti.lift(parsed(head, body))
    built = program.at(program.static).built(True)
    assert built.unchecked and ("leaves the 5 elements of 'C'" in str(built.fencil)) is checked
