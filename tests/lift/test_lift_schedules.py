"""Schedules undone: conformance modules that were made from others have the text of these."""

from __future__ import annotations

import pytest

from tests.lift.schedules import Pair, lifted, moves, pairs, same_arithmetic, up_to_names

ABSENT = pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in pairs()] or [ABSENT])
def test_a_scheduled_module_has_the_text_of_its_base_where_the_arithmetic_is_the_same(pair: Pair):
    text, base = lifted(pair.name), lifted(pair.base)
    assert up_to_names(text) == up_to_names(base) or not same_arithmetic(pair)


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in pairs()] or [ABSENT])
def test_a_scheduled_module_moves_no_more_data_than_its_base(pair: Pair):
    assert not moves(lifted(pair.name)) - moves(lifted(pair.base))
