"""Transformations of programs: one file per pass, each a frozen dataclass whose fields are its options.

A pass takes a program and returns one of the same meaning: the same bits for every input. `Pipeline` runs several by
name; `PASSES` is the table that it reads.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float>, x: tensor<float>) { out ← -(-x); }")
>>> print(ti.Pipeline("simplify")(f))
f(out: tensor<float>, x: tensor<float>) {
  out ← x;
}
"""

from __future__ import annotations

from tensorir.passes.base import Pass
from tensorir.passes.combine_shifts import CombineShifts
from tensorir.passes.condition_propagation import PropagateConditions
from tensorir.passes.cse import Cse
from tensorir.passes.fold_constants import FoldConstants
from tensorir.passes.fuse_closures import FuseClosures
from tensorir.passes.fuse_into_scans import FuseIntoScans
from tensorir.passes.fuse_scans import FuseScans
from tensorir.passes.inline import Inline
from tensorir.passes.pipeline import Pipeline
from tensorir.passes.prune import Prune
from tensorir.passes.simplify import Simplify
from tensorir.passes.split_closures import SplitClosures
from tensorir.passes.split_scans import SplitScans
from tensorir.passes.table import PASSES
from tensorir.passes.temporaries import Temporaries

__all__ = [
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
]
