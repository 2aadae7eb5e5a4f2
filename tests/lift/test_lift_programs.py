"""Programs as text: each is lifted to the interpreter's values, or refused where its checked mode refuses them.

A group of `programs.txt` begins with a subject, arguments by name (others are random whole numbers; values between
semicolons are those of several calls), what is expected of all its programs, and the lines that they begin with. A
program is lines below a title, which follow these lines or stand in the place of `{0}`, or one line `#- a | b` of
what stands in the places of `{0}` and `{1}`. `#!` says what is expected, several lines several things, and values where
nothing stands there:

- `near`: values, and no more steps and not many more operations than the group's first program has;
- `figures 0 0 0 2`: values, with these loops step by step, scans and folds by functions, gathers, and operations;
- `steps 0`, `loops 0`: values, with so many loops, scans and folds by a function, or loops step by step;
- `raised contraction`, `unraised scatter`: values, and XLA gets a part of this form, or of none of those;
- `compiled`: values of XLA, where the oracle takes its time; `exact`: of a lift that keeps the order of the text;
- `bits`: the interpreter's bits, of XLA and of a lift that keeps the order of the text;
- `unchecked`: values, of an interpreter that is not asked to look for hazards;
- `filled`, `asked`: values, and buffers that are written need not be, or have to be given;
- `either`: values, or errors of the call, one of which is at the line where the checked interpreter has its first;
- `TR03 TL12`: the code of the checked interpreter and that of the lift, at the same line but for races; with `runs`
  behind it the program has the interpreter's values under `on_hazard="sequential"` and `"ignore"`;
- `TR01 call`: the interpreter's code, and a call of the lifted program fails at the same line;
- `<tir>:4:5: error ...`: what the lift, or a call, says: all of it, or its first line where one line stands there.

`python -m tests.lift.test_lift_programs` writes figures anew and shows what changed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.lifting.program import Lifted
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import agree, figures, given, near, parsed, reference, same_values, steps_of

WAYS = {"either", "filled", "asked", "bits", "exact", "compiled", "unchecked"}
PROGRAMS = Path(__file__).with_name("programs.txt")
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


@dataclass(frozen=True)
class Program:
    """Lines that all programs of a group begin with, those of one, arguments by name, and what is expected."""

    head: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    holes: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()
    expected: tuple[str, ...] = ()

    def with_line(self, line: str, own: bool) -> Program:
        match line[:3]:
            case "#: ":
                name, _, value = line[3:].partition(" = ")
                return replace(self, given=(*self.given, (name, value)))
            case "#! ":
                return replace(self, expected=(*self.expected, line[3:]))
            case _ if own:
                return replace(self, body=(*self.body, line))
            case _:
                return replace(self, head=(*self.head, line))

    def function(self) -> Any:
        """The function of the text, of which a line `@T.prim_func` may be left out."""
        lines = list[str]()
        last = self.head[-1] if self.head else ""
        indent = " " * (len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0))
        own = "\\n".join(self.body)
        placed = self.holes or ((own,) if any("{0}" in line for line in self.head) else ())
        if not self.head:
            lines += [line for text in placed for line in text.split("\\n")]
        for line in self.head:
            for k, text in enumerate(placed):
                before = " " * (len(line) - len(line.lstrip()))
                line = line.replace(f"{{{k}}}", text.replace("\\n", f"\n{before}"))
            lines.append(line)
        lines += [indent + line for line in (() if placed else self.body)]
        text = "\n".join(lines) + "\n"
        return parsed(f"@T.prim_func\n{text}" if text.startswith("def main") else text)

    def arguments(self, function: Any) -> Iterator[list[Any]]:
        """Those of each call, with the types of parameters."""
        names = {"np": np, "rng": np.random.default_rng(3)}
        values = {name: [eval(v, names) for v in value.split("; ")] for name, value in self.given}
        places = {p.name: k for k, p in enumerate(function.params)}
        for call in range(max(map(len, values.values()), default=1)):
            arrays, one = given(function), [several[call % len(several)] for several in values.values()]
            for name, value in zip(values, one, strict=True):
                k = places[name]
                arrays[k] = np.asarray(value).astype(arrays[k].dtype) if isinstance(arrays[k], np.ndarray) else value
            yield arrays


def programs() -> list[Any]:
    cases: list[Any] = []
    for group in PROGRAMS.read_text(encoding="utf-8").split("#==== ")[1:]:
        subject, *lines = group.splitlines()
        head, made = Program(), list[tuple[str, Program]]()
        for line in lines:
            if line.startswith("#---- "):
                made.append((line[6:], head))
            elif line.startswith("#- "):
                holes, *more = re.split(r" +(?=#[:!] )", line[3:])
                program = replace(head, holes=tuple(re.split(r" \|(?: |$)", holes)))
                made.append((holes, reduce(lambda p, m: p.with_line(m, True), more, program)))
            elif made:
                made[-1] = made[-1][0], made[-1][1].with_line(line, True)
            else:
                head = head.with_line(line, False)
        made = made or [("", head)]
        cases += [pytest.param(program, made[0][1], id=f"{subject}: {title}") for title, program in made]
    return cases


@pytest.mark.parametrize(("program", "base"), programs())
def test_a_program_is_lifted_to_its_values_or_refused(program: Program, base: Program):
    function = program.function()
    if any(line.startswith("<tir>") for line in program.expected):
        with pytest.raises(DiagnosticError) as caught:
            lifted = ti.lift(function)
            for arrays in program.arguments(function):
                lifted(*arrays)
        said, wanted = str(caught.value), "\n".join(program.expected)
        assert (said if len(program.expected) > 1 else said.partition("\n")[0]) == wanted
        return
    for expected in program.expected or ("",):
        for arrays in program.arguments(function):
            as_expected(function, arrays, expected.split(), base)


def as_expected(function: Any, arrays: list[Any], words: list[str], base: Program) -> None:
    match words:
        case ["either", *rest]:
            program = either(function, arrays, **{"numerics": "exact"} if "exact" in rest else {})
        case ["filled" | "asked" as word]:
            program = agree(function, *arrays, **CLOSE)
            filled(program, function, arrays, word == "filled")
        case ["bits"]:
            program = agree(function, *arrays, compiled=True, numerics="exact")
        case [code, lifted, *runs] if code.startswith("TR"):
            refused(function, arrays, code, lifted)
            for hazard in ("sequential", "ignore") if runs else ():
                agree(function, *arrays, compiled=True, checked=False, on_hazard=hazard, **CLOSE)
            return
        case _:
            options: dict[str, Any] = {"numerics": "exact"} if "exact" in words else {}
            compiled, checked = "compiled" in words, "unchecked" not in words
            program = agree(function, *arrays, compiled=compiled, checked=checked, **options, **CLOSE)
    counts = figures(program).split()
    match [w for w in words if w not in WAYS]:
        case ["near"]:
            near(program, ti.lift(base.function()))
        case ["figures", *wanted]:
            assert counts == wanted
        case ["steps", wanted]:
            assert str(steps_of(program)) == wanted
        case ["loops", wanted]:
            assert counts[0] == wanted
        case ["raised" | "unraised" as word, *rules]:
            raised = {row[0] for row in program.report.raised}
            assert bool(set(" ".join(rules).split(", ")) & raised) == (word == "raised")
        case others:
            assert not others


def either(function: Any, arrays: list[Any], **options: Any) -> Lifted:
    program = ti.lift(function, **options)
    try:
        wanted = ti.tir.interpret(function, *arrays, checked=True)
    except DiagnosticError as error:
        with pytest.raises(DiagnosticError) as caught:
            program(*arrays)
        assert error.diagnostics[0].span.line in {d.span.line for d in caught.value.diagnostics}
    else:
        same_values(program, reference(program)(*arrays), wanted, **CLOSE)
    return program


def filled(program: Lifted, function: Any, arrays: list[Any], need_not: bool) -> None:
    without = [None if a.written else x for a, x in zip(program.arguments, arrays, strict=True)]
    if need_not:
        wanted = ti.tir.interpret(function, *arrays)
        same_values(program, reference(program)(*without), wanted, **CLOSE)
    else:
        with pytest.raises(DiagnosticError, match="TL03"):
            program(*without)


def refused(function: Any, arrays: list[Any], code: str, lifted: str) -> None:
    with pytest.raises(DiagnosticError) as wanted:
        ti.tir.interpret(function, *arrays, checked=True)
    with pytest.raises(DiagnosticError) as caught:
        program = ti.lift(function)
        assert lifted == "call"
        program(*arrays)
    one, other = wanted.value.diagnostics[0], caught.value.diagnostics[0]
    assert one.code == code
    # of a race it is either access, or the loop; of a barrier, the loop
    assert code in ("TR03", "TR14") or one.span.line == other.span.line
    assert lifted in ("call", other.code)


def write_figures() -> None:
    """Figures of `programs.txt` as they are now, in the case's own lines or else in those of its group; and a diff."""
    before = after = PROGRAMS.read_text(encoding="utf-8")
    for case in programs():
        program = case.values[0]
        for expected in (e for e in program.expected if "figures" in e):
            options: dict[str, Any] = {"numerics": "exact"} if "exact" in expected else {}
            now = re.sub(r"figures[ 0-9]*\d", f"figures {figures(ti.lift(program.function(), **options))}", expected)
            subject, _, title = case.id.partition(": ")
            group = after.index(f"#==== {subject}\n")
            own = max(after.find(f"{mark} {title}", group) for mark in ("#----", "#-")) if title else group
            place = after.find(f"#! {expected}", own)
            place = place if own <= place < after.find("\n#-", own + 1) else after.index(f"#! {expected}", group)
            after = after[:place] + f"#! {now}" + after[place + 3 + len(expected) :]
    PROGRAMS.write_text(after, encoding="utf-8")
    print(*difflib.unified_diff(before.splitlines(), after.splitlines(), "kept", "now", lineterm="", n=1), sep="\n")


if __name__ == "__main__":
    write_figures()
