"""Texts with one to three tokens changed: read or refused, and never anything else."""

from __future__ import annotations

import random
import re

import pytest
from tir_samples import kernels

from tensorir.errors import DiagnosticError
from tensorir.tir import parse, print_module

TEXTS = [str(parameter.values[0]) for parameter in kernels("new", "old", "relax")]  # type: ignore[attr-defined]
TOKEN = re.compile(r'\s+|\w+|"[^"\n]*"|.')
POOL = [token for text in TEXTS for token in TOKEN.findall(text) if token.strip()]


@pytest.mark.parametrize("seed", range(4))
def test_a_mutant_is_read_or_refused(seed: int):
    random_numbers = random.Random(seed)
    for _ in range(150):
        tokens = TOKEN.findall(random_numbers.choice(TEXTS))
        for _ in range(random_numbers.randint(1, 3)):
            place = random_numbers.randrange(len(tokens))
            if random_numbers.random() < 0.4:
                del tokens[place]
            else:
                tokens[place] = random_numbers.choice(POOL)
        try:
            module = parse("".join(tokens))
        except DiagnosticError:
            continue
        for dialect in ("new", "old"):
            assert parse(print_module(module, dialect)) == module
