"""The table of diagnostics in `tensorir/diagnostics.md` has every code of the sources, and no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "tensorir" / "diagnostics.md").read_text(encoding="utf-8")
CODE = re.compile(r"""(?<=["'])(?:[A-Z]|T[A-Z])\d\d(?=["'])""")
"""A text that is a code, as sources write it."""


def sections() -> dict[str, list[str]]:
    """The codes of the table by the letters over them, in order."""
    parts = re.split(r"^## ([A-Z]+): .*$", TABLE, flags=re.MULTILINE)
    return {
        letters: re.findall(r"^\| (\w+) \|", rows, re.MULTILINE)[1:]
        for letters, rows in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_code_is_in_the_table_and_no_other() -> None:
    files = [path for package in ("tensorir", "lowering", "stencils") for path in (ROOT / package).rglob("*.py")]
    used = set(CODE.findall("\n".join(path.read_text(encoding="utf-8") for path in files)))
    listed = {code for codes in sections().values() for code in codes}
    assert (sorted(used - listed), sorted(listed - used)) == ([], [])


@pytest.mark.parametrize("letters", sections())
def test_codes_stand_under_their_letters_in_order_and_once(letters: str) -> None:
    codes = sections()[letters]
    assert codes == sorted(set(codes))
    assert {re.sub(r"\d", "", code) for code in codes} == {letters}


def test_each_code_comes_with_a_sentence() -> None:
    rows = re.findall(r"^\| (\w\w?\d\d) \| (.+) \|$", TABLE, re.MULTILINE)
    assert len(rows) == sum(map(len, sections().values()))
    assert [code for code, said in rows if not said.endswith((".", "?"))] == []
