"""The table of passes: every one by the name that it has in a pipeline."""

from __future__ import annotations

from tensorir.passes.argument_reductions import ArgumentReductions
from tensorir.passes.base import Pass
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.combine_shifts import CombineShifts
from tensorir.passes.condition_propagation import PropagateConditions
from tensorir.passes.conditionals import Conditionals
from tensorir.passes.contractions import Contractions
from tensorir.passes.cse import Cse
from tensorir.passes.fold_constants import FoldConstants
from tensorir.passes.fuse_closures import FuseClosures
from tensorir.passes.fuse_into_scans import FuseIntoScans
from tensorir.passes.fuse_scans import FuseScans
from tensorir.passes.inline import Inline
from tensorir.passes.materialise import Materialise
from tensorir.passes.needed_points import NeededPoints
from tensorir.passes.pools import Pools
from tensorir.passes.prune import Prune
from tensorir.passes.simplify import Simplify
from tensorir.passes.split_closures import SplitClosures
from tensorir.passes.split_scans import SplitScans
from tensorir.passes.temporaries import Temporaries
from tensorir.passes.top_k import TopK
from tensorir.passes.unroll_loops import UnrollLoops

__all__ = ["PASSES"]

_ALL: tuple[type[Pass], ...] = (
    ArgumentReductions,
    BlockScans,
    CombineShifts,
    Conditionals,
    Contractions,
    Cse,
    FoldConstants,
    FuseClosures,
    FuseIntoScans,
    FuseScans,
    Inline,
    Materialise,
    NeededPoints,
    Pools,
    Prune,
    PropagateConditions,
    Simplify,
    SplitClosures,
    SplitScans,
    Temporaries,
    TopK,
    UnrollLoops,
)
PASSES: dict[str, type[Pass]] = {p.name(): p for p in _ALL}
"""Every pass by its name in a pipeline."""
