"""The nearest tests: what a record holds of a run, which tests it chooses, and words where there is none."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from tests import near

RAN = "tests/text/test_notation_refusals.py::test_the_outer_dim_of_a_split_counts_blocks"
RULE = "tensorir/ir/typing_of_elements.py::split_dim"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of one test."""
    path = tmp_path_factory.mktemp("near")
    assert near.record([RAN], path, ["--noconftest"]) == 0
    return path


def test_a_record_has_what_a_test_entered_and_no_more(kept: Path):
    lines = near.wanted("split_dim") | near.wanted("tensorir/ir/typing_of_elements.py")
    (row,) = near.recorded(lines, kept)
    assert row.test == RAN and RULE in row.entered and 0 < row.seconds < 60
    assert "tensorir/ir/typing_of_elements.py::merge_dims" in lines.keys() - row.entered
    assert "lowering/rules/structure.py::split_dim" in lines.keys() - row.entered


@pytest.mark.parametrize("target", ["split_dim", RULE.partition("::")[0], "tensorir/ir"])
def test_doctests_of_a_target_come_before_the_tests_that_enter_it(kept: Path, target: str):
    tests = near.nearest(target, path=kept)
    assert tests[-1] == RAN and (target if "/" in target else RULE.partition("::")[0]) in tests[:-1]


def test_functions_that_no_test_enters_are_listed(kept: Path):
    listed = {row.partition(",")[0] for row in near.never([RULE.partition("::")[0]], kept)}
    assert "tensorir/ir/typing_of_elements.py::merge_dims" in listed and RULE not in listed


def test_a_line_means_the_functions_around_it(kept: Path):
    text = (near.ROOT / RULE.partition("::")[0]).read_text(encoding="utf-8")
    line = text[: text.index("def split_dim")].count("\n") + 1
    assert list(near.wanted(f"{RULE.partition('::')[0]}:{line}")) == [RULE]
    assert near.nearest(f"{RULE.partition('::')[0]}:{line}", path=kept) == [RULE.partition("::")[0], RAN]


def test_a_part_that_is_recorded_anew_counts_in_the_place_of_its_former_rows(kept: Path, tmp_path: Path):
    (before,) = kept.iterdir()
    shutil.copy(before, tmp_path / "before.jsonl.gz")
    with gzip.open(tmp_path / "later.jsonl.gz", "wt") as out:
        out.write(f'["{RULE}", "a.py::f"]\n["{RAN}", 7.0, [1]]\n')
    os.utime(tmp_path / "before.jsonl.gz", (0, 0))
    assert near.recorded({RULE: 1}, tmp_path) == [near.Row(RAN, 7.0, frozenset(), 1)]


def test_tests_of_many_modules_are_those_of_the_best_within_the_time():
    rows = [near.Row(f"m{k}.py::t", 1.0 + k / 10, frozenset("f"), 1 + k) for k in range(30)]
    assert near.choose(rows, {"f": 3}, 100.0) == [f"m{k}.py::t" for k in range(near.MODULES)]
    assert near.choose(rows, {"f": 3}, 3.0) == ["m0.py::t", "m1.py::t"]
    again = [near.Row(f"m0.py::{name}", 1.0, frozenset(name), 1) for name in "fg"]
    assert near.choose([*again, *rows], {"f": 3, "g": 2}, 2.0) == ["m0.py::f", "m0.py::g"]


def test_without_a_record_modules_that_share_words_with_the_path_are_the_nearest(tmp_path: Path):
    tests = near.nearest("lowering/rules/folds.py", path=tmp_path / "none")
    assert tests[0] == "lowering/rules/folds.py" and "tests/lowering/test_folds.py" in tests[1:4]
    assert len(tests) <= near.MODULES + 1
    assert near.nearest("no function of that name", path=tmp_path / "none") == []


def test_a_test_that_is_gone_is_left_and_the_others_run(kept: Path):
    assert near.run([f"{RAN}_of_old", RAN], 100.0, quiet=True) == 0


@pytest.mark.nightly
def test_nothing_to_run_is_no_failure_of_a_test():
    assert near.run([f"{RAN}_of_old"], 100.0, quiet=True) == 5
