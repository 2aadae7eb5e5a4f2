"""Documents: their blocks run, and their links and names lead somewhere."""

import doctest
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType
from tensorir.lifting.assemble import SOURCE, STORAGE
from tests.documents import links

# The documents name files that exist, and the letters of codes that there are


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


# The check of links finds what is broken, and nothing is


@pytest.mark.parametrize("page", links.pages(), ids=lambda p: p.name)
def test_every_link_of_a_page_leads_somewhere(page):
    assert list(links.broken(page)) == []


def test_a_link_to_nowhere_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(links, "ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text("# Head\n[x](b.md) [y](a.md#head) [z](#tail) [w](https://example.org)\n```\n[q](c.md)\n```\n")
    assert list(links.broken(page)) == ["a.md: b.md: there is no such file", "a.md: #tail: there is no such heading"]


# The programs of `docs/libraries.md` print what they say, in a process of their own, since they turn 64 bits on

PAGE = (Path(__file__).parents[2] / "docs" / "libraries.md").read_text(encoding="utf-8")
LIBRARIES = ("diffrax", "lineax", "optax", "optimistix")


@pytest.mark.nightly
@pytest.mark.skipif(any(find_spec(name) is None for name in LIBRARIES), reason="diffrax and its kin are not installed")
def test_the_programs_with_other_libraries_print_what_the_page_says():
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == said and len(said) == 4


# The page that shows a kernel before and after each pass of a lift

LIFT = Path(__file__).parents[2] / "docs" / "lift.md"


def test_the_blocks_of_the_page_print_what_it_says():
    text = LIFT.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    found = doctest.DocTestParser().get_doctest(blocks, {}, "lift.md", str(LIFT), 0)
    results = doctest.DocTestRunner(verbose=False).run(found)
    assert results.failed == 0 and results.attempted > 10


def test_each_pass_has_a_section_in_the_order_in_which_it_runs():
    sections = re.findall(r"^## (\w+)$", LIFT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [*(title for title, _, _ in (*SOURCE, *STORAGE)), "schedule", "canonical"]


# The tables of what is the same in other libraries

COMING_FROM = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
FOLDER = Path(__file__).parents[2] / "docs"
IN_AN_OPERATOR = "tensorir, in an operator"


def rows():
    """Each row of a table: its title, the columns by their headings, and the code of the cells."""
    for table in re.findall(r"(?:^\|.*\n)+", COMING_FROM, re.MULTILINE):
        head, _, *body = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()]
        for title, *cells in body:
            # tables of neighbours have pages of their own
            if "V2E" in cells[1]:
                continue
            code = [re.search(r"`([^`]*)`$", cell) for cell in cells]
            yield pytest.param(*head[1:], *code, id=f"{head[1].split()[0]}: {title}".replace("|", "").strip())


@pytest.fixture(scope="module")
def names():
    (block,) = re.findall(r"^```python\n(.*?)^```", COMING_FROM, re.MULTILINE | re.DOTALL)
    found = {}
    exec(block, found)
    return found


def same(theirs, ours):
    """Equal wherever both have a point, by the labels where both have some; dims are matched by name."""
    ours = ours.transpose(*(d for d in ("I", "J") if d in ours.dims))
    if isinstance(theirs, xr.DataArray) and all(index.is_unique for index in theirs.indexes.values()):
        theirs, ours = xr.align(theirs, ours, join="inner")
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    there = ~np.isnan(theirs)
    assert there.any() and there.shape == ours.shape
    np.testing.assert_allclose(ours[there], theirs[there], rtol=1e-6)


@pytest.mark.parametrize(("peer", "column", "theirs", "ours"), list(rows()))
def test_a_row_of_the_tables_runs_and_gives_what_the_peer_gives(names, peer, column, theirs, ours, capsys):
    if column == IN_AN_OPERATOR:
        result = ti.field_operator(eval(f"lambda h: {ours[1]}", dict(names)))(names["h"])
    else:
        result = eval(ours[1], dict(names))
    if peer in ("xarray", "JAX"):
        same(eval(theirs[1], dict(names)), result)
    else:
        assert result is not None or capsys.readouterr().out


@pytest.mark.parametrize(("page", "count"), [("first_gradient", 5), ("labels", 9), ("ensembles", 5)])
def test_programs_print_what_their_comments_say(page, count, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    file = tmp_path / f"{page}.py"
    file.write_text(program, encoding="utf-8")
    exec(compile(program, str(file), "exec"), {"__name__": page})
    comments = [line.partition("  # ")[2] for line in program.splitlines() if "print(" in line]
    comments = [c if "{" in c else c.partition(":")[0] for c in comments]
    assert capsys.readouterr().out.splitlines() == comments and len(comments) == count


# `docs/language.md` has every builtin of the table, and its examples run and give what the page says

LANGUAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \| .+? → .+? \| (.+?) \| `(.+?)` is `(.+?)` \|$", re.MULTILINE)
ROWS = {row[0]: [cell.replace("\\|", "|") for cell in row[1:]] for row in ROW.findall(LANGUAGE)}
SECTIONS = re.findall(r"^#### `(\w+)`\n(.*?)(?=^#|\Z)", LANGUAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = re.findall(r"```example\n(.*?)\n```", LANGUAGE, re.DOTALL)
FENCILS = re.findall(r"```fencil\n(.*?)```", LANGUAGE, re.DOTALL)


def value_of(text: str) -> Any:
    return eval(re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text)), {"nan": np.nan, "inf": np.inf})


def arrays(kind: TensorType, value: Any) -> Any:
    """Nested lists as an array, of tuples as a tuple of arrays."""
    leaves = [leaf.name for leaf in kind.leaves]
    if len(leaves) == 1:
        return np.array(value, leaves[0])
    return tuple(np.array([point[k] for point in value], leaf) for k, leaf in enumerate(leaves))


def assert_gives(inputs: list[str], expression: str, kind: str, value: Any, ulp: int = 0) -> None:
    declared = [text.split(" = ")[0] for text in inputs]
    f = ti.parse(f"f({', '.join([f'out: {kind}', *declared])}) {{ out ← {expression}; }}")
    assert f.closures[0].value.type == f.params[0].type
    types = {p.name: p.type for p in f.params}
    data = {text.split(":")[0]: value_of(text.split(" = ", 1)[1]) for text in inputs}
    with np.errstate(all="ignore"):
        got = ti.reference.run(f, **{name: arrays(types[name], v) for name, v in data.items()})["out"]
    want = arrays(types["out"], value)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got)), strict=True):
        assert a.shape == b.shape
        if ulp:
            np.testing.assert_array_max_ulp(a, b, ulp)
        else:
            np.testing.assert_array_equal(a, b)


def test_every_builtin_has_an_entry_and_each_once():
    listed = [row[0] for row in ROW.findall(LANGUAGE)] + [name for name, _ in SECTIONS]
    assert sorted(listed) == sorted(TABLE)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_the_table_says(name):
    written, doc, _, _ = ROWS[name]
    row = TABLE[name]
    assert row.elementwise
    assert doc == row.doc
    glyph = next((g for g in row.glyphs if g in written), None)
    assert glyph or written.startswith((f"{name}(", "if "))


@pytest.mark.parametrize("name", ROWS)
def test_the_example_of_a_row_has_the_value_of_the_row(name):
    _, _, expression, value = ROWS[name]
    found = value_of(value)
    kind = {bool: "bool", int: "int", float: "float"}[type(found)]
    if cast := re.match(r"(int8)\(", expression):
        kind = cast[1]
    assert name in expression or any(g in expression for g in TABLE[name].glyphs)
    assert_gives([], expression, f"tensor<{kind}>", found, ulp=4 if TABLE[name].transcendental else 0)


@pytest.mark.parametrize(("name", "text"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_a_section_shows_the_builtin_in_an_example(name, text):
    example = re.search(r"```example\n(.*?)\n```", text, re.DOTALL)
    assert example
    *inputs, last = example[1].split("\n")
    expression, result = last.rsplit(" : ", 1)
    declared = [text.split(" = ")[0] for text in (f"out: {result}", *inputs)]
    f = ti.parse(f"f({', '.join(declared)}) {{ out ← {expression}; }}")
    assert name in {e.op for e in postorder(f.closures[0].value) if isinstance(e, Call)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_the_type_and_the_value_of_the_page(example):
    *inputs, last = example.split("\n")
    expression, result = last.rsplit(" : ", 1)
    kind, value = result.split(" = ", 1)
    assert_gives(inputs, expression, kind, value_of(value))


@pytest.mark.parametrize("text", FENCILS)
def test_a_fencil_of_the_page_is_a_program(text):
    f = ti.parse(text)
    assert ti.parse(str(f)) == f
