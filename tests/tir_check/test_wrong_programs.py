"""Wrong programs as text: each is refused with the diagnostics that stand below it, place and sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = """@T.prim_func
def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float64"), I: T.Buffer((8,), "int32"), \
L: T.Buffer((8,), "int64"), M: T.Buffer((4, 4), "float32")):
"""


def wrong_programs() -> list[object]:
    cases: list[object] = []
    for case in (Path(__file__).parent / "wrong_programs.txt").read_text().split("#---- ")[1:]:
        title, *lines = case.splitlines()
        pinned = [line[3:] for line in lines if line.startswith("#! ")]
        body = "".join(f"{line}\n" for line in lines if not line.startswith("#! "))
        cases.append(pytest.param(HEAD + body, pinned, id=title))
    return cases


@pytest.mark.parametrize(("text", "pinned"), wrong_programs())
def test_a_wrong_program_is_refused_with_its_diagnostics(text: str, pinned: list[str]):
    with pytest.raises(DiagnosticError) as caught:
        tir.check(tir.parse(text, "wrong"))
    errors = [d for d in caught.value.diagnostics if d.severity == "error"]
    assert [str(d).splitlines()[0].removeprefix("wrong:") for d in errors] == pinned


def test_one_of_them_in_full():
    with pytest.raises(DiagnosticError) as caught:
        tir.check(tir.parse(HEAD + "    for i in range(4):\n        A[i + 8] = T.float32(0)\n", "wrong.py"))
    assert str(caught.value) == (
        "wrong.py:4:11: error[TC60]: index 0 of 'A' is 8 to 11, outside of its 8 elements.\n"
        "          A[i + 8] = T.float32(0)\n"
        "            ^^^^^"
    )


@pytest.mark.parametrize(
    "body",
    [
        "    B[0] = T.fmod(A[0], T.float32(3))\n",
        "    B[0] = T.truncmod(A[0], T.float32(3))\n",
        '    p: T.let[T.handle] = A.data\n    C = T.decl_buffer((8,), "float32", data=p)\n    B[0] = C[1]\n',
    ],
    ids=[
        "the remainder of floats is C's fmod",
        "which TVM's library calls truncmod",
        "a pointer whose element type nobody says",
    ],
)
def test_what_is_sound_is_accepted(body: str):
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
    module = tir.parse(head + body)
    assert tir.check(module) == ()
    a, b = np.full(8, -7.5, np.float32), np.zeros(8, np.float32)
    given = tir.interpret(module["main"], a, b, checked=True)  # type: ignore[arg-type]
    assert given[1][0] == (-1.5 if "mod" in body else -7.5)


HAZARDS = {
    "for i in T.parallel(4):\n        A[0] = T.Cast('float32', i)": ["TL12"],
    "for i in range(4):\n        if i * i > 8:\n            A[i + i * i - 8] = T.float32(1)": ["TL10"],
    "for i in range(4):\n        A[T.Cast('int32', A[i])] = T.float32(1)": [],
    "for i in T.parallel(4):\n        A[i] = T.Cast('float32', i)": [],
}


@pytest.mark.parametrize("body", HAZARDS)
def test_what_a_lift_proves_wrong_is_told_where_one_asks(body):
    module = tir.parse(f"@T.prim_func\ndef main(A: T.Buffer((4,), 'float32')):\n    {body}\n")
    found = []
    try:
        tir.check(module, hazards=True)
    except DiagnosticError as caught:
        found = [d.code for d in caught.diagnostics]
    assert found == HAZARDS[body] and tir.check(module) == ()
