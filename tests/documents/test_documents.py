"""The documents name files that exist, and the letters of codes that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \|$", GLOSSARY, re.MULTILINE)


def test_every_term_of_the_glossary_has_a_file():
    assert len(TERMS) == GLOSSARY.count("\n| ") - 1 > 50
    assert [(term, path) for term, path in TERMS if not (ROOT / path).exists()] == []


def test_terms_stand_in_alphabetical_order_and_once():
    terms = [term for term, _ in TERMS]
    assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.stem)
def test_a_page_names_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tensorir|lowering|stencils|tests|docs|notebooks)/[\w./-]*)`", text))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.stem)
def test_a_page_names_modules_that_can_be_run(page):
    for name in re.findall(r"python -m ((?:tests|stencils)[\w.]*)", page.read_text(encoding="utf-8")):
        path = ROOT.joinpath(*name.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_the_letters_of_codes_are_those_of_the_table_of_diagnostics():
    table = (ROOT / "tensorir" / "diagnostics.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## ([A-Z]+): (.*)$", table, re.MULTILINE)
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([A-Z]{1,2}) \| (.*) \|$", page, re.MULTILINE) == sections
