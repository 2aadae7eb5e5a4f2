"""Indices and conditions that are no sums of variables, and hold no data: proven for each value of a small loop."""

from __future__ import annotations

import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError, Note

IN_ORDER = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in {loop}(16):
        {body}
"""


def test_the_iterations_of_a_race_are_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(IN_ORDER.format(loop="T.parallel", body="B[i & 13] = A[i]")))
    (found,) = caught.value.diagnostics
    assert found.message == "two iterations of the parallel loop over i touch B[0]."
    assert [n.message for n in found.notes if isinstance(n, Note)] == [
        "written in the iteration i = 0.",
        "written in the iteration i = 2.",
    ]


def test_loops_that_are_too_long_for_it_are_left_undecided():
    text = IN_ORDER.format(loop="T.parallel", body="B[i & 13] = A[i % 16]").replace("(16):", "(100):")
    assert ti.lift(ti.tir.parse(text)) is not None
