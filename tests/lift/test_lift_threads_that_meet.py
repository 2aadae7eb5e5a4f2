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


TWO = """
S = T.alloc_buffer((4,), "int32", scope="{scope}")
for k in range(2):
    for x in T.thread_binding(4, thread="threadIdx.x"):
        S[x] = A[x]
    {then}
"""
READS = {
    "another kernel": 'for x in T.thread_binding(4, thread="threadIdx.x"):\n        C[x] = S[3 - x]',
    "no kernel": "for x in range(4):\n        C[x] = S[x]",
    "another kernel, through another buffer": (
        'F = T.decl_buffer((4,), "int32", data=S.data, scope="{scope}")\n'
        '    for x in T.thread_binding(4, thread="threadIdx.x"):\n        C[x] = F[x]'
    ),
}


@pytest.mark.parametrize("then", READS)
@pytest.mark.parametrize("scope", ["shared", "local"])
def test_storage_that_another_kernel_filled_is_not_read(scope: str, then: str):
    program = parsed(HEAD, TWO.format(scope=scope, then=READS[then].format(scope=scope)))
    assert said(lambda: ti.tir.interpret(program, *arrays())) == ["TR28"]
    assert said(lambda: ti.lift(program)) == ["TL17"]


def test_the_read_of_another_kernels_storage_is_shown_with_the_store():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(HEAD, TWO.format(scope="shared", then=READS["no kernel"])))
    assert str(caught.value) == (
        "<tir>:8:20: error[TL17]: 'S' is read here, but it is shared storage that another kernel has filled: "
        "each kernel has its own.\n"
        "              C[x] = S[x]\n"
        "                     ^^^^\n"
        "note: another kernel stores here.\n"
        "  at <tir>:6:13:\n"
        "              S[x] = A[x]\n"
        "              ^^^^^^^^^^^\n"
        "help: put both into one kernel, or give the buffer the scope global."
    )


def test_global_storage_and_storage_that_no_kernel_fills_are_read_by_every_kernel():
    text = TWO.format(scope="global", then=READS["another kernel"])
    outside = text.replace(
        'for x in T.thread_binding(4, thread="threadIdx.x"):\n        S', "for x in range(4):\n        S", 1
    )
    for body in (text, outside, outside.replace("global", "shared")):
        assert ti.tir.interpret(parsed(HEAD, body), *arrays(), checked=True)[1].tolist() == [4, 3, 2, 1]
        assert ti.lift(parsed(HEAD, body))(*arrays())[-1].tolist() == [4, 3, 2, 1]


OUTSIDE = """
S = T.alloc_buffer((4,), "int32", scope="{scope}")
{before}for b in T.thread_binding(2, thread="blockIdx.x"):
    for x in T.thread_binding(2, thread="threadIdx.x"):
        {inside}
        C[b * 2 + x] = S[3 - (b * 2 + x)]
{after}"""
FILL = "for i in range(4):\n    S[i] = A[i]\n"


@pytest.mark.parametrize("scope", ["shared", "local", "warp"])
def test_every_thread_reads_storage_that_no_kernel_stores_to(scope: str):
    program = parsed(HEAD, OUTSIDE.format(scope=scope, before=FILL, inside="T.evaluate(0)", after=""))
    assert ti.tir.interpret(program, *arrays())[-1].tolist() == [4, 3, 2, 1]
    assert ti.lift(program)(*arrays())[-1].tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("hazards", ["error", "sequential", "ignore"])
@pytest.mark.parametrize("scope", ["shared", "local", "warp"])
@pytest.mark.parametrize(
    "around", [(FILL, ""), ("", FILL), ("", "for i in range(4):\n    C[i] = S[i]\n")], ids=["before", "after", "read"]
)
def test_storage_of_a_kernel_is_used_in_it_alone(scope: str, around: tuple[str, str], hazards: str):
    program = parsed(HEAD, OUTSIDE.format(scope=scope, before=around[0], inside="S[0] = x", after=around[1]))
    assert said(lambda: ti.lift(program, on_hazard=hazards)) == ["TL17"]


def test_storage_of_a_kernel_that_is_used_outside_is_shown_with_both():
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(HEAD, OUTSIDE.format(scope="local", before=FILL, inside="S[0] = x", after="")))
    assert str(caught.value) == (
        "<tir>:8:13: error[TL17]: 'S' is local storage that a kernel stores to and that is used outside of it: "
        "each thread has its own.\n"
        "              S[0] = x\n"
        "              ^^^^^^^^\n"
        "note: it is used outside here.\n"
        "  at <tir>:5:9:\n"
        "          S[i] = A[i]\n"
        "          ^^^^^^^^^^^\n"
        "help: use it in the kernel alone, or give the buffer the scope global."
    )


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
