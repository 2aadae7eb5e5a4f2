"""Programs as text: each is lifted to the interpreter's values, or refused where its checked mode refuses them.

A group of `programs.txt` begins with arguments by name (others are random whole numbers) and the lines that its
programs begin with. `#!` behind a program says what is expected, values where nothing stands there:

- `near`: values, and no more steps and not many more operations than the group's first program has;
- `steps 0`: values, without a loop step by step, a scan or a fold by a function;
- `compiled`: values of XLA, where the oracle takes its time;
- `unchecked`: values, of an interpreter that is not asked to look for hazards;
- `TR03 TL12`: the code of the checked interpreter and that of the lift, at the same line but for races; with `runs`
  behind it the program has the interpreter's values under `on_hazard="sequential"` and `"ignore"`;
- `TR01 call`: the interpreter's code, and a call of the lifted program fails at the same line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import agree, given, near, parsed, steps_of

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def programs() -> list[object]:
    cases: list[object] = []
    for group in (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8").split("#==== ")[1:]:
        front, *bodies = group.split("#---- ")
        subject, *lines = front.splitlines()
        told = dict(line[3:].split(" = ", 1) for line in lines if line.startswith("#: "))
        head = "".join(f"{line}\n" for line in lines if not line.startswith("#: "))
        texts = []
        for body in bodies:
            title, *lines = body.splitlines()
            expected = " ".join(line[3:] for line in lines if line.startswith("#! "))
            texts.append((head, "\n".join(line for line in lines if not line.startswith("#! "))))
            cases.append(pytest.param(texts[-1], texts[0], told, expected.split(), id=f"{subject}: {title}"))
    return cases


def function_of(text: tuple[str, str]) -> Any:
    head, body = text
    last = head.rstrip("\n").rpartition("\n")[2]
    inside = 4 if last.endswith(":") else 0  # a head may end with a statement
    return parsed(head, body, len(last) - len(last.lstrip()) + inside if head else 0)


def arguments(function: Any, told: dict[str, str]) -> list[np.ndarray]:
    """Those that are told, with the element types of their buffers, beside random whole numbers."""
    names = {"np": np, "rng": np.random.default_rng(3)}
    arrays = given(function)
    for k, p in enumerate(function.params):
        if p.name in told:
            arrays[k] = np.asarray(eval(told[p.name], names)).astype(arrays[k].dtype)
    return arrays


@pytest.mark.parametrize(("text", "base", "told", "expected"), programs())
def test_a_program_is_lifted_to_its_values_or_refused(
    text: tuple[str, str], base: tuple[str, str], told: dict[str, str], expected: list[str]
):
    function = function_of(text)
    arrays = arguments(function, told)
    match expected:
        case []:
            agree(function, *arrays, **CLOSE)
        case ["near"]:
            near(agree(function, *arrays, **CLOSE), ti.lift(function_of(base)))
        case ["steps", count]:
            assert steps_of(agree(function, *arrays, **CLOSE)) == int(count)
        case ["compiled"]:
            agree(function, *arrays, compiled=True, **CLOSE)
        case ["unchecked"]:
            agree(function, *arrays, checked=False, **CLOSE)
        case [code, lifted, *runs]:
            refused(function, arrays, code, lifted)
            for hazard in ("sequential", "ignore") if runs else ():
                agree(function, *arrays, compiled=True, checked=False, on_hazard=hazard, **CLOSE)


def refused(function: Any, arrays: list[np.ndarray], code: str, lifted: str) -> None:
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(function, *arrays, checked=True)
    with pytest.raises(DiagnosticError) as found:
        program = ti.lift(function)
        assert lifted == "call"
        program(*arrays)
    one, other = wanted.value.diagnostics[0], found.value.diagnostics[0]
    assert one.code == code
    assert code == "TR03" or one.span.line == other.span.line  # of a race either access, or the loop
    assert lifted in ("call", other.code)
