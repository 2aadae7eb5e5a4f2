"""What conditions read, of ifs, whiles and assertions, is looked at like what values read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):\n'
A, B = np.array([1, 2, 1, 1], np.int32), np.zeros(4, np.int32)
PROVEN = {
    "outside": (
        "TL10",
        "for i in range(4):\n    if A[i + 1] > 0:\n        B[i] = 1\n",
    ),
    "outside, behind another condition": (
        "TL10",
        "for i in range(4):\n    if i > 0:\n        if A[i + 1] > 0:\n            B[i] = 1\n",
    ),
    "outside, of a loop's bounds": (
        "TL10",
        "for i in range(4):\n    for k in range(A[i], A[i + 1]):\n        B[i] = B[i] + A[k % 4]\n",
    ),
    "outside, of a while": ("TL10", "while A[4] > 0:\n    B[0] = 1\n"),
    "outside, of an assertion": ("TL10", 'assert A[4] > 0, "positive"\nB[0] = 1\n'),
    "nobody": (
        "TL11",
        't = T.alloc_buffer((4,), "int32")\nfor i in range(3):\n    t[i] = 1\n'
        "for i in range(4):\n    if t[i] > 0:\n        B[i] = 1\n",
    ),
    "race": (
        "TL12",
        "for i in T.parallel(3):\n    if A[i + 1] > 0:\n        B[i] = 1\n    A[i] = 3\n",
    ),
}
TOLD_BY_DATA = {
    "a condition behind one": "for i in range(4):\n    if B[i] == 0:\n        if A[i + 1] > 0:\n            B[i] = 1\n",
    "a while": "while A[0] > 0:\n    A[0] = A[0] - 1\n    for i in range(4):\n        B[i + 1] = 1\n",
    "a condition of a while": "while A[0] < 2 or A[4] > 0:\n    A[0] = A[0] + 1\n",
    "a constant place": "while A[0] > 0:\n    if A[4] < 3:\n        break\n    A[0] = A[0] - 1\n",
}
RIGHT = {
    "guarded": "for i in range(4):\n    if i < 3 and A[i + 1] > 1:\n        B[i] = 1\n",
    "guarded twice": "for i in range(4):\n    if i < 3:\n        if A[i + 1] > 1:\n            B[i] = 2\n",
    "guarded by data": "for i in range(4):\n    if A[i] < i:\n        if A[4 - A[i]] > 0:\n            B[i] = 2\n",
    "elements of its own": "for i in T.parallel(4):\n    if A[i] > 1:\n        B[i] = 1\n    A[i] = 3\n",
    "a while that does not run": "while A[0] > 1:\n    A[0] = A[4]\n",
}


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))["main"]


def line_of(error: pytest.ExceptionInfo[DiagnosticError]) -> int:
    return error.value.diagnostics[0].span.line


@pytest.mark.parametrize("code, body", PROVEN.values(), ids=PROVEN)
def test_what_a_condition_reads_is_proven_wrong(code: str, body: str):
    with pytest.raises(DiagnosticError):
        ti.tir.interpret(parsed(body), A, B, checked=True)
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(body))
    assert [d.code for d in caught.value.diagnostics] == [code]


@pytest.mark.parametrize("body", TOLD_BY_DATA.values(), ids=TOLD_BY_DATA)
def test_what_is_read_or_stored_where_data_say_so_is_checked_there(body: str):
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(parsed(body), A, B, checked=True)
    program = ti.lift(parsed(body))
    with pytest.raises(DiagnosticError, match="an index leaves the 4 elements of") as found:
        program(A, B)
    assert line_of(found) == line_of(wanted)


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_conditions_protect_is_no_hazard(body: str):
    wanted = ti.tir.interpret(parsed(body), A, B, checked=True)
    program = ti.lift(parsed(body))
    written = [w for w, argument in zip(wanted, program.arguments, strict=True) if argument.written]
    np.testing.assert_array_equal(program(A, B), written)


def test_a_condition_around_several_statements_is_told_of_once():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed("for i in range(4):\n    if A[i + 1] > 0:\n        B[i] = 1\n        A[0] = 3\n"))
    assert len(caught.value.diagnostics) == 1


def test_an_argument_whose_start_a_condition_reads_is_not_one_that_the_program_fills():
    function = parsed("for i in range(4):\n    if B[i] > 0:\n        A[i] = 7\nfor i in range(4):\n    B[i] = 5\n")
    start = np.array([1, 0, 2, 0], np.int32)
    wanted = ti.tir.interpret(function, A, start, checked=True)
    np.testing.assert_array_equal(ti.lift(function)(A, start), wanted)


def test_an_index_that_no_choice_takes_leaves_nothing():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    if A[0] > A[1]:
        for k in range(2):
            for t in range(8):
                if t + T.shift_left(1, k) < 8:
                    C[t] = C[t] + A[t + T.shift_left(1, k) + 1]
""")["main"]
    a, c = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    np.testing.assert_array_equal(ti.lift(function)(a, c)[0], c)
    with pytest.raises(DiagnosticError, match="an index leaves 'A', which has 8 elements"):
        ti.lift(function)(a[::-1].copy(), c)
