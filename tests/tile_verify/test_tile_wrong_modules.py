"""Wrong modules are refused, with the words that are pinned in `said.txt`."""

from pathlib import Path

import pytest
from wrong_modules import ENTRY, texts

import tensorir.tile as tile
from tensorir.runtime.errors import DiagnosticError

SAID = Path(__file__).parent / "said.txt"
MARK = "\n====\n"


def said_of(text: str) -> str:
    """What is said of a text, or nothing."""
    try:
        tile.verify(tile.parse(text, "k.mlir"))
    except DiagnosticError as found:
        return str(found)
    return ""


WANTED = SAID.read_text(encoding="utf-8").split(MARK)


@pytest.mark.parametrize("number", range(len(texts())))
def test_a_wrong_module_is_refused_in_the_words_that_are_pinned(number):
    assert said_of(texts()[number]) == WANTED[number] != ""


def test_there_are_as_many_answers_as_questions_and_more_than_200():
    assert len(WANTED) == len(texts()) >= 200


def test_the_entry_around_the_lines_is_right():
    assert tile.verify(tile.parse(ENTRY.format(""))) == ()
