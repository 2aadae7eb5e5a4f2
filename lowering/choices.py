"""The choices that the lowering makes besides the passes, and every threshold that a choice is compared with.

`ti.compile(f, without="unrolled_folds")` switches one off, as it does a pass or a rule of `lowering.raising`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering import folds, host_results, indirect, neighbours, reads_per_loop, reduction, structure
from lowering.gradients import checkpointed_loop, checkpointed_while
from lowering.kernels import equations, regions, sweeps
from lowering.raising import NAMES, contractions, convolutions, prefixes
from lowering.raising.windows import MOST_POINTS
from tensorir.analysis import cost
from tensorir.passes import conditionals
from tensorir.passes.decisions import Threshold
from tensorir.passes.pipeline import PASSES

__all__ = ["CHOICES", "THRESHOLDS", "LoweringChoice", "names"]

PAGE = "docs/lowering.md"


@dataclass(frozen=True, slots=True)
class LoweringChoice:
    """What is emitted in one of two ways."""

    taken: str
    """What is done where the choice is made; `{}` stands for what is compared with the threshold."""
    otherwise: str
    reason: str
    instead: str
    """Why it is not made where it is not."""
    threshold: Threshold | None = None
    gradients: bool = False
    """Whether it changes what gradients are, and nothing else."""


CHOICES: Mapping[str, LoweringChoice] = {
    "unrolled_folds": LoweringChoice(
        "{} steps written out", "a reduction, or a loop, of {} steps",
        "XLA fuses what is written out with what is around it", "so many steps would cost compile time",
        Threshold("MOST_UNROLLED", folds.MOST_UNROLLED, "steps", f"{PAGE}, Neighbour tables"),
    ),
    "reads_by_slot": LoweringChoice(
        "a gather for each of {} neighbours", "one gather of all {} neighbours",
        "what is read slot by slot is folded as it is read", "so many gathers would cost compile time",
        Threshold("MOST_SLOTS", indirect.MOST_SLOTS, "neighbours", f"{PAGE}, Neighbour tables"),
    ),
    "reads_per_loop": LoweringChoice(
        "neighbours are read again in each loop", "what is made of neighbours is stored for all loops",
        "XLA fuses a gather only into a single reader", "so many gathers take longer than to store it",
        Threshold(
            "MOST_REPEATED", reads_per_loop.MOST_REPEATED, "gathers for each pass over memory",
            f"{PAGE}, Neighbour tables",
        ),
    ),
    "inverse_tables": LoweringChoice(
        "gradients are gathers, {:.3g} for each reader", "gradients are scatters",
        "the transpose of a gather as gathers through the inverse table",
        "some sources have many readers, or more than most",
        Threshold("MOST_PADDED", neighbours.MOST_PADDED, "gathers for each reader", f"{PAGE}, Neighbour tables"),
        gradients=True,
    ),
    "in_place_updates": LoweringChoice(
        "a part is updated in place", "the array is made anew around a part",
        "nothing else is read of the array, or it is much larger than the part",
        "the array is read around the part, and is not much larger",
        Threshold("MUCH_LARGER", structure.MUCH_LARGER, "times the part", f"{PAGE}, Parts of arrays"),
    ),
    "scans_outermost": LoweringChoice(
        "the scanned dim is outermost", "levels are read where they lie",
        "a step then reads and writes whole rows of memory", "it is switched off",
    ),
    "gathered_cotangents": LoweringChoice(
        "gradients gather cotangents at opposite offsets", "gradients pad and add cotangents",
        "the transpose of a stencil is a stencil", "it is switched off", gradients=True,
    ),
    "sums_as_loops": LoweringChoice(
        "stencils are summed in parts, without XLA's fusion", "stencils are summed by XLA's fusion for sums",
        "that fusion computes what it sums without vector instructions", "it is switched off",
    ),
    "kernels": LoweringChoice(
        "one kernel", "XLA's own kernels", "each array is read once, and states stay in registers",
        "numerics='exact' rounds every operation, and kernels contract products and sums",
    ),
}  # fmt: skip
"""By what `without=` calls them."""

_RULES = f"{PAGE}, Contractions and other recognised forms; python -m tests.benchmarks.forms"
_SUMS = f"{PAGE}, Reductions; python -m tests.benchmarks.forms"
_REVERSE = f"{PAGE}, Gradients; python -m tests.benchmarks.memory"
_SET = "set, and not measured"

THRESHOLDS: tuple[Threshold, ...] = (
    *(c.threshold for c in CHOICES.values() if c.threshold is not None),
    Threshold("COPIED", host_results.COPIED, "bytes of results from which on memory is handed on", f"{PAGE}, Memory"),
    Threshold("MOST_READERS", neighbours.MOST_READERS, "readers of a source", f"{PAGE}, Neighbour tables"),
    Threshold(
        "MOST_BY_SLOT", neighbours.MOST_BY_SLOT, "times the gathers of joined slots", f"{PAGE}, Neighbour tables"
    ),
    Threshold("PER_BYTE", cost.PER_BYTE, "additions per byte", f"{PAGE}, Pointwise stencils"),
    Threshold("CACHE", cost.CACHE, "bytes that a cache holds", f"{PAGE}, Pointwise stencils"),
    Threshold("BEYOND", cost.BEYOND, "times as dear are bytes beyond", f"{PAGE}, Pointwise stencils"),
    Threshold("LIBRARY", reduction.LIBRARY, "elements from which on XLA reduces by a library", _SUMS),
    Threshold("COLUMNS", reduction.COLUMNS, "columns from which on rows are combined", _SUMS),
    Threshold("MADE", reduction.MADE, "the same of an array that is made", _SUMS),
    Threshold("SHORTEST", contractions.SHORTEST, "products from which on a sum is a contraction", _RULES),
    Threshold("FEWEST_CHANNELS", convolutions.FEWEST_CHANNELS, "channels of a convolution", _RULES),
    Threshold("MOST_GROUPS", convolutions.MOST_GROUPS, "convolutions side by side", _RULES),
    Threshold("MOST_COLUMNS", prefixes.MOST_COLUMNS, "columns of a scan that is cumulative on GPUs", _SET),
    Threshold("FEWEST_LEVELS", prefixes.FEWEST_LEVELS, "levels of such a scan", _SET),
    Threshold("MOST_POINTS", MOST_POINTS, "points of a window that is sliced", _RULES),
    Threshold("DEEPEST", conditionals.DEEPEST, "conditionals inside of each other", _SET),
    Threshold("OFTEN", conditionals.OFTEN, "times that a choice is traced", _SET),
    Threshold("MOST_KEPT", checkpointed_loop.MOST_KEPT, "times its buffers that a loop keeps", _REVERSE),
    Threshold("FREE", checkpointed_loop.FREE, "bytes that are kept in any case", _REVERSE),
    Threshold("MOST_LEVELS", checkpointed_loop.MOST_LEVELS, "levels of checkpoints", _REVERSE),
    Threshold("LEAST_KEPT", checkpointed_while.LEAST_KEPT, "rounds of a while that are kept at least", _REVERSE),
    Threshold("MOST_KEPT of a while", checkpointed_while.MOST_KEPT, "rounds that are kept at most", _REVERSE),
    Threshold("STORED", regions.STORED, "additions that take as long as to store an element", _SET),
    Threshold("MOST_INSTANCES", regions.MOST_INSTANCES, "variables at positions in a kernel", _SET),
    Threshold("MOST_IN_STEP", sweeps.MOST_IN_STEP, "variables at positions in a step of a scan", _SET),
    Threshold("LONGEST_FOLD", equations.LONGEST_FOLD, "elements of a fold in a kernel", _SET),
    Threshold("ROUNDS", checkpointed_while.ROUNDS, "rounds of a while of which none runs twice", _REVERSE),
)
"""The limits that are no option of a pass; those of passes are told by `Pass.thresholds`."""


def names() -> frozenset[str]:
    """What `without=` may name: passes, rules and choices of the lowering."""
    return frozenset(PASSES) | NAMES | frozenset(CHOICES)
