"""Pairs of programs by kind get the level that they deserve, and none that differs is called equal."""

import pytest

import tensorir as ti
from tensorir.equality.verdict import Level
from tests.equality.pairs import PAIRS, Pair

KINDS = sorted({p.kind for p in PAIRS})


def test_there_are_enough_pairs_of_both_sorts() -> None:
    different = [p for p in PAIRS if p.level == Level.DIFFERENT]
    assert len(PAIRS) >= 120 and len(different) >= 45


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_get_the_level_that_they_deserve(kind: str) -> None:
    wrong: list[str] = []
    for pair in (p for p in PAIRS if p.kind == kind):
        found = ti.equivalent(pair.one(), pair.other())
        if not deserved(pair, found.level):
            wrong.append(f"{pair.name}: {pair.level.name} is deserved, and it is {found.level.name}: {found}")
        assert bool(found) == (pair.level >= Level.REALS), pair.name
    assert not wrong, "\n".join(wrong)


def deserved(pair: Pair, level: Level) -> bool:
    exact = pair.level in (Level.DIFFERENT, Level.WITHIN)
    return level == pair.level if exact else level >= pair.level
