"""Texts with one to three tokens changed: read, checked, printed and lifted, or refused, and never anything else."""

from __future__ import annotations

import pytest

from tests.tir.mutated_texts import mutant, outcome, pool_of, samples

TEXTS = samples()
POOL = pool_of(TEXTS)


@pytest.mark.parametrize("seed", range(8))
def test_a_mutant_is_read_or_refused(seed: int):
    for k in range(seed * 60, seed * 60 + 60):
        text = mutant(TEXTS, POOL, k)
        assert outcome(text) is None, text
