"""Indices and conditions that are no sums of variables, and hold no data: proven for each value of a small loop."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError, Note

IN_ORDER = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in {loop}(16):
        {body}
"""
FOLD = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    b = T.launch_thread("blockIdx.x", 1)
    t = T.launch_thread("threadIdx.x", 16)
    S_data = T.allocate([16], "int32", "shared")
    S = T.Buffer((16,), "int32", data=S_data, scope="shared")
    S[t] = A[t]
    T.tvm_storage_sync("shared")
    for s in range(4):
        if t < (8 >> s):
            S[t] = S[t] + S[t + (8 >> s){more}]
{sync}
    T.tvm_storage_sync("shared")
    B[t] = S[0]
"""
SYNC = '        T.tvm_storage_sync("shared")'

WRONG = {
    "a race of masked indices": (IN_ORDER.format(loop="T.parallel", body="B[i & 13] = A[i]"), "TR03", "TL12"),
    "a race where a product chooses": (
        IN_ORDER.format(loop="T.parallel", body="if i * i < 5:\n            B[0] = A[i]"),
        "TR03",
        "TL12",
    ),
    "outside of a flipped bit": (IN_ORDER.format(loop="range", body="B[i] = A[i ^ 16]"), "TR01", "TL10"),
    "a missing barrier in a fold of halves": (FOLD.format(more="", sync=""), "TR03", "TL12"),
    "a fold of halves that leaves": (FOLD.format(more=" + 8", sync=SYNC), "TR01", "TL10"),
}
RIGHT = {
    "a permutation": IN_ORDER.format(loop="T.parallel", body="B[i ^ 5] = A[i ^ 3]"),
    "a product that keeps iterations apart": IN_ORDER.format(
        loop="T.parallel", body="if i * i < 5:\n            B[i] = A[i * i]"
    ),
    "a fold of halves": FOLD.format(more="", sync=SYNC),
}


def arguments() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(16, dtype=np.int32) * 3 - 7, np.zeros(16, np.int32)


@pytest.mark.parametrize(("text", "told", "proven"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_for_one_value_is_told_as_in_the_checked_mode(text: str, told: str, proven: str):
    func = ti.tir.parse(text)
    for run, code in (
        (lambda: ti.tir.interpret(func, *arguments(), checked=True), told),
        (lambda: ti.lift(func), proven),
    ):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right_for_each_value_is_lifted_to_its_numbers(text: str):
    func = ti.tir.parse(text)
    wanted = ti.tir.interpret(func, *arguments(), checked=True)[1]
    np.testing.assert_array_equal(ti.lift(func)(*arguments())[0], wanted)


def test_the_iterations_of_a_race_are_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(WRONG["a race of masked indices"][0]))
    (found,) = caught.value.diagnostics
    assert found.message == "two iterations of the parallel loop over i touch B[0]."
    assert [n.message for n in found.notes if isinstance(n, Note)] == [
        "written in the iteration i = 0.",
        "written in the iteration i = 2.",
    ]


def test_loops_that_are_too_long_for_it_are_left_undecided():
    text = IN_ORDER.format(loop="T.parallel", body="B[i & 13] = A[i % 16]").replace("(16):", "(100):")
    assert ti.lift(ti.tir.parse(text)) is not None
