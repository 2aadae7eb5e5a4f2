"""The plan of a compilation: what passes and the lowering chose, their thresholds, what each costs without."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import jax

from lowering.calls import executable
from lowering.calls.executable import Executable, Options
from lowering.gradients import checkpointed_loop
from lowering.kernels import custom_calls, equations, native, regions, reports_of, stages, sweeps
from lowering.raising import NAMES, RULES, contractions, reductions
from lowering.raising.windows import MOST_POINTS
from lowering.rules import folds, indirect, neighbours, structure
from lowering.rules.neighbours import padding_of
from tensorir.analysis import cost
from tensorir.analysis.cost import bytes_of, predicted
from tensorir.ir.nodes import Fencil
from tensorir.passes import conditionals
from tensorir.passes.decisions import Comparison, Decision, Memory, Places, Plan, Threshold, shortened
from tensorir.passes.pipeline import PASSES, Stages
from tensorir.runtime.errors import did_you_mean, refuse

# The choices that the lowering makes besides the passes, and every threshold that a choice is compared with.
#
# `ti.compile(f, without="unrolled_folds")` switches one off, as it does a pass or a rule of `lowering.raising`.

PAGE = "docs/lowering.md"


@dataclass(frozen=True, slots=True)
class LoweringChoice:
    """A choice of the lowering between two ways of emission."""

    taken: str
    """Effect of the choice; `{}` stands for what is compared with the threshold."""
    otherwise: str
    reason: str
    instead: str
    """Why it is not made where it is not."""
    threshold: Threshold | None = None
    gradients: bool = False
    """True if it changes gradients alone."""


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
            "MOST_REPEATED", neighbours.MOST_REPEATED, "gathers for each pass over memory",
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
    "native_kernels": LoweringChoice(
        "scans and stencils are kernels of LLVM", "scans and stencils are XLA's loops",
        "what one scan or stencil hands on to the next stays in registers and caches",
        "arrays are small, numerics='exact' rounds every operation of a scan, or llvmlite is missing",
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
    Threshold("COPIED", executable.COPIED, "bytes of results from which on memory is handed on", f"{PAGE}, Memory"),
    Threshold("MOST_READERS", neighbours.MOST_READERS, "readers of a source", f"{PAGE}, Neighbour tables"),
    Threshold(
        "MOST_BY_SLOT", neighbours.MOST_BY_SLOT, "times the gathers of joined slots", f"{PAGE}, Neighbour tables"
    ),
    Threshold("PER_BYTE", cost.PER_BYTE, "additions per byte", f"{PAGE}, Pointwise stencils"),
    Threshold("CACHE", cost.CACHE, "bytes that a cache holds", f"{PAGE}, Pointwise stencils"),
    Threshold("BEYOND", cost.BEYOND, "times as dear are bytes beyond", f"{PAGE}, Pointwise stencils"),
    Threshold("LIBRARY", folds.LIBRARY, "elements from which on XLA reduces by a library", _SUMS),
    Threshold("COLUMNS", folds.COLUMNS, "columns from which on rows are combined", _SUMS),
    Threshold("MADE", folds.MADE, "the same of an array that is made", _SUMS),
    Threshold("SHORTEST", contractions.SHORTEST, "products from which on a sum is a contraction", _RULES),
    Threshold("FEWEST_CHANNELS", contractions.FEWEST_CHANNELS, "channels of a convolution", _RULES),
    Threshold("MOST_GROUPS", contractions.MOST_GROUPS, "convolutions side by side", _RULES),
    Threshold("MOST_COLUMNS", reductions.MOST_COLUMNS, "columns of a scan that is cumulative on GPUs", _SET),
    Threshold("FEWEST_LEVELS", reductions.FEWEST_LEVELS, "levels of such a scan", _SET),
    Threshold("MOST_POINTS", MOST_POINTS, "points of a window that is sliced", _RULES),
    Threshold("DEEPEST", conditionals.DEEPEST, "conditionals inside of each other", _SET),
    Threshold("OFTEN", conditionals.OFTEN, "times that a choice is traced", _SET),
    Threshold("MOST_KEPT", checkpointed_loop.MOST_KEPT, "times its buffers that a loop keeps", _REVERSE),
    Threshold("FREE", checkpointed_loop.FREE, "bytes that are kept in any case", _REVERSE),
    Threshold("MOST_LEVELS", checkpointed_loop.MOST_LEVELS, "levels of checkpoints", _REVERSE),
    Threshold("LEAST_KEPT", checkpointed_loop.LEAST_KEPT, "rounds of a while that are kept at least", _REVERSE),
    Threshold("MOST_KEPT of a while", checkpointed_loop.MOST_KEPT_OF_WHILES, "rounds that are kept at most", _REVERSE),
    Threshold("STORED", regions.STORED, "additions that take as long as to store an element", _SET),
    Threshold("MOST_INSTANCES", regions.MOST_INSTANCES, "variables at positions in a kernel", _SET),
    Threshold("MOST_IN_STEP", sweeps.MOST_IN_STEP, "variables at positions in a step of a scan", _SET),
    Threshold("MOST_IN_NATIVE_STEP", sweeps.MOST_IN_NATIVE_STEP, "the same on CPUs", _SET),
    Threshold("WORTH_THREADS", custom_calls.WORTH_THREADS, "instructions that several threads share", _SET),
    Threshold("SMALL", native.SMALL, "bytes of a block from which on it has fewer columns", _SET),
    Threshold("SHORT", native.SHORT, "variables at positions in steps of wide blocks", _SET),
    Threshold(
        "WORTH_A_GRID",
        executable.WORTH_A_GRID,
        "bytes of the largest array of stencils in a kernel",
        f"{PAGE}, Kernels on CPUs",
    ),
    Threshold("STORED_NEAR", regions.STORED_NEAR, "additions that take as long as a row of a ring", _SET),
    Threshold("NEAR", regions.NEAR, "bytes of such a row", _SET),
    Threshold("FUSED", regions.FUSED, "times fewer elements are XLA's where stencils are kernels", _SET),
    Threshold("HELD", stages.HELD, "bytes of rings from which on blocks are tiles", _SET),
    Threshold("OVERLAP", stages.OVERLAP, "times the rows that two blocks compute", _SET),
    Threshold("WRITTEN_OUT", stages.WRITTEN_OUT, "elements of a row that are folded one by one", _SET),
    Threshold("OUTSIDE", stages.OUTSIDE, "bytes of a step from which on several are a kernel", _SET),
    Threshold("MOST_STEPS", stages.MOST_STEPS, "steps of such a kernel", _SET),
    Threshold("LONGEST_FOLD", equations.LONGEST_FOLD, "elements of a fold in a kernel", _SET),
    Threshold("ROUNDS", checkpointed_loop.ROUNDS, "rounds of a while of which none runs twice", _REVERSE),
)
"""The limits that are no option of a pass; those of passes are told by `Pass.thresholds`."""


def names() -> frozenset[str]:
    """The names that `without=` accepts: passes, rules and choices of the lowering."""
    return frozenset(PASSES) | NAMES | frozenset(CHOICES)


# The plan of a compilation: what passes and the lowering chose, what each costs without, predicted and measured.

ROUNDS = 15
"""Turns of each way when a plan is measured."""
GRADIENT = "gradient"
"""Key of the time of the gradient, with all choices made, among measured times."""


def switched_off(options: Options, off: Iterable[str]) -> Options:
    """The options without some passes, rules and choices, by name; raises A39 for an unknown name."""
    off = frozenset(off)
    for name in sorted(off - names(), key=str):
        hint = did_you_mean(name, sorted(names())) or "c.plan() names those that there are."
        raise refuse("A39", f"there is no choice {name!r}.", hint)
    return replace(
        options,
        passes=tuple(p for p in options.passes if p.name() not in off),
        raising=options.raising - off,
        without=options.without | (off & frozenset(CHOICES)),
    )


def changes_gradients(name: str) -> bool:
    """True if a choice is one of gradients alone."""
    return name in CHOICES and CHOICES[name].gradients


def ways_of(
    call: Callable[[Options, Mapping[str, Any]], Callable[..., Any]], options: Options, names: Iterable[str],
    arguments: Mapping[str, Any],
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """Functions to time for a plan: the call itself (""), the call without each of `names`, and gradients where
    these change.

    `call(options, fixed)` is the program as a function of the arguments that are not fixed. Gradients are those of the
    sum of all results by all floating arrays; without any, choices of gradients are left out.
    """
    options = replace(options, donate=())
    ways: dict[str, Callable[[], Any]] = {"": call(options, arguments)}
    floats = {n: a for n, a in arguments.items() if isinstance(a, jax.Array) and a.dtype.kind in "fV"}
    fixed = {n: a for n, a in arguments.items() if n not in floats}

    def gradient(options: Options) -> Callable[[], Any]:
        """A function that computes the gradient under some options."""
        function = call(options, fixed)

        def total(floats: Mapping[str, Any]) -> jax.Array:
            """The sum of all floating results."""
            leaves = jax.tree_util.tree_leaves(function(**floats))
            return sum((jax.numpy.sum(x) for x in leaves if x.dtype.kind in "fV"), jax.numpy.zeros(()))

        derived = jax.jit(jax.grad(total))

        def run() -> Any:
            """The gradient for the given arrays."""
            with jax.enable_x64(True):
                return derived(floats)

        return run

    for name in names:
        reduced_options = switched_off(options, [name])
        if not changes_gradients(name):
            ways[name] = call(reduced_options, arguments)
        elif floats:
            ways.setdefault(GRADIENT, gradient(options))
            ways[name] = gradient(reduced_options)
    return ways


def planned(
    executable: Executable,
    stages: Stages[Fencil],
    run: Callable[[Options], Stages[Fencil]],
    measured: Mapping[str, Sequence[float]] | None = None,
) -> Plan:
    """The plan of a traced executable, whose passes made `stages`; `run(options)` gives those under other options.

    `measured`: the seconds of each round by the name switched off, "" for none, GRADIENT for the gradient with all.
    """
    options, fencil, source = executable.options, executable.fencil, stages.source
    decisions = [d for stage in stages for d in stage.decided()]
    decisions += _lowering_decisions(executable)
    prediction = predicted(fencil, options.without)
    comparisons: dict[str, Comparison] = {}
    measured = measured or {}
    base = measured.get("")
    for name in dict.fromkeys(d.name for d in decisions if d.taken):
        reduced_options = switched_off(options, [name])
        without = predicted(run(reduced_options).result, reduced_options.without | {name}).total
        seconds, gradient = measured.get(name), changes_gradients(name)
        reference_seconds = measured.get(GRADIENT) if gradient else base
        comparisons[name] = Comparison(
            without if without != prediction.total else None,
            median(seconds) if seconds else None,
            median(b / a for a, b in zip(reference_seconds, seconds, strict=True))
            if reference_seconds and seconds
            else None,
            gradient,
        )
    changed_passes = {s.name.partition("(")[0] for s in stages}
    has_native_kernels = executable.parts is not None and options.platform == "cpu"
    return Plan(
        source.name, options.platform, tuple(decisions), prediction,
        Memory(
            sum(bytes_of(p.type) for p in source.inputs), sum(bytes_of(p.type) for p in source.results),
            # what kernels on CPUs hand on is in caches
            prediction.temporaries if not has_native_kernels else
            sum(d.bytes for d in decisions if d.name == "native_kernels"),
        ),
        comparisons, median(base) if base else None,
        tuple(p.name() for p in options.passes if p.name() not in changed_passes),
        tuple(t for p in options.passes for t in p.thresholds()) + THRESHOLDS,
    )  # fmt: skip


def _lowering_decisions(executable: Executable) -> list[Decision]:
    """The choices of the lowering while the program was traced: rules, thresholds, tables, options of XLA, kernels."""
    fencil = executable.fencil
    places, says = Places(fencil), {rule.name: rule.says for rule in RULES}
    rows = [
        Decision(name, shortened(node), places.of(node), True, says[name].rstrip("."), span=node.span)
        for name, node in executable.fired
    ]
    for c in executable.chosen:
        rows.append(replace(_decision(c.name, c.taken, c.value, places.of(c.node), c.bytes), span=c.node.span))
    for name, table in executable.differentiable.items():
        size = sum(
            r.nbytes for r in jax.tree_util.tree_leaves((table.readers, table.destinations, table.readers_by_slot))
        )
        rows.append(_decision("inverse_tables", bool(table.readers), padding_of(table), f"table {name}", size))
    if executable.is_stencil:
        is_taken = "gathered_cotangents" not in executable.options.without
        rows.append(_decision("gathered_cotangents", is_taken, 0, "whole program"))
    if executable.sums_as_loops and executable.options.platform == "cpu":
        rows.append(_decision("sums_as_loops", "sums_as_loops" not in executable.options.without, 0, "whole program"))
    return list(dict.fromkeys([*rows, *_kernel_decisions(executable)]))


def _kernel_decisions(executable: Executable) -> list[Decision]:
    """The regions that are kernels and, on GPUs, those left to XLA; one row if there are no kernels but could be."""
    options, native = executable.options, executable.options.platform == "cpu"
    if executable.parts is None:
        may_have_kernels = "scan" in executable.operations if native else options.platform == "gpu"
        is_declined = may_have_kernels and (options.numerics == "exact" or native)
        return [_decision("native_kernels" if native else "kernels", False, 0, "whole program")] if is_declined else []
    regions = [t for t in reports_of(executable.parts, executable.leaves) if t.taken or not native]
    name = "native_kernels" if native else "kernels"
    return [Decision(name, t.what, t.where, t.taken, t.why, bytes=t.bytes) for t in regions]


def _decision(name: str, is_taken: bool, value: float, where: str, size: int = 0) -> Decision:
    """The row of a choice, taken or not, with the value compared with its threshold and the bytes that it stores."""
    choice = CHOICES[name]
    what = (choice.taken if is_taken else choice.otherwise).format(value)
    why = choice.reason if is_taken else choice.instead
    return Decision(name, what, where, is_taken, why, value, choice.threshold, size if is_taken else 0)


def interleaved(ways: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """The seconds of each function in each round; rounds shuffle their order, and each is called twice before."""
    for way in ways.values():
        for _ in range(2):
            jax.block_until_ready(way())
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    orders, order = random.Random(0), list(ways)
    for _ in range(rounds):
        orders.shuffle(order)
        for name in order:
            begin = time.perf_counter()
            jax.block_until_ready(ways[name]())
            seconds[name].append(time.perf_counter() - begin)
    return seconds
