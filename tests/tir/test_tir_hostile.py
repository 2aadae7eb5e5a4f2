"""Bad texts: each is refused with a located sentence of its own, quickly, and nothing of it happens."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pytest

from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import parse
from tests.corpus import corpus
from tests.effort import count_calls

HEAD = '@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
RELAX = '@R.function\ndef main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "int32")):\n'


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def relax(*lines: str) -> str:
    return RELAX + "".join(f"    {line}\n" for line in lines)


CASES: list[tuple[str, object, str]] = [
    *((title, *case) for title, case in corpus(Path(__file__).with_name("hostile.txt")).items()),
    ("an empty text", "", "- TS30 the text holds no function and no module."),
    (
        "deep brackets",
        body("B[0] = " + "(" * 500 + "1" + ")" * 500),
        "3:92 TS02 brackets are nested more than 80 deep here.",
    ),
    ("deep lists", body("x = " + "[" * 100000), "3:89 TS02 brackets are nested more than 80 deep here."),
    (
        "deep blocks",
        HEAD + "".join("    " * k + "if n > 0:\n" for k in range(1, 120)) + "    " * 120 + "A[0] = 1.0\n",
        "92:361 TS02 statements are nested more than 90 deep here.",
    ),
    (
        "many operators",
        body("B[0] = " + "n + " * 100000 + "n"),
        "3:4010 TS03 more than 1,000 operators are chained here.",
    ),
    ("many minus signs", body("B[0] = " + "-" * 5000 + "n"), "3:12 TS03 more than 1,000 operators are chained here."),
    ("many nots", body("B[0] = " + "not " * 900 + "n"), "3:492 TS03 expressions are nested more than 120 deep here."),
    ("many calls", body("f" + "(0)" * 5000), "3:308 TS03 more than 100 calls or subscripts follow each other here."),
    (
        "many subscripts",
        body("A" + "[0]" * 900),
        "3:308 TS03 more than 100 calls or subscripts follow each other here.",
    ),
    ("many attributes", body("A" + ".data" * 900), "3:5 TS03 expressions are nested more than 120 deep here."),
    (
        "many conditions",
        body("B[0] = " + "1 if n > 0 else " * 400 + "2"),
        "3:2679 TS03 more than 1,000 operators are chained here.",
    ),
    ("many lambdas", body("x = " + "lambda: " * 600 + "1"), "3:1145 TS03 more than 1,000 operators are chained here."),
    (
        "many elifs",
        body("if n > 0:", "    pass", *["elif n > 1:", "    pass"] * 400),
        "3:5 TS03 more than 100 'elif' follow each other here.",
    ),
    (
        "many attributes of statements",
        body(*["T.attr(0, 'k', 1)"] * 200, "A[0] = 1.0"),
        "103:5 TS03 more than 100 attributes are nested here.",
    ),
    ("a long number", body("B[0] = " + "9" * 5000), "3:12 TS04 this number has more than 400 characters."),
    (
        "a long string",
        body("T.evaluate('" + "x" * 200000 + "')"),
        "3:16 TS04 this string has more than 100,000 characters.",
    ),
    ("a null", body("A[0] = 1.0\0"), "3:15 TS05 the character U+0000 cannot stand in a text."),
    ("a surrogate", body("A[0] = '\udc80'"), "3:13 TS05 the character U+DC80 cannot stand in a text."),
    (
        "mixed tabs",
        HEAD + "    A[0] = 1.0\n\tA[1] = 1.0\n",
        "4:1 TS05 this is no Python: inconsistent use of tabs and spaces in indentation.",
    ),
    ("a live number", 3, "- TS33 TVMScript is text, or an object of TVM, and this is of type int."),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_bad_text_is_refused_with_its_own_sentence(text: object, expected: str):
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    first = caught.value.diagnostics[0]
    place = f"{first.span.line}:{first.span.column}" if first.span.source.text else "-"
    assert f"{place} {first.code} {first.message}" == expected


def test_there_are_enough_bad_texts():
    assert len(CASES) >= 100


def test_a_text_that_is_too_long_is_refused_at_once():
    text, caught = "#\n" * 150_000_000, []

    def refuse() -> None:
        with pytest.raises(DiagnosticError) as error:
            parse(text)
        caught.append(error.value)

    assert count_calls(refuse) < 1_000
    assert caught[0].diagnostics[0].message == "the text has more than 8,000,000 characters."


def test_a_bad_text_takes_little_memory_beyond_its_own():
    tracemalloc.start()
    try:
        for name, text, _ in CASES:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            refuse(text)
            assert tracemalloc.get_traced_memory()[1] - before < 256 << 20, name
    finally:
        tracemalloc.stop()


def test_nothing_is_executed_opened_or_imported():
    """An audit hook sees every event while all bad texts are read; only Python's parser may be called."""
    seen: list[tuple[str, object]] = []
    watching = False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and not event.startswith(("sys.", "object.", "gc.", "time.")):
            seen.append((event, arguments[:1]))

    for _, text, _ in CASES:  # what our own modules import on first use
        refuse(text)
    sys.addaudithook(hook)
    watching = True
    for _, text, _ in CASES:
        refuse(text)
    watching = False
    assert {event for event, _ in seen} <= {"compile"}


def refuse(text: object) -> None:
    try:
        parse(text)
    except DiagnosticError:
        return
    raise AssertionError("accepted")


def test_several_errors_are_reported_together():
    with pytest.raises(DiagnosticError) as caught:
        parse(body("A[q] = 1.0", "x = T.exq(n)", "y = x + 1", "B[0] = n ** 2"))
    assert [d.message for d in caught.value.diagnostics] == [
        "'q' is not defined here.",
        "T.exq is not known.",
        "'**' is no operator of TIR.",
    ]


def test_a_diagnostic_shows_the_line_and_a_hint():
    with pytest.raises(DiagnosticError) as caught:
        parse(body("A[0] = T.exq(A[1])"), name="kernel.py")
    assert str(caught.value) == (
        "kernel.py:3:12: error[TS12]: T.exq is not known.\n"
        "      A[0] = T.exq(A[1])\n"
        "             ^^^^^\n"
        "help: did you mean 'T.exp'?"
    )


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("A[0] = T.expp(A[1])", "did you mean 'T.exp'?"),
        ("A[0] = T.foo.bar(A[1])", ""),
        ("A[0] = abs(A[1])", "write T.abs(x)."),
        ("A[0] = round(A[1])", "write T.round(x)."),
        ("A[0] = int(A[1])", "write T.Cast('int32', x)."),
        (
            "A[0] = qqq",
            "known here: 'main', 'A', 'B', 'n'; parse(text, names={'qqq': ...}) gives what stood around the text.",
        ),
    ],
)
def test_a_hint_can_be_written_as_it_stands(line: str, help: str):
    with pytest.raises(DiagnosticError) as caught:
        parse(body(line))
    assert caught.value.diagnostics[0].help == help
