"""Texts that are no programs, for their syntax, names or types: every diagnostic of `diagnostics.txt` whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorir import DiagnosticError
from tensorir.text import parse
from tests.corpus import corpus

CASES = corpus(Path(__file__).with_name("diagnostics.txt"))


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_the_diagnostic_is(program: str, expected: str):
    with pytest.raises(DiagnosticError) as error:
        parse(program, name="p.fencil")
    assert str(error.value) == expected
