"""The tables of what is the same in other libraries: our column runs, and gives what xarray and JAX give."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tensorir as ti

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
DOCS = Path(__file__).parents[2] / "docs"
IN_AN_OPERATOR = "tensorir, in an operator"


def rows():
    """Each row of a table: its title, the columns by their headings, and the code of the cells."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *body = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()]
        for title, *cells in body:
            # tables of neighbours have pages of their own
            if "V2E" in cells[1]:
                continue
            code = [re.search(r"`([^`]*)`$", cell) for cell in cells]
            yield pytest.param(*head[1:], *code, id=f"{head[1].split()[0]}: {title}".replace("|", "").strip())


@pytest.fixture(scope="module")
def names():
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
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
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    file = tmp_path / f"{page}.py"
    file.write_text(program, encoding="utf-8")
    exec(compile(program, str(file), "exec"), {"__name__": page})
    comments = [line.partition("  # ")[2] for line in program.splitlines() if "print(" in line]
    comments = [c if "{" in c else c.partition(":")[0] for c in comments]
    assert capsys.readouterr().out.splitlines() == comments and len(comments) == count
