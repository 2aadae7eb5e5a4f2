"""What builds the site: the scripts of `docs`, which are no package."""

import doctest
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from stencils import library

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def docs(monkeypatch):
    """A module of the folder, by its name."""
    monkeypatch.syspath_prepend(DOCS)
    before = set(sys.modules)
    yield importlib.import_module
    for name in {path.stem for path in DOCS.glob("*.py")} - before:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["api", "doctests", "gallery", "scripts", "stories"])
def test_the_examples_of_a_script_run(docs, name):
    if name == "doctests":
        pytest.importorskip("griffe")
    results = doctest.testmod(docs(name))
    assert results.attempted > 0 == results.failed


def test_a_page_that_loads_something_from_elsewhere_is_found(docs, tmp_path):
    (tmp_path / "a.html").write_text('<link rel="stylesheet" href="b.css"><a href="https://example.org">read</a>')
    assert docs("scripts").elsewhere(tmp_path) == []
    (tmp_path / "b.html").write_text('<img src="b.png"><script src="https://example.org/c.js"></script>')
    assert docs("scripts").elsewhere(tmp_path) == ["b.html: https://example.org/c.js"]


def test_every_public_name_has_its_place_in_the_api(docs):
    missing, unknown = docs("api").unplaced()
    assert not missing, "put each into a group of docs/api.py"
    assert not unknown
    names = [name for _, names in docs("api").GROUPS.values() for name in names]
    assert len(names) == len(set(names))


def test_every_name_of_the_api_has_a_sentence(docs):
    assert docs("api").without_sentence() == []


def test_the_pages_of_the_api_have_every_name_with_its_entry_and_are_in_the_navigation(docs, tmp_path):
    api = docs("api")
    api.reference(tmp_path)
    index = (tmp_path / "api.md").read_text(encoding="utf-8")
    assert (
        "| [`ti.boundary.periodic`](api/boundaries.md#tensorir.fieldview.boundary.periodic) | The field goes on"
        in index
    )
    assert "::: tensorir.fieldview.boundary.periodic\n" in (tmp_path / "api/boundaries.md").read_text(encoding="utf-8")
    assert [name for name in dir(ti) if f"`ti.{name}`" not in index] == []
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in (tmp_path / "api").iterdir() if f"api/{page.name}" not in navigation] == []


def test_the_gallery_has_every_program_of_the_library(docs):
    assert set(docs("gallery").RUNS) == set(library.names())


def test_every_test_of_a_story_is_a_row_of_the_page_in_the_words_of_who_it_is_about(docs, tmp_path):
    docs("stories").stories(tmp_path)
    page = (tmp_path / "stories.md").read_text(encoding="utf-8").replace("&#95;<wbr>", "_")
    defined = [
        name
        for path in (DOCS.parent / "tests" / "stories").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    rows = re.findall(r"^\| An? .+ \| .+ \| (?:gets|is told) .+ \| <code>(test_\w+)</code> \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(defined) and len(set(rows)) == len(rows)
    assert "- stories.md" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")


SETS = """
const { renderToString } = require(process.argv[1] + "/katex/katex.min.js");
const texts = JSON.parse(require("fs").readFileSync(0));
for (const text of texts) renderToString(text, { displayMode: true, strict: "error" });
"""
ODD = """f(out: tensor<(float, float), I[0:4]>, `a $b_{c}%`: tensor<float, I[0:4]>, `\\u005c#&~^`: tensor<float>) {
  out ← (`a $b_{c}%` × `\\u005c#&~^`, print("{}")(`a $b_{c}%`)); }"""


def test_the_gallery_has_the_equations_of_every_program(docs, tmp_path, monkeypatch):
    monkeypatch.setattr(docs("gallery"), "_draw", lambda name, path: None)
    docs("gallery").gallery(tmp_path)
    page = (tmp_path / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"\$\$\n(\\begin\{aligned\}\n.*?\\end\{aligned\})\n\$\$\n", page, re.DOTALL)
    assert shown == [str(ti.inspect.latex(library.load(name))) for name in library.names()]


@pytest.mark.nightly
@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="npm brings KaTeX, and node runs it")
def test_katex_sets_the_equations_of_every_program(docs, tmp_path):
    docs("scripts").scripts(tmp_path, DOCS.parent / "build" / "packages")
    programs = [*(library.load(name) for name in library.names()), ti.parse(ODD)]
    texts = json.dumps([str(ti.inspect.latex(program)) for program in programs])
    subprocess.run(["node", "-e", SETS, tmp_path], input=texts, text=True, check=True)


def test_a_quarter_of_a_turn_of_the_gallery_is_one(docs):
    before, after = docs("gallery").run("advection_third_order")
    # a hill at (16, 24) is turned around (24, 24), counterclockwise, to (24, 16)
    assert centre(before) == pytest.approx((16, 24), abs=0.01)
    assert centre(after) == pytest.approx((24, 16), abs=0.1)


def centre(hill):
    places = np.arange(48) + 0.5
    return [float(places @ hill.values.sum(axis)) / float(hill.values.sum()) for axis in (1, 0)]
