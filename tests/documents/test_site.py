"""What builds the site: the scripts of `docs`, which are no package."""

import doctest
import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def docs(monkeypatch):
    """A module of the folder, by its name."""
    monkeypatch.syspath_prepend(DOCS)
    before = set(sys.modules)
    yield importlib.import_module
    for name in {path.stem for path in DOCS.glob("*.py")} - before:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["scripts"])
def test_the_examples_of_a_script_run(docs, name):
    results = doctest.testmod(docs(name))
    assert results.attempted > 0 == results.failed


def test_a_page_that_loads_something_from_elsewhere_is_found(docs, tmp_path):
    (tmp_path / "a.html").write_text('<link rel="stylesheet" href="b.css"><a href="https://example.org">read</a>')
    assert docs("scripts").elsewhere(tmp_path) == []
    (tmp_path / "b.html").write_text('<img src="b.png"><script src="https://example.org/c.js"></script>')
    assert docs("scripts").elsewhere(tmp_path) == ["b.html: https://example.org/c.js"]
