"""The ways of every case compute the same; what was measured is written, read and compared."""

from __future__ import annotations

import jax
import pytest

from tests.benchmarks.case import NUMBA, Case
from tests.benchmarks.cases import CASES
from tests.benchmarks.loops import NumbaLoops
from tests.benchmarks.table import agree, prepared


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_ways_of_a_case_agree_at_a_small_size(case: Case):
    with jax.enable_x64(True):
        problem = case.problem(small=True)
        loops = case.ways.get(NUMBA)
        runs, _ = prepared({name: way for name, way in case.ways.items() if way is not loops}, problem)
        if isinstance(loops, NumbaLoops):
            runs[NUMBA] = loops.interpreted(problem)
        agree(case, runs)
