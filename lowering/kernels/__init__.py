"""Kernels: a program of `jax.lax` in regions, each of which runs as one kernel (docs/gpus.md, docs/lowering.md).

A program, and each program that is derived of it, is one primitive (`primitive.py`). Where XLA compiles for a GPU, its
equations are flattened (`program.py`), its arrays laid out (`layouts.py`), and the whole is parted into regions
(`regions.py`), each of which is evaluated at symbolic positions (`positions.py`, `instances.py`) inside of a kernel of
Pallas (`emit.py`). On CPUs scans alone are: in the text of LLVM (`native.py`, `vectors.py`), which XLA calls
(`custom_calls.py`). Everywhere else it is the program as it was. Steps that are repeated keep their layout.
"""

from lowering.kernels.custom_calls import is_available
from lowering.kernels.primitive import (
    bound,
    in_kernels,
    interpreted,
    parted_as_a_whole,
    plan_of_steps,
    repeated,
    without_kernels,
)
from lowering.kernels.regions import Parts, parted
from lowering.kernels.report import reports_of

__all__ = [
    "Parts",
    "bound",
    "in_kernels",
    "interpreted",
    "is_available",
    "parted",
    "parted_as_a_whole",
    "plan_of_steps",
    "repeated",
    "reports_of",
    "without_kernels",
]
