"""Functions of Python as TIR."""

from __future__ import annotations

import pytest

from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import T, parse, prim_func

SIZE = 8


@prim_func
def double(A: T.Buffer((SIZE,), "float32")):
    for i in T.serial(SIZE):
        A[i] = A[i] * 2.0


@T.prim_func(private=True)
def halve(A: T.Buffer((SIZE,), "float32")):
    for i in T.serial(SIZE):
        A[i] = A[i] * 0.5


def test_a_decorated_function_is_what_its_text_says():
    head = '@T.prim_func\ndef double(A: T.Buffer((8,), "float32")):\n'
    text = head + "    for i in T.serial(8):\n        A[i] = A[i] * 2.0\n"
    assert parse(str(double)) == parse(text)


def test_keywords_of_the_decorator_count():
    assert "global_symbol" not in halve.attrs and "global_symbol" in double.attrs


def test_spans_are_lines_of_the_file():
    assert double.body.span.line == double.span.line + 1
    with open(__file__) as file:
        assert "def double" in file.read().splitlines()[double.span.line - 1]


def test_nothing_of_the_function_runs():
    @prim_func
    def raising(A: T.Buffer((8,), "float32")):
        A[0] = 1.0

    assert raising.name == "raising"


def test_only_functions_can_be_decorated():
    with pytest.raises(DiagnosticError) as caught:
        prim_func(3)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].message == "@prim_func stands above a function, not above a int."
