"""Threads that hand on values, and vectors of which some lanes take part: the lift has the interpreter's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer(({0},), "int32"), B: T.Buffer(({0},), "int32")):\n'


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
