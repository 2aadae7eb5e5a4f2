"""A program compiled for a device that is not there: what XLA's compiler for it says the program takes.

Compilers for TPUs and GPUs run on any machine, for a description of the device (`jax.experimental.topologies`). The
figures are the compilers' own estimates, and not measurements.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jax.experimental import topologies

from tensorir.arrays import refuse
from tensorir.errors import did_you_mean

__all__ = ["TARGETS", "Estimate", "device_of", "estimate", "platform_of"]

TARGETS: Mapping[str, tuple[str, str]] = {
    "tpu:v4": ("tpu", "v4:2x2x1"),
    "tpu:v5e": ("tpu", "v5e:2x2"),
    "tpu:v5p": ("tpu", "v5p:2x2x1"),
    "tpu:v6e": ("tpu", "v6e:2x2"),
}
"""The platform of JAX and the name of the smallest topology with a device, by what a user writes."""

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What XLA says of a program on one device of a kind."""

    target: str
    kernels: int
    """Instructions that run, those of loops once: fusions, copies, calls."""
    cycles: int | None
    """Estimated clock cycles, loops as often as they turn where that is known; None where the compiler says nothing."""
    bytes_accessed: int
    """Bytes that kernels read and write."""
    arguments: int
    """Bytes of the arguments."""
    results: int
    """Bytes of the results."""
    temporaries: int
    """Bytes of device memory besides arguments and results."""
    collectives: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many operations between devices, by kind."""

    def __str__(self) -> str:
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles"
        lines = [
            f"{self.target}, an estimate of XLA's compiler: {self.kernels} kernels{cycles}",
            f"{self.bytes_accessed:,} bytes accessed, {self.temporaries:,} of temporaries; "
            f"{self.arguments:,} of arguments, {self.results:,} of results",
        ]
        return "\n".join(lines + [f"{count} {name}" for name, count in self.collectives.items()])


def platform_of(target: str) -> str:
    """The platform of JAX of a target.

    >>> platform_of("tpu:v5e")
    'tpu'
    """
    if target not in TARGETS:
        raise refuse(
            "A37", f"there is no target '{target}'.", did_you_mean(target, TARGETS) or f"use {', '.join(TARGETS)}."
        )
    return TARGETS[target][0]


def device_of(target: str) -> Any:
    """A device of a target, as a description; raises A38 where its compiler is not installed."""
    platform, name = TARGETS[target]
    # without it the compiler asks the network which machine this is
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    try:
        return topologies.get_topology_desc(platform=platform, topology_name=name).devices[0]
    except (RuntimeError, ValueError, NotImplementedError) as wrong:
        help_ = "install the one that fits jax: pip install 'jax[tpu]'."
        raise refuse("A38", f"the compiler for {target} is not here: {_first_line(wrong)}.", help_) from wrong


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0].rstrip(".")


def estimate(target: str, compiled: Any) -> Estimate:
    """What a compiled program (`jax.stages.Compiled`) says of itself."""
    text, memory, cost = compiled.as_text(), compiled.memory_analysis(), compiled.cost_analysis() or {}
    kernels, cycles, collectives = counted(text)
    return Estimate(
        target, kernels, cycles, int(cost.get("bytes accessed", 0)), memory.argument_size_in_bytes,
        memory.output_size_in_bytes, memory.temp_size_in_bytes, collectives,
    )  # fmt: skip


_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_LIMIT = re.compile(r"= [su]\d+\[\]\S* constant\((\d+)\)")
_BODIES = re.compile(r"(?:body|to_apply|\w+_computations?)=\{?([^,}]*(?:, ?%[^,}]*)*)")
FREE = frozenset([
    "parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "copy-done", "slice-done",
    "async-done",
])  # fmt: skip
"""Instructions that take no time of their own."""


def counted(text: str) -> tuple[int, int | None, dict[str, int]]:
    """Kernels, cycles and operations between devices of optimised HLO, those of loops as often as they turn.

    >>> counted('''
    ... %body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
    ...   %f = f32[4] fusion(%p), kind=kLoop, calls=%c, backend_config={"estimated_cycles":"7"}
    ... }
    ... ENTRY %main (x: f32[4]) -> f32[4] {
    ...   %x = f32[4] parameter(0)
    ...   %w = (s32[], f32[4]) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"3"}}
    ...   ROOT %g = f32[4] fusion(%w), kind=kLoop, calls=%d, backend_config={"estimated_cycles":"5"}
    ... }''')
    (2, 26, {})
    """
    lines: dict[str, list[str]] = {}
    entry, name = "", ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            name = found[2]
            lines[name] = []
            entry = name if found[1] else entry
        elif name:
            lines[name].append(line)
    kernels, cycles, known = 0, 0, False
    collectives: Counter[str] = Counter()
    stack = [(entry, 1)]
    while stack:
        name, times = stack.pop()
        for line in lines.get(name, ()):
            found = _INSTRUCTION.match(line)
            if found is None or found[1] in FREE:
                continue
            op = found[1]
            if op in ("while", "conditional", "call"):
                inner = [n.strip().lstrip("%") for part in _BODIES.findall(line) for n in part.split(",")]
                stack += [(n, times * (_trips(line, lines) if op == "while" else 1)) for n in inner]
                continue
            kernels += 1
            collectives.update(c for c in COLLECTIVES if op.startswith(c))
            if said := _CYCLES.search(line):
                cycles, known = cycles + times * int(said[1]), True
    return kernels, cycles if known else None, dict(collectives)


def _trips(line: str, lines: Mapping[str, list[str]]) -> int:
    """How often a loop turns: as XLA says, or up to the one constant that its condition compares with; else once."""
    if said := _TRIPS.search(line):
        return int(said[1])
    condition = _CONDITION.search(line)
    inside = lines.get(condition[1], []) if condition else []
    # wide counters are pairs of narrow ones, compared with 0 and with the limit
    limits = {int(n) for text in inside for n in _LIMIT.findall(text)} - {0}
    counts = any("direction=LT" in text for text in inside)
    return min(limits) if counts and len(limits) == 1 else 1
