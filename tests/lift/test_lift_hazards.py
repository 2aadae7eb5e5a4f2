"""What is proven wrong is said before anything runs, with a witness and the lines."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

RACE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        B[i // 2] = A[i]
"""
OUTSIDE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i + 1]
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

PINNED = {
    "race": (
        RACE,
        """<tir>:4:5: error[TL12]: two iterations of the parallel loop over i touch B[0].
      for i in T.parallel(8):
      ^^^^^^^^^^^^^^^^^^^^^^^
note: written in the iteration i = 0.
  at <tir>:5:9:
          B[i // 2] = A[i]
          ^^^^^^^^^^^^^^^^
note: written in the iteration i = 1.
  at <tir>:5:9:
          B[i // 2] = A[i]
          ^^^^^^^^^^^^^^^^
help: make the loop serial, or give each iteration elements of its own.""",
    ),
    "outside": (
        OUTSIDE,
        """<tir>:5:16: error[TL10]: A[8] is read, and 'A' has 8 elements.
          B[i] = A[i + 1]
                 ^^^^^^^^
note: in the iteration i = 7.
help: guard the access, or correct the loop's bounds.""",
    ),
    "nobody": (
        NOBODY,
        """<tir>:8:16: error[TL11]: t[7] is read, and nothing has written it.
          B[i] = t[i]
                 ^^^^
note: in the iteration i = 7.
help: give 't' a value first.""",
    ),
}


@pytest.mark.parametrize("name", PINNED)
def test_a_hazard_is_told_with_its_witness(name: str):
    text, wanted = PINNED[name]
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert str(caught.value) == wanted


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


def test_what_no_pure_program_says_is_named():
    function = ti.tir.parse(
        """
@T.prim_func
def main(A: T.Buffer((3,), "float32")):
    T.evaluate(T.call_packed("my.function", A.data))
"""
    )["main"]
    with pytest.raises(DiagnosticError, match=r"the external function 'my\.function' is not known"):
        ti.lift(function)


POINTED = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), I: T.Buffer((3,), "int32"), M: T.Buffer((3,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(3):
        {}
"""  # noqa: E501
STATEMENTS = {
    "store": "B[I[i]] = A[i]",
    "guarded store": "if M[i] > T.float32(0):\n            B[I[i]] = A[i]",
    "guarded sum": "if M[i] > T.float32(0):\n            B[I[i]] = B[I[i]] + A[i]",
    "guarded minimum": "if M[i] > T.float32(0):\n            B[I[i]] = T.min(B[I[i]], A[i])",
    "load": "B[i] = A[I[i]]",
    "guarded load": "if M[i] > T.float32(0):\n            B[i] = A[I[i]]",
    "step by step": "B[I[i]] = B[0] + A[i]",
    "guarded step by step": "if M[i] > T.float32(0):\n            B[I[i]] = B[0] + A[i]",
}


@pytest.mark.parametrize("indices", [[0, 9, 1], [0, -1, 1], [0, 1, 2], [0, 1, 9]])
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_an_index_that_data_tell_is_checked_as_by_the_interpreter(statement: str, indices: list[int]):
    func = ti.tir.parse(POINTED.format(statement))["main"]
    arrays = [
        np.arange(4, dtype="float32"), np.array(indices, "int32"), np.array([1, 1, 0], "float32"), np.ones(4, "float32")
    ]  # fmt: skip
    try:
        wanted = ti.tir.interpret(func, *arrays, checked=True)
    except DiagnosticError as error:
        (told,) = error.diagnostics
        with pytest.raises(DiagnosticError) as found:
            ti.lift(func)(*arrays)
        assert found.value.diagnostics[0].span.line == told.span.line
    else:
        np.testing.assert_allclose(ti.lift(func)(*arrays)[0], wanted[3])
