"""What grows with a program's length grows linearly, counted and not timed; curves and their pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import tensorir as ti
from tests.benchmarks.growth import SERIES, Curve, Series, chain, measured, picture, pointwise
from tests.effort import count_lines

STAGES: dict[str, Callable[[ti.Fencil], object]] = {
    "parse": lambda program: ti.parse(str(program)),
    "print": str,
    "passes": lambda program: ti.compile(program).pipeline(),
    "lower": lambda program: ti.compile(program).lowered(),
}


@pytest.mark.parametrize("text", [chain, pointwise])
@pytest.mark.parametrize("stage", STAGES)
def test_a_program_four_times_as_long_takes_four_times_as_many_lines(stage: str, text: Callable[[int], str]):
    run = STAGES[stage]
    run(ti.parse(text(8)))
    short, long = (count_lines(partial(run, ti.parse(text(n)))) for n in (200, 800))
    assert long < 4.2 * short


def test_programs_have_about_as_many_operations_as_asked_for():
    for text in (chain, pointwise):
        assert 300 <= str(ti.parse(text(400))).count("let") * {chain: 4, pointwise: 3}[text] <= 500


def test_a_series_that_takes_too_long_ends_there():
    series = Series("things", (1, 10, 100, 1000), (1, 10), lambda n: {"linear": 0.01 * n, "square": 0.01 * n * n})
    linear, square = measured(series)
    assert linear.sizes == square.sizes == (1, 10, 100)
    assert round(linear.exponent, 6) == 1.0 and round(square.exponent, 6) == 2.0
    assert measured(series, quick=True)[0].sizes == (1, 10)


def test_the_picture_of_a_series_has_its_curves_with_their_slopes(tmp_path: Path):
    picture(SERIES["points"], [Curve("ours", (10, 100), (1.0, 10.0))], tmp_path / "points.svg")
    assert "<!-- ours (1.0) -->" in (tmp_path / "points.svg").read_text()
