"""What threads share, and what they do not: races of threads that do the same, and storage of other kernels.

Both wings say it, the interpreter of a race in checked mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):\n'


def arrays() -> tuple[Any, Any]:
    return np.arange(1, 5, dtype=np.int32), np.zeros(4, np.int32)


def said(run: Any) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        run()
    return [d.code for d in caught.value.diagnostics]


def test_threads_whose_condition_reads_what_they_write_are_a_race_that_data_tell():
    program = parsed(
        HEAD,
        """
for x in T.thread_binding(4, thread="threadIdx.x"):
    if C[0] < 5:
        C[0] = 7
""",
    )
    assert said(lambda: ti.tir.interpret(program, *arrays(), checked=True)) == ["TR03"]
    assert any("data tell whether iterations of the parallel loop" in note for note in ti.lift(program).report.notes)


OUTSIDE = """
S = T.alloc_buffer((4,), "int32", scope="{scope}")
{before}for b in T.thread_binding(2, thread="blockIdx.x"):
    for x in T.thread_binding(2, thread="threadIdx.x"):
        {inside}
        C[b * 2 + x] = S[3 - (b * 2 + x)]
{after}"""
FILL = "for i in range(4):\n    S[i] = A[i]\n"


@pytest.mark.parametrize("hazards", ["error", "sequential", "ignore"])
@pytest.mark.parametrize("scope", ["shared", "local", "warp"])
@pytest.mark.parametrize(
    "around", [(FILL, ""), ("", FILL), ("", "for i in range(4):\n    C[i] = S[i]\n")], ids=["before", "after", "read"]
)
def test_storage_of_a_kernel_is_used_in_it_alone(scope: str, around: tuple[str, str], hazards: str):
    program = parsed(HEAD, OUTSIDE.format(scope=scope, before=around[0], inside="S[0] = x", after=around[1]))
    assert said(lambda: ti.lift(program, on_hazard=hazards)) == ["TL17"]


@pytest.mark.parametrize("size", [65, 200])
def test_a_race_that_is_not_decided_has_a_note(size: int):
    text = f"""
@T.prim_func
def main(A: T.Buffer(({size},), "int32"), B: T.Buffer(({size},), "int32")):
    for i in T.parallel({size}):
        B[T.min(i, {size - 2})] = A[i]
"""
    notes = ti.lift(ti.tir.parse(text)["main"]).report.notes
    assert (
        "line 5: it is not decided whether iterations of the parallel loop over i meet in 'B'; "
        "they follow the order of the text."
    ) in notes
