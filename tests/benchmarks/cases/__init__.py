"""The cases of the table, one file each, in the order in which they are shown."""

from __future__ import annotations

from tests.benchmarks.case import Case
from tests.benchmarks.cases import (
    advection,
    chain,
    hdiff,
    icon_scan,
    laplacian,
    lifted,
    nabla,
    neighbour_sum,
    shallow_water,
    time_loops,
    tridiagonal,
    vertical_advection,
)

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *laplacian.CASES,
    *hdiff.CASES,
    *advection.CASES,
    *shallow_water.CASES,
    *time_loops.CASES,
    *chain.CASES,
    *neighbour_sum.CASES,
    *nabla.CASES,
    *tridiagonal.CASES,
    *vertical_advection.CASES,
    *icon_scan.CASES,
    *lifted.CASES,
)
