"""The page that shows a kernel before and after each pass of a lift: its blocks run, and no pass is left out."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tensorir.lifting.assemble import SOURCE, STORAGE

PAGE = Path(__file__).parents[2] / "docs" / "lift.md"


def test_the_blocks_of_the_page_print_what_it_says():
    text = PAGE.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    found = doctest.DocTestParser().get_doctest(blocks, {}, "lift.md", str(PAGE), 0)
    results = doctest.DocTestRunner(verbose=False).run(found)
    assert results.failed == 0 and results.attempted > 10


def test_each_pass_has_a_section_in_the_order_in_which_it_runs():
    sections = re.findall(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [*(title for title, _, _ in (*SOURCE, *STORAGE)), "schedule", "canonical"]
