"""Kernels of TileLang for grids of Tensix cores: transforms of TIR, shown by running them to change nothing.

`defaults`, `schedule` and `shard` write down as attributes how a kernel is laid out; `persistent` makes of its grid a
loop over the tiles of one core; `pipeline` runs these four and shows the kernel before and after each; `verify` shows,
by running kernels, that none changes a bit. `split` makes the reader, the computation and the writer of a core, with
circular buffers between them; `check` finds faults of their protocol in the text, and `simulate` runs them on all
cores, tile by tile. `emit` writes a program in the calls of tt-metal, for a card.
"""

from __future__ import annotations

from tensorir.tenstorrent.estimate import Choice, Estimate, choose, estimate
from tensorir.tenstorrent.grid import defaults, shard, sized
from tensorir.tenstorrent.kernels.nodes import Program
from tensorir.tenstorrent.kernels.protocol import Fault
from tensorir.tenstorrent.kernels.simulate import Simulation, check, simulate
from tensorir.tenstorrent.metal.emit import Emitted, emit
from tensorir.tenstorrent.schedule import partition, persistent, pipeline, schedule
from tensorir.tenstorrent.split import split
from tensorir.tenstorrent.verify import Verdict, verify

__all__ = [
    "Choice", "Emitted", "Estimate", "Fault", "Program", "Simulation", "Verdict", "check", "choose", "defaults", "emit",
    "estimate", "partition", "persistent", "pipeline", "schedule", "shard", "simulate", "sized", "split", "verify",
]  # fmt: skip
