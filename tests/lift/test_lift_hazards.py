"""What is proven wrong is said before anything runs, with a witness and the lines."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.lifting.accesses import sets
from tensorir.runtime.errors import DiagnosticError

RACE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        B[i // 2] = A[i]
"""
NOBODY = """
@T.prim_func
def main(B: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(7):
        t[i] = T.float32(1)
    for i in range(8):
        B[i] = t[i]
"""


def test_hazards_may_be_run_in_the_order_of_the_text():
    function = ti.tir.parse(RACE)["main"]
    program = ti.lift(function, on_hazard="sequential")
    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(program(a, None)[0], [1, 3, 5, 7])
    assert "note: two iterations of the parallel loop" in str(program.report)
    np.testing.assert_array_equal(ti.lift(function, on_hazard="ignore")(a, None)[0], [1, 3, 5, 7])


def test_an_index_from_data_is_checked_when_the_program_runs():
    function = ti.tir.parse(
        """
@T.prim_func
def main(I: T.Buffer((3,), "int32"), A: T.Buffer((5,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        B[i] = A[I[i]]
"""
    )["main"]
    program = ti.lift(function)
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(program(np.array([4, 0, 2], np.int32), a, None)[0], [4, 0, 2])
    bad = np.array([4, 9, 2], np.int32)
    with pytest.raises(DiagnosticError, match="an index leaves"):
        program(bad, a, None)
    error, (values,) = program.checked(bad, a, np.zeros(3, np.float32))
    assert "an index leaves" in str(error)
    np.testing.assert_array_equal(values, [4, 0, 2])


def test_an_assertion_is_checked_when_the_program_runs():
    function = ti.tir.parse(
        """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32"), k: T.int32):
    assert k > 0, "k is positive"
    for i in range(3):
        B[i] = A[i]
"""
    )["main"]
    program = ti.lift(function)
    a = np.ones(3, np.float32)
    np.testing.assert_array_equal(program(a, None, 1)[0], a)
    with pytest.raises(DiagnosticError, match="k is positive"):
        program(a, None, 0)


MANY_STEPS = """
@T.prim_func
def main(A: T.Buffer((7,), "float32"), B: T.Buffer((5,), "float32")):
    t = T.alloc_buffer((5,), "float32")
    for i in range(5):
        for j in range((3 * i + 7) // 5 - 3 * i // 5):
            t[i] = T.max(A[3 * i // 5 + j], A[6 - i])
    for i in range(5):
        B[i] = t[i]
"""


def test_what_would_take_too_many_steps_to_prove_is_no_hazard(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sets, "EFFORT", 10)
    few, others = (sets.integer_set(["i", "j"], ["0 <= i < 9", f"{k} * j = i"]) for k in (3, 2))
    assert sets.decided(lambda: few.subtract(others).lexmin()) is None
    with pytest.raises(DiagnosticError) as found:
        ti.lift(ti.tir.parse(NOBODY)["main"])
    assert str(found.value) == (
        "<tir>:6:9: error[TL06]: this has no tensor program: the dataflow of 't', which takes too long.\n"
        "          t[i] = T.float32(1)\n"
        "          ^^^^^^^^^^^^^^^^^^^\n"
        "help: let loops run in order (T.serial), and make indices of sums of their variables."
    )
    monkeypatch.setattr(sets, "EFFORT", 1000)
    function = ti.tir.parse(MANY_STEPS)["main"]
    data = np.arange(7, dtype=np.float32)
    (maxima,) = ti.lift(function)(data, None)
    np.testing.assert_array_equal(maxima, ti.tir.interpret(function, data, np.zeros(5, np.float32))[1])
    monkeypatch.undo()
    with pytest.raises(DiagnosticError, match="nothing has written it"):
        ti.lift(ti.tir.parse(NOBODY)["main"])


ALLOCATED = """
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        s = T.alloc_buffer((1,), "float32")
        if {first}:
            s[0] = T.float32(0)
        for k in range(4):
            s[0] = s[0] + A[i, k]
        B[i] = s[0]
"""


def test_what_a_loop_allocates_anew_holds_nothing_of_the_iteration_before():
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(3, np.float32)
    function = ti.tir.parse(ALLOCATED.format(first="i == 0"))["main"]
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, a, b, checked=True)
    with pytest.raises(DiagnosticError, match=r"s\[0\] is read, and nothing has written it") as caught:
        ti.lift(function)
    assert caught.value.diagnostics[0].notes == ("in the iteration i = 1, k = 0.",)
    function = ti.tir.parse(ALLOCATED.format(first="i >= 0"))["main"]
    np.testing.assert_array_equal(ti.lift(function)(a, b)[0], a.sum(1))
