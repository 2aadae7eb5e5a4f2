"""Programs compiled for devices that are not there, and what XLA's compiler says that they cost."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from jax.experimental import topologies
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from tensorir.runtime.errors import did_you_mean, refuse

# The devices that programs are compiled for without being there: for each, what XLA's compiler is told of it.
#
# TPUs are named; of GPUs the compiler gets the figures of the device, those that its maker prints.

_GPU = """
platform_name: "CUDA"
device_description_str: "{name}"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 9 }}
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: 0 }}
  core_count: {cores}
  fpus_per_core: {fpus}
  clock_rate_ghz: {clock}
  memory_bandwidth: {bandwidth}
  device_memory_size: {memory}
  l2_cache_size: {cache}
  shared_memory_per_core: {shared_core}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {shared_block}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
"""
_NAMES = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
_H100 = _GPU.format(
    name=_NAMES[1], major=9, cores=132, fpus=128, clock=1.98, bandwidth=3_352_000_000_000,
    memory=80 << 30, cache=50 << 20, shared_core=228 << 10, shared_block=227 << 10,
)  # fmt: skip
_A100 = _GPU.format(
    name=_NAMES[0], major=8, cores=108, fpus=64, clock=1.41, bandwidth=2_039_000_000_000,
    memory=80 << 30, cache=40 << 20, shared_core=164 << 10, shared_block=163 << 10,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device."""

    platform: str
    """As JAX calls it where the device is: "tpu" or "gpu"."""
    lowered_for: str
    """As JAX calls it in lowering and compiling."""
    topology: Mapping[str, Any]
    """What the compiler is told of the device."""
    install: str
    """What brings the compiler."""
    architecture: str = ""
    """Of NVIDIA's assembler, which counts registers."""
    device: str = ""
    """What a GPU calls itself."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the compiler is asked for besides."""


def _tpu(topology: str) -> Target:
    return Target("tpu", "tpu", {"topology_name": topology}, "pip install 'jax[tpu]'")


def _cuda(description: str, device: str, architecture: str, cycles: bool) -> Target:
    """A GPU target; `cycles`: the compiler has times for its operations and is asked for estimates."""
    topology = {"topology_name": "", "target_config": description, "topology": "1x1x1"}
    options = {"xla_gpu_collect_cost_model_stats": True} if cycles else {}
    # without a driver JAX takes the plugin for broken where it could be asked to run something on it
    install = "pip install 'jax[cuda12]'; where there is no GPU, start Python with JAX_PLATFORMS=cpu"
    return Target("gpu", "cuda", topology, install, architecture, device, options)


TARGETS: Mapping[str, Target] = {
    "tpu:v4": _tpu("v4:2x2x1"),
    "tpu:v5e": _tpu("v5e:2x2"),
    "tpu:v5p": _tpu("v5p:2x2x1"),
    "tpu:v6e": _tpu("v6e:2x2"),
    # XLA's model has no times of the operations of an A100 (JAX 0.10.2)
    "cuda:a100": _cuda(_A100, _NAMES[0], "sm_80", cycles=False),
    "cuda:h100": _cuda(_H100, _NAMES[1], "sm_90a", cycles=True),
}
"""By what a user writes."""


def target_of(name: str) -> Target:
    """The target of a name; raises A37 for one that is not known.

    >>> target_of("tpu:v5e").platform, target_of("cuda:h100").platform
    ('tpu', 'gpu')
    """
    if name not in TARGETS:
        hint = did_you_mean(name, TARGETS) or f"use {', '.join(TARGETS)}."
        raise refuse("A37", f"there is no target '{name}'.", hint)
    return TARGETS[name]


def device_of(name: str) -> Any:
    """An abstract device of a target; raises A38 if its compiler is not installed."""
    target = target_of(name)
    # without it the compiler asks the network which machine this is
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    try:
        return topologies.get_topology_desc(platform=target.lowered_for, **target.topology).devices[0]
    except (RuntimeError, ValueError) as wrong:
        first_line = str(wrong).partition("\n")[0].rstrip(".")
        help_ = f"install the one that fits jax: {target.install}."
        raise refuse("A38", f"the compiler for {name} is not here: {first_line}.", help_) from wrong


def lowered_for(name: str) -> AbstractContextManager[Any]:
    """The context for lowering to a target: an abstract mesh of its GPU, which Pallas asks for from JAX 0.11 on."""
    target = target_of(name)
    if not target.device:
        return nullcontext()
    device = AbstractDevice(target.device, None, target.platform)
    return use_abstract_mesh(AbstractMesh((), (), abstract_device=device))


# A program compiled for a device that is not there: what XLA's compiler for it says the program takes.
#
# Compilers for TPUs and GPUs run on any machine, for a description of the device (`jax.experimental.topologies`). The
# figures are the compilers' own estimates, and not measurements.

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Estimate:
    """XLA's estimate of a program on one device of a kind."""

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
        """The figures that are known, in a few lines."""
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


def estimated(target: str, function: Any, *shapes: Any) -> Estimate:
    """The estimate by a target's compiler of a jitted function at some shapes; registers from its assembler's
    output.

    `shapes`: `jax.ShapeDtypeStruct`s whose shardings have the devices of the target's topology, for which XLA then
    compiles; none of them need be there.
    """
    described_target = target_of(target)
    with tempfile.TemporaryDirectory() as folder:
        options = dict(described_target.options)
        if assembler := _assembler() if described_target.architecture else None:
            options["xla_dump_to"] = folder
        with lowered_for(target):
            lowered = function.trace(*shapes).lower(lowering_platforms=(described_target.lowered_for,))
        compiled = lowered.compile(options or None)
        usage = _registers(assembler, described_target.architecture, folder) if assembler else None
    registers, spilled = usage or (None, None)
    return replace(_estimate(target, compiled), registers=registers, spilled=spilled)


def _estimate(target: str, compiled: Any) -> Estimate:
    """The estimate from a compiled program (`jax.stages.Compiled`): its HLO text, memory and cost analysis."""
    text, memory, cost = compiled.as_text(), compiled.memory_analysis(), compiled.cost_analysis() or {}
    kernels, cycles, collectives = counted(text)
    accessed = int(cost["bytes accessed"]) if "bytes accessed" in cost else bytes_of_kernels(text)
    return Estimate(
        target, kernels, cycles, accessed, memory.argument_size_in_bytes,
        memory.output_size_in_bytes, memory.temp_size_in_bytes, collectives,
    )  # fmt: skip


def _assembler() -> Path | None:
    """The path of NVIDIA's assembler `ptxas`; None if the package of its compiler is not installed."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvcc")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec is not None else None
    paths = [Path(place) / "bin" / "ptxas" for place in places or ()]
    return next((path for path in paths if path.exists()), None)


_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def _registers(assembler: Path, architecture: str, folder: str) -> tuple[int, int] | None:
    """The most registers of a thread and the bytes spilled by all, as the assembler reports for the PTX files in a
    folder.

    None if there are none.
    """
    report = ""
    for path in sorted(Path(folder).glob("*.ptx")):
        if path.stat().st_size:
            command = [str(assembler), f"-arch={architecture}", "-v", str(path), "-o", "/dev/null"]
            report += subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = [int(n) for n in _REGISTERS.findall(report)]
    return (max(registers), sum(map(int, _SPILLED.findall(report)))) if registers else None


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
    """Kernels, cycles and collective operations in optimised HLO; cycles of a loop's body count once per iteration.

    Cycles are None if no instruction has an estimate, or a kernel of Pallas has none.

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
        if head := _COMPUTATION.match(line):
            name = head[2]
            lines[name] = []
            entry = name if head[1] else entry
        elif name:
            lines[name].append(line)
    kernels, cycles, any_known, any_unknown = 0, 0, False, False
    collectives: Counter[str] = Counter()
    stack = [(entry, 1)]
    while stack:
        name, repetitions = stack.pop()
        for line in lines.get(name, ()):
            instruction = _INSTRUCTION.match(line)
            if instruction is None or instruction[1] in FREE:
                continue
            op = instruction[1]
            if op in ("while", "conditional", "call"):
                inner = [n.strip().lstrip("%") for part in _BODIES.findall(line) for n in part.split(",")]
                stack += [(n, repetitions * (_trips(line, lines) if op == "while" else 1)) for n in inner]
                continue
            kernels += 1
            collectives.update(c for c in COLLECTIVES if op.startswith(c))
            any_unknown |= _PALLAS in line
            if cycle_match := _CYCLES.search(line):
                cycles, any_known = cycles + repetitions * round(float(cycle_match[1] or cycle_match[2])), True
    return kernels, cycles if any_known and not any_unknown else None, dict(collectives)


def _trips(line: str, lines: Mapping[str, list[str]]) -> int:
    """The trip count of a loop: as XLA knows it, or the one constant that its condition compares with; else 1.

    `lines`: the lines of each computation, by name.
    """
    if count_match := _TRIPS.search(line):
        return int(count_match[1])
    condition = _CONDITION.search(line)
    condition_lines = lines.get(condition[1], []) if condition else []
    # wide counters are pairs of narrow ones, compared with 0 and with the limit
    limits = {int(n) for text in condition_lines for n in _LIMIT.findall(text)} - {0}
    counts = any("direction=LT" in text for text in condition_lines)
    return min(limits) if counts and len(limits) == 1 else 1


_NAMED = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_SHAPE = re.compile(r"\b([a-z]+\d*(?:e\dm\d\w*)?)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")


def bytes_of_kernels(text: str) -> int | None:
    """Bytes of operands and results of the kernels in optimised HLO, from their types; None if there are loops or
    calls.

    >>> bytes_of_kernels('''
    ... ENTRY %main (x: f32[4]) -> f32[2] {
    ...   %x = f32[4]{0} parameter(0)
    ...   ROOT %g = f32[2]{0} fusion(%x), kind=kLoop, calls=%d
    ... }''')
    24
    """
    entry_lines = text[text.index("ENTRY ") :].splitlines()[1:]
    sizes: dict[str, int] = {}
    total = 0
    for line in entry_lines:
        instruction = _NAMED.match(line)
        if instruction is None:
            continue
        name, shape, op, operand_text = instruction.groups()
        sizes[name] = sum(_size(element, extents) for element, extents in _SHAPE.findall(shape))
        if op in ("while", "call", "conditional"):
            return None
        if op not in FREE:
            operands = _OPERAND.findall(operand_text.partition(")")[0])
            total += sizes[name] + sum(sizes.get(o, 0) for o in operands)
    return total


def _size(element: str, extents: str) -> int:
    digits = re.match(r"[a-z]+(\d+)", element)
    bits = 8 if element == "pred" or digits is None else int(digits[1])
    return prod(int(n) for n in extents.split(",") if n) * bits // 8
