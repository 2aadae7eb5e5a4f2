"""What a bar draws on a terminal and in a notebook."""

import io
import sys
import types

import pytest

from lowering.loops import progress
from lowering.loops.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_rich_draws_the_steps_that_are_done(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bar = Bar(10, patience=0.0, label="over time")
    bar.move(4)
    assert "over time" in sys.stderr.getvalue() and " 4/10" in sys.stderr.getvalue()
    bar.close()
    assert sys.stderr.getvalue().endswith("\x1b[?25h")  # the cursor is there again


@pytest.fixture
def notebook(monkeypatch):
    """A kernel that notes what is displayed and what that is replaced by."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    shell = types.SimpleNamespace(kernel=None)
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return shown


def test_in_a_notebook_one_output_is_replaced_and_empty_in_the_end(notebook, capsys):
    assert progress.is_shown(None)
    bar = Bar(10, patience=0.0)
    bar.move(4)
    bar.move(10)
    bar.close()
    assert [data["text/plain"].partition(" in ")[0][-8:] for data in notebook] == ["", " 4 of 10", "10 of 10", ""]
    assert "4/10" in notebook[1]["text/html"] and notebook[1]["text/html"].count("<pre>") == 1
    assert notebook[-1] == {"text/plain": ""}
    assert capsys.readouterr() == ("", "")


def test_without_rich_the_bar_is_a_line_of_text(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_has_rich", lambda: False)
    bar = Bar(10, patience=0.0)
    bar.move(5)
    assert notebook[1]["text/html"].startswith("<pre>|###############               | 5 of 10 in ")
    monkeypatch.setattr(progress, "_in_notebook", lambda: False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Bar(10, patience=0.0)
    bar.move(5)
    bar.close()
    assert sys.stderr.getvalue().startswith("\r|###############               | 5 of 10 in ")


def test_a_run_that_is_over_at_once_draws_nothing(notebook):
    bar = Bar(10)
    bar.move(10)
    bar.close()
    assert notebook == []
