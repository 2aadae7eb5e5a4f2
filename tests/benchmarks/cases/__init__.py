"""The cases of the table, one file each, in the order in which they are shown."""

from __future__ import annotations

from tests.benchmarks.case import Case
from tests.benchmarks.cases import hdiff, neighbour_sum, tridiagonal, vertical_advection

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *hdiff.CASES,
    *tridiagonal.CASES,
    *vertical_advection.CASES,
    *neighbour_sum.CASES,
)
