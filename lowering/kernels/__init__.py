"""Kernels for GPUs: a program of `jax.lax` in regions, each of which runs as one kernel of Pallas (docs/gpus.md).

A program, and each program that is derived of it, is one primitive (`primitive.py`). Where XLA compiles for a GPU, its
equations are flattened (`program.py`) and parted into regions (`regions.py`), and a region is evaluated at symbolic
positions (`positions.py`, `instances.py`) inside of a kernel (`emit.py`). Everywhere else it is the program as it was.
"""

from lowering.kernels.primitive import bound, in_kernels, interpreted
from lowering.kernels.regions import Parts, parted
from lowering.kernels.report import told

__all__ = ["Parts", "bound", "in_kernels", "interpreted", "parted", "told"]
