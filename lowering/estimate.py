"""A program compiled for a device that is not there: what XLA's compiler for it says the program takes.

Compilers for TPUs and GPUs run on any machine, for a description of the device (`jax.experimental.topologies`). The
figures are the compilers' own estimates, and not measurements.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from lowering.targets import lowered_for, target_of

__all__ = ["Estimate", "estimated"]

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What XLA says of a program on one device of a kind."""

    target: str
    kernels: int
    """Instructions that run, those of loops once: fusions, copies, calls."""
    cycles: int | None
    """Estimated clock cycles, loops as often as they turn where that is known; None where the compiler says nothing."""
    bytes_accessed: int | None
    """Bytes that kernels read and write; None where there are loops and the compiler does not say it."""
    arguments: int
    """Bytes of the arguments."""
    results: int
    """Bytes of the results."""
    temporaries: int
    """Bytes of device memory besides arguments and results."""
    collectives: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many operations between devices, by kind."""
    registers: int | None = None
    """The most registers of a thread of a kernel; None where nobody counts them, as on TPUs."""
    spilled: int | None = None
    """Bytes that threads keep in memory for want of registers."""

    def __str__(self) -> str:
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles"
        accessed = "" if self.bytes_accessed is None else f"{self.bytes_accessed:,} bytes accessed, "
        lines = [
            f"{self.target}, an estimate of XLA's compiler: {self.kernels} kernels{cycles}",
            f"{accessed}{self.temporaries:,} bytes of temporaries; "
            f"{self.arguments:,} of arguments, {self.results:,} of results",
        ]
        if self.registers is not None:
            lines.append(f"up to {self.registers} registers a thread, {self.spilled:,} bytes spilled")
        return "\n".join(lines + [f"{count} {name}" for name, count in self.collectives.items()])


def estimated(target: str, function: Any, *given: Any) -> Estimate:
    """What the compiler for a target says of a jitted function of some shapes, and its assembler of registers."""
    kind = target_of(target)
    with tempfile.TemporaryDirectory() as folder:
        options = dict(kind.options)
        if assembler := _assembler() if kind.architecture else None:
            options["xla_dump_to"] = folder
        with lowered_for(target):
            lowered = function.trace(*given).lower(lowering_platforms=(kind.lowered_for,))
        compiled = lowered.compile(options or None)
        found = _registers(assembler, kind.architecture, folder) if assembler else None
    registers, spilled = found or (None, None)
    return replace(_estimate(target, compiled), registers=registers, spilled=spilled)


def _estimate(target: str, compiled: Any) -> Estimate:
    """What a compiled program (`jax.stages.Compiled`) says of itself."""
    text, memory, cost = compiled.as_text(), compiled.memory_analysis(), compiled.cost_analysis() or {}
    kernels, cycles, collectives = counted(text)
    accessed = int(cost["bytes accessed"]) if "bytes accessed" in cost else bytes_of_kernels(text)
    return Estimate(
        target, kernels, cycles, accessed, memory.argument_size_in_bytes,
        memory.output_size_in_bytes, memory.temp_size_in_bytes, collectives,
    )  # fmt: skip


def _assembler() -> Path | None:
    """NVIDIA's assembler, where the package of its compiler is installed."""
    try:
        found = importlib.util.find_spec("nvidia.cuda_nvcc")
    except ModuleNotFoundError:
        return None
    places = found.submodule_search_locations if found is not None else None
    paths = [Path(place) / "bin" / "ptxas" for place in places or ()]
    return next((path for path in paths if path.exists()), None)


_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def _registers(assembler: Path, architecture: str, folder: str) -> tuple[int, int] | None:
    """The most registers of a thread, and the bytes that threads spill, of what the compiler left in a folder."""
    said = ""
    for path in sorted(Path(folder).glob("*.ptx")):
        if path.stat().st_size:
            command = [str(assembler), f"-arch={architecture}", "-v", str(path), "-o", "/dev/null"]
            said += subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = [int(n) for n in _REGISTERS.findall(said)]
    return (max(registers), sum(map(int, _SPILLED.findall(said)))) if registers else None


_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"|"end_to_end_cycles":([\d.]+)')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_LIMIT = re.compile(r"= [su]\d+\[\]\S* constant\((\d+)\)")
_BODIES = re.compile(r"(?:body|to_apply|\w+_computations?)=\{?([^,}]*(?:, ?%[^,}]*)*)")
_PALLAS = '"__gpu$xla.gpu.triton"'
"""The target of a kernel of Pallas, of whose cycles the compiler says nothing."""
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
    kernels, cycles, known, unknown = 0, 0, False, False
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
            unknown |= _PALLAS in line
            if said := _CYCLES.search(line):
                cycles, known = cycles + times * round(float(said[1] or said[2])), True
    return kernels, cycles if known and not unknown else None, dict(collectives)


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


_NAMED = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_SHAPE = re.compile(r"\b([a-z]+\d*(?:e\dm\d\w*)?)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")


def bytes_of_kernels(text: str) -> int | None:
    """Bytes of operands and results of the kernels of optimised HLO, from their types; None where there are loops.

    >>> bytes_of_kernels('''
    ... ENTRY %main (x: f32[4]) -> f32[2] {
    ...   %x = f32[4]{0} parameter(0)
    ...   ROOT %g = f32[2]{0} fusion(%x), kind=kLoop, calls=%d
    ... }''')
    24
    """
    inside = text[text.index("ENTRY ") :].splitlines()[1:]
    sizes: dict[str, int] = {}
    total = 0
    for line in inside:
        found = _NAMED.match(line)
        if found is None:
            continue
        name, shape, op, rest = found.groups()
        sizes[name] = sum(_size(element, extents) for element, extents in _SHAPE.findall(shape))
        if op in ("while", "call", "conditional"):
            return None
        if op not in FREE:
            operands = _OPERAND.findall(rest.partition(")")[0])
            total += sizes[name] + sum(sizes.get(o, 0) for o in operands)
    return total


def _size(element: str, extents: str) -> int:
    digits = re.match(r"[a-z]+(\d+)", element)
    bits = 8 if element == "pred" or digits is None else int(digits[1])
    return prod(int(n) for n in extents.split(",") if n) * bits // 8
