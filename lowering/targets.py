"""The devices that programs are compiled for without being there: for each, what XLA's compiler is told of it.

TPUs are named; of GPUs the compiler gets the figures of the device, those that its maker prints.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from jax.experimental import topologies
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from tensorir.binding.arrays import refuse
from tensorir.runtime.errors import did_you_mean

__all__ = ["TARGETS", "Target", "device_of", "lowered_for", "target_of"]

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
    told = {"topology_name": "", "target_config": description, "topology": "1x1x1"}
    asked = {"xla_gpu_collect_cost_model_stats": True} if cycles else {}
    # without a driver JAX takes the plugin for broken where it could be asked to run something on it
    install = "pip install 'jax[cuda12]'; where there is no GPU, start Python with JAX_PLATFORMS=cpu"
    return Target("gpu", "cuda", told, install, architecture, device, asked)


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
        raise refuse(
            "A37", f"there is no target '{name}'.", did_you_mean(name, TARGETS) or f"use {', '.join(TARGETS)}."
        )
    return TARGETS[name]


def device_of(name: str) -> Any:
    """A device of a target, as a description; raises A38 where its compiler is not installed."""
    target = target_of(name)
    # without it the compiler asks the network which machine this is
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    try:
        return topologies.get_topology_desc(platform=target.lowered_for, **target.topology).devices[0]
    except (RuntimeError, ValueError) as wrong:
        help_ = f"install the one that fits jax: {target.install}."
        raise refuse("A38", f"the compiler for {name} is not here: {_first_line(wrong)}.", help_) from wrong


def lowered_for(name: str) -> AbstractContextManager[Any]:
    """Where programs are lowered for a target: Pallas asks which GPU it is (from JAX 0.11 on)."""
    target = target_of(name)
    if not target.device:
        return nullcontext()
    device = AbstractDevice(target.device, None, target.platform)
    return use_abstract_mesh(AbstractMesh((), (), abstract_device=device))


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0].rstrip(".")
