"""How many generated programs and cases a run tries: all in `make nightly`, a tenth of them otherwise."""

import os
from collections.abc import Iterable

import pytest

__all__ = ["examples", "sampled"]


def examples(nightly: int) -> int:
    """The number for this run. `make fuzz` draws new ones of all these properties without end."""
    return nightly if "NIGHTLY" in os.environ else -(-nightly // 10)


def sampled(cases: Iterable[str], each: int = 4) -> list[object]:
    """Cases of one kind for `pytest.mark.parametrize`: each fourth is tried in every run, the others nightly."""
    return [pytest.param(c, marks=[pytest.mark.nightly] if k % each else []) for k, c in enumerate(cases)]
