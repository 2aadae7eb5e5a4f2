"""Transformations of programs: each a frozen dataclass whose fields are its options, those of a subject in one file.

A pass takes a program and returns one of the same meaning: the same bits for every input. `Pipeline` runs several by
name; `PASSES` is the table that it reads.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float>, x: tensor<float>) { out ← -(-x); }")
>>> print(ti.passes.Pipeline("simplify")(f))
f(out: tensor<float>, x: tensor<float>) {
  out ← x;
}
"""

from __future__ import annotations

from tensorir.passes.base import Pass
from tensorir.passes.closures import FuseClosures, Inline, Prune, SplitClosures, Temporaries
from tensorir.passes.conditionals import PropagateConditions
from tensorir.passes.explain import explain
from tensorir.passes.pipeline import DEFAULT_PASSES, PASSES, Pipeline
from tensorir.passes.restrict import restrict
from tensorir.passes.scans import FuseIntoScans, FuseScans, SplitScans
from tensorir.passes.simplify import CombineShifts, Cse, FoldConstants, Simplify

__all__ = [
    "DEFAULT_PASSES",
    "PASSES",
    "CombineShifts",
    "Cse",
    "FoldConstants",
    "FuseClosures",
    "FuseIntoScans",
    "FuseScans",
    "Inline",
    "Pass",
    "Pipeline",
    "PropagateConditions",
    "Prune",
    "Simplify",
    "SplitClosures",
    "SplitScans",
    "Temporaries",
    "explain",
    "restrict",
]
