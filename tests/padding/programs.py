"""Templates in which every construct meets an end that is a size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensorir.ir.nodes import Fencil
from tensorir.ir.types import DTYPES
from tests.corpus import corpus

PROGRAMS = {title: text for title, (text, _) in corpus(Path(__file__).with_suffix(".txt")).items()}


def drawn(fencil: Fencil, seed: int = 0) -> dict[str, Any]:
    """Arrays for what a fencil reads: floats of at least a half, indices below 4 and below every extent."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for p in fencil.inputs:
        dtype, shape = DTYPES[p.type.leaves[0]], p.type.dims.shape
        fractions = random.random(shape) + 0.5
        found[p.name] = fractions.astype(dtype) if dtype.kind == "f" else (4 * (fractions - 0.5)).astype(dtype)
    return found


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """The same arrays apart: a call writes into those of outputs."""
    return {name: np.array(a) for name, a in given.items()}
