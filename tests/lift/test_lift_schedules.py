"""Schedules undone: what was made from other modules steps, looks up and computes as these do."""

from __future__ import annotations

import pytest

from tests.lift.costs import Costs, kept
from tests.lift.schedules import Pair, pairs

ABSENT = pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in pairs()] or [ABSENT])
def test_a_scheduled_module_takes_no_more_than_its_base(pair: Pair):
    one, base = (Costs.parse(kept()[f"TIR: {name}"]) for name in (pair.name, pair.base))
    assert one.near(base) and one.gathers <= base.gathers
