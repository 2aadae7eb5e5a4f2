"""Wrong modules are refused, with the words that are pinned in `said.txt`, a line for each.

    15:15+3 TM41 '%zz' is not defined before this. help: known here: '%i', '%l' and 10 more.

Line, column and length of the place, code and message, then help and notes with their places. Diagnostics of one module
stand in one line with ` // ` between them. `python tests/tile_verify/test_tile_wrong_modules.py` writes the file.
"""

from pathlib import Path

import pytest
from wrong_modules import ENTRY, texts

import tensorir.tile as tile
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Note, Span

SAID = Path(__file__).parent / "said.txt"


def place(span: Span) -> str:
    return f"{span.line}:{span.column}+{span.stop - span.start}"


def line_of(d: Diagnostic) -> str:
    notes = [f" note {place(n.span)}: {n.message}" if isinstance(n, Note) else f" note: {n}" for n in d.notes]
    return f"{place(d.span)} {d.code} {d.message}{f' help: {d.help}' if d.help else ''}{''.join(notes)}"


def said_of(text: str) -> str:
    """The line of a text, or nothing where it is right."""
    try:
        tile.verify(tile.parse(text, "k.mlir"))
    except DiagnosticError as error:
        return " // ".join(map(line_of, error.diagnostics))
    return ""


WANTED = SAID.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("number", range(len(texts())))
def test_a_wrong_module_is_refused_in_the_words_that_are_pinned(number):
    assert said_of(texts()[number]) == WANTED[number] != ""


def test_there_are_as_many_answers_as_questions_and_more_than_200():
    assert len(WANTED) == len(texts()) >= 200


def test_the_entry_around_the_lines_is_right():
    assert tile.verify(tile.parse(ENTRY.format(""))) == ()


if __name__ == "__main__":
    SAID.write_text("".join(f"{said_of(text)}\n" for text in texts()), encoding="utf-8")
