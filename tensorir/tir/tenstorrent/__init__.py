"""Kernels of TileLang for grids of Tensix cores: transforms of TIR, shown by running them to change nothing.

`defaults`, `schedule` and `shard` write down as attributes how a kernel is laid out; `persistent` makes of its grid a
loop over the tiles of one core; `pipeline` runs these four and shows the kernel before and after each; `verify` shows,
by running kernels, that none changes a bit. `split` makes the reader, the computation and the writer of a core, with
circular buffers between them; `check` finds faults of their protocol in the text, and `simulate` runs them on all
cores, tile by tile.
"""

from __future__ import annotations

from tensorir.tir.tenstorrent.defaults import defaults
from tensorir.tir.tenstorrent.kernels.check import check
from tensorir.tir.tenstorrent.kernels.faults import Fault
from tensorir.tir.tenstorrent.kernels.nodes import Program
from tensorir.tir.tenstorrent.kernels.simulate import Simulation, simulate
from tensorir.tir.tenstorrent.persistent import persistent
from tensorir.tir.tenstorrent.pipeline import pipeline
from tensorir.tir.tenstorrent.schedule import partition, schedule
from tensorir.tir.tenstorrent.shard import shard
from tensorir.tir.tenstorrent.sizes import sized
from tensorir.tir.tenstorrent.split import split
from tensorir.tir.tenstorrent.verify import Verdict, verify

__all__ = [
    "Fault", "Program", "Simulation", "Verdict", "check", "defaults", "partition", "persistent", "pipeline", "schedule",
    "shard", "simulate", "sized", "split", "verify",
]  # fmt: skip
