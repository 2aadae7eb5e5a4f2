"""Every notebook runs from top to bottom, and shows what is kept in it."""

import importlib.util
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TEMPORARY = f"{tempfile.gettempdir()}/"
LONG = {"14_a_weather_model"}
"""Those that run for minutes: a model's nine days, and gradients of two."""
LONGEST = 40
"""Lines of a cell that a reader still looks over at once; fewer are shown."""


def tools():
    spec = importlib.util.spec_from_file_location("notebook_outputs", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNS = [pytest.param(p, marks=pytest.mark.nightly if p.stem in LONG else (), id=p.stem) for p in NOTEBOOKS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", RUNS)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_is_kept(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    notebooks = tools()
    kept, fresh = nbformat.read(path, as_version=4), notebooks.stable(notebooks.executed(path, tmp_path))
    assert not any(o.output_type == "error" for c in fresh.cells if c.cell_type == "code" for o in c.outputs)
    # after a change: python docs/notebooks.py, and look at what it makes of the pages
    for cell, (before, after) in enumerate(zip(notebooks.compared(kept), notebooks.compared(fresh), strict=True)):
        assert before == after, f"code cell {cell} of {path.name} shows something else"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_what_is_kept_says_nothing_of_the_machine_and_is_short(path):
    nbformat = pytest.importorskip("nbformat")
    text = path.read_text(encoding="utf-8")
    for place in (str(Path.home()), TEMPORARY, "ipykernel_", "site-packages/"):
        assert place not in text, place
    assert len(text) < 1_000_000
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.source.count("\n") + 1 < LONGEST
            assert cell.execution_count is not None


def test_places_names_and_bars_are_not_kept():
    nbformat = pytest.importorskip("nbformat")
    new = nbformat.v4.new_output
    name = "3f2b8c1e-1111-2222-3333-444455556666"
    cell_file = f"{TEMPORARY}ipykernel_12/34.py"
    outputs = [
        new("stream", name="stdout", text="a\n"), new("stream", name="stdout", text="b in 0.31 s\n"),
        new("stream", name="stderr", text="a warning"), new("display_data", data={"text/plain": ""}),
        new("display_data", data={"text/html": "<script>x</script>", "text/plain": "x"}),
        new("display_data", data={"text/html": f"<a id='{name}'><b for='{name}'>", "text/plain": "<f at 0x7f001>"}),
        new("error", ename="E", evalue=f"{cell_file}:3:1: no", traceback=[cell_file]),
    ]  # fmt: skip
    cell = nbformat.v4.new_code_cell("1", outputs=outputs, execution_count=1)
    notebooks = tools()
    found = notebooks.stable(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert [o.output_type for o in found] == ["stream", "display_data", "error"]
    assert found[0].text == "a\nb in 0.31 s\n"
    assert found[1].data["text/html"].count("00000000-0000-0000-0000-000000000000") == 2
    assert found[1].data["text/plain"] == "<f at 0x0>"
    assert (found[2].evalue, found[2].traceback) == ("<cell>:3:1: no", ["<cell>"])
    assert notebooks.compared(nbformat.v4.new_notebook(cells=[cell]))[0][0] == ("stdout", "a\nb in…")
