"""Kernels of TileLang for grids of Tensix cores: transforms of TIR, shown by running them to change nothing.

`defaults`, `schedule` and `shard` write down as attributes how a kernel is laid out; `persistent` makes of its grid a
loop over the tiles of one core; `verify` shows, by running both, that this changes no bit.
"""

from __future__ import annotations

from tensorir.tir.tenstorrent.defaults import defaults
from tensorir.tir.tenstorrent.persistent import persistent
from tensorir.tir.tenstorrent.schedule import partition, schedule
from tensorir.tir.tenstorrent.shard import shard
from tensorir.tir.tenstorrent.verify import Verdict, verify

__all__ = ["Verdict", "defaults", "partition", "persistent", "schedule", "shard", "verify"]
