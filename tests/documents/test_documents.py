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


def test_the_sources_cite_no_document_that_is_not_in_the_repository():
    hidden = re.compile(r"\bdesign \d|lowering notes|\bspecification, \"|design\.md|wings\.md", re.IGNORECASE)
    files = [p for package in ("tensorir", "lowering", "stencils") for p in (ROOT / package).rglob("*.py")]
    assert [str(p.relative_to(ROOT)) for p in files if hidden.search(p.read_text(encoding="utf-8"))] == []


def test_the_sources_cite_sections_that_there_are():
    cited = re.compile(r"\(`?docs/(\w+)\.md`?, ((?:\"[^\"]+\"(?: and )?)+)\)")
    found = 0
    for package in ("tensorir", "lowering", "stencils"):
        for path in (ROOT / package).rglob("*.py"):
            for page, titles in cited.findall(re.sub(r"\n\s*(?:# )?", " ", path.read_text(encoding="utf-8"))):
                headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.M)
                missing = set(re.findall(r'"([^"]+)"', titles)) - set(headings)
                assert not missing, f"{path.relative_to(ROOT)} cites {sorted(missing)}"
                found += 1
    assert found > 10


def test_the_site_shows_every_notebook_and_every_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [*(f"notebooks/{p.name}" for p in (ROOT / "notebooks").glob("*.ipynb")), *(f"docs/{p.name}" for p in DOCS)]
    assert [page for page in pages if page not in navigation] == []
