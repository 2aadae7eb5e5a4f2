"""The plan of a compilation: what passes and the lowering chose, what each costs without, predicted and measured."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import jax

from lowering.choices import CHOICES, THRESHOLDS, names
from lowering.context import Chosen
from lowering.executable import Executable, Options
from lowering.kernels import told
from lowering.neighbours import padding_of
from lowering.raising import RULES
from tensorir.analysis.cost import bytes_of, predicted
from tensorir.binding.arrays import refuse
from tensorir.ir.nodes import Fencil
from tensorir.passes.decisions import Comparison, Decision, Memory, Places, Plan, shortened
from tensorir.passes.pipeline import Stages
from tensorir.runtime.errors import did_you_mean

__all__ = ["interleaved", "planned", "switched_off", "ways_of"]

ROUNDS = 15
"""Turns of each way when a plan is measured."""
GRADIENT = "gradient"
"""What the times of the gradient, with all choices made, are called among those that are measured."""


def switched_off(options: Options, off: Iterable[str]) -> Options:
    """The options without some passes, rules and choices; raises A39 for a name that is none."""
    off = frozenset(off)
    for name in sorted(off - names()):
        hint = did_you_mean(name, sorted(names())) or "c.plan() names those that there are."
        raise refuse("A39", f"there is no choice {name!r}.", hint)
    return replace(
        options,
        passes=tuple(p for p in options.passes if p.name() not in off),
        raising=options.raising - off,
        without=options.without | (off & frozenset(CHOICES)),
    )


def changes_gradients(name: str) -> bool:
    """Whether a choice is one of gradients alone."""
    return name in CHOICES and CHOICES[name].gradients


def ways_of(
    call: Callable[[Options, Mapping[str, Any]], Callable[..., Any]], options: Options, names: Iterable[str],
    given: Mapping[str, Any],
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """A call as it is and without each choice of a name; gradients as well, where there are choices of those.

    `call(options, fixed)` is the program as a function of some arguments, by name, the others fixed. What is
    differentiated are the floats among the arrays; without any, choices of gradients are not measured.
    """
    options = replace(options, donate=())
    ways: dict[str, Callable[[], Any]] = {"": call(options, given)}
    floats = {n: a for n, a in given.items() if isinstance(a, jax.Array) and a.dtype.kind in "fV"}
    fixed = {n: a for n, a in given.items() if n not in floats}

    def gradient(options: Options) -> Callable[[], Any]:
        function = call(options, fixed)

        def total(floats: Mapping[str, Any]) -> jax.Array:
            leaves = jax.tree_util.tree_leaves(function(**floats))
            return sum((jax.numpy.sum(x) for x in leaves if x.dtype.kind in "fV"), jax.numpy.zeros(()))

        derived = jax.jit(jax.grad(total))

        def run() -> Any:
            with jax.enable_x64(True):
                return derived(floats)

        return run

    for name in names:
        off = switched_off(options, [name])
        if not changes_gradients(name):
            ways[name] = call(off, given)
        elif floats:
            ways.setdefault(GRADIENT, gradient(options))
            ways[name] = gradient(off)
    return ways


def planned(
    executable: Executable,
    stages: Stages[Fencil],
    run: Callable[[Options], Stages[Fencil]],
    measured: Mapping[str, Sequence[float]] | None = None,
) -> Plan:
    """The plan of an executable that was traced, whose passes did `stages`; `run` gives those with other options.

    `measured` has the seconds of each round by what was switched off: "" for nothing, GRADIENT in gradients.
    """
    options, fencil, source = executable.options, executable.fencil, stages.source
    decisions = [d for stage in stages for d in stage.decided()]
    decisions += _lowered(executable)
    own = predicted(fencil, options.without)
    comparisons: dict[str, Comparison] = {}
    measured = measured or {}
    base = measured.get("")
    for name in dict.fromkeys(d.name for d in decisions if d.taken):
        off = switched_off(options, [name])
        without = predicted(run(off).result, off.without | {name}).total
        took, gradient = measured.get(name), changes_gradients(name)
        beside = measured.get(GRADIENT) if gradient else base
        comparisons[name] = Comparison(
            without if without != own.total else None,
            median(took) if took else None,
            median(b / a for a, b in zip(beside, took, strict=True)) if beside and took else None,
            gradient,
        )
    kept = {s.name.partition("(")[0] for s in stages}
    return Plan(
        source.name, options.platform, tuple(decisions), own,
        Memory(
            sum(bytes_of(p.type) for p in source.inputs), sum(bytes_of(p.type) for p in source.results), own.temporaries
        ),
        comparisons, median(base) if base else None,
        tuple(p.name() for p in options.passes if p.name() not in kept),
        tuple(t for p in options.passes for t in p.thresholds()) + THRESHOLDS,
    )  # fmt: skip


def _lowered(executable: Executable) -> list[Decision]:
    """What the lowering chose while the program was traced, tables and options of XLA included."""
    fencil = executable.fencil
    places, says = Places(fencil), {rule.name: rule.says for rule in RULES}
    rows = [
        Decision(name, shortened(node), places.of(node), True, says[name].rstrip("."), span=node.span)
        for name, node in executable.fired
    ]
    rows += [_chosen(one, places) for one in executable.chosen]
    for name, table in executable.differentiable.items():
        size = sum(r.nbytes for r in jax.tree_util.tree_leaves((table.readers, table.readers_by_slot)))
        rows.append(_row("inverse_tables", bool(table.readers), padding_of(table), f"table {name}", size))
    if executable.is_stencil:
        taken = "gathered_cotangents" not in executable.options.without
        rows.append(_row("gathered_cotangents", taken, 0, "whole program"))
    if executable.sums_as_loops and executable.options.platform == "cpu":
        rows.append(_row("sums_as_loops", "sums_as_loops" not in executable.options.without, 0, "whole program"))
    return list(dict.fromkeys([*rows, *_regions(executable)]))


def _regions(executable: Executable) -> list[Decision]:
    """What becomes a kernel, and what stays with XLA."""
    options = executable.options
    if options.platform != "gpu":
        return []
    if executable.parts is None:
        return [_row("kernels", False, 0, "whole program")] if options.numerics == "exact" else []
    regions = told(executable.parts, executable.leaves)
    return [Decision("kernels", t.what, t.where, t.taken, t.why, bytes=t.bytes) for t in regions]


def _chosen(one: Chosen, places: Places) -> Decision:
    row = _row(one.name, one.taken, one.value, places.of(one.node), one.bytes)
    return replace(row, span=one.node.span)


def _row(name: str, taken: bool, value: float, where: str, size: int = 0) -> Decision:
    about = CHOICES[name]
    what = (about.taken if taken else about.otherwise).format(value)
    why = about.reason if taken else about.instead
    return Decision(name, what, where, taken, why, value, about.threshold, size if taken else 0)


def interleaved(ways: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """The seconds that each way takes, round by round, in turns of changing order; each is called twice before."""
    for way in ways.values():
        for _ in range(2):
            jax.block_until_ready(way())
    taken: dict[str, list[float]] = {name: [] for name in ways}
    orders, order = random.Random(0), list(ways)
    for _ in range(rounds):
        orders.shuffle(order)
        for name in order:
            begin = time.perf_counter()
            jax.block_until_ready(ways[name]())
            taken[name].append(time.perf_counter() - begin)
    return taken
